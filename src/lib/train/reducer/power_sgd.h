/* SPDX-License-Identifier: Apache-2.0 */
/* What PowerSGD remembers from pass to pass. */
#ifndef LIB_TRAIN_POWER_SGD_H
#define LIB_TRAIN_POWER_SGD_H

#include "lib/data/generator.h"
#include "lib/train/reducer/reducer_object.h"

/* Arrays on the model's device. */
struct matrix {
    size_t n, m, rank; /* rank 0: averaged whole */
    float *q;          /* [m, rank] of one bucket, contiguous */
    float *error;      /* [n, m]; NULL without feedback */
    float *values;     /* in a pass: the gradient with its error */
};

struct power_sgd {
    uint64_t passes; /* so far */
    struct accel_generator seeds; /* of what Q starts with */
    struct matrix *matrices; /* [parameters] */
    bool *started;           /* [spans]: Q holds something */
    float *q, *errors;
    float *sent;  /* shared: whole gradients and P of one bucket */
    float *wide;  /* the 16-bit matrices of one bucket in float32 */
    float *drawn; /* on the host: room for the largest Q */
    size_t error_count; /* elements of `errors` */
    void *side_stream;  /* of the device, where buckets are reduced beside the program's work; NULL: there is none */
    const struct memory_products *products; /* who multiplies; NULL: the functions of struct memory */
};

/** Forget everything, as before the first pass. */
void power_sgd_reset (struct accel_model *model);

#endif
