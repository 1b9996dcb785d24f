/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: its tensors, and the way through its layers and back. */
#include "gpt.h"
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

struct kind {
    const char *name;
    int rows, columns; /* in widths; 0: no such dimension */
};

static const struct kind block_kinds[GPT_BLOCK_TENSORS] = {
    [LN_1_WEIGHT] = { "ln_1.weight", 1, 0 },
    [LN_1_BIAS] = { "ln_1.bias", 1, 0 },
    [ATTN_WEIGHT] = { "attn.c_attn.weight", 1, 3 },
    [ATTN_BIAS] = { "attn.c_attn.bias", 3, 0 },
    [ATTN_PROJ_WEIGHT] = { "attn.c_proj.weight", 1, 1 },
    [ATTN_PROJ_BIAS] = { "attn.c_proj.bias", 1, 0 },
    [LN_2_WEIGHT] = { "ln_2.weight", 1, 0 },
    [LN_2_BIAS] = { "ln_2.bias", 1, 0 },
    [FC_WEIGHT] = { "mlp.c_fc.weight", 1, 4 },
    [FC_BIAS] = { "mlp.c_fc.bias", 4, 0 },
    [MLP_PROJ_WEIGHT] = { "mlp.c_proj.weight", 4, 1 },
    [MLP_PROJ_BIAS] = { "mlp.c_proj.bias", 1, 0 },
};

static struct gpt_tensor *
block_tensor (const struct gpt *gpt, int layer, int kind)
{
    return &gpt->tensors[GPT_MODEL_TENSORS + layer * GPT_BLOCK_TENSORS + kind];
}

static const float *
weight_of (const struct gpt *gpt, int layer, int kind)
{
    return block_tensor (gpt, layer, kind)->data.data;
}

static float *
grad_of (const struct gpt *gpt, int layer, int kind)
{
    return block_tensor (gpt, layer, kind)->grad.data;
}

static void
describe (struct gpt_tensor *tensor, const char *name, int64_t rows, int64_t columns)
{
    snprintf (tensor->name, sizeof tensor->name, "transformer.%s", name);
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->data = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = columns ? 2 : 1, .shape = tensor->shape,
                               .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    tensor->grad = tensor->data;
}

void
gpt_create (struct gpt *gpt, const struct gpt_config *config)
{
    struct accel_error err;
    size_t count = GPT_MODEL_TENSORS + (size_t) config->n_layer * GPT_BLOCK_TENSORS;
    int64_t width = config->n_embd;
    *gpt = (struct gpt){ .config = *config, .tensor_count = count };
    gpt->tensors = calloc (count, sizeof *gpt->tensors);
    struct accel_parameter *parameters = calloc (count, sizeof *parameters);
    if (!gpt->tensors || !parameters) {
        fputs ("gpt: out of memory\n", stderr);
        exit (EXIT_FAILURE);
    }
    describe (&gpt->tensors[WTE], "wte.weight", config->vocab_size, width);
    describe (&gpt->tensors[WPE], "wpe.weight", config->n_positions, width);
    describe (&gpt->tensors[LN_F_WEIGHT], "ln_f.weight", width, 0);
    describe (&gpt->tensors[LN_F_BIAS], "ln_f.bias", width, 0);
    for (int layer = 0; layer < config->n_layer; layer++)
        for (int i = 0; i < GPT_BLOCK_TENSORS; i++) {
            char name[sizeof block_tensor (gpt, 0, 0)->name - sizeof "transformer."];
            snprintf (name, sizeof name, "h.%d.%s", layer, block_kinds[i].name);
            describe (block_tensor (gpt, layer, i), name, block_kinds[i].rows * width, block_kinds[i].columns * width);
        }
    for (size_t i = 0; i < count; i++)
        parameters[i] = (struct accel_parameter){ gpt->tensors[i].name, &gpt->tensors[i].data, &gpt->tensors[i].grad };
    accel_check (accel_model_create (&gpt->model, parameters, count, &err), &err);
    free (parameters);
}

static size_t
size_of (const struct gpt_tensor *tensor)
{
    return (size_t) tensor->shape[0] * (size_t) (tensor->shape[1] ? tensor->shape[1] : 1);
}

size_t
gpt_parameters (const struct gpt *gpt)
{
    size_t sum = 0;
    for (size_t i = 0; i < gpt->tensor_count; i++)
        sum += size_of (&gpt->tensors[i]);
    return sum;
}

void
gpt_initialize (struct gpt *gpt, struct accel_generator *generator)
{
    struct accel_error err;
    for (size_t i = 0; i < gpt->tensor_count; i++) {
        struct gpt_tensor *tensor = &gpt->tensors[i];
        float *values = tensor->data.data;
        bool is_residual = strstr (tensor->name, "c_proj.weight");
        double deviation = is_residual ? 0.02 / sqrt (2.0 * gpt->config.n_layer) : 0.02;
        if (tensor->shape[1])
            accel_check (accel_generator_fill_normal (generator, values, size_of (tensor), ACCEL_FLOAT32, 0, deviation,
                                                      &err), &err);
        else
            for (size_t j = 0; j < size_of (tensor); j++)
                values[j] = strstr (tensor->name, "weight") ? 1 : 0;
    }
}

void
gpt_destroy (struct gpt *gpt)
{
    accel_model_destroy (gpt->model);
    free (gpt->tensors);
    free (gpt->memory);
}

/* ---- through the layers, and back ---- */

static void
reserve (struct gpt *gpt, int batch, int length)
{
    if (gpt->memory && batch == gpt->batch && length == gpt->length)
        return;
    size_t layers = (size_t) gpt->config.n_layer, rows = (size_t) batch * (size_t) length;
    size_t narrow = rows * (size_t) gpt->config.n_embd;
    const struct {
        float **at;
        size_t count;
    } parts[] = {
        { &gpt->inputs, (layers + 1) * narrow },
        { &gpt->middles, layers * narrow },
        { &gpt->qkv, layers * 3 * narrow },
        { &gpt->attended, layers * narrow },
        { &gpt->norms, layers * rows * (size_t) gpt->config.n_head },
        { &gpt->hidden, layers * 4 * narrow },
        { &gpt->wide, 4 * narrow },
        { &gpt->wide_grad, 4 * narrow },
        { &gpt->narrow, narrow },
        { &gpt->narrow_grad, narrow },
        { &gpt->grad, narrow },
    };
    size_t count = 0, used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        count += parts[i].count;
    free (gpt->memory);
    gpt->memory = malloc (count * sizeof *gpt->memory);
    if (!gpt->memory) {
        fprintf (stderr, "gpt: no memory for batches of %d x %d tokens: %zu MiB\n", batch, length,
                 count * sizeof *gpt->memory >> 20);
        exit (EXIT_FAILURE);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; used += parts[i++].count)
        *parts[i].at = gpt->memory + used;
    gpt->batch = batch;
    gpt->length = length;
}

/* What a block keeps of its pass. */
struct kept {
    float *input, *middle, *output, *qkv, *attended, *norms, *hidden;
};

static struct kept
kept_of (const struct gpt *gpt, int layer)
{
    size_t rows = (size_t) gpt->batch * (size_t) gpt->length, narrow = rows * (size_t) gpt->config.n_embd;
    size_t at = (size_t) layer;
    return (struct kept){ .input = gpt->inputs + at * narrow, .middle = gpt->middles + at * narrow,
                          .output = gpt->inputs + (at + 1) * narrow, .qkv = gpt->qkv + at * 3 * narrow,
                          .attended = gpt->attended + at * narrow,
                          .norms = gpt->norms + at * rows * (size_t) gpt->config.n_head,
                          .hidden = gpt->hidden + at * 4 * narrow };
}

/* to = x + y */
static void
add (float *to, const float *x, const float *y, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++)
        to[i] = x[i] + y[i];
}

static struct attention
attention_shape (const struct gpt *gpt)
{
    return (struct attention){ gpt->batch, gpt->length, gpt->config.n_head, gpt->config.n_embd };
}

static void
forward_block (struct gpt *gpt, int layer)
{
    int rows = gpt->batch * gpt->length, width = gpt->config.n_embd;
    size_t narrow = (size_t) rows * (size_t) width;
    struct kept kept = kept_of (gpt, layer);
    struct attention shape = attention_shape (gpt);
#define W(kind) weight_of (gpt, layer, kind)
    layer_norm (gpt->narrow, kept.input, W (LN_1_WEIGHT), W (LN_1_BIAS), rows, width);
    linear (kept.qkv, gpt->narrow, W (ATTN_WEIGHT), W (ATTN_BIAS), rows, width, 3 * width);
    attention (kept.attended, kept.norms, kept.qkv, &shape);
    linear (gpt->narrow, kept.attended, W (ATTN_PROJ_WEIGHT), W (ATTN_PROJ_BIAS), rows, width, width);
    add (kept.middle, kept.input, gpt->narrow, narrow);
    layer_norm (gpt->narrow, kept.middle, W (LN_2_WEIGHT), W (LN_2_BIAS), rows, width);
    linear (kept.hidden, gpt->narrow, W (FC_WEIGHT), W (FC_BIAS), rows, width, 4 * width);
    gelu (gpt->wide, kept.hidden, 4 * narrow);
    linear (gpt->narrow, gpt->wide, W (MLP_PROJ_WEIGHT), W (MLP_PROJ_BIAS), rows, 4 * width, width);
    add (kept.output, kept.middle, gpt->narrow, narrow);
}

/* gpt->grad: of the block's output, then of its input.  What is cheap to compute was not kept. */
static void
backward_block (struct gpt *gpt, int layer)
{
    int rows = gpt->batch * gpt->length, width = gpt->config.n_embd;
    size_t narrow = (size_t) rows * (size_t) width;
    struct kept kept = kept_of (gpt, layer);
    struct attention shape = attention_shape (gpt);
#define G(kind) grad_of (gpt, layer, kind)
    gelu (gpt->wide, kept.hidden, 4 * narrow);
    linear_backward (gpt->wide_grad, G (MLP_PROJ_WEIGHT), G (MLP_PROJ_BIAS), gpt->grad, gpt->wide,
                     W (MLP_PROJ_WEIGHT), rows, 4 * width, width);
    gelu_backward (gpt->wide_grad, kept.hidden, 4 * narrow);
    layer_norm (gpt->narrow, kept.middle, W (LN_2_WEIGHT), W (LN_2_BIAS), rows, width);
    linear_backward (gpt->narrow_grad, G (FC_WEIGHT), G (FC_BIAS), gpt->wide_grad, gpt->narrow, W (FC_WEIGHT), rows,
                     width, 4 * width);
    layer_norm_backward (gpt->grad, G (LN_2_WEIGHT), G (LN_2_BIAS), gpt->narrow_grad, kept.middle, W (LN_2_WEIGHT),
                         rows, width);
    linear_backward (gpt->narrow_grad, G (ATTN_PROJ_WEIGHT), G (ATTN_PROJ_BIAS), gpt->grad, kept.attended,
                     W (ATTN_PROJ_WEIGHT), rows, width, width);
    attention_backward (gpt->wide_grad, gpt->narrow_grad, kept.qkv, kept.norms, &shape);
    layer_norm (gpt->narrow, kept.input, W (LN_1_WEIGHT), W (LN_1_BIAS), rows, width);
    linear_backward (gpt->narrow_grad, G (ATTN_WEIGHT), G (ATTN_BIAS), gpt->wide_grad, gpt->narrow, W (ATTN_WEIGHT),
                     rows, width, 3 * width);
    layer_norm_backward (gpt->grad, G (LN_1_WEIGHT), G (LN_1_BIAS), gpt->narrow_grad, kept.input, W (LN_1_WEIGHT),
                         rows, width);
}

/* The gradients of the tensors from @p first on are complete.  A failure is also the status of accel_backward(). */
static void
report (struct gpt *gpt, size_t first, size_t count)
{
    struct accel_error err;
    for (size_t i = 0; i < count; i++)
        (void) accel_grad_ready (gpt->model, first + i, &err);
}

/* @return gpt->narrow, the rows that logits are computed from */
static const float *
forward (struct gpt *gpt, const int32_t *tokens, int batch, int length)
{
    struct gpt_tensor *tensors = gpt->tensors;
    int rows = batch * length, width = gpt->config.n_embd;
    reserve (gpt, batch, length);
    embed (gpt->inputs, tensors[WTE].data.data, tensors[WPE].data.data, tokens, rows, length, width);
    for (int layer = 0; layer < gpt->config.n_layer; layer++)
        forward_block (gpt, layer);
    layer_norm (gpt->narrow, kept_of (gpt, gpt->config.n_layer).input, tensors[LN_F_WEIGHT].data.data,
                tensors[LN_F_BIAS].data.data, rows, width);
    return gpt->narrow;
}

float
gpt_loss (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length)
{
    const float *last = forward (gpt, tokens, batch, length);
    return cross_entropy (NULL, NULL, last, gpt->tensors[WTE].data.data, labels, batch * length, gpt->config.n_embd,
                          gpt->config.vocab_size, 1);
}

float
gpt_learn (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length, float scale)
{
    struct gpt_tensor *tensors = gpt->tensors;
    int rows = batch * length, width = gpt->config.n_embd;
    const float *last = forward (gpt, tokens, batch, length);
    float loss = cross_entropy (gpt->narrow_grad, tensors[WTE].grad.data, last, tensors[WTE].data.data, labels, rows,
                                width, gpt->config.vocab_size, scale);
    memset (gpt->grad, 0, (size_t) rows * (size_t) width * sizeof *gpt->grad);
    layer_norm_backward (gpt->grad, tensors[LN_F_WEIGHT].grad.data, tensors[LN_F_BIAS].grad.data, gpt->narrow_grad,
                         kept_of (gpt, gpt->config.n_layer).input, tensors[LN_F_WEIGHT].data.data, rows, width);
    report (gpt, LN_F_WEIGHT, 2);
    for (int layer = gpt->config.n_layer; layer-- > 0;) {
        backward_block (gpt, layer);
        report (gpt, (size_t) (block_tensor (gpt, layer, 0) - tensors), GPT_BLOCK_TENSORS);
    }
    embed_backward (tensors[WTE].grad.data, tensors[WPE].grad.data, gpt->grad, tokens, rows, length, width);
    report (gpt, WTE, 2);
    return loss;
}

/* ---- one token after the other ---- */

void
gpt_cache_create (struct gpt_cache *cache, const struct gpt *gpt)
{
    size_t count = (size_t) gpt->config.n_layer * (size_t) gpt->config.n_positions * (size_t) gpt->config.n_embd;
    *cache = (struct gpt_cache){ .keys = malloc (2 * count * sizeof *cache->keys) };
    if (!cache->keys) {
        fputs ("gpt: no memory for keys and values\n", stderr);
        exit (EXIT_FAILURE);
    }
    cache->values = cache->keys + count;
}

void
gpt_cache_destroy (struct gpt_cache *cache)
{
    free (cache->keys);
}

void
gpt_next (float *logits, struct gpt *gpt, struct gpt_cache *cache, int32_t token)
{
    struct gpt_tensor *tensors = gpt->tensors;
    int width = gpt->config.n_embd, place = cache->count++;
    size_t before = (size_t) place * (size_t) width, row = (size_t) width * sizeof (float);
    const float *positions = (const float *) tensors[WPE].data.data + before;
    reserve (gpt, 1, 1);
    float *x = gpt->inputs, *last = gpt->narrow;
    embed (x, tensors[WTE].data.data, positions, &token, 1, 1, width);
    for (int layer = 0; layer < gpt->config.n_layer; layer++) {
        size_t first = (size_t) layer * (size_t) gpt->config.n_positions * (size_t) width;
        float *keys = cache->keys + first, *values = cache->values + first;
        layer_norm (last, x, W (LN_1_WEIGHT), W (LN_1_BIAS), 1, width);
        linear (gpt->qkv, last, W (ATTN_WEIGHT), W (ATTN_BIAS), 1, width, 3 * width);
        memcpy (keys + before, gpt->qkv + width, row);
        memcpy (values + before, gpt->qkv + 2 * width, row);
        attention_step (gpt->attended, gpt->qkv, keys, values, place + 1, gpt->config.n_head, width);
        linear (last, gpt->attended, W (ATTN_PROJ_WEIGHT), W (ATTN_PROJ_BIAS), 1, width, width);
        add (x, x, last, (size_t) width);
        layer_norm (last, x, W (LN_2_WEIGHT), W (LN_2_BIAS), 1, width);
        linear (gpt->hidden, last, W (FC_WEIGHT), W (FC_BIAS), 1, width, 4 * width);
        gelu (gpt->wide, gpt->hidden, 4 * (size_t) width);
        linear (last, gpt->wide, W (MLP_PROJ_WEIGHT), W (MLP_PROJ_BIAS), 1, 4 * width, width);
        add (x, x, last, (size_t) width);
    }
    layer_norm (last, x, tensors[LN_F_WEIGHT].data.data, tensors[LN_F_BIAS].data.data, 1, width);
    matmul (logits, 1, gpt->config.vocab_size, width, (struct matrix){ last, width, false },
            (struct matrix){ tensors[WTE].data.data, width, true }, 0);
}

struct candidate {
    float logit;
    int32_t token;
};

static int
compare_candidates (const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    return one->logit != other->logit ? (one->logit < other->logit ? 1 : -1) : one->token - other->token;
}

int32_t
gpt_choose (float *logits, int vocab, const struct gpt_choice *choice, struct accel_generator *generator)
{
    struct candidate *candidates = malloc ((size_t) vocab * sizeof *candidates);
    float sum = 0, kept = 0;
    int count = choice->top_k > 0 && choice->top_k < vocab ? choice->top_k : vocab;
    if (!candidates) {
        fputs ("gpt: out of memory\n", stderr);
        exit (EXIT_FAILURE);
    }
    for (int i = 0; i < vocab; i++)
        candidates[i] = (struct candidate){ logits[i], i };
    qsort (candidates, (size_t) vocab, sizeof *candidates, compare_candidates);
    for (int i = 0; i < count; i++)
        sum += logits[i] = expf ((candidates[i].logit - candidates[0].logit)
                                 / (choice->temperature > 0 ? choice->temperature : 1));
    if (choice->temperature <= 0)
        count = 1;
    for (int i = 0; i < count; i++) {
        kept += logits[i];
        if (choice->top_p > 0 && kept >= choice->top_p * sum)
            count = i + 1;
    }
    float left = kept * accel_generator_uniform (generator);
    int chosen = 0;
    while (chosen < count - 1 && left >= logits[chosen])
        left -= logits[chosen++];
    int32_t token = candidates[chosen].token;
    free (candidates);
    return token;
}
