/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a transformer; see layers.h.  Each element is computed by one thread: with the same number of them,
 * runs can be repeated bit by bit.  (With another number, BLAS has other blocks, and rounds differently.) */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef WITH_BLAS
#include <cblas.h>
#endif

enum { QUERIES = 64, /* rows of attention that are in memory at a time */
       LOGIT_ROWS = 256 };

static const float EPSILON = 1e-5f; /* of layer_norm */

static int
min (int a, int b)
{
    return a < b ? a : b;
}

static void *
allocate (size_t bytes)
{
    void *memory = malloc (bytes ? bytes : 1);
    if (!memory) {
        fputs ("gpt: out of memory\n", stderr);
        exit (EXIT_FAILURE);
    }
    return memory;
}

/* ---- products of matrices ---- */

static struct matrix
plain (const float *at, int stride)
{
    return (struct matrix){ .at = at, .stride = stride };
}

static struct matrix
transposed (const float *at, int stride)
{
    return (struct matrix){ .at = at, .stride = stride, .transposed = true };
}

/* The same matrix without its first rows, or columns. */
static struct matrix
from_row (struct matrix m, int row)
{
    m.at += (size_t) row * (m.transposed ? 1 : (size_t) m.stride);
    return m;
}

static struct matrix
from_column (struct matrix m, int column)
{
    m.at += (size_t) column * (m.transposed ? (size_t) m.stride : 1);
    return m;
}

/* c = scale a b + beta c, by the calling thread. */
static void
multiply (float *c, int stride, int rows, int columns, int depth, float scale, struct matrix a, struct matrix b,
          float beta)
{
#ifdef WITH_BLAS
    cblas_sgemm (CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                 rows, columns, depth, scale, a.at, a.stride, b.at, b.stride, beta, c, stride);
#else
    for (int i = 0; i < rows; i++) {
        float *to = c + (size_t) i * (size_t) stride;
        for (int j = 0; j < columns; j++)
            to[j] = beta == 0 ? 0 : beta * to[j];
        for (int k = 0; k < depth; k++) {
            float factor = scale * from_column (from_row (a, i), k).at[0];
            struct matrix row = from_row (b, k);
            for (int j = 0; j < columns; j++)
                to[j] += factor * from_column (row, j).at[0];
        }
    }
#endif
}

#ifdef WITH_OPENBLAS
void openblas_set_num_threads (int count);
#endif

/* Our threads divide a product; those of BLAS would compete with them. */
static void
keep_blas_to_one_thread (void)
{
#ifdef WITH_OPENBLAS
    static bool done;
    if (!done)
        openblas_set_num_threads (1);
    done = true;
#endif
}

void
matmul (float *c, int rows, int columns, int depth, struct matrix a, struct matrix b, float beta)
{
    keep_blas_to_one_thread ();
#pragma omp parallel
    {
#ifdef _OPENMP
        int threads = omp_get_num_threads (), own = omp_get_thread_num ();
#else
        int threads = 1, own = 0;
#endif
        int whole = rows < columns ? columns : rows;
        int begin = (int) ((int64_t) whole * own / threads), end = (int) ((int64_t) whole * (own + 1) / threads);
        if (begin < end && rows < columns)
            multiply (c + begin, columns, rows, end - begin, depth, 1, a, from_column (b, begin), beta);
        else if (begin < end)
            multiply (c + (size_t) begin * (size_t) columns, columns, end - begin, columns, depth, 1,
                      from_row (a, begin), b, beta);
    }
}

void
linear (float *y, const float *x, const float *weight, const float *bias, int rows, int in, int out)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++)
        memcpy (y + (size_t) i * (size_t) out, bias, (size_t) out * sizeof *y);
    matmul (y, rows, out, in, plain (x, in), plain (weight, out), 1);
}

/* sums [width] += the rows of x; each thread has some columns. */
static void
add_rows (float *sums, const float *x, int rows, int width)
{
    enum { COLUMNS = 64 };
#pragma omp parallel for
    for (int begin = 0; begin < width; begin += COLUMNS)
        for (int i = 0; i < rows; i++) {
            const float *row = x + (size_t) i * (size_t) width;
            for (int j = begin; j < min (begin + COLUMNS, width); j++)
                sums[j] += row[j];
        }
}

void
linear_backward (float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                 int rows, int in, int out)
{
    if (dx)
        matmul (dx, rows, in, out, plain (dy, out), transposed (weight, out), 0);
    matmul (dweight, in, out, rows, transposed (x, in), plain (dy, out), 1);
    add_rows (dbias, dy, rows, out);
}

/* ---- layer norm ---- */

static void
measure_row (const float *x, int width, float *mean, float *inverse)
{
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < width; j++)
        sum += x[j];
    *mean = sum / (float) width;
#pragma omp simd reduction(+ : squares)
    for (int j = 0; j < width; j++)
        squares += (x[j] - *mean) * (x[j] - *mean);
    *inverse = 1 / sqrtf (squares / (float) width + EPSILON);
}

void
layer_norm (float *y, const float *x, const float *weight, const float *bias, int rows, int width)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        const float *from = x + (size_t) i * (size_t) width;
        float *to = y + (size_t) i * (size_t) width, mean, inverse;
        measure_row (from, width, &mean, &inverse);
        for (int j = 0; j < width; j++)
            to[j] = (from[j] - mean) * inverse * weight[j] + bias[j];
    }
}

void
layer_norm_backward (float *dx, float *dweight, float *dbias, const float *dy, const float *x,
                     const float *weight, int rows, int width)
{
    enum { COLUMNS = 64 };
    float *means = allocate (2 * (size_t) rows * sizeof *means), *inverses = means + rows;
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        const float *from = x + (size_t) i * (size_t) width, *grad = dy + (size_t) i * (size_t) width;
        float *to = dx + (size_t) i * (size_t) width, sum = 0, product = 0, mean, inverse;
        measure_row (from, width, &mean, &inverse);
        means[i] = mean;
        inverses[i] = inverse;
#pragma omp simd reduction(+ : sum, product)
        for (int j = 0; j < width; j++) {
            sum += grad[j] * weight[j];
            product += grad[j] * weight[j] * (from[j] - mean) * inverse;
        }
        sum /= (float) width;
        product /= (float) width;
        for (int j = 0; j < width; j++)
            to[j] += (grad[j] * weight[j] - sum - (from[j] - mean) * inverse * product) * inverse;
    }
#pragma omp parallel for
    for (int begin = 0; begin < width; begin += COLUMNS)
        for (int i = 0; i < rows; i++)
            for (int j = begin; j < min (begin + COLUMNS, width); j++) {
                size_t at = (size_t) i * (size_t) width + (size_t) j;
                dweight[j] += dy[at] * (x[at] - means[i]) * inverses[i];
                dbias[j] += dy[at];
            }
    free (means);
}

/* ---- GELU: x / 2 (1 + tanh u) with u = sqrt (2 / pi) (x + 0.044715 x^3), which is x / (1 + exp (-2 u)) ---- */

static const float ROOT = 0.7978845608f, CUBIC = 0.044715f;

void
gelu (float *y, const float *x, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i])));
}

void
gelu_backward (float *dy, const float *x, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float share = 1 / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * square)));
        dy[i] *= share + x[i] * share * (1 - share) * 2 * ROOT * (1 + 3 * CUBIC * square);
    }
}

/* ---- attention ---- */

/* One head of one sequence: [length, size] each, with rows `stride` apart. */
struct head {
    const float *queries, *keys, *values;
    int stride, size, length;
    float scale;
};

static struct head
head_of (const float *qkv, const struct attention *shape, int number)
{
    int sequence = number / shape->heads, head = number % shape->heads, size = shape->width / shape->heads;
    const float *at = qkv + (size_t) sequence * (size_t) shape->length * 3 * (size_t) shape->width + head * size;
    return (struct head){ .queries = at, .keys = at + shape->width, .values = at + 2 * shape->width,
                          .stride = 3 * shape->width, .size = size, .length = shape->length,
                          .scale = 1 / sqrtf ((float) size) };
}

/* scores [rows, keys] of the queries from @p first on; all keys up to the last query */
static void
score (float *scores, const struct head *head, int first, int rows, int keys)
{
    multiply (scores, keys, rows, keys, head->size, head->scale,
              from_row (plain (head->queries, head->stride), first), transposed (head->keys, head->stride), 0);
}

static void
attend (float *y, int y_stride, float *norm, const struct head *head, float *scores)
{
    for (int first = 0; first < head->length; first += QUERIES) {
        int rows = min (QUERIES, head->length - first), keys = first + rows;
        score (scores, head, first, rows, keys);
        for (int i = 0; i < rows; i++) {
            float *row = scores + (size_t) i * (size_t) keys, most = row[0], sum = 0;
            int count = first + i + 1;
#pragma omp simd reduction(max : most)
            for (int j = 1; j < count; j++)
                most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : sum)
            for (int j = 0; j < count; j++)
                sum += row[j] = fast_exp (row[j] - most);
            for (int j = 0; j < count; j++)
                row[j] /= sum;
            for (int j = count; j < keys; j++)
                row[j] = 0;
            norm[first + i] = most + logf (sum);
        }
        multiply (y + (size_t) first * (size_t) y_stride, y_stride, rows, head->size, keys, 1, plain (scores, keys),
                  plain (head->values, head->stride), 0);
    }
}

void
attention (float *y, float *norm, const float *qkv, const struct attention *shape)
{
    keep_blas_to_one_thread ();
#pragma omp parallel
    {
        float *scores = allocate ((size_t) QUERIES * (size_t) shape->length * sizeof *scores);
#pragma omp for
        for (int i = 0; i < shape->batch * shape->heads; i++) {
            struct head head = head_of (qkv, shape, i);
            attend (y + (size_t) (i / shape->heads) * (size_t) shape->length * (size_t) shape->width
                        + i % shape->heads * head.size,
                    shape->width, norm + (size_t) i * (size_t) shape->length, &head, scores);
        }
        free (scores);
    }
}

/* With P = softmax (S): dV = P^T dY, dP = dY V^T, dS = P (dP - sum (P dP)). */
static void
attend_backward (float *dqueries, float *dkeys, float *dvalues, const float *dy, int dy_stride, const float *norm,
                 const struct head *head, float *scores, float *grads)
{
    for (int first = 0; first < head->length; first += QUERIES) {
        int rows = min (QUERIES, head->length - first), keys = first + rows;
        /* Keys before `first` have gradients already, the block's own have not. */
        const float *dy_rows = dy + (size_t) first * (size_t) dy_stride;
        size_t block = (size_t) first * (size_t) head->stride;
        score (scores, head, first, rows, keys);
        multiply (grads, keys, rows, keys, head->size, 1, plain (dy_rows, dy_stride),
                  transposed (head->values, head->stride), 0);
        for (int i = 0; i < rows; i++) {
            float *row = scores + (size_t) i * (size_t) keys, *grad = grads + (size_t) i * (size_t) keys, sum = 0;
            int count = first + i + 1;
#pragma omp simd reduction(+ : sum)
            for (int j = 0; j < count; j++) {
                row[j] = fast_exp (row[j] - norm[first + i]);
                sum += row[j] * grad[j];
            }
            for (int j = 0; j < count; j++)
                grad[j] = row[j] * (grad[j] - sum);
            for (int j = count; j < keys; j++)
                row[j] = grad[j] = 0;
        }
        multiply (dqueries + block, head->stride, rows, head->size, keys, head->scale, plain (grads, keys),
                  plain (head->keys, head->stride), 0);
        if (first) {
            multiply (dkeys, head->stride, first, head->size, rows, head->scale, transposed (grads, keys),
                      plain (head->queries + block, head->stride), 1);
            multiply (dvalues, head->stride, first, head->size, rows, 1, transposed (scores, keys),
                      plain (dy_rows, dy_stride), 1);
        }
        multiply (dkeys + block, head->stride, rows, head->size, rows, head->scale, transposed (grads + first, keys),
                  plain (head->queries + block, head->stride), 0);
        multiply (dvalues + block, head->stride, rows, head->size, rows, 1, transposed (scores + first, keys),
                  plain (dy_rows, dy_stride), 0);
    }
}

void
attention_backward (float *dqkv, const float *dy, const float *qkv, const float *norm, const struct attention *shape)
{
#pragma omp parallel
    {
        size_t block = (size_t) QUERIES * (size_t) shape->length;
        float *scores = allocate (2 * block * sizeof *scores);
#pragma omp for
        for (int i = 0; i < shape->batch * shape->heads; i++) {
            struct head head = head_of (qkv, shape, i);
            float *to = dqkv + (head.queries - qkv);
            attend_backward (to, to + shape->width, to + 2 * shape->width,
                             dy + (size_t) (i / shape->heads) * (size_t) shape->length * (size_t) shape->width
                                 + i % shape->heads * head.size,
                             shape->width, norm + (size_t) i * (size_t) shape->length, &head, scores, scores + block);
        }
        free (scores);
    }
}

void
attention_step (float *y, const float *query, const float *keys, const float *values, int count, int heads, int width)
{
    int size = width / heads;
    float *scores = allocate ((size_t) count * sizeof *scores);
    for (int h = 0; h < heads; h++) {
        float most = -INFINITY, sum = 0;
        for (int j = 0; j < count; j++) {
            const float *key = keys + (size_t) j * (size_t) width + h * size;
            scores[j] = 0;
            for (int k = 0; k < size; k++)
                scores[j] += query[h * size + k] * key[k];
            scores[j] /= sqrtf ((float) size);
            most = scores[j] > most ? scores[j] : most;
        }
        memset (y + h * size, 0, (size_t) size * sizeof *y);
        for (int j = 0; j < count; j++)
            sum += scores[j] = fast_exp (scores[j] - most);
        for (int j = 0; j < count; j++)
            for (int k = 0; k < size; k++)
                y[h * size + k] += scores[j] / sum * values[(size_t) j * (size_t) width + (size_t) (h * size + k)];
    }
    free (scores);
}

/* ---- the two ends ---- */

void
embed (float *x, const float *wte, const float *wpe, const int32_t *tokens, int rows, int length, int width)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++)
            x[(size_t) i * (size_t) width + (size_t) j] = wte[(size_t) tokens[i] * (size_t) width + (size_t) j]
                                                          + wpe[(size_t) (i % length) * (size_t) width + (size_t) j];
}

void
embed_backward (float *dwte, float *dwpe, const float *dx, const int32_t *tokens, int rows, int length, int width)
{
    enum { COLUMNS = 64 };
#pragma omp parallel for
    for (int begin = 0; begin < width; begin += COLUMNS)
        for (int i = 0; i < rows; i++)
            for (int j = begin; j < min (begin + COLUMNS, width); j++) {
                float grad = dx[(size_t) i * (size_t) width + (size_t) j];
                dwte[(size_t) tokens[i] * (size_t) width + (size_t) j] += grad;
                dwpe[(size_t) (i % length) * (size_t) width + (size_t) j] += grad;
            }
}

/* Logits become gradients.  @param[out] losses  [rows] */
static void
lose (float *losses, float *logits, const int32_t *labels, int rows, int vocab, float scale)
{
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        float *row = logits + (size_t) i * (size_t) vocab, most = row[0], sum = 0, wanted = row[labels[i]];
#pragma omp simd reduction(max : most)
        for (int j = 1; j < vocab; j++)
            most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < vocab; j++)
            sum += row[j] = fast_exp (row[j] - most);
        for (int j = 0; j < vocab; j++)
            row[j] *= scale / sum;
        row[labels[i]] -= scale;
        losses[i] = most + logf (sum) - wanted;
    }
}

float
cross_entropy (float *dx, float *dwte, const float *x, const float *wte, const int32_t *labels, int rows, int width,
               int vocab, float scale)
{
    int block = min (LOGIT_ROWS, rows);
    float *logits = allocate (((size_t) block * (size_t) vocab + (size_t) block) * sizeof *logits);
    float *losses = logits + (size_t) block * (size_t) vocab;
    double loss = 0;
    for (int first = 0; first < rows; first += block) {
        int count = min (block, rows - first);
        const float *from = x + (size_t) first * (size_t) width;
        matmul (logits, count, vocab, width, plain (from, width), transposed (wte, width), 0);
        lose (losses, logits, labels + first, count, vocab, scale / (float) rows);
        for (int i = 0; i < count; i++)
            loss += (double) losses[i];
        if (!dx)
            continue;
        matmul (dx + (size_t) first * (size_t) width, count, width, vocab, plain (logits, vocab), plain (wte, width),
                0);
        matmul (dwte, vocab, width, count, transposed (logits, vocab), plain (from, width), 1);
    }
    free (logits);
    return (float) (loss / rows);
}
