/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead: batches come in order and whole, whoever reads them; threads end where reads are cheap; a caller that
 * waits reads, too; failures, ends, stops in the middle and reads that hang. */
#include <config.h>

#include "lib/data/reader.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 4, NONE = -1, PATIENCE_MS = 300000 };

static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };

struct source {
    long end, bad, slow_from, slow_to;
    atomic_long hangs;
    atomic_bool mended, released;
    atomic_long fills, by_caller;
    long releases; /* what hangs comes back when the caller reads this batch */
    atomic_int now; /* how many read at this moment */
    bool serial, overlapped;
    long expected; /* of a serial one: the next number */
    pthread_t caller;
    atomic_long unblocked; /* reads by threads that would take the program's signals */
    long outlier;          /* a read that takes much longer than those before it */
    const struct reader *reader;
    int64_t before_ns;     /* what a read took before it */
};

static enum accel_status
fill (void *user, size_t number, struct accel_batch *batch, bool *end, _Atomic int64_t *progress,
      struct accel_error *err)
{
    struct source *source = user;
    long which = (long) number;
    atomic_fetch_add (&source->fills, 1);
    atomic_fetch_add (&source->by_caller, pthread_equal (pthread_self (), source->caller) != 0);
    sigset_t blocked;
    if (!pthread_equal (pthread_self (), source->caller) && !pthread_sigmask (SIG_BLOCK, NULL, &blocked)
        && !(sigismember (&blocked, SIGUSR1) && sigismember (&blocked, SIGINT)))
        atomic_fetch_add (&source->unblocked, 1);
    if (source->serial && (atomic_fetch_add (&source->now, 1) || which != source->expected++))
        source->overlapped = true;
    if (progress)
        atomic_store (progress, which * ROWS);
    if (which == source->releases && pthread_equal (pthread_self (), source->caller))
        atomic_store (&source->released, true);
    while (which == source->hangs && !atomic_load (&source->released))
        usleep (1000);
    if (which >= source->slow_from && which < source->slow_to)
        usleep (1200);
    if (which == source->outlier) {
        source->before_ns = source->reader->fill_ns;
        usleep ((useconds_t) (1000 + source->before_ns / 1000 * 20));
    }
    for (int64_t i = 0; i < ROWS; i++)
        ((int64_t *) batch->fields[0].dl.data)[i] = which * ROWS + i;
    batch_set_size (batch, ROWS);
    *end = source->serial && which == source->end;
    if (source->serial)
        atomic_fetch_sub (&source->now, 1);
    if (which != source->bad || atomic_load (&source->mended))
        return ACCEL_OK;
    snprintf (err->text, sizeof err->text, "batch %ld is bad", which);
    return err->code = ACCEL_ERR_CALLBACK;
}

static struct source
make_source (long end, bool serial)
{
    return (struct source){ .end = end, .bad = NONE, .slow_from = NONE, .slow_to = NONE, .hangs = NONE,
                            .releases = NONE, .outlier = NONE, .serial = serial, .caller = pthread_self () };
}

/* Up to @p most batches.  @return how many came, in order and whole; NONE where they did not */
static long
take (struct reader *reader, long first, long most, struct accel_error *err)
{
    struct accel_batch *batch;
    bool is_last = false;
    long number = first;
    *err = (struct accel_error){ 0 };
    for (; number < first + most && !reader_next (reader, &batch, &is_last, PATIENCE_MS, err) && batch; number++) {
        const int64_t *values = batch->fields[0].dl.data;
        if (batch->size != ROWS || values[0] != number * ROWS || values[ROWS - 1] != number * ROWS + ROWS - 1)
            return NONE;
    }
    return number - first;
}

static void
begin (struct reader *reader, struct source *source, bool only_threads)
{
    struct reader_source reads = { .fill = fill, .user = source, .serial = source->serial,
                                   .only_threads = only_threads,
                                   .length = source->serial ? SIZE_MAX : (size_t) source->end };
    source->expected = 0;
    reader_start (reader, &reads, 0);
}

static struct reader *
make_reader (size_t threads, size_t ahead)
{
    struct reader *reader;
    struct accel_error err;
    if (reader_create (&reader, threads, ahead, &field, 1, ROWS, NULL, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    return reader;
}

static const struct {
    size_t threads, ahead;
    bool serial, only_threads;
    long end, bad, slow_from, slow_to, stop;
} passes[] = {
    { 0, 1, false, false, 300, 77, NONE, NONE, 100 },
    { 0, 1, true, false, 300, NONE, NONE, NONE, 100 },
    { 1, 2, false, false, 20000, 1700, NONE, NONE, 900 },
    { 1, 1, false, false, 20000, 10, NONE, NONE, 20 },
    { 3, 2, false, false, 20000, 0, 9000, 9060, 900 },
    { 3, 2, false, false, 20000, 50, 0, 30, 30 },
    { 2, 2, false, true, 20000, 1700, NONE, NONE, 900 },
    { 2, 2, false, true, 3000, 1700, NONE, NONE, 900 },
    { 1, 2, true, false, 20000, NONE, NONE, NONE, 900 },
    { 1, 2, true, false, 20000, NONE, 3000, 3060, 900 },
    { 1, 2, true, false, 700, 690, NONE, NONE, 20 },
    { 3, 2, true, true, 2000, NONE, 1000, 1060, 900 },
    { 2, 1, false, false, 1, NONE, NONE, NONE, 0 },
    { 2, 1, false, false, 0, NONE, NONE, NONE, 0 },
    { 1, 1, true, false, 0, NONE, NONE, NONE, 0 },
    { 1, 1, true, false, 40, NONE, NONE, NONE, 0 },
};

static void
test_pass (size_t row)
{
    struct reader *reader = make_reader (passes[row].threads, passes[row].ahead);
    struct source source = make_source (passes[row].end, passes[row].serial);
    struct accel_error err;
    source.slow_from = passes[row].slow_from;
    source.slow_to = passes[row].slow_to;
    begin (reader, &source, passes[row].only_threads);
    bool good = take (reader, 0, passes[row].stop, &err) == passes[row].stop && !err.code
                && reader_stop (reader, PATIENCE_MS);
    ok (good, "%zu threads%s%s: the first %ld of %ld batches", passes[row].threads,
        passes[row].serial ? ", serial" : "", passes[row].only_threads ? ", always" : "", passes[row].stop,
        passes[row].end);
    source.bad = passes[row].bad;
    begin (reader, &source, passes[row].only_threads);
    long come = take (reader, 0, passes[row].end + 1, &err);
    if (source.bad >= 0) {
        ok (come == source.bad && err.code == ACCEL_ERR_CALLBACK && strstr (err.text, "is bad"),
            "all before the bad one: %s", err.text);
        ok (take (reader, come, 1, &err) == 0 && err.code == ACCEL_ERR_CALLBACK, "which stays bad");
        atomic_store (&source.mended, true);
        if (!source.serial)
            come += take (reader, come, passes[row].end, &err);
        else
            come = passes[row].end;
    }
    ok (come == passes[row].end, "all of them, in order");
    sigset_t blocked;
    ok (!source.unblocked && !pthread_sigmask (SIG_BLOCK, NULL, &blocked) && !sigismember (&blocked, SIGUSR1),
        "signals are for the caller, and not for threads");
    ok (!source.overlapped && (!passes[row].only_threads || !source.by_caller),
        "%ld reads, %ld by the caller", (long) source.fills, (long) source.by_caller);
    ok (reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* The text names the sample, because another thread than its reader waits. */
static void
test_hang (void)
{
    struct reader *reader = make_reader (1, 2);
    struct source source = make_source (50000, false);
    struct accel_batch *batch;
    struct accel_error err = { 0 };
    bool is_last;
    source.hangs = 20000;
    begin (reader, &source, true);
    ok (take (reader, 0, 20000, &err) == 20000, "many cheap reads before one that hangs");
    ok (reader_next (reader, &batch, &is_last, 100, &err) == ACCEL_ERR_TIMEOUT && strstr (err.text, "sample 80000"),
        "which is reported: %s", err.text);
    atomic_store (&source.released, true);
    bool stopped = reader_stop (reader, PATIENCE_MS);
    ok (stopped && reader_next (reader, &batch, &is_last, PATIENCE_MS, &err) == ACCEL_ERR_TIMEOUT && !batch,
        "and is of no more use, although it came back at last: %s", err.text);
    ok (reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* So is one that hangs when it is needed again. */
static void
test_hang_again (void)
{
    struct reader *reader = make_reader (1, 2);
    struct source source = make_source (50, false);
    struct accel_batch *batch;
    struct accel_error err = { 0 };
    bool is_last;
    source.bad = 5;
    begin (reader, &source, true);
    ok (take (reader, 0, 50, &err) == 5 && err.code == ACCEL_ERR_CALLBACK, "a read that fails");
    source.hangs = 5;
    ok (reader_next (reader, &batch, &is_last, 100, &err) == ACCEL_ERR_TIMEOUT && strstr (err.text, "sample 20"),
        "and hangs the next time: %s", err.text);
    ok (reader_next (reader, &batch, &is_last, 100, &err) == ACCEL_ERR_TIMEOUT, "and is not waited for any more");
    atomic_store (&source.released, true);
    ok (!source.by_caller && reader_stop (reader, PATIENCE_MS) && reader_destroy (reader, PATIENCE_MS),
        "and comes back at last");
}

/* A pass that ends while a read hangs: the reader is of no more use, until it is known what that read writes to. */
static void
test_stop_of_hanging (void)
{
    struct reader *reader = make_reader (1, 1);
    struct source source = make_source (20, false);
    struct accel_error err;
    struct accel_batch *batch;
    bool is_last;
    source.hangs = 1;
    begin (reader, &source, true);
    bool taken = take (reader, 0, 1, &err) == 1;
    for (int i = 0; i < PATIENCE_MS && atomic_load (&source.fills) < 2; i++)
        usleep (1000);
    ok (taken && !reader_stop (reader, 10), "a pass ends, but a read does not");
    ok (reader_next (reader, &batch, &is_last, 10, &err) == ACCEL_ERR_TIMEOUT && strstr (err.text, "still reading"),
        "and the next call gets an error: %s", err.text);
    atomic_store (&source.released, true);
    ok (reader_stop (reader, PATIENCE_MS) && reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* Until @p count is not @p old any more. */
static void
await (atomic_long *count, long old)
{
    for (int waited = 0; waited < PATIENCE_MS && atomic_load (count) == old; waited++)
        usleep (1000);
}

/* With or without a processor for the caller, after this many reads of this length.  Before a pass. */
static void
set_help (struct reader *reader, bool helps, unsigned measured, int64_t fill_ns)
{
    pthread_mutex_lock (&reader->lock);
    reader->helps = helps;
    reader->measured = measured;
    reader->fill_ns = fill_ns;
    pthread_mutex_unlock (&reader->lock);
}

enum { MEASURED = 32 }; /* reads before it is decided whether threads are needed */
static const int64_t YEAR_NS = INT64_C (30000000) * 1000000000;

/* The thread is stuck in the first batch until the caller, who waits for that one, has read the third. */
static void
test_help (void)
{
    static const struct {
        const char *name;
        int64_t fill_ns;
        unsigned measured;
        bool is_taken, only_threads, serial, helps;
    } rows[] = {
        { "a caller that waits reads what comes next", YEAR_NS, MEASURED, false, false, false, true },
        { "without a processor for him, he waits", YEAR_NS, MEASURED, true, false, false, false },
        { "he waits if only threads are to read", YEAR_NS, MEASURED, false, true, false, false },
        { "he waits for a stream, which only one thread may read", YEAR_NS, MEASURED, false, false, true, false },
        { "he waits until it is known that threads are needed", YEAR_NS, MEASURED - 1, false, false, false, false },
        { "he waits for what should soon be read", 1, MEASURED, false, false, false, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reader *reader = make_reader (1, 2);
        struct source source = make_source (20, rows[i].serial);
        struct accel_error err;
        struct accel_batch *batch = NULL;
        bool is_last;
        source.hangs = 0;
        source.releases = 2;
        set_help (reader, !rows[i].is_taken, rows[i].measured, rows[i].fill_ns);
        begin (reader, &source, rows[i].only_threads);
        await (&source.fills, 0);
        enum accel_status status = reader_next (reader, &batch, &is_last, rows[i].helps ? 60000 : 50, &err);
        ok (rows[i].helps ? !status && batch && *(int64_t *) batch->fields[0].dl.data == 0 && source.by_caller == 2
                          : status == ACCEL_ERR_TIMEOUT && !source.by_caller,
            "%s: %ld reads by the caller", rows[i].name, (long) source.by_caller);
        if (rows[i].helps)
            ok (take (reader, 1, 20, &err) == 19 && source.fills == 20, "and all come in order, each read once");
        atomic_store (&source.released, true);
        ok (reader_stop (reader, PATIENCE_MS) && reader_destroy (reader, PATIENCE_MS), "no thread is left");
    }
}

/* A thread that has been given work, but does not run yet. */
static struct {
    atomic_bool on;
    atomic_long asleep, woken;
} sleepy;

/* In the place of the library's. */
int
pthread_cond_wait (pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    static const struct timespec never = { .tv_sec = INT32_MAX };
    sleepy.asleep++;
    int error = pthread_cond_clockwait (condition, mutex, CLOCK_MONOTONIC, &never);
    if (atomic_load (&sleepy.on)) {
        pthread_mutex_unlock (mutex);
        sleepy.woken++;
        while (atomic_load (&sleepy.on))
            usleep (1000);
        pthread_mutex_lock (mutex);
    }
    return error;
}

static void
test_take_over (void)
{
    long asleep = sleepy.asleep, woken = sleepy.woken;
    struct reader *reader = make_reader (1, 2);
    struct source source = make_source (20, false);
    struct accel_error err;
    struct accel_batch *batch = NULL;
    bool is_last;
    await (&sleepy.asleep, asleep);
    set_help (reader, true, MEASURED, 1);
    atomic_store (&sleepy.on, true);
    begin (reader, &source, false);
    await (&sleepy.woken, woken);
    enum accel_status status = reader_next (reader, &batch, &is_last, 60000, &err);
    ok (!status && batch && *(int64_t *) batch->fields[0].dl.data == 0 && source.by_caller == 1 && source.fills == 1,
        "a caller reads the batch that he needs, and that no thread has begun");
    atomic_store (&sleepy.on, false);
    ok (take (reader, 1, 20, &err) == 19, "and continues");
    ok (reader_stop (reader, PATIENCE_MS) && reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* What the caller could not read is reported in its turn, and read again by a thread. */
static void
test_failing_help (void)
{
    struct reader *reader = make_reader (1, 2);
    struct source source = make_source (20, false);
    struct accel_error err;
    source.hangs = 0;
    source.releases = source.bad = 2;
    set_help (reader, true, MEASURED, YEAR_NS);
    begin (reader, &source, false);
    await (&source.fills, 0);
    long come = take (reader, 0, 20, &err);
    ok (come == 2 && source.by_caller >= 2 && err.code == ACCEL_ERR_CALLBACK && strstr (err.text, "batch 2 is bad"),
        "a caller fails to read ahead, and gets the error after the two batches before: %s", err.text);
    atomic_store (&source.mended, true);
    ok (take (reader, come, 20, &err) == 18, "and can read on");
    ok (reader_stop (reader, PATIENCE_MS) && reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* Threads that would take longer to hand a batch over than to read it end, and not before 32 batches have shown that.
 * A few slow reads among them do not count, nor do cheap ones later. */
static void
test_cheap_reads (void)
{
    enum { BATCHES = 400, TRIES = 20 };
    static const struct {
        long slow_from, slow_to;
        bool only_threads, ends;
        const char *name;
    } rows[] = {
        { NONE, NONE, false, true, "all are cheap" },
        { 3, 6, false, true, "three are slow" },
        { 0, MEASURED - 8, false, false, "most of the first are slow" },
        { 0, BATCHES, false, false, "all are slow" },
        { NONE, NONE, true, false, "all are cheap, but threads have to read" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reader *reader = NULL;
        struct source source;
        struct accel_error err;
        bool is_read = true;
        for (int tries = 0; is_read && tries < TRIES && (!reader || (rows[i].ends && reader->thread_count)); tries++) {
            reader_destroy (reader, PATIENCE_MS); /* a busy machine has made cheap reads look slow */
            reader = make_reader (2, 2);
            source = make_source (BATCHES, false);
            source.slow_from = rows[i].slow_from;
            source.slow_to = rows[i].slow_to;
            set_help (reader, false, 0, 0);
            begin (reader, &source, rows[i].only_threads);
            is_read = take (reader, 0, BATCHES, &err) == BATCHES;
        }
        ok (is_read, "%s", rows[i].name);
        ok (rows[i].ends ? reader->thread_count == 0 && source.by_caller > BATCHES / 2
                               && source.fills - source.by_caller >= MEASURED
                         : reader->thread_count == 2 && !source.by_caller,
            "%ld of %ld reads are the caller's, %zu threads are left", (long) source.by_caller, (long) source.fills,
            reader->thread_count);
        begin (reader, &source, rows[i].only_threads);
        ok (take (reader, 0, BATCHES, &err) == BATCHES && (reader->thread_count == 0) == rows[i].ends,
            "so it is in the next pass");
        ok (reader_destroy (reader, PATIENCE_MS), "no thread is left");
    }
}

/* One slow read says little of the next: a thread may have been kept from running. */
static void
test_outlier (void)
{
    enum { OUTLIER = 200 };
    struct reader *reader = make_reader (1, 1);
    struct source source = make_source (OUTLIER + 1, false);
    struct accel_error err;
    source.outlier = OUTLIER;
    source.reader = reader;
    begin (reader, &source, true);
    bool read = take (reader, 0, OUTLIER + 2, &err) == OUTLIER + 1 && reader_stop (reader, PATIENCE_MS);
    ok (read && reader->fill_ns <= 2 * source.before_ns + 8, "a read takes %lld ns, %lld after one of 20 times that",
        (long long) source.before_ns, (long long) reader->fill_ns);
    ok (reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* The time is over at the moment at which a batch is read: whoever waits has the lock only after it. */
static struct {
    atomic_bool on;
    struct reader *reader;
    struct source *source;
} too_late;

/* In the place of the library's. */
int
pthread_cond_timedwait (pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (!atomic_load (&too_late.on))
        return pthread_cond_clockwait (condition, mutex, CLOCK_MONOTONIC, until);
    unsigned seen = atomic_load (&too_late.reader->taken);
    pthread_mutex_unlock (mutex);
    atomic_store (&too_late.source->released, true);
    while (atomic_load (&too_late.reader->taken) == seen)
        usleep (100);
    pthread_mutex_lock (mutex);
    return ETIMEDOUT;
}

static void
test_last_moment (void)
{
    struct reader *reader = make_reader (1, 1);
    struct source source = make_source (20, false);
    struct accel_error err;
    struct accel_batch *batch;
    bool is_last;
    source.hangs = 3;
    begin (reader, &source, true);
    ok (take (reader, 0, 3, &err) == 3, "three reads before one that takes its time");
    too_late.reader = reader;
    too_late.source = &source;
    atomic_store (&too_late.on, true);
    enum accel_status status = reader_next (reader, &batch, &is_last, 1000, &err);
    atomic_store (&too_late.on, false);
    ok (!status && batch && *(int64_t *) batch->fields[0].dl.data == 3 * ROWS, "which is not late yet");
    ok (take (reader, 4, 20, &err) == 16, "nor is what comes after it");
    ok (reader_destroy (reader, PATIENCE_MS), "no thread is left");
}

/* As in a child that is the first process of a new namespace, whose parent is that of another: both have number 1. */
pid_t __wrap_getpid (void);
pid_t
__wrap_getpid (void)
{
    return 1;
}

/* A child of fork() has none of the threads: it waits for none, and can free all. */
static void
test_fork (void)
{
    struct accel_error err;
    struct accel_batch *batch;
    bool is_last;
    struct source source = make_source (20000, false);
    struct reader *reader = make_reader (2, 2);
    begin (reader, &source, true);
    ok (take (reader, 0, 100, &err) == 100, "batches from two threads");
    pid_t child = fork ();
    if (!child) {
        alarm (PATIENCE_MS / 1000);
        bool refused = reader_is_orphan (reader)
                       && reader_next (reader, &batch, &is_last, PATIENCE_MS, &err) == ACCEL_ERR_INVALID
                       && strstr (err.text, "is a fork");
        begin (reader, &source, true);
        _exit (refused && reader_stop (reader, PATIENCE_MS) && reader_destroy (reader, PATIENCE_MS) ? 0 : 9);
    }
    int status = -1;
    waitpid (child, &status, 0);
    ok (!status, "in a child: status %x", (unsigned) status);
    ok (!reader_is_orphan (reader) && take (reader, 100, 100, &err) == 100, "its parent reads on");
    reader_destroy (reader, PATIENCE_MS);
}

int
main (void)
{
    test_stop_of_hanging ();
    test_help ();
    test_take_over ();
    test_failing_help ();
    test_cheap_reads ();
    test_outlier ();
    test_last_moment ();
    for (size_t row = 0; row < sizeof passes / sizeof *passes; row++)
        test_pass (row);
    test_hang ();
    test_hang_again ();
    test_fork ();
    return done_testing ();
}
