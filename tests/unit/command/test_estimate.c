/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate estimate-memory: which tensors of a checkpoint belong to a model, which of its modules is a layer, and
 * what a context needs. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "config/text/tree.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdlib.h>
#include <string.h>

static bool
add (struct estimate_model *model, uint64_t elements, const char *name, struct fail *fail)
{
    const struct estimate_part part = { .elements = elements, .bits = 32, .is_float = true, .bytes = 4 * elements };
    return !estimate_add (model, part, name, strlen (name), fail);
}

/* Lists end with NULL. */
static const struct {
    const char *what, *config, *tensors[8], *kept[8];
} checkpoints[] = {
    { "a causal mask of GPT-2 is not a weight", "{\"model_type\":\"gpt2\"}",
      { "h.0.attn.bias", "h.0.attn.c_attn.bias", "wte.weight", NULL }, { "h.0.attn.c_attn.bias", "wte.weight", NULL } },
    { "it is one of a model without masks", "{\"model_type\":\"mpt\"}",
      { "h.0.attn.bias", "wte.weight", NULL }, { "h.0.attn.bias", "wte.weight", NULL } },
    { "embeddings that are shared count once", "{\"model_type\":\"t5\"}",
      { "decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "encoder.final.weight", "shared.weight", NULL },
      { "encoder.final.weight", "shared.weight", NULL } },
    { "each counts where none is shared", "{\"model_type\":\"t5\"}",
      { "decoder.embed_tokens.weight", "encoder.embed_tokens.weight", NULL },
      { "decoder.embed_tokens.weight", "encoder.embed_tokens.weight", NULL } },
    { "a head is left out", "{\"model_type\":\"bart\"}",
      { "lm_head.weight", "model.encoder.weight", NULL }, { "model.encoder.weight", NULL } },
};

static void
test_checkpoints (void)
{
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        struct estimate_model model = { 0 };
        struct fail fail = { .text = "" };
        bool good = !estimate_read_config (&model, "config.json", checkpoints[i].config,
                                           strlen (checkpoints[i].config), &fail);
        for (const char *const *name = checkpoints[i].tensors; *name; name++)
            good = good && add (&model, 1, *name, &fail);
        good = good && !estimate_arrange (&model, &fail);
        size_t count = 0;
        for (const char *const *name = checkpoints[i].kept; good && *name; name++, count++)
            good = count < model.count && !strcmp (model.parts[count].name, *name);
        ok (good && count == model.count, "%s %s", checkpoints[i].what, fail.text);
        estimate_model_release (&model);
    }
}

/* Llama's frequencies, twice: half of the size of a head each. */
static void
test_heads (void)
{
    static const struct {
        const char *config;
        uint64_t elements;
    } cases[] = {
        { "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":4}", 1 + 2 * 8 },
        { "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":4,\"head_dim\":10}", 1 + 2 * 5 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct estimate_model model = { 0 };
        struct fail fail = { .text = "" };
        bool good = !estimate_read_config (&model, "config.json", cases[i].config, strlen (cases[i].config), &fail)
                    && add (&model, 1, "norm.weight", &fail) && !estimate_arrange (&model, &fail);
        ok (good && model.elements == cases[i].elements, "frequencies of heads: %llu %s",
            (unsigned long long) model.elements, fail.text);
        estimate_model_release (&model);
    }
}

/* Two tensors of 3 and 4 elements in neighbouring modules, with @p depth modules around them.
 * @return elements of the largest layer */
static uint64_t
largest_at (int depth)
{
    struct estimate_model model = { 0 };
    struct estimate_sizes sizes;
    struct fail fail;
    AUTO_STRBUF struct strbuf name = { 0 };
    for (int i = 0; i < depth; i++)
        strbuf_add (&name, "m.");
    size_t length = name.length;
    strbuf_add (&name, "a.weight");
    bool good = add (&model, 3, name.text, &fail);
    name.text[length] = 'b';
    good = good && add (&model, 4, name.text, &fail);
    estimate_measure (&model, &sizes);
    estimate_model_release (&model);
    return good && sizes.total == 7 * 32 ? sizes.largest / 32 : 0;
}

static void
test_limits (void)
{
    ok (largest_at (31) == 4, "a module without modules is a layer");
    ok (largest_at (32) == 7, "modules in modules end somewhere");
    struct estimate_model model = { 0 };
    struct fail fail = { .text = "" };
    uint64_t most = (uint64_t) 1 << 56;
    ok (add (&model, most - 1, "a", &fail) && add (&model, 1, "b", &fail), "as many elements as can be counted");
    ok (!add (&model, 1, "c", &fail) && !strcmp (fail.text, "tensor 'c': too large: size overflows"), "and no more");
    estimate_model_release (&model);
}

/* What transformers keeps (tests/golden/command/estimate_cache.json): 64 tokens, 16-bit elements. */
static void
test_caches (void)
{
    const char *srcdir = getenv ("srcdir");
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *text = NULL;
    size_t length = 0;
    struct filedoc golden = { .path = "estimate_cache.json" };
    struct fail fail = { .text = "" };
    strbuf_printf (&path, "%s/tests/golden/command/estimate_cache.json", srcdir ? srcdir : ".");
    if (io_read_file (path.text, 1 << 20, &text, &length, &fail) || json_read (&golden, text, length, &fail)) {
        ok (false, "%s", fail.text);
        return;
    }
    for (size_t i = 0; i < golden.root.count; i++) {
        const struct node *item = &golden.root.items[i];
        struct estimate_model model = { .config.root = *node_find (item, "config") };
        unsigned long long wanted = strtoull (node_find (item, "bytes")->text, NULL, 10);
        uint64_t bytes = 0;
        bool good = !estimate_cache (&model, 64, 16, &bytes, &fail);
        ok (good && bytes == wanted, "keys and values of %s: %llu (%llu) %s", item->key, (unsigned long long) bytes,
            wanted, fail.text);
    }
    filedoc_release (&golden);
}

/* RecurrentGemma, whose cache transformers does not return: 64 tokens, 16-bit; 2 of 7 layers have a window of 16. */
static void
test_recurrent (void)
{
    static const char config[] = "{\"model_type\":\"recurrent_gemma\",\"num_hidden_layers\":7,"
                                 "\"num_attention_heads\":4,"
                                 "\"hidden_size\":32,\"num_key_value_heads\":1,\"attention_window_size\":16,"
                                 "\"block_types\":[\"recurrent\",\"recurrent\",\"attention\"]}";
    struct estimate_model model = { 0 };
    struct fail fail = { .text = "" };
    uint64_t bytes = 0;
    bool good = !estimate_read_config (&model, "config.json", config, strlen (config), &fail)
                && !estimate_cache (&model, 64, 16, &bytes, &fail);
    ok (good && bytes == 2 * 16 * 16 * 2, "a list of types that is repeated: %llu", (unsigned long long) bytes);
    estimate_model_release (&model);
}

/* Of 100 tokens, 8-bit; by default, 10 layers of 2 pairs of 3 + 4 elements: 14000 bytes. */
static const struct {
    const char *what;
    struct gguf_facts facts; /* what differs */
    uint64_t bytes;          /* 0: refused */
} files[] = {
    { "nothing special", { .architecture = "llama" }, 14000 },
    { "one latent vector for all heads: its values are part of the keys",
      { .latent_key_length = 3, .latent_value_length = 4 }, 6000 },
    { "half of the facts about a latent vector", { .latent_key_length = 3 }, 14000 },
    { "layers that use those of earlier ones", { .shared_layers = 4 }, 14000 * 6 / 10 },
    { "all layers use those of earlier ones", { .shared_layers = 10 }, 0 },
    { "more layers than there are use those of earlier ones", { .shared_layers = UINT64_MAX }, 0 },
    { "layers that predict further tokens", { .predicting = 1 }, 14000 * 9 / 10 },
    { "these come after those that share", { .shared_layers = 4, .predicting = 1 }, 14000 * 5 / 10 },
    { "only layers that predict", { .predicting = 10 }, 14000 },
    { "keys in each fifth layer", { .interval = 5 }, 14000 * 2 / 10 },
    { "keys in each fourth layer, by the architecture", { .architecture = "qwen3next" }, 14000 * 2 / 10 },
    { "other than by the architecture", { .architecture = "qwen3next", .interval = 2 }, 14000 * 5 / 10 },
    { "Gemma 3n has 20 layers of its own", { .architecture = "gemma3n", .layers = 22 }, 14000 * 2 },
    { "unless the file says how many", { .architecture = "gemma3n", .layers = 22, .shared_layers = 12 }, 14000 },
    { "a number of heads for each layer", { .kv_heads_listed = 10, .kv_heads_of = { 0, 0, 4, 0, 0, 6 } }, 7000 },
    { "a list that is too short", { .kv_heads_listed = 1, .kv_heads_of = { 5 } }, 3500 },
    { "no heads in any layer", { .kv_heads_listed = 10 }, 0 },
    { "windows of 10 tokens in four layers",
      { .window = 10, .has_window = true, .windows_listed = 4, .windows = { true, true, true, true } },
      6 * 1400 + 4 * 140 },
    { "heads of another size in layers with windows",
      { .window = 10, .has_window = true, .window_key_length = 1, .window_value_length = 2, .has_pattern = true,
        .pattern = 5 }, 2 * 1400 + 8 * 60 },
    { "as many layers as can be counted", { .layers = 1024 }, 1024 * 1400 },
    { "more", { .layers = 1025 }, 0 },
    { "heads of sizes that overflow", { .key_length = UINT64_MAX }, 0 },
    { "a sum that overflows", { .key_length = UINT64_MAX / 16 }, 0 },
};

static void
test_files (void)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct estimate_model model = { .is_gguf = true, .facts = files[i].facts };
        struct gguf_facts *facts = &model.facts;
        struct fail fail = { .text = "" };
        uint64_t bytes = 0;
        facts->layers = facts->layers ? facts->layers : 10;
        facts->kv_heads = 2;
        facts->key_length = facts->key_length ? facts->key_length : 3;
        facts->value_length = 4;
        ok (!estimate_cache (&model, 100, 8, &bytes, &fail) == (files[i].bytes > 0) && bytes == files[i].bytes,
            "%s: %llu %s", files[i].what, (unsigned long long) bytes, fail.text);
    }
}

int
main (void)
{
    test_checkpoints ();
    test_heads ();
    test_limits ();
    test_caches ();
    test_recurrent ();
    test_files ();
    return done_testing ();
}
