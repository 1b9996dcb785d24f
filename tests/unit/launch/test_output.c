/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, sinks and files of the ranks' output: what is kept, held back and counted when memory, disk or reader
 * fail. */
#include <config.h>

#include "launch/output/output.h"

#include "tests/scratch.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct output_sink sink;
static int reader;
static char got[1 << 20];
static size_t got_length;

/* A stream with a pipe, whose writing end is @writer; lines go into another pipe. */
static void
open_all (struct output_stream *stream, struct output_pool *pool, size_t left, int *writer)
{
    int in[2], out[2];
    *stream = (struct output_stream){ .fd = -1, .log.fd = -1 };
    output_pool_init (pool, 1);
    pool->left = left;
    ok (!pipe2 (in, O_NONBLOCK) && !pipe2 (out, O_NONBLOCK) && !output_sink_init (&sink, out[1], "pipe", NULL)
        && !output_stream_init (stream, in[0], pool, NULL), "a stream and a sink");
    *writer = in[1];
    reader = out[0];
    got_length = 0;
}

static void
close_all (struct output_stream *stream, int writer)
{
    output_stream_release (stream);
    output_sink_release (&sink);
    close (sink.fd);
    close (reader);
    close (writer);
}

static void
take (void)
{
    for (ssize_t more; got_length < sizeof got; got_length += (size_t) more)
        if ((more = read (reader, got + got_length, sizeof got - got_length)) <= 0)
            return;
}

/* Whatever @length bytes of a rank are, and however small the pool is, they come out in order. */
static void
test_no_memory (size_t left)
{
    struct output_stream stream;
    struct output_pool pool;
    static char text[300000];
    int writer;
    open_all (&stream, &pool, left, &writer);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char) ('a' + i % 23);
    for (size_t done = 0; done < sizeof text || got_length < sizeof text;) {
        ssize_t put = done < sizeof text ? write (writer, text + done, sizeof text - done) : 0;
        done += put > 0 ? (size_t) put : 0;
        output_stream_read (&stream, &sink, 0);
        if (done == sizeof text)
            output_stream_flush (&stream, &sink);
        output_sink_drain (&sink);
        take ();
    }
    ok (got_length == sizeof text && !memcmp (got, text, sizeof text),
        "a line of 300000 bytes with %zu bytes to grow by", left);
    ok (stream.capacity <= OUTPUT_TEXT_BYTES + left, "no more memory than there is");
    close (writer);
    writer = -1;
    ok (!output_stream_read (&stream, &sink, 0), "its end");
    output_stream_end (&stream, &sink);
    ok (pool.left == left, "all of it is given back");
    ok (output_stream_left (&stream) == 0, "nothing is left");
    close_all (&stream, writer);
}

/* No reader: the sink takes what it has room for, the stream a buffer, and the rest stays in the pipe. */
static void
test_back_pressure (bool on_terminal)
{
    struct output_stream stream;
    struct output_pool pool;
    char line[] = "0123456789\n";
    size_t written = 0;
    int writer;
    open_all (&stream, &pool, OUTPUT_POOL_BYTES, &writer);
    stream.prefix = strdup ("[name]:");
    stream.on_terminal = on_terminal;
    for (int idle = 0; idle < 3;) {
        ssize_t put = write (writer, line, sizeof line - 1);
        output_stream_read (&stream, &sink, 0);
        output_sink_drain (&sink);
        idle = put > 0 ? 0 : idle + 1;
        written += put > 0 ? (size_t) put : 0;
    }
    ok (!output_stream_can_read (&stream, &sink), "it waits");
    ok (sink.count <= OUTPUT_SINK_BYTES && stream.capacity <= OUTPUT_CHUNK_BYTES, "in buffers of a fixed size");
    for (int i = 0; i < 1000; i++) {
        take ();
        output_stream_read (&stream, &sink, 0);
        output_sink_drain (&sink);
    }
    ok (written % 11 == 0 && got_length == written / 11 * 18, "%zu of %zu bytes, named, come out", got_length,
        written / 11 * 18);
    bool whole = true;
    for (size_t i = 0; i < got_length; i += 18)
        whole &= !memcmp (got + i, "[name]:0123456789\n", 18);
    ok (whole, "each line is whole");
    ok (stream.run_begin == 0 && stream.run_end == got_length, "all are one run");
    close_all (&stream, writer);
}

/* What a rank writes, and what is on the terminal after it. */
static void
test_terminal (void)
{
    static const struct {
        const char *written, *shown, *about;
    } cases[] = {
        { "a\n", "[0] a\n", "a line" },
        { "\n\n", "[0] \n[0] \n", "empty lines" },
        { "a\r\nb\r\n", "[0] a\r\n[0] b\r\n", "lines that end with both" },
        { "\r10\r20\n", "[0] 10\r[0] 20\n", "a bar that begins with a return" },
        { "10\r\r20\n", "[0] 10\r\r[0] 20\n", "two returns" },
        { "10\r", "[0] 10\r\n", "an unfinished bar" },
        { "half", "[0] half\n", "an unfinished line" },
        { "\r", "", "a return alone" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct output_stream stream;
        struct output_pool pool;
        int writer;
        open_all (&stream, &pool, 0, &writer);
        stream.prefix = strdup ("[0] ");
        stream.on_terminal = true;
        ok (write (writer, cases[i].written, strlen (cases[i].written)) > 0 && output_stream_read (&stream, &sink, 0),
            "a rank writes");
        output_stream_flush (&stream, &sink);
        output_stream_end (&stream, &sink);
        output_sink_drain (&sink);
        take ();
        got[got_length] = '\0';
        is_text (got, cases[i].shown, cases[i].about);
        close_all (&stream, writer);
    }
}

/* The reader goes while both the pipe and the sink are full: what comes then has no reader, and nothing is left that
 * would be watched for ever. */
static void
test_reader_gone (bool whole)
{
    struct output_stream stream;
    struct output_pool pool;
    char text[1000];
    int writer;
    open_all (&stream, &pool, 0, &writer);
    memset (text, 'x', sizeof text);
    for (size_t put = 1; put;)
        put = output_sink_put (&sink, text, sizeof text);
    ok (!output_sink_is_empty (&sink) && output_sink_is_full (&sink), "a full sink");
    close (reader);
    reader = -1;
    if (whole)
        ok (output_sink_put_whole (&sink, text, sizeof text), "a line counts as taken");
    else
        ok (output_sink_put (&sink, text, sizeof text) == sizeof text, "what comes counts as taken");
    ok (sink.broken && output_sink_is_empty (&sink) && !sink.lost, "nothing waits for a reader that is gone");
    ok (write (writer, "line\n", 5) == 5 && output_stream_read (&stream, &sink, 0), "a rank continues");
    ok (output_sink_is_empty (&sink) && !output_stream_left (&stream), "and nothing is left of it either");
    ok (output_sink_say (&sink, "a warning") && output_sink_is_empty (&sink), "nor of a warning");
    close_all (&stream, writer);
}

static void
test_tail (void)
{
    struct output_stream stream;
    struct output_pool pool;
    struct strlist lines = { 0 };
    int writer;
    open_all (&stream, &pool, 0, &writer);
    stream.has_tail = true;
    ok (write (writer, "first\nse\033cond\n\nlast", 19) == 19 && output_stream_read (&stream, &sink, 0), "some lines");
    output_stream_tail (&stream, &lines);
    if (ok (lines.count == 3, "three that are not empty")) {
        is_text (lines.items[0], "first", "the first, because all is there");
        is_text (lines.items[1], "se cond", "without control characters");
        is_text (lines.items[2], "last", "an unfinished one");
    }
    strlist_release (&lines);
    char text[OUTPUT_TAIL_BYTES];
    memset (text, 'x', sizeof text);
    memcpy (text + sizeof text - 7, "\nwhole\n", 7);
    ok (write (writer, text, sizeof text) == sizeof text && output_stream_read (&stream, &sink, 0),
        "more than is kept");
    output_stream_tail (&stream, &lines);
    ok (lines.count == 1, "a line without its beginning is left out");
    is_text (lines.items ? lines.items[0] : NULL, "whole", "the one after it");
    strlist_release (&lines);
    close_all (&stream, writer);
}

/* What is kept depends on the number of ranks; whatever the sizes of the pieces, it is the end of all. */
static void
test_tail_sizes (void)
{
    static const int ranks[] = { 1, 513, 1024, 3000, 4096, 100000 };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct output_stream stream;
        struct output_pool pool, share;
        char text[4000];
        size_t length = 0;
        bool same = true, small = true;
        int writer;
        open_all (&stream, &pool, 0, &writer);
        output_pool_init (&share, ranks[i]);
        pool.tail_bytes = share.tail_bytes;
        stream.has_tail = true;
        for (size_t piece = 1; piece < 3500; piece = piece * 5 / 4 + 1) {
            struct strlist lines = { 0 };
            memset (text, (int) ('a' + piece % 26), piece);
            text[piece] = '\n';
            same &= write (writer, text, piece + 1) > 0 && output_stream_read (&stream, &sink, 0);
            length += piece + 1;
            text[piece] = '\0';
            output_sink_drain (&sink);
            take ();
            got_length = 0;
            output_stream_tail (&stream, &lines);
            if (piece + 2 < pool.tail_bytes)
                same &= lines.count && !strcmp (lines.items[lines.count - 1], text);
            small &= stream.tail_capacity <= OUTPUT_TAIL_LEAST || stream.tail_capacity <= 2 * length;
            strlist_release (&lines);
        }
        ok (same, "the last line after each piece, %d ranks", ranks[i]);
        ok (small && stream.tail_capacity == pool.tail_bytes, "a ring grows, up to %zu bytes", pool.tail_bytes);
        close_all (&stream, writer);
    }
}

/* Bytes that malloc() has given out; 0 where it cannot be asked. */
static size_t
allocated (void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __GLIBC_PREREQ
    return 0;
#else
#if __GLIBC_PREREQ (2, 33)
    struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
#endif
}

enum { MANY = 4096, MANY_LINE = 3000 };

/* As many as a job can have, in one pipe; each in its turn gets @rounds times @bytes with a line end at last.
 * @return the most memory that was in use meanwhile */
static size_t
feed_many (struct output_stream *streams, int writer, const char *bytes, size_t length, int rounds)
{
    size_t most = 0;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < MANY; i++) {
            if (write (writer, bytes, length) != (ssize_t) length || !output_stream_read (&streams[i], &sink, 0))
                return SIZE_MAX;
            output_sink_drain (&sink);
            take ();
            got_length = 0;
            if (i % 64 == 63 && allocated () > most)
                most = allocated ();
        }
    return most;
}

/* The launcher stays below 16 MiB with all that it has otherwise: some 3 MiB, and 2 KiB for each rank. */
static void
test_many_ranks (void)
{
    enum { ENOUGH = 8 * 1024 * 1024 };
    static struct output_stream streams[MANY];
    static char lines[4000], line[MANY_LINE]; /* pipes can be that small */
    struct output_pool pool;
    struct output_stream one;
    int writer;
    size_t before = allocated ();
    open_all (&one, &pool, OUTPUT_POOL_BYTES, &writer);
    output_pool_init (&pool, MANY / 2);
    bool made = true;
    for (size_t i = 0; i < MANY; i++) {
        streams[i] = (struct output_stream){ .log.fd = -1, .has_tail = i % 2 };
        made &= !output_stream_init (&streams[i], one.fd, &pool, NULL);
    }
    memset (lines, 'x', sizeof lines);
    for (size_t i = 99; i < sizeof lines; i += 100)
        lines[i] = '\n';
    size_t most = feed_many (streams, writer, lines, sizeof lines, 4);
    ok (made && most <= before + ENOUGH, "%d streams of short lines take %zu bytes", MANY, most - before);
    ok (pool.left >= OUTPUT_POOL_BYTES - OUTPUT_SPEED_BYTES, "of what lines can grow by, %zu bytes are left",
        pool.left);
    for (size_t i = 0; i < MANY; i++)
        output_stream_catch_up (&streams[i], &sink, 0);
    ok (pool.left >= OUTPUT_POOL_BYTES - OUTPUT_SPEED_BYTES / 2, "streams that rest give memory back");
    memset (line, 'y', sizeof line);
    most = feed_many (streams, writer, line, sizeof line, 1);
    line[sizeof line - 1] = '\n';
    most = feed_many (streams, writer, line, sizeof line, 1);
    ok (most != SIZE_MAX, "all lines of %d bytes", MANY_LINE);
    for (size_t i = 0; i < MANY; i++)
        output_stream_catch_up (&streams[i], &sink, 0);
    ok (pool.left >= OUTPUT_POOL_BYTES - OUTPUT_SPEED_BYTES / 2, "after long lines too: %zu bytes are left", pool.left);
    ok (allocated () <= before + ENOUGH, "and no memory is kept: %zu bytes", allocated () - before);
    for (size_t i = 0; i < MANY; i++) {
        streams[i].fd = -1;
        output_stream_release (&streams[i]);
    }
    close_all (&one, writer);
}

/* A disk that is full for a while: a limit for the size of files does the same. */
static void
test_gap (void)
{
    struct logfile log;
    struct rlimit limit = { 0 }, small;
    char name[] = "test_output.XXXXXX", text[200] = "";
    size_t written;
    close (mkstemp (name));
    unlink (name);
    signal (SIGXFSZ, SIG_IGN);
    ok (!logfile_open (&log, strdup (name), NULL), "a file");
    getrlimit (RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 10;
    ok (!setrlimit (RLIMIT_FSIZE, &small) && !logfile_write (&log, "12345678901234", 14, &written) && written == 10,
        "10 of 14 bytes fit");
    ok (log.lost == 4 && log.size == 10 && log.error, "4 are lost");
    ok (!logfile_write (&log, "567", 3, &written) && !written && log.lost == 7, "3 more");
    setrlimit (RLIMIT_FSIZE, &limit);
    ok (logfile_write (&log, "end\n", 4, &written) && written == 4, "there is room again");
    ok (!log.lost && logfile_write (&log, "more\n", 5, &written) && written == 5, "and more");
    ok (logfile_read (&log, 0, text, sizeof text - 1) == log.size, "reading it back");
    is_text (text, "1234567890\n[accelerate: 7 bytes are missing here]\nend\nmore\n",
             "the gap is reported once, with its size");
    logfile_release (&log);
    unlink (name);
}

/* Its end is noticed while there is no room: what came then stayed in the sink, and the launcher went on for ever. */
static void
test_reader_leaves_full_sink (void)
{
    struct output_stream stream;
    struct output_pool pool;
    static const char text[4096];
    int writer;
    open_all (&stream, &pool, OUTPUT_POOL_BYTES, &writer);
    while (output_sink_put (&sink, text, sizeof text))
        continue;
    ok (sink.count == OUTPUT_SINK_BYTES, "pipe and sink are full");
    close (reader);
    ok (output_sink_put (&sink, text, sizeof text) == sizeof text && sink.broken, "without a reader it takes all");
    ok (output_sink_is_empty (&sink) && !sink.lost, "and keeps nothing");
    close_all (&stream, writer);
}

/* It polls writable with room for less than we have.  Whoever waits there does not see that the launcher was killed. */
static void
test_standing_terminal (void)
{
    static const char text[1000] = "\n";
    int master = posix_openpt (O_RDWR | O_NOCTTY);
    bool is_ready = master >= 0 && !grantpt (master) && !unlockpt (master);
    int terminal = is_ready ? open (ptsname (master), O_RDWR | O_NOCTTY) : -1;
    if (terminal < 0) {
        skip ("no pseudo-terminals here");
        return;
    }
    alarm (600);
    bool made = !output_sink_init (&sink, terminal, "terminal", NULL);
    while (made && output_sink_put (&sink, text, sizeof text))
        continue;
    ok (made && sink.written > 0 && sink.count == OUTPUT_SINK_BYTES, "a terminal without a reader makes no rank wait");
    alarm (0);
    output_sink_release (&sink);
    close (terminal);
    close (master);
}

/* A full disk and a slow reader: what was read already is held in memory, which is given back when he has it. */
static void
test_held (void)
{
    struct output_stream stream;
    struct output_pool pool;
    struct rlimit limit = { 0 }, small;
    char name[SCRATCH_SIZE + 8], text[5000];
    int writer;
    open_all (&stream, &pool, OUTPUT_POOL_BYTES, &writer);
    snprintf (name, sizeof name, "%s/held", scratch_folder ());
    ok (!logfile_open (&stream.log, strdup (name), NULL), "a file");
    unlink (name);
    memset (text, 'x', sizeof text);
    text[sizeof text - 1] = '\n';
    while (output_sink_put (&sink, text, sizeof text) == sizeof text)
        continue;
    getrlimit (RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 1000;
    size_t before = pool.left;
    ok (!setrlimit (RLIMIT_FSIZE, &small) && write (writer, text, sizeof text) == sizeof text
            && output_stream_read (&stream, &sink, 0), "5000 bytes, of which 1000 fit");
    setrlimit (RLIMIT_FSIZE, &limit);
    ok (stream.log.size == 1000 && stream.held_length == 4000 && pool.left < before, "the others are held");
    ok (output_stream_left (&stream) == 5000 && !output_stream_can_read (&stream, &sink), "and no more is read");
    for (int i = 0; i < 100 && !output_stream_catch_up (&stream, &sink, 0); i++) {
        take ();
        output_sink_drain (&sink);
    }
    ok (!stream.held_length && !output_stream_left (&stream), "until the reader has it");
    ok (pool.left + stream.capacity == before + OUTPUT_TEXT_BYTES, "and the memory is given back");
    close_all (&stream, writer);
}

/* What must stay together does not begin where it cannot end, and no other output comes in the middle of it. */
static void
test_pieces (void)
{
    struct output_stream stream;
    struct output_pool pool;
    char text[1000];
    int writer;
    open_all (&stream, &pool, 0, &writer);
    memset (text, 'x', sizeof text);
    sink.owner = &stream;
    ok (!output_sink_say (&sink, "a warning") && output_sink_is_empty (&sink), "no warning in the middle of a line");
    sink.owner = NULL;
    ok (output_sink_say (&sink, "a warning"), "but after it");
    while (output_sink_put (&sink, text, sizeof text) == sizeof text)
        continue;
    sink.count -= 5;
    ok (!output_sink_put_whole (&sink, "123456", 6) && sink.count == OUTPUT_SINK_BYTES - 5, "six bytes into five");
    ok (!output_sink_say (&sink, "12345") && sink.count == OUTPUT_SINK_BYTES - 5, "nor a line and its end");
    ok (output_sink_put_whole (&sink, "12345", 5) && sink.count == OUTPUT_SINK_BYTES, "five");
    close_all (&stream, writer);
}

/* Where a line without a name is cut for want of memory and another rank's follows, a mark is written. */
static void
test_cut_mark (void)
{
    struct output_stream stream, other = { .fd = -1, .log.fd = -1 };
    struct output_pool pool;
    char text[OUTPUT_TEXT_BYTES];
    int writer, ends[2];
    open_all (&stream, &pool, 0, &writer);
    memset (text, 'x', sizeof text);
    ok (!pipe2 (ends, O_NONBLOCK) && !output_stream_init (&other, ends[0], &pool, NULL), "another stream");
    ok (write (writer, text, sizeof text) == sizeof text && output_stream_read (&stream, &sink, 0), "half a line");
    ok (write (ends[1], "other\n", 6) == 6 && output_stream_read (&other, &sink, 0), "a line of another");
    ok (write (writer, "end\n", 4) == 4 && output_stream_read (&stream, &sink, 0), "the rest");
    ok (write (ends[1], "last\n", 5) == 5 && output_stream_read (&other, &sink, 0), "one more");
    output_sink_drain (&sink);
    take ();
    got[got_length] = '\0';
    is_text (got + sizeof text, OUTPUT_CUT_MARK "\nother\nend\nlast\n", "one mark, between the two");
    close (ends[1]);
    output_stream_release (&other);
    close_all (&stream, writer);
}

static void
put (int writer, struct output_stream *stream, const char *text)
{
    size_t length = strlen (text);
    ok (write (writer, text, length) == (ssize_t) length && output_stream_read (stream, &sink, 0), "%zu bytes", length);
}

/* What was put and cannot be written is counted; what goes to a descriptor that was closed is not counted. */
static void
test_losses (void)
{
    int full = open ("/dev/full", O_WRONLY | O_CLOEXEC);
    ok (full >= 0 && !output_sink_init (&sink, full, "full", NULL) && !sink.broken, "a full disk");
    ok (output_sink_put (&sink, "1234567890", 10) == 10, "ten bytes");
    output_sink_drain (&sink);
    ok (sink.broken && sink.error == ENOSPC && sink.lost == 10 && output_sink_is_empty (&sink), "ten are lost");
    ok (output_sink_put (&sink, "12345", 5) == 5 && sink.lost == 15, "and five more");
    output_sink_release (&sink);
    close (full);
    ok (!output_sink_init (&sink, full, "closed", NULL) && sink.broken, "a descriptor that was closed");
    ok (output_sink_put (&sink, "12345", 5) == 5 && !sink.lost && output_sink_is_empty (&sink), "nothing is lost");
    output_sink_release (&sink);
}

/* The memory of a long line is given back when shorter ones follow. */
static void
test_shrinks (void)
{
    struct output_stream stream;
    struct output_pool pool;
    char text[4096];
    int writer;
    open_all (&stream, &pool, OUTPUT_POOL_BYTES, &writer);
    memset (text, 'x', sizeof text);
    for (int i = 0; i < 16; i++)
        if (write (writer, text, sizeof text) != sizeof text || !output_stream_read (&stream, &sink, 0))
            ok (false, "cannot write");
    ok (stream.capacity >= 65536, "a line of 65536 bytes");
    for (int i = 0; i < 3; i++) {
        if (write (writer, "end\n", 4) != 4 || !output_stream_read (&stream, &sink, 0))
            ok (false, "cannot write");
        output_sink_drain (&sink);
        take ();
    }
    ok (stream.capacity <= OUTPUT_CHUNK_BYTES && got_length > 65536, "its buffer is small again");
    ok (pool.left + stream.capacity == OUTPUT_POOL_BYTES + OUTPUT_TEXT_BYTES, "and the pool has the memory");
    close_all (&stream, writer);
}

/* Each line bears its name once, whatever ends it. */
static void
test_names (void)
{
    struct output_stream stream;
    struct output_pool pool;
    int writer;
    open_all (&stream, &pool, OUTPUT_POOL_BYTES, &writer);
    stream.prefix = strdup ("[n]:");
    put (writer, &stream, "a\rb\r\nc");
    output_stream_flush (&stream, &sink);
    put (writer, &stream, "d\n\ne\r");
    put (writer, &stream, "\nf\n");
    output_sink_drain (&sink);
    take ();
    got[got_length] = '\0';
    is_text (got, "[n]:a\n[n]:b\n[n]:cd\n[n]:\n[n]:e\n[n]:f\n", "lines with names");
    close_all (&stream, writer);
}

/* Two streams without names: what rank 0 ("a") and 1 ("b") write in turns, and what comes out. */
static void
test_unfinished (void)
{
    static const struct {
        const char *written[4], *shown, *about;
    } cases[] = {
        { { "begun", "whole\n", " and ended\n" }, "begun\nwhole\n and ended\n", "a shown line ends before another" },
        { { "begun", "", ", goes on", "whole\n" }, "begun, goes on\nwhole\n", "what continues a shown line is shown" },
        { { "begun", "", "!\nnext", "whole\n" }, "begun!\nwhole\nnext", "but not what follows it" },
        { { "\r10 %", "whole\n", "\r20 %" }, "\r10 %\nwhole\n\r20 %", "a bar ends before a line" },
        { { "\r10 %", "\r11 %", "\r20 %" }, "\r10 %\r11 %\r20 %", "bars draw over each other" },
        { { "loss ", "\r11 %", "0.5\n" }, "loss \n\r11 %\n0.5\n", "but not over the beginning of a line" },
        { { "a\r\nb\r\n", "whole\n" }, "a\r\nb\r\nwhole\n", "lines that end with both" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct output_stream streams[2] = { { 0 }, { .fd = -1, .log.fd = -1 } };
        struct output_pool pool;
        int writers[2], ends[2];
        open_all (&streams[0], &pool, OUTPUT_POOL_BYTES, &writers[0]);
        ok (!pipe2 (ends, O_NONBLOCK) && !output_stream_init (&streams[1], ends[0], &pool, NULL), "another stream");
        writers[1] = ends[1];
        for (int turn = 0; turn < 4 && cases[i].written[turn]; turn++) {
            struct output_stream *stream = &streams[turn % 2];
            put (writers[turn % 2], stream, cases[i].written[turn]);
            if (turn == 0 || stream->line.has_return)
                output_stream_flush (stream, &sink);
        }
        for (int j = 0; j < 2; j++)
            output_stream_end (&streams[j], &sink);
        output_sink_drain (&sink);
        take ();
        got[got_length] = '\0';
        is_text (got, cases[i].shown, cases[i].about);
        close (writers[1]);
        output_stream_release (&streams[1]);
        close_all (&streams[0], writers[0]);
    }
}

/* A line of which a part is in the queue is not interrupted, though the other one's would fit. */
static void
test_turns (void)
{
    struct output_stream stream, other = { .fd = -1, .log.fd = -1 };
    struct output_pool pool;
    char text[1000], wanted[] = "4\nother\n";
    int writer, ends[2];
    open_all (&stream, &pool, 0, &writer);
    ok (!pipe2 (ends, O_NONBLOCK) && !output_stream_init (&other, ends[0], &pool, NULL), "another stream");
    memset (text, 'x', sizeof text);
    put (writer, &stream, "1234\n");
    put (ends[1], &other, "other\n");
    output_sink_drain (&sink);
    take ();
    while (output_sink_put (&sink, text, sizeof text) == sizeof text)
        continue;
    sink.count -= 3;
    stream.start = 0;
    stream.ready = stream.length = 5;
    memcpy (stream.text, "1234\n", 5);
    other.start = 0;
    other.ready = other.length = 6;
    memcpy (other.text, "other\n", 6);
    ok (!output_stream_catch_up (&stream, &sink, 0) && stream.start == 3, "three of five bytes have room");
    take ();
    ok (!output_stream_catch_up (&other, &sink, 0), "the other one has to wait");
    ok (output_stream_catch_up (&stream, &sink, 0) && output_stream_catch_up (&other, &sink, 0), "for the rest");
    for (int i = 0; i < 100 && !output_sink_is_empty (&sink); i++) {
        take ();
        output_sink_drain (&sink);
    }
    take ();
    got[got_length] = '\0';
    is_text (got + got_length - strlen (wanted), wanted, "its line comes after that");
    close (ends[1]);
    output_stream_release (&other);
    close_all (&stream, writer);
}

/* Where the launcher has no descriptor of its own, a write must not be larger than what poll() promises. */
static void
test_blocking_pipe (void)
{
    struct output_stream stream;
    struct output_pool pool;
    static char text[3 * 4096];
    int writer;
    open_all (&stream, &pool, 0, &writer);
    ok (fcntl (sink.fd, F_SETPIPE_SZ, 8192) == 8192 && !fcntl (sink.fd, F_SETFL, 0), "a small pipe that can block");
    if (sink.own_fd >= 0)
        close (sink.own_fd);
    sink.own_fd = -1;
    alarm (600);
    ok (output_sink_put (&sink, text, sizeof text) == sizeof text, "more than it takes");
    output_sink_drain (&sink);
    ok (sink.count == 4096 && sink.written == 8192, "as much as it takes is written, without waiting");
    alarm (0);
    close_all (&stream, writer);
}

/* Allocators of sanitizers do not fail for want of memory. */
static void
test_no_ring (void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip ("a sanitizer has an allocator of its own");
#else
    struct fail fail = { 0 };
    struct rlimit limit = { 0 }, none;
    struct list { struct list *next; } *all = NULL;
    int ends[2];
    ok (!getrlimit (RLIMIT_AS, &limit) && !pipe2 (ends, O_CLOEXEC), "a pipe");
    none = limit;
    none.rlim_cur = 0;
    ok (!setrlimit (RLIMIT_AS, &none), "no more memory");
    for (struct list *more; (more = malloc (OUTPUT_SINK_BYTES)); all = more)
        more->next = all;
    int result = output_sink_init (&sink, ends[1], "pipe", &fail), next = dup (0);
    output_sink_release (&sink);
    for (struct list *rest; all; all = rest) {
        rest = all->next;
        free (all);
    }
    setrlimit (RLIMIT_AS, &limit);
    ok (result && next == ends[1] + 1, "a sink that cannot be made leaves no descriptor open");
    close (next);
    close (ends[0]);
    close (ends[1]);
#endif
}

int
main (void)
{
    signal (SIGPIPE, SIG_IGN);
    test_no_memory (0);
    test_no_memory (OUTPUT_TEXT_BYTES);
    test_no_memory (OUTPUT_POOL_BYTES);
    test_no_ring ();
    test_standing_terminal ();
    test_reader_leaves_full_sink ();
    test_back_pressure (false);
    test_back_pressure (true);
    test_terminal ();
    test_reader_gone (false);
    test_reader_gone (true);
    test_tail ();
    test_tail_sizes ();
    test_many_ranks ();
    test_pieces ();
    test_cut_mark ();
    test_blocking_pipe ();
    test_losses ();
    test_shrinks ();
    test_names ();
    test_unfinished ();
    test_turns ();
    if (getenv ("TSAN_OPTIONS") == NULL) {
        test_gap ();
        test_held ();
    }
    return done_testing ();
}
