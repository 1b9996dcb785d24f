/* SPDX-License-Identifier: Apache-2.0 */
/* The keys and values of a context, layer by layer: some layers keep only a window, some use those of another layer,
 * some have none.  What config.json does not list is derived as in transformers; what a GGUF file does not say, as in
 * llama.cpp. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BITS ((uint64_t) 1 << 62)

enum { MOST_LAYERS = GGUF_MOST_LAYERS };

struct layer {
    uint64_t elements; /* that it keeps of each token; 0: it has no keys and values of its own */
    bool has_window;
};

struct attention {
    struct layer layers[MOST_LAYERS];
    uint64_t count;
    uint64_t window; /* tokens that a layer with a window keeps; 0: all */
};

static void
keep_nothing (struct layer *layer, bool keeps_something)
{
    if (!keeps_something)
        layer->elements = 0;
}

/* The last layers use the keys and values of earlier ones. */
static void
drop_last (struct attention *attention, uint64_t shared)
{
    for (uint64_t i = 0; i < attention->count; i++)
        keep_nothing (&attention->layers[i], shared < attention->count - i);
}

/* Every @p pattern layers, the last one keeps the whole context. */
static void
add_windows (struct attention *attention, uint64_t pattern)
{
    for (uint64_t i = 0; i < attention->count; i++)
        attention->layers[i].has_window = !pattern || (i + 1) % pattern;
}

/* ---- config.json ---- */

static uint64_t
first_of (const struct estimate_model *model, const char *const *keys)
{
    uint64_t value = 0;
    for (; *keys && !value; keys++)
        value = estimate_number (model, *keys, 0);
    return value;
}

static const struct node *
find_list (const struct estimate_model *model, const char *key)
{
    const struct node *list = estimate_find (model, key);
    return list && list->kind == NODE_LIST && list->count ? list : NULL;
}

/* @param type  also of the language model of one with pictures, whose type ends in "_text" */
static bool
is_type (const struct estimate_model *model, const char *type)
{
    const char *own = estimate_text (model, "model_type");
    size_t length = strlen (type);
    return own && !strncmp (own, type, length) && (!own[length] || !strcmp (own + length, "_text"));
}

/* A list with a word for each layer; a shorter one is repeated. */
static bool
read_words (const struct estimate_model *model, struct attention *attention)
{
    static const char *const keys[] = { "layer_types", "layers_block_type", "block_types", NULL };
    static const char *const windowed[]
        = { "sliding_attention", "chunked_attention", "hybrid_sliding", "reference_sliding_attention", NULL };
    static const char *const without[]
        = { "linear_attention", "mamba", "mamba2", "conv", "recurrent", "moe", "mlp", NULL };
    const struct node *list = NULL;
    size_t key = 0;
    while (keys[key] && !(list = find_list (model, keys[key])))
        key++;
    for (uint64_t i = 0; list && i < attention->count; i++) {
        const struct node *item = &list->items[i % list->count];
        const char *word = item->text ? item->text : "";
        struct layer *layer = &attention->layers[i];
        if (!strcmp (word, "chunked_attention"))
            attention->window = estimate_number (model, "attention_chunk_size", 0);
        layer->has_window = text_is_one_of (word, windowed);
        keep_nothing (layer, !text_is_one_of (word, without));
    }
    if (list && !strcmp (keys[key], "block_types")) { /* RecurrentGemma: each attention has a window */
        attention->window = estimate_number (model, "attention_window_size", 2048);
        add_windows (attention, 0);
    }
    return list != NULL;
}

/* Lists of the layers that have keys and values, counted from @p first. */
static bool
read_numbers (const struct node *list, uint64_t first, struct attention *attention)
{
    for (uint64_t i = 0; list && i < attention->count; i++) {
        bool is_listed = false;
        for (size_t j = 0; j < list->count && !is_listed; j++)
            is_listed = list->items[j].kind == NODE_INT
                        && strtoull (list->items[j].text, NULL, 10) == (unsigned long long) (i + first);
        keep_nothing (&attention->layers[i], is_listed);
    }
    return list != NULL;
}

/* Models that have keys and values only in some layers, and do not list a word for each. */
static bool
read_hybrid (const struct estimate_model *model, struct attention *attention)
{
    const struct node *indices = find_list (model, "attn_layer_indices"), *flags = find_list (model, "attn_type_list");
    const struct node *letters = estimate_find (model, "hybrid_override_pattern");
    const struct node *kimi = estimate_find (model, "linear_attn_config");
    const struct node *full = kimi && kimi->kind == NODE_MAP ? node_find (kimi, "full_attn_layers") : NULL;
    uint64_t period = estimate_number (model, "attn_layer_period", 0), offset = period - 1;
    if (period)
        offset = estimate_number (model, "attn_layer_offset", 0);
    else if ((period = estimate_number (model, "full_attention_interval", is_type (model, "qwen3_next") ? 4 : 0)))
        offset = period - 1;
    indices = indices ? indices : find_list (model, "full_attn_idxs");
    if (read_numbers (indices, 0, attention)
        || read_numbers (full && full->kind == NODE_LIST ? full : NULL, 1, attention))
        return true;
    bool has_letters = letters && letters->kind == NODE_TEXT;
    if (!has_letters && !flags && !period)
        return false;
    for (uint64_t i = 0; i < attention->count; i++) {
        bool is_attention;
        if (has_letters)
            is_attention = i < strlen (letters->text) && letters->text[i] == '*';
        else if (flags)
            is_attention = i < flags->count && flags->items[i].text && !strcmp (flags->items[i].text, "1");
        else
            is_attention = i % period == offset;
        keep_nothing (&attention->layers[i], is_attention);
    }
    return true;
}

/* Every so many layers, one keeps the whole context: by the configuration, or else by the type.  EXAONE 4 has a letter
 * for each: "LLLG". */
static uint64_t
find_pattern (const struct estimate_model *model)
{
    static const struct {
        const char *type;
        uint64_t pattern;
    } usual[] = { { "gemma2", 2 }, { "gemma3", 6 }, { "gemma3n", 5 }, { "gemma4", 6 }, { "cohere2", 4 }, { "olmo3", 4 },
                  { "gpt_oss", 2 } };
    const struct node *letters = estimate_find (model, "sliding_window_pattern");
    uint64_t pattern = 0;
    if (letters && letters->kind == NODE_TEXT)
        return strlen (letters->text);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (is_type (model, usual[i].type))
            pattern = usual[i].pattern;
    pattern = estimate_number (model, "_sliding_window_pattern", pattern);
    return estimate_number (model, "sliding_window_pattern", pattern);
}

/* Llama 4 keeps a chunk in the layers with positions. */
static void
find_chunks (const struct estimate_model *model, struct attention *attention)
{
    const struct node *flags = find_list (model, "no_rope_layers"); /* 0: it has no positions */
    attention->window = estimate_number (model, "attention_chunk_size", 8192);
    add_windows (attention, estimate_number (model, "no_rope_layer_interval", 4));
    for (uint64_t i = 0; flags && i < attention->count && i < flags->count; i++)
        attention->layers[i].has_window = flags->items[i].text && strcmp (flags->items[i].text, "0") != 0;
}

/* Which layers keep only the last tokens, or nothing. */
static void
find_kinds (const struct estimate_model *model, struct attention *attention)
{
    const struct node *use = estimate_find (model, "use_sliding_window");
    bool has_flag = use && use->kind == NODE_BOOL;
    uint64_t pattern = find_pattern (model);
    attention->window = estimate_number (model, "sliding_window", 0);
    if (read_words (model, attention) || read_hybrid (model, attention))
        return;
    if (is_type (model, "llama4"))
        find_chunks (model, attention);
    else if (attention->window && has_flag && estimate_is_true (model, "use_sliding_window"))
        for (uint64_t i = estimate_number (model, "max_window_layers", 0); i < attention->count; i++)
            attention->layers[i].has_window = true;
    else if (attention->window && !has_flag)
        add_windows (attention, pattern);
}

/* Layers of Gemma 4 that keep the whole context have heads of their own. */
static void
widen_whole (const struct estimate_model *model, struct attention *attention, uint64_t pairs)
{
    const struct node *is_equal = estimate_find (model, "attention_k_eq_v");
    if (!is_type (model, "gemma4"))
        return;
    if (is_equal && estimate_is_true (model, "attention_k_eq_v"))
        pairs = estimate_number (model, "num_global_key_value_heads", pairs);
    if (attention->count) /* as transformers forces it */
        attention->layers[attention->count - 1].has_window = false;
    for (uint64_t i = 0; i < attention->count; i++)
        if (!attention->layers[i].has_window)
            attention->layers[i].elements = 2 * pairs * estimate_number (model, "global_head_dim", 512);
}

static void
read_config (const struct estimate_model *model, struct attention *attention)
{
    static const char *const layers[] = { "num_hidden_layers", "n_layer", "num_layers", "n_layers", NULL };
    static const char *const heads[]
        = { "num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads", NULL };
    static const char *const sizes[] = { "hidden_size", "n_embd", "n_embed", "d_model", NULL };
    static const char *const head_sizes[] = { "head_dim", "attention_head_dim", "d_kv", NULL };
    uint64_t head_count = first_of (model, heads), head = first_of (model, head_sizes);
    uint64_t pairs
        = estimate_number (model, "num_key_value_heads", estimate_number (model, "num_kv_heads", head_count));
    uint64_t latent = estimate_number (model, "kv_lora_rank", 0), elements;
    if (!head && head_count)
        head = first_of (model, sizes) / head_count;
    if (estimate_is_true (model, "multi_query") && !estimate_is_true (model, "new_decoder_architecture"))
        pairs = 1; /* as in Falcon */
    elements = latent ? latent + estimate_number (model, "qk_rope_head_dim", 0) : 2 * pairs * head;
    attention->count = first_of (model, layers);
    if (attention->count > MOST_LAYERS || !elements)
        return;
    for (uint64_t i = 0; i < attention->count; i++)
        attention->layers[i].elements = elements;
    find_kinds (model, attention);
    widen_whole (model, attention, pairs);
    drop_last (attention, estimate_number (model, "num_kv_shared_layers", is_type (model, "gemma3n") ? 15 : 0));
}

/* ---- GGUF ---- */

/* What llama.cpp knows of an architecture besides its file. */
static const struct llama_default {
    const char *architecture;
    uint64_t pattern, window; /* without a number in the file */
    uint64_t own;             /* layers with keys and values of their own; 0: all */
    uint64_t interval;        /* of layers with keys and values; 0: all */
} llama_defaults[] = {
    { "afmoe", 4, 0, 0, 0 }, { "cohere2", 4, 0, 0, 0 }, { "exaone4", 4, 0, 0, 0 },
    { "gemma-embedding", 6, 0, 0, 0 }, { "gemma2", 2, 4096, 0, 0 }, { "gemma3", 6, 0, 0, 0 },
    { "gemma3n", 5, 0, 20, 0 }, { "gemma4", 6, 0, 0, 0 }, { "gpt-oss", 2, 0, 0, 0 },
    { "llama4", 4, 8192, 0, 0 }, { "olmo2", 4, 0, 0, 0 }, { "plamo3", 8, 0, 0, 0 },
    { "qwen35", 0, 0, 0, 4 }, { "qwen35moe", 0, 0, 0, 4 }, { "qwen3next", 0, 0, 0, 4 },
};

/* If neither the file nor llama.cpp knows a pattern, the window is ignored. */
static void
find_gguf_windows (const struct gguf_facts *facts, const struct llama_default *row, struct attention *attention)
{
    attention->window = facts->has_window ? facts->window : row->window;
    if (facts->windows_listed)
        for (uint64_t i = 0; i < attention->count; i++)
            attention->layers[i].has_window = i < facts->windows_listed && facts->windows[i];
    else if (attention->window && (facts->has_pattern || row->pattern))
        add_windows (attention, facts->has_pattern ? facts->pattern : row->pattern);
}

/* Elements of a layer.  @return 0 also if they overflow */
static uint64_t
gguf_elements (const struct gguf_facts *facts, uint64_t number, bool has_window)
{
    uint64_t head = facts->heads ? facts->embedding / facts->heads : 0, elements;
    uint64_t pairs = facts->kv_heads ? facts->kv_heads : facts->heads;
    uint64_t keys = facts->key_length ? facts->key_length : head;
    uint64_t values = facts->value_length ? facts->value_length : head;
    if (facts->kv_heads_listed)
        pairs = number < facts->kv_heads_listed ? facts->kv_heads_of[number] : 0;
    if (has_window && facts->window_key_length)
        keys = facts->window_key_length;
    if (has_window && facts->window_value_length)
        values = facts->window_value_length;
    if (facts->latent_key_length && facts->latent_value_length) /* the values are part of the keys */
        values = 0;
    if (__builtin_add_overflow (keys, values, &keys) || __builtin_mul_overflow (pairs, keys, &elements))
        return 0;
    return elements;
}

static void
read_facts (const struct gguf_facts *facts, struct attention *attention)
{
    static const struct llama_default none;
    const struct llama_default *row = &none;
    uint64_t shared = facts->shared_layers;
    for (size_t i = 0; i < sizeof llama_defaults / sizeof *llama_defaults; i++)
        if (!strcmp (llama_defaults[i].architecture, facts->architecture))
            row = &llama_defaults[i];
    /* Layers that predict further tokens are the last ones; inference does not use them. */
    attention->count = facts->layers - (facts->predicting < facts->layers ? facts->predicting : 0);
    if (attention->count > MOST_LAYERS)
        return;
    find_gguf_windows (facts, row, attention);
    uint64_t interval = facts->interval ? facts->interval : row->interval;
    for (uint64_t i = 0; i < attention->count; i++) {
        struct layer *layer = &attention->layers[i];
        layer->elements = gguf_elements (facts, i, layer->has_window);
        keep_nothing (layer, !interval || (i + 1) % interval == 0);
    }
    if (!shared && row->own && row->own < attention->count)
        shared = attention->count - row->own;
    drop_last (attention, shared);
}

int
estimate_cache (const struct estimate_model *model, uint64_t context, unsigned bits, uint64_t *bytes,
                struct fail *fail)
{
    struct attention attention = { .count = 0 };
    uint64_t sum = 0;
    bool fits = true, is_known = false;
    if (model->is_gguf)
        read_facts (&model->facts, &attention);
    else
        read_config (model, &attention);
    if (attention.count > MOST_LAYERS)
        return fail_set (fail, FAIL_GENERAL, "--context_length: the model has %llu layers; the maximum is %d",
                         (unsigned long long) attention.count, MOST_LAYERS);
    uint64_t window = attention.window && attention.window < context ? attention.window : context;
    for (uint64_t i = 0; i < attention.count; i++) {
        const struct layer *layer = &attention.layers[i];
        uint64_t more = 0;
        fits = fits && !__builtin_mul_overflow (layer->has_window ? window : context, layer->elements, &more)
               && !__builtin_add_overflow (sum, more, &sum);
        is_known |= layer->elements > 0;
    }
    if (!is_known)
        return fail_set (fail, FAIL_GENERAL, "--context_length: the model's configuration does not say how many layers "
                         "and heads it has");
    if (!fits || __builtin_mul_overflow (sum, bits, &sum) || sum > MOST_BITS)
        return fail_set (fail, FAIL_GENERAL, "--context_length: too large: size overflows");
    *bytes = sum / 8;
    return 0;
}
