/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say of their optimizers and schedulers in accel_prepare(); see compare.h. */
#include <config.h>

#include "lib/train/compare.h"

#include "lib/base/error.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/hash.h"

#include <accel/state.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHAT_SIZE = 40 };

/* What travels first; of one size, so that ranks with different objects understand each other. */
struct statement {
    char what[WHAT_SIZE];
    uint64_t sizes[NOTED_SIZES];
};

void
numbers_add (struct noted_numbers *numbers, const char *name, const char *kind, const char *owner, double value)
{
    numbers->failed = numbers->failed || !array_room (&numbers->numbers, numbers->count, sizeof *numbers->numbers);
    if (!numbers->failed)
        numbers->numbers[numbers->count++] = (struct noted_number){ name, kind, owner, value, false };
}

void
numbers_add_text (struct noted_numbers *numbers, const char *name, const char *kind, const char *owner,
                  const char *text)
{
    uint64_t hash = hash_bytes (HASH_START, text, strlen (text));
    numbers_add (numbers, name, kind, owner, (double) (hash >> 12)); /* a double holds 52 bits */
    if (!numbers->failed)
        numbers->numbers[numbers->count - 1].is_text = true;
}

/* In as few digits as tell the two apart. */
static enum accel_status
say (const char *what, const struct noted_number *number, double first, double other, int rank, struct accel_error *err)
{
    char text_first[32], text_other[32], whose[160];
    if (number->kind)
        snprintf (whose, sizeof whose, "%s of %s '%.80s' of %s", number->name, number->kind, number->owner, what);
    else
        snprintf (whose, sizeof whose, "%s of %s", number->name, what);
    if (number->is_text)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: %s is different on rank %d", whose, rank);
    for (int digits = 6; digits <= 17; digits += 11) {
        snprintf (text_first, sizeof text_first, "%.*g", digits, first);
        snprintf (text_other, sizeof text_other, "%.*g", digits, other);
        if (strcmp (text_first, text_other))
            break;
    }
    return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: %s is %s on rank 0, but %s on rank %d", whose,
                       text_first, text_other, rank);
}

static enum accel_status
compare_statements (const struct noted_numbers *numbers, const struct statement *all, int size, struct accel_error *err)
{
    for (int r = 1; r < size; r++)
        if (strcmp (all[r].what, all->what))
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: rank 0 prepares %s, but rank %d prepares %s",
                               all->what, r, all[r].what);
    for (size_t i = 0; i < NOTED_SIZES; i++)
        for (int r = 1; r < size; r++)
            if (all[r].sizes[i] != all->sizes[i])
                return say (numbers->what, &(struct noted_number){ .name = numbers->sizes[i].name },
                            (double) all->sizes[i], (double) all[r].sizes[i], r, err);
    return ACCEL_OK;
}

/* The others wait for what this rank cannot say. */
static enum accel_status
fail_memory (const struct comm_site *site, struct accel *acc, struct accel_error *err)
{
    comm_give_up (accel_world (acc), "cannot allocate memory to compare optimizers and schedulers");
    return comm_no_memory (site, err);
}

/* Their kinds and sizes are the same on all ranks. */
static enum accel_status
compare_values (const struct comm_site *site, struct accel *acc, const struct noted_numbers *numbers,
                struct accel_error *err)
{
    size_t size = (size_t) accel_comm_size (accel_world (acc)), count = numbers->count;
    AUTO_FREE double *own = calloc (count + 1, sizeof *own), *all = calloc (size * count + 1, sizeof *all);
    if (!own || !all)
        return fail_memory (site, acc, err);
    for (size_t i = 0; i < count; i++)
        own[i] = numbers->numbers[i].value + 0.0; /* -0 is 0 */
    enum accel_status status = comm_all_gather (accel_world (acc), site, own, all, count, ACCEL_FLOAT64, err);
    for (size_t i = 0; !status && i < count; i++)
        for (size_t r = 1; !status && r < size; r++)
            if (memcmp (&all[r * count + i], &all[i], sizeof *all))
                status = say (numbers->what, &numbers->numbers[i], all[i], all[r * count + i], (int) r, err);
    return status;
}

static enum accel_status
compare (const struct comm_site *site, struct accel *acc, const struct noted_numbers *numbers, struct accel_error *err)
{
    int size = accel_comm_size (accel_world (acc));
    struct statement own = { 0 };
    AUTO_FREE struct statement *all = calloc ((size_t) size, sizeof *all);
    if (!all || numbers->failed)
        return fail_memory (site, acc, err);
    snprintf (own.what, sizeof own.what, "%s", numbers->what);
    for (size_t i = 0; i < NOTED_SIZES; i++)
        own.sizes[i] = numbers->sizes[i].count;
    enum accel_status status
        = comm_all_gather (accel_world (acc), site, &own, all, sizeof own, ACCEL_UINT8, err);
    if (!status)
        status = compare_statements (numbers, all, size, err);
    return status ? status : compare_values (site, acc, numbers, err);
}

enum accel_status
compare_numbers (const struct comm_site *site, struct accel *acc, const struct object *object, note_numbers *note,
                 struct accel_error *err)
{
    struct noted_numbers numbers = { 0 };
    if (accel_comm_size (accel_world (acc)) == 1)
        return ACCEL_OK;
    note (object, &numbers);
    enum accel_status status = compare (site, acc, &numbers, err);
    free (numbers.numbers);
    return status;
}
