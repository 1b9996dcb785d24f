/* SPDX-License-Identifier: Apache-2.0 */
/* The items of a checkpoint; see items.h. */
#include <config.h>

#include "lib/checkpoint/items.h"

#include "lib/base/error.h"
#include "lib/state/prepared.h"
#include "lib/state/state_object.h"

#include "util/array.h"
#include "util/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct checkpoint_item *
add_item (struct checkpoint_items *items, const char *format, ...) ACCEL_PRINTF (2, 3);

/* @return the new item with its name; NULL: no memory */
static struct checkpoint_item *
add_item (struct checkpoint_items *items, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    char *name = text_vprintf (format, args);
    va_end (args);
    struct checkpoint_item *item = name ? array_room (&items->items, items->count, sizeof *item) : NULL;
    if (!item) {
        free (name);
        return NULL;
    }
    items->count++;
    *item = (struct checkpoint_item){ .name = name };
    return item;
}

void
checkpoint_items_release (struct checkpoint_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        free (items->items[i].name);
    free (items->items);
    *items = (struct checkpoint_items){ 0 };
}

/* How many objects that were prepared before @object have files of the same name. */
static size_t
place_of (const struct accel *acc, const struct object *object)
{
    size_t place = 0;
    for (const struct object *other = prepared_latest (acc); other; other = other->next)
        place += other->number < object->number && other->kind->file && !strcmp (other->kind->file, object->kind->file);
    return place;
}

/* @return how many objects of @floor there are with numbers above @after; *first is the one with the lowest. */
static size_t
find_next (const struct accel *acc, enum object_floor floor, int64_t after, struct object **first)
{
    size_t count = 0;
    *first = NULL;
    for (struct object *object = prepared_latest (acc); object; object = object->next)
        if (object->kind->file && object->kind->floor == floor && object->number > after) {
            count++;
            if (!*first || object->number < (*first)->number)
                *first = object;
        }
    return count;
}

static bool
add_objects (struct checkpoint_items *items, const struct accel *acc, enum object_floor floor)
{
    struct object *object = NULL;
    for (int64_t after = 0; find_next (acc, floor, after, &object); after = object->number) {
        size_t place = place_of (acc, object);
        struct checkpoint_item *item = place ? add_item (items, "%s_%zu", object->kind->file, place)
                                             : add_item (items, "%s", object->kind->file);
        if (!item)
            return false;
        item->object = object;
        item->mine = accel_is_main_process (acc);
        item->has_shares = floor == OBJECT_MODEL || floor == OBJECT_OPTIMIZER;
    }
    return true;
}

static bool
add_parts (struct checkpoint_items *items, const struct accel *acc)
{
    for (struct part *part = acc->parts; part; part = part->next) {
        const struct part_kind *kind = part->kind;
        if (!kind->file)
            continue;
        struct checkpoint_item *item = kind->of_each_rank
                                           ? add_item (items, "%s_%d", kind->file, accel_process_index (acc))
                                           : add_item (items, "%s", kind->file);
        if (!item)
            return false;
        item->part = part;
        item->mine = kind->of_each_rank || accel_is_main_process (acc);
    }
    return true;
}

static bool
add_registered (struct checkpoint_items *items, const struct accel *acc)
{
    const struct checkpoint_part *part = checkpoint_of (acc);
    for (size_t i = 0; i < part->object_count; i++) {
        struct checkpoint_item *item = add_item (items, CUSTOM_FILE "_%zu", i);
        if (!item)
            return false;
        item->custom = &part->objects[i];
        item->mine = accel_is_main_process (acc);
    }
    return true;
}

enum accel_status
checkpoint_items_make (struct checkpoint_items *items, const struct accel *acc, bool with_models,
                       struct accel_error *err)
{
    bool good = true;
    *items = (struct checkpoint_items){ 0 };
    for (int floor = with_models ? OBJECT_MODEL : OBJECT_MODEL + 1; good && floor < OBJECT_FLOORS; floor++)
        good = add_objects (items, acc, (enum object_floor) floor);
    if (good && add_parts (items, acc) && add_registered (items, acc))
        return ACCEL_OK;
    return accel_fail_nomem (err);
}

/* What a function of the program said, or what its status means. */
static enum accel_status
fail_callback (const struct checkpoint_item *item, const char *what, const struct accel_error *cause,
               enum accel_status status, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_CALLBACK, "%s: %s: %s", item->name, what,
                       *cause->text ? cause->text : accel_status_string (status));
}

enum accel_status
checkpoint_item_save (const struct checkpoint_item *item, struct accel_state_dict *state, struct accel_error *err)
{
    if (item->object)
        item->object->kind->save (item->object, state);
    else if (item->part)
        item->part->kind->save (item->part, state);
    else {
        struct accel_error cause = { 0 };
        enum accel_status status = item->custom->save (item->custom->user, state, &cause);
        if (status)
            return fail_callback (item, "the object's save", &cause, status, err);
    }
    return state->failed ? accel_fail (err, state->failure.code, "%s: %s", item->name, state->failure.text) : ACCEL_OK;
}

enum accel_status
checkpoint_item_load (const struct checkpoint_item *item, const struct accel_state_dict *state,
                      struct accel_error *err)
{
    enum accel_status status;
    if (item->part)
        status = item->part->kind->load (item->part, state, err);
    else if (!state)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the checkpoint has no %s: prepare and register the same objects as when it was saved",
                           item->name);
    else if (item->object)
        status = item->object->kind->load (item->object, state, err);
    else {
        struct accel_error cause = { 0 };
        status = item->custom->load (item->custom->user, state, &cause);
        return status ? fail_callback (item, "the object's load", &cause, status, err) : ACCEL_OK;
    }
    return status ? accel_fail_in (err, status, "%s", item->name) : ACCEL_OK;
}
