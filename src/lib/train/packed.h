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
    return sharding_is_on (model) && !model->memory->host;
}

/** @return the elements of parameter @p index that this process has the states of. */
size_t packed_room (const struct accel_model *model, size_t index);

/** @return which of them is element @p element, if they are packed; else @p element. */
size_t packed_offset (const struct accel_model *model, size_t index, size_t element);

/** @return @p tensor with an address at which element @p from is where the index says. */
DLTensor packed_tensor (const struct accel_model *model, size_t index, const DLTensor *tensor, size_t from);

/** Copy this process's stretches of parameter @p index: what is in @p home in the order of the parameter, is packed on
 *  @p device.  @param back  from there */
enum accel_status packed_copy (const struct accel_model *model, size_t index, DLDevice device, void *there, float *home,
                               bool back, struct accel_error *err);

/** The bytes of all states of @p optimizer, if they are packed. */
size_t packed_state_bytes (const struct accel_optimizer *optimizer);

/** The same of all states, from where they are. */
enum accel_status packed_copy_states (const struct accel_optimizer *optimizer, DLDevice device, char *to, bool back,
                                      struct accel_error *err);

/** From now on, the states are in @p memory, as packed_copy_states() has put them there. */
void packed_place_states (const struct accel_optimizer *optimizer, char *memory, bool is_packed);

#endif
