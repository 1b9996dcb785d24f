/* SPDX-License-Identifier: Apache-2.0 */
/* Stored tensors whose elements are in several places: in chunks of a distributed checkpoint (files/dcp.h), or in what
 * each rank has saved to memory. */
#ifndef LIB_STATE_RUNS_H
#define LIB_STATE_RUNS_H

#include "lib/state/state_dict.h"

/** Elements that follow each other in a tensor and in the place where they are. */
struct state_run {
    size_t tensor; /* index in the header, and in the folder */
    uint64_t from; /* byte of the tensor */
    uint64_t bytes;
    uint64_t begin; /* byte of the source, or of the elements of the folder's chunk */
    size_t chunk;   /* of the tensor; without a folder: 0 */
};

struct state_runs {
    struct state_run *all; /* [count], sorted */
    size_t count;
    size_t *first;         /* [tensors of the header + 1]: where the runs of each begin, which is `begin` there */
    struct dcp_folder *folder; /* NULL: all is in the state's source */
};

/** Fill an empty state dict from the folder of a distributed checkpoint. */
enum accel_status state_dict_open_folder (struct accel_state_dict *state, const char *path, struct accel_error *err);

/**
 * Add what a source has of a tensor: elements that follow each other.  What was added of all tensors is complete when
 * state_dict_seal_runs() succeeds.
 *
 * @param shape  [ndim] of the whole tensor
 * @param from   of the first, bytes of the tensor
 * @param begin  of them in the source
 */
enum accel_status state_dict_add_run (struct accel_state_dict *state, const char *name, enum safetensors_dtype dtype,
                                      size_t ndim, const uint64_t *shape, uint64_t from, uint64_t bytes,
                                      uint64_t begin, struct accel_error *err);

/** As state_dict_seal().  @retval ACCEL_ERR_FORMAT  elements are missing, or come twice */
enum accel_status state_dict_seal_runs (struct accel_state_dict *state, struct source *source,
                                        struct accel_error *err);

/** Read @p length bytes of @p tensor of the header from byte @p at of it on. */
enum accel_status state_runs_read (struct state_runs *runs, const struct source *source,
                                   const struct safetensors_tensor *tensor, uint64_t at, void *bytes, size_t length,
                                   struct accel_error *err);

/** Accepts NULL. */
void state_runs_destroy (struct state_runs *runs);

#endif
