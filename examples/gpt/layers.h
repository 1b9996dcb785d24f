/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a transformer, forward and backward, in float32, but for matrices of weights (matmul.h).  A row is a
 * token.  Backward functions add to the gradients of parameters, and write those of their inputs. */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/** y [rows, out] = x [rows, in] weight [in, out] + bias */
void linear (float *y, const float *x, const void *weight, const float *bias, int rows, int in, int out);
void linear_backward (float *dx, float *dweight, float *dbias, const float *dy, const float *x, const void *weight,
                      int rows, int in, int out);

/** The backward function adds to @p dx. */
void layer_norm (float *y, const float *x, const float *weight, const float *bias, int rows, int width);
void layer_norm_backward (float *dx, float *dweight, float *dbias, const float *dy, const float *x,
                          const float *weight, int rows, int width);

/** GPT-2's: with tanh.  On the way back, @p dy becomes the gradient of @p x. */
void gelu (float *y, const float *x, size_t count);
void gelu_backward (float *dy, const float *x, size_t count);

struct attention {
    int batch, length, heads, width; /* a head has width / heads columns */
};

/**
 * Causal self-attention.  No matrix of length x length is kept: rows are treated in blocks, and the backward pass
 * computes them again from @p norms.
 *
 * @param y      [batch * length, width]
 * @param norms  [batch, heads, length]: the logarithm of each row's sum of exponentials
 * @param qkv    [batch * length, 3 * width]: queries, keys, values
 */
void attention (float *y, float *norms, const float *qkv, const struct attention *shape);
void attention_backward (float *dqkv, const float *dy, const float *qkv, const float *norms,
                         const struct attention *shape);

/** Attention of one new token.  @param keys, values  [count, width]: those of all tokens so far, the new one last */
void attention_step (float *y, const float *query, const float *keys, const float *values, int count, int heads,
                     int width);

/** logits [rows, vocab] = x wte^T */
void logits_of (float *logits, const float *x, const void *wte, int rows, int width, int vocab);

/** @return the mean of -log softmax (logits) [label].  Only a few rows of logits are in memory at a time, so gradients,
 * times @p scale, are computed at once.  @param dx  NULL: only the loss */
float cross_entropy (float *dx, float *dwte, const float *x, const void *wte, const int32_t *labels, int rows,
                     int width, int vocab, float scale);

/** x [rows, width] = wte [tokens] + wpe [first .. first + length - 1] */
void embed (float *x, const void *wte, const void *wpe, const int32_t *tokens, int rows, int first, int length,
            int width);
void embed_backward (float *dwte, float *dwpe, const float *dx, const int32_t *tokens, int rows, int length, int width);

/** exp (x) to 2 units in the last place, in a form that compilers vectorize; below -87 as at -87, above 88 as at
 * 88; NaN stays NaN. */
static inline float
fast_exp (float x)
{
    union {
        float number;
        uint32_t bits; /* unsigned, because those of NaN overflow */
    } power;
    x = x < -87 ? -87 : x > 88 ? 88 : x;
    float whole = x * 1.44269504f + 12582912.0f; /* rounds, and leaves the integer in the low bits */
    power.number = whole;
    uint32_t exponent = power.bits - 0x4b400000;
    whole -= 12582912.0f;
    float rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float value = 1.9875691500e-4f;
    value = value * rest + 1.3981999507e-3f;
    value = value * rest + 8.3334519073e-3f;
    value = value * rest + 4.1665795894e-2f;
    value = value * rest + 1.6666665459e-1f;
    value = value * rest + 5.0000001201e-1f;
    value = value * rest * rest + rest + 1;
    power.bits = (exponent + 127) << 23;
    return value * power.number;
}

#endif
