/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a job's parts; see part.h. */
#include <config.h>

#include "lib/state/part.h"

#include "lib/base/error.h"
#include "lib/state/state_object.h"

#include <stdlib.h>

struct part *
part_find (const struct accel *acc, const struct part_kind *kind)
{
    struct part *part = acc->parts;
    while (part->kind != kind)
        part = part->next;
    return part;
}

enum accel_status
parts_open (struct accel *acc, const struct part_kind *const *kinds, const struct accel_options *options,
            struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (; *kinds && !status; kinds++) {
        struct part *part = calloc (1, (*kinds)->size_bytes);
        if (!part)
            return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
        part->kind = *kinds;
        part->acc = acc;
        part->next = acc->parts;
        acc->parts = part;
        if (part->kind->open)
            status = part->kind->open (part, options, err);
    }
    return status;
}

void
parts_close (struct accel *acc)
{
    for (struct part *part = acc->parts; part; part = part->next)
        if (part->kind->close)
            part->kind->close (part);
    while (acc->parts) {
        struct part *part = acc->parts;
        acc->parts = part->next;
        free (part);
    }
}

void
parts_release (struct accel *acc)
{
    for (struct part *part = acc->parts; part; part = part->next)
        if (part->kind->release)
            part->kind->release (part);
}

enum accel_status
parts_prepared (struct accel *acc, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct part *part = acc->parts; part && !status; part = part->next)
        if (part->kind->prepared)
            status = part->kind->prepared (part, err);
    return status;
}
