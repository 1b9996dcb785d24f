/* SPDX-License-Identifier: Apache-2.0 */
/* Reading batches ahead: by threads into a ring of slots, and out of it in order, whatever the threads do.  Without
 * threads the caller reads, one batch ahead where only reading can tell which batch is the last.  Threads that turn out
 * to be of no use at the beginning end, once and for all; beside those that stay, a caller that waits reads too. */
#ifndef LIB_DATA_READER_H
#define LIB_DATA_READER_H

#include "lib/data/batch.h"

#include <pthread.h>
#include <stdatomic.h>

/** What a reader reads. */
struct reader_source {
    /**
     * Fill @p batch with batch @p number of the pass.  Calls for different numbers come from different threads at once,
     * unless the source is serial: then numbers come in order, one at a time.
     *
     * @param[out] end       there is no such batch
     * @param[out] progress  the sample that is being read, for a caller that waits too long; NULL: none does
     */
    enum accel_status (*fill) (void *user, size_t number, struct accel_batch *batch, bool *end,
                               _Atomic int64_t *progress, struct accel_error *err);
    void *user;
    bool serial;
    bool only_threads; /* they never end, however cheap reads are, and the caller never reads */
    size_t length; /* batches of the pass; SIZE_MAX: only reading tells */
};

struct reader_slot {
    struct accel_batch batch;
    size_t number;
    enum { SLOT_FREE, SLOT_READING, SLOT_FULL, SLOT_END, SLOT_FAILED, SLOT_RETRY } state;
    struct accel_error error;
    _Atomic int64_t progress;
    int64_t since_ns; /* when reading began */
};

struct reader {
    struct reader_source source;
    struct reader_slot *slots;
    size_t slot_count;
    struct reader_slot **ring;  /* [slot_count]: batch k, once it is being read, is in ring[k mod slot_count] */
    struct reader_slot **spare; /* [spare_count] of slot_count: the others, the one used last on top */
    size_t spare_count;
    struct reader_slot *held;   /* the caller's; NULL: it has none */
    struct reader_slot *kept;   /* the one before, if `keeps` */
    struct reader_slot *again;  /* of a batch that failed and is asked for again, for a thread; NULL: there is none */
    pthread_t *threads;
    size_t thread_count; /* 0: the caller reads */
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* there may be something to read; something was read */
    atomic_uint given, taken;   /* counts of changes that `work` and `done` tell of, for who spins before he sleeps */
    size_t next_read, next_out; /* batch numbers */
    size_t reading;      /* threads that are in fill(), the caller's included */
    int64_t fill_ns;     /* what reading a batch takes, a moving average: whether to spin before a sleep */
    unsigned measured, cheap; /* reads that were looked at; how many of them took less than handing a batch over */
    bool unneeded;       /* most of them did: no thread begins to read, and the caller ends all when he has caught up */
    bool helps;          /* there is a processor for the caller beside those of the threads */
    bool keeps;          /* the caller has two batches: the latest, and the one before it */
    bool alone;          /* there is one processor: who spins keeps the awaited from running */
    bool paused, quit, broken;
    unsigned forks;      /* comm_forks of the process whose threads they are */
};

/**
 * Make a reader with @p threads threads, each of which may be @p ahead batches ahead.
 *
 * @param fields, count, capacity, home  of the batches, as for batch_init(); if they are pinned, the caller keeps two
 */
enum accel_status reader_create (struct reader **reader, size_t threads, size_t ahead, const struct accel_field *fields,
                                 size_t count, size_t capacity, const struct batch_home *home, struct accel_error *err);

/** Begin a pass at batch @p first.  The last pass must have been stopped. */
void reader_start (struct reader *reader, const struct reader_source *source, size_t first);

/**
 * The next batch, which stays as it is until the next call, or if the caller keeps two, the call after that.
 *
 * @param[out] batch    NULL at the end of the pass
 * @param[out] is_last  no other follows
 * @param timeout_ms    longest wait for a thread
 * @retval ACCEL_ERR_TIMEOUT  a thread has not finished; the text names the sample that it reads
 */
enum accel_status reader_next (struct reader *reader, struct accel_batch **batch, bool *is_last, uint32_t timeout_ms,
                               struct accel_error *err);

/** Whether the threads are in the parent of this process, a child of fork(): nothing can be read. */
bool reader_is_orphan (const struct reader *reader);
/** Fail with an error that says this. */
enum accel_status reader_fail_orphan (struct accel_error *err);

/**
 * End the pass: wait until no thread is reading.
 *
 * @return false if a thread did not come back within the time: the reader is of no more use, and memory that the
 *         thread may still write to is never freed
 */
bool reader_stop (struct reader *reader, uint32_t timeout_ms);

/** Accepts NULL.  @return false if a thread was left behind, with what it writes to, as reader_stop() says */
bool reader_destroy (struct reader *reader, uint32_t timeout_ms);

#endif
