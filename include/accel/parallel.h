/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism: the processes of a row of the grid have a part of each layer, as in Megatron-LM (M. Shoeybi et
 * al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019). */
#ifndef ACCEL_PARALLEL_H
#define ACCEL_PARALLEL_H

#include <accel/group.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/**
 * The grid of a job with tensor parallelism: its dimension "tp" has the processes that divide tensors, which have
 * consecutive ranks and the same data, and "dp" those that divide data, which have the same part of each tensor.
 * `tp_size` of struct accel_options makes it.
 *
 * @return owned by @p acc; NULL if tp_size is 1: accel_mesh_comm() of that is NULL, too
 */
ACCEL_API const struct accel_mesh *accel_device_mesh (const struct accel *acc);

/** A row of accel_model_set_tensor_parallel(). */
struct accel_partition {
    const char *match; /**< parameter names as an fnmatch(3) pattern; `*` also matches dots; NULL: all */
    uint64_t dim;      /**< the dimension that is cut, into as many equal parts as processes */
    uint64_t blocks;   /**< the dimension is so many matrices beside each other, and each of them is cut, such as the 3
                            of queries, keys and values; 0: 1 */
};

/**
 * Keep this process's part of some parameters of @p model, whose tensors describe the whole ones before.  For each
 * parameter, the first row that matches its name counts; one that no row matches stays whole.  From now on, the shapes
 * of its tensors, `data` and `grad`, are those of the part, in memory of the model; values that are already there are
 * cut, too.  Without tensor parallelism, nothing changes.
 *
 * Call it before accel_optimizer_create() and accel_prepare().  Then the library knows the layout:
 *
 * - accel_model_initialize(), accel_load_model() and accel_load_state() give each process its part of the values that
 *   one process alone would have; accel_save_model() and accel_save_state() write whole tensors, which they collect on
 *   rank 0.  So files can be read with any tp_size.
 * - gradients are averaged over "dp".  The program must have the same gradients of whole parameters in all processes of
 *   "tp": it adds up those of a layer's input with accel_comm_all_reduce().
 * - norms for clipping are those of the whole model.
 *
 * @param acc    the job that the model will be prepared with
 * @param rows   [count]
 * @retval ACCEL_ERR_INVALID      a row that matches no parameter, a dimension that the parameter does not have, or that
 *                                cannot be cut into equal parts; the model is prepared, has an optimizer, or has been
 *                                cut or offloaded
 * @retval ACCEL_ERR_UNSUPPORTED  an 8-bit parameter that is trained: its scale is that of all elements; or one whose
 *                                memory is another parameter's, too
 * @retval ACCEL_ERR_NOMEM        the model can only be destroyed
 */
#define accel_model_set_tensor_parallel(...) \
    accel_model_set_tensor_parallel_sized (sizeof (struct accel_partition), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_set_tensor_parallel_sized (size_t row_size, struct accel_model *model, const struct accel *acc,
                                       const struct accel_partition *rows, size_t count, struct accel_error *err);

/**
 * Look up rows of a table that is divided: process r has those of tokens r * rows to (r + 1) * rows - 1.  Megatron-LM's
 * VocabParallelEmbedding.  All arrays are in the same memory.  Collective over @p comm.
 *
 * @param comm    NULL: this process alone
 * @param weight  [rows, width], float32
 * @param tokens  [count], the same on all
 * @param[out] y  [count, width], the same on all
 * @retval ACCEL_ERR_INVALID  a token is negative, or not below the number of all rows; found before anything is sent.
 *                            On a GPU, its row of @p y is NaN instead, and the host waits for nothing
 */
#define accel_parallel_embedding(...) accel_parallel_embedding_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_parallel_embedding_at (const char *file, int line, struct accel_comm *comm, const float *weight, size_t rows,
                             size_t width, const int32_t *tokens, size_t count, float *y, struct accel_error *err);

/** The backward pass: add @p dy [count, width], which all have, to the rows of @p grad [rows, width] that were looked
 *  up, in the order of tokens.  Sends nothing.  Tokens that are no rows are an error, or on a GPU left out. */
#define accel_parallel_embedding_backward(...) accel_parallel_embedding_backward_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_parallel_embedding_backward_at (const char *file, int line, struct accel_comm *comm, size_t rows, size_t width,
                                      const int32_t *tokens, size_t count, const float *dy, float *grad,
                                      struct accel_error *err);

/* Layers need four pairs of functions, which parallel_linear.h calls: what the forward pass does to activations,
 * and the backward pass to their gradients.
 *
 *   forward                              backward
 *   nothing (into a column-parallel      accel_comm_all_reduce()
 *   layer: all have the input)
 *   accel_comm_all_reduce() (out of a    nothing
 *   row-parallel layer)
 *   accel_parallel_gather()              accel_parallel_scatter()
 *   accel_parallel_scatter()             accel_parallel_gather()
 */

/**
 * Join the parts of all processes of @p comm along a dimension, in the order of ranks.  Collective over @p comm.
 *
 * @param comm  NULL: this process alone; both functions then copy
 * @param from  contiguous, in memory of the host or a device
 * @param to    contiguous, of the same type and on the same device, but in other memory; the shape of @p from, but
 *              `dim` is as many times larger as there are processes
 */
#define accel_parallel_gather(...) accel_parallel_gather_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_parallel_gather_at (const char *file, int line, struct accel_comm *comm, const DLTensor *from, const DLTensor *to,
                          int dim, struct accel_error *err);

/** Copy this process's part of @p from, which all have, along a dimension: the reverse.  Sends nothing.  Both are in
 *  memory of the host, or of one device. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_parallel_scatter (const struct accel_comm *comm, const DLTensor *from, const DLTensor *to, int dim,
                        struct accel_error *err);

/**
 * The losses of predicting classes, such as tokens, whose logits are divided among the processes of @p comm: process r
 * has those of classes r * columns to (r + 1) * columns - 1.  All logits of a row are in no process: three numbers
 * of each travel.  Collective over @p comm.
 *
 * Logits on a GPU are computed there, and the host waits for nothing, unless labels or losses are in its own memory:
 * they are copied then.  A label that is too high is found before anything is sent if the host has labels or losses;
 * otherwise its row's loss and gradients are NaN, which norms, scalers and whoever reads the loss will see.
 *
 * @param comm            NULL: this process alone
 * @param labels          [rows], the same on all; rows with a negative one have a loss of 0, and gradients of 0, or
 *                        NaN if the row has no softmax, because a logit is NaN or +infinite, or all are -infinite: as
 *                        those of PyTorch
 * @param scale           such as the scale of accel_backward(), divided by rows
 * @param[in,out] logits  [rows, columns], float32; become their own gradients, times @p scale.  With a scale of 0, what
 *                        they become has no meaning
 * @param[out] losses     [rows]: -log softmax (logits) [label], the same on all
 * @retval ACCEL_ERR_INVALID  a label is not below the number of classes; or arrays are on two devices beside the host
 * @retval ACCEL_ERR_NOMEM    there is no memory for two numbers of each row, or for copies
 */
#define accel_parallel_cross_entropy(...) accel_parallel_cross_entropy_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_parallel_cross_entropy_at (const char *file, int line, struct accel_comm *comm, const int32_t *labels,
                                 size_t rows, size_t columns, float scale, float *logits, float *losses,
                                 struct accel_error *err);

ACCEL_END_DECLS

#endif
