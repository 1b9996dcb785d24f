/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of batches that are read ahead; see reader.h.
 *
 * The slot of the batch that the caller has is not read into, so with S slots S - 1 batches are ahead of it at most.
 * The slot that became free last is used first: its memory is most likely in the caches still.
 *
 * If reading a batch takes less than putting a thread to sleep and waking it up, a waiting thread spins a little
 * first: it would come back too late otherwise.  Where it takes even less than handing a batch over, which the first
 * reads show, the threads end, and the caller reads.  If threads are kept and a processor is free, a caller that has to
 * wait reads a batch meanwhile.  See bench/README.md for the figures. */
#include <config.h>

#include "lib/data/reader.h"

#include "lib/base/error.h"
#include "lib/comm/lock.h"
#include "util/clock.h"
#include "util/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_BYTES = 1 << 20, MOST_THREADS = 1024 };

/* Reads that take longer are worth a sleep; how long to spin, and how often to look at the clock meanwhile. */
enum { CHEAP_NS = 100000, SPIN_NS = 50000, SPINS = 32, AVERAGED = 8 };

/* Reads that are looked at; most of them shorter than this: threads are of no use. */
enum { MEASURED = 32, HANDOVER_NS = 50000 };

/* With the lock held, which is given up meanwhile: wait a little for @p count to change.  @return whether to look */
static bool
spin (struct reader *reader, atomic_uint *count)
{
    unsigned seen = atomic_load_explicit (count, memory_order_relaxed);
    if (reader->alone || reader->fill_ns > CHEAP_NS)
        return false;
    pthread_mutex_unlock (&reader->lock);
    bool changed = false;
    for (int64_t until = clock_ns () + SPIN_NS; !changed && clock_ns () < until;)
        for (int i = 0; i < SPINS && !changed; i++) {
            relax ();
            changed = atomic_load_explicit (count, memory_order_relaxed) != seen;
        }
    pthread_mutex_lock (&reader->lock);
    return changed || atomic_load_explicit (count, memory_order_relaxed) != seen;
}

/* If only the caller reads, there is no other thread to keep out. @{ */
static void
lock (struct reader *reader)
{
    if (reader->thread_count)
        pthread_mutex_lock (&reader->lock);
}

static void
unlock (struct reader *reader)
{
    if (reader->thread_count)
        pthread_mutex_unlock (&reader->lock);
}
/* @} */

/* The slot of batch @p number; of one that no thread has begun to read, another batch's slot or NULL. */
static struct reader_slot *
slot_of (const struct reader *reader, size_t number)
{
    return reader->ring[number % reader->slot_count];
}

static bool
is_read (const struct reader *reader, size_t number)
{
    const struct reader_slot *slot = slot_of (reader, number);
    return number < reader->next_read && slot && slot->number == number && slot->state > SLOT_READING;
}

static bool
has_room (const struct reader *reader)
{
    return reader->next_read < reader->source.length && reader->spare_count && !reader->unneeded
           && !(reader->source.serial && reader->reading);
}

/* There is something to read for one thread more. */
static void
call_thread (struct reader *reader)
{
    if (!reader->thread_count)
        return;
    atomic_fetch_add_explicit (&reader->given, 1, memory_order_relaxed);
    pthread_cond_signal (&reader->work);
}

/* The batch that the caller had is over, or if it keeps two, the one before: one more can be read. */
static void
release_held (struct reader *reader)
{
    struct reader_slot *over = reader->held;
    if (!over)
        return;
    if (reader->keeps) {
        over = reader->kept;
        reader->kept = reader->held;
    }
    reader->held = NULL;
    if (!over)
        return;
    reader->spare[reader->spare_count++] = over;
    call_thread (reader);
}

static void
note_outcome (struct reader *reader, struct reader_slot *slot, enum accel_status status, bool end)
{
    slot->state = status ? SLOT_FAILED : end ? SLOT_END : SLOT_FULL;
    if (slot->state != SLOT_FULL && reader->source.serial)
        reader->source.length = reader->next_read; /* nothing is read after it */
}

/* By the caller: no other thread waits and asks how far it is. */
static void
read_alone (struct reader *reader, struct reader_slot *slot)
{
    bool end = false;
    accel_error_clear (&slot->error);
    enum accel_status status
        = reader->source.fill (reader->source.user, slot->number, &slot->batch, &end, NULL, &slot->error);
    note_outcome (reader, slot, status, end);
}

static void
mark_reading (struct reader_slot *slot)
{
    slot->state = SLOT_READING;
    slot->since_ns = clock_ns ();
    atomic_store_explicit (&slot->progress, -1, memory_order_relaxed);
}

/* A read beside others took so long. */
static void
measure (struct reader *reader, int64_t took_ns)
{
    int64_t most = reader->fill_ns ? AVERAGED * reader->fill_ns : took_ns; /* a thread may be kept from running */
    reader->fill_ns += ((took_ns < most ? took_ns : most) - reader->fill_ns) / AVERAGED;
    if (reader->source.only_threads || reader->measured == MEASURED)
        return;
    reader->measured++;
    reader->cheap += took_ns < HANDOVER_NS;
    reader->unneeded = reader->measured == MEASURED && reader->cheap > MEASURED / 2;
}

/* With the lock held, which is given up meanwhile.
 * @param by_thread  another thread may wait for it and ask how far it is */
static void
read_beside (struct reader *reader, struct reader_slot *slot, bool by_thread)
{
    bool end = false;
    mark_reading (slot);
    accel_error_clear (&slot->error);
    reader->reading++;
    struct reader_source source = reader->source;
    pthread_mutex_unlock (&reader->lock);
    enum accel_status status = source.fill (source.user, slot->number, &slot->batch, &end,
                                            by_thread ? &slot->progress : NULL, &slot->error);
    int64_t took = clock_ns () - slot->since_ns;
    pthread_mutex_lock (&reader->lock);
    measure (reader, took);
    note_outcome (reader, slot, status, end);
    reader->reading--;
    atomic_fetch_add_explicit (&reader->taken, 1, memory_order_relaxed);
    pthread_cond_broadcast (&reader->done);
}

/* A slot for the next batch that no thread reads yet; there has to be room. */
static struct reader_slot *
take_slot (struct reader *reader)
{
    struct reader_slot *slot = reader->spare[--reader->spare_count];
    slot->number = reader->next_read++;
    reader->ring[slot->number % reader->slot_count] = slot;
    return slot;
}

/* A batch that could not be read, once more. */
static void
read_again (struct reader *reader, struct reader_slot *slot)
{
    if (!reader->thread_count) {
        read_alone (reader, slot);
        return;
    }
    mark_reading (slot);
    reader->again = slot;
    call_thread (reader);
}

static void *
run_thread (void *argument)
{
    struct reader *reader = argument;
    pthread_mutex_lock (&reader->lock);
    while (!reader->quit) {
        struct reader_slot *again = reader->again;
        reader->again = NULL;
        if (!reader->paused && (again || has_room (reader)))
            read_beside (reader, again ? again : take_slot (reader), true);
        else if (reader->paused || !spin (reader, &reader->given))
            pthread_cond_wait (&reader->work, &reader->lock);
    }
    pthread_mutex_unlock (&reader->lock);
    return NULL;
}

/* The program's signals are for the program's threads. */
static enum accel_status
start_threads (struct reader *reader, size_t threads, struct accel_error *err)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    int error = 0;
    reader->threads = calloc (threads, sizeof *reader->threads);
    if (!reader->threads)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu reading threads", threads);
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &old);
    pthread_attr_init (&attributes);
    pthread_attr_setstacksize (&attributes, STACK_BYTES);
    while (!error && reader->thread_count < threads) {
        error = pthread_create (&reader->threads[reader->thread_count], &attributes, run_thread, reader);
        reader->thread_count += !error;
    }
    pthread_attr_destroy (&attributes);
    pthread_sigmask (SIG_SETMASK, &old, NULL);
    errno = error;
    return error ? accel_fail_errno (err, "cannot start reading thread %zu of %zu", reader->thread_count + 1, threads)
                 : ACCEL_OK;
}

enum accel_status
reader_create (struct reader **reader, size_t threads, size_t ahead, const struct accel_field *fields, size_t count,
               size_t capacity, const struct batch_home *home, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *reader = NULL;
    if (threads > MOST_THREADS || ahead > MOST_THREADS)
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu threads reading %zu batches ahead: the maximum of each is %d",
                           threads, ahead, MOST_THREADS);
    struct reader *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a reader");
    pthread_condattr_t monotonic;
    pthread_condattr_init (&monotonic);
    pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
    pthread_mutexattr_t adaptive; /* it is held for moments only */
    pthread_mutexattr_init (&adaptive);
    pthread_mutexattr_settype (&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init (&made->lock, &adaptive);
    pthread_mutexattr_destroy (&adaptive);
    pthread_cond_init (&made->work, NULL);
    pthread_cond_init (&made->done, &monotonic);
    pthread_condattr_destroy (&monotonic);
    made->paused = true;
    work_lock ();
    bool watched = comm_watch_forks ();
    work_unlock ();
    made->forks = comm_forks;
    size_t processors = (size_t) usable_processors ();
    made->alone = processors == 1;
    made->helps = threads < processors;
    made->keeps = home && home->pins;
    size_t slots = (threads ? threads * ahead + 1 : 2) + made->keeps;
    made->slots = calloc (slots, sizeof *made->slots);
    made->ring = calloc (slots, sizeof *made->ring);
    made->spare = calloc (slots, sizeof *made->spare);
    if (!made->slots || !made->ring || !made->spare || !watched)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu batches", slots);
    for (; !status && made->slot_count < slots; made->slot_count += !status)
        status = batch_init (&made->slots[made->slot_count].batch, fields, count, capacity, home, err);
    if (!status && threads)
        status = start_threads (made, threads, err);
    if (status)
        reader_destroy (made, 0);
    else
        *reader = made;
    return status;
}

bool
reader_is_orphan (const struct reader *reader)
{
    return reader->thread_count && comm_forks != reader->forks;
}

void
reader_start (struct reader *reader, const struct reader_source *source, size_t first)
{
    if (reader_is_orphan (reader))
        return;
    pthread_mutex_lock (&reader->lock);
    reader->source = *source;
    reader->next_read = reader->next_out = first;
    for (size_t i = 0; i < reader->slot_count; i++)
        reader->spare[i] = &reader->slots[i];
    reader->spare_count = reader->slot_count;
    reader->held = reader->kept = reader->again = NULL;
    reader->unneeded = reader->unneeded && !source->only_threads;
    reader->paused = false;
    atomic_fetch_add_explicit (&reader->given, 1, memory_order_relaxed);
    pthread_cond_broadcast (&reader->work);
    pthread_mutex_unlock (&reader->lock);
}

/* Whether the caller, who has to wait for batch @p number, reads one himself: that one, if no thread has begun it; else
 * the next.  The latter gains the time of a read and should delay him by half of an average read at most, so he must be
 * likely to wait for the other half anyway. */
static bool
may_help (const struct reader *reader, size_t number)
{
    if (!reader->helps || reader->source.only_threads || reader->source.serial || reader->measured < MEASURED
        || !has_room (reader))
        return false;
    return number >= reader->next_read || clock_ns () - slot_of (reader, number)->since_ns < reader->fill_ns / 2;
}

/* With the lock held: until batch @p number is read.  @return false when the time is over */
static bool
wait_for (struct reader *reader, size_t number, uint32_t timeout_ms)
{
    int64_t deadline = clock_ms () + timeout_ms;
    while (!is_read (reader, number) && may_help (reader, number))
        read_beside (reader, take_slot (reader), false);
    while (!is_read (reader, number) && spin (reader, &reader->taken))
        ;
    if (is_read (reader, number))
        return true;
    struct timespec until = { .tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000 };
    while (!is_read (reader, number))
        if (pthread_cond_timedwait (&reader->done, &reader->lock, &until) == ETIMEDOUT)
            return is_read (reader, number);
    return true;
}

static enum accel_status
fail_late (const struct reader *reader, size_t number, struct accel_error *err)
{
    const struct reader_slot *slot = number < reader->next_read ? slot_of (reader, number) : NULL;
    long long sample = slot && slot->state == SLOT_READING ? (long long) atomic_load (&slot->progress) : -1;
    if (sample < 0)
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "batch %zu was not read in time", number);
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set has been reading sample %lld (batch %zu) for %lld s",
                       sample, number, (long long) (clock_ns () - slot->since_ns) / 1000000000);
}

/* With the lock held, which is given up.  @param wait  they are not reading, or soon will not be */
static void
end_threads (struct reader *reader, bool wait)
{
    reader->quit = true;
    atomic_fetch_add_explicit (&reader->given, 1, memory_order_relaxed);
    pthread_cond_broadcast (&reader->work);
    pthread_mutex_unlock (&reader->lock);
    for (; reader->thread_count; reader->thread_count--)
        if (wait)
            pthread_join (reader->threads[reader->thread_count - 1], NULL);
        else
            pthread_detach (reader->threads[reader->thread_count - 1]);
    free (reader->threads);
    reader->threads = NULL;
}

/* With the lock held, if there are threads: have batch @p number read, by the thread that reads. */
static enum accel_status
obtain (struct reader *reader, size_t number, uint32_t timeout_ms, struct accel_error *err)
{
    if (reader->unneeded && reader->thread_count && number >= reader->next_read) /* so none of them is reading */
        end_threads (reader, true);
    if (!reader->thread_count) {
        while (reader->next_read <= number && reader->next_read < reader->source.length)
            read_alone (reader, take_slot (reader));
        return ACCEL_OK;
    }
    if (wait_for (reader, number, timeout_ms))
        return ACCEL_OK;
    reader->broken = true;
    return fail_late (reader, number, err);
}

/* Whether there is a batch @number, as far as that is to be found out; a failure to read it is reported in its turn. */
static enum accel_status
look_ahead (struct reader *reader, size_t number, uint32_t timeout_ms, bool *exists, struct accel_error *err)
{
    *exists = number < reader->source.length;
    if (!*exists || !reader->source.serial)
        return ACCEL_OK;
    enum accel_status status = obtain (reader, number, timeout_ms, err);
    *exists = !status && slot_of (reader, number)->state != SLOT_END;
    return status;
}

/* Batch @p number, which was obtained, as far as it is one; a failure is not reported earlier. */
static enum accel_status
hand_out (struct reader *reader, size_t number, struct accel_batch **batch, struct accel_error *err)
{
    struct reader_slot *slot = slot_of (reader, number);
    if (slot->state == SLOT_FAILED) {
        if (err)
            *err = slot->error;
        if (!reader->source.serial) /* the program may have mended it before it asks again */
            slot->state = SLOT_RETRY;
        return slot->error.code ? slot->error.code : ACCEL_ERR_CALLBACK;
    }
    if (slot->state == SLOT_FULL) {
        reader->next_out = number + 1;
        reader->held = slot;
        *batch = &slot->batch;
    }
    return ACCEL_OK;
}

enum accel_status
reader_fail_orphan (struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "this process is a fork of the one whose threads read the data: make a loader of its own");
}

enum accel_status
reader_next (struct reader *reader, struct accel_batch **batch, bool *is_last, uint32_t timeout_ms,
             struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    bool more = false;
    *batch = NULL;
    *is_last = true;
    if (reader_is_orphan (reader))
        return reader_fail_orphan (err);
    lock (reader);
    size_t number = reader->next_out;
    release_held (reader);
    if (!reader->broken && is_read (reader, number) && slot_of (reader, number)->state == SLOT_RETRY)
        read_again (reader, slot_of (reader, number));
    if (reader->broken)
        status = accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of the last pass");
    else if (number < reader->source.length)
        status = obtain (reader, number, timeout_ms, err);
    if (!status && number < reader->next_read)
        status = hand_out (reader, number, batch, err);
    if (*batch) {
        status = look_ahead (reader, number + 1, timeout_ms, &more, err);
        *batch = status ? NULL : *batch;
        *is_last = !more;
    }
    unlock (reader);
    return status;
}

bool
reader_stop (struct reader *reader, uint32_t timeout_ms)
{
    int64_t deadline = clock_ms () + timeout_ms;
    struct timespec until = { .tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000 };
    int error = 0;
    if (reader_is_orphan (reader)) /* no thread reads, and the lock may be held for ever */
        return true;
    pthread_mutex_lock (&reader->lock);
    reader->paused = true;
    reader->again = NULL;
    while (reader->reading && error != ETIMEDOUT)
        error = pthread_cond_timedwait (&reader->done, &reader->lock, &until);
    if (reader->reading)
        reader->broken = true;
    bool stopped = !reader->reading;
    pthread_mutex_unlock (&reader->lock);
    return stopped;
}

bool
reader_destroy (struct reader *reader, uint32_t timeout_ms)
{
    if (!reader)
        return true;
    bool stopped = reader_stop (reader, reader->broken ? 0 : timeout_ms), orphan = reader_is_orphan (reader);
    if (!orphan) {
        pthread_mutex_lock (&reader->lock);
        end_threads (reader, stopped);
    }
    if (!stopped)
        return false; /* a thread may write into its slot at any time */
    for (size_t i = 0; i < reader->slot_count; i++)
        batch_release (&reader->slots[i].batch);
    free (reader->slots);
    free (reader->ring);
    free (reader->spare);
    free (reader->threads);
    if (!orphan) { /* else the parent's threads count as sleepers, for whom destroying would wait */
        pthread_cond_destroy (&reader->done);
        pthread_cond_destroy (&reader->work);
        pthread_mutex_destroy (&reader->lock);
    }
    free (reader);
    return true;
}
