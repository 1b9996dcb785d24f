/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and embeddings of a vocabulary that is divided; see vocabulary.h. */
#include <config.h>

#include "lib/kernels/vocabulary.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/floats.h"
#include "lib/kernels/vocabulary_element.h"

#include <math.h>
#include <string.h>

void
vocabulary_find_largest (const struct vocabulary_rows *rows)
{
    int64_t own = rows->vocabulary.own;
    for (size_t r = 0; r < rows->count; r++) {
        const float *row = rows->logits + (int64_t) r * own;
        float most = -INFINITY;
        for (int64_t c = 0; c < own; c++)
            most = most >= row[c] ? most : row[c]; /* of a NaN, the sum becomes NaN */
        rows->losses[r] = most;
    }
}

/* Logits become exponentials. */
UNFUSED void
vocabulary_add_up (const struct vocabulary_rows *rows)
{
    int64_t own = rows->vocabulary.own;
    for (size_t r = 0; r < rows->count; r++) {
        float *row = rows->logits + (int64_t) r * own, most = rows->losses[r];
        int64_t label = rows->labels[r] - rows->vocabulary.first;
        double sum = 0;
        rows->sums[r].label = label >= 0 && label < own ? row[label] - most : 0;
        for (int64_t c = 0; c < own; c++)
            sum += (double) (row[c] = vocabulary_exp (row[c] - most));
        rows->sums[r].sum = (float) sum;
    }
}

UNFUSED void
vocabulary_finish (const struct vocabulary_rows *rows)
{
    const struct vocabulary *vocabulary = &rows->vocabulary;
    for (size_t r = 0; r < rows->count; r++) {
        float *row = rows->logits + (int64_t) r * vocabulary->own;
        const struct vocabulary_sums sums = rows->sums[r];
        float scale = vocabulary_scale (rows->labels[r], vocabulary->all, rows->scale);
        int64_t label = rows->labels[r] - vocabulary->first;
        for (int64_t c = 0; c < vocabulary->own; c++)
            row[c] *= scale / sums.sum;
        if (label >= 0 && label < vocabulary->own)
            row[label] -= scale;
        rows->losses[r] = vocabulary_loss (rows->labels[r], vocabulary->all, sums.sum, sums.label);
    }
}

/* @return the row that this process has of a token; -1: none */
static int64_t
row_of (const struct vocabulary_tokens *tokens, size_t i)
{
    int64_t row = tokens->tokens[i] - tokens->vocabulary.first;
    return row < tokens->vocabulary.own ? row : -1;
}

void
vocabulary_look_up (const struct vocabulary_tokens *tokens)
{
    size_t width = tokens->width;
    for (size_t i = 0; i < tokens->count; i++) {
        int64_t row = row_of (tokens, i);
        float other = vocabulary_other (tokens->tokens[i], tokens->vocabulary.all);
        float *values = tokens->values + i * width;
        if (row >= 0)
            memcpy (values, tokens->table + (size_t) row * width, width * sizeof *values);
        for (size_t j = 0; j < width && row < 0; j++)
            values[j] = other;
    }
}

void
vocabulary_add_back (const struct vocabulary_tokens *tokens)
{
    size_t width = tokens->width;
    for (size_t i = 0; i < tokens->count; i++) {
        int64_t row = row_of (tokens, i);
        if (row >= 0)
            floats_add (tokens->table + (size_t) row * width, tokens->values + i * width, width);
    }
}
