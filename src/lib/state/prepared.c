/* SPDX-License-Identifier: Apache-2.0 */
/* accel_prepare() and accel_free_memory(): what they do with an object is in the table of its kind. */
#include <config.h>

#include "lib/state/prepared.h"

#include "lib/base/error.h"
#include "lib/base/site.h"
#include "lib/state/state_object.h"

#include <accel/train.h>

#include <stdarg.h>

struct prepared {
    struct part part;
    struct object *latest;
    int64_t count; /* so far, of those that have gone too */
};

static struct prepared *
prepared_of (const struct accel *acc)
{
    return (struct prepared *) (void *) part_find (acc, &part_prepared);
}

static struct object *
find (struct object *object, const char *kind)
{
    while (object && !object_is (object, kind))
        object = object->next;
    return object;
}

struct object *
prepared_first (const struct accel *acc, const char *kind)
{
    return find (prepared_of (acc)->latest, kind);
}

struct object *
prepared_next (const struct object *object, const char *kind)
{
    return find (object->next, kind);
}

struct object *
prepared_latest (const struct accel *acc)
{
    return prepared_of (acc)->latest;
}

void
prepared_remove (struct object *object)
{
    if (!object->owner)
        return;
    for (struct object **at = &prepared_of (object->owner)->latest; *at; at = &(*at)->next)
        if (*at == object) {
            *at = object->next;
            return;
        }
}

/* Nothing points to a job that has gone, or into its memory. */
static void
close_prepared (struct part *part)
{
    struct prepared *prepared = (struct prepared *) (void *) part;
    while (prepared->latest) {
        struct object *object = prepared->latest;
        prepared_remove (object);
        if (object->kind->let_go)
            object->kind->let_go (object);
        object->owner = NULL;
    }
}

const struct part_kind part_prepared = { .size_bytes = sizeof (struct prepared), .close = close_prepared };

void
prepared_stop (struct accel *acc)
{
    for (struct object *object = prepared_of (acc)->latest; object; object = object->next)
        if (object->kind->stop)
            object->kind->stop (object);
}

static enum accel_status
prepare_object (struct accel *acc, struct object *object, int number, const struct comm_site *site,
                struct accel_error *err)
{
    if (!object)
        return ACCEL_OK;
    if (object->magic != OBJECT_MAGIC || !object->kind->prepare)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "object %d passed to accel_prepare is not a model, optimizer, loader or scheduler, or has "
                           "been destroyed",
                           number);
    if (object->owner == acc)
        return ACCEL_OK;
    if (object->owner)
        return accel_fail (err, ACCEL_ERR_INVALID, "object %d already belongs to another struct accel", number);
    enum accel_status status = object->kind->prepare (object, acc, site, err);
    if (status)
        return status;
    struct prepared *prepared = prepared_of (acc);
    object->owner = acc;
    object->number = ++prepared->count;
    object->next = prepared->latest;
    prepared->latest = object;
    return ACCEL_OK;
}

enum accel_status
accel_prepare_at (const char *file, int line, struct accel *acc, struct accel_error *err, ...)
{
    const struct comm_site site = { file, line, JOBSEG_CALL_PREPARE };
    enum accel_status status = ACCEL_OK;
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: acc is NULL");
    va_list objects;
    va_start (objects, err);
    for (int number = 1; !status; number++) {
        void *object = va_arg (objects, void *);
        if (object == ACCEL_PREPARE_END)
            break;
        status = prepare_object (acc, object, number, &site, err);
    }
    va_end (objects);
    return status ? status : parts_prepared (acc, err);
}

static enum accel_status
release (struct object *object, struct accel_error *err)
{
    if (object->kind->release)
        return object->kind->release (object, err);
    prepared_remove (object);
    object->owner = NULL;
    return ACCEL_OK;
}

enum accel_status
accel_free_memory (struct accel *acc, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_free_memory: acc is NULL");
    parts_release (acc);
    struct prepared *prepared = prepared_of (acc);
    while (prepared->latest && !status)
        status = release (prepared->latest, err);
    return status;
}
