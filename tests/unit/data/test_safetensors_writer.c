/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files: the bytes of the format's own writer, what is refused, and what is left after failures. */
#include <config.h>

#include "files/safetensors_writer.h"
#include "tests/unit/data/datasets.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SHAPE(...) .ndim = sizeof ((int64_t[]){ __VA_ARGS__ }) / 8, .shape = (const int64_t[]){ __VA_ARGS__ }
#define ENTRY(its_name, its_dtype, ...) { .name = its_name, .dtype = SAFETENSORS_##its_dtype, SHAPE (__VA_ARGS__) }

enum { MOST_ENTRIES = 64 };

static const int64_t four_by_two[] = { 4, 2 };

/* The tensors of make_safetensors_goldens.py. */
static const struct golden {
    const char *file;
    struct safetensors_entry entries[MOST_ENTRIES];
    size_t count;
    struct safetensors_pair pairs[1];
    size_t pair_count;
} goldens[] = {
    { .file = "empty" },
    { .file = "one", .entries = { ENTRY ("attn.0", F32, 1, 2, 3) }, .count = 1 },
    { .file = "metadata", .entries = { ENTRY ("attn0", F32, 1, 1, 2, 3) }, .count = 1,
      .pairs = { { (char *) "format", (char *) "pt" } }, .pair_count = 1 },
    { .file = "escapes",
      .entries = { ENTRY ("a\"\\/\b\f\n\r\t\x01\x1f\x7f", U8, 3),
                   ENTRY ("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", BF16, 2),
                   { .name = "", .dtype = SAFETENSORS_F64 } },
      .count = 3, .pairs = { { (char *) "k\"\n", (char *) "\xc3\xa4\x02" } }, .pair_count = 1 },
    { .file = "empty_tensors",
      .entries = { ENTRY ("b", F32, 0), ENTRY ("a", F32, 2, 0, 3), ENTRY ("c", I8, 0), ENTRY ("d", I8, 5),
                   ENTRY ("e", U64, 0) },
      .count = 5 },
};

static uint64_t
bytes_of (const struct safetensors_entry *entry)
{
    uint64_t count = 1;
    for (size_t i = 0; i < entry->ndim; i++)
        count *= (uint64_t) entry->shape[i];
    return count * safetensors_dtype_bits (entry->dtype) / 8;
}

static const char *
fill (size_t index, uint64_t bytes)
{
    static unsigned char memory[4096];
    for (uint64_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char) ((7 * i + 13 * index) % 251);
    return (const char *) memory;
}

/* In pieces of @p some bytes; backwards where @p some is odd. */
static enum accel_status
write_all (struct safetensors_writer *writer, const struct safetensors_plan *plan, size_t some)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < plan->count && !status; i++) {
        size_t index = some % 2 ? plan->count - 1 - i : safetensors_writer_order (writer, i);
        uint64_t bytes = bytes_of (&plan->entries[index]);
        const char *data = fill (index, bytes);
        for (uint64_t at = 0; at < bytes && !status; at += some)
            status = safetensors_writer_write (writer, index, data + at, bytes - at < some ? bytes - at : some, &err);
    }
    return status;
}

static enum accel_status
save (const char *path, const struct safetensors_plan *plan, size_t some)
{
    struct safetensors_writer *writer;
    enum accel_status status = safetensors_writer_create (&writer, path, plan, &err);
    if (!status)
        status = write_all (writer, plan, some);
    if (!status)
        status = safetensors_writer_commit (writer, &err);
    safetensors_writer_destroy (writer);
    return status;
}

static bool
same_files (const char *a, const char *b)
{
    static char x[8192], y[8192];
    size_t length = scratch_read (a, x, sizeof x);
    bool same = length && length == scratch_read (b, y, sizeof y) && !memcmp (x, y, length);
    if (!same)
        diag ("%s and %s differ", a, b);
    return same;
}

static void
test_golden (const struct golden *golden)
{
    char wanted[SCRATCH_SIZE + 256], path[SCRATCH_SIZE + 64];
    const char *srcdir = getenv ("srcdir");
    snprintf (wanted, sizeof wanted, "%s/tests/golden/safetensors/%s.safetensors", srcdir ? srcdir : ".", golden->file);
    snprintf (path, sizeof path, "%s/%s.safetensors", scratch_folder (), golden->file);
    for (size_t some = 1; some < 5; some += 3) {
        struct safetensors_plan plan = { .entries = golden->entries, .count = golden->count,
                                         .metadata = golden->pairs, .pairs = golden->pair_count,
                                         .in_place = some > 1 };
        enum accel_status status = save (path, &plan, some);
        if (!ok (!status && same_files (path, wanted), "%s: the bytes of the format's own writer, %s", golden->file,
                 some > 1 ? "in place" : "written backwards")
            && status)
            diag ("%s", err.text);
    }
}

static void
test_goldens (void)
{
    static const enum safetensors_dtype python_lacks[] = { SAFETENSORS_F4, SAFETENSORS_F6_E2M3, SAFETENSORS_F6_E3M2 };
    static char names[MOST_ENTRIES][8];
    static struct golden all = { .file = "all_types", .pairs = { { (char *) "format", (char *) "pt" } },
                                 .pair_count = 1 };
    size_t types = SAFETENSORS_DTYPE_COUNT - sizeof python_lacks / sizeof *python_lacks;
    for (size_t i = 0, dtype = 0; i < types; i++, dtype++) {
        while (dtype == python_lacks[0] || dtype == python_lacks[1] || dtype == python_lacks[2])
            dtype++;
        snprintf (names[i], sizeof *names, "t%02zu", i);
        snprintf (names[types + i], sizeof *names, "s%02zu", i);
        all.entries[i] = (struct safetensors_entry) ENTRY (names[i], U8, 4, 2);
        all.entries[types + i] = (struct safetensors_entry) ENTRY (names[types + i], U8, 4);
        all.entries[i].shape = four_by_two;
        all.entries[types + i].shape = all.entries[i].shape;
        all.entries[i].dtype = all.entries[types + i].dtype = (enum safetensors_dtype) dtype;
    }
    all.count = 2 * types;
    test_golden (&all);
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
        test_golden (&goldens[i]);
}

#define MOST (INT64_MAX / 4) /* bytes whose bits can be counted in 64 bits */
static const struct {
    struct safetensors_entry entries[5];
    size_t count;
    struct safetensors_pair pairs[2];
    size_t pair_count;
    const char *words;
} bad[] = {
    { { ENTRY (NULL, U8, 1) }, 1, { { 0 } }, 0, "the name of a tensor is missing" },
    { { ENTRY ("\xff", U8, 1) }, 1, { { 0 } }, 0, "is not valid UTF-8" },
    { { ENTRY ("__metadata__", U8, 1) }, 1, { { 0 } }, 0, "'__metadata__' cannot be the name of a tensor" },
    { { ENTRY ("a", U8, 1), ENTRY ("a", F32, 1) }, 2, { { 0 } }, 0, "duplicate tensor 'a'" },
    { { ENTRY ("a", DTYPE_COUNT, 1) }, 1, { { 0 } }, 0, "'a' has elements of a type that safetensors lacks" },
    { { ENTRY ("a", U8, 1, -1) }, 1, { { 0 } }, 0, "'a' has a negative size in dimension 1" },
    { { ENTRY ("a", F64, INT64_MAX) }, 1, { { 0 } }, 0, "'a' is too large: size overflows" },
    { { ENTRY ("a", U8, MOST), ENTRY ("b", U8, MOST), ENTRY ("c", U8, MOST), ENTRY ("d", U8, MOST),
        ENTRY ("e", U8, 9) }, 5, { { 0 } }, 0, "the file is too large" },
    { { ENTRY ("a", F4, 3) }, 1, { { 0 } }, 0, "4-bit elements that do not fill whole bytes" },
    { { ENTRY ("a", U8, 1) }, 0, { { (char *) "k", NULL } }, 1, "a metadata value is missing" },
    { { ENTRY ("a", U8, 1) }, 0, { { (char *) "k", (char *) "\xed\xa0\x80" } }, 1, "is not valid UTF-8" },
    { { ENTRY ("a", U8, 1) }, 0, { { (char *) "k", (char *) "" }, { (char *) "k", (char *) "" } }, 2,
      "duplicate metadata key 'k'" },
};

static void
test_refused (void)
{
    char path[SCRATCH_SIZE + 64];
    snprintf (path, sizeof path, "%s/refused", scratch_folder ());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct safetensors_plan plan = { .entries = bad[i].entries, .count = bad[i].count,
                                         .metadata = bad[i].pairs, .pairs = bad[i].pair_count };
        enum accel_status status = save (path, &plan, 1);
        if (!ok (status && status == err.code && strstr (err.text, bad[i].words) && access (path, F_OK),
                 "refused: %s", bad[i].words))
            diag ("%s", status ? err.text : "accepted");
    }
    ok (save ("", &(struct safetensors_plan){ 0 }, 1) == ACCEL_ERR_INVALID, "refused: an empty path");
    snprintf (path, sizeof path, "%s/nowhere/file", scratch_folder ());
    ok (save (path, &(struct safetensors_plan){ 0 }, 1) == ACCEL_ERR_SYSTEM
            && strstr (err.text, "nowhere/file: cannot create a temporary file in its directory: No such file"),
        "refused: a directory that does not exist");
}

static const struct safetensors_entry two[] = { ENTRY ("a", U8, 100), ENTRY ("b", F32, 10) };
static const struct safetensors_plan plan_of_two = { .entries = two, .count = 2 };

static void
test_incomplete (void)
{
    struct safetensors_writer *writer;
    const char *path = write_file ("old", "old", 3);
    size_t before = scratch_count (NULL);
    char bytes[8] = { 0 };
    bool good = !safetensors_writer_create (&writer, path, &plan_of_two, &err)
                && !safetensors_writer_write (writer, 1, fill (0, 40), 40, &err)
                && !safetensors_writer_write (writer, 0, fill (0, 100), 99, &err);
    ok (good && safetensors_writer_entry_bytes (writer, 0) == 100 && safetensors_writer_entry_bytes (writer, 1) == 40
            && safetensors_writer_order (writer, 0) == 1 && scratch_count (NULL) == before + 1,
        "the file is beside its path while it is written");
    ok (safetensors_writer_write (writer, 0, fill (0, 2), 2, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "old: tensor 'a' has 100 bytes; 99 and 2 more were written"),
        "more bytes than the tensor has are refused");
    ok (safetensors_writer_commit (writer, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "old: tensor 'a' is incomplete: 99 of 100 bytes were written"),
        "an incomplete tensor is refused");
    safetensors_writer_destroy (writer);
    ok (scratch_count (NULL) == before && scratch_read (path, bytes, sizeof bytes) == 3 && !strcmp (bytes, "old"),
        "what was there before stays, and nothing else");
    safetensors_writer_destroy (NULL);
}

static void
note_piece (void *user, size_t index, const void *bytes, size_t length)
{
    unsigned *sums = user;
    for (size_t i = 0; i < length; i++)
        sums[index] = sums[index] * 31 + ((const unsigned char *) bytes)[i];
}

static void
test_pieces (void)
{
    char path[SCRATCH_SIZE + 64];
    unsigned sums[2][2] = { { 0 } }, wanted[2] = { 0 };
    struct safetensors_plan plan = plan_of_two;
    snprintf (path, sizeof path, "%s/pieces", scratch_folder ());
    plan.piece = note_piece;
    bool good = true;
    for (size_t i = 0; i < 2; i++) {
        plan.user = sums[i];
        good = good && !save (path, &plan, i ? 7 : 1000);
        note_piece (wanted, i, fill (i, bytes_of (&two[i])), bytes_of (&two[i]));
    }
    ok (good && !memcmp (sums[0], wanted, sizeof wanted) && !memcmp (sums[1], wanted, sizeof wanted),
        "the caller sees all bytes of each tensor in their order");
}

static void
test_replaced (void)
{
    char path[SCRATCH_SIZE + 64], link[SCRATCH_SIZE + 64], bytes[16] = { 0 };
    struct stat info;
    snprintf (path, sizeof path, "%s", write_file ("private", "old", 3));
    snprintf (link, sizeof link, "%s/link", scratch_folder ());
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    char *map = mmap (NULL, 3, PROT_READ, MAP_SHARED, fd, 0);
    bool good = fd >= 0 && map != MAP_FAILED && !chmod (path, 0640) && !symlink ("private", link);
    ok (good && !save (link, &plan_of_two, 50) && !lstat (link, &info) && S_ISLNK (info.st_mode) && !stat (path, &info)
            && info.st_size > 100 && (info.st_mode & 0777) == 0640,
        "what a link leads to is replaced, and keeps its mode");
    ok (!strncmp (map, "old", 3), "a mapping of the former file is not touched");
    struct safetensors_plan plan = plan_of_two;
    plan.in_place = true;
    ok (!save (path, &plan, 50) && !strncmp (map, "old", 3) && scratch_read (path, bytes, sizeof bytes) == sizeof bytes,
        "nor if the file is created in place");
    if (map != MAP_FAILED)
        munmap (map, 3);
    close (fd);
}

/* In a child: it is killed in the middle of a write, or stays for a while. */
static pid_t
start_child (const char *path, int ready)
{
    pid_t child = fork ();
    if (child)
        return child;
    struct safetensors_writer *writer;
    if (!safetensors_writer_create (&writer, path, &plan_of_two, &err)
        && !safetensors_writer_write (writer, 0, fill (0, 100), 60, &err) && write (ready, "r", 1) == 1)
        for (;;)
            pause ();
    _exit (1);
}

static void
test_killed (void)
{
    char path[SCRATCH_SIZE + 64], bytes[8] = { 0 };
    int ready[2];
    snprintf (path, sizeof path, "%s", write_file ("killed", "old", 3));
    size_t before = scratch_count (NULL);
    if (pipe (ready))
        return;
    pid_t child = start_child (path, ready[1]);
    bool good = child > 0 && read (ready[0], bytes, 1) == 1 && scratch_count (NULL) == before + 1;
    ok (good && !save (path, &plan_of_two, 50) && scratch_count (NULL) == before + 1,
        "the file of a writer that is still at work is left alone");
    write_file ("killed", "old", 3);
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    ok (scratch_count (NULL) == before + 1 && scratch_read (path, bytes, sizeof bytes) == 3 && !strcmp (bytes, "old"),
        "killed in the middle: the former file is whole");
    ok (!save (path, &plan_of_two, 50) && scratch_count (NULL) == before,
        "the next writer removes what the killed one left");
    close (ready[0]);
    close (ready[1]);
}

static void
test_limits (void)
{
    char path[SCRATCH_SIZE + 64];
    snprintf (path, sizeof path, "%s/limit", scratch_folder ());
    size_t before = scratch_count (NULL);
    pid_t child = fork ();
    if (!child) {
        struct rlimit limit = { 200, 200 };
        bool good = !setrlimit (RLIMIT_FSIZE, &limit) && save (path, &plan_of_two, 50) == ACCEL_ERR_SYSTEM
                    && strstr (err.text, "limit: cannot reserve") && err.sys_errno == EFBIG;
        _exit (good ? 0 : 1);
    }
    int status = -1;
    waitpid (child, &status, 0);
    ok (!status && scratch_count (NULL) == before,
        "a limit for the size of files is an error before anything is written");
    static char long_name[110 << 20];
    memset (long_name, 'n', sizeof long_name - 1);
    struct safetensors_entry entry = ENTRY (long_name, U8, 1);
    ok (save (path, &(struct safetensors_plan){ .entries = &entry, .count = 1 }, 1) == ACCEL_ERR_INVALID
            && strstr (err.text, "need a header of more than 100000000 bytes"),
        "a header beyond the format's limit is refused");
}

int
main (void)
{
    test_goldens ();
    test_refused ();
    test_incomplete ();
    test_pieces ();
    test_replaced ();
    test_killed ();
    test_limits ();
    return done_testing ();
}
