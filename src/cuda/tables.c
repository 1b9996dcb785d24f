/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of many arrays; see tables.h. */
#include <config.h>

#include "cuda/tables.h"
#include "lib/base/tensor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct cuda_table table;
    struct memory_item *given; /* [room]: what the table was made from */
    struct cuda_item *pinned;  /* [room] */
    size_t room, count, blocks_room;
    void *items, *sums;        /* on the device */
    cudaEvent_t copied;        /* from pinned memory */
    bool has_event, is_made, overlaps;
};

void
tables_release (void *memory, bool is_well)
{
    struct kept *kept = memory;
    if (is_well) {
        if (kept->has_event)
            cudaEventDestroy (kept->copied);
        cudaFreeHost (kept->pinned);
        cudaFree (kept->items);
        cudaFree (kept->sums);
    }
    free (kept->given);
    free (kept);
}

struct stretch {
    uintptr_t begin, end;
};

static int
compare (const void *a, const void *b)
{
    uintptr_t first = ((const struct stretch *) a)->begin, second = ((const struct stretch *) b)->begin;
    return first < second ? -1 : first > second;
}

static struct stretch
stretch_of (const void *memory, size_t count, enum accel_dtype dtype)
{
    uintptr_t begin = (uintptr_t) memory;
    return (struct stretch){ begin, memory ? begin + count * tensor_dtype_bytes (dtype) : begin };
}

/* Whether two items write the same memory.  No memory to find out: as if they did. */
static bool
overlap (const struct memory_list *list)
{
    size_t count = 2 * list->count;
    struct stretch *all = calloc (count + 1, sizeof *all);
    bool found = !all;
    for (size_t i = 0; all && i < list->count; i++) {
        const struct memory_item *item = &list->items[i];
        all[2 * i] = stretch_of (item->data, item->count, item->dtype);
        all[2 * i + 1] = stretch_of (item->narrow, item->count, item->narrow_dtype);
    }
    if (all)
        qsort (all, count, sizeof *all, compare);
    uintptr_t end = 0;
    for (size_t i = 0; !found && i < count; i++) {
        if (all[i].begin == all[i].end)
            continue;
        found = all[i].begin < end;
        end = all[i].end;
    }
    free (all);
    return found;
}

/* @return whether there is room; of an error, which call had it */
static bool
make_room (struct kept *kept, size_t items, size_t blocks, cudaError_t *error, const char **call)
{
    *call = "cudaEventCreateWithFlags";
    if (!kept->has_event && (*error = cudaEventCreateWithFlags (&kept->copied, cudaEventDisableTiming)))
        return false;
    kept->has_event = true;
    if (items > kept->room) {
        free (kept->given);
        cudaFreeHost (kept->pinned);
        cudaFree (kept->items);
        kept->items = kept->pinned = NULL;
        kept->room = 0;
        kept->given = calloc (items, sizeof *kept->given);
        if (!kept->given)
            return false;
        *call = "cudaHostAlloc";
        if ((*error = cudaHostAlloc ((void **) &kept->pinned, items * sizeof *kept->pinned, cudaHostAllocDefault)))
            return false;
        *call = "cudaMalloc";
        if ((*error = cudaMalloc (&kept->items, items * sizeof (struct cuda_item))))
            return false;
        kept->room = items;
    }
    if (blocks <= kept->blocks_room)
        return true;
    *call = "cudaMalloc";
    cudaFree (kept->sums);
    kept->sums = NULL;
    kept->blocks_room = 0;
    if ((*error = cudaMalloc (&kept->sums, blocks * sizeof (double))))
        return false;
    kept->blocks_room = blocks;
    return true;
}

static void
fill (struct kept *kept, const struct memory_list *list)
{
    unsigned first = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct memory_item *item = &list->items[i];
        unsigned blocks = cuda_item_blocks (item->count);
        kept->pinned[i] = (struct cuda_item){
            .data = item->data,
            .count = item->count,
            .grad = item->grad,
            .state = { item->state[0], item->state[1], item->state[2] },
            .narrow = item->narrow,
            .dtype = item->dtype,
            .grad_dtype = item->grad_dtype,
            .narrow_dtype = item->narrow_dtype,
            .first = first,
            .blocks = blocks,
            .index = (unsigned) i,
        };
        first += blocks;
    }
    kept->table = (struct cuda_table){ kept->items, kept->pinned, kept->sums, (unsigned) list->count, first };
}

/* The copy before may not have been made yet. */
static bool
write_table (struct kept *kept, const struct memory_list *list, cudaStream_t stream, cudaError_t *error,
             const char **call)
{
    size_t blocks = 0, bytes = list->count * sizeof (struct cuda_item);
    for (size_t i = 0; i < list->count; i++)
        blocks += cuda_item_blocks (list->items[i].count);
    *call = "cudaEventSynchronize";
    if (kept->has_event && (*error = cudaEventSynchronize (kept->copied)))
        return false;
    if (blocks > UINT32_MAX || !make_room (kept, list->count + 1, blocks + 1, error, call))
        return false;
    fill (kept, list);
    *call = "cudaMemcpyAsync";
    if ((*error = cudaMemcpyAsync (kept->items, kept->pinned, bytes, cudaMemcpyHostToDevice, stream)))
        return false;
    *call = "cudaEventRecord";
    return !(*error = cudaEventRecord (kept->copied, stream));
}

static bool
is_same (const struct kept *kept, const struct memory_list *list)
{
    return kept->is_made && kept->count == list->count
           && !memcmp (kept->given, list->items, list->count * sizeof *list->items);
}

const struct cuda_table *
tables_have (struct memory_list *list, cudaStream_t stream, cudaError_t *error, const char **call)
{
    struct kept *kept = list->kept ? list->kept : (list->kept = calloc (1, sizeof *kept));
    *error = cudaSuccess;
    if (!kept)
        return NULL;
    if (!is_same (kept, list)) {
        kept->is_made = false;
        kept->overlaps = overlap (list);
        if (!kept->overlaps && !write_table (kept, list, stream, error, call)) {
            if (*error == cudaErrorMemoryAllocation)
                cudaGetLastError (); /* one after the other needs no table */
            *error = *error == cudaErrorMemoryAllocation ? cudaSuccess : *error;
            return NULL;
        }
        if (!kept->overlaps) {
            memcpy (kept->given, list->items, list->count * sizeof *list->items);
            kept->count = list->count;
            kept->is_made = true;
        }
    }
    return kept->overlaps ? NULL : &kept->table;
}
