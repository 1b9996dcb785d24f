/* SPDX-License-Identifier: Apache-2.0 */
/* A model on a GPU whose optimizers' states and masters stay in host memory.  They lie there as those of a model that
 * is not on a GPU.  In a step, gradients come piece by piece, and parameters go back; a second piece comes while the
 * host computes with the first. */
#ifndef LIB_TRAIN_STAGING_H
#define LIB_TRAIN_STAGING_H

#include "lib/train/model_object.h"

enum { STAGING_PIECES = 2 };

struct staging {
    const struct memory_copy_streams *copies;
    struct memory_copy_stream *stream;
    DLDevice device;
    size_t elements; /* of a piece */
    char *pieces[STAGING_PIECES]; /* each has room for `elements` gradients, then for as many parameters, of 32 bits */
    bool is_pinned;
    char *memory; /* of both */
};

/** Of a model that is to be on `target`. */
enum accel_status staging_create (struct accel_model *model, struct accel_error *err);

/** Wait for copies, and free everything.  Accepts a model without it. */
void staging_end (struct accel_model *model);

/** Fill @p master from @p count elements at @p from on the GPU, or write them there.  The first does nothing if the GPU
 *  has failed.  @{ */
void staging_widen (const struct accel_model *model, float *master, const void *from, enum accel_dtype dtype,
                    size_t count, float factor);
void staging_narrow (const struct accel_model *model, void *to, enum accel_dtype dtype, const float *master,
                     size_t count);
/** @} */

#endif
