/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a model and of its largest layer.  Layers are found as Accelerate finds them in a PyTorch model: modules
 * without other modules in them, and modules that may not be split. The names of the tensors say what is in what. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "util/precisions.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 }; /* modules in modules; below, a hostile name is one layer */

/* Bits with float32. */
static uint64_t
size_of (const struct estimate_part *part)
{
    return part->elements * (part->is_float ? 32 : part->bits);
}

/* The parts of a module become neighbours. */
static int
compare (const void *a, const void *b)
{
    return strcmp (((const struct estimate_part *) a)->name, ((const struct estimate_part *) b)->name);
}

struct walk {
    const struct estimate_model *model;
    uint64_t largest;
};

static void
consider (struct walk *walk, const struct estimate_part *part, size_t count)
{
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += size_of (&part[i]);
    if (size > walk->largest)
        walk->largest = size;
}

/* The parts of one module, whose path with its '.' has @p length bytes; 0: the model. */
static void
walk_module (struct walk *walk, const struct estimate_part *parts, size_t count, size_t length, unsigned depth)
{
    size_t end;
    bool is_leaf = true;
    for (size_t i = 0; i < count && is_leaf; i++)
        is_leaf = !strchr (parts[i].name + length, '.');
    bool is_whole = is_leaf || depth == DEEPEST;
    if (length && (is_whole || estimate_is_whole (walk->model, parts->name, length - 1))) {
        consider (walk, parts, count);
        return;
    }
    for (size_t i = 0; i < count; i = end) {
        const char *name = parts[i].name, *dot = strchr (name + length, '.');
        end = i + 1;
        if (!dot) { /* a parameter beside modules: only the model's own are layers */
            if (!length)
                consider (walk, &parts[i], 1);
            continue;
        }
        size_t next = (size_t) (dot + 1 - name);
        while (end < count && !strncmp (parts[end].name, name, next))
            end++;
        walk_module (walk, &parts[i], end - i, next, depth + 1);
    }
}

void
estimate_measure (struct estimate_model *model, struct estimate_sizes *sizes)
{
    struct walk walk = { .model = model };
    *sizes = (struct estimate_sizes){ 0 };
    if (model->count)
        qsort (model->parts, model->count, sizeof *model->parts, compare);
    for (size_t i = 0; i < model->count; i++) {
        const struct estimate_part *part = &model->parts[i];
        sizes->total += size_of (part);
        sizes->stored += part->bytes;
        if (part->is_float && !part->is_buffer)
            sizes->parameters += part->elements;
    }
    walk_module (&walk, model->parts, model->count, 0, 0);
    sizes->largest = walk.largest;
}

/* ---- training ----
 *
 * What it needs besides the weights: gradients and states of optimizers, divided among processes by ZeRO
 * (https://arxiv.org/abs/1910.02054). */

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
