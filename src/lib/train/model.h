/* SPDX-License-Identifier: Apache-2.0 */
/* A model from the inside: its parameters, the memory it owns, and the spans in which its gradients are reduced. */
#ifndef LIB_TRAIN_MODEL_H
#define LIB_TRAIN_MODEL_H

#include <accel/train.h>

#include "lib/comm/comm_private.h"
#include "lib/object.h"

/** A stretch of float32 gradients that lie one behind the other: reduced by one collective. */
struct span {
    float *data;
    size_t count;
    bool allocated; /* by us, with accel_alloc() */
};

struct accel_model {
    struct object object;
    size_t count;
    struct accel_parameter *parameters; /* [count]; names are ours */
    void **owned;                       /* [count]: memory of parameters that we allocated, or NULL */
    struct span *spans;                 /* made by model_prepare() */
    size_t span_count;
};

/** @return whether parameter @p index is trained. */
bool model_is_trained (const struct accel_model *model, size_t index);

/** @return ACCEL_OK if every trained parameter has memory for its gradient, else an error that names the first. */
enum accel_status model_check_gradients (const struct accel_model *model, struct accel_error *err);

/** Undo what model_prepare() gave to gradients: the program's tensors stop pointing into memory that goes away. */
void model_forget_gradients (struct accel_model *model);

/** Average the gradients over all processes.  Collective. */
enum accel_status model_average_gradients (struct accel_model *model, struct accel_comm *comm,
                                           const struct comm_site *site, struct accel_error *err);

/** Copy the parameters of rank @p root to all.  Collective. */
enum accel_status model_broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site,
                                   int root, struct accel_error *err);

/** Between accel_join_uneven_inputs() and its end: tell all that this process averages @p model's gradients. */
enum accel_status join_announce (struct accel *acc, const struct comm_site *site, const struct accel_model *model,
                                 struct accel_error *err);

/**
 * The model's part of accel_prepare(): compare over the ranks, copy parameters from rank 0, give gradients memory.
 * Collective.
 */
enum accel_status model_prepare (const char *file, int line, struct accel *acc, struct accel_model *model,
                                 struct accel_error *err);

#endif
