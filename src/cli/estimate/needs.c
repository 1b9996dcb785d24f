/* SPDX-License-Identifier: Apache-2.0 */
/* What training needs besides the weights: gradients and states of optimizers, divided among processes by ZeRO
 * (https://arxiv.org/abs/1910.02054). */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "util/precisions.h"

const struct estimate_optimizer estimate_optimizers[] = {
    { "adamw", 8 }, { "adam", 8 }, { "adamw-amsgrad", 12 }, { "lion", 4 }, { "sgd-momentum", 4 }, { "sgd", 0 }, { 0 },
};

static uint64_t
share (uint64_t bytes, bool is_divided, uint64_t processes)
{
    return is_divided ? bytes / processes + (bytes % processes != 0) : bytes;
}

const struct estimate_precision estimate_precisions[] = {
#define X(text, dtype, scales, weight_bytes, gradient_bytes) { text, weight_bytes, gradient_bytes },
    PRECISION_MAP (X)
#undef X
    { 0 },
};

struct estimate_training
estimate_train (uint64_t parameters, const struct estimate_optimizer *optimizer,
                const struct estimate_precision *precision, int64_t zero_stage, int64_t processes)
{
    struct estimate_training training = { 0 };
    uint64_t count = processes > 0 ? (uint64_t) processes : 1;
    uint64_t master = precision->weight < 4 ? 4 : 0; /* float32, of a parameter with fewer bits */
    uint64_t state = optimizer->bytes + master;
    training.weights = share (parameters * precision->weight, zero_stage >= 3, count);
    training.gradients = share (parameters * precision->gradient, zero_stage >= 2, count);
    training.optimizer = share (parameters * state, zero_stage >= 1, count);
    return training;
}
