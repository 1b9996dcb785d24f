/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding on a GPU, whose memory has no pages that take room only when they are written: of states and masters, this
 * process's stretches lie there one after the other.  At home they have room for all elements again. */
#ifndef LIB_TRAIN_PACKED_H
#define LIB_TRAIN_PACKED_H

#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/stretches.h"

/** @return whether states and masters are packed. */
static inline bool
packed_is_on (const struct accel_model *model)
{
    return sharding_is_on (model) && !model_state_memory (model)->host;
}

/** Divided parameters (packed_parameters.h). */
struct packed_parameters {
    size_t *first; /* [count]: see sharding_find_first() */
    void **home;   /* [count]: where those are that are divided, in host memory */
    void **own;    /* [count]: this process's stretches, on the device or offloaded; of tied ones, the first's */
    char *memory;  /* of all of these */
    size_t bytes;
    const struct memory_copy_streams *copies; /* (packed_home.h) NULL: they are on the device */
    struct memory_copy_stream *stream;
    void *side;     /* a stream beside the program's; NULL: there is none */
    bool is_pinned; /* `memory` */
    char *lent;     /* where they are during a step on the device, or NULL */
    unsigned summoned; /* calls of accel_summon_full_params() that have not ended */
};

/** @return the divided parameter whose stretches are those of @p index; SIZE_MAX: it is whole, or in host memory. */
static inline size_t
packed_first (const struct accel_model *model, size_t index)
{
    return model->sharding.packed ? model->sharding.packed->first[index] : SIZE_MAX;
}

/** @return whether the stretches of parameter @p index are in host memory now (packed_home.h). */
static inline bool
packed_is_home (const struct accel_model *model, size_t index)
{
    const struct packed_parameters *packed = model->sharding.packed;
    return packed_first (model, index) != SIZE_MAX && packed->copies && !packed->lent;
}

/** @return the device that has the stretches of parameter @p index. */
static inline DLDevice
packed_device (const struct accel_model *model, size_t index)
{
    return packed_is_home (model, index) ? (DLDevice){ kDLCPU, 0 } : model->device;
}

/** Divided gradients (packed_gradients.h). */
struct packed_bucket {
    bool is_started;  /* it is being averaged */
    bool has_average; /* what is packed need not be 0 */
};

struct packed_gradients {
    void **own; /* [count]: this process's stretches; NULL: there is none */
    void *memory;
    size_t bytes;
    bool has_layers;      /* the program has called accel_layer_begin() in a pass: it opens buckets */
    bool may_have_layers; /* it has called it, in a pass or elsewhere */
    struct packed_bucket *buckets; /* [span_count] */
    struct accel_work **works;     /* [2 * count]: of the average of each gradient, of its chunk and what is not cut */
};

/** @return the elements of parameter @p index that this process has the states of. */
size_t packed_room (const struct accel_model *model, size_t index);

/** @return which of its states is that of element @p element: if they are not packed, the same. */
size_t packed_offset (const struct accel_model *model, size_t index, size_t element);

/** @return where element @p element of parameter @p index is, one of this process's stretches. */
void *packed_element (const struct accel_model *model, size_t index, size_t element);

/** @return the element of the parameter that is the @p offset th one of those that are packed. */
size_t packed_position (const struct accel_model *model, size_t index, size_t offset);

/** @return where the optimizer finds that element of the gradient. */
void *packed_gradient (const struct accel_model *model, size_t index, size_t element);

/** @return @p tensor with an address at which element @p from is where the index says. */
DLTensor packed_tensor (const struct accel_model *model, size_t index, const DLTensor *tensor, size_t from);

/** Copy this process's stretches of parameter @p index: what is in @p home in the order of the parameter, is packed on
 *  @p device, in elements of @p each bytes.  @param back  from there */
enum accel_status packed_copy (const struct accel_model *model, size_t index, DLDevice device, void *there, void *home,
                               size_t each, bool back, struct accel_error *err);

/** The bytes of all states of @p optimizer, if they are packed. */
size_t packed_state_bytes (const struct accel_optimizer *optimizer);

/** The same of all states, from where they are. */
enum accel_status packed_copy_states (const struct accel_optimizer *optimizer, DLDevice device, char *to, bool back,
                                      struct accel_error *err);

/** From now on, the states are in @p memory, as packed_copy_states() has put them there. */
void packed_place_states (const struct accel_optimizer *optimizer, char *memory, bool is_packed);

#endif
