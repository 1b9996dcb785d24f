/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of many arrays; see tables.h. */
#include <config.h>

#include "cuda/tables.h"

#include "cuda/gpu.h"
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
    bool has_event, is_made;
    bool has_room;             /* for what the table is to be made from */
};

/* Errors show at the next call on the GPU. */
static cudaError_t
call_release (void *user, cudaStream_t stream, const char **name)
{
    struct kept *kept = user;
    (void) stream, (void) name;
    if (kept->has_event)
        cudaEventDestroy (kept->copied);
    cudaFreeHost (kept->pinned);
    cudaFree (kept->items);
    cudaFree (kept->sums);
    return cudaSuccess;
}

void
tables_release (DLDevice device, void *memory)
{
    struct kept *kept = memory;
    gpu_call (device, call_release, kept);
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

static cudaError_t
make_room (struct kept *kept, size_t items, size_t blocks, const char **call)
{
    cudaError_t error = cudaSuccess;
    if (!kept->has_event)
        TRY (cudaEventCreateWithFlags, &kept->copied, cudaEventDisableTiming);
    kept->has_event = !error;
    if (items > kept->room && !error) {
        free (kept->given);
        TRY (cudaFreeHost, kept->pinned);
        TRY (cudaFree, kept->items);
        kept->items = kept->pinned = NULL;
        kept->room = 0;
        kept->given = calloc (items, sizeof *kept->given);
        if (!kept->given)
            return cudaErrorMemoryAllocation;
        TRY (cudaHostAlloc, (void **) &kept->pinned, items * sizeof *kept->pinned, cudaHostAllocDefault);
        TRY (cudaMalloc, &kept->items, items * sizeof (struct cuda_item));
        kept->room = error ? 0 : items;
    }
    if (blocks > kept->blocks_room && !error) {
        TRY (cudaFree, kept->sums);
        kept->sums = NULL;
        TRY (cudaMalloc, &kept->sums, blocks * sizeof (double));
        kept->blocks_room = error ? 0 : blocks;
    }
    return error;
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

struct wanted {
    struct kept *kept;
    const struct memory_list *list;
};

/* The copy before may not have been made yet.  Without memory, there is no table, which is not an error of the GPU. */
static cudaError_t
call_room (void *user, cudaStream_t stream, const char **call)
{
    const struct wanted *wanted = user;
    struct kept *kept = wanted->kept;
    const struct memory_list *list = wanted->list;
    cudaError_t error = cudaSuccess;
    size_t blocks = 0;
    (void) stream;
    for (size_t i = 0; i < list->count; i++)
        blocks += cuda_item_blocks (list->items[i].count);
    if (blocks > UINT32_MAX)
        return cudaSuccess;
    if (kept->has_event)
        TRY (cudaEventSynchronize, kept->copied);
    if (!error)
        error = make_room (kept, list->count + 1, blocks + 1, call);
    kept->has_room = !error;
    if (error != cudaErrorMemoryAllocation)
        return error;
    cudaGetLastError ();
    return cudaSuccess;
}

static bool
is_same (const struct kept *kept, const struct memory_list *list)
{
    return kept->is_made && kept->count == list->count
           && !memcmp (kept->given, list->items, list->count * sizeof *list->items);
}

void
tables_make_room (DLDevice device, struct memory_list *list)
{
    struct kept *kept = list->kept ? list->kept : (list->kept = calloc (1, sizeof *kept));
    if (!kept || is_same (kept, list))
        return;
    kept->is_made = kept->has_room = false;
    if (!overlap (list))
        gpu_call (device, call_room, &(struct wanted){ kept, list });
}

const struct cuda_table *
tables_have (struct memory_list *list, cudaStream_t stream, cudaError_t *failed, const char **call)
{
    struct kept *kept = list->kept;
    cudaError_t error = cudaSuccess;
    if (kept && !kept->is_made && kept->has_room) {
        fill (kept, list);
        TRY (cudaMemcpyAsync, kept->items, kept->pinned, list->count * sizeof (struct cuda_item),
             cudaMemcpyHostToDevice, stream);
        TRY (cudaEventRecord, kept->copied, stream);
        memcpy (kept->given, list->items, list->count * sizeof *list->items);
        kept->count = list->count;
        kept->is_made = !error;
    }
    *failed = error;
    return kept && kept->is_made ? &kept->table : NULL;
}
