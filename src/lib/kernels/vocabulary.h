/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed with a vocabulary that is divided among processes: losses of logits, of which each process has some
 * columns, and embeddings, of which it has some rows.  accel/parallel.h says what they are. */
#ifndef LIB_KERNELS_VOCABULARY_H
#define LIB_KERNELS_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

/** The classes that a process has: `own`, from `first` on, of `all`. */
struct vocabulary {
    int64_t first, own, all;
};

/** What is added up of a row: the logit of its label, of the process that has it, less the largest logit; and
 *  exponentials. */
struct vocabulary_sums {
    float label, sum;
};

/** Rows of logits.  The functions are called in their order. */
struct vocabulary_rows {
    struct vocabulary vocabulary;
    size_t count;
    const int32_t *labels;        /* [count] */
    float *logits;                /* [count, own] */
    float *losses;                /* [count]: their largest logits first */
    struct vocabulary_sums *sums; /* [count] */
    float scale;
};

/** losses: the largest logit of this process. */
void vocabulary_find_largest (const struct vocabulary_rows *rows);

/** sums, from losses: the largest logit of all.  @p logits may become something in between. */
void vocabulary_add_up (const struct vocabulary_rows *rows);

/** losses, and gradients in place of logits, from sums over all processes.  NaN for a label that is no class. */
void vocabulary_finish (const struct vocabulary_rows *rows);

/** Tokens, and the rows of a table that belong to those of this process.  All pointers are to float32. */
struct vocabulary_tokens {
    struct vocabulary vocabulary;
    size_t count, width;
    const int32_t *tokens; /* [count] */
    float *table;          /* [own, width]: weights, or their gradients */
    float *values;         /* [count, width] */
};

/** values: the rows of tokens, 0 for those of other processes, NaN for those of none. */
void vocabulary_look_up (const struct vocabulary_tokens *tokens);

/** Add values to the rows, in the order of tokens. */
void vocabulary_add_back (const struct vocabulary_tokens *tokens);

#endif
