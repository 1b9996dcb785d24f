/* SPDX-License-Identifier: Apache-2.0 */
/* Models of which each process has parts of tensors, as accel_model_set_tensor_parallel() has cut them. */
#ifndef LIB_TRAIN_TENSOR_PARALLEL_H
#define LIB_TRAIN_TENSOR_PARALLEL_H

#include "lib/train/model_object.h"

/** @return whether this process has a part of parameter @p index. */
bool cut_has (const struct accel_model *model, size_t index);

/** Copy the part of process @p rank of parameter @p index, with elements of @p like's type, to its place in the whole,
 *  or from there.  Both are on @p like's device, contiguous. */
void cut_copy (const struct accel_model *model, size_t index, const DLTensor *like, void *whole, void *part, int rank,
               bool is_to_whole);

/** The whole of a tensor of which this process has a part. */
struct whole {
    DLTensor tensor; /* the tensor itself, if it is not cut */
    int64_t shape[ACCEL_MAX_DIMS];
    const struct accel_model *model;
    size_t index;
    const DLTensor *part;
    void *memory; /* of this struct; NULL: none */
};

/** Describe the whole of @p part, which has the shape of parameter @p index; it has no memory if it is cut. */
void whole_describe (struct whole *whole, const struct accel_model *model, size_t index, const DLTensor *part);

/** The same, with memory for values that are going to be written, on the device of @p part. */
enum accel_status whole_begin (struct whole *whole, const struct accel_model *model, size_t index, const DLTensor *part,
                               struct accel_error *err);

/** Copy this process's part to its place, if @p keeps, and free the memory.  @return @p status, or a failed copy */
enum accel_status whole_end (struct whole *whole, enum accel_status status, struct accel_error *err);

/** Only free the memory. */
void whole_destroy (struct whole *whole);

/** @return a model of @p acc that is cut, or NULL. */
struct accel_model *cut_first (const struct accel *acc);

/** accel_prepare(): whether @p model was cut for the processes of @p acc. */
enum accel_status cut_check (const struct accel_model *model, struct accel *acc, struct accel_error *err);

/** @return those that have parameter @p index, or the same part of it: the first of them has its values. */
struct accel_comm *cut_comm (const struct accel_model *model, size_t index, struct accel *acc);

/** Copy the parameters of rank 0 to all, and of each part those of the first process that has it.  Collective. */
enum accel_status cut_broadcast (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                 struct accel_error *err);

/** Make the norms of parts in `host_norms` those of whole gradients.  Collective. */
enum accel_status cut_norms (struct accel_model *model, const struct comm_site *site, double p,
                             struct accel_error *err);

/** What is collected of a model: each also what is before it. */
enum cut_extent { CUT_PARAMETERS, CUT_MASTERS, CUT_STATES };

/** Rank 0 gets memory for the whole tensors that cut_collect() will fill: for those of @p model, or for all.  For
 *  cut_end_collect(), also after a failure, of which the others must be told.  @{ */
enum accel_status cut_reserve_model (struct accel_model *model, struct accel *acc, enum cut_extent extent,
                                     struct accel_error *err);
enum accel_status cut_reserve (struct accel *acc, struct accel_error *err);
/** @} */

/** Until cut_end_collect(), tensors for which rank 0 has memory have its size, and no values.  Of a process alone. */
void cut_show_reserved (const struct accel *acc);

/** Until cut_end_collect(), rank 0 has whole tensors in place of its parts: those for which it has memory.  What is
 *  divided among processes must have been collected before (sharding.h), and ends later.  Collective.  @{ */
enum accel_status cut_collect_model (struct accel_model *model, struct accel *acc, enum cut_extent extent,
                                     const struct comm_site *site, struct accel_error *err);
enum accel_status cut_collect (struct accel *acc, const struct comm_site *site, struct accel_error *err);
void cut_end_collect_model (struct accel_model *model);
void cut_end_collect (struct accel *acc);
/** @} */

/** What accel_model_destroy() does: the program's tensors have their own shapes again. */
void cut_destroy (struct accel_model *model);

#endif
