/* SPDX-License-Identifier: Apache-2.0 */
/* What inference and training need besides the weights: keys and values of the context; gradients and states of
 * optimizers, divided among processes by ZeRO (https://arxiv.org/abs/1910.02054). */
#include <config.h>

#include "cli/estimate.h"

#include <string.h>

#define MOST_BITS ((uint64_t) 1 << 62)

/* ---- keys and values ---- */

struct attention {
    uint64_t layers;    /* that have keys and values */
    uint64_t per_token; /* elements of one layer */
    uint64_t window;    /* tokens that a layer with a window keeps; 0: there are none */
    uint64_t windowed;  /* layers with a window */
};

static uint64_t
first_of (const struct estimate_model *model, const char *const *keys)
{
    uint64_t value = 0;
    for (; *keys && !value; keys++)
        value = estimate_number (model, *keys, 0);
    return value;
}

static bool
is_true (const struct estimate_model *model, const char *key)
{
    const struct node *node = estimate_find (model, key);
    return node && node->kind == NODE_BOOL && !strcmp (node->text, "True");
}

static bool
is_one_of (const char *text, const char *const *words)
{
    while (*words && strcmp (text, *words) != 0)
        words++;
    return *words != NULL;
}

/* One word for each layer. */
static void
read_layer_types (const struct estimate_model *model, const struct node *types, struct attention *attention)
{
    static const char *const windowed[] = { "sliding_attention", "chunked_attention", NULL };
    static const char *const without[] = { "linear_attention", "mamba", "conv", "recurrent", "moe", "mlp", NULL };
    uint64_t others = 0;
    bool is_chunked = false;
    for (size_t i = 0; i < types->count && i < attention->layers; i++) {
        const char *type = types->items[i].text ? types->items[i].text : "";
        attention->windowed += is_one_of (type, windowed);
        others += is_one_of (type, without);
        is_chunked |= !strcmp (type, windowed[1]);
    }
    if (is_chunked)
        attention->window = estimate_number (model, "attention_chunk_size", 0);
    attention->layers -= others;
}

/* Every so many layers, one keeps the whole context: by the configuration, or else by the type, as in transformers.
 * EXAONE 4 has a letter for each: "LLLG". */
static uint64_t
find_pattern (const struct estimate_model *model)
{
    static const struct {
        const char *type;
        uint64_t pattern;
    } usual[] = { { "gemma2", 2 }, { "gemma3", 6 }, { "gemma3_text", 6 }, { "cohere2", 4 }, { "gpt_oss", 2 } };
    const struct node *letters = estimate_find (model, "sliding_window_pattern");
    const char *type = estimate_text (model, "model_type");
    uint64_t pattern = 0;
    if (letters && letters->kind == NODE_TEXT)
        return strlen (letters->text);
    for (size_t i = 0; type && i < sizeof usual / sizeof *usual; i++)
        if (!strcmp (usual[i].type, type))
            pattern = usual[i].pattern;
    pattern = estimate_number (model, "_sliding_window_pattern", pattern);
    return estimate_number (model, "sliding_window_pattern", pattern);
}

/* Which layers keep only the last tokens; as transformers derives it if it is not listed. */
static void
find_windows (const struct estimate_model *model, struct attention *attention)
{
    const struct node *types = estimate_find (model, "layer_types"), *use = estimate_find (model, "use_sliding_window");
    uint64_t pattern = find_pattern (model), whole = 0;
    attention->window = estimate_number (model, "sliding_window", 0);
    if (types && types->kind == NODE_LIST) {
        read_layer_types (model, types, attention);
        return;
    }
    if (!attention->window || (use && use->kind == NODE_BOOL && !is_true (model, "use_sliding_window")))
        return;
    if (use && use->kind == NODE_BOOL)
        whole = estimate_number (model, "max_window_layers", 0);
    else if (pattern)
        whole = attention->layers / pattern;
    attention->windowed = whole < attention->layers ? attention->layers - whole : 0;
}

static void
read_config (const struct estimate_model *model, struct attention *attention)
{
    static const char *const layers[] = { "num_hidden_layers", "n_layer", "num_layers", "n_layers", NULL };
    static const char *const heads[] = { "num_attention_heads", "n_head", "num_heads", "n_heads", NULL };
    static const char *const sizes[] = { "hidden_size", "n_embd", "d_model", NULL };
    uint64_t head_count = first_of (model, heads);
    uint64_t head = estimate_number (model, "head_dim", head_count ? first_of (model, sizes) / head_count : 0);
    uint64_t pairs
        = estimate_number (model, "num_key_value_heads", estimate_number (model, "num_kv_heads", head_count));
    uint64_t latent = estimate_number (model, "kv_lora_rank", 0);
    attention->layers = first_of (model, layers);
    if (is_true (model, "multi_query") && !is_true (model, "new_decoder_architecture")) /* as in Falcon */
        pairs = 1;
    attention->per_token = latent ? latent + estimate_number (model, "qk_rope_head_dim", 0) : 2 * pairs * head;
    find_windows (model, attention);
}

/* GGUF files leave to llama.cpp which layers have windows, unless they have a list: the last of so many keeps all.
 * Where it knows no pattern, it ignores the window. */
static void
find_gguf_windows (const struct gguf_facts *facts, struct attention *attention)
{
    static const struct {
        const char *architecture;
        uint64_t pattern, window; /* without a number in the file */
    } usual[] = { { "afmoe", 4, 0 },   { "cohere2", 4, 0 }, { "exaone4", 4, 0 },         { "gemma-embedding", 6, 0 },
                  { "gemma2", 2, 4096 }, { "gemma3", 6, 0 },  { "gemma3n", 5, 0 },       { "gpt-oss", 2, 0 },
                  { "llama4", 4, 8192 }, { "olmo2", 4, 0 },   { "plamo3", 8, 0 } };
    uint64_t pattern = facts->pattern, layers = attention->layers;
    bool is_known = facts->has_pattern;
    attention->window = facts->window;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!strcmp (usual[i].architecture, facts->architecture)) {
            is_known = true;
            pattern = facts->has_pattern ? pattern : usual[i].pattern;
            attention->window = facts->has_window ? facts->window : usual[i].window;
        }
    if (!attention->window || !is_known)
        return;
    if (facts->lists_windows)
        attention->windowed = pattern < layers ? pattern : layers;
    else
        attention->windowed = pattern ? layers - layers / pattern : layers;
}

static void
read_facts (const struct gguf_facts *facts, struct attention *attention)
{
    uint64_t head = facts->heads ? facts->embedding / facts->heads : 0;
    uint64_t keys = facts->key_length ? facts->key_length : head;
    uint64_t values = facts->value_length ? facts->value_length : head;
    uint64_t pairs = facts->kv_heads ? facts->kv_heads : facts->heads;
    attention->layers = facts->layers;
    find_gguf_windows (facts, attention);
    if (__builtin_add_overflow (keys, values, &keys) || __builtin_mul_overflow (pairs, keys, &attention->per_token))
        attention->per_token = 0;
}

int
estimate_cache (const struct estimate_model *model, uint64_t context, unsigned bits, uint64_t *bytes,
                struct fail *fail)
{
    struct attention attention = { 0 };
    uint64_t kept, elements;
    if (model->is_gguf)
        read_facts (&model->facts, &attention);
    else
        read_config (model, &attention);
    if (!attention.layers || !attention.per_token)
        return fail_set (fail, FAIL_GENERAL, "--context_length: the model's configuration does not say how many layers "
                         "and heads it has");
    kept = attention.window && attention.window < context ? attention.window : context;
    if (__builtin_mul_overflow (attention.layers - attention.windowed, context, &elements)
        || __builtin_mul_overflow (attention.windowed, kept, &kept)
        || __builtin_add_overflow (elements, kept, &elements)
        || __builtin_mul_overflow (elements, attention.per_token, &elements)
        || __builtin_mul_overflow (elements, bits, &elements) || elements > MOST_BITS)
        return fail_set (fail, FAIL_GENERAL, "--context_length: too large: size overflows");
    *bytes = elements / 8;
    return 0;
}

/* ---- training ---- */

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

struct estimate_training
estimate_train (uint64_t parameters, const char *optimizer, const char *precision, int64_t zero_stage,
                int64_t processes)
{
    struct estimate_training training = { 0 };
    bool is_mixed = strcmp (precision, "no") != 0;
    uint64_t count = processes > 0 ? (uint64_t) processes : 1, gradient = is_mixed ? 2 : 4;
    uint64_t weight = !strcmp (precision, "fp8") ? 1 : gradient;
    uint64_t state = is_mixed ? 4 : 0; /* the float32 masters of parameters with fewer bits */
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (!strcmp (optimizers[i].name, optimizer))
            state += optimizers[i].bytes;
    training.weights = share (parameters * weight, zero_stage >= 3, count);
    training.gradients = share (parameters * gradient, zero_stage >= 2, count);
    training.optimizer = share (parameters * state, zero_stage >= 1, count);
    return training;
}
