/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a transformer; see layers.h.  Each element is computed by one thread: with the same number of them,
 * runs can be repeated bit by bit.  (With another number, BLAS has other blocks, and rounds differently.) */
#include "layers.h"
#include "matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 64, /* rows of attention that are in memory at a time */
       LOGIT_ROWS = 256,
       COLUMNS = 64, /* of a thread at a time, where rows are summed */
       CHUNK = 4096 };

static const float EPSILON = 1e-5f; /* of layer_norm */

/* Loops over elements are compiled for several instruction sets; the program chooses when it starts. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __SANITIZE_THREAD__
#define VECTORIZED __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

static int
min (int a, int b)
{
    return a < b ? a : b;
}

void
linear (float *y, const float *x, const void *weight, const float *bias, int rows, int in, int out)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++)
        memcpy (y + (size_t) i * (size_t) out, bias, (size_t) out * sizeof *y);
    matmul (y, rows, out, in, plain (x, in), weights (weight, out), 1);
}

static VECTORIZED void
add_columns (float *sums, const float *x, int rows, int width, int columns)
{
    for (int i = 0; i < rows; i++, x += width)
        for (int j = 0; j < columns; j++)
            sums[j] += x[j];
}

/* sums [width] += the rows of x */
static void
add_rows (float *sums, const float *x, int rows, int width)
{
#pragma omp parallel for
    for (int begin = 0; begin < width; begin += COLUMNS)
        add_columns (sums + begin, x + begin, rows, width, min (COLUMNS, width - begin));
}

void
linear_backward (float *dx, float *dweight, float *dbias, const float *dy, const float *x, const void *weight, int rows,
                 int in, int out)
{
    struct matrix grad = factor (dy, rows, out);
    matmul (dx, rows, in, out, grad, transposed (weights (weight, out)), 0);
    matmul (dweight, in, out, rows, transposed (plain (x, in)), grad, 1);
    add_rows (dbias, dy, rows, out);
}

/* ---- layer norm ---- */

static inline float
measure (const float *x, int width, float *mean)
{
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < width; j++)
        sum += x[j];
    *mean = sum / (float) width;
#pragma omp simd reduction(+ : squares)
    for (int j = 0; j < width; j++)
        squares += (x[j] - *mean) * (x[j] - *mean);
    return 1 / sqrtf (squares / (float) width + EPSILON);
}

static VECTORIZED void
normalize (float *y, const float *x, const float *weight, const float *bias, int width)
{
    float mean, inverse = measure (x, width, &mean);
    for (int j = 0; j < width; j++)
        y[j] = (x[j] - mean) * inverse * weight[j] + bias[j];
}

void
layer_norm (float *y, const float *x, const float *weight, const float *bias, int rows, int width)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++)
        normalize (y + (size_t) i * (size_t) width, x + (size_t) i * (size_t) width, weight, bias, width);
}

/* @param[out] dweight  the row's share */
static VECTORIZED void
normalize_backward (float *dx, float *dweight, const float *dy, const float *x, const float *weight, int width)
{
    float sum = 0, product = 0, mean, inverse = measure (x, width, &mean);
#pragma omp simd reduction(+ : sum, product)
    for (int j = 0; j < width; j++) {
        dweight[j] = dy[j] * (x[j] - mean) * inverse;
        sum += dy[j] * weight[j];
        product += dweight[j] * weight[j];
    }
    sum /= (float) width;
    product /= (float) width;
    for (int j = 0; j < width; j++)
        dx[j] += (dy[j] * weight[j] - sum - (x[j] - mean) * inverse * product) * inverse;
}

void
layer_norm_backward (float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                     int rows, int width)
{
    float *shares = scratch (SCRATCH_ROWS, (size_t) rows * (size_t) width * sizeof *shares);
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        size_t at = (size_t) i * (size_t) width;
        normalize_backward (dx + at, shares + at, dy + at, x + at, weight, width);
    }
    add_rows (dweight, shares, rows, width);
    add_rows (dbias, dy, rows, width);
}

/* ---- GELU: x / 2 (1 + tanh u) with u = sqrt (2 / pi) (x + 0.044715 x^3), which is x / (1 + exp (-2 u)) ---- */

static const float ROOT = 0.7978845608f, CUBIC = 0.044715f;

static VECTORIZED void
activate (float *y, const float *x, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = x[i] / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i])));
}

static VECTORIZED void
activate_backward (float *dy, const float *x, int count)
{
    for (int i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float share = 1 / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * square)));
        dy[i] *= share + x[i] * share * (1 - share) * 2 * ROOT * (1 + 3 * CUBIC * square);
    }
}

void
gelu (float *y, const float *x, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i += CHUNK)
        activate (y + i, x + i, count - i < CHUNK ? (int) (count - i) : CHUNK);
}

void
gelu_backward (float *dy, const float *x, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i += CHUNK)
        activate_backward (dy + i, x + i, count - i < CHUNK ? (int) (count - i) : CHUNK);
}

/* ---- softmax and attention ---- */

/* In place, times @p scale.  @return the logarithm of the sum of exponentials */
static VECTORIZED float
softmax (float *row, int count, float scale)
{
    float most = row[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int j = 1; j < count; j++)
        most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < count; j++)
        sum += row[j] = fast_exp (row[j] - most);
    for (int j = 0; j < count; j++)
        row[j] *= scale / sum;
    return most + logf (sum);
}

/* With P = softmax (S): dS = P (dP - sum (P dP)).  Scores become P, the gradients of P those of scores. */
static VECTORIZED void
softmax_backward (float *row, float *grad, int count, float norm)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < count; j++) {
        row[j] = fast_exp (row[j] - norm);
        sum += row[j] * grad[j];
    }
    for (int j = 0; j < count; j++)
        grad[j] = row[j] * (grad[j] - sum);
}

/* One head of one sequence. */
struct head {
    const float *queries;
    struct matrix keys, values;
    int size;
    float scale;
    size_t at; /* where its columns are in [batch * length, width] */
};

static struct head
head_of (const float *qkv, const struct attention *shape, int number)
{
    int sequence = number / shape->heads, width = shape->width, size = width / shape->heads;
    size_t row = (size_t) sequence * (size_t) shape->length, column = (size_t) (number % shape->heads * size);
    const float *queries = qkv + row * 3 * (size_t) width + column;
    return (struct head){ queries, plain (queries + width, 3 * width), plain (queries + 2 * width, 3 * width), size,
                          1 / sqrtf ((float) size), row * (size_t) width + column };
}

/* Some rows, which see the keys up to their own; the first one sees @p before others.  @param scores  for work */
static void
attend (float *y, int stride, float *norms, const struct head *head, struct matrix queries, int before, int rows,
        float *scores)
{
    int keys = before + rows;
    multiply (scores, keys, rows, keys, head->size, head->scale, queries, transposed (head->keys), 0);
    for (int i = 0; i < rows; i++) {
        float *row = scores + (size_t) i * (size_t) keys;
        norms[i] = softmax (row, before + i + 1, 1);
        memset (row + before + i + 1, 0, (size_t) (rows - i - 1) * sizeof *row);
    }
    multiply (y, stride, rows, head->size, keys, 1, plain (scores, keys), head->values, 0);
}

void
attention (float *y, float *norms, const float *qkv, const struct attention *shape)
{
#pragma omp parallel for
    for (int i = 0; i < shape->batch * shape->heads; i++) {
        float *scores = allocate ((size_t) QUERIES * (size_t) shape->length * sizeof *scores);
        struct head head = head_of (qkv, shape, i);
        for (int first = 0; first < shape->length; first += QUERIES)
            attend (y + head.at + (size_t) first * (size_t) shape->width, shape->width,
                    norms + (size_t) i * (size_t) shape->length + first, &head,
                    plain (head.queries + (size_t) first * 3 * (size_t) shape->width, 3 * shape->width), first,
                    min (QUERIES, shape->length - first), scores);
        free (scores);
    }
}

void
attention_step (float *y, const float *query, const float *keys, const float *values, int count, int heads, int width)
{
    float norm, *scores = allocate ((size_t) count * sizeof *scores);
    for (int size = width / heads, at = 0; at < width; at += size) {
        struct head head = { .keys = plain (keys + at, width), .values = plain (values + at, width), .size = size,
                             .scale = 1 / sqrtf ((float) size) };
        attend (y + at, width, &norm, &head, plain (query + at, width), count - 1, 1, scores);
    }
    free (scores);
}

/* The same rows; @p dqkv is where the head's queries begin.  The last rows, which see all keys, come first. */
static void
attend_backward (float *dqkv, const float *dy, const float *norms, const struct head *head, int before, int rows,
                 bool is_last, int width, float *scores)
{
    int keys = before + rows, stride = 3 * width;
    float *grads = scores + (size_t) rows * (size_t) keys, beta = is_last ? 0 : 1;
    size_t block = (size_t) before * (size_t) stride;
    struct matrix queries = plain (head->queries + block, stride), from = plain (dy, width);
    multiply (scores, keys, rows, keys, head->size, head->scale, queries, transposed (head->keys), 0);
    multiply (grads, keys, rows, keys, head->size, 1, from, transposed (head->values), 0);
    for (int i = 0; i < rows; i++) {
        size_t row = (size_t) i * (size_t) keys, end = row + (size_t) (before + i + 1);
        softmax_backward (scores + row, grads + row, before + i + 1, norms[i]);
        memset (scores + end, 0, (size_t) (rows - i - 1) * sizeof *scores);
        memset (grads + end, 0, (size_t) (rows - i - 1) * sizeof *grads);
    }
    multiply (dqkv + block, stride, rows, head->size, keys, head->scale,
              plain (grads, keys), head->keys, 0);
    multiply (dqkv + width, stride, keys, head->size, rows, head->scale, transposed (plain (grads, keys)), queries,
              beta);
    multiply (dqkv + 2 * width, stride, keys, head->size, rows, 1, transposed (plain (scores, keys)), from, beta);
}

void
attention_backward (float *dqkv, const float *dy, const float *qkv, const float *norms, const struct attention *shape)
{
    int length = shape->length, last = (length - 1) / QUERIES * QUERIES;
#pragma omp parallel for
    for (int i = 0; i < shape->batch * shape->heads; i++) {
        float *scores = allocate (2 * (size_t) QUERIES * (size_t) length * sizeof *scores);
        struct head head = head_of (qkv, shape, i);
        for (int first = last; first >= 0; first -= QUERIES)
            attend_backward (dqkv + (head.queries - qkv), dy + head.at + (size_t) first * (size_t) shape->width,
                             norms + (size_t) i * (size_t) length + first, &head, first,
                             min (QUERIES, length - first), first == last, shape->width, scores);
        free (scores);
    }
}

/* ---- the two ends ---- */

void
embed (float *x, const void *wte, const void *wpe, const int32_t *tokens, int rows, int first, int length, int width)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++)
        for (size_t j = 0, end = (size_t) width; j < end; j++)
            x[(size_t) i * end + j] = weight_at (wte, (size_t) tokens[i] * end + j)
                                      + weight_at (wpe, (size_t) (first + i % length) * end + j);
}

void
embed_backward (float *dwte, float *dwpe, const float *dx, const int32_t *tokens, int rows, int length, int width)
{
#pragma omp parallel for
    for (int begin = 0; begin < width; begin += COLUMNS)
        for (int i = 0; i < rows; i++) {
            const float *from = dx + (size_t) i * (size_t) width + begin;
            int columns = min (COLUMNS, width - begin);
            add_columns (dwte + (size_t) tokens[i] * (size_t) width + begin, from, 1, width, columns);
            add_columns (dwpe + (size_t) (i % length) * (size_t) width + begin, from, 1, width, columns);
        }
}

float
cross_entropy (float *dx, float *dwte, const float *x, const void *wte, const int32_t *labels, int rows, int width,
               int vocab, float scale)
{
    int block = min (LOGIT_ROWS, rows);
    float *logits = scratch (SCRATCH_LOGITS, (size_t) block * (size_t) vocab * sizeof *logits);
    double loss = 0;
    for (int first = 0; first < rows; first += block) {
        int count = min (block, rows - first);
        float losses[LOGIT_ROWS];
        const float *from = x + (size_t) first * (size_t) width;
        logits_of (logits, from, wte, count, width, vocab);
#pragma omp parallel for
        for (int i = 0; i < count; i++) {
            float *row = logits + (size_t) i * (size_t) vocab, wanted = row[labels[first + i]];
            losses[i] = softmax (row, vocab, scale / (float) rows) - wanted;
            row[labels[first + i]] -= scale / (float) rows;
        }
        for (int i = 0; i < count; i++)
            loss += (double) losses[i];
        if (!dx)
            continue;
        struct matrix grad = factor (logits, count, vocab);
        matmul (dx + (size_t) first * (size_t) width, count, width, vocab, grad, weights (wte, width), 0);
        matmul (dwte, vocab, width, count, transposed (grad), plain (from, width), 1);
    }
    return (float) (loss / rows);
}

void
logits_of (float *logits, const float *x, const void *wte, int rows, int width, int vocab)
{
    matmul (logits, rows, vocab, width, plain (x, width), transposed (weights (wte, width)), 0);
}
