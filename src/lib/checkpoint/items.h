/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint consists of: prepared objects, parts of the job and registered objects, each with its files. */
#ifndef LIB_CHECKPOINT_ITEMS_H
#define LIB_CHECKPOINT_ITEMS_H

#include "lib/base/object.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/state/state_dict.h"

/** The stem of the files of registered objects. */
#define CUSTOM_FILE "custom_checkpoint"

/** One of the three pointers is not NULL. */
struct checkpoint_item {
    char *name; /* of its files, without their ends: "optimizer_1" */
    struct object *object;
    struct part *part;
    const struct accel_checkpoint_object *custom;
    bool mine; /* this rank saves it */
    bool has_shares; /* or each rank saves its share: a model, or an optimizer */
};

struct checkpoint_items {
    struct checkpoint_item *items; /* [count], in the order in which they are loaded */
    size_t count;
};

/** List everything of @p acc.  @param[out] items  for checkpoint_items_release(), also after a failure */
enum accel_status checkpoint_items_make (struct checkpoint_items *items, const struct accel *acc, bool with_models,
                                         struct accel_error *err);

void checkpoint_items_release (struct checkpoint_items *items);

/** Fill @p state from an item. */
enum accel_status checkpoint_item_save (const struct checkpoint_item *item, struct accel_state_dict *state,
                                        struct accel_error *err);

/** Restore an item.  @param state  NULL: the checkpoint has none, which only parts accept */
enum accel_status checkpoint_item_load (const struct checkpoint_item *item, const struct accel_state_dict *state,
                                        struct accel_error *err);

#endif
