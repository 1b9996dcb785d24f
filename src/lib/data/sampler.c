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
#include "lib/data/set_tokens.h"
#include "util/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one kind of sampler does. */
struct sampler_kind {
    const char *name;
    enum accel_status (*draw) (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err);
};

struct accel_sampler {
    const struct sampler_kind *kind;
    size_t size;   /* of what is drawn from */
    size_t length; /* of one pass */
    uint64_t seed, epoch;
    bool replacement;
    struct accel_generator *generator; /* the program's, or the loader's; NULL: none */
    struct accel_distributed_options distributed;
    struct accel_sampler_calls calls;
    double *weights;  /* [size] */
    int64_t *indices; /* [size] */
    struct llmc_order llmc;
};

static enum accel_status
make (struct accel_sampler **sampler, const struct sampler_kind *kind, size_t size, size_t length,
      struct accel_error *err)
{
    if (!sampler)
        return accel_fail (err, ACCEL_ERR_INVALID, "sampler is NULL");
    *sampler = NULL;
    if (size > INT64_MAX / sizeof (int64_t) || length > INT64_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a sampler over %zu samples (%zu of them) is too large: size overflows", size, length);
    struct accel_sampler *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a sampler");
    made->kind = kind;
    made->size = size;
    made->length = length;
    *sampler = made;
    return ACCEL_OK;
}

void
accel_sampler_destroy (struct accel_sampler *sampler)
{
    if (!sampler)
        return;
    free (sampler->weights);
    free (sampler->indices);
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

static const struct sampler_kind sequential = { "sequential", draw_sequential };

enum accel_status
accel_sampler_sequential (struct accel_sampler **sampler, size_t size, struct accel_error *err)
{
    return make (sampler, &sequential, size, size, err);
}

bool
sampler_is_identity (const struct accel_sampler *sampler)
{
    return sampler->kind == &sequential;
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
        if (generator == sampler->generator)
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
    if (!sampler->replacement)
        return draw_permutations (sampler, generator, indices, err);
    for (size_t i = 0; i < sampler->length; i++)
        indices[i] = accel_generator_randint (generator, 0, (int64_t) sampler->size);
    return ACCEL_OK;
}

static enum accel_status
draw_random (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    if (sampler->generator)
        return draw_with (sampler, sampler->generator, indices, err);
    struct accel_generator own;
    generator_init (&own, (uint64_t) generator_random (accel_default_generator ()));
    return draw_with (sampler, &own, indices, err);
}

static const struct sampler_kind random_kind = { "random", draw_random };

static enum accel_status
make_random (struct accel_sampler **sampler, const struct sampler_kind *kind, size_t size,
             const struct accel_random_options *options, struct accel_error *err)
{
    size_t length = options && options->num_samples ? options->num_samples : size;
    if (!size) {
        if (sampler)
            *sampler = NULL;
        return accel_fail (err, ACCEL_ERR_INVALID, "a random sampler needs at least one sample to draw from");
    }
    enum accel_status status = make (sampler, kind, size, length, err);
    if (!status && options) {
        (*sampler)->replacement = options->replacement;
        (*sampler)->generator = options->generator;
    }
    return status;
}

enum accel_status
accel_sampler_random_sized (size_t options_size, struct accel_sampler **sampler, size_t size,
                            const struct accel_random_options *options, struct accel_error *err)
{
    if (sampler)
        *sampler = NULL;
    struct accel_random_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    return status ? status : make_random (sampler, &random_kind, size, options, err);
}

void
sampler_set_generator (struct accel_sampler *sampler, struct accel_generator *generator)
{
    sampler->generator = generator;
}

static enum accel_status
draw_seedable (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    struct accel_generator own, *generator = sampler->generator ? sampler->generator : &own;
    generator_init (generator, sampler->seed + sampler->epoch++);
    return draw_with (sampler, generator, indices, err);
}

static const struct sampler_kind seedable = { "seedable", draw_seedable };

enum accel_status
accel_sampler_seedable_sized (size_t options_size, struct accel_sampler **sampler, size_t size, uint64_t seed,
                              const struct accel_random_options *options, struct accel_error *err)
{
    if (sampler)
        *sampler = NULL;
    struct accel_random_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (!status)
        status = make_random (sampler, &seedable, size, options, err);
    if (!status)
        (*sampler)->seed = seed;
    return status;
}

static enum accel_status
draw_weighted (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    struct accel_generator *generator = sampler->generator ? sampler->generator : accel_default_generator ();
    return generator_multinomial (generator, sampler->weights, sampler->size, sampler->length, sampler->replacement,
                                  indices, err);
}

static const struct sampler_kind weighted = { "weighted", draw_weighted };

static enum accel_status
check_weights (const double *weights, size_t size, const struct accel_random_options *options,
               struct accel_error *err)
{
    double sum = 0;
    size_t positive = 0, length = options && options->num_samples ? options->num_samples : size;
    if (!weights || !size)
        return accel_fail (err, ACCEL_ERR_INVALID, "a weighted sampler needs weights");
    for (size_t i = 0; i < size; i++) {
        if (!isfinite (weights[i]) || weights[i] < 0)
            return accel_fail (err, ACCEL_ERR_INVALID, "weight %zu is %g; weights must be finite and not negative", i,
                               weights[i]);
        sum += weights[i];
        positive += weights[i] > 0;
    }
    if (!positive || !isfinite (sum))
        return accel_fail (err, ACCEL_ERR_INVALID, "the weights add up to %g; expected a finite, positive sum", sum);
    if (!(options && options->replacement) && length > positive)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "cannot draw %zu samples without replacement: only %zu weights are greater than 0", length,
                           positive);
    return ACCEL_OK;
}

enum accel_status
accel_sampler_weighted_sized (size_t options_size, struct accel_sampler **sampler, const double *weights, size_t size,
                              const struct accel_random_options *options, struct accel_error *err)
{
    if (sampler)
        *sampler = NULL;
    struct accel_random_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (!status)
        status = check_weights (weights, size, options, err);
    if (!status)
        status = make_random (sampler, &weighted, size, options, err);
    if (status)
        return status;
    (*sampler)->weights = malloc (size * sizeof *weights);
    if (!(*sampler)->weights) {
        accel_sampler_destroy (*sampler);
        *sampler = NULL;
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu weights", size);
    }
    memcpy ((*sampler)->weights, weights, size * sizeof *weights);
    return ACCEL_OK;
}

static enum accel_status
draw_subset (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    (void) err;
    struct accel_generator *generator = sampler->generator ? sampler->generator : accel_default_generator ();
    accel_generator_permutation (generator, indices, sampler->size);
    for (size_t i = 0; i < sampler->size; i++)
        indices[i] = sampler->indices[indices[i]];
    return ACCEL_OK;
}

static const struct sampler_kind subset = { "subset", draw_subset };

enum accel_status
accel_sampler_subset (struct accel_sampler **sampler, const int64_t *indices, size_t count,
                      struct accel_generator *generator, struct accel_error *err)
{
    enum accel_status status = make (sampler, &subset, count, count, err);
    if (status || !count)
        return status;
    (*sampler)->generator = generator;
    (*sampler)->indices = indices ? malloc (count * sizeof *indices) : NULL;
    if ((*sampler)->indices) {
        memcpy ((*sampler)->indices, indices, count * sizeof *indices);
        return ACCEL_OK;
    }
    accel_sampler_destroy (*sampler);
    *sampler = NULL;
    return indices ? accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu indices", count)
                   : accel_fail (err, ACCEL_ERR_INVALID, "a sampler of %zu indices: indices is NULL", count);
}

/* Every replicas-th index of the order, which is repeated from the front, or cut, so that all get equally many. */
static enum accel_status
draw_distributed (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    const struct accel_distributed_options *options = &sampler->distributed;
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

static const struct sampler_kind distributed = { "distributed", draw_distributed };

enum accel_status
accel_sampler_distributed_sized (size_t options_size, struct accel_sampler **sampler, size_t size,
                                 const struct accel_distributed_options *options, struct accel_error *err)
{
    if (sampler)
        *sampler = NULL;
    struct accel_distributed_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if (!options || !options->replicas || options->rank >= options->replicas)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a distributed sampler needs a rank less than the number of replicas");
    size_t whole = size / options->replicas, rest = size % options->replicas;
    status = make (sampler, &distributed, size, whole + (rest && !options->drop_last), err);
    if (!status)
        (*sampler)->distributed = *options;
    return status;
}

/* Those that torch's sampler has a slot for a generator for. */
static bool
draws_on (const struct accel_sampler *sampler)
{
    const struct sampler_kind *kind = sampler->kind;
    return kind == &random_kind || kind == &weighted || kind == &subset;
}

struct accel_generator *
sampler_generator (const struct accel_sampler *sampler)
{
    return draws_on (sampler) ? sampler->generator : NULL;
}

bool
sampler_wants_generator (const struct accel_sampler *sampler)
{
    return draws_on (sampler) && !sampler->generator;
}

struct accel_generator *
sampler_source (const struct accel_sampler *sampler)
{
    if (!draws_on (sampler))
        return NULL;
    return sampler->generator ? sampler->generator : accel_default_generator ();
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

static const struct sampler_kind custom = { "custom", draw_custom };

enum accel_status
accel_sampler_custom_sized (size_t calls_size, struct accel_sampler **sampler, const struct accel_sampler_calls *calls,
                            struct accel_error *err)
{
    if (sampler)
        *sampler = NULL;
    struct accel_sampler_calls room;
    enum accel_status status;
    calls = SIZED (calls, calls_size, room, &status, err);
    if (status)
        return status;
    if (!calls || !calls->next)
        return accel_fail (err, ACCEL_ERR_INVALID, "the program's sampler needs a next function");
    status = make (sampler, &custom, calls->length, calls->length, err);
    if (!status)
        (*sampler)->calls = *calls;
    return status;
}

static enum accel_status
draw_llmc (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err)
{
    return llmc_order_draw (&sampler->llmc, sampler->epoch++, indices, err);
}

static const struct sampler_kind llmc = { "llm.c", draw_llmc };

enum accel_status
accel_sampler_llmc_sized (size_t options_size, struct accel_sampler **sampler, const struct accel_dataset *dataset,
                          const struct accel_llmc_options *options, struct accel_error *err)
{
    if (sampler)
        *sampler = NULL;
    struct accel_llmc_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    size_t shards = dataset ? token_shards (dataset) : 0;
    if (!shards)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_sampler_llmc: expected a data set of token files whose samples do not cross files");
    status = make (sampler, &llmc, dataset->size, 0, err);
    if (status)
        return status;
    struct llmc_order *order = &(*sampler)->llmc;
    *order = (struct llmc_order){ .count = shards, .seed = LLMC_DEFAULT_SEED };
    if (options)
        order->shuffle = options->shuffle;
    if (options && options->seed)
        order->seed = options->seed;
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
    return sampler->kind == &subset || sampler->kind == &custom ? SIZE_MAX : sampler->size;
}

void
sampler_describe (const struct accel_sampler *sampler, unsigned facts, char *text, size_t size)
{
    bool with_sizes = facts & SAMPLER_SIZES;
    char sizes[64] = "", share[64] = "", content[64] = "";
    uint64_t hash = HASH_START;
    if (with_sizes)
        snprintf (sizes, sizeof sizes, ", %zu of %zu samples", sampler->length, sampler->size);
    if (sampler->kind == &distributed)
        snprintf (share, sizeof share, ", share %zu of %zu%s", sampler->distributed.rank, sampler->distributed.replicas,
                  flag_or (sampler->distributed.shuffle, true) ? "" : ", shuffle=no");
    if (sampler->kind == &llmc) {
        if (facts & SAMPLER_SHAPE)
            snprintf (share, sizeof share, ", %zu samples for each of %zu processes", sampler->llmc.batch_size,
                      sampler->llmc.processes);
        snprintf (text, size, "llm.c's over %zu files%s, seed %llu%s", sampler->llmc.count,
                  sampler->llmc.shuffle ? ", shuffle" : "", (unsigned long long) sampler->llmc.seed, share);
        return;
    }
    if (sampler->weights)
        hash = hash_bytes (hash, sampler->weights, sampler->size * sizeof *sampler->weights);
    if (sampler->indices)
        hash = hash_bytes (hash, sampler->indices, sampler->size * sizeof *sampler->indices);
    if (with_sizes && (sampler->weights || sampler->indices))
        snprintf (content, sizeof content, ", %s with hash %016llx", sampler->weights ? "weights" : "indices",
                  (unsigned long long) hash);
    snprintf (text, size, "a %s sampler%s%s%s%s%s, seed %llu", sampler->kind->name, sizes,
              sampler->replacement ? " with replacement" : "",
              sampler->generator && facts & SAMPLER_GENERATOR ? " with a generator" : "", share,
              content,
              (unsigned long long) (sampler->kind == &distributed ? sampler->distributed.seed : sampler->seed));
}
