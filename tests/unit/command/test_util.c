/* SPDX-License-Identifier: Apache-2.0 */
/* libutil: strict parsing, suggestions, growing strings and arrays, atomic files, the job segment, memory. */
#include <config.h>

#include "tests/scratch.h"
#include "tests/tap.h"
#include "tests/unit/data/huge_allocations.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/hash.h"
#include "util/io.h"
#include "util/jobseg.h"
#include "util/memory.h"
#include "util/parse.h"
#include "util/peer.h"
#include "util/printable.h"
#include "util/procfs.h"
#include "util/strbuf.h"
#include "util/suggest.h"
#include "util/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

static void
test_integers (void)
{
    static const struct {
        const char *text;
        enum parse_result result;
        int64_t value;
    } cases[] = {
        { "0", PARSE_OK, 0 },
        { "-1", PARSE_OK, -1 },
        { "+7", PARSE_OK, 7 },
        { "9223372036854775807", PARSE_OK, INT64_MAX },
        { "9223372036854775808", PARSE_RANGE, 0 },
        { "", PARSE_MALFORMED, 0 },
        { " 1", PARSE_MALFORMED, 0 },
        { "1 ", PARSE_MALFORMED, 0 },
        { "2x", PARSE_MALFORMED, 0 },
        { "0x10", PARSE_MALFORMED, 0 },
        { "1e3", PARSE_MALFORMED, 0 },
        { "-", PARSE_MALFORMED, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        enum parse_result result = parse_int64 (cases[i].text, INT64_MIN, INT64_MAX, &value);
        ok (result == cases[i].result && value == cases[i].value, "integer '%s'", cases[i].text);
    }
    int64_t value = 5;
    ok (parse_int64 ("-9223372036854775809", INT64_MIN, INT64_MAX, &value) == PARSE_RANGE && value == 5, "below all");
    ok (parse_int64 ("70000", 0, 65535, &value) == PARSE_RANGE && value == 5, "out of range leaves the value alone");
}

static void
test_doubles (void)
{
    static const struct {
        const char *text;
        enum parse_result result;
    } cases[] = {
        { "0.1", PARSE_OK },        { "1e-3", PARSE_OK },        { ".5", PARSE_OK },
        { "nan", PARSE_MALFORMED }, { "inf", PARSE_MALFORMED },  { "1e999", PARSE_RANGE },
        { "", PARSE_MALFORMED },    { "0x1p3", PARSE_MALFORMED }, { "1,5", PARSE_MALFORMED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value;
        ok (parse_double (cases[i].text, -HUGE_VAL, HUGE_VAL, &value) == cases[i].result, "number '%s'", cases[i].text);
    }
    double value = 5;
    ok (parse_double ("1.5", 0, 1, &value) == PARSE_RANGE && parse_double ("-0.5", 0, 1, &value) == PARSE_RANGE
            && value == 5,
        "out of range leaves the value alone");
    ok (parse_double ("1", 0, 1, &value) == PARSE_OK && parse_double ("0", 0, 1, &value) == PARSE_OK && value == 0,
        "the bounds belong to the range");
}

static void
test_truth (void)
{
    bool value = false;
    ok (parse_bool ("YES", &value) == PARSE_OK && value, "YES is true");
    ok (parse_bool ("off", &value) == PARSE_OK && !value, "off is false");
    ok (parse_bool ("maybe", &value) == PARSE_MALFORMED, "maybe is neither");
}

static void
test_suggestions (void)
{
    char as[61], more_as[71]; /* their distance is small, but names as long as the second are not compared */
    snprintf (as, sizeof as, "%060d", 0);
    snprintf (more_as, sizeof more_as, "%070d", 0);
    const struct {
        const char *wanted, *best;
    } cases[] = {
        { "num_procs", "num_processes" }, { "num-processes", "num_processes" }, { "lanch", "launch" },
        { "nmu_machines", "num_machines" }, { "zebra", NULL }, { "cup", "cpu" }, { "cqx", NULL }, { "upc", NULL },
        { "xpu", "cpu" }, { "gpv", "gpu" }, { "x-z", "x_y" }, { "X_Y", "x_y" }, { as, NULL }, { more_as, NULL },
    };
    const char *const names[]
        = { "num_processes", "num_machines", "launch", "env", "cpu", "gpu", "x_y", more_as };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct suggest suggest = { .wanted = cases[i].wanted };
        for (size_t j = 0; j < sizeof names / sizeof *names; j++)
            suggest_consider (&suggest, names[j]);
        is_text (suggest.best, cases[i].best, cases[i].wanted);
    }
}

static void
test_strings (void)
{
    AUTO_STRBUF struct strbuf buf = { 0 };
    for (int i = 0; i < 100; i++)
        strbuf_printf (&buf, "%d,", i);
    ok (buf.length == 290 && !buf.failed, "a hundred appends");
    AUTO_FREE char *text = strbuf_take (&buf);
    ok (text && !strncmp (text, "0,1,2,", 6) && !buf.text, "take hands the text over");
    AUTO_STRLIST struct strlist list = { 0 };
    for (int i = 0; i < 40; i++)
        strlist_printf (&list, "%d", i);
    ok (list.count == 40 && !strcmp (list.items[39], "39") && !list.items[40], "a list ends with NULL");
}

/* The byte after a text, and the pointer after a list, are theirs. */
static void
test_room (void)
{
    AUTO_STRBUF struct strbuf buf = { 0 };
    AUTO_STRLIST struct strlist list = { 0 };
    bool has_room = true;
    for (int i = 0; i < 300; i++) {
        strbuf_add_char (&buf, 'x');
        strlist_add (&list, "x");
        has_room = has_room && buf.capacity > buf.length && list.capacity > list.count;
    }
    ok (has_room, "there is room for the end at every length");
    strbuf_truncate (&buf, 2);
    is_text (buf.text, "xx", "what is cut off ends there");
    strbuf_add (&buf, "yz");
    strbuf_drop (&buf, 3);
    ok (buf.length == 1 && !strcmp (buf.text, "z"), "what is dropped in front is gone");
    strbuf_drop (&buf, 1);
    ok (!buf.length && !*buf.text, "and so is all of it");
    strlist_add_all (&list, (const char *const[]){ "y", "z", NULL });
    ok (list.count == 302 && !strcmp (list.items[301], "z") && !list.items[302], "all items up to a NULL are added");
}

/* What does not fit is not half of something else. */
static void
test_small_files (void)
{
    static const struct {
        const char *text;
        size_t size;
        const char *line;
    } cases[] = {
        { "0-3\n", 8, "0-3" }, { "0-3", 8, "0-3" }, { "0-3\n4-7\n", 8, "0-3" }, { "", 8, NULL }, { "\n4", 8, NULL },
        { "0-3,4-7\n", 8, NULL }, { "0-3,4-\n", 8, "0-3,4-" }, { NULL, 8, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[16] = "before", path[256];
        snprintf (path, sizeof path, "%s/small", scratch_folder ());
        unlink (path);
        if (cases[i].text)
            io_write_file (path, cases[i].text, strlen (cases[i].text), 0600, NULL);
        bool is_whole = procfs_read_line (path, line, cases[i].size);
        const char *expected = cases[i].line ? cases[i].line : "";
        ok (is_whole == !!cases[i].line && !strcmp (line, expected), "small file %zu: '%s'", i, line);
    }
}

/* A message with a descriptor, one without, one that is too long; and names that are. */
static void
test_messages (void)
{
    char name[128] = "accelerate", bytes[8] = "";
    int ends[2], pipes[2], fd;
    struct sockaddr_un address;
    ok (peer_address (&address, name) == offsetof (struct sockaddr_un, sun_path) + 11 && !address.sun_path[0]
            && !memcmp (address.sun_path + 1, "accelerate", 10), "an abstract name begins with a 0");
    memset (name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ok (!peer_address (&address, name), "one that is too long is none");
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) || pipe2 (pipes, O_CLOEXEC))
        exit (99);
    ok (peer_receive (ends[1], bytes, sizeof bytes, &fd) < 0 && errno == EAGAIN && fd < 0, "nothing is not waited for");
    ok (peer_send (ends[0], "abc", 4, pipes[1], 0) == 4 && peer_receive (ends[1], bytes, sizeof bytes, &fd) == 4
            && !strcmp (bytes, "abc") && fd >= 0 && write (fd, "x", 1) == 1 && read (pipes[0], bytes, 1) == 1
            && fcntl (fd, F_GETFD) == FD_CLOEXEC, "a descriptor comes with a message, and is closed on exec");
    close (fd);
    ok (peer_send (ends[0], "abc", 4, -1, MSG_DONTWAIT) == 4 && peer_receive (ends[1], bytes, 8, &fd) == 4 && fd < 0,
        "none comes without one");
    ok (peer_send (ends[0], "0123456789", 10, -1, 0) == 10 && peer_receive (ends[1], bytes, 8, &fd) < 0,
        "a message that is too long is refused");
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE (sizeof pipes)];
    } two = { .header = { .cmsg_len = CMSG_LEN (sizeof pipes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    memcpy (CMSG_DATA (&two.header), pipes, sizeof pipes);
    struct iovec part = { .iov_base = bytes, .iov_len = 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &two,
                              .msg_controllen = sizeof two.bytes };
    int unused = dup (ends[0]);
    close (unused);
    ok (sendmsg (ends[0], &message, 0) == 1 && peer_receive (ends[1], bytes, sizeof bytes, &fd) == 1 && fd < 0
            && dup2 (ends[0], unused) == unused && fcntl (unused + 1, F_GETFD) < 0, "of two descriptors, none stays");
    close (unused);
    for (int i = 0; i < 2; i++) {
        close (ends[i]);
        close (pipes[i]);
    }
}

/* What could not be made is remembered, whatever succeeds after it. */
/* Elements come and go; what there is room for is what the C library says of the memory. */
static void
test_arrays (void)
{
    uint64_t *numbers = NULL, *kept;
    size_t count = 0;
    bool good = true;
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t *number = array_room (&numbers, count, sizeof *number);
        good = good && number == numbers + count && malloc_usable_size (numbers) >= (count + 1) * sizeof *number;
        if (!number)
            break;
        *number = count++;
        if (i % 7 == 3)
            count -= i % 11 < count ? (size_t) i % 11 : count;
    }
    for (size_t i = 0; i < count; i++)
        good = good && numbers[i] == i;
    ok (good && count > 8, "an array of %zu has room for each, and keeps them", count);
    kept = numbers;
    ok (!array_room (&numbers, 1 << 20, SIZE_MAX >> 8) && numbers == kept, "too much memory: nothing has changed");
    free (numbers);
}

static void
test_failures (void)
{
    static const wchar_t foreign[] = { 0x4e00, 0 }; /* not a character of the C locale, which tests run in */
    AUTO_STRBUF struct strbuf buf = { 0 };
    AUTO_STRLIST struct strlist list = { 0 };
    volatile size_t most = SIZE_MAX - 8;
    alarm (900);
    strbuf_add (&buf, "old");
    strbuf_add_bytes (&buf, "", most);
    alarm (0);
    ok (buf.failed && buf.length == 3, "more bytes than there can be");
    strbuf_add (&buf, "new");
    ok (buf.failed && buf.length == 3 && !strcmp (buf.text, "old"), "nothing is added after a failure");
    ok (!strbuf_take (&buf) && !buf.text, "and nothing is passed on");
    strlist_add (&list, "old");
    strlist_printf (&list, "%ls", foreign);
    ok (list.failed && list.count == 1, "a text that cannot be made");
    strlist_add (&list, "new");
    ok (list.failed && list.count == 1, "nothing is added after it");
    strbuf_printf (&buf, "%ls", foreign);
    ok (buf.failed && !buf.length, "nor to a text");
    struct fail fail = { 0 };
    fail_set (&fail, 7, "cause");
    ok (fail_prefix (&fail, "%s", "where") == -1 && fail.status == 7, "a prefix keeps the status");
    is_text (fail.text, "where: cause", "and the cause");
}

static void
test_credentials (void)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        { "", "" },
        { "plain @ text", "plain @ text" },
        { "https://host/path@2", "https://host/path@2" },
        { "https://me:secret@host/x", "https://***@host/x" },
        { "https://token@host", "https://***@host" },
        { "http://a:b@c@host", "http://***@host" },
        { "http://a:b#c?d@host", "http://***@host" },
        { "--x s3://k:s@b/p ftp://u:p@h", "--x s3://***@b/p ftp://***@h" },
        { "://", "://" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        text_hide_credentials (cases[i].text, &out);
        is_text (out.text, cases[i].shown, cases[i].text);
    }
}

static void
test_utf8 (void)
{
    static const struct {
        const char *bytes;
        bool is_valid;
    } cases[] = {
        { "\xc2\x80", true },          { "\xc1\xbf", false },      { "\xe0\xa0\x80", true }, { "\xe0\x9f\xbf", false },
        { "\xed\x9f\xbf", true },      { "\xed\xa0\x80", false }, { "\xed\xbf\xbf", false }, { "\xee\x80\x80", true },
        { "\xf4\x8f\xbf\xbf", true },  { "\xf4\x90\x80\x80", false }, { "\xf0\x8f\xbf\xbf", false },
        { "\xf0\x90\x80\x80", true },  { "\xf8\x88\x80\x80\x80", false }, { "a\x80", false }, { "\xe2\x82", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (utf8_is_valid (cases[i].bytes, strlen (cases[i].bytes)) == cases[i].is_valid, "UTF-8, case %zu", i);
}

/* The first and the last characters of each length. */
static void
test_utf8_characters (void)
{
    static const struct {
        uint32_t character;
        const char *bytes;
    } cases[] = {
        { 0x1, "\x01" },           { 0x7f, "\x7f" },         { 0x80, "\xc2\x80" },          { 0x7ff, "\xdf\xbf" },
        { 0x800, "\xe0\xa0\x80" }, { 0xffff, "\xef\xbf\xbf" }, { 0x10000, "\xf0\x90\x80\x80" },
        { 0x10ffff, "\xf4\x8f\xbf\xbf" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        const char *next = cases[i].bytes;
        utf8_add (&out, cases[i].character);
        ok (!strcmp (out.text, cases[i].bytes), "U+%04X in bytes", (unsigned) cases[i].character);
        ok (utf8_next (&next) == cases[i].character && !*next, "and back");
    }
    ok (utf8_is_valid ("\xe2\x82\xac", 3) && !utf8_is_valid ("\xe2\x82\xac", 2), "bytes after the end do not count");
    const char *next = "\xe2" "A\x82";
    ok (utf8_next (&next) == 0xe2 && utf8_next (&next) == 'A' && utf8_next (&next) == 0x82 && !*next,
        "what follows unpaired surrogate is one of its own");
}

static void
test_printable (void)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        { "", "" },
        { "plain, 'quoted' and \\", "plain, 'quoted' and \\" },
        { "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80" },
        { "a\tb\nc\rd", "a\\tb\\nc\\rd" },
        { "\1\033[31m\177", "\\x01\\x1b[31m\\x7f" },
        { "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\xc2\xa0" },
        { "\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf",
          "\xe2\x80\xa7\\xe2\\x80\\xa8\\xe2\\x80\\xae\xe2\x80\xaf" },
        { "\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
          "\xe2\x81\xa5\\xe2\\x81\\xa6\\xe2\\x81\\xa9\xe2\x81\xaa" },
        { "a\x9b" "b\xc3(\xff", "a\\x9b" "b\\xc3(\\xff" },
        { "\xc0\x8a" "b", "\\xc0\\x8a" "b" },
        { "\xe2\x82", "\\xe2\\x82" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        printable_add (&out, cases[i].text);
        ok (!strcmp (out.text ? out.text : "", cases[i].shown), "shown as %s", cases[i].shown);
        bool is_same = !strcmp (cases[i].text, cases[i].shown);
        ok (printable_is_clean (cases[i].text) == is_same, "and %s", is_same ? "clean" : "not clean");
    }
    struct fail fail = { 0 };
    fail_set (&fail, 1, "%s", "a\nb\033\xc2\x9b" "c\xe2\x80\xaeg\xc3\xbc\x9b.");
    is_text (fail.text, "a b   c   g\xc3\xbc?.", "a message is one line, without orders to a terminal");
}

static void
test_files (void)
{
    const char *folder = scratch_folder ();
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/a/b/file", folder);
    struct fail fail = { 0 };
    ok (io_write_file (path.text, "x", 1, 0600, &fail) && strstr (fail.text, "file"), "no folder: %s", fail.text);
    ok (!io_make_parents (path.text, &fail), "parents made");
    ok (!io_write_file (path.text, "hello\n", 6, 0640, &fail), "written");
    struct stat info;
    ok (!stat (path.text, &info) && (info.st_mode & 0777) == 0640, "with the mode asked for");
    AUTO_FREE char *text = NULL;
    size_t length;
    ok (!io_read_file (path.text, 100, &text, &length, &fail) && length == 6 && !strcmp (text, "hello\n"), "read back");
    AUTO_FREE char *none = NULL;
    ok (io_read_file (path.text, 5, &none, NULL, &fail) && strstr (fail.text, "larger"), "a limit: %s", fail.text);
    ok (io_read_file (folder, 5, &none, NULL, &fail) && strstr (fail.text, "directory"), "a folder: %s", fail.text);
    unlink (path.text);
    for (int i = 0; i < 3; i++) {
        *strrchr (path.text, '/') = '\0';
        rmdir (path.text);
    }
    ok (access (folder, F_OK), "nothing was left beside it");
}

static void
test_segment (void)
{
    struct fail fail = { 0 };
    struct jobseg maker = JOBSEG_NONE, reader = JOBSEG_NONE;
    ok (!jobseg_create (&maker, 8, 4, 4, "job", &fail), "created");
    char path[64];
    snprintf (path, sizeof path, "/proc/self/fd/%d", maker.fd);
    ok (!jobseg_attach (&reader, path, &fail), "attached by path %s", fail.text);
    ok (reader.header->world_size == 8 && reader.header->first_rank == 4, "sizes travel");
    jobseg_mark_exit (&maker, 3, 7 << 8);
    ok (atomic_load (&jobseg_slot (&reader, 3)->exited) == 1 && jobseg_slot (&reader, 3)->wait_status == 7 << 8,
        "an exit is seen, with its status");
    char text[128];
    jobseg_describe (jobseg_slot (&reader, 0), text, sizeof text);
    is_text (text, "not in accel_open() yet", "a fresh slot");
    jobseg_describe_exit (9, text, sizeof text);
    is_text (text, "was killed by signal 9 (SIGKILL)", "a signal in words");
    off_t size = lseek (reader.fd, 0, SEEK_END);
    ok (ftruncate (reader.fd, 0) && errno == EPERM && ftruncate (reader.fd, size - 1), "no process can cut it short");
    ok (!jobseg_grow (&reader, (size_t) size * 2) && lseek (maker.fd, 0, SEEK_END) == size * 2, "it grows once");
    ok (ftruncate (reader.fd, size * 3) && ftruncate (reader.fd, size), "and has its final size then");
    jobseg_detach (&reader);
    maker.header->version = 99;
    ok (jobseg_attach (&reader, path, &fail) && strstr (fail.text, "version 99"), "other versions: %s", fail.text);
    jobseg_detach (&maker);
    ok (jobseg_attach (&reader, "/dev/null", &fail) && reader.fd == -1 && strstr (fail.text, "/dev/null: "),
        "no segment: %s", fail.text);
    errno = EDOM;
    jobseg_detach (&reader);
    ok (errno == EDOM, "detaching leaves errno alone");
    for (int i = 0; i < 2; i++)
        ok (jobseg_create (&maker, 1, i ? JOBSEG_MAX_LOCAL + 1 : 0, 0, "job", &fail) && maker.fd == -1, "%s",
            fail.text);
}

/* Whose end made a rank give up. */
static void
test_lost_ranks (void)
{
    static const struct {
        const char *doing;
        int rank;
    } cases[] = {
        { "gave up: rank 3 ended (process 7); meanwhile rank 0 was in accel_gather at a.c:1", 3 },
        { "gave up: rank 12 exited with status 1, computing after accel_gather at a.c:1; rank 0 is waiting", 12 },
        { "gave up: rank 2 gave up: rank 4 gave up: rank 0 was killed by signal 6 (SIGABRT); meanwhile", 0 },
        { "gave up: accel_open: rank 5 exited with status 1 before all ranks had joined", 5 },
        { "gave up: rank 2 gave up: rank 4 sends float32 x 4, rank 1 expects float64 x 4", -1 },
        { "gave up: rank 1 timed out after 300 ms in accel_gather at a.c:1, waiting for rank 0 (computing)", -1 },
        { "gave up: rank -1 ended", -1 },
        { "gave up: rank 99999999999 ended", -1 },
        { "gave up: rank 7", -1 },
        { "rank 7 ended", -1 },
        { "in accel_gather at a.c:1", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (jobseg_lost_rank (cases[i].doing) == cases[i].rank, "%d: %s", cases[i].rank, cases[i].doing);
}

/* What a rank does, as others read it from its slot. */
static void
test_slots (void)
{
    struct fail fail = { 0 };
    struct jobseg maker = JOBSEG_NONE;
    struct jobseg_record record;
    char text[128];
    ok (!jobseg_create (&maker, 1, 1, 0, "job", &fail), "created %s", fail.text);
    struct jobseg_slot *slot = jobseg_slot (&maker, 0);
    slot->state = JOBSEG_READY;
    jobseg_describe (slot, text, sizeof text);
    is_text (text, "computing, no collective yet", "nothing in the ledger");
    slot->file_count = 1;
    strcpy (slot->files[0], "train.c");
    for (uint32_t i = 0; i < JOBSEG_LEDGER + 2; i++)
        slot->ledger[i % JOBSEG_LEDGER] = (struct jobseg_record){ .line = i + 1, .call = JOBSEG_CALL_BACKWARD };
    slot->ledger_count = JOBSEG_LEDGER + 2;
    ok (jobseg_latest (slot, &record) && record.line == JOBSEG_LEDGER + 2, "the latest of more than the ledger holds");
    struct jobseg_record *latest = &slot->ledger[1];
    atomic_store (&slot->generation, 1);
    jobseg_describe (slot, text, sizeof text);
    is_text (text, "computing, no collective yet", "records of an earlier program");
    atomic_store (&slot->generation, 0);
    for (uint8_t done = 0; done < 2; done++) {
        char wanted[128];
        latest->done = done;
        jobseg_describe (slot, text, sizeof text);
        snprintf (wanted, sizeof wanted, "%s accel_backward at train.c:%d", done ? "computing after" : "in",
                  JOBSEG_LEDGER + 2);
        is_text (text, wanted, done ? "a call that is over" : "a call that still runs");
    }
    for (int i = 0; i < 3; i++) {
        latest->file = (uint16_t[]){ 1, JOBSEG_FILES, UINT16_MAX }[i];
        slot->file_count = i ? UINT32_MAX : 1;
        is_text (jobseg_file (slot, latest), "?", "a file that is not noted");
    }
    ok (jobseg_elapsed_ns (slot) == -1, "no sign of life yet: for how long is not known");
    atomic_store (&slot->heartbeat_ns, jobseg_now_ns () + UINT64_C (1000000000));
    ok (jobseg_elapsed_ns (slot) == 0, "a sign of life of this moment, by the clock of another processor");
    jobseg_detach (&maker);
}

/* Files that are not segments, and the descriptor of each is given back. */
static void
test_foreign_files (void)
{
    static const off_t sizes[] = { 0, 100, 4096, 1 << 20 };
    struct fail fail;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct jobseg reader;
        int fd = memfd_create ("test", MFD_CLOEXEC);
        ok (fd >= 0 && !ftruncate (fd, sizes[i]) && jobseg_attach_fd (&reader, fd, &fail) && reader.fd == -1
                && strstr (fail.text, "not a job segment"),
            "a file of %ld zeros: %s", (long) sizes[i], fail.text);
        ok (fcntl (fd, F_GETFD) < 0, "which is closed");
    }
}

/* Segments whose header would lead outside of them, and descriptors that are given back. */
static void
test_damaged_segments (void)
{
    static const uint32_t counts[] = { 0, JOBSEG_MAX_LOCAL + 1, 4096, UINT32_MAX };
    struct fail fail;
    struct jobseg maker = JOBSEG_NONE, reader = JOBSEG_NONE;
    char path[64];
    ok (!jobseg_create (&maker, 2, 2, 0, "job", &fail), "a segment");
    int fd = maker.fd;
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        maker.header->local_world_size = counts[i];
        ok (jobseg_attach (&reader, path, &fail) && strstr (fail.text, "damaged") && reader.fd == -1,
            "one that claims %u ranks: %s", counts[i], fail.text);
    }
    struct jobseg large = JOBSEG_NONE;
    ok (!jobseg_create (&large, 64, 64, 0, "job", &fail), "a larger one");
    uint64_t offset = maker.header->data_offset;
    maker.header->local_world_size = 64;
    maker.header->data_offset = large.header->data_offset;
    ok (jobseg_attach (&reader, path, &fail) && strstr (fail.text, "damaged"), "the header of one that is larger");
    maker.header->local_world_size = 2;
    for (int i = 0; i < 2; i++) {
        maker.header->data_offset = i ? offset * 2 : 64;
        ok (jobseg_attach (&reader, path, &fail) && strstr (fail.text, "damaged"), "data elsewhere: %s", fail.text);
    }
    maker.header->data_offset = offset;
    ok (!jobseg_attach (&reader, path, &fail), "what is whole again is accepted");
    jobseg_detach (&reader);
    jobseg_detach (&large);
    jobseg_detach (&maker);
    ok (fcntl (fd, F_GETFD) < 0, "its descriptor is closed");
}

static int syncs;

/* Instead of the C library's. */
int
fsync (int fd)
{
    syncs++;
    return fcntl (fd, F_GETFD) < 0 ? -1 : 0;
}

static void
test_replacing (void)
{
    char name[] = "test_util.XXXXXX";
    struct fail fail;
    struct stat info;
    int fd = mkstemp (name);
    ok (fd >= 0 && !fchmod (fd, 0604), "a file");
    close (fd);
    syncs = 0;
    mode_t old = umask (077);
    ok (!io_write_file (name, "x", 1, 0666, &fail) && !stat (name, &info) && (info.st_mode & 0777) == 0604,
        "it keeps its mode, whatever the umask is");
    ok (syncs == 2, "it and its folder are synced");
    unlink (name);
    ok (!io_check_writable (name, &fail) && stat (name, &info), "a check makes no file");
    ok (!io_write_file (name, "x", 1, 0666, &fail) && !stat (name, &info) && (info.st_mode & 0777) == 0600,
        "a new file's mode is less the umask");
    umask (old);
    unlink (name);
}

/* Values go to files and to other processes: those of FNV-1a's authors. */
static void
test_hashes (void)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } cases[] = {
        { "", UINT64_C (0xcbf29ce484222325) },
        { "a", UINT64_C (0xaf63dc4c8601ec8c) },
        { "foobar", UINT64_C (0x85944171f73967e8) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (hash_bytes (HASH_START, cases[i].text, strlen (cases[i].text)) == cases[i].hash, "the hash of '%s'",
            cases[i].text);
    ok (hash_bytes (hash_bytes (HASH_START, "foo", 3), "bar", 3) == cases[2].hash, "and of its parts");
    ok (hash_word (HASH_START, 'a') == cases[1].hash, "a word that is a byte");
}

/* A child whose name looks like fields of /proc/PID/stat: running, stopped, ended and gone. */
static void
test_processes (void)
{
    struct procfs_stat seen;
    char words[4096];
    AUTO_CLOSE int fd = open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = read (fd, words, sizeof words);
    ok (procfs_read_stat (getpid (), &seen) && seen.state == 'R' && !seen.exit_code && seen.parent == getppid (),
        "this process runs, and has a parent");
    ok (length > 0 && seen.arg_end - seen.arg_start == (unsigned long) length
            && !memcmp ((const char *) seen.arg_start, words, (size_t) length),
        "where the words of its command line are");
    struct stat space;
    ok (!stat ("/proc/self/ns/pid", &space) && procfs_pid_space () == (uint32_t) space.st_ino, "its pid namespace");
    pid_t pid = fork ();
    if (!pid) {
        prctl (PR_SET_NAME, "a) Z 1 (b) T 2");
        raise (SIGSTOP);
        _exit (7);
    }
    siginfo_t info;
    ok (pid > 0 && !waitid (P_PID, (id_t) pid, &info, WSTOPPED) && procfs_read_stat (pid, &seen) && seen.state == 'T',
        "a stopped child, whatever its name is");
    kill (pid, SIGCONT);
    ok (!waitid (P_PID, (id_t) pid, &info, WEXITED | WNOWAIT) && procfs_read_stat (pid, &seen) && seen.state == 'Z'
            && WIFEXITED (seen.exit_code) && WEXITSTATUS (seen.exit_code) == 7, "a child that has ended with status 7");
    ok (procfs_is_ending (pid), "it is ending");
    waitpid (pid, NULL, 0);
    ok (!procfs_read_stat (pid, &seen) && !seen.state && !procfs_is_ending (pid), "a process that is gone");
}

static void *
sleep_for_ever (void *user)
{
    (void) user;
    for (;;)
        pause ();
    return NULL;
}

/* The first thread of a process may end before the others. */
static void
test_threads (void)
{
    struct procfs_stat seen = { 0 };
    pid_t pid = fork ();
    pthread_t thread;
    if (!pid && !pthread_create (&thread, NULL, sleep_for_ever, NULL))
        pthread_exit (NULL);
    for (int i = 0; i < 1000 && procfs_read_stat (pid, &seen) && seen.state != 'Z'; i++)
        usleep (10000);
    ok (seen.state == 'Z' && seen.is_exiting && !procfs_is_ending (pid), "a process without its first thread runs on");
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
}

/* What is said of a process with a command line like this. */
static void
describe_command (const char *first, const char *last, char *text, size_t size)
{
    int in[2], out[2];
    char byte;
    if (pipe (in) || pipe (out))
        exit (99);
    pid_t pid = fork ();
    if (!pid) {
        dup2 (in[0], STDIN_FILENO);
        dup2 (out[1], STDOUT_FILENO);
        close (in[1]);
        execl ("/bin/sh", first, "-c", "echo; read x", last, (char *) NULL);
        _exit (127);
    }
    close (in[0]);
    close (out[1]);
    if (read (out[0], &byte, 1) != 1) /* it is that program now */
        diag ("no sh");
    peer_describe (&(struct peer){ .pid = pid, .uid = 7 }, "me", text, size);
    close (in[1]);
    close (out[0]);
    waitpid (pid, NULL, 0);
}

static void
test_peers (void)
{
    char text[400], wanted[100], many[201];
    struct peer self;
    int ends[2];
    describe_command ("job\033[1m", "a b", text, sizeof text);
    ok (strstr (text, "user me, pid ") && strstr (text, " (job?[1m -c echo; read x a b)"), "a command line: %s", text);
    describe_command ("job", "http://me:hush@host/", text, sizeof text);
    ok (strstr (text, "http") && !strstr (text, "hush"), "its passwords are hidden: %s", text);
    memset (many, 'x', 200);
    many[200] = '\0';
    describe_command ("job", many, text, sizeof text);
    ok (strlen (text) < 150 && strstr (text, "xxx...)"), "a long one is cut: %s", text);
    peer_describe (&(struct peer){ .pid = 0, .uid = 7 }, NULL, text, sizeof text);
    ok (!strcmp (text, "user 7, in another container"), "%s", text);
    pid_t gone = fork ();
    if (!gone)
        _exit (0);
    waitpid (gone, NULL, 0);
    peer_describe (&(struct peer){ .pid = gone, .uid = 7 }, NULL, text, sizeof text);
    snprintf (wanted, sizeof wanted, "user 7, pid %d", (int) gone);
    ok (!strcmp (text, wanted), "%s", text);
    if (socketpair (AF_UNIX, SOCK_STREAM, 0, ends))
        exit (99);
    ok (peer_of (ends[0], &self) && self.pid == getpid () && self.uid == getuid (), "who is at the other end");
    close (ends[0]);
    close (ends[1]);
    ok (!peer_of (ends[0], &self), "no peer");
}

int
main (void)
{
    test_integers ();
    test_doubles ();
    test_truth ();
    test_suggestions ();
    test_strings ();
    test_room ();
    test_small_files ();
    test_messages ();
    test_arrays ();
    test_failures ();
    test_credentials ();
    test_utf8 ();
    test_utf8_characters ();
    test_printable ();
    test_files ();
    test_segment ();
    test_lost_ranks ();
    test_slots ();
    test_foreign_files ();
    test_damaged_segments ();
    test_replacing ();
    test_hashes ();
    test_processes ();
    test_threads ();
    test_peers ();
    return done_testing ();
}
