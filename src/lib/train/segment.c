/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing: parts of a forward pass that are computed again in the backward pass. */
#include <config.h>

#include <accel/segment.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/state/state_object.h"
#include "util/memory.h"

#include <stdlib.h>

struct accel_segment {
    struct accel_segment_options options;
    bool preserves, has_run;
    uint8_t before[ACCEL_GENERATOR_STATE_BYTES]; /* the generator's state before `forward` */
};

bool
accel_activation_checkpointing (const struct accel *acc)
{
    return acc && acc->activation_checkpointing;
}

static enum accel_status
check (const struct accel_segment_options *options, struct accel_error *err)
{
    if (!options->forward)
        return accel_fail_null (err, "accel_segment_create", "forward");
    if (options->activation_bytes && !options->activations)
        return accel_fail_null (err, "accel_segment_create", "activations");
    return flag_check (options->preserve_rng_state, "preserve_rng_state", err);
}

enum accel_status
accel_segment_create_sized (size_t options_size, struct accel_segment **segment,
                            const struct accel_segment_options *options, struct accel_error *err)
{
    struct accel_segment_options room;
    enum accel_status status;
    if (!segment)
        return accel_fail_null (err, "accel_segment_create", "segment");
    *segment = NULL;
    if (!options)
        return accel_fail_null (err, "accel_segment_create", "options");
    options = SIZED (options, options_size, room, &status, err);
    if (!status)
        status = check (options, err);
    if (status)
        return status;
    struct accel_segment *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail_nomem (err);
    made->options = *options;
    made->preserves = flag_or (options->preserve_rng_state, true);
    if (!options->generator)
        made->options.generator = accel_default_generator ();
    *segment = made;
    return ACCEL_OK;
}

void
accel_segment_destroy (struct accel_segment *segment)
{
    free (segment);
}

void
accel_segment_end (struct accel_segment *segment)
{
    if (segment)
        memory_discard_pages (segment->options.activations, segment->options.activation_bytes);
}

static enum accel_status
run (const char *function, struct accel_segment *segment, struct accel_error *err)
{
    struct accel_error cause = { 0 };
    enum accel_status failure = segment->options.forward (segment->options.user, &cause);
    return failure ? accel_fail (err, ACCEL_ERR_CALLBACK, "%s: %s", function,
                                 *cause.text ? cause.text : accel_status_string (failure))
                   : ACCEL_OK;
}

enum accel_status
accel_segment_forward (struct accel_segment *segment, struct accel_error *err)
{
    if (!segment)
        return accel_fail_null (err, __func__, "segment");
    if (segment->preserves)
        accel_generator_get_state (segment->options.generator, segment->before);
    enum accel_status status = run (__func__, segment, err);
    segment->has_run = !status;
    accel_segment_end (segment);
    return status;
}

enum accel_status
accel_segment_recompute (struct accel_segment *segment, struct accel_error *err)
{
    uint8_t now[ACCEL_GENERATOR_STATE_BYTES];
    enum accel_status status = ACCEL_OK, restored = ACCEL_OK;
    if (!segment)
        return accel_fail_null (err, __func__, "segment");
    if (!segment->has_run)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: call accel_segment_forward before", __func__);
    struct accel_generator *generator = segment->options.generator;
    if (segment->preserves) {
        accel_generator_get_state (generator, now);
        status = accel_generator_set_state (generator, segment->before, sizeof segment->before, err);
    }
    if (!status)
        status = run (__func__, segment, err);
    if (segment->preserves)
        restored = accel_generator_set_state (generator, now, sizeof now, status ? NULL : err);
    return status ? status : restored;
}
