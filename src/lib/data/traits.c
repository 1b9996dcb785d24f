/* SPDX-License-Identifier: Apache-2.0 */
/* What a loader goes through and in which order, in texts: a position has a meaning only for a loader with the same. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "lib/data/datasets/set_tokens.h"
#include "lib/state/state_dict.h"
#include "util/hash.h"

#include <stdio.h>
#include <string.h>

enum { TRAIT_SIZE = 256, LOOKS = 64 };

enum trait { TRAIT_DATA, TRAIT_FILES, TRAIT_ORDER, TRAITS };

static const struct {
    const char *key, *name;
} traits[TRAITS] = { { "data", "data" }, { "files", "token files" }, { "order", "order" } };

static void
describe_data (const struct accel_loader *loader, char text[TRAIT_SIZE])
{
    if (loader->dataset)
        snprintf (text, TRAIT_SIZE, "%zu samples", loader->samples);
    else if (loader->samples)
        snprintf (text, TRAIT_SIZE, "a stream of %zu samples", loader->samples);
    else
        snprintf (text, TRAIT_SIZE, "a stream");
}

/* The batch size may differ: a position is a number of samples. */
static void
describe_order (const struct accel_loader *loader, char text[TRAIT_SIZE])
{
    const struct accel_loader_options *options = &loader->options;
    const struct accel_batch_sampler *batches = options->batch_sampler;
    drawing_shape_sampler (loader);
    if (options->sampler)
        sampler_describe (options->sampler, SAMPLER_SIZES | SAMPLER_SHAPE, text, TRAIT_SIZE);
    else if (batches)
        snprintf (text, TRAIT_SIZE, "a batch sampler of %zu %s",
                  batches->length * (batches->batch_size ? batches->batch_size : 1),
                  batches->batch_size ? "samples" : "batches that vary");
    else
        snprintf (text, TRAIT_SIZE, "%s",
                  options->random_sampler ? "random_sampler" : options->shuffle ? "shuffle" : "the data's own");
}

static void
describe (const struct accel_loader *loader, enum trait trait, char text[TRAIT_SIZE])
{
    memset (text, 0, TRAIT_SIZE);
    if (trait == TRAIT_DATA)
        describe_data (loader, text);
    else if (trait == TRAIT_FILES)
        token_files_describe (loader->dataset, text, TRAIT_SIZE);
    else
        describe_order (loader, text);
}

void
traits_save (const struct accel_loader *loader, struct accel_state_dict *state)
{
    char text[TRAIT_SIZE];
    for (enum trait i = 0; i < TRAITS; i++) {
        describe (loader, i, text);
        accel_state_dict_set_text (state, traits[i].key, text);
    }
    uint64_t order = loader->pass.running ? traits_order (loader) : loader->position.order;
    if (order)
        state_dict_add_uint64 (state, "order_hash", order);
}

enum accel_status
traits_check (const struct accel_loader *loader, const struct accel_state_dict *state, struct accel_error *err)
{
    char mine[TRAIT_SIZE];
    for (enum trait i = 0; i < TRAITS; i++) {
        const char *text;
        if (!accel_state_dict_has (state, traits[i].key))
            continue;
        enum accel_status status = accel_state_dict_get_text (state, traits[i].key, &text, err);
        if (status)
            return status;
        describe (loader, i, mine);
        if (strcmp (text, mine))
            return accel_fail (err, ACCEL_ERR_INVALID, "other %s: %.160s then, %.160s now", traits[i].name, text,
                               mine);
    }
    return ACCEL_OK;
}

uint32_t
traits_compute (const struct accel_loader *loader)
{
    char text[TRAIT_SIZE];
    uint64_t hash = HASH_START;
    for (enum trait i = 0; i < TRAITS; i++) {
        describe (loader, i, text);
        hash = hash_bytes (hash, text, strlen (text) + 1);
    }
    uint32_t bits = (uint32_t) (hash ^ hash >> 24) & 0xffffff;
    return bits ? bits : 1;
}

uint64_t
traits_order (const struct accel_loader *loader)
{
    const struct order *order = &loader->order;
    uint64_t hash = hash_word (HASH_START, order->samples);
    if (!loader->dataset || !loader->share.reads || !order->samples)
        return 0;
    for (size_t i = 0; i < LOOKS; i++) {
        size_t at = order->samples / LOOKS * i + order->samples % LOOKS * i / LOOKS;
        hash = hash_word (hash, order->indices ? (uint64_t) order->indices[at] : at);
    }
    return hash ? hash : 1;
}
