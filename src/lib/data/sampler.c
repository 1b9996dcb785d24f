/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers.  The algorithms are torch's (torch/utils/data/sampler.py and distributed.py) and Accelerate's
 * (accelerate/data_loader.py, SeedableRandomSampler); see sampler.h. */
#include <config.h>

#include "lib/base/option.h"
#include "lib/data/sampler.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/data/generator.h"
#include "lib/data/llmc_order.h"
#include "lib/data/datasets/set_tokens.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options that a kind uses. */
enum {
    USES_DRAWS = 1, /* replacement, num_samples */
    USES_GENERATOR = 2,
    USES_WEIGHTS = 4,
    USES_INDICES = 8,
    USES_SHARE = 16, /* replicas, rank, drop_last */
    USES_SHUFFLE = 32,
    USES_SEED = 64,
};

/* What one kind of sampler does. */
struct sampler_kind {
    const char *name;
    unsigned uses;
    enum accel_status (*draw) (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err);
    /* May be NULL. */
    enum accel_status (*check) (size_t size, const struct accel_sampler_options *options, struct accel_error *err);
};

struct accel_sampler {
    const struct sampler_kind *kind;
    size_t size;   /* of what is drawn from */
    size_t length; /* of one pass */
    uint64_t epoch;
    struct accel_sampler_options options; /* weights and indices are copies; the generator may be the loader's */
    struct accel_sampler_calls calls;
    struct llmc_order llmc;
};

/* @return NULL if @from is, or if there is no memory */
static void *
copy_of (const void *from, size_t bytes)
{
    void *copy = from ? malloc (bytes + !bytes) : NULL;
    return copy ? memcpy (copy, from, bytes) : NULL;
}

static enum accel_status
make (struct accel_sampler **sampler, const struct sampler_kind *kind, size_t size, size_t length,
      const struct accel_sampler_options *options, struct accel_error *err)
{
    if (size > INT64_MAX / sizeof (int64_t) || length > INT64_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a sampler over %zu samples (%zu of them) is too large: size overflows", size, length);
    struct accel_sampler *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a sampler");
    made->kind = kind;
    made->size = size;
    made->length = length;
    made->options = *options;
    made->options.weights = copy_of (options->weights, size * sizeof *options->weights);
    made->options.indices = copy_of (options->indices, size * sizeof *options->indices);
    if (!made->options.weights != !options->weights || !made->options.indices != !options->indices) {
        accel_sampler_destroy (made);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a sampler over %zu samples", size);
    }
    *sampler = made;
    return ACCEL_OK;
}

/* What a kind does not use would be a mistake of the program. */
static enum accel_status
check_used (const struct sampler_kind *kind, const struct accel_sampler_options *options, struct accel_error *err)
{
    const struct {
        const char *name;
        bool given;
        unsigned use;
    } all[] = {
        { "replacement", options->replacement, USES_DRAWS },
        { "num_samples", options->num_samples, USES_DRAWS },
        { "generator", options->generator, USES_GENERATOR },
        { "weights", options->weights, USES_WEIGHTS },
        { "indices", options->indices, USES_INDICES },
        { "replicas", options->replicas, USES_SHARE },
        { "rank", options->rank, USES_SHARE },
        { "drop_last", options->drop_last, USES_SHARE },
        { "shuffle", options->shuffle, USES_SHUFFLE },
        { "seed", options->seed, USES_SEED },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !(kind->uses & all[i].use))
            return accel_fail (err, ACCEL_ERR_INVALID, "a %s sampler has no %s", kind->name, all[i].name);
    return flag_check (options->shuffle, "shuffle", err);
}

void
accel_sampler_destroy (struct accel_sampler *sampler)
{
    if (!sampler)
        return;
    free ((double *) sampler->options.weights);
    free ((int64_t *) sampler->options.indices);
    free (sampler->llmc.shards);
    free (sampler);
}

size_t
accel_sampler_length (const struct accel_sampler *sampler)
{
    return sampler ? sampler->length : 0;
}

void
accel_sampler_set_epoch (struct accel_sampler *sampler, uint64_t epoch)
{
    if (sampler)
        sampler->epoch = epoch;
}

enum accel_status
accel_sampler_draw (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    if (!sampler || (!indices && sampler->length))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, sampler ? "indices" : "sampler");
    return sampler->length ? sampler->kind->draw (sampler, indices, err) : ACCEL_OK;
}

/* 0, 1, 2, ... */
static enum accel_status
draw_sequential (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    (void) err;
    for (size_t i = 0; i < sampler->length; i++)
        indices[i] = (int64_t) i;
    return ACCEL_OK;
}

/* Draw what accel_generator_permutation() of @count indices draws, for nothing. */
static void
skip_permutation (struct accel_generator *generator, size_t count)
{
    size_t draws = count < UINT32_MAX / 20 ? count - 1 : 2 * count;
    for (size_t i = 0; i < draws; i++)
        (void) accel_generator_next (generator);
}

/* Whole permutations; what is left over comes from one more, which is drawn even if nothing is left over: it counts
 * for a generator that continues. */
static enum accel_status
draw_permutations (const struct accel_sampler *sampler, struct accel_generator *generator, int64_t *indices,
                   struct accel_error *err)
{
    size_t whole = sampler->length / sampler->size, rest = sampler->length % sampler->size;
    for (size_t i = 0; i < whole; i++)
        accel_generator_permutation (generator, indices + i * sampler->size, sampler->size);
    if (!rest) {
        if (generator == sampler->options.generator)
            skip_permutation (generator, sampler->size);
        return ACCEL_OK;
    }
    int64_t *last = malloc (sampler->size * sizeof *last);
    if (!last)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an order of %zu samples", sampler->size);
    accel_generator_permutation (generator, last, sampler->size);
    memcpy (indices + whole * sampler->size, last, rest * sizeof *last);
    free (last);
    return ACCEL_OK;
}

static enum accel_status
draw_with (const struct accel_sampler *sampler, struct accel_generator *generator, int64_t *indices,
           struct accel_error *err)
{
    if (!sampler->options.replacement)
        return draw_permutations (sampler, generator, indices, err);
    for (size_t i = 0; i < sampler->length; i++)
        indices[i] = accel_generator_randint (generator, 0, (int64_t) sampler->size);
    return ACCEL_OK;
}

static enum accel_status
draw_random (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    if (sampler->options.generator)
        return draw_with (sampler, sampler->options.generator, indices, err);
    struct accel_generator own;
    generator_init (&own, (uint64_t) generator_random (accel_default_generator ()));
    return draw_with (sampler, &own, indices, err);
}

static enum accel_status
check_size (size_t size, const struct accel_sampler_options *options, struct accel_error *err)
{
    (void) options;
    return size ? ACCEL_OK
                : accel_fail (err, ACCEL_ERR_INVALID, "a random sampler needs at least one sample to draw from");
}

static enum accel_status
draw_seedable (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    struct accel_generator own, *generator = sampler->options.generator ? sampler->options.generator : &own;
    generator_init (generator, sampler->options.seed + sampler->epoch++);
    return draw_with (sampler, generator, indices, err);
}

/* The generator of the program or of the loader, or else the default one. */
static struct accel_generator *
source_of (const struct accel_sampler *sampler)
{
    return sampler->options.generator ? sampler->options.generator : accel_default_generator ();
}

static enum accel_status
draw_weighted (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    const struct accel_sampler_options *options = &sampler->options;
    return generator_multinomial (source_of (sampler), options->weights, sampler->size, sampler->length,
                                  options->replacement, indices, err);
}

static enum accel_status
check_weights (size_t size, const struct accel_sampler_options *options, struct accel_error *err)
{
    if (!options->weights)
        return accel_fail (err, ACCEL_ERR_INVALID, "a weighted sampler needs weights");
    return generator_check_weights (options->weights, size, options->num_samples ? options->num_samples : size,
                                    options->replacement, err);
}

static enum accel_status
draw_subset (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    (void) err;
    accel_generator_permutation (source_of (sampler), indices, sampler->size);
    for (size_t i = 0; i < sampler->size; i++)
        indices[i] = sampler->options.indices[indices[i]];
    return ACCEL_OK;
}

static enum accel_status
check_indices (size_t size, const struct accel_sampler_options *options, struct accel_error *err)
{
    return options->indices || !size
               ? ACCEL_OK
               : accel_fail (err, ACCEL_ERR_INVALID, "a sampler of %zu indices: indices is NULL", size);
}

/* Every replicas-th index of the order, which is repeated from the front, or cut, so that all get equally many. */
static enum accel_status
draw_distributed (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    const struct accel_sampler_options *options = &sampler->options;
    int64_t *order = malloc (sampler->size * sizeof *order);
    if (!order)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an order of %zu samples", sampler->size);
    struct accel_generator generator;
    generator_init (&generator, options->seed + sampler->epoch);
    bool shuffles = flag_or (options->shuffle, true);
    if (shuffles)
        accel_generator_permutation (&generator, order, sampler->size);
    for (size_t i = 0; !shuffles && i < sampler->size; i++)
        order[i] = (int64_t) i;
    for (size_t i = 0; i < sampler->length; i++)
        indices[i] = order[(options->rank + i * options->replicas) % sampler->size];
    free (order);
    return ACCEL_OK;
}

static enum accel_status
check_share (size_t size, const struct accel_sampler_options *options, struct accel_error *err)
{
    (void) size;
    if (!options->replicas || options->rank >= options->replicas)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a distributed sampler needs a rank less than the number of replicas");
    return ACCEL_OK;
}

static const struct sampler_kind kinds[ACCEL_SAMPLER_KIND_COUNT] = {
    [ACCEL_SAMPLER_SEQUENTIAL] = { "sequential", 0, draw_sequential, NULL },
    [ACCEL_SAMPLER_RANDOM] = { "random", USES_DRAWS | USES_GENERATOR, draw_random, check_size },
    [ACCEL_SAMPLER_SEEDABLE] = { "seedable", USES_DRAWS | USES_GENERATOR | USES_SEED, draw_seedable, check_size },
    [ACCEL_SAMPLER_WEIGHTED] = { "weighted", USES_DRAWS | USES_GENERATOR | USES_WEIGHTS, draw_weighted, check_weights },
    [ACCEL_SAMPLER_SUBSET] = { "subset", USES_GENERATOR | USES_INDICES, draw_subset, check_indices },
    [ACCEL_SAMPLER_DISTRIBUTED]
    = { "distributed", USES_SHARE | USES_SHUFFLE | USES_SEED, draw_distributed, check_share },
};

static bool
is_kind (const struct accel_sampler *sampler, enum accel_sampler_kind kind)
{
    return sampler->kind == &kinds[kind];
}

enum accel_status
accel_sampler_create_sized (size_t options_size, struct accel_sampler **sampler, enum accel_sampler_kind kind,
                            size_t size, const struct accel_sampler_options *options, struct accel_error *err)
{
    static const struct accel_sampler_options defaults;
    struct accel_sampler_options room;
    enum accel_status status;
    if (!sampler)
        return accel_fail_null (err, "accel_sampler_create", "sampler");
    *sampler = NULL;
    if ((unsigned) kind >= ACCEL_SAMPLER_KIND_COUNT)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid accel_sampler_kind %d", (int) kind);
    options = SIZED (options, options_size, room, &status, err);
    if (!options)
        options = &defaults;
    if (!status)
        status = check_used (&kinds[kind], options, err);
    if (!status && kinds[kind].check)
        status = kinds[kind].check (size, options, err);
    if (status)
        return status;
    size_t length = options->num_samples ? options->num_samples : size;
    if (options->replicas)
        length = size / options->replicas + (size % options->replicas && !options->drop_last);
    return make (sampler, &kinds[kind], size, length, options, err);
}

bool
sampler_is_identity (const struct accel_sampler *sampler)
{
    return is_kind (sampler, ACCEL_SAMPLER_SEQUENTIAL);
}

void
sampler_set_generator (struct accel_sampler *sampler, struct accel_generator *generator)
{
    sampler->options.generator = generator;
}

/* Those that torch's sampler has a slot for a generator for. */
static bool
draws_on (const struct accel_sampler *sampler)
{
    return sampler->kind->uses & USES_GENERATOR && !is_kind (sampler, ACCEL_SAMPLER_SEEDABLE);
}

struct accel_generator *
sampler_generator (const struct accel_sampler *sampler)
{
    return draws_on (sampler) ? sampler->options.generator : NULL;
}

bool
sampler_wants_generator (const struct accel_sampler *sampler)
{
    return draws_on (sampler) && !sampler->options.generator;
}

struct accel_generator *
sampler_source (const struct accel_sampler *sampler)
{
    return draws_on (sampler) ? source_of (sampler) : NULL;
}

static enum accel_status
draw_custom (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    const struct accel_sampler_calls *calls = &sampler->calls;
    struct accel_error cause = { 0 };
    enum accel_status status = calls->start ? calls->start (calls->user, sampler->epoch, &cause) : ACCEL_OK;
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "the program's sampler could not start a pass: %s",
                           *cause.text ? cause.text : accel_status_string (status));
    for (size_t i = 0; i < sampler->length; i++) {
        status = calls->next (calls->user, &indices[i], &cause);
        if (status)
            return accel_fail (err, ACCEL_ERR_CALLBACK, "the program's sampler failed at index %zu of %zu: %s", i,
                               sampler->length, *cause.text ? cause.text : accel_status_string (status));
    }
    return ACCEL_OK;
}

static const struct sampler_kind custom = { "custom", 0, draw_custom, NULL };

enum accel_status
accel_sampler_create_custom_sized (size_t calls_size, struct accel_sampler **sampler,
                                   const struct accel_sampler_calls *calls, struct accel_error *err)
{
    struct accel_sampler_calls room;
    enum accel_status status;
    if (!sampler)
        return accel_fail_null (err, "accel_sampler_create_custom", "sampler");
    *sampler = NULL;
    calls = SIZED (calls, calls_size, room, &status, err);
    if (status)
        return status;
    if (!calls || !calls->next)
        return accel_fail (err, ACCEL_ERR_INVALID, "the program's sampler needs a next function");
    status = make (sampler, &custom, calls->length, calls->length, &(struct accel_sampler_options){ 0 }, err);
    if (!status)
        (*sampler)->calls = *calls;
    return status;
}

static enum accel_status
draw_llmc (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    return llmc_order_draw (&sampler->llmc, sampler->epoch++, indices, err);
}

static const struct sampler_kind llmc = { "llm.c", USES_SHUFFLE | USES_SEED, draw_llmc, NULL };

enum accel_status
accel_sampler_create_llmc_sized (size_t options_size, struct accel_sampler **sampler,
                                 const struct accel_dataset *dataset, const struct accel_sampler_options *options,
                                 struct accel_error *err)
{
    static const struct accel_sampler_options defaults;
    struct accel_sampler_options room;
    enum accel_status status;
    if (!sampler)
        return accel_fail_null (err, "accel_sampler_create_llmc", "sampler");
    *sampler = NULL;
    options = SIZED (options, options_size, room, &status, err);
    if (!options)
        options = &defaults;
    if (status || (status = check_used (&llmc, options, err)))
        return status;
    size_t shards = dataset ? token_shards (dataset) : 0;
    if (!shards)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_sampler_create_llmc: expected a data set of token files whose samples do not cross "
                           "files");
    status = make (sampler, &llmc, dataset->size, 0, options, err);
    if (status)
        return status;
    struct llmc_order *order = &(*sampler)->llmc;
    *order = (struct llmc_order){ .count = shards,
                                  .shuffle = flag_or (options->shuffle, false),
                                  .seed = options->seed ? options->seed : LLMC_DEFAULT_SEED };
    order->shards = calloc (shards, sizeof *order->shards);
    if (!order->shards) {
        accel_sampler_destroy (*sampler);
        *sampler = NULL;
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an order of %zu files", shards);
    }
    for (size_t i = 0; i < shards; i++)
        order->shards[i] = token_shard_samples (dataset, i);
    sampler_set_shape (*sampler, 1, 1);
    return ACCEL_OK;
}

void
sampler_set_shape (struct accel_sampler *sampler, size_t batch_size, size_t processes)
{
    if (sampler->kind != &llmc)
        return;
    sampler->llmc.batch_size = batch_size;
    sampler->llmc.processes = processes;
    sampler->length = llmc_order_length (&sampler->llmc);
}

size_t
sampler_bound (const struct accel_sampler *sampler)
{
    return is_kind (sampler, ACCEL_SAMPLER_SUBSET) || sampler->kind == &custom ? SIZE_MAX : sampler->size;
}

void
sampler_describe (const struct accel_sampler *sampler, unsigned facts, char *text, size_t size)
{
    const struct accel_sampler_options *options = &sampler->options;
    bool with_sizes = facts & SAMPLER_SIZES;
    char sizes[64] = "", share[64] = "", content[64] = "";
    uint64_t hash = HASH_START;
    if (with_sizes)
        snprintf (sizes, sizeof sizes, ", %zu of %zu samples", sampler->length, sampler->size);
    if (is_kind (sampler, ACCEL_SAMPLER_DISTRIBUTED))
        snprintf (share, sizeof share, ", share %zu of %zu%s", options->rank, options->replicas,
                  flag_or (options->shuffle, true) ? "" : ", shuffle=no");
    if (sampler->kind == &llmc) {
        if (facts & SAMPLER_SHAPE)
            snprintf (share, sizeof share, ", %zu samples for each of %zu processes", sampler->llmc.batch_size,
                      sampler->llmc.processes);
        snprintf (text, size, "llm.c's over %zu files%s, seed %llu%s", sampler->llmc.count,
                  sampler->llmc.shuffle ? ", shuffle" : "", (unsigned long long) sampler->llmc.seed, share);
        return;
    }
    if (options->weights)
        hash = hash_bytes (hash, options->weights, sampler->size * sizeof *options->weights);
    if (options->indices)
        hash = hash_bytes (hash, options->indices, sampler->size * sizeof *options->indices);
    if (with_sizes && (options->weights || options->indices))
        snprintf (content, sizeof content, ", %s with hash %016llx", options->weights ? "weights" : "indices",
                  (unsigned long long) hash);
    snprintf (text, size, "a %s sampler%s%s%s%s%s, seed %llu", sampler->kind->name, sizes,
              options->replacement ? " with replacement" : "",
              options->generator && facts & SAMPLER_GENERATOR ? " with a generator" : "", share,
              content, (unsigned long long) options->seed);
}
