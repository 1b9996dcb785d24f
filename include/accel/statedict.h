/* SPDX-License-Identifier: Apache-2.0 */
/* State dicts: what an object writes into a checkpoint, and reads from it: named tensors, numbers and texts.
 * Numbers, texts and bytes are in host memory. */
#ifndef ACCEL_STATEDICT_H
#define ACCEL_STATEDICT_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/**
 * A state dict.  The library makes it: it is empty when an object is to be saved, and full when it is to be loaded.
 * Names are UTF-8, not empty, and unique.
 */
struct accel_state_dict;

/* Saving: add a value.  A failure (no memory, an invalid name or a duplicate) is remembered, and fails the save. */

/** Add a whole number; of truth values, 0 and 1. */
ACCEL_API void accel_state_dict_set_int64 (struct accel_state_dict *state, const char *name, int64_t value);

/** Any value: infinities, NaN and the sign of 0 are kept. */
ACCEL_API void accel_state_dict_set_double (struct accel_state_dict *state, const char *name, double value);

/** @param text  UTF-8; copied */
ACCEL_API void accel_state_dict_set_text (struct accel_state_dict *state, const char *name, const char *text);

/**
 * Add a tensor.  Its shape and memory must stay as they are until the save has ended; nothing is copied before.
 *
 * @param tensor  contiguous, in memory of the host or of a GPU, of a type that libaccel knows
 */
ACCEL_API void
accel_state_dict_set_tensor (struct accel_state_dict *state, const char *name, const DLTensor *tensor);

/** Add bytes, which are stored as a tensor of uint8.  @param bytes  [size_bytes]; copied */
ACCEL_API void accel_state_dict_set_bytes (struct accel_state_dict *state, const char *name, const void *bytes,
                                           size_t size_bytes);

/* Loading.  A value that is missing, or of a different kind, is ACCEL_ERR_FORMAT, and the output is unchanged. */

/** @return whether there is a value or tensor of this name. */
ACCEL_API bool accel_state_dict_has (const struct accel_state_dict *state, const char *name);

/** Get a whole number; true and false, which Python writes, are 1 and 0.  @param[out] value  unchanged on failure */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_state_dict_get_int64 (const struct accel_state_dict *state, const char *name, int64_t *value,
                            struct accel_error *err);

/** Integers are converted. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_state_dict_get_double (const struct accel_state_dict *state, const char *name, double *value,
                             struct accel_error *err);

/** @param[out] text  owned by @p state */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_state_dict_get_text (const struct accel_state_dict *state, const char *name, const char **text,
                           struct accel_error *err);

/**
 * Read a tensor from the file into memory.
 *
 * @param into  contiguous, in memory of the host or of a GPU; its shape and type must be those of the stored tensor
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_state_dict_get_tensor (const struct accel_state_dict *state, const char *name, DLTensor *into,
                             struct accel_error *err);

/** Read bytes.  @param bytes  [size_bytes], which must be the stored number */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_state_dict_get_bytes (const struct accel_state_dict *state, const char *name, void *bytes, size_t size_bytes,
                            struct accel_error *err);

/** @return the number of elements of a stored tensor, to allocate memory for it; 0 if there is none of this name. */
ACCEL_API size_t accel_state_dict_tensor_count (const struct accel_state_dict *state, const char *name);

ACCEL_END_DECLS

#endif
