/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and embeddings of a vocabulary that is divided among processes: a block has a row of logits, or several. */
#include "cuda/kernels.h"
#include "cuda/norms.h"
#include "cuda/portable.h"
#include "lib/kernels/vocabulary_element.h"

/* Element by element, because rows begin anywhere, and the order of a sum must not depend on that. */
enum { ROW_IN_FLIGHT = 8 };

template <class USE> __device__ static inline void
for_row (const float *row, size_t columns, USE use)
{
    for_packs<1, ROW_IN_FLIGHT> ((struct team){ 0, 1 }, columns, true, [&] (auto some, size_t c) {
        float in[some.count];
        UNROLL for (unsigned u = 0; u < some.count; u++)
            in[u] = row[c + u * PACK_STEP<1>];
        UNROLL for (unsigned u = 0; u < some.count; u++)
            use (c + u * PACK_STEP<1>, in[u]);
    }, [] (size_t) {});
}

#define FOR_EACH_ROW(r, rows) for (size_t r = blockIdx.x; r < (rows); r += gridDim.x)

__global__ void
row_largest_kernel (float *__restrict__ most, const float *__restrict__ logits, size_t rows, size_t columns)
{
    FOR_EACH_ROW (r, rows) {
        double mine = -INFINITY;
        for_row (logits + r * columns, columns,
                 [&] (size_t, float value) { mine = norm_both<NORM_LARGEST> (mine, (double) value); });
        mine = norm_of_block<NORM_LARGEST> (mine);
        if (threadIdx.x == 0)
            most[r] = (float) mine;
        __syncthreads (); /* the next row is added up in the same memory */
    }
}

__global__ void
row_sums_kernel (struct vocabulary_sums *__restrict__ sums, const float *__restrict__ logits,
                 const float *__restrict__ most, const int32_t *__restrict__ labels, int64_t first, size_t rows,
                 size_t columns)
{
    FOR_EACH_ROW (r, rows) {
        const float *row = logits + r * columns, largest = most[r];
        double sum = 0;
        for_row (row, columns, [&] (size_t, float value) { sum += (double) vocabulary_exp (value - largest); });
        sum = norm_of_block<NORM_ONE> (sum);
        if (threadIdx.x == 0) {
            int64_t label = labels[r] - first;
            sums[r].label = label >= 0 && label < (int64_t) columns ? row[label] - largest : 0;
            sums[r].sum = (float) sum;
        }
        __syncthreads ();
    }
}

__global__ void
row_losses_kernel (float *__restrict__ logits, float *__restrict__ losses, const int32_t *__restrict__ labels,
                   const struct vocabulary_sums *__restrict__ sums, struct vocabulary vocabulary, float scale,
                   size_t rows)
{
    FOR_EACH_ROW (r, rows) {
        const size_t columns = (size_t) vocabulary.own;
        const float largest = losses[r], row_scale = vocabulary_scale (labels[r], vocabulary.all, scale);
        const float factor = row_scale / sums[r].sum;
        const int64_t label = labels[r] - vocabulary.first;
        float *row = logits + r * columns;
        for_row (row, columns, [&] (size_t c, float value) {
            float grad = vocabulary_exp (value - largest) * factor;
            row[c] = (int64_t) c == label ? grad - row_scale : grad;
        });
        __syncthreads (); /* all have read the largest */
        if (threadIdx.x == 0)
            losses[r] = vocabulary_loss (labels[r], vocabulary.all, sums[r].sum, sums[r].label);
    }
}

__global__ void
look_up_kernel (float *__restrict__ values, const float *__restrict__ table, const int32_t *__restrict__ tokens,
                struct vocabulary vocabulary, size_t count, size_t width)
{
    FOR_EACH_ROW (i, count) {
        const int64_t row = tokens[i] - vocabulary.first;
        const float other = vocabulary_other (tokens[i], vocabulary.all);
        float *to = values + i * width;
        if (row >= 0 && row < vocabulary.own)
            for_row (table + (size_t) row * width, width, [&] (size_t j, float value) { to[j] = value; });
        else
            for (size_t j = threadIdx.x; j < width; j += CUDA_BLOCK)
                to[j] = other;
    }
}

/* A block has some columns of some rows, those with the same remainder, and sees all tokens: so one thread adds what
 * one element gets, in the order of tokens. */
__global__ void
add_back_kernel (float *__restrict__ table, const float *__restrict__ values, const int32_t *__restrict__ tokens,
                 struct vocabulary vocabulary, size_t count, size_t width, unsigned stripes)
{
    const size_t stripe_columns = (width + CUDA_BLOCK - 1) / CUDA_BLOCK;
    for (size_t at = blockIdx.x; at < stripes * stripe_columns; at += gridDim.x) {
        const size_t j = at / stripes * CUDA_BLOCK + threadIdx.x;
        for (size_t i = 0; i < count && j < width; i++) {
            const int64_t row = tokens[i] - vocabulary.first;
            if (row >= 0 && row < vocabulary.own && (size_t) row % stripes == at % stripes)
                table[(size_t) row * width + j] += values[i * width + j];
        }
    }
}

static unsigned
row_blocks (size_t rows)
{
    return rows < CUDA_MOST_BLOCKS ? (unsigned) rows : (unsigned) CUDA_MOST_BLOCKS;
}

extern "C" void
cuda_vocabulary_find_largest (const struct vocabulary_rows *rows, void *stream)
{
    if (rows->count)
        LAUNCH (row_largest_kernel, row_blocks (rows->count), stream, rows->losses, (const float *) rows->logits,
                rows->count, (size_t) rows->vocabulary.own);
}

extern "C" void
cuda_vocabulary_add_up (const struct vocabulary_rows *rows, void *stream)
{
    if (rows->count)
        LAUNCH (row_sums_kernel, row_blocks (rows->count), stream, rows->sums, (const float *) rows->logits,
                (const float *) rows->losses, rows->labels, rows->vocabulary.first, rows->count,
                (size_t) rows->vocabulary.own);
}

extern "C" void
cuda_vocabulary_finish (const struct vocabulary_rows *rows, void *stream)
{
    if (rows->count)
        LAUNCH (row_losses_kernel, row_blocks (rows->count), stream, rows->logits, rows->losses, rows->labels,
                (const struct vocabulary_sums *) rows->sums, rows->vocabulary, rows->scale, rows->count);
}

extern "C" void
cuda_vocabulary_look_up (const struct vocabulary_tokens *tokens, void *stream)
{
    if (tokens->count)
        LAUNCH (look_up_kernel, row_blocks (tokens->count), stream, tokens->values, (const float *) tokens->table,
                tokens->tokens, tokens->vocabulary, tokens->count, tokens->width);
}

extern "C" void
cuda_vocabulary_add_back (const struct vocabulary_tokens *tokens, void *stream)
{
    enum { STRIPES = 64 };
    size_t blocks = (tokens->width + CUDA_BLOCK - 1) / CUDA_BLOCK * STRIPES;
    if (tokens->count && blocks)
        LAUNCH (add_back_kernel, row_blocks (blocks), stream, tokens->table, (const float *) tokens->values,
                tokens->tokens, tokens->vocabulary, tokens->count, tokens->width, (unsigned) STRIPES);
}
