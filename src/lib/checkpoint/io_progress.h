/* SPDX-License-Identifier: Apache-2.0 */
/* How far a save or a load is.  This floor counts; what a higher one has put into the job's `show` prints. */
#ifndef LIB_CHECKPOINT_IO_PROGRESS_H
#define LIB_CHECKPOINT_IO_PROGRESS_H

#include "files/source.h"

#include <accel/state.h>

#include <stdbool.h>
#include <stdint.h>

enum io_progress_kind { IO_PROGRESS_SAVE, IO_PROGRESS_CHECK, IO_PROGRESS_LOAD };

enum io_progress_event {
    IO_PROGRESS_MOVED,
    IO_PROGRESS_SYNCING,
    IO_PROGRESS_DONE,
    IO_PROGRESS_FAILED,
};

struct io_progress;
typedef void (*io_progress_show) (struct io_progress *progress, enum io_progress_event event);

/** One save or load of rank 0. */
struct io_progress {
    struct traffic_observer observer; /* first: what source.h calls */
    struct traffic_observer *former;
    enum io_progress_kind kind;
    const char *name;    /* what is saved or loaded: the last component of its path */
    uint64_t total;      /* bytes; 0: unknown */
    uint64_t done;
    int64_t begin_ms;
    io_progress_show show; /* NULL: on this rank, or in this job, nothing is shown */
    int64_t shown_ms;    /* for `show`: the latest line; 0: none */
    bool terminal;       /* for `show`: that line was drawn in place */
};

/**
 * Count what this thread reads and writes until io_progress_end().
 *
 * @param show   NULL: nothing is counted
 * @param path   what is saved or loaded; kept, not copied
 * @param total  bytes that rank 0 will move; 0: unknown
 */
void io_progress_begin (struct io_progress *progress, io_progress_show show, enum io_progress_kind kind,
                        const char *path, uint64_t total);

/** @param status  how it ended */
void io_progress_end (struct io_progress *progress, enum accel_status status);

#endif
