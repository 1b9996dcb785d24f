/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: its tensors, and the way through its layers and back. */
#include "gpt.h"
#include "layers.h"

#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call) accel_check ((call), &error)
static struct accel_error error;

/* ---- tensors ---- */

/* What there is to know of a tensor: its name, its sizes in widths, and how its first values are drawn.  The model's own
 * come first, then those of each block. */
enum { ZEROS, ONES, NORMAL, RESIDUAL /* normal, but smaller, before a sum with what went in */ };
static const struct gpt_kind {
    const char *name;
    int rows, columns; /* 0: no such dimension */
    int init;
} kinds[] = {
    { "wte.weight", 0, 1, NORMAL }, /* vocab_size rows */
    { "wpe.weight", 0, 1, NORMAL }, /* n_positions rows */
    { "ln_f.weight", 1, 0, ONES },
    { "ln_f.bias", 1, 0, ZEROS },
    { "ln_1.weight", 1, 0, ONES },
    { "ln_1.bias", 1, 0, ZEROS },
    { "attn.c_attn.weight", 1, 3, NORMAL },
    { "attn.c_attn.bias", 3, 0, ZEROS },
    { "attn.c_proj.weight", 1, 1, RESIDUAL },
    { "attn.c_proj.bias", 1, 0, ZEROS },
    { "ln_2.weight", 1, 0, ONES },
    { "ln_2.bias", 1, 0, ZEROS },
    { "mlp.c_fc.weight", 1, 4, NORMAL },
    { "mlp.c_fc.bias", 4, 0, ZEROS },
    { "mlp.c_proj.weight", 4, 1, RESIDUAL },
    { "mlp.c_proj.bias", 1, 0, ZEROS },
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

static void *
zeroed (size_t count, size_t bytes)
{
    void *memory = calloc (count, bytes);
    return memory ? memory : (errx (EXIT_FAILURE, "no memory for %zu x %zu bytes", count, bytes), NULL);
}

static void
initialize (const DLTensor *master, int init, int layers, struct accel_generator *generator)
{
    float *values = master->data;
    size_t count = accel_tensor_count (master);
    double deviation = init == RESIDUAL ? 0.02 / sqrt (2.0 * layers) : 0.02;
    if (init >= NORMAL)
        TRY (accel_generator_fill_normal (generator, values, count, ACCEL_FLOAT32, 0, deviation, &error));
    for (size_t i = 0; i < count && init == ONES; i++)
        values[i] = 1;
}

void
gpt_create (struct gpt *gpt, const struct gpt_config *config, enum accel_dtype dtype,
            struct accel_generator *generator)
{
    size_t layers = (size_t) config->n_layer, count = MODEL_TENSORS + layers * BLOCK_TENSORS;
    struct accel_parameter *parameters = zeroed (count, sizeof *parameters);
    *gpt = (struct gpt){ .config = *config, .tensors = zeroed (count, sizeof *gpt->tensors),
                         .blocks = zeroed (layers + 1, sizeof *gpt->blocks) };
    for (size_t i = 0; i < count; i++) {
        struct gpt_tensor *tensor = &gpt->tensors[i];
        size_t layer = i < MODEL_TENSORS ? 0 : (i - MODEL_TENSORS) / BLOCK_TENSORS;
        const struct gpt_kind *kind = tensor->kind = &kinds[i - layer * BLOCK_TENSORS];
        int64_t rows = i == WTE ? config->vocab_size : i == WPE ? config->n_positions : kind->rows * config->n_embd;
        const int64_t shape[] = { rows, kind->columns * config->n_embd };
        int ndim = kind->columns ? 2 : 1;
        if (i < MODEL_TENSORS)
            snprintf (tensor->name, sizeof tensor->name, "%s", kind->name);
        else
            snprintf (tensor->name, sizeof tensor->name, "h.%zu.%s", layer, kind->name);
        TRY (accel_tensor_init (&tensor->data, ndim == 2 ? dtype : ACCEL_FLOAT32, ndim, shape, &error));
        TRY (accel_tensor_init (&tensor->grad, ACCEL_FLOAT32, ndim, shape, &error));
        parameters[i] = (struct accel_parameter){ tensor->name, &tensor->data.dl, &tensor->grad.dl };
        gpt->parameters += accel_tensor_count (&tensor->data.dl);
    }
    TRY (accel_model_create (&gpt->model, parameters, count, &error));
    TRY (accel_model_set_file_names (gpt->model, file_names, sizeof file_names / sizeof *file_names, &error));
    for (size_t i = 0; i < count; i++)
        initialize (accel_model_master (gpt->model, i), gpt->tensors[i].kind->init, config->n_layer, generator);
    accel_model_narrow (gpt->model);
    free (parameters);
}

void
gpt_destroy (struct gpt *gpt)
{
    accel_model_destroy (gpt->model);
    free (gpt->tensors);
    free (gpt->blocks);
    free (gpt->memory);
}

/* ---- through the layers, and back ---- */

static float *
take (float **next, size_t count)
{
    *next += count;
    return *next - count;
}

/* Memory of a pass; what it keeps is 10 * n_embd + n_head numbers for each token and layer. */
static void
reserve (struct gpt *gpt, int batch, int length)
{
    size_t layers = (size_t) gpt->config.n_layer, rows = (size_t) batch * (size_t) length;
    size_t narrow = rows * (size_t) gpt->config.n_embd, heads = rows * (size_t) gpt->config.n_head;
    size_t logits = (rows < LOGIT_ROWS ? rows : LOGIT_ROWS) * (size_t) gpt->config.vocab_size;
    if (gpt->memory && batch == gpt->batch && length == gpt->length)
        return;
    free (gpt->memory);
    float *next = gpt->memory = zeroed (layers * (10 * narrow + heads) + 12 * narrow + rows + logits, sizeof *next);
    for (size_t i = 0; i < layers; i++)
        gpt->blocks[i] = (struct gpt_block){
            .tensors = gpt->tensors + MODEL_TENSORS + i * BLOCK_TENSORS, .input = take (&next, narrow), .middle = take (&next, narrow),
            .qkv = take (&next, 3 * narrow), .attended = take (&next, narrow), .norms = take (&next, heads),
            .hidden = take (&next, 4 * narrow) };
    gpt->blocks[layers].input = take (&next, narrow);
    gpt->wide = take (&next, 4 * narrow);
    gpt->wide_grad = take (&next, 4 * narrow);
    gpt->narrow = take (&next, narrow);
    gpt->narrow_grad = take (&next, narrow);
    gpt->grad = take (&next, narrow);
    gpt->losses = take (&next, rows);
    gpt->logits = take (&next, logits);
    gpt->batch = batch;
    gpt->length = length;
}

/* Of each sequence, the tokens from shape->first on. */
static void
forward_block (struct gpt *gpt, const struct gpt_block *b, const struct shape *shape)
{
    const struct gpt_tensor *w = b->tensors;
    long rows = shape->rows, count = rows * shape->width;
    layer_norm (gpt->narrow, b->input, w + LN_1, shape);
    linear (b->qkv + shape->first * 3 * shape->width, gpt->narrow, w + ATTN, rows);
    attention (b->attended, b->norms, b->qkv, shape);
    linear (gpt->narrow, b->attended, w + ATTN_PROJ, rows);
    add (b->middle, b->input, gpt->narrow, count);
    layer_norm (gpt->narrow, b->middle, w + LN_2, shape);
    linear (b->hidden, gpt->narrow, w + FC, rows);
    gelu (gpt->wide, b->hidden, 4 * count);
    linear (gpt->narrow, gpt->wide, w + MLP_PROJ, rows);
    add (b[1].input, b->middle, gpt->narrow, count);
}

/* gpt->grad: of the block's output, then of its input.  What is cheap to compute was not kept. */
static void
backward_block (struct gpt *gpt, const struct gpt_block *b, const struct shape *shape)
{
    const struct gpt_tensor *w = b->tensors;
    long rows = shape->rows, count = rows * shape->width;
    gelu (gpt->wide, b->hidden, 4 * count);
    linear_backward (gpt->wide_grad, gpt->grad, gpt->wide, w + MLP_PROJ, rows);
    gelu_backward (gpt->wide_grad, b->hidden, 4 * count);
    layer_norm (gpt->narrow, b->middle, w + LN_2, shape);
    linear_backward (gpt->narrow_grad, gpt->wide_grad, gpt->narrow, w + FC, rows);
    layer_norm_backward (gpt->grad, gpt->wide, gpt->narrow_grad, b->middle, w + LN_2, shape);
    linear_backward (gpt->narrow_grad, gpt->grad, b->attended, w + ATTN_PROJ, rows);
    attention_backward (gpt->wide_grad, gpt->narrow_grad, b->qkv, b->norms, shape);
    layer_norm (gpt->narrow, b->input, w + LN_1, shape);
    linear_backward (gpt->narrow_grad, gpt->wide_grad, gpt->narrow, w + ATTN, rows);
    layer_norm_backward (gpt->grad, gpt->wide, gpt->narrow_grad, b->input, w + LN_1, shape);
}

static void
forward (struct gpt *gpt, const int32_t *tokens, const struct shape *shape)
{
    embed (gpt->blocks->input, gpt->tensors + WTE, tokens, shape);
    for (int layer = 0; layer < gpt->config.n_layer; layer++)
        forward_block (gpt, &gpt->blocks[layer], shape);
    layer_norm (gpt->narrow, gpt->blocks[gpt->config.n_layer].input, gpt->tensors + LN_F, shape);
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
    memset (gpt->grad, 0, (size_t) (shape->rows * shape->width) * sizeof *gpt->grad);
    layer_norm_backward (gpt->grad, gpt->wide, gpt->narrow_grad, gpt->blocks[layer].input, gpt->tensors + LN_F, shape);
    report (gpt, LN_F, 2);
    while (layer-- > 0) {
        backward_block (gpt, &gpt->blocks[layer], shape);
        report (gpt, MODEL_TENSORS + layer * BLOCK_TENSORS, BLOCK_TENSORS);
    }
    embed_backward (gpt->grad, gpt->tensors + WTE, tokens, shape);
    report (gpt, WTE, 2);
}

float
gpt_loss (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length, float scale)
{
    const struct shape shape = { batch, length, gpt->config.n_head, gpt->config.n_embd, 0, batch * length };
    double loss = 0;
    reserve (gpt, batch, length);
#pragma omp parallel
    {
        forward (gpt, tokens, &shape);
        cross_entropy (gpt->losses, scale > 0 ? gpt->narrow_grad : NULL, gpt->logits, gpt->narrow, gpt->tensors + WTE,
                       labels, shape.rows, scale);
        if (scale > 0)
            backward (gpt, tokens, &shape);
    }
    for (long i = 0; i < shape.rows; i++)
        loss += (double) gpt->losses[i];
    return (float) (loss / (double) shape.rows);
}

const float *
gpt_next (struct gpt *gpt, int32_t token)
{
    const struct shape shape
        = { 1, gpt->count + 1, gpt->config.n_head, gpt->config.n_embd, gpt->count, 1 };
    reserve (gpt, 1, gpt->config.n_positions);
#pragma omp parallel
    {
        forward (gpt, &token, &shape);
        logits_of (gpt->logits, gpt->narrow, gpt->tensors + WTE, 1);
    }
    gpt->count++;
    return gpt->logits;
}
