/* SPDX-License-Identifier: Apache-2.0 */
/* Models on a GPU and back; see model_device.h.
 *
 * The tensors of a model may share memory (tied parameters), or have neighbours that are reduced together: stretches of
 * memory without a gap are copied as they are, so whatever is shared stays shared.  What libaccel has allocated beside
 * them (masters, optimizers' states) moves block by block.  Nothing is freed before everything is there. */
#include <config.h>

#include "lib/train/model_device.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/state/state_object.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/packed.h"
#include "lib/train/packed_parameters.h"
#include "lib/train/staging.h"
#include "util/cleanup.h"
#include "util/memory.h"

#include <accel/precision.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Stretches begin at the first on the device; elements are as aligned there as they were, up to the second. */
enum { STRETCH_BYTES = 256, ELEMENT_BYTES = 16, PIECE_BYTES = 4 << 20 };

/** A tensor, and what it said at home. */
struct origin {
    DLTensor *tensor;
    char *data; /* NULL: the memory is not the tensor's own, and only the device changes */
    size_t bytes;
    DLDevice device;
    bool ours;   /* libaccel allocated the memory */
    bool frozen; /* nothing has changed it, unless the program has */
};

struct extent {
    char *home;
    size_t bytes;
    size_t at; /* on the device */
    bool ours;
    bool frozen; /* some of it */
};

struct block {
    void **slot; /* what points to it */
    void *home, *there;
    size_t bytes, there_bytes; /* the latter are fewer if it is packed */
    struct accel_optimizer *optimizer; /* whose states it has, to which tensors point; NULL: a master */
    size_t index;                      /* of the master */
    void **places; /* of states at home, if they are packed on the device; NULL: in the order of packed.h */
};

/** What a model computes numbers in. */
struct scratch {
    struct model_live *live;
    float *norms;
    float *scales;
};

struct placement {
    DLDevice home;
    struct origin *origins; /* in the order of their memory */
    size_t origin_count;
    struct extent *stretches;
    size_t stretch_count;
    char *memory; /* of all stretches */
    struct block *blocks; /* while they move; NULL: they do not */
    size_t block_count;
    struct scratch scratch; /* the one that is not in use: at home */
    bool fetched;           /* what is at home is up to date; otherwise, the model was like this: */
    bool widened;
    float *scales; /* [count], of 8-bit parameters */
};

DLDevice
model_target (const struct accel_model *model, const struct accel *acc)
{
    if (!model->memory->host || !acc->device_placement)
        return model->device;
    const struct memory *memory = memory_of (acc->device);
    return memory && !memory->host ? acc->device : model->device;
}

/* ---- what there is ---- */

static int
compare_origins (const void *a, const void *b)
{
    uintptr_t first = (uintptr_t) ((const struct origin *) a)->data;
    uintptr_t second = (uintptr_t) ((const struct origin *) b)->data;
    return (first > second) - (first < second);
}

static void
note_origin (struct placement *placement, DLTensor *tensor, bool own, bool ours, bool frozen)
{
    placement->origins[placement->origin_count++] = (struct origin){
        .tensor = tensor,
        .data = own ? tensor->data : NULL,
        .bytes = accel_tensor_count (tensor) * tensor_element_bytes (tensor),
        .device = tensor->device,
        .ours = ours,
        .frozen = frozen,
    };
}

/* All tensors of a model, of which those without memory of their own come first, and where each stretch will be.
 * @return the bytes of all */
static size_t
lay_out (struct placement *placement, const struct accel_model *model)
{
    size_t end = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct accel_parameter *parameter = &model->parameters[i];
        note_origin (placement, parameter->data, packed_first (model, i) == SIZE_MAX, model->owned[i] || model->array,
                     !parameter->grad);
        if (parameter->grad)
            note_origin (placement, parameter->grad, parameter->grad->data != model->kept[i], false, false);
    }
    qsort (placement->origins, placement->origin_count, sizeof *placement->origins, compare_origins);
    for (size_t i = 0; i < placement->origin_count; i++) {
        const struct origin *origin = &placement->origins[i];
        struct extent *last = placement->stretch_count ? &placement->stretches[placement->stretch_count - 1] : NULL;
        if (!origin->data)
            continue;
        if (last && origin->data <= last->home + last->bytes) {
            size_t bytes = (size_t) (origin->data - last->home) + origin->bytes;
            last->bytes = bytes > last->bytes ? bytes : last->bytes;
            last->ours = last->ours && origin->ours;
            last->frozen = last->frozen || origin->frozen;
        } else {
            size_t at = (end + STRETCH_BYTES - 1) / STRETCH_BYTES * STRETCH_BYTES;
            last = &placement->stretches[placement->stretch_count++];
            *last = (struct extent){ .home = origin->data, .bytes = origin->bytes, .ours = origin->ours,
                                      .frozen = origin->frozen,
                                      .at = at + (uintptr_t) origin->data % ELEMENT_BYTES };
        }
        end = last->at + last->bytes;
    }
    return end;
}

/* The masters, and the states of optimizers, unless they stay. */
static bool
list_blocks (struct placement *placement, struct accel_model *model)
{
    size_t count = model->count;
    bool stay = model->sharding.states_at_home;
    for (struct accel_optimizer *optimizer = model->optimizers; optimizer; optimizer = optimizer->beside)
        count++;
    placement->block_count = 0;
    placement->blocks = calloc (count, sizeof *placement->blocks);
    if (!placement->blocks)
        return false;
    for (size_t i = 0; i < model->count && !stay; i++) {
        DLTensor *master = &model->masters[i].tensor;
        size_t elements = accel_tensor_count (master);
        if (!master->data)
            continue;
        placement->blocks[placement->block_count++] = (struct block){
            .slot = &master->data, .bytes = elements * sizeof (float), .index = i,
            .there_bytes = (sharding_is_on (model) ? packed_room (model, i) : elements) * sizeof (float) };
    }
    for (struct accel_optimizer *optimizer = model->optimizers; optimizer && !stay; optimizer = optimizer->beside)
        placement->blocks[placement->block_count++] = (struct block){
            .slot = &optimizer->state_memory, .bytes = optimizer->state_bytes, .optimizer = optimizer,
            .there_bytes = sharding_is_on (model) ? packed_state_bytes (optimizer) : optimizer->state_bytes };
    return true;
}

/* Two models that train the same memory would not any more if one of them moved. */
static enum accel_status
check_others (const struct accel_model *model, const struct accel *acc, struct accel_error *err)
{
    const struct placement *mine = model->placement;
    for (const struct accel_model *other = model_first (acc); other; other = model_next (other)) {
        const struct placement *theirs = other->placement;
        for (size_t i = 0, j = 0; theirs && i < mine->stretch_count && j < theirs->stretch_count;) {
            const struct extent *a = &mine->stretches[i], *b = &theirs->stretches[j];
            if (a->home < b->home + b->bytes && b->home < a->home + a->bytes)
                return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                                   "the model shares memory with another one, which accel_prepare has placed on %s:%d: "
                                   "describe what they share by the same tensors, and create this model after that, or "
                                   "set device_placement to ACCEL_NO and place both yourself",
                                   tensor_device_name (other->device), (int) other->device.device_id);
            if (a->home < b->home)
                i++;
            else
                j++;
        }
    }
    return ACCEL_OK;
}

/* ---- changing places ---- */

/* States keep their distances, unless they are packed. */
static void
set_states (const struct block *block, void *memory)
{
    struct accel_optimizer *optimizer = block->optimizer;
    bool is_packed = sharding_is_on (optimizer->model), is_home = memory == block->home;
    uintptr_t old = (uintptr_t) *block->slot;
    if (is_packed && !(is_home && block->places)) {
        packed_place_states (optimizer, memory, !is_home);
        return;
    }
    for (size_t i = 0; i < optimizer->model->count * optimizer->state_count; i++) {
        DLTensor *state = optimizer->state_tensors[i];
        if (state)
            state->data = is_packed ? block->places[i] : memory_at (memory, (uintptr_t) state->data - old, 1);
    }
}

static void
set_block (const struct block *block, void *memory)
{
    if (block->optimizer)
        set_states (block, memory);
    *block->slot = memory;
}

/* From now on, the model is on @p device; its tensors and blocks are there already. */
static void
set_device (struct accel_model *model, DLDevice device)
{
    model->memory = memory_of (device);
    model->device = device;
    if (model->sharding.states_at_home)
        return;
    for (size_t i = 0; i < model->count; i++)
        model->masters[i].tensor.device = device;
    for (struct accel_optimizer *optimizer = model->optimizers; optimizer; optimizer = optimizer->beside)
        for (size_t i = 0; i < model->count * optimizer->state_count; i++)
            if (optimizer->state_tensors[i])
                optimizer->state_tensors[i]->device = device;
}

static void
switch_tensors (const struct placement *placement, DLDevice device)
{
    const struct extent *stretch = placement->stretches;
    for (size_t i = 0; i < placement->origin_count; i++) {
        const struct origin *origin = &placement->origins[i];
        origin->tensor->device = device;
        if (!origin->data)
            continue;
        while (origin->data > stretch->home + stretch->bytes)
            stretch++;
        origin->tensor->data = placement->memory + stretch->at + (origin->data - stretch->home);
    }
}

static void
restore_tensors (const struct placement *placement)
{
    for (size_t i = 0; i < placement->origin_count; i++) {
        const struct origin *origin = &placement->origins[i];
        origin->tensor->device = origin->device;
        if (origin->data)
            origin->tensor->data = origin->data;
    }
}

static void
free_blocks (struct placement *placement)
{
    for (size_t i = 0; i < placement->block_count; i++)
        free (placement->blocks[i].places);
    free (placement->blocks);
    placement->blocks = NULL;
    placement->block_count = 0;
}

/* Free all but what is at home, or on the device. */
static void
end_placement (struct accel_model *model)
{
    struct placement *placement = model->placement;
    model->placement = NULL;
    free (placement->origins);
    free (placement->stretches);
    free_blocks (placement);
    free (placement->scales);
    free (placement);
}

/* Exchange the scratch memory at home for that on the device, or back. */
static void
exchange_scratch (struct accel_model *model)
{
    const struct scratch other = model->placement->scratch;
    model->placement->scratch = (struct scratch){ model->live, model->norms, model->scales };
    model->live = other.live;
    model->norms = other.norms;
    model->scales = other.scales;
    model->scales_read = true;
}

static void
destroy_scratch (const struct scratch *scratch, const struct memory *memory, DLDevice device)
{
    memory->destroy (device, scratch->live);
    memory->destroy (device, scratch->norms);
    memory->destroy (device, scratch->scales);
}

/* ---- to the device ---- */

/* States may lie anywhere at home, where they are if they have to go back before model_settle(). */
static bool
note_places (struct block *block)
{
    const struct accel_optimizer *optimizer = block->optimizer;
    if (!optimizer || !sharding_is_on (optimizer->model))
        return true;
    block->places = calloc (optimizer->model->count * optimizer->state_count + 1, sizeof *block->places);
    for (size_t i = 0; block->places && i < optimizer->model->count * optimizer->state_count; i++)
        if (optimizer->state_tensors[i])
            block->places[i] = optimizer->state_tensors[i]->data;
    return block->places;
}

static struct placement *
make_placement (const struct accel_model *model)
{
    struct placement *made = calloc (1, sizeof *made);
    if (!made)
        return NULL;
    made->home = model->device;
    made->origins = calloc (2 * model->count, sizeof *made->origins);
    made->stretches = calloc (2 * model->count, sizeof *made->stretches);
    made->scales = calloc (model->count, sizeof *made->scales);
    made->widened = model->widened;
    for (size_t i = 0; made->scales && i < model->count; i++)
        made->scales[i] = model->masters[i].scale;
    return made;
}

static enum accel_status
allocate (struct accel_model *model, size_t bytes, const struct memory *memory, DLDevice device,
          struct accel_error *err)
{
    struct placement *placement = model->placement;
    struct scratch *scratch = &placement->scratch;
    bool scales = memory->lists && model_narrowed (model, true)->count;
    placement->memory = memory->create (device, bytes, false);
    scratch->live = memory->create (device, sizeof *scratch->live, true);
    scratch->norms = memory->create (device, (model->count + 1) * sizeof *scratch->norms, false);
    if (scales)
        scratch->scales = memory->create (device, model->count * sizeof *scratch->scales, false);
    bytes += packed_parameter_bytes (model);
    bool good = packed_allocate_parameters (model, memory, device);
    good = good && placement->memory && scratch->live && scratch->norms && (!scales || scratch->scales)
                && list_blocks (placement, model);
    for (size_t i = 0; good && i < placement->block_count; i++) {
        struct block *block = &placement->blocks[i];
        block->home = *block->slot;
        block->there = memory->create (device, block->there_bytes, false);
        good = block->there != NULL && note_places (block);
        bytes += block->there_bytes;
    }
    if (good)
        return ACCEL_OK;
    return memory_fail (device, err, "cannot allocate memory on %s:%d for a model of %zu parameters: it needs more "
                        "than %zu bytes", tensor_device_name (device), (int) device.device_id, model->count, bytes);
}

static bool
has_values (const struct accel_model *model, const struct block *block)
{
    return block->optimizer || model->widened;
}

static enum accel_status
copy_packed (const struct accel_model *model, const struct block *block, DLDevice device, bool back,
             struct accel_error *err)
{
    if (block->optimizer)
        return packed_copy_states (block->optimizer, device, back ? block->home : block->there, back, err);
    return packed_copy (model, block->index, device, block->there, block->home, sizeof (float), back, err);
}

static void
copy_there (const struct accel_model *model, const struct memory *memory, DLDevice device)
{
    const struct placement *placement = model->placement;
    for (size_t i = 0; i < placement->stretch_count; i++) {
        const struct extent *stretch = &placement->stretches[i];
        memory->write (device, placement->memory + stretch->at, stretch->home, stretch->bytes);
    }
    for (size_t i = 0; i < placement->block_count; i++) {
        const struct block *block = &placement->blocks[i];
        if (!has_values (model, block))
            continue;
        if (!sharding_is_on (model))
            memory->write (device, block->there, block->home, block->bytes);
        else
            (void) copy_packed (model, block, device, false, NULL); /* memory_check() tells */
    }
}

enum accel_status
model_place (struct accel_model *model, const struct accel *acc, DLDevice device, struct accel_error *err)
{
    const struct memory *memory = memory_of (device);
    struct placement *placement = model->placement = make_placement (model);
    if (!placement || !placement->origins || !placement->stretches || !placement->scales) {
        if (placement)
            end_placement (model);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a model of %zu parameters", model->count);
    }
    enum accel_status status = packed_make_parameters (model, err);
    size_t bytes = lay_out (placement, model);
    if (!status)
        status = check_others (model, acc, err);
    if (!status)
        status = allocate (model, bytes, memory, device, err);
    if (!status) {
        copy_there (model, memory, device);
        status = memory_check (device, err);
    }
    if (status) {
        for (size_t i = 0; i < placement->block_count; i++)
            memory->destroy (device, placement->blocks[i].there);
        memory->destroy (device, placement->memory);
        destroy_scratch (&placement->scratch, memory, device);
        packed_end_parameters (model, memory, device);
        end_placement (model);
        return status;
    }
    for (size_t i = 0; i < placement->block_count; i++)
        set_block (&placement->blocks[i], placement->blocks[i].there);
    switch_tensors (placement, device);
    packed_place_parameters (model);
    exchange_scratch (model);
    set_device (model, device);
    return ACCEL_OK;
}

static void
forget_blocks (struct placement *placement)
{
    for (size_t i = 0; i < placement->block_count; i++)
        memory_host.destroy (placement->home, placement->blocks[i].home);
    free_blocks (placement);
}

const void *
model_home_of (const struct accel_model *model, const void *there)
{
    const struct placement *placement = model->placement;
    for (size_t i = 0; i < placement->block_count; i++)
        if (placement->blocks[i].there == there)
            return placement->blocks[i].home;
    return NULL;
}

void
model_settle (struct accel_model *model)
{
    struct placement *placement = model->placement;
    if (!placement || !placement->blocks)
        return;
    forget_blocks (placement);
    for (size_t i = 0; i < placement->stretch_count; i++)
        if (placement->stretches[i].ours)
            memory_discard (placement->stretches[i].home, placement->stretches[i].bytes);
    packed_settle_parameters (model);
}

/* ---- back ---- */

static enum accel_status
fail_to_fetch (const struct accel_model *model, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to take a model of %zu parameters back from %s:%d",
                       model->count, tensor_device_name (model->device), (int) model->device.device_id);
}

/* Frozen parameters may be in memory that cannot be written, such as a file's. */
static enum accel_status
read_frozen (const struct accel_model *model, const struct extent *stretch, struct accel_error *err)
{
    const char *there = model->placement->memory + stretch->at;
    AUTO_FREE char *piece = malloc (PIECE_BYTES);
    enum accel_status status = ACCEL_OK;
    if (!piece)
        return fail_to_fetch (model, err);
    for (size_t at = 0; at < stretch->bytes && !status; at += PIECE_BYTES) {
        size_t some = stretch->bytes - at < PIECE_BYTES ? stretch->bytes - at : PIECE_BYTES;
        status = model->memory->read (model->device, piece, there + at, some, err);
        if (!status)
            memory_change (stretch->home + at, piece, some);
    }
    return status;
}

static enum accel_status
read_stretches (const struct accel_model *model, bool ours, struct accel_error *err)
{
    const struct placement *placement = model->placement;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < placement->stretch_count && !status; i++) {
        const struct extent *stretch = &placement->stretches[i];
        if (stretch->frozen && !stretch->ours)
            status = read_frozen (model, stretch, err);
        else if (ours || !stretch->ours)
            status = model->memory->read (model->device, stretch->home, placement->memory + stretch->at,
                                          stretch->bytes, err);
    }
    return status;
}

static enum accel_status
read_block (const struct accel_model *model, const struct block *block, struct accel_error *err)
{
    if (!sharding_is_on (model))
        return model->memory->read (model->device, block->home, block->there, block->bytes, err);
    return copy_packed (model, block, model->device, true, err);
}

static enum accel_status
read_blocks (struct accel_model *model, struct accel_error *err)
{
    struct placement *placement = model->placement;
    enum accel_status status = ACCEL_OK;
    bool good = list_blocks (placement, model);
    for (size_t i = 0; i < placement->block_count && good && !status; i++) {
        struct block *block = &placement->blocks[i];
        block->there = *block->slot;
        block->home = sharding_is_on (model) ? memory_host.create_sparse (placement->home, block->bytes)
                                             : memory_host.create (placement->home, block->bytes, false);
        good = block->home != NULL;
        if (good && has_values (model, block))
            status = read_block (model, block, err);
    }
    if (!good)
        status = fail_to_fetch (model, err);
    if (status)
        forget_blocks (placement);
    return status;
}

enum accel_status
model_fetch (struct accel_model *model, struct accel_error *err)
{
    accel_model_scale (model, 0); /* reads all */
    enum accel_status status = read_stretches (model, true, err);
    if (!status)
        status = model_fetch_scale (model, err);
    if (!status)
        status = read_blocks (model, err);
    if (!status)
        model->placement->fetched = true;
    return status;
}

void
model_go_home (struct accel_model *model)
{
    struct placement *placement = model->placement;
    const struct memory *memory = model->memory;
    DLDevice device = model->device;
    model_lists_forget (model);
    for (size_t i = 0; i < placement->block_count; i++) {
        set_block (&placement->blocks[i], placement->blocks[i].home);
        memory->destroy (device, placement->blocks[i].there);
    }
    restore_tensors (placement);
    packed_end_parameters (model, memory, device);
    exchange_scratch (model);
    destroy_scratch (&placement->scratch, memory, device);
    memory->destroy (device, placement->memory);
    set_device (model, placement->home);
    staging_end (model);
    bool has_received = model->sharding.states_at_home; /* masters of rank 0, which belong to its parameters */
    model->sharding.states_at_home = false;
    if (!placement->fetched) {
        model->widened = placement->widened && !has_received;
        for (size_t i = 0; i < model->count; i++)
            model->masters[i].scale = placement->scales[i];
    }
    end_placement (model);
}

void
model_end_placement (struct accel_model *model)
{
    const struct placement *placement = model->placement;
    (void) read_stretches (model, false, NULL); /* there is no way to say that the GPU has failed */
    (void) packed_fetch_own (model, NULL);
    restore_tensors (placement);
    packed_end_parameters (model, model->memory, model->device);
    destroy_scratch (&placement->scratch, &memory_host, placement->home);
    model->memory->destroy (model->device, placement->memory);
    end_placement (model);
}
