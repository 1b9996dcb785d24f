/* SPDX-License-Identifier: Apache-2.0 */
/* Many arrays that are treated alike; see lists.h. */
#include <config.h>

#include "lib/memory/lists.h"

#include <stdlib.h>

bool
memory_list_create (struct memory_list *list, size_t room)
{
    *list = (struct memory_list){ .items = calloc (room + 1, sizeof *list->items), .room = room };
    return list->items != NULL;
}

void
memory_list_forget (struct memory_list *list, const struct memory *memory, DLDevice device)
{
    if (list->kept)
        memory->lists->release (device, list->kept);
    list->kept = NULL;
}

void
memory_list_destroy (struct memory_list *list, const struct memory *memory, DLDevice device)
{
    memory_list_forget (list, memory, device);
    free (list->items);
    *list = (struct memory_list){ .items = NULL };
}

float
memory_read_factor (const struct memory *memory, DLDevice device, struct memory_factor factor)
{
    float value = factor.value;
    if (factor.place && memory->read (device, &value, factor.place, sizeof value, NULL))
        return 1;
    return value;
}

/* Whether the device does it at once. */
#define AT_ONCE(function, ...) (memory->lists && memory->lists->function (device, list, __VA_ARGS__))
#define FOR_ITEMS(list, item) \
    for (const struct memory_item *item = (list)->items; item < (list)->items + (list)->count; item++)

void
memory_list_zero (struct memory_list *list, const struct memory *memory, DLDevice device)
{
    if (memory->lists && memory->lists->zero (device, list))
        return;
    FOR_ITEMS (list, item)
        memory->zero (device, item->data, item->count * accel_dtype_bytes (item->dtype));
}

void
memory_list_unscale (struct memory_list *list, const struct memory *memory, DLDevice device,
                     struct memory_factor factor, uint8_t *found)
{
    if (AT_ONCE (unscale, factor, found))
        return;
    float value = memory_read_factor (memory, device, factor);
    FOR_ITEMS (list, item)
        memory->unscale (device, item->data, item->dtype, item->count, value, found);
}

void
memory_list_norm (struct memory_list *list, const struct memory *memory, DLDevice device,
                  struct memory_factor factor, double p, float *results)
{
    if (AT_ONCE (norm, factor, p, results))
        return;
    float value = memory_read_factor (memory, device, factor);
    FOR_ITEMS (list, item)
        memory->norm (device, item->data, item->dtype, item->count, value, p, &results[item - list->items]);
}

void
memory_list_scale (struct memory_list *list, const struct memory *memory, DLDevice device, float factor,
                   bool only_float32)
{
    if (AT_ONCE (scale, (struct memory_factor){ .value = factor }, only_float32))
        return;
    FOR_ITEMS (list, item)
        if (item->dtype == ACCEL_FLOAT32 || !only_float32)
            memory->scale (device, item->data, item->dtype, item->count, (double) factor);
}

void
memory_list_clamp (struct memory_list *list, const struct memory *memory, DLDevice device, float limit,
                   struct memory_factor half_divisor)
{
    if (AT_ONCE (clamp, limit, half_divisor))
        return;
    float half_limit = limit / memory_read_factor (memory, device, half_divisor);
    FOR_ITEMS (list, item)
        memory->clamp (device, item->data, item->dtype, item->count,
                       item->dtype == ACCEL_FLOAT32 ? limit : half_limit);
}

void
memory_list_narrow (struct memory_list *list, const struct memory *memory, DLDevice device)
{
    if (memory->lists && memory->lists->narrow (device, list))
        return;
    FOR_ITEMS (list, item)
        memory->narrow (device, item->narrow, item->narrow_dtype, item->data, item->count);
}

bool
memory_list_clip (struct memory_list *list, const struct memory *memory, DLDevice device, float *norms, double p,
                  float most, float *pending)
{
    float *factor = &norms[list->count];
    if (!memory->lists)
        return false;
    memory->lists->clip_factor (device, norms, list->count, p, most, factor, NULL);
    if (!AT_ONCE (scale, (struct memory_factor){ .place = factor }, pending != NULL))
        return false;
    if (pending)
        memory->lists->clip_factor (device, norms, list->count, p, most, factor, pending);
    return true;
}
