/* SPDX-License-Identifier: Apache-2.0 */
/* Divided parameters on a GPU: this process's stretches of all of them are packed in one piece of memory.  A parameter
 * has memory for all elements, and its tensors an address, only while something uses it whole; otherwise `data` is
 * NULL.  So addresses change, as memory behind one that stays could not be given back. */
#ifndef LIB_TRAIN_PACKED_PARAMETERS_H
#define LIB_TRAIN_PACKED_PARAMETERS_H

#include "lib/train/packed.h"

/** model_place(), in this order: what will be packed, its bytes, its memory, and no address any more.  If parameters of
 *  @p model are not divided, all of these do nothing.  The values come by packed_broadcast().  @{ */
enum accel_status packed_make_parameters (struct accel_model *model, struct accel_error *err);
size_t packed_parameter_bytes (const struct accel_model *model);
bool packed_allocate_parameters (struct accel_model *model, const struct memory *memory, DLDevice device);
void packed_place_parameters (struct accel_model *model);
/** @} */

/** model_settle(): memory at home that is the library's own takes no room. */
void packed_settle_parameters (const struct accel_model *model);

/** Copy this process's stretches home.  packed_fetch_whole() copies all. */
enum accel_status packed_fetch_own (struct accel_model *model, struct accel_error *err);

/** The tensors point home; free everything. */
void packed_end_parameters (struct accel_model *model, const struct memory *memory, DLDevice device);

/** Let parameter @p first, and what is tied to it, have memory for all elements, unless it has; what is in it is not
 *  set.  packed_close() gives it back, after what has been queued on the device.  @{ */
enum accel_status packed_open (struct accel_model *model, size_t first, struct accel_error *err);
void packed_close (const struct accel_model *model, size_t first);
/** @} */

/** What the program has written to parameters that it has summoned becomes what is packed.  Accepts any model. */
void packed_note_written (const struct accel_model *model);

/** Copy this process's stretches from a parameter that is open, or what is not cut of it to there.  @{ */
void packed_keep (const struct accel_model *model, size_t first);
void packed_fill_rest (const struct accel_model *model, size_t first);
/** @} */

#endif
