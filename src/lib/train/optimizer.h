/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer from the inside: a kind with its numbers, and its states per parameter. */
#ifndef LIB_TRAIN_OPTIMIZER_H
#define LIB_TRAIN_OPTIMIZER_H

#include <accel/optimizer.h>

#include "lib/object.h"
#include "lib/train/compare.h"
#include "lib/train/model.h"
#include "lib/train/rules.h"

/** A tensor that an optimizer remembers of one parameter. */
struct optimizer_state {
    DLTensor tensor; /* data NULL: its parameter is not trained */
    int64_t shape[ACCEL_STATE_DIMS];
};

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_LION, OPTIMIZER_CUSTOM };

/** Adam and AdamW. */
struct adam_numbers {
    double beta1, beta2, eps, weight_decay;
    bool decoupled, amsgrad, maximize;
};

struct accel_optimizer {
    struct object object;
    struct accel_model *model;
    enum optimizer_kind kind;
    /** The numbers of step `step`; @return the loop to run over them.  NULL: the program's own optimizer. */
    rule_loop *(*begin) (const struct accel_optimizer *optimizer, struct rule_numbers *numbers);
    double lr;
    union {
        struct accel_sgd sgd;
        struct adam_numbers adam;
        struct accel_lion lion;
        struct accel_custom_optimizer custom;
    };
    uint64_t step;         /* 1 in the first step */
    bool step_was_skipped; /* the last one: a scaler found infinite gradients */
    unsigned threads;
    const struct rules *rules;

    size_t state_count;
    char **state_names;             /* [state_count] */
    struct optimizer_state *states; /* [model's count][state_count] */
    DLTensor **state_tensors;       /* the same, their addresses, as callbacks want them */
    void *state_memory;
};

/**
 * Make @p like an optimizer over @p model: states, zeroed, of parameters' shapes unless it is custom.
 *
 * @param names  [like->state_count]
 */
enum accel_status optimizer_create (struct accel_optimizer **optimizer, struct accel_model *model,
                                    const struct accel_optimizer *like, const char *const *names,
                                    struct accel_error *err);

/** @return ACCEL_OK if @p optimizer, which may be NULL, and its model are there for a call of @p function. */
enum accel_status optimizer_check (const char *function, const struct accel_optimizer *optimizer,
                                   struct accel_error *err);

/** @return state @p state of parameter @p parameter. */
static inline struct optimizer_state *
optimizer_state_at (const struct accel_optimizer *optimizer, size_t parameter, size_t state)
{
    return &optimizer->states[parameter * optimizer->state_count + state];
}

/** @return what parameter @p index is to be changed by, for callbacks. */
struct accel_update optimizer_update (const struct accel_optimizer *optimizer, size_t index);

/** Note what has to agree over the ranks; the same numbers in the same order for all kinds. */
void optimizer_note_numbers (const struct accel_optimizer *optimizer, struct noted_numbers *numbers);

/** One step of a custom optimizer. */
enum accel_status optimizer_step_custom (struct accel_optimizer *optimizer, struct accel_error *err);

/** Run @p loop over all trained parameters, with several threads where that pays. */
void optimizer_run (const struct accel_optimizer *optimizer, rule_loop *loop, const struct rule_numbers *numbers);

/** @return where the momentum (of Adam and Lion: beta1) of @p optimizer stands, to be changed; NULL: it has none. */
double *optimizer_momentum (struct accel_optimizer *optimizer);

#endif
