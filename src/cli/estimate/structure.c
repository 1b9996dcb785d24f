/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint's tensors to the model that Accelerate measures: AutoModel of transformers, which has no head, some
 * buffers that are in no file, and modules that may not be split.  The facts are those of transformers 5.23, but for
 * idefics, whose numbers Accelerate's own tests have from an older one. */
#include <config.h>

#include "cli/estimate/estimate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Buffers that transformers makes, or that old checkpoints have though they are not weights. */
enum {
    POSITIONS = 1 << 0,   /* embeddings.position_ids */
    TOKEN_TYPES = 1 << 1, /* embeddings.token_type_ids */
    ROTARY = 1 << 2,      /* rotary_emb: inverse frequencies, twice */
    SCALE = 1 << 3,       /* embed_tokens.embed_scale */
    ROTARIES = 1 << 4,    /* idefics: frequencies, sines and cosines in each attention */
    MASKS = 1 << 5,       /* drop the causal masks of old checkpoints */
    CAUSAL = 1 << 6,      /* gpt_neo: a mask in each layer */
    SINUSOIDS = 1 << 7,   /* gptj: a table of positions in each layer */
    POOLER = 1 << 8,      /* weights that AutoModel makes if the checkpoint has none */
};

static const char none[] = "";

static const struct structure {
    const char *type;
    const char *prefix; /* of the base model's tensors in checkpoints with a head */
    const char *whole;  /* modules that stay whole, "*" is a number; NULL: each numbered module that is in no other */
    unsigned buffers;
} structures[] = {
    { "albert", "albert", none, POSITIONS | TOKEN_TYPES | POOLER },
    { "bart", "model", NULL, 0 },
    { "bert", "bert", "embeddings encoder.layer.*", POSITIONS | TOKEN_TYPES | POOLER },
    { "bloom", "transformer", NULL, 0 },
    { "camembert", "roberta", "embeddings encoder.layer.*", POSITIONS | TOKEN_TYPES | POOLER },
    { "codegen", "transformer", NULL, SINUSOIDS | MASKS },
    { "cohere", "model", NULL, ROTARY },
    { "cohere2", "model", NULL, ROTARY },
    { "deberta-v2", "deberta", none, POSITIONS },
    { "deepseek_v2", "model", NULL, ROTARY },
    { "deepseek_v3", "model", NULL, ROTARY },
    { "deit", "deit", "embeddings encoder.layer.*", POOLER },
    { "dinov2", "dinov2", "embeddings encoder.layer.*", 0 },
    { "distilbert", "distilbert", none, POSITIONS },
    { "electra", "electra", none, POSITIONS | TOKEN_TYPES },
    { "ernie4_5", "model", NULL, ROTARY },
    { "exaone4", "model", NULL, ROTARY },
    { "falcon", "transformer", NULL, ROTARY },
    { "gemma", "model", NULL, ROTARY | SCALE },
    { "gemma2", "model", NULL, ROTARY | SCALE },
    { "gemma3_text", "model", NULL, ROTARY | SCALE },
    { "glm4", "model", NULL, ROTARY },
    { "glm4_moe", "model", NULL, ROTARY },
    { "gpt2", "transformer", NULL, MASKS },
    { "gpt_neo", "transformer", NULL, CAUSAL | MASKS },
    { "gpt_neox", "gpt_neox", NULL, ROTARY | MASKS },
    { "gpt_oss", "model", NULL, ROTARY },
    { "gptj", "transformer", NULL, SINUSOIDS | MASKS },
    { "granite", "model", NULL, ROTARY },
    { "idefics", "model", "layers.* gated_cross_attn_layers.* vision_model.encoder.layers.*", ROTARIES },
    { "layoutlm", "layoutlm", none, POSITIONS | POOLER },
    { "lfm2", "model", NULL, ROTARY },
    { "llama", "model", NULL, ROTARY },
    { "longformer", "longformer", "encoder.layer.*.attention.self", 0 },
    { "mamba", "backbone", NULL, 0 },
    { "mbart", "model", NULL, 0 },
    { "mistral", "model", NULL, ROTARY },
    { "mixtral", "model", NULL, ROTARY },
    { "mpnet", "mpnet", none, POSITIONS | POOLER },
    { "mpt", "transformer", NULL, 0 },
    { "nemotron", "model", NULL, ROTARY },
    { "olmo", "model", NULL, ROTARY },
    { "olmo2", "model", NULL, ROTARY },
    { "olmo3", "model", NULL, ROTARY },
    { "opt", "model", NULL, 0 },
    { "pegasus", "model", none, 0 },
    { "phi", "model", NULL, ROTARY },
    { "phi3", "model", NULL, ROTARY },
    { "qwen2", "model", NULL, ROTARY },
    { "qwen2_moe", "model", NULL, ROTARY },
    { "qwen3", "model", NULL, ROTARY },
    { "qwen3_moe", "model", NULL, ROTARY },
    { "qwen3_next", "model", NULL, ROTARY },
    { "roberta", "roberta", "embeddings encoder.layer.*", POSITIONS | TOKEN_TYPES | POOLER },
    { "smollm3", "model", NULL, ROTARY },
    { "stablelm", "model", NULL, ROTARY },
    { "starcoder2", "model", NULL, ROTARY },
    { "t5", "transformer", NULL, 0 },
    { "vit", "vit", "embeddings encoder.layer.*", POOLER },
    { "wav2vec2", "wav2vec2", none, 0 },
    { "whisper", "model", NULL, 0 },
    { "xlm-roberta", "roberta", "embeddings encoder.layer.*", POSITIONS | TOKEN_TYPES | POOLER },
};

static const struct structure *
find_structure (const struct estimate_model *model)
{
    static const struct structure unknown = { none, NULL, NULL, 0 };
    static const struct structure leaves = { none, NULL, none, 0 };
    const char *type = estimate_text (model, "model_type");
    if (model->library && !strcmp (model->library, "timm"))
        return &leaves;
    for (size_t i = 0; i < sizeof structures / sizeof *structures && type && !model->is_gguf; i++)
        if (!strcmp (structures[i].type, type))
            return &structures[i];
    return &unknown;
}

bool
estimate_knows_type (const struct estimate_model *model)
{
    return *find_structure (model)->type != '\0';
}

static bool
begins_with (const char *name, const char *prefix)
{
    size_t length = strlen (prefix);
    return !strncmp (name, prefix, length) && name[length] == '.';
}

static bool
ends_with (const char *name, const char *end)
{
    size_t length = strlen (name), wanted = strlen (end);
    return length >= wanted && !strcmp (name + length - wanted, end)
           && (length == wanted || name[length - wanted - 1] == '.');
}

/* ---- modules that stay whole ---- */

static size_t
component (const char *path, size_t length)
{
    size_t end = 0;
    while (end < length && path[end] != '.')
        end++;
    return end;
}

static bool
is_number (const char *path, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isdigit ((unsigned char) path[i]))
            return false;
    return length > 0;
}

/* Whether only its last component is a number. */
static bool
is_outermost_number (const char *path, size_t length)
{
    for (;;) {
        size_t end = component (path, length);
        if (is_number (path, end))
            return end == length;
        if (end == length)
            return false;
        path += end + 1;
        length -= end + 1;
    }
}

static bool
matches (const char *pattern, size_t pattern_length, const char *path, size_t length)
{
    for (;;) {
        size_t wanted = component (pattern, pattern_length), end = component (path, length);
        bool same = wanted == 1 && *pattern == '*' ? is_number (path, end)
                                                   : wanted == end && !strncmp (pattern, path, end);
        if (!same || wanted == pattern_length || end == length)
            return same && wanted == pattern_length && end == length;
        pattern += wanted + 1;
        pattern_length -= wanted + 1;
        path += end + 1;
        length -= end + 1;
    }
}

bool
estimate_is_whole (const struct estimate_model *model, const char *path, size_t length)
{
    const struct structure *structure = find_structure (model);
    size_t prefix = structure->prefix ? strlen (structure->prefix) : 0;
    if (prefix && length > prefix && !strncmp (path, structure->prefix, prefix) && path[prefix] == '.') {
        path += prefix + 1;
        length -= prefix + 1;
    }
    if (!structure->whole)
        return is_outermost_number (path, length);
    for (const char *pattern = structure->whole; *pattern; pattern += *pattern == ' ') {
        size_t size = strcspn (pattern, " ");
        if (matches (pattern, size, path, length))
            return true;
        pattern += size;
    }
    return false;
}

/* ---- what is dropped ---- */

static bool
is_buffer_of_old (const struct structure *structure, const char *name)
{
    return ends_with (name, "position_ids") || ends_with (name, "token_type_ids")
           || ends_with (name, "rotary_emb.inv_freq")
           || ((structure->buffers & MASKS)
               && (ends_with (name, "attn.bias") || ends_with (name, "attn.masked_bias")
                   || ends_with (name, "attention.bias") || ends_with (name, "attention.masked_bias")));
}

static bool
is_head (const char *name)
{
    static const char *const heads[] = { "lm_head", "cls", "classifier", "score", "qa_outputs", "vocab_projector",
                                         "vocab_transform", "vocab_layer_norm", "generator_predictions",
                                         "generator_lm_head", "discriminator_predictions", "proj_out" };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (begins_with (name, heads[i]))
            return true;
    return !strcmp (name, "final_logits_bias");
}

/* Whether the model is one with a head, by its own code. */
static bool
has_own_head (const struct estimate_model *model)
{
    const struct node *map = node_find (&model->config.root, "auto_map");
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        if (map->items[i].key && !strncmp (map->items[i].key, "AutoModelFor", 12))
            return true;
    return false;
}

static void
drop (struct estimate_model *model, const struct structure *structure)
{
    const char *prefix = NULL;
    bool has_shared = false, has_head = has_own_head (model);
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++) {
        const char *name = model->parts[i].name;
        if (structure->prefix && begins_with (name, structure->prefix))
            prefix = structure->prefix;
        has_shared |= ends_with (name, "shared.weight");
    }
    for (size_t i = 0; i < model->count; i++) {
        char *name = model->parts[i].name;
        bool is_copy = has_shared
                       && (ends_with (name, "encoder.embed_tokens.weight")
                           || ends_with (name, "decoder.embed_tokens.weight"));
        bool is_outside = !has_head && (prefix ? !begins_with (name, prefix) : is_head (name));
        if (is_copy || is_outside || is_buffer_of_old (structure, name))
            free (name);
        else
            model->parts[kept++] = model->parts[i];
    }
    model->count = kept;
}

/* ---- what is added ---- */

static int
add_buffer (struct estimate_model *model, uint64_t elements, unsigned bits, const char *name, struct fail *fail)
{
    struct estimate_part part = { .elements = elements, .bits = bits, .is_float = bits == 32, .is_buffer = true };
    return estimate_add (model, part, name, strlen (name), fail);
}

static uint64_t
head_size (const struct estimate_model *model)
{
    uint64_t heads = estimate_number (model, "num_attention_heads", 1);
    uint64_t size = estimate_number (model, "hidden_size", 0) / (heads ? heads : 1);
    return estimate_number (model, "qk_rope_head_dim", estimate_number (model, "head_dim", size));
}

static int
add_to_layers (struct estimate_model *model, const char *before, const char *after, uint64_t layers, uint64_t elements,
               unsigned bits, struct fail *fail)
{
    enum { MOST_LAYERS = 10000 };
    char name[128];
    for (uint64_t i = 0; i < layers && i < MOST_LAYERS; i++) {
        snprintf (name, sizeof name, "%s%llu%s", before, (unsigned long long) i, after);
        if (add_buffer (model, elements, bits, name, fail))
            return -1;
    }
    return 0;
}

/* The frequencies and a table of cosines and sines for all positions. */
static int
add_rotaries (struct estimate_model *model, struct fail *fail)
{
    uint64_t layers = estimate_number (model, "num_hidden_layers", 0);
    uint64_t interval = estimate_number (model, "cross_layer_interval", 1), size = head_size (model);
    uint64_t elements = size / 2 + 2 * size * estimate_number (model, "max_position_embeddings", 2048);
    return add_to_layers (model, "model.layers.", ".self_attn.rotary_emb.all", layers, elements, 32, fail)
                   || add_to_layers (model, "model.gated_cross_attn_layers.", ".cross_attn.rotary_emb.all",
                                     layers / (interval ? interval : 1), elements, 32, fail)
               ? -1
               : 0;
}

/* A dense layer over the hidden size; the checkpoints of some models with a head have none. */
static int
add_pooler (struct estimate_model *model, bool has_prefix, const char *prefix, struct fail *fail)
{
    uint64_t size = estimate_number (model, "hidden_size", 0);
    char name[96];
    for (size_t i = 0; i < model->count; i++)
        if (ends_with (model->parts[i].name, "pooler.dense.weight")
            || ends_with (model->parts[i].name, "pooler.weight"))
            return 0;
    snprintf (name, sizeof name, "%s%spooler.dense.all", has_prefix ? prefix : "", has_prefix ? "." : "");
    const struct estimate_part part = { .elements = size * size + size, .bits = 32, .is_float = true };
    return estimate_add (model, part, name, strlen (name), fail);
}

/* GPT's configurations have names of their own. */
static int
add_to_gpt (struct estimate_model *model, unsigned buffers, bool has_prefix, struct fail *fail)
{
    uint64_t layers = estimate_number (model, "n_layer", estimate_number (model, "num_layers", 0));
    uint64_t positions
        = estimate_number (model, "n_positions", estimate_number (model, "max_position_embeddings", 2048));
    const char *before = has_prefix ? "transformer.h." : "h.";
    if (buffers & CAUSAL)
        return add_to_layers (model, before, ".attn.attention.bias", layers, positions * positions, 1, fail);
    return add_to_layers (model, before, ".attn.embed_positions", layers,
                          positions * estimate_number (model, "rotary_dim", 64), 32, fail);
}

static int
add_buffers (struct estimate_model *model, const struct structure *structure, struct fail *fail)
{
    unsigned buffers = structure->buffers;
    bool has_prefix = structure->prefix && model->count && begins_with (model->parts[0].name, structure->prefix);
    uint64_t positions = estimate_number (model, "max_position_embeddings", 512);
    double rotated = estimate_fraction (model, "partial_rotary_factor", estimate_fraction (model, "rotary_pct", 1));
    uint64_t frequencies = (uint64_t) ((double) head_size (model) * rotated) / 2;
    const struct {
        unsigned buffer;
        const char *name;
        uint64_t elements;
        unsigned bits;
    } all[] = {
        { POSITIONS, "embeddings.position_ids", positions, 64 },
        { TOKEN_TYPES, "embeddings.token_type_ids", positions, 64 },
        { ROTARY, "rotary_emb.inv_freq", frequencies, 32 },
        { ROTARY, "rotary_emb.original_inv_freq", frequencies, 32 },
        { SCALE, "embed_tokens.embed_scale", 1, 32 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char name[96];
        snprintf (name, sizeof name, "%s%s%s", has_prefix ? structure->prefix : "", has_prefix ? "." : "", all[i].name);
        if ((buffers & all[i].buffer) && add_buffer (model, all[i].elements, all[i].bits, name, fail))
            return -1;
    }
    if (((buffers & ROTARIES) && add_rotaries (model, fail))
        || ((buffers & POOLER) && add_pooler (model, has_prefix, structure->prefix, fail)))
        return -1;
    return buffers & (CAUSAL | SINUSOIDS) ? add_to_gpt (model, buffers, has_prefix, fail) : 0;
}

int
estimate_arrange (struct estimate_model *model, struct fail *fail)
{
    const struct structure *structure = find_structure (model);
    if (model->is_gguf || model->is_total || !estimate_text (model, "model_type"))
        return 0;
    drop (model, structure);
    return add_buffers (model, structure, fail);
}
