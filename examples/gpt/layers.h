/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a transformer, forward and backward, in float32, but for matrices of weights (matmul.h).  A row is a
 * token.  Backward functions add to the gradients of parameters, and write those of their inputs.  All threads of a
 * team call a function together, and share its work. */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include "gpt.h"

/** Of a pass: sequences, their tokens, heads of attention, and columns of a row. */
struct shape {
    long batch, length, heads, width;
    long first, rows; /* only tokens from this one on are computed (backward: 0); batch * (length - first) */
};

/** y [rows, out] = x [rows, in] weight [in, out] + bias.  @param w  the weight, then the bias */
void linear (float *y, const float *x, const struct gpt_tensor *w, long rows);
void linear_backward (float *dx, const float *dy, const float *x, const struct gpt_tensor *w, long rows);

/** The backward function adds to @p dx.  @param work  [rows, width]  @param w  the weight, then the bias */
void layer_norm (float *y, const float *x, const struct gpt_tensor *w, const struct shape *shape);
void layer_norm_backward (float *dx, float *work, const float *dy, const float *x, const struct gpt_tensor *w,
                          const struct shape *shape);

/** GPT-2's: with tanh.  On the way back, @p dy becomes the gradient of @p x. */
void gelu (float *y, const float *x, long count);
void gelu_backward (float *dy, const float *x, long count);

/** to = x + y */
void add (float *to, const float *x, const float *y, long count);

/**
 * Causal self-attention.  No matrix of length x length is kept: rows are treated in blocks, and the backward pass
 * computes them again from @p norms.
 *
 * @param y      [rows, width]
 * @param norms  [batch, heads, length]: the logarithm of each row's sum of exponentials
 * @param qkv    [batch * length, 3 * width]: queries, keys, values
 */
void attention (float *y, float *norms, const float *qkv, const struct shape *shape);
void attention_backward (float *dqkv, const float *dy, const float *qkv, const float *norms, const struct shape *shape);

/** logits [rows, vocab] = x wte^T */
void logits_of (float *logits, const float *x, const struct gpt_tensor *wte, long rows);

enum { LOGIT_ROWS = 256 /* that are in memory at a time, so gradients, times @p scale, are computed at once */ };

/** @param[out] losses  [rows]: -log softmax (x wte^T) [label]  @param dx  NULL: only the losses
 *  @param logits  [LOGIT_ROWS, vocab], for work */
void cross_entropy (float *losses, float *dx, float *logits, const float *x, const struct gpt_tensor *wte,
                    const int32_t *labels, long rows, float scale);

/** x [rows, width] = wte [token] + wpe [place].  @param w  both */
void embed (float *x, const struct gpt_tensor *w, const int32_t *tokens, const struct shape *shape);
void embed_backward (const float *dx, const struct gpt_tensor *w, const int32_t *tokens, const struct shape *shape);

#endif
