/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: its tensors, the way through its layers and back, and how it writes. */
#include "gpt.h"
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call) accel_check ((call), &err)
static struct accel_error err;

/* ---- tensors ---- */

/* All that there is to know of a tensor: its sizes, in widths, and the deviation of its first values. */
static const struct kind {
    const char *name;
    int rows, columns; /* 0: no such dimension */
    enum { ZEROS, ONES, NORMAL, RESIDUAL /* smaller, before a sum with what went in */ } init;
} kinds[GPT_KINDS] = {
    [WTE] = { "wte.weight", 0, 1, NORMAL }, /* vocab_size rows */
    [WPE] = { "wpe.weight", 0, 1, NORMAL }, /* n_positions rows */
    [LN_F_WEIGHT] = { "ln_f.weight", 1, 0, ONES },
    [LN_F_BIAS] = { "ln_f.bias", 1, 0, ZEROS },
    [LN_1_WEIGHT] = { "ln_1.weight", 1, 0, ONES },
    [LN_1_BIAS] = { "ln_1.bias", 1, 0, ZEROS },
    [ATTN_WEIGHT] = { "attn.c_attn.weight", 1, 3, NORMAL },
    [ATTN_BIAS] = { "attn.c_attn.bias", 3, 0, ZEROS },
    [ATTN_PROJ_WEIGHT] = { "attn.c_proj.weight", 1, 1, RESIDUAL },
    [ATTN_PROJ_BIAS] = { "attn.c_proj.bias", 1, 0, ZEROS },
    [LN_2_WEIGHT] = { "ln_2.weight", 1, 0, ONES },
    [LN_2_BIAS] = { "ln_2.bias", 1, 0, ZEROS },
    [FC_WEIGHT] = { "mlp.c_fc.weight", 1, 4, NORMAL },
    [FC_BIAS] = { "mlp.c_fc.bias", 4, 0, ZEROS },
    [MLP_PROJ_WEIGHT] = { "mlp.c_proj.weight", 4, 1, RESIDUAL },
    [MLP_PROJ_BIAS] = { "mlp.c_proj.bias", 1, 0, ZEROS },
};

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
    return memory ? memory : (die ("no memory for %zu x %zu bytes", count, bytes), NULL);
}

static void
initialize (const DLTensor *master, const struct kind *kind, int layers, struct accel_generator *generator)
{
    float *values = master->data;
    size_t count = accel_tensor_count (master);
    double deviation = kind->init == RESIDUAL ? 0.02 / sqrt (2.0 * layers) : 0.02;
    if (kind->init >= NORMAL)
        TRY (accel_generator_fill_normal (generator, values, count, ACCEL_FLOAT32, 0, deviation, &err));
    for (size_t i = 0; i < count && kind->init == ONES; i++)
        values[i] = 1;
}

void
gpt_create (struct gpt *gpt, const struct gpt_config *config, enum accel_dtype dtype,
            struct accel_generator *generator)
{
    size_t count = GPT_MODEL_TENSORS + (size_t) config->n_layer * GPT_BLOCK_TENSORS;
    struct accel_parameter *parameters = zeroed (count, sizeof *parameters);
    const struct kind **kind_of = zeroed (count, sizeof *kind_of);
    *gpt = (struct gpt){ .config = *config, .tensor_count = count,
                         .tensors = zeroed (count, sizeof *gpt->tensors) };
    for (size_t i = 0; i < count; i++) {
        struct gpt_tensor *tensor = &gpt->tensors[i];
        int layer = ((int) i - GPT_MODEL_TENSORS) / GPT_BLOCK_TENSORS;
        const struct kind *kind = kind_of[i] = &kinds[(int) i - layer * GPT_BLOCK_TENSORS];
        int64_t rows = i == WTE ? config->vocab_size : i == WPE ? config->n_positions : kind->rows * config->n_embd;
        const int64_t shape[] = { rows, kind->columns * config->n_embd };
        if (i < GPT_MODEL_TENSORS)
            snprintf (tensor->name, sizeof tensor->name, "%s", kind->name);
        else
            snprintf (tensor->name, sizeof tensor->name, "h.%d.%s", layer, kind->name);
        int ndim = kind->columns ? 2 : 1;
        TRY (accel_tensor_init (&tensor->data, ndim == 2 ? dtype : ACCEL_FLOAT32, ndim, shape, &err));
        TRY (accel_tensor_init (&tensor->grad, ACCEL_FLOAT32, ndim, shape, &err));
        parameters[i] = (struct accel_parameter){ tensor->name, &tensor->data.dl, &tensor->grad.dl };
        gpt->parameters += accel_tensor_count (&tensor->data.dl);
    }
    TRY (accel_model_create (&gpt->model, parameters, count, &err));
    TRY (accel_model_set_file_names (gpt->model, file_names, sizeof file_names / sizeof *file_names, &err));
    for (size_t i = 0; i < count; i++)
        initialize (accel_model_master (gpt->model, i), kind_of[i], config->n_layer, generator);
    accel_model_narrow (gpt->model);
    free (kind_of);
    free (parameters);
}

void
gpt_destroy (struct gpt *gpt)
{
    accel_model_destroy (gpt->model);
    free (gpt->tensors);
    free (gpt->memory);
    free (gpt->keys);
}

/* ---- through the layers, and back ---- */

static void
reserve (struct gpt *gpt, int batch, int length)
{
    if (gpt->memory && batch == gpt->batch && length == gpt->length)
        return;
    size_t layers = (size_t) gpt->config.n_layer, rows = (size_t) batch * (size_t) length, count = 0;
    size_t narrow = rows * (size_t) gpt->config.n_embd;
    const struct {
        float **at;
        size_t count;
    } parts[] = { { &gpt->inputs, (layers + 1) * narrow }, { &gpt->middles, layers * narrow },
                  { &gpt->qkv, layers * 3 * narrow }, { &gpt->attended, layers * narrow },
                  { &gpt->norms, layers * rows * (size_t) gpt->config.n_head }, { &gpt->hidden, layers * 4 * narrow },
                  { &gpt->wide, 4 * narrow }, { &gpt->wide_grad, 4 * narrow }, { &gpt->narrow, narrow },
                  { &gpt->narrow_grad, narrow }, { &gpt->grad, narrow } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        count += parts[i].count;
    free (gpt->memory);
    float *next = gpt->memory = zeroed (count, sizeof *gpt->memory);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; next += parts[i++].count)
        *parts[i].at = next;
    gpt->batch = batch;
    gpt->length = length;
}

/* What a block has, and what it keeps of its pass. */
struct block {
    const struct gpt_tensor *tensors;
    float *input, *middle, *output, *qkv, *attended, *norms, *hidden;
    struct attention shape;
    int rows, width;
    size_t narrow; /* elements: rows * width */
};

static struct block
block_of (const struct gpt *gpt, int layer)
{
    size_t rows = (size_t) gpt->batch * (size_t) gpt->length, narrow = rows * (size_t) gpt->config.n_embd;
    size_t at = (size_t) layer;
    return (struct block){ .tensors = gpt->tensors + layer * GPT_BLOCK_TENSORS, .input = gpt->inputs + at * narrow,
                           .middle = gpt->middles + at * narrow, .output = gpt->inputs + (at + 1) * narrow,
                           .qkv = gpt->qkv + at * 3 * narrow, .attended = gpt->attended + at * narrow,
                           .norms = gpt->norms + at * rows * (size_t) gpt->config.n_head,
                           .hidden = gpt->hidden + at * 4 * narrow, .rows = (int) rows, .width = gpt->config.n_embd,
                           .shape = { gpt->batch, gpt->length, gpt->config.n_head, gpt->config.n_embd },
                           .narrow = narrow };
}

/* to = x + y */
static void
add (float *to, const float *x, const float *y, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++)
        to[i] = x[i] + y[i];
}

#define W(kind) ((const void *) b.tensors[kind].data.dl.data)
#define G(kind) ((float *) b.tensors[kind].grad.dl.data)

/* Of the text that is written, the one new token, whose keys and values join the others. */
static void
attend_text (struct gpt *gpt, const struct block *b, int layer)
{
    size_t width = (size_t) b->width, first = (size_t) layer * (size_t) gpt->config.n_positions * width;
    size_t place = first + (size_t) gpt->count * width;
    memcpy (gpt->keys + place, b->qkv + width, width * sizeof *gpt->keys);
    memcpy (gpt->values + place, b->qkv + 2 * width, width * sizeof *gpt->values);
    attention_step (b->attended, b->qkv, gpt->keys + first, gpt->values + first, gpt->count + 1, gpt->config.n_head,
                    b->width);
}

static void
forward_block (struct gpt *gpt, int layer, bool writes)
{
    const struct block b = block_of (gpt, layer);
    layer_norm (gpt->narrow, b.input, W (LN_1_WEIGHT), W (LN_1_BIAS), b.rows, b.width);
    linear (b.qkv, gpt->narrow, W (ATTN_WEIGHT), W (ATTN_BIAS), b.rows, b.width, 3 * b.width);
    if (writes)
        attend_text (gpt, &b, layer);
    else
        attention (b.attended, b.norms, b.qkv, &b.shape);
    linear (gpt->narrow, b.attended, W (ATTN_PROJ_WEIGHT), W (ATTN_PROJ_BIAS), b.rows, b.width, b.width);
    add (b.middle, b.input, gpt->narrow, b.narrow);
    layer_norm (gpt->narrow, b.middle, W (LN_2_WEIGHT), W (LN_2_BIAS), b.rows, b.width);
    linear (b.hidden, gpt->narrow, W (FC_WEIGHT), W (FC_BIAS), b.rows, b.width, 4 * b.width);
    gelu (gpt->wide, b.hidden, 4 * b.narrow);
    linear (gpt->narrow, gpt->wide, W (MLP_PROJ_WEIGHT), W (MLP_PROJ_BIAS), b.rows, 4 * b.width, b.width);
    add (b.output, b.middle, gpt->narrow, b.narrow);
}

/* gpt->grad: of the block's output, then of its input.  What is cheap to compute was not kept. */
static void
backward_block (struct gpt *gpt, int layer)
{
    const struct block b = block_of (gpt, layer);
    gelu (gpt->wide, b.hidden, 4 * b.narrow);
    linear_backward (gpt->wide_grad, G (MLP_PROJ_WEIGHT), G (MLP_PROJ_BIAS), gpt->grad, gpt->wide, W (MLP_PROJ_WEIGHT),
                     b.rows, 4 * b.width, b.width);
    gelu_backward (gpt->wide_grad, b.hidden, 4 * b.narrow);
    layer_norm (gpt->narrow, b.middle, W (LN_2_WEIGHT), W (LN_2_BIAS), b.rows, b.width);
    linear_backward (gpt->narrow_grad, G (FC_WEIGHT), G (FC_BIAS), gpt->wide_grad, gpt->narrow, W (FC_WEIGHT), b.rows,
                     b.width, 4 * b.width);
    layer_norm_backward (gpt->grad, G (LN_2_WEIGHT), G (LN_2_BIAS), gpt->narrow_grad, b.middle, W (LN_2_WEIGHT), b.rows,
                         b.width);
    linear_backward (gpt->narrow_grad, G (ATTN_PROJ_WEIGHT), G (ATTN_PROJ_BIAS), gpt->grad, b.attended,
                     W (ATTN_PROJ_WEIGHT), b.rows, b.width, b.width);
    attention_backward (gpt->wide_grad, gpt->narrow_grad, b.qkv, b.norms, &b.shape);
    layer_norm (gpt->narrow, b.input, W (LN_1_WEIGHT), W (LN_1_BIAS), b.rows, b.width);
    linear_backward (gpt->narrow_grad, G (ATTN_WEIGHT), G (ATTN_BIAS), gpt->wide_grad, gpt->narrow, W (ATTN_WEIGHT),
                     b.rows, b.width, 3 * b.width);
    layer_norm_backward (gpt->grad, G (LN_1_WEIGHT), G (LN_1_BIAS), gpt->narrow_grad, b.input, W (LN_1_WEIGHT), b.rows,
                         b.width);
}

/* The gradients of the tensors from @p first on are complete.  A failure is also the status of accel_backward(). */
static void
report (struct gpt *gpt, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        (void) accel_grad_ready (gpt->model, i, &err);
}

float
gpt_loss (struct gpt *gpt, const int32_t *tokens, const int32_t *labels, int batch, int length, float scale)
{
    reserve (gpt, batch, length);
    const struct block b = { .tensors = gpt->tensors }; /* for the model's own tensors */
    const struct block last = block_of (gpt, gpt->config.n_layer);
    embed (gpt->inputs, W (WTE), W (WPE), tokens, last.rows, 0, length, last.width);
    for (int layer = 0; layer < gpt->config.n_layer; layer++)
        forward_block (gpt, layer, false);
    layer_norm (gpt->narrow, last.input, W (LN_F_WEIGHT), W (LN_F_BIAS), last.rows, last.width);
    float loss = cross_entropy (scale > 0 ? gpt->narrow_grad : NULL, G (WTE), gpt->narrow, W (WTE), labels, last.rows,
                                last.width, gpt->config.vocab_size, scale);
    if (!(scale > 0))
        return loss;
    memset (gpt->grad, 0, last.narrow * sizeof *gpt->grad);
    layer_norm_backward (gpt->grad, G (LN_F_WEIGHT), G (LN_F_BIAS), gpt->narrow_grad, last.input, W (LN_F_WEIGHT),
                         last.rows, last.width);
    report (gpt, LN_F_WEIGHT, 2);
    for (int layer = gpt->config.n_layer; layer-- > 0;) {
        backward_block (gpt, layer);
        report (gpt, (size_t) (GPT_MODEL_TENSORS + layer * GPT_BLOCK_TENSORS), GPT_BLOCK_TENSORS);
    }
    embed_backward (G (WTE), G (WPE), gpt->grad, tokens, last.rows, length, last.width);
    report (gpt, WTE, 2);
    return loss;
}

/* ---- one token after the other ---- */

void
gpt_next (float *logits, struct gpt *gpt, int32_t token)
{
    const struct block b = { .tensors = gpt->tensors };
    int width = gpt->config.n_embd;
    size_t count = (size_t) gpt->config.n_layer * (size_t) gpt->config.n_positions * (size_t) width;
    reserve (gpt, 1, 1);
    if (!gpt->keys)
        gpt->keys = zeroed (2 * count, sizeof *gpt->keys);
    gpt->values = gpt->keys + count;
    embed (gpt->inputs, W (WTE), W (WPE), &token, 1, gpt->count, 1, width);
    for (int layer = 0; layer < gpt->config.n_layer; layer++)
        forward_block (gpt, layer, true);
    gpt->count++;
    layer_norm (gpt->narrow, block_of (gpt, gpt->config.n_layer).input, W (LN_F_WEIGHT), W (LN_F_BIAS), 1, width);
    logits_of (logits, gpt->narrow, W (WTE), 1, width, gpt->config.vocab_size);
}

struct candidate {
    float logit; /* then the exponential */
    int32_t token;
};

static int
compare_candidates (const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    return one->logit != other->logit ? (one->logit < other->logit ? 1 : -1) : one->token - other->token;
}

int32_t
gpt_choose (const float *logits, const struct options *options, struct accel_generator *generator)
{
    int vocab = options->config.vocab_size, count = 0, chosen = 0;
    int most = options->temperature <= 0 ? 1 : options->top_k > 0 && options->top_k < vocab ? options->top_k : vocab;
    struct candidate *all = zeroed ((size_t) vocab, sizeof *all);
    float sum = 0, kept = 0, share = options->top_p > 0 ? (float) options->top_p : 1;
    for (int i = 0; i < vocab; i++)
        all[i] = (struct candidate){ logits[i], i };
    qsort (all, (size_t) vocab, sizeof *all, compare_candidates);
    for (int i = most; i-- > 0;)
        sum += all[i].logit = expf ((all[i].logit - all[0].logit)
                                    / (options->temperature > 0 ? (float) options->temperature : 1));
    do
        kept += all[count++].logit;
    while (count < most && kept < share * sum);
    float left = kept * accel_generator_uniform (generator);
    while (chosen < count - 1 && left >= all[chosen].logit)
        left -= all[chosen++].logit;
    int32_t token = all[chosen].token;
    free (all);
    return token;
}
