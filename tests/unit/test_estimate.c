/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate estimate-memory: which tensors of a checkpoint belong to a model, and which of its modules is a layer. */
#include <config.h>

#include "cli/estimate.h"
#include "tests/tap.h"
#include "util/cleanup.h"

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
    { "a causal mask of GPT-2 is no weight", "{\"model_type\":\"gpt2\"}",
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

int
main (void)
{
    test_checkpoints ();
    test_heads ();
    test_limits ();
    return done_testing ();
}
