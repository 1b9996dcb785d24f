/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing optimizers and schedulers over the ranks: each says what it is and lists its numbers by name. */
#ifndef LIB_TRAIN_COMPARE_H
#define LIB_TRAIN_COMPARE_H

#include "lib/comm/comm_private.h"
#include "lib/object.h"

#include <accel/scheduler.h>

enum { NUMBERS_MOST = 24 };

/** The numbers of one object, in an order that depends on what it is only. */
struct noted_numbers {
    const char *what; /* "AdamW"; a literal */
    size_t count;
    const char *names[NUMBERS_MOST]; /* literals */
    double values[NUMBERS_MOST];
};

static inline void
numbers_add (struct noted_numbers *numbers, const char *name, double value)
{
    numbers->names[numbers->count] = name;
    numbers->values[numbers->count++] = value;
}

/** As optimizer_note_numbers(). */
void scheduler_note_numbers (const struct accel_scheduler *scheduler, struct noted_numbers *numbers);

/**
 * Compare @p object, an optimizer or a scheduler, with those of the other ranks.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  on all ranks: they differ; `text` names two ranks and what both have
 */
enum accel_status compare_numbers (const struct comm_site *site, struct accel *acc, const struct object *object,
                                   struct accel_error *err);

#endif
