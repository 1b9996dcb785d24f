/* SPDX-License-Identifier: Apache-2.0 */
/* How far a save or a load is.  This floor counts; what a higher one has put into the job's `show` prints. */
#ifndef LIB_CHECKPOINT_METER_H
#define LIB_CHECKPOINT_METER_H

#include "files/traffic.h"

#include <accel/state.h>

#include <stdbool.h>
#include <stdint.h>

enum meter_kind { METER_SAVE, METER_CHECK, METER_LOAD };

enum meter_event {
    METER_MOVED,
    METER_SYNCING,
    METER_DONE,
    METER_FAILED,
};

struct meter;
typedef void (*meter_show) (struct meter *meter, enum meter_event event);

/** One save or load of rank 0. */
struct meter {
    struct traffic_observer observer; /* first: what traffic.h calls */
    struct traffic_observer *former;
    enum meter_kind kind;
    const char *name;    /* what is saved or loaded: the last component of its path */
    uint64_t total;      /* bytes; 0: unknown */
    uint64_t done;
    int64_t begin_ms;
    meter_show show;     /* NULL: on this rank, or in this job, nothing is shown */
    int64_t shown_ms;    /* for `show`: the latest line; 0: none */
    bool terminal;       /* for `show`: that line was drawn in place */
};

/**
 * Count what this thread reads and writes until meter_end().
 *
 * @param show   NULL: nothing is counted
 * @param path   what is saved or loaded; kept, not copied
 * @param total  bytes that rank 0 will move; 0: unknown
 */
void meter_begin (struct meter *meter, meter_show show, enum meter_kind kind, const char *path, uint64_t total);

/** @param status  how it ended */
void meter_end (struct meter *meter, enum accel_status status);

#endif
