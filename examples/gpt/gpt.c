/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: its tensors, its layers, and the way through them and back. */
#include "gpt.h"
#include "matmul.h"

#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define TRY(call) accel_check ((call), &error)
static struct accel_error error;

/* ---- tensors ---- */

/* What there is to know of a tensor: its name, and its sizes in widths.  The model's own come first, then those of each
 * block. */
static const struct {
    const char *name;
    int rows, columns; /* 0: no such dimension */
} kinds[] = {
    { "wte.weight", 0, 1 }, /* vocab_size rows */
    { "wpe.weight", 0, 1 }, /* n_positions rows */
    { "ln_f.weight", 1, 0 }, { "ln_f.bias", 1, 0 },
    { "ln_1.weight", 1, 0 }, { "ln_1.bias", 1, 0 },
    { "attn.c_attn.weight", 1, 3 }, { "attn.c_attn.bias", 3, 0 },
    { "attn.c_proj.weight", 1, 1 }, { "attn.c_proj.bias", 1, 0 },
    { "ln_2.weight", 1, 0 }, { "ln_2.bias", 1, 0 },
    { "mlp.c_fc.weight", 1, 4 }, { "mlp.c_fc.bias", 4, 0 },
    { "mlp.c_proj.weight", 4, 1 }, { "mlp.c_proj.bias", 1, 0 },
};

/* Where they are: first those of the model, then those of a block. */
enum { WTE, WPE, LN_F, MODEL_TENSORS = LN_F + 2 };
enum { LN_1 = 0, ATTN = 2, ATTN_PROJ = 4, LN_2 = 6, FC = 8, MLP_PROJ = 10, BLOCK_TENSORS = 12 };

/* Files have the names that transformers writes; the GPT-2 of its authors has them without "transformer.", and masks
 * which are not weights.  The last layer's weights are those of the first: wte. */
static const struct accel_file_name file_names[] = {
    { "*", "transformer.*", false }, { "*", "*", false }, { NULL, "*.attn.bias", false },
    { NULL, "*.attn.masked_bias", false }, { NULL, "lm_head.weight", false },
};

/* What --tp divides, as Megatron-LM does: heads of attention, hidden units, and the vocabulary.  What comes out of a
 * layer is added up, and on the way back, the gradients of what goes in. */
static const struct accel_partition partitions[] = {
    { .match = "*c_attn.weight", .dim = 1, .blocks = 3 }, { .match = "*c_attn.bias", .blocks = 3 },
    { .match = "*c_fc.weight", .dim = 1 }, { .match = "*c_fc.bias" }, { .match = "*c_proj.weight" },
    { .match = "wte.weight" }, /* if it can be */
};

static void *
zeroed (size_t count, size_t bytes)
{
    void *memory = calloc (count, bytes);
    return memory ? memory : (errx (EXIT_FAILURE, "no memory for %zu x %zu bytes", count, bytes), NULL);
}

void
gpt_create (struct gpt *gpt, const struct gpt_config *config, const struct accel *acc,
            struct accel_generator *generator)
{
    /* Smaller where a layer's output is added to what went in. */
    const struct accel_initializer initializers[] = { { "*ln_?.weight", 1, 0 },
                                                      { "*c_proj.weight", 0, 0.02 / sqrt (2.0 * config->n_layer) },
                                                      { "*.weight", 0, 0.02 } };
    size_t layers = (size_t) config->n_layer, count = MODEL_TENSORS + layers * BLOCK_TENSORS;
    int64_t width = config->n_embd;
    struct accel_tensor *data = zeroed (2 * count, sizeof *data), *grad = data + count;
    char (*names)[48] = zeroed (count, sizeof *names);
    *gpt = (struct gpt){ .config = *config, .tensors = zeroed (count, sizeof *gpt->tensors),
                         .blocks = zeroed (layers + 1, sizeof *gpt->blocks),
                         .tp = accel_mesh_comm (accel_device_mesh (acc), "tp") };
    for (size_t i = 0; i < count; i++) {
        size_t layer = i < MODEL_TENSORS ? 0 : (i - MODEL_TENSORS) / BLOCK_TENSORS, kind = i - layer * BLOCK_TENSORS;
        int64_t rows = i == WTE ? config->vocab_size : i == WPE ? config->n_positions : kinds[kind].rows * width;
        const int64_t shape[] = { rows, kinds[kind].columns * width };
        int ndim = kinds[kind].columns ? 2 : 1;
        int prefix = i < MODEL_TENSORS ? 0 : snprintf (names[i], sizeof *names, "h.%zu.", layer);
        snprintf (names[i] + prefix, sizeof *names - (size_t) prefix, "%s", kinds[kind].name);
        TRY (accel_tensor_init (&data[i], ndim == 2 ? accel_autocast (acc) : ACCEL_FLOAT32, ndim, shape, &error));
        TRY (accel_tensor_init (&grad[i], ACCEL_FLOAT32, ndim, shape, &error));
        gpt->tensors[i] = (struct accel_parameter){ names[i], &data[i].dl, &grad[i].dl };
        gpt->parameters += accel_tensor_count (&data[i].dl);
    }
    TRY (accel_model_create (&gpt->model, gpt->tensors, count, &error));
    TRY (accel_model_set_file_names (gpt->model, file_names, sizeof file_names / sizeof *file_names, &error));
    gpt->parts = gpt->tp ? accel_comm_size (gpt->tp) : 1;
    gpt->part = gpt->tp ? accel_comm_rank (gpt->tp) : 0;
    gpt->vocabulary = config->vocab_size % gpt->parts ? NULL : gpt->tp;
    TRY (accel_model_set_tensor_parallel (gpt->model, acc, partitions, gpt->tp && !gpt->vocabulary ? 5 : 6, &error));
    if (config->n_head % gpt->parts)
        errx (1, "n_head: %d is not a multiple of --tp %d", config->n_head, gpt->parts);
    TRY (accel_model_initialize (gpt->model, initializers, 3, generator, &error));
}

/* ---- layers, forward and backward ----
 *
 * A row is a token.  All threads of a team call a function together and share its work.  Backward functions add to the
 * gradients of parameters (and to the `dx` of layer_norm), and write those of their inputs; `w` is a weight and, after
 * it, the bias.  Each element is computed by one thread: with the same number of them, runs can be repeated bit by bit.
 * (With another number, BLAS has other blocks, and rounds differently.) */

enum { QUERIES = 64, LOGIT_ROWS = 256 /* rows of scores and logits that are in memory at a time */, COLUMNS = 64,
       LINE = 16 /* numbers in a line of the caches */ };

/* Of a pass: sequences, their tokens, and the heads of attention that this process has, with their columns. */
struct shape {
    long batch, length, heads, width;
    long first, rows; /* only tokens from this one on are computed (backward: 0); batch * (length - first) */
};

/* Loops over elements are compiled for several instruction sets; the program chooses when it starts. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __SANITIZE_THREAD__
#define VECTORIZED __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

/* exp (x) to 2 units in the last place, in a form that compilers vectorize (without a loop); below -87 as at -87, above
 * 80 as at 80: the inverse of more becomes a subnormal number, which is slow; NaN stays NaN. */
static inline float
fast_exp (float x)
{
    union { float number; uint32_t bits; } power; /* unsigned, because the bits of NaN overflow */
    x = x < -87 ? -87 : x > 80 ? 80 : x;
    power.number = x * 1.44269504f + 12582912.0f; /* rounds, and leaves the integer in the low bits */
    float whole = power.number - 12582912.0f, rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float value = ((1.9875691500e-4f * rest + 1.3981999507e-3f) * rest + 8.3334519073e-3f) * rest + 4.1665795894e-2f;
    value = ((value * rest + 1.6666665459e-1f) * rest + 5.0000001201e-1f) * rest * rest + rest + 1;
    power.bits = (power.bits - 0x4b400000 + 127) << 23;
    return value * power.number;
}

/* Of all processes that divide layers, or the vocabulary. */
static void
sum (struct accel_comm *comm, float *x, long count)
{
#pragma omp single
    if (comm)
        TRY (accel_comm_all_reduce (comm, x, x, (size_t) count, ACCEL_FLOAT32, ACCEL_SUM, &error));
}

/* sums [width] += the rows of x */
static VECTORIZED void
add_rows (float *sums, const float *x, long rows, long width)
{
#pragma omp for
    for (long begin = 0; begin < width; begin += COLUMNS)
        for (long i = 0, end = MIN (begin + COLUMNS, width); i < rows; i++)
            for (long j = begin; j < end; j++)
                sums[j] += x[i * width + j];
}

static struct matrix
weights_of (const struct accel_parameter *w)
{
    return weights (w->data->data, w->data->shape[0], w->data->shape[1]);
}

/* y [rows, out] = x [rows, in] weight [in, out] + bias + base (if any); unless @p is_first, others add these two */
static VECTORIZED void
linear (float *y, const float *base, const float *x, const struct accel_parameter *w, long rows, bool is_first)
{
    struct matrix weight = weights_of (w);
    long width = weight.columns;
#pragma omp for
    for (long at = 0; at < (is_first ? rows * width : 0); at += width) {
        memcpy (y + at, w[1].data->data, (size_t) width * sizeof *y);
        for (long i = at; i < (base ? at + width : 0); i++)
            y[i] += base[i];
    }
    matmul (y, matrix (x, rows, weight.rows, weight.rows), weight, is_first);
}

/* dx: times @p by, element by element, if that is not NULL */
static VECTORIZED void
linear_backward (float *dx, const float *by, const float *dy, float *x, const struct accel_parameter *w, long rows)
{
    struct matrix weight = weights_of (w), grad = factor (dy, rows, weight.columns);
    matmul (dx, grad, transposed (weight), 0);
#pragma omp for nowait
    for (long i = 0; i < (by ? rows * weight.rows : 0); i++)
        dx[i] *= by[i];
    matmul (w[0].grad->data, transposed (matrix (x, rows, weight.rows, weight.rows)), grad, 1);
    add_rows (w[1].grad->data, dy, rows, weight.columns);
}

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
    return 1 / sqrtf (squares / (float) width + 1e-5f);
}

static VECTORIZED void
layer_norm (float *y, const float *x, const struct accel_parameter *w, long rows)
{
    const float *weight = w[0].data->data, *bias = w[1].data->data;
    long width = w->data->shape[0];
#pragma omp for
    for (long at = 0; at < rows * width; at += width) {
        float mean, inverse = measure (x + at, width, &mean);
        for (long j = 0; j < width; j++)
            y[at + j] = (x[at + j] - mean) * inverse * weight[j] + bias[j];
    }
}

/* dw: each row's share of the weight's gradient */
static VECTORIZED void
layer_norm_backward (float *dx, float *dw, const float *dy, const float *x, const struct accel_parameter *w, long rows)
{
    const float *weight = w[0].data->data;
    long width = w->data->shape[0];
#pragma omp for
    for (long at = 0; at < rows * width; at += width) {
        float sum = 0, product = 0, mean, inverse = measure (x + at, width, &mean);
#pragma omp simd reduction(+ : sum, product)
        for (long j = 0; j < width; j++) {
            dw[at + j] = dy[at + j] * (x[at + j] - mean) * inverse;
            sum += dy[at + j] * weight[j];
            product += dw[at + j] * weight[j];
        }
        sum /= (float) width;
        product /= (float) width;
        for (long j = 0; j < width; j++)
            dx[at + j] += (dy[at + j] * weight[j] - sum - (x[at + j] - mean) * inverse * product) * inverse;
    }
    add_rows (w[0].grad->data, dw, rows, width);
    add_rows (w[1].grad->data, dy, rows, width);
}

/* GELU: x / 2 (1 + tanh u) with u = sqrt (2 / pi) (x + 0.044715 x^3), which is x / (1 + exp (-2 u)). */
static const float ROOT = 0.7978845608f, CUBIC = 0.044715f;

static VECTORIZED void
gelu (float *y, const float *x, long count)
{
#pragma omp for
    for (long i = 0; i < count; i++)
        y[i] = x[i] / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i])));
}

/* The same for the way back, and x becomes the derivative. */
static VECTORIZED void
gelu_again (float *restrict y, float *restrict x, long count)
{
#pragma omp for
    for (long i = 0; i < count; i++) {
        float square = x[i] * x[i], share = 1 / (1 + fast_exp (-2 * ROOT * (x[i] + CUBIC * x[i] * square)));
        y[i] = x[i] * share;
        x[i] = share + y[i] * (1 - share) * 2 * ROOT * (1 + 3 * CUBIC * square);
    }
}

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
    long column = head % shape->heads * size, rows = MIN (QUERIES, shape->length - before), keys = before + rows;
    const float *from = qkv + row * stride + column;
    return (struct view){ matrix (from + before * stride, rows, size, stride),
                          matrix (from + shape->width, keys, size, stride),
                          matrix (from + 2 * shape->width, keys, size, stride), 1 / sqrtf ((float) size),
                          column, row };
}

/* Causal self-attention of queries, keys and values: qkv [batch * length, 3 * width].  No matrix of length x length is
 * kept: the way back computes it again from norms [batch, heads, length], the logarithms of its rows' sums. */
static void
attention (float *y, float *norms, const float *qkv, const struct shape *shape)
{
    long length = shape->length, first = shape->first;
    float *scores = zeroed ((size_t) (QUERIES * length), sizeof *scores);
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
static void
attention_backward (float *dqkv, const float *dy, const float *qkv, const float *norms, const struct shape *shape)
{
    long length = shape->length, width = shape->width, stride = 3 * width, last = (length - 1) / QUERIES * QUERIES;
    float *scores = zeroed ((size_t) (2 * QUERIES * length), sizeof *scores), *grads = scores + QUERIES * length;
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

static void
copy_row (float *to, const DLTensor *from, long row)
{
    enum accel_dtype dtype = accel_dtype_from_dl (from->dtype);
    size_t width = (size_t) from->shape[1], offset = (size_t) row * width * accel_dtype_bytes (dtype);
    accel_check (accel_convert ((const char *) from->data + offset, dtype, to, ACCEL_FLOAT32, width, NULL), NULL);
}

/* @return the row of wte that this process has of a token, or -1 */
static inline long
row_of (const struct gpt *gpt, int32_t token)
{
    long rows = gpt->tensors[WTE].data->shape[0], row = token - (gpt->vocabulary ? gpt->part * rows : 0);
    return row < rows && row >= 0 ? row : -1;
}

/* x = wte [token] + wpe [place]; work: as much memory */
static void
embed (const struct gpt *gpt, float *x, float *work, const int32_t *tokens, const struct shape *shape)
{
    long width = gpt->config.n_embd, length = shape->length - shape->first;
#pragma omp for
    for (long i = 0; i < shape->rows; i++) {
        long row = row_of (gpt, tokens[i]);
        if (row >= 0)
            copy_row (x + i * width, gpt->tensors[WTE].data, row);
        else
            memset (x + i * width, 0, (size_t) width * sizeof *x);
        copy_row (work + i * width, gpt->tensors[WPE].data, shape->first + i % length);
    }
    sum (gpt->vocabulary, x, shape->rows * width);
#pragma omp for
    for (long i = 0; i < shape->rows * width; i++)
        x[i] += work[i];
}

static VECTORIZED void
embed_backward (const struct gpt *gpt, const float *dx, const int32_t *tokens, const struct shape *shape)
{
    float *dwte = gpt->tensors[WTE].grad->data, *dwpe = gpt->tensors[WPE].grad->data;
    long width = gpt->config.n_embd;
#pragma omp for
    for (long begin = 0; begin < width; begin += COLUMNS)
        for (long i = 0, end = MIN (begin + COLUMNS, width); i < shape->rows; i++) {
            long row = row_of (gpt, tokens[i]);
            for (long j = begin; j < end && row >= 0; j++)
                dwte[row * width + j] += dx[i * width + j];
            for (long j = begin; j < end; j++)
                dwpe[i % shape->length * width + j] += dx[i * width + j];
        }
}

/* losses [rows] = -log softmax (x wte^T) [label].  Only a few rows of logits are in memory, so gradients, times scale,
 * are computed at once, unless dx is NULL. */
static void
cross_entropy (const struct gpt *gpt, float *dx, const int32_t *labels, long rows, float scale)
{
    float *losses = gpt->losses, *logits = gpt->logits, *x = gpt->narrow;
    struct matrix weight = weights_of (gpt->tensors + WTE);
    long vocab = weight.rows, width = weight.columns;
    for (long first = 0; first < rows; first += gpt->logit_rows) {
        long count = MIN (gpt->logit_rows, rows - first);
        struct matrix some = matrix (x + first * width, count, width, width), grad;
        matmul (logits, some, transposed (weight), 0);
#pragma omp single
        if (gpt->vocabulary)
            TRY (accel_parallel_cross_entropy (gpt->vocabulary, labels + first, (size_t) count, (size_t) vocab,
                                               scale / (float) rows, logits, losses + first, &error));
#pragma omp for
        for (long i = 0; i < (gpt->vocabulary ? 0 : count); i++) {
            float *row = logits + i * vocab, wanted = row[labels[first + i]];
            losses[first + i] = softmax (row, vocab, vocab, scale / (float) rows) - wanted;
            row[labels[first + i]] -= scale / (float) rows;
        }
        if (!dx)
            continue;
        grad = factor (logits, count, vocab);
        matmul (dx + first * width, grad, weight, 0);
        matmul (gpt->tensors[WTE].grad->data, transposed (grad), some, 1);
        sum (gpt->vocabulary, dx + first * width, count * width);
    }
}

/* ---- a pass ---- */

/* Memory of a pass.  What it keeps of a layer is 10 * n_embd + n_head numbers for each token; if layers are computed
 * again, its input, and the rest is there once.  Logits are where layers compute, between forward and backward. */
static void
reserve (struct gpt *gpt, long rows, bool recompute)
{
    long layers = gpt->config.n_layer, narrow = rows * gpt->config.n_embd, vocab = gpt->config.vocab_size;
    long kept = 9 * narrow + rows * gpt->config.n_head, work = 8 * narrow + (recompute ? kept : 0);
    if (gpt->memory && rows == gpt->rows && recompute == gpt->shares)
        return;
    gpt->rows = rows;
    gpt->shares = recompute;
    gpt->logit_rows = MIN (rows, recompute && work / vocab < LOGIT_ROWS ? work / vocab + 1 : LOGIT_ROWS);
    work = work > gpt->logit_rows * vocab ? work : gpt->logit_rows * vocab;
    free (gpt->memory);
    size_t count = (size_t) ((layers + 4) * narrow + rows + (recompute ? 0 : layers * kept) + work + LINE);
    float *at = gpt->memory = zeroed (count, sizeof *at);
    gpt->losses = at += LINE - (uintptr_t) at / sizeof *at % LINE; /* so that few vectors cross lines of the caches */
    gpt->narrow = at + rows;
    gpt->narrow_grad = gpt->narrow + narrow;
    gpt->grad = gpt->narrow_grad + narrow;
    float *input = gpt->grad + narrow;
    gpt->wide = gpt->logits = input + (layers + 1) * narrow;
    gpt->wide_grad = gpt->wide + 4 * narrow;
    at = recompute ? gpt->wide_grad + 4 * narrow : gpt->wide + work;
    for (long i = 0; i < layers; i++, input += narrow, at += recompute ? 0 : kept)
        gpt->blocks[i] = (struct gpt_block){ gpt->tensors + MODEL_TENSORS + i * BLOCK_TENSORS, input, .middle = at,
                                             .attended = at + narrow, .qkv = at + 2 * narrow,
                                             .hidden = at + 5 * narrow, .norms = at + 9 * narrow };
    gpt->blocks[layers].input = input;
}

/* Of each sequence, the tokens from shape->first on.  @param again  only what the way back needs */
static void
forward_block (struct gpt *gpt, const struct gpt_block *b, const struct shape *shape, bool again)
{
    const struct accel_parameter *w = b->tensors;
    long rows = shape->rows, count = rows * gpt->config.n_embd;
    layer_norm (gpt->narrow, b->input, w + LN_1, rows);
    linear (b->qkv + shape->first * 3 * shape->width, NULL, gpt->narrow, w + ATTN, rows, true);
    attention (b->attended, b->norms, b->qkv, shape);
    linear (b->middle, b->input, b->attended, w + ATTN_PROJ, rows, !gpt->part);
    sum (gpt->tp, b->middle, count);
    layer_norm (gpt->narrow, b->middle, w + LN_2, rows);
    linear (b->hidden, NULL, gpt->narrow, w + FC, rows, true);
    if (again)
        return;
    gelu (gpt->wide, b->hidden, 4 * count / gpt->parts);
    linear (b[1].input, b->middle, gpt->wide, w + MLP_PROJ, rows, !gpt->part);
    sum (gpt->tp, b[1].input, count);
}

/* gpt->grad: of the block's output, then of its input.  What is cheap to compute was not kept. */
static void
backward_block (struct gpt *gpt, const struct gpt_block *b, const struct shape *shape)
{
    const struct accel_parameter *w = b->tensors;
    long rows = shape->rows, count = rows * gpt->config.n_embd;
    if (gpt->recompute)
        forward_block (gpt, b, shape, true);
    gelu_again (gpt->wide, b->hidden, 4 * count / gpt->parts);
    linear_backward (gpt->wide_grad, b->hidden, gpt->grad, gpt->wide, w + MLP_PROJ, rows);
    layer_norm (gpt->narrow, b->middle, w + LN_2, rows);
    linear_backward (gpt->narrow_grad, NULL, gpt->wide_grad, gpt->narrow, w + FC, rows);
    sum (gpt->tp, gpt->narrow_grad, count);
    layer_norm_backward (gpt->grad, gpt->wide, gpt->narrow_grad, b->middle, w + LN_2, rows);
    linear_backward (gpt->narrow_grad, NULL, gpt->grad, b->attended, w + ATTN_PROJ, rows);
    attention_backward (gpt->wide_grad, gpt->narrow_grad, b->qkv, b->norms, shape);
    layer_norm (gpt->narrow, b->input, w + LN_1, rows);
    linear_backward (gpt->narrow_grad, NULL, gpt->wide_grad, gpt->narrow, w + ATTN, rows);
    sum (gpt->tp, gpt->narrow_grad, count);
    layer_norm_backward (gpt->grad, gpt->wide, gpt->narrow_grad, b->input, w + LN_1, rows);
}

static void
forward (struct gpt *gpt, const int32_t *tokens, const struct shape *shape)
{
    embed (gpt, gpt->blocks->input, gpt->narrow, tokens, shape);
    for (int layer = 0; layer < gpt->config.n_layer; layer++)
        forward_block (gpt, &gpt->blocks[layer], shape, false);
    layer_norm (gpt->narrow, gpt->blocks[gpt->config.n_layer].input, gpt->tensors + LN_F, shape->rows);
}

/* The gradients of the tensors from @p first on are complete.  A failure is also the status of accel_backward(). */
static void
report (struct gpt *gpt, int first, int count)
{
#pragma omp master
    for (int i = first; i < first + count; i++)
        (void) accel_grad_ready (gpt->model, (size_t) i, &error);
}

/* gpt->narrow_grad: the gradient of what forward() has left in gpt->narrow. */
static void
backward (struct gpt *gpt, const int32_t *tokens, const struct shape *shape)
{
    int layer = gpt->config.n_layer;
#pragma omp single
    memset (gpt->grad, 0, (size_t) (shape->rows * gpt->config.n_embd) * sizeof *gpt->grad);
    layer_norm_backward (gpt->grad, gpt->wide, gpt->narrow_grad, gpt->blocks[layer].input, gpt->tensors + LN_F,
                         shape->rows);
    report (gpt, LN_F, 2);
    while (layer-- > 0) {
        backward_block (gpt, &gpt->blocks[layer], shape);
        report (gpt, MODEL_TENSORS + layer * BLOCK_TENSORS, BLOCK_TENSORS);
    }
    embed_backward (gpt, gpt->grad, tokens, shape);
    report (gpt, WTE, 2);
}

float
gpt_loss (struct gpt *gpt, const DLTensor *tokens, const DLTensor *labels, float scale)
{
    const struct shape shape = { tokens->shape[0], tokens->shape[1], gpt->config.n_head / gpt->parts,
                                 gpt->config.n_embd / gpt->parts, 0, tokens->shape[0] * tokens->shape[1] };
    double loss = 0;
    reserve (gpt, shape.rows, gpt->recompute);
#pragma omp parallel
    {
        forward (gpt, tokens->data, &shape);
        cross_entropy (gpt, scale > 0 ? gpt->narrow_grad : NULL, labels->data, shape.rows, scale);
        if (scale > 0)
            backward (gpt, tokens->data, &shape);
    }
    for (long i = 0; i < shape.rows; i++)
        loss += (double) gpt->losses[i];
    return (float) (loss / (double) shape.rows);
}

const float *
gpt_next (struct gpt *gpt, int32_t token)
{
    const struct shape shape = { 1, gpt->count + 1, gpt->config.n_head / gpt->parts, gpt->config.n_embd / gpt->parts,
                                 gpt->count, 1 };
    struct matrix weight = weights_of (gpt->tensors + WTE);
    reserve (gpt, gpt->config.n_positions, false);
    float *own = gpt->logits + (gpt->vocabulary ? weight.rows * gpt->part : 0);
#pragma omp parallel
    {
        forward (gpt, &token, &shape);
        matmul (own, matrix (gpt->narrow, 1, weight.columns, weight.columns), transposed (weight), 0);
    }
    if (gpt->vocabulary)
        TRY (accel_comm_all_gather (gpt->vocabulary, own, gpt->logits, (size_t) weight.rows, ACCEL_FLOAT32, &error));
    gpt->count++;
    return gpt->logits;
}
