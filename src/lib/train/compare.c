/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say of their optimizers and schedulers in accel_prepare(); see compare.h. */
#include <config.h>

#include "lib/train/compare.h"

#include "lib/error.h"
#include "lib/train/optimizer.h"
#include "util/cleanup.h"

#include <accel/state.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHAT_SIZE = 40 };

/* What travels; of one size, so that ranks with different objects understand each other. */
struct statement {
    char what[WHAT_SIZE];
    double values[NUMBERS_MOST];
};

/* In as few digits as tell the two apart. */
static enum accel_status
say (const char *name, const char *what, double first, double other, int rank, struct accel_error *err)
{
    char text_first[32], text_other[32];
    for (int digits = 6; digits <= 17; digits += 11) {
        snprintf (text_first, sizeof text_first, "%.*g", digits, first);
        snprintf (text_other, sizeof text_other, "%.*g", digits, other);
        if (strcmp (text_first, text_other))
            break;
    }
    return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: %s of %s is %s on rank 0, %s on rank %d", name, what,
                       text_first, text_other, rank);
}

static enum accel_status
find_difference (const struct noted_numbers *numbers, const struct statement *all, int size, struct accel_error *err)
{
    for (int r = 1; r < size; r++)
        if (strcmp (all[r].what, all->what))
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: rank 0 prepares %s, but rank %d prepares %s",
                               all->what, r, all[r].what);
    for (size_t i = 0; i < numbers->count; i++)
        for (int r = 1; r < size; r++)
            if (memcmp (&all[r].values[i], &all->values[i], sizeof all->values[i]))
                return say (numbers->names[i], numbers->what, all->values[i], all[r].values[i], r, err);
    return ACCEL_OK;
}

enum accel_status
compare_numbers (const struct comm_site *site, struct accel *acc, const struct object *object, struct accel_error *err)
{
    struct noted_numbers numbers = { 0 };
    struct statement own = { 0 };
    int size = accel_comm_size (accel_world (acc));
    if (size == 1)
        return ACCEL_OK;
    /* The object is the first member of both. */
    if ((object->magic ^ OBJECT_MAGIC) == OBJECT_OPTIMIZER)
        optimizer_note_numbers ((const struct accel_optimizer *) (const void *) object, &numbers);
    else
        scheduler_note_numbers ((const struct accel_scheduler *) (const void *) object, &numbers);
    AUTO_FREE struct statement *all = calloc ((size_t) size, sizeof *all);
    if (!all)
        return comm_no_memory (site, err);
    snprintf (own.what, sizeof own.what, "%s", numbers.what);
    for (size_t i = 0; i < numbers.count; i++)
        own.values[i] = numbers.values[i] + 0.0; /* -0 is 0 */
    enum accel_status status
        = comm_all_gather (accel_world (acc), site, &own, all, sizeof own, ACCEL_UINT8, err);
    return status ? status : find_difference (&numbers, all, size, err);
}
