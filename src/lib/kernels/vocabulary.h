/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed with a vocabulary that is divided among processes: losses of logits, of which each process has some
 * columns.  accel/parallel.h says what they are. */
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

#endif
