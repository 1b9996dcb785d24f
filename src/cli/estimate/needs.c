/* SPDX-License-Identifier: Apache-2.0 */
/* What training needs besides the weights: gradients and states of optimizers, divided among processes by ZeRO
 * (https://arxiv.org/abs/1910.02054). */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "util/precisions.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned bytes; /* of state for each parameter, float32 */
} optimizers[] = {
    { "adamw", 8 }, { "adam", 8 }, { "adamw-amsgrad", 12 }, { "lion", 4 }, { "sgd-momentum", 4 }, { "sgd", 0 },
};

const char *const estimate_optimizers[] = { "adamw", "adam", "adamw-amsgrad", "lion", "sgd-momentum", "sgd", NULL };

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
estimate_train (uint64_t parameters, const char *optimizer, const struct estimate_precision *precision,
                int64_t zero_stage, int64_t processes)
{
    struct estimate_training training = { 0 };
    uint64_t count = processes > 0 ? (uint64_t) processes : 1;
    uint64_t state = precision->weight < 4 ? 4 : 0; /* the float32 masters of parameters with fewer bits */
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (!strcmp (optimizers[i].name, optimizer))
            state += optimizers[i].bytes;
    training.weights = share (parameters * precision->weight, zero_stage >= 3, count);
    training.gradients = share (parameters * precision->gradient, zero_stage >= 2, count);
    training.optimizer = share (parameters * state, zero_stage >= 1, count);
    return training;
}
