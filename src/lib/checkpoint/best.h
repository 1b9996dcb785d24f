/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint of the job is the best, by accel_note_metric(). */
#ifndef LIB_CHECKPOINT_BEST_H
#define LIB_CHECKPOINT_BEST_H

#include "lib/state/part.h"

#define BEST_NONE UINT64_MAX

struct best_part {
    struct part part;
    bool noted;          /* a metric, which was not NaN */
    double value;        /* the best one */
    uint64_t since_best; /* metrics noted after it */
    bool is_next;        /* the next checkpoint is the best one */
    uint64_t checkpoint; /* its number, unless it is the next; BEST_NONE: there is none */
    bool is_in_flight;   /* that one is being written in the background; until it is complete, the best is `former` */
    uint64_t former;
    char *path;          /* what accel_best_checkpoint_path() has returned */
};

extern const struct part_kind part_best;

/** What a save means for the best checkpoint.  All zero: nothing. */
struct best_choice {
    uint64_t checkpoint; /* number of the best one when it is complete, or BEST_NONE */
    uint64_t former;     /* the same before */
    bool is_new;         /* this save is the best one */
};

/** A checkpoint with automatic naming gets @p number.  @return for best_cancel_save(), if it comes to nothing @{ */
struct best_choice best_begin_save (const struct accel *acc, uint64_t number);
void best_cancel_save (const struct accel *acc, struct best_choice choice);
/** @} */

/** What is saved begins to be written in the background; its own state is that of a complete one. */
void best_begin_flight (const struct accel *acc, struct best_choice choice);
/** It is complete, or best_cancel_save() follows. */
void best_end_flight (const struct accel *acc);

#endif
