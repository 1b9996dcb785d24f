/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a transformer; see layers.h.  Each element is computed by one thread: with the same number of them,
 * runs can be repeated bit by bit.  (With another number, BLAS has other blocks, and rounds differently.) */
#include "layers.h"
#include "matmul.h"

#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 64 /* rows of attention that are in memory at a time */, COLUMNS = 64 /* summed at a time */ };

static const float EPSILON = 1e-5f; /* of layer_norm */

/* Loops over elements are compiled for several instruction sets; the program chooses when it starts. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __SANITIZE_THREAD__
#define VECTORIZED __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

static inline long
min (long a, long b)
{
    return a < b ? a : b;
}

/* exp (x) to 2 units in the last place, in a form that compilers vectorize; below -87 as at -87, above 88 as at 88; NaN
 * stays NaN. */
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

VECTORIZED void
add (float *to, const float *x, const float *y, long count)
{
#pragma omp for
    for (long i = 0; i < count; i++)
        to[i] = x[i] + y[i];
}

/* sums [width] += the rows of x */
static VECTORIZED void
add_rows (float *sums, const float *x, long rows, long width)
{
#pragma omp for
    for (long begin = 0; begin < width; begin += COLUMNS)
        for (long i = 0, end = min (begin + COLUMNS, width); i < rows; i++)
            for (long j = begin; j < end; j++)
                sums[j] += x[i * width + j];
}

/* ---- linear ---- */

static float *
values_of (const struct accel_tensor *tensor)
{
    return tensor->dl.data;
}

static struct matrix
weights_of (const struct gpt_tensor *w)
{
    return weights (w->data.dl.data, w->data.dl.shape[0], w->data.dl.shape[1]);
}

void
linear (float *y, const float *x, const struct gpt_tensor *w, long rows)
{
    struct matrix weight = weights_of (w);
#pragma omp for
    for (long i = 0; i < rows; i++)
        memcpy (y + i * weight.columns, values_of (&w[1].data), (size_t) weight.columns * sizeof *y);
    matmul (y, matrix (x, rows, weight.rows, weight.rows), weight, 1);
}

void
linear_backward (float *dx, const float *dy, const float *x, const struct gpt_tensor *w, long rows)
{
    struct matrix weight = weights_of (w), grad = factor (dy, rows, weight.columns);
    matmul (dx, grad, transposed (weight), 0);
    matmul (values_of (&w[0].grad), transposed (matrix (x, rows, weight.rows, weight.rows)), grad, 1);
    add_rows (values_of (&w[1].grad), dy, rows, weight.columns);
}

/* ---- layer norm ---- */

/* @return 1 / the deviation of x */
static inline float
measure (const float *x, long width, float *mean)
{
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < width; j++)
        sum += x[j];
    *mean = sum / (float) width;
#pragma omp simd reduction(+ : squares)
    for (long j = 0; j < width; j++)
        squares += (x[j] - *mean) * (x[j] - *mean);
    return 1 / sqrtf (squares / (float) width + EPSILON);
}

VECTORIZED void
layer_norm (float *y, const float *x, const struct gpt_tensor *w, const struct shape *shape)
{
    const float *weight = values_of (&w[0].data), *bias = values_of (&w[1].data);
#pragma omp for
    for (long at = 0; at < shape->rows * shape->width; at += shape->width) {
        float mean, inverse = measure (x + at, shape->width, &mean);
        for (long j = 0; j < shape->width; j++)
            y[at + j] = (x[at + j] - mean) * inverse * weight[j] + bias[j];
    }
}

/* work: each row's share of the weight's gradient */
VECTORIZED void
layer_norm_backward (float *dx, float *work, const float *dy, const float *x, const struct gpt_tensor *w,
                     const struct shape *shape)
{
    const float *weight = values_of (&w[0].data);
    long width = shape->width;
#pragma omp for
    for (long at = 0; at < shape->rows * width; at += width) {
        float sum = 0, product = 0, mean, inverse = measure (x + at, width, &mean);
#pragma omp simd reduction(+ : sum, product)
        for (long j = 0; j < width; j++) {
            work[at + j] = dy[at + j] * (x[at + j] - mean) * inverse;
            sum += dy[at + j] * weight[j];
            product += work[at + j] * weight[j];
        }
        sum /= (float) width;
        product /= (float) width;
        for (long j = 0; j < width; j++)
            dx[at + j] += (dy[at + j] * weight[j] - sum - (x[at + j] - mean) * inverse * product) * inverse;
    }
    add_rows (values_of (&w[0].grad), work, shape->rows, width);
    add_rows (values_of (&w[1].grad), dy, shape->rows, width);
}

/* ---- GELU: x / 2 (1 + tanh u) with u = sqrt (2 / pi) (x + 0.044715 x^3), which is x / (1 + exp (-2 u)) ---- */

static const float ROOT = 0.7978845608f, CUBIC = 0.044715f;

VECTORIZED void
gelu (float *y, const float *x, long count)
{
#pragma omp for
    for (long i = 0; i < count; i++)
        y[i] = x[i] / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i])));
}

VECTORIZED void
gelu_backward (float *dy, const float *x, long count)
{
#pragma omp for
    for (long i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float share = 1 / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * square)));
        dy[i] *= share + x[i] * share * (1 - share) * 2 * ROOT * (1 + 3 * CUBIC * square);
    }
}

/* ---- softmax and attention ---- */

/* In place, times @p scale, of the first @p seen numbers; the others become 0.  @return the logarithm of the sum of
 * exponentials */
static VECTORIZED float
softmax (float *row, long seen, long count, float scale)
{
    float most = row[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (long j = 1; j < seen; j++)
        most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < seen; j++)
        sum += row[j] = fast_exp (row[j] - most);
    for (long j = 0; j < seen; j++)
        row[j] *= scale / sum;
    memset (row + seen, 0, (size_t) (count - seen) * sizeof *row);
    return most + logf (sum);
}

/* With P = softmax (S): dS = P (dP - sum (P dP)).  Scores become P, the gradients of P those of scores. */
static VECTORIZED void
softmax_backward (float *row, float *grad, long seen, long count, float norm)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < seen; j++) {
        row[j] = fast_exp (row[j] - norm);
        sum += row[j] * grad[j];
    }
    for (long j = 0; j < seen; j++)
        grad[j] = row[j] * (grad[j] - sum);
    memset (row + seen, 0, (size_t) (count - seen) * sizeof *row);
    memset (grad + seen, 0, (size_t) (count - seen) * sizeof *grad);
}

/* Some queries of one head of one sequence, and the keys and values that they see: those up to their own. */
struct view {
    struct matrix queries, keys, values;
    float scale;
    long column, row; /* where the head and the sequence begin in [batch * length, width] */
};

static struct view
view_of (const float *qkv, const struct shape *shape, long head, long before)
{
    long stride = 3 * shape->width, size = shape->width / shape->heads, row = head / shape->heads * shape->length;
    long column = head % shape->heads * size, rows = min (QUERIES, shape->length - before), keys = before + rows;
    const float *from = qkv + row * stride + column;
    return (struct view){ matrix (from + before * stride, rows, size, stride),
                          matrix (from + shape->width, keys, size, stride),
                          matrix (from + 2 * shape->width, keys, size, stride), 1 / sqrtf ((float) size),
                          column, row };
}

/* @return memory for a thread: two blocks of scores */
static float *
allocate_scores (const struct shape *shape)
{
    float *scores = malloc (2 * QUERIES * (size_t) shape->length * sizeof *scores);
    return scores ? scores : (errx (EXIT_FAILURE, "out of memory"), NULL);
}

void
attention (float *y, float *norms, const float *qkv, const struct shape *shape)
{
    long length = shape->length, first = shape->first;
    float *scores = allocate_scores (shape);
#pragma omp for
    for (long head = 0; head < shape->batch * shape->heads; head++)
        for (long before = first; before < length; before += QUERIES) {
            struct view v = view_of (qkv, shape, head, before);
            long rows = v.queries.rows, keys = v.keys.rows, row = head / shape->heads * (length - first);
            multiply (scores, keys, v.scale, v.queries, transposed (v.keys), 0);
            for (long i = 0; i < rows; i++)
                norms[head * length + before + i] = softmax (scores + i * keys, before + i + 1, keys, 1);
            multiply (y + (row + before - first) * shape->width + v.column, shape->width, 1,
                      matrix (scores, rows, keys, keys), v.values, 0);
        }
    free (scores);
}

/* The last rows, which see all keys, come first, and begin the gradients of keys and values. */
void
attention_backward (float *dqkv, const float *dy, const float *qkv, const float *norms, const struct shape *shape)
{
    long length = shape->length, width = shape->width, stride = 3 * width, last = (length - 1) / QUERIES * QUERIES;
    float *scores = allocate_scores (shape), *grads = scores + QUERIES * length;
#pragma omp for
    for (long head = 0; head < shape->batch * shape->heads; head++)
        for (long before = last; before >= 0; before -= QUERIES) {
            struct view v = view_of (qkv, shape, head, before);
            long rows = v.queries.rows, keys = v.keys.rows;
            struct matrix from = matrix (dy + (v.row + before) * width + v.column, rows, v.values.columns, width);
            struct matrix p = matrix (scores, rows, keys, keys), ds = matrix (grads, rows, keys, keys);
            float *to = dqkv + v.row * stride + v.column, beta = before == last ? 0 : 1;
            multiply (scores, keys, v.scale, v.queries, transposed (v.keys), 0);
            multiply (grads, keys, 1, from, transposed (v.values), 0);
            for (long i = 0; i < rows; i++)
                softmax_backward (scores + i * keys, grads + i * keys, before + i + 1, keys,
                                  norms[head * length + before + i]);
            multiply (to + before * stride, stride, v.scale, ds, v.keys, 0);
            multiply (to + width, stride, v.scale, transposed (ds), v.queries, beta);
            multiply (to + 2 * width, stride, 1, transposed (p), from, beta);
        }
    free (scores);
}

/* ---- the two ends ---- */

void
embed (float *x, const struct gpt_tensor *w, const int32_t *tokens, const struct shape *shape)
{
    long width = shape->width, length = shape->length - shape->first;
#pragma omp for
    for (long i = 0; i < shape->rows; i++)
        for (long j = 0; j < width; j++)
            x[i * width + j] = weight_at (w[0].data.dl.data, tokens[i] * width + j)
                               + weight_at (w[1].data.dl.data, (shape->first + i % length) * width + j);
}

VECTORIZED void
embed_backward (const float *dx, const struct gpt_tensor *w, const int32_t *tokens, const struct shape *shape)
{
    float *dwte = values_of (&w[0].grad), *dwpe = values_of (&w[1].grad);
    long width = shape->width;
#pragma omp for
    for (long begin = 0; begin < width; begin += COLUMNS)
        for (long i = 0, end = min (begin + COLUMNS, width); i < shape->rows; i++)
            for (long j = begin; j < end; j++) {
                dwte[tokens[i] * width + j] += dx[i * width + j];
                dwpe[i % shape->length * width + j] += dx[i * width + j];
            }
}

void
logits_of (float *logits, const float *x, const struct gpt_tensor *wte, long rows)
{
    struct matrix weight = weights_of (wte);
    matmul (logits, matrix (x, rows, weight.columns, weight.columns), transposed (weight), 0);
}

void
cross_entropy (float *losses, float *dx, float *logits, const float *x, const struct gpt_tensor *wte,
               const int32_t *labels, long rows, float scale)
{
    struct matrix weight = weights_of (wte);
    long vocab = weight.rows, width = weight.columns;
    for (long first = 0; first < rows; first += LOGIT_ROWS) {
        long count = min (LOGIT_ROWS, rows - first);
        logits_of (logits, x + first * width, wte, count);
#pragma omp for
        for (long i = 0; i < count; i++) {
            float *row = logits + i * vocab, wanted = row[labels[first + i]];
            losses[first + i] = softmax (row, vocab, vocab, scale / (float) rows) - wanted;
            row[labels[first + i]] -= scale / (float) rows;
        }
        if (!dx)
            continue;
        struct matrix grad = factor (logits, count, vocab);
        matmul (dx + first * width, grad, weight, 0);
        matmul (values_of (&wte->grad), transposed (grad), matrix (x + first * width, count, width, width), 1);
    }
}
