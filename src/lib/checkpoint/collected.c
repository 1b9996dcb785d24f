/* SPDX-License-Identifier: Apache-2.0 */
/* The state dicts of one save; see collected.h. */
#include <config.h>

#include "lib/checkpoint/collected.h"

#include "lib/base/error.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/items.h"

#include <stdlib.h>

static enum accel_status
collect (struct collected *collected, struct checkpoint_item *from, bool in_shares, struct accel_error *err)
{
    struct collected_item *item = &collected->items[collected->count++];
    state_dict_init (&item->state);
    item->state.in_shares = in_shares;
    item->needed = !from->part;
    enum accel_status status = checkpoint_item_save (from, &item->state, err);
    item->name = from->name;
    from->name = NULL;
    for (size_t i = 0; i < item->state.tensor_count; i++) {
        const DLTensor *tensor = &item->state.tensors[i].view.dl;
        collected->bytes += accel_tensor_count (tensor) * tensor_element_bytes (tensor);
    }
    return status;
}

enum accel_status
collected_make (struct collected *collected, const struct accel *acc, bool with_models, enum collected_who who,
                struct accel_error *err)
{
    struct checkpoint_items items;
    *collected = (struct collected){ .rank = accel_process_index (acc) };
    enum accel_status status = checkpoint_items_make (&items, acc, with_models, err);
    collected->items = status ? NULL : calloc (items.count + 1, sizeof *collected->items);
    if (!status && !collected->items)
        status = accel_fail_nomem (err);
    for (size_t i = 0; !status && i < items.count; i++) {
        struct checkpoint_item *item = &items.items[i];
        bool is_share = who == COLLECTED_SHARES && item->has_shares, is_common = item->has_shares && !is_share;
        bool is_replica = is_common && who == COLLECTED_HOSTS && accel_is_local_main_process (acc);
        if (!item->mine && !is_share && !is_replica)
            continue;
        status = collect (collected, item, is_share, err);
        collected->items[collected->count - 1].is_common = is_common;
    }
    checkpoint_items_release (&items);
    return status;
}

static void
measure (const struct collected *collected, size_t *bytes, size_t *tensors)
{
    *bytes = *tensors = 0;
    for (size_t i = 0; i < collected->count; i++)
        snapshot_measure (&collected->items[i].state, bytes, tensors);
}

enum accel_status
collected_copy (struct collected *collected, struct snapshot *snapshot, struct accel_error *err)
{
    size_t bytes, tensors;
    measure (collected, &bytes, &tensors);
    enum accel_status status = snapshot_begin (snapshot, bytes, tensors, err);
    if (status)
        return status;
    for (size_t i = 0; i < collected->count; i++)
        snapshot_add (snapshot, &collected->items[i].state);
    return snapshot_copy (snapshot, err);
}

enum accel_status
collected_reserve (const struct collected *collected, struct snapshot *snapshot, struct accel_error *err)
{
    size_t bytes, tensors;
    measure (collected, &bytes, &tensors);
    return snapshot_reserve (snapshot, bytes, err);
}

enum accel_status
collected_write (const struct collected *collected, const char *folder, struct manifest *manifest,
                 struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < collected->count; i++) {
        const struct collected_item *item = &collected->items[i];
        status = checkpoint_write (&item->state, folder, item->name, item->needed, collected->rank, manifest,
                                   err);
    }
    return status;
}

void
collected_release (struct collected *collected)
{
    for (size_t i = 0; i < collected->count; i++) {
        state_dict_release (&collected->items[i].state);
        free (collected->items[i].name);
    }
    free (collected->items);
    *collected = (struct collected){ 0 };
}
