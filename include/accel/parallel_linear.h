/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of which each process has a part: Megatron-LM's ColumnParallelLinear and RowParallelLinear.  The
 * program multiplies, with BLAS, cuBLAS or whatever it has; these functions say when, and send what has to be sent.
 * They are compiled into the program, and make calls that it could make itself.
 *
 * The layers of a block, whose hidden units are divided: a column-parallel one without gather_output, what is computed
 * with each unit alone, and a row-parallel one with input_is_parallel.  That is one all-reduce on the way forward, and
 * one on the way back.  A bias is the program's: it adds that of a column-parallel layer, of which each process has a
 * part, to its part of y, and that of a row-parallel layer, which all have, to y. */
#ifndef ACCEL_PARALLEL_LINEAR_H
#define ACCEL_PARALLEL_LINEAR_H

#include <accel/parallel.h>
#include <accel/work.h>

ACCEL_BEGIN_DECLS

/**
 * A product of matrices, such as BLAS's sgemm: c = a b + beta c, where a is [m, k], b [k, n] and c [m, n].  They are
 * float32, and lie there row by row without gaps; one that is transposed as [k, m] or [n, k].  No call has both
 * transposed.  In memory of a GPU, queue the product on accel_get_stream().
 *
 * @param beta  0: what is in @p c has no meaning; or 1
 * @return ACCEL_OK; anything else ends the call of the layer, of which the other processes are not told: end the job
 */
typedef enum accel_status (*accel_matmul) (void *user, bool a_transposed, bool b_transposed, size_t m, size_t n,
                                           size_t k, const float *a, const float *b, float beta, float *c,
                                           struct accel_error *err);

/** What is divided. */
enum accel_parallel_kind {
    ACCEL_COLUMN_PARALLEL, /**< what comes out: each process needs all of x, and computes a part of y */
    ACCEL_ROW_PARALLEL,    /**< what goes in: each process needs a part of x, and y is the sum of all */
};

/** A layer y = x weight.  All arrays are in host memory, or on one GPU. */
struct accel_parallel_linear {
    struct accel_comm *comm;       /**< those that divide it; NULL: this process alone */
    size_t in, out;                /**< of this process's part of the weight */
    const float *weight;           /**< [in, out], this process's part */
    float *grad;                   /**< the same: its gradient is added; NULL: the weight is not trained */
    accel_matmul matmul;           /**< NULL: a plain loop, for host memory */
    void *user;                    /**< first argument of `matmul` */
    float *room;                   /**< for a part where the program has the whole: with gather_output [rows, out], of a
                                        row-parallel layer without input_is_parallel [2, rows, in]; else NULL */
    DLDevice device;               /**< where arrays are; all 0: in host memory */
    enum accel_parallel_kind kind; /**< what is divided */
    bool gather_output;            /**< column-parallel: y and dy are whole, [rows, out * processes] */
    bool input_is_parallel;        /**< row-parallel: x and dx are parts; else whole, [rows, in * processes] */
    bool transposed;               /**< weight and grad are [out, in], like those of torch.nn.Linear */
};

/** accel_matmul of host memory, in the order of the index that is added up. */
static inline enum accel_status
accel_matmul_plain (void *user, bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k, const float *a,
                    const float *b, float beta, float *c, struct accel_error *err)
{
    (void) user, (void) err;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n && beta < 1; j++)
            c[i * n + j] = 0;
        for (size_t l = 0; l < k; l++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j]
                    += (a_transposed ? a[l * m + i] : a[i * k + l]) * (b_transposed ? b[j * k + l] : b[l * n + j]);
    }
    return ACCEL_OK;
}

/** For the functions below. @{ */
static inline enum accel_status
accel_parallel_product (const struct accel_parallel_linear *layer, bool a_transposed, bool b_transposed, size_t m,
                        size_t n, size_t k, const float *a, const float *b, float beta, float *c,
                        struct accel_error *err)
{
    accel_matmul matmul = layer->matmul ? layer->matmul : accel_matmul_plain;
    return matmul (layer->user, a_transposed, b_transposed, m, n, k, a, b, beta, c, err);
}

/* Join parts, or cut this process's; both are matrices of @p rows rows, the part with @p columns columns. */
static inline enum accel_status
accel_parallel_move (const char *file, int line, const struct accel_parallel_linear *layer, const float *from,
                     float *to, size_t rows, size_t columns, bool joins, struct accel_error *err)
{
    int64_t shapes[2][2];
    DLTensor tensors[2];
    for (int i = 0; i < 2; i++) {
        bool is_whole = joins == (i == 1);
        shapes[i][0] = (int64_t) rows;
        shapes[i][1] = (int64_t) columns * (is_whole ? accel_comm_size (layer->comm) : 1);
        tensors[i].data = i ? (void *) to : (void *) (uintptr_t) from;
        tensors[i].device = layer->device;
        if (!layer->device.device_type)
            tensors[i].device.device_type = kDLCPU;
        tensors[i].ndim = 2;
        tensors[i].dtype.code = kDLFloat;
        tensors[i].dtype.bits = 32;
        tensors[i].dtype.lanes = 1;
        tensors[i].shape = shapes[i];
        tensors[i].strides = NULL;
        tensors[i].byte_offset = 0;
    }
    return joins ? accel_parallel_gather_at (file, line, layer->comm, &tensors[0], &tensors[1], 1, err)
                 : accel_parallel_scatter (layer->comm, &tensors[0], &tensors[1], 1, err);
}
/** @} */

/**
 * The forward pass.  Collective over the layer's `comm`, unless it is column-parallel without gather_output.
 *
 * @param x       [rows, in], or whole
 * @param[out] y  [rows, out], or whole; other memory than @p x
 */
#define accel_parallel_linear(...) accel_parallel_linear_at (ACCEL_HERE, __VA_ARGS__)
static inline enum accel_status
accel_parallel_linear_at (const char *file, int line, const struct accel_parallel_linear *layer, const float *x,
                          float *y, size_t rows, struct accel_error *err)
{
    const bool is_row = layer->kind == ACCEL_ROW_PARALLEL;
    const bool gathers = layer->comm && !is_row && layer->gather_output;
    float *part = gathers ? layer->room : y;
    enum accel_status status = ACCEL_OK;
    if (gathers && !part && rows) /* an error, before the product writes there */
        return accel_parallel_move (file, line, layer, part, y, rows, layer->out, true, err);
    if (layer->comm && is_row && !layer->input_is_parallel) {
        status = accel_parallel_move (file, line, layer, x, layer->room, rows, layer->in, false, err);
        x = layer->room;
    }
    if (!status)
        status = accel_parallel_product (layer, false, layer->transposed, rows, layer->out, layer->in, x, layer->weight,
                                         0, part, err);
    if (!status && layer->comm && is_row)
        status = accel_comm_all_reduce_at (file, line, layer->comm, y, y, rows * layer->out, ACCEL_FLOAT32, ACCEL_SUM,
                                           err);
    if (!status && gathers)
        status = accel_parallel_move (file, line, layer, part, y, rows, layer->out, true, err);
    return status;
}

/**
 * The backward pass: write the gradient of x, and add that of the weight.  In a column-parallel layer, the former is
 * added up over all processes while each computes the latter.  Collective over the layer's `comm`, unless it is
 * row-parallel with input_is_parallel.
 *
 * @param x        what the forward pass was given
 * @param dy       the gradient of its y, the same on all where y is
 * @param[out] dx  as large as @p x, in other memory than @p x and @p dy; NULL: not needed, on no process
 */
#define accel_parallel_linear_backward(...) accel_parallel_linear_backward_at (ACCEL_HERE, __VA_ARGS__)
static inline enum accel_status
accel_parallel_linear_backward_at (const char *file, int line, const struct accel_parallel_linear *layer,
                                   const float *x, const float *dy, float *dx, size_t rows, struct accel_error *err)
{
    const bool is_row = layer->kind == ACCEL_ROW_PARALLEL;
    const bool scatters = layer->comm && is_row && !layer->input_is_parallel;
    const size_t in = layer->in, out = layer->out;
    float *part = dx;
    struct accel_work *work = NULL;
    enum accel_status status = ACCEL_OK;
    if (scatters) {
        status = accel_parallel_move (file, line, layer, x, layer->room, rows, in, false, err);
        x = layer->room;
    } else if (layer->comm && !is_row && layer->gather_output) {
        status = accel_parallel_move (file, line, layer, dy, layer->room, rows, out, false, err);
        dy = layer->room;
    }
    if (!status && scatters && dx)
        part = layer->room + rows * in;
    if (!status && dx)
        status = accel_parallel_product (layer, false, !layer->transposed, rows, in, out, dy, layer->weight, 0, part,
                                         err);
    if (!status && dx && layer->comm && !is_row)
        status = accel_comm_all_reduce_start_at (file, line, &work, layer->comm, dx, dx, rows * in, ACCEL_FLOAT32,
                                                 ACCEL_SUM, err);
    if (!status && layer->grad)
        status = accel_parallel_product (layer, true, false, layer->transposed ? out : in, layer->transposed ? in : out,
                                         rows, layer->transposed ? dy : x, layer->transposed ? x : dy, 1, layer->grad,
                                         err);
    if (work) {
        enum accel_status waited = accel_work_wait (work, status ? NULL : err);
        status = status ? status : waited;
    }
    if (!status && dx && scatters)
        status = accel_parallel_move (file, line, layer, part, dx, rows, in, true, err);
    return status;
}

ACCEL_END_DECLS

#endif
