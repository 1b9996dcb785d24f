/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of batches that are read ahead; see reader.h.
 *
 * Batch k lives in slot k mod slot_count.  The slot of the batch that the caller has is not read into, so with S slots
 * S - 1 batches are ahead of it at most. */
#include <config.h>

#include "lib/data/reader.h"

#include "lib/error.h"
#include "util/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_BYTES = 1 << 20, MOST_THREADS = 1024 };

static struct reader_slot *
slot_of (struct reader *reader, size_t number)
{
    return &reader->slots[number % reader->slot_count];
}

/* Batch numbers from the one that the caller has, or will get next. */
static bool
has_room (const struct reader *reader)
{
    size_t held = reader->next_out ? reader->next_out - 1 : 0;
    return reader->next_read < reader->source.length && reader->next_read - held < reader->slot_count
           && !(reader->source.serial && reader->reading);
}

/* With the lock held, which is given up meanwhile. */
static void
read_batch (struct reader *reader, size_t number)
{
    struct reader_slot *slot = slot_of (reader, number);
    slot->number = number;
    slot->state = SLOT_READING;
    slot->since_ms = clock_ms ();
    atomic_store (&slot->progress, -1);
    reader->reading++;
    struct reader_source source = reader->source;
    pthread_mutex_unlock (&reader->lock);
    bool end = false;
    slot->error = (struct accel_error){ 0 };
    enum accel_status status
        = source.fill (source.user, slot->number, &slot->batch, &end, &slot->progress, &slot->error);
    pthread_mutex_lock (&reader->lock);
    slot->state = status ? SLOT_FAILED : end ? SLOT_END : SLOT_FULL;
    if (slot->state != SLOT_FULL && source.serial)
        reader->source.length = reader->next_read; /* nothing is read behind it */
    reader->reading--;
    pthread_cond_broadcast (&reader->done);
    if (source.serial)
        pthread_cond_signal (&reader->work);
}

static void *
run_thread (void *argument)
{
    struct reader *reader = argument;
    pthread_mutex_lock (&reader->lock);
    while (!reader->quit) {
        if (!reader->paused && has_room (reader))
            read_batch (reader, reader->next_read++);
        else
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
        return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for %zu reading threads", threads);
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
    return error ? accel_fail_errno (err, "starting reading thread %zu of %zu", reader->thread_count + 1, threads)
                 : ACCEL_OK;
}

enum accel_status
reader_create (struct reader **reader, size_t threads, size_t ahead, const struct accel_field *fields, size_t count,
               size_t capacity, struct accel *acc, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *reader = NULL;
    if (threads > MOST_THREADS || ahead > MOST_THREADS)
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu threads that read %zu batches ahead are more than %d", threads,
                           ahead, MOST_THREADS);
    struct reader *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for a reader");
    pthread_condattr_t monotonic;
    pthread_condattr_init (&monotonic);
    pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init (&made->lock, NULL);
    pthread_cond_init (&made->work, NULL);
    pthread_cond_init (&made->done, &monotonic);
    pthread_condattr_destroy (&monotonic);
    made->paused = true;
    size_t slots = threads ? threads * ahead + 1 : 2;
    made->slots = calloc (slots, sizeof *made->slots);
    if (!made->slots)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "no memory for %zu batches", slots);
    for (; !status && made->slot_count < slots; made->slot_count += !status)
        status = batch_init (&made->slots[made->slot_count].batch, fields, count, capacity, acc, err);
    if (!status && threads)
        status = start_threads (made, threads, err);
    if (status)
        reader_destroy (made, 0);
    else
        *reader = made;
    return status;
}

void
reader_start (struct reader *reader, const struct reader_source *source, size_t first)
{
    pthread_mutex_lock (&reader->lock);
    reader->source = *source;
    reader->next_read = reader->next_out = first;
    for (size_t i = 0; i < reader->slot_count; i++)
        reader->slots[i].state = SLOT_FREE;
    reader->paused = false;
    pthread_cond_broadcast (&reader->work);
    pthread_mutex_unlock (&reader->lock);
}

/* With the lock held: until @p slot is read.  @return false when the time is over */
static bool
wait_slot (struct reader *reader, const struct reader_slot *slot, size_t number, int64_t deadline_ms)
{
    struct timespec until = { .tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000 };
    while (slot->state == SLOT_FREE || slot->state == SLOT_READING || slot->number != number)
        if (pthread_cond_timedwait (&reader->done, &reader->lock, &until) == ETIMEDOUT)
            return slot->state > SLOT_READING && slot->number == number;
    return true;
}

static enum accel_status
fail_late (const struct reader_slot *slot, size_t number, struct accel_error *err)
{
    long long sample = (long long) atomic_load (&slot->progress);
    if (slot->state != SLOT_READING || sample < 0)
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "batch %zu has not been read in time", number);
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set has been reading sample %lld (batch %zu) for %lld s",
                       sample, number, (long long) (clock_ms () - slot->since_ms) / 1000);
}

/* With the lock held: have batch @p number read, by whoever reads. */
static enum accel_status
obtain (struct reader *reader, size_t number, uint32_t timeout_ms, struct accel_error *err)
{
    struct reader_slot *slot = slot_of (reader, number);
    if (!reader->thread_count) {
        while (reader->next_read <= number && reader->next_read < reader->source.length)
            read_batch (reader, reader->next_read++);
        return ACCEL_OK;
    }
    if (wait_slot (reader, slot, number, clock_ms () + timeout_ms))
        return ACCEL_OK;
    reader->broken = true;
    return fail_late (slot, number, err);
}

/* Whether there is a batch @number, as far as that is to be found out; a failure to read it is told in its turn. */
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

enum accel_status
reader_next (struct reader *reader, struct accel_batch **batch, bool *is_last, uint32_t timeout_ms,
             struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    bool more = false;
    *batch = NULL;
    *is_last = true;
    pthread_mutex_lock (&reader->lock);
    size_t number = reader->next_out;
    struct reader_slot *slot = slot_of (reader, number);
    if (slot->state == SLOT_RETRY && slot->number == number)
        read_batch (reader, number);
    if (reader->broken)
        status = accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of the last pass");
    else if (number < reader->source.length)
        status = obtain (reader, number, timeout_ms, err);
    if (!status && number < reader->source.length && slot->state == SLOT_FAILED) {
        status = slot->error.code ? slot->error.code : ACCEL_ERR_CALLBACK;
        if (err)
            *err = slot->error;
        if (!reader->source.serial) /* whoever asks again may have mended it */
            slot->state = SLOT_RETRY;
    }
    if (!status && number < reader->source.length && slot->state == SLOT_FULL) {
        reader->next_out = number + 1; /* room for one more */
        pthread_cond_broadcast (&reader->work);
        status = look_ahead (reader, number + 1, timeout_ms, &more, err);
        *batch = status ? NULL : &slot->batch;
        *is_last = !more;
    }
    pthread_mutex_unlock (&reader->lock);
    return status;
}

bool
reader_stop (struct reader *reader, uint32_t timeout_ms)
{
    int64_t deadline = clock_ms () + timeout_ms;
    struct timespec until = { .tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000 };
    int error = 0;
    pthread_mutex_lock (&reader->lock);
    reader->paused = true;
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
    bool stopped = reader_stop (reader, reader->broken ? 0 : timeout_ms);
    pthread_mutex_lock (&reader->lock);
    reader->quit = true;
    pthread_cond_broadcast (&reader->work);
    pthread_mutex_unlock (&reader->lock);
    for (size_t i = 0; i < reader->thread_count; i++)
        if (stopped)
            pthread_join (reader->threads[i], NULL);
        else
            pthread_detach (reader->threads[i]);
    free (reader->threads);
    reader->threads = NULL;
    if (!stopped)
        return false; /* a thread may write into its slot at any time */
    for (size_t i = 0; i < reader->slot_count; i++)
        batch_release (&reader->slots[i].batch);
    free (reader->slots);
    pthread_cond_destroy (&reader->done);
    pthread_cond_destroy (&reader->work);
    pthread_mutex_destroy (&reader->lock);
    free (reader);
    return true;
}
