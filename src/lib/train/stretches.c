/* SPDX-License-Identifier: Apache-2.0 */
/* The division of parameters among processes; see stretches.h. */
#include <config.h>

#include "lib/train/stretches.h"

#include "util/chunk.h"

size_t
sharding_chunk (const struct accel_model *model, size_t index)
{
    size_t count = accel_tensor_count (model->parameters[index].data);
    return count < model->sharding.min_num_params ? 0 : chunk_size (count, (uint64_t) model->sharding.size);
}

static void
cut (const struct accel_model *model, size_t index, size_t chunk, struct stretch stretches[STRETCHES])
{
    size_t count = accel_tensor_count (model->parameters[index].data);
    size_t rank = (size_t) model->sharding.rank, rest = chunk * (size_t) model->sharding.size;
    stretches[0] = chunk ? (struct stretch){ rank * chunk, (rank + 1) * chunk } : (struct stretch){ 0, count };
    stretches[1] = chunk ? (struct stretch){ rest, count } : (struct stretch){ count, count };
}

void
sharding_gradient_stretches (const struct accel_model *model, size_t index, struct stretch stretches[STRETCHES])
{
    cut (model, index, sharding_has_gradients (model) ? sharding_chunk (model, index) : 0, stretches);
}

void
sharding_stretches (const struct accel_model *model, size_t index, struct stretch stretches[STRETCHES])
{
    size_t count = accel_tensor_count (model->parameters[index].data), chunk = sharding_chunk (model, index);
    cut (model, index, chunk, stretches);
    if (model->sharding.rank && shared_is_on (model)) /* what all would change alike is there once, so rank 0 does */
        stretches[chunk ? 1 : 0] = (struct stretch){ count, count };
}

size_t
sharding_find_first (const struct accel_model *model, size_t index)
{
    const DLTensor *tensor = model->parameters[index].data;
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *other = model->parameters[i].data;
        if (model_is_trained (model, i) && other->data == tensor->data
            && accel_tensor_count (other) == accel_tensor_count (tensor))
            return sharding_chunk (model, i) ? i : SIZE_MAX;
    }
    return SIZE_MAX;
}

void
sharding_discard_others (const struct accel_model *model, size_t index, void *data, size_t element_bytes)
{
    struct stretch own[STRETCHES];
    if (!model_state_memory (model)->host || !sharding_chunk (model, index) || !data)
        return;
    sharding_stretches (model, index, own);
    memory_discard_pages (data, own[0].from * element_bytes);
    memory_discard_pages (memory_at (data, own[0].end, element_bytes), (own[1].from - own[0].end) * element_bytes);
}

/* What is given back with each bucket or layer costs a fault for each page when it is written again: as much as half of
 * a step if these are small. */
void
sharding_use_pages (const struct stretch own[STRETCHES], void *data, size_t element_bytes)
{
    memory_use_small_pages (data, own[1].end * element_bytes);
    memory_use_huge_pages (data, own[0].from * element_bytes);
    memory_use_huge_pages (memory_at (data, own[0].end, element_bytes), (own[1].from - own[0].end) * element_bytes);
}

void
sharding_use_gradient_pages (const struct accel_model *model, size_t index, void *data)
{
    struct stretch own[STRETCHES];
    sharding_gradient_stretches (model, index, own);
    sharding_use_pages (own, data, accel_dtype_bytes (model_grad_dtype (model, index)));
}

void
sharding_populate_others (const struct stretch own[STRETCHES], void *data, size_t element_bytes)
{
    memory_populate_small_pages (data, own[0].from * element_bytes);
    memory_populate_small_pages (memory_at (data, own[0].end, element_bytes),
                                 (own[1].from - own[0].end) * element_bytes);
}

int
sharding_saved (const struct accel_model *model, size_t index, bool is_divided, size_t count,
                struct stretch stretches[STRETCHES])
{
    size_t chunk = is_divided ? sharding_chunk (model, index) : 0, rest = chunk * (size_t) model->sharding.size;
    bool is_first = accel_is_main_process (model->object.owner);
    int own = 0;
    if (chunk && !model->sharding.replica) {
        size_t begin = chunk * (size_t) model->sharding.rank;
        stretches[own++] = (struct stretch){ begin, begin + chunk };
    }
    if (is_first && (!chunk || rest < count))
        stretches[own++] = (struct stretch){ chunk ? rest : 0, count };
    return own;
}
