/* SPDX-License-Identifier: Apache-2.0 */
/* The best checkpoint; see best.h.  Each checkpoint says which one it was when it was saved, so a resumed job knows. */
#include <config.h>

#include "lib/checkpoint/best.h"

#include "files/checkpoints.h"
#include "lib/base/error.h"
#include "lib/state/state_dict.h"

#include <accel/checkpoint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct best_part *
best_of (const struct accel *acc)
{
    return (struct best_part *) (void *) part_find (acc, &part_best);
}

static enum accel_status
open_best (struct part *part, const struct accel_options *options, struct accel_error *err)
{
    (void) options, (void) err;
    ((struct best_part *) (void *) part)->checkpoint = BEST_NONE;
    return ACCEL_OK;
}

static void
close_best (struct part *part)
{
    free (((struct best_part *) (void *) part)->path);
}

static uint64_t
find_complete (const struct best_part *best)
{
    return best->is_in_flight ? best->former : best->checkpoint;
}

/* In memory, a state is also saved before the best one is on the disk. */
static void
save_best (const struct part *part, struct accel_state_dict *state)
{
    const struct best_part *best = (const struct best_part *) (const void *) part;
    if (!best->noted)
        return;
    accel_state_dict_set_double (state, "value", best->value);
    state_dict_add_uint64 (state, "since_best", best->since_best);
    state_dict_add_uint64 (state, "checkpoint", find_complete (best));
    if (best->is_next || best->is_in_flight)
        state_dict_add_uint64 (state, "is_next", 1);
}

static enum accel_status
load_best (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    struct best_part *best = (struct best_part *) (void *) part;
    enum accel_status status = ACCEL_OK;
    best->noted = best->is_next = best->is_in_flight = false;
    best->since_best = 0;
    best->checkpoint = BEST_NONE;
    if (!state)
        return ACCEL_OK;
    status = accel_state_dict_get_double (state, "value", &best->value, err);
    status = status ? status : state_dict_read_uint64 (state, "since_best", &best->since_best, err);
    status = status ? status : state_dict_read_uint64 (state, "checkpoint", &best->checkpoint, err);
    best->noted = !status;
    best->is_next = !status && accel_state_dict_has (state, "is_next");
    return status;
}

const struct part_kind part_best = { .size_bytes = sizeof (struct best_part), .open = open_best, .close = close_best,
                                     .save = save_best, .load = load_best, .file = "best" };

struct best_choice
best_begin_save (const struct accel *acc, uint64_t number)
{
    struct best_part *best = best_of (acc);
    struct best_choice choice = { .former = best->checkpoint, .is_new = best->is_next };
    if (best->is_next)
        best->checkpoint = number;
    best->is_next = false;
    choice.checkpoint = best->checkpoint;
    return choice;
}

void
best_cancel_save (const struct accel *acc, struct best_choice choice)
{
    struct best_part *best = best_of (acc);
    if (!choice.is_new)
        return;
    best->checkpoint = choice.former;
    best->is_next = true;
}

void
best_begin_flight (const struct accel *acc, struct best_choice choice)
{
    struct best_part *best = best_of (acc);
    best->is_in_flight = choice.is_new;
    best->former = choice.former;
}

void
best_end_flight (const struct accel *acc)
{
    best_of (acc)->is_in_flight = false;
}

enum accel_status
accel_note_metric (struct accel *acc, double value, uint64_t *since_best, struct accel_error *err)
{
    if (!acc)
        return accel_fail_null (err, __func__, "acc");
    struct best_part *best = best_of (acc);
    best->since_best++;
    if (!isnan (value) && (!best->noted || value < best->value)) {
        best->noted = best->is_next = true;
        best->value = value;
        best->since_best = 0;
    }
    if (since_best)
        *since_best = best->since_best;
    return ACCEL_OK;
}

const char *
accel_best_checkpoint_path (const struct accel *acc)
{
    struct best_part *best = acc ? best_of (acc) : NULL;
    uint64_t number = best ? find_complete (best) : BEST_NONE;
    if (number == BEST_NONE)
        return NULL;
    free (best->path);
    if (asprintf (&best->path, "%s/" CHECKPOINTS_FOLDER "/" CHECKPOINT_PREFIX "%llu",
                  accel_get_project_configuration (acc)->project_dir, (unsigned long long) number)
        < 0)
        best->path = NULL;
    return best->path;
}
