/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model of which there is only config.json: the base model, with the names of transformers.  GPT-2 and
 * models of Llama's family, which have one set of tensors for each layer. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "util/cleanup.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = GGUF_MOST_LAYERS };

enum { GPT2 = 1 << 0, LLAMA = 1 << 1, MISTRAL = 1 << 2, QWEN2 = 1 << 3, QWEN3 = 1 << 4 };

#define LLAMAS (LLAMA | MISTRAL | QWEN2 | QWEN3)

static const struct {
    const char *name;
    unsigned type;
} types[] = { { "gpt2", GPT2 }, { "llama", LLAMA }, { "mistral", MISTRAL }, { "qwen2", QWEN2 }, { "qwen3", QWEN3 } };

enum dimension { ONE, VOCAB, POSITIONS, WIDTH, WIDTHS /* of queries, keys and values */, INNER, QUERIES, KEYS, HEAD,
                 DIMENSIONS };

static const struct row {
    unsigned types;
    const char *name; /* "*": of each layer */
    enum dimension rows, columns;
    const char *key; /* only if config.json has it with true; NULL: always */
} rows[] = {
    { GPT2, "wte.weight", VOCAB, WIDTH, NULL },
    { GPT2, "wpe.weight", POSITIONS, WIDTH, NULL },
    { GPT2, "h.*.ln_1.weight", WIDTH, ONE, NULL },
    { GPT2, "h.*.ln_1.bias", WIDTH, ONE, NULL },
    { GPT2, "h.*.attn.c_attn.weight", WIDTH, WIDTHS, NULL },
    { GPT2, "h.*.attn.c_attn.bias", WIDTHS, ONE, NULL },
    { GPT2, "h.*.attn.c_proj.weight", WIDTH, WIDTH, NULL },
    { GPT2, "h.*.attn.c_proj.bias", WIDTH, ONE, NULL },
    { GPT2, "h.*.ln_2.weight", WIDTH, ONE, NULL },
    { GPT2, "h.*.ln_2.bias", WIDTH, ONE, NULL },
    { GPT2, "h.*.mlp.c_fc.weight", WIDTH, INNER, NULL },
    { GPT2, "h.*.mlp.c_fc.bias", INNER, ONE, NULL },
    { GPT2, "h.*.mlp.c_proj.weight", INNER, WIDTH, NULL },
    { GPT2, "h.*.mlp.c_proj.bias", WIDTH, ONE, NULL },
    { GPT2, "ln_f.weight", WIDTH, ONE, NULL },
    { GPT2, "ln_f.bias", WIDTH, ONE, NULL },
    { LLAMAS, "embed_tokens.weight", VOCAB, WIDTH, NULL },
    { LLAMAS, "layers.*.self_attn.q_proj.weight", QUERIES, WIDTH, NULL },
    { LLAMAS, "layers.*.self_attn.k_proj.weight", KEYS, WIDTH, NULL },
    { LLAMAS, "layers.*.self_attn.v_proj.weight", KEYS, WIDTH, NULL },
    { LLAMAS, "layers.*.self_attn.o_proj.weight", WIDTH, QUERIES, NULL },
    { QWEN2, "layers.*.self_attn.q_proj.bias", QUERIES, ONE, NULL },
    { QWEN2, "layers.*.self_attn.k_proj.bias", KEYS, ONE, NULL },
    { QWEN2, "layers.*.self_attn.v_proj.bias", KEYS, ONE, NULL },
    { LLAMA | QWEN3, "layers.*.self_attn.q_proj.bias", QUERIES, ONE, "attention_bias" },
    { LLAMA | QWEN3, "layers.*.self_attn.k_proj.bias", KEYS, ONE, "attention_bias" },
    { LLAMA | QWEN3, "layers.*.self_attn.v_proj.bias", KEYS, ONE, "attention_bias" },
    { LLAMA | QWEN3, "layers.*.self_attn.o_proj.bias", WIDTH, ONE, "attention_bias" },
    { QWEN3, "layers.*.self_attn.q_norm.weight", HEAD, ONE, NULL },
    { QWEN3, "layers.*.self_attn.k_norm.weight", HEAD, ONE, NULL },
    { LLAMAS, "layers.*.mlp.gate_proj.weight", INNER, WIDTH, NULL },
    { LLAMAS, "layers.*.mlp.up_proj.weight", INNER, WIDTH, NULL },
    { LLAMAS, "layers.*.mlp.down_proj.weight", WIDTH, INNER, NULL },
    { LLAMA, "layers.*.mlp.gate_proj.bias", INNER, ONE, "mlp_bias" },
    { LLAMA, "layers.*.mlp.up_proj.bias", INNER, ONE, "mlp_bias" },
    { LLAMA, "layers.*.mlp.down_proj.bias", WIDTH, ONE, "mlp_bias" },
    { LLAMAS, "layers.*.input_layernorm.weight", WIDTH, ONE, NULL },
    { LLAMAS, "layers.*.post_attention_layernorm.weight", WIDTH, ONE, NULL },
    { LLAMAS, "norm.weight", WIDTH, ONE, NULL },
};

static unsigned
find_type (const struct estimate_model *model)
{
    const char *name = estimate_text (model, "model_type");
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (!strcmp (types[i].name, name))
            return types[i].type;
    return 0;
}

bool
estimate_has_architecture (const struct estimate_model *model)
{
    return find_type (model) != 0;
}

/* @return the number at @p key, above 0; 0 with @p fail set if none before failed, too */
static uint64_t
need (const struct estimate_model *model, const char *key, bool *failed, struct fail *fail)
{
    uint64_t value = *failed ? 0 : estimate_number (model, key, 0);
    if (!value && !*failed)
        fail_set (fail, FAIL_GENERAL, "config.json: '%s' is required, because there are no weights: expected a whole "
                  "number above 0", key);
    *failed = !value;
    return value;
}

static int
find_sizes (const struct estimate_model *model, unsigned type, uint64_t sizes[DIMENSIONS], uint64_t *layers,
            struct fail *fail)
{
    bool is_gpt2 = type == GPT2, failed = false;
    const char *layers_key = is_gpt2 ? "n_layer" : "num_hidden_layers";
    sizes[ONE] = 1;
    sizes[VOCAB] = need (model, "vocab_size", &failed, fail);
    sizes[WIDTH] = need (model, is_gpt2 ? "n_embd" : "hidden_size", &failed, fail);
    *layers = need (model, layers_key, &failed, fail);
    if (is_gpt2) {
        sizes[POSITIONS] = need (model, "n_positions", &failed, fail);
        sizes[WIDTHS] = 3 * sizes[WIDTH];
        sizes[INNER] = estimate_number (model, "n_inner", 4 * sizes[WIDTH]);
    } else {
        uint64_t heads = need (model, "num_attention_heads", &failed, fail);
        sizes[INNER] = need (model, "intermediate_size", &failed, fail);
        sizes[HEAD] = failed ? 0 : estimate_number (model, "head_dim", sizes[WIDTH] / heads);
        sizes[QUERIES] = heads * sizes[HEAD];
        sizes[KEYS] = estimate_number (model, "num_key_value_heads", heads) * sizes[HEAD];
    }
    if (failed)
        return -1;
    return *layers <= MOST_LAYERS ? 0
                                  : fail_set (fail, FAIL_GENERAL, "config.json: %s is %llu, but must be at most %d",
                                              layers_key, (unsigned long long) *layers, MOST_LAYERS);
}

static int
add_row (struct estimate_model *model, const struct row *row, const uint64_t sizes[DIMENSIONS], uint64_t layers,
         struct fail *fail)
{
    const char *star = strchr (row->name, '*');
    struct estimate_part part = { .bits = 32, .code = kDLFloat, .is_float = true };
    if (__builtin_mul_overflow (sizes[row->rows], sizes[row->columns], &part.elements))
        part.elements = UINT64_MAX; /* which is refused */
    for (uint64_t i = 0; i < (star ? layers : 1); i++) {
        AUTO_STRBUF struct strbuf name = { 0 };
        if (star)
            strbuf_printf (&name, "%.*s%llu%s", (int) (star - row->name), row->name, (unsigned long long) i, star + 1);
        else
            strbuf_add (&name, row->name);
        if (name.failed)
            return fail_nomem (fail);
        if (estimate_add (model, part, name.text, name.length, fail))
            return -1;
    }
    return 0;
}

int
estimate_build (struct estimate_model *model, struct fail *fail)
{
    unsigned type = find_type (model);
    uint64_t sizes[DIMENSIONS] = { 0 }, layers;
    int result = find_sizes (model, type, sizes, &layers, fail);
    model->is_built = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !result; i++)
        if ((rows[i].types & type) && (!rows[i].key || estimate_is_true (model, rows[i].key)))
            result = add_row (model, &rows[i], sizes, layers, fail);
    return result;
}
