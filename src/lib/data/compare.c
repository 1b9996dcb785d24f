/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing the loaders of all ranks.  Each says what it is in a few texts.  Their hashes are gathered; if two differ,
 * all ranks see the same difference, and the texts are fetched to name it. */
#include <config.h>

#include "lib/base/option.h"
#include "lib/base/error.h"
#include "lib/collectives/verify.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "lib/data/datasets/set_tokens.h"
#include "util/cleanup.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_SIZE = 192 };

/* What is compared, in the order in which it is reported.  How a rank reads (workers, prefetch, timeout_ms, reader) is
 * its own affair.  Fields follow. */
enum fact {
    FACT_KIND, FACT_DISPATCH, FACT_FILES, FACT_SAMPLES, FACT_BATCH_SIZE, FACT_ORDER, FACT_SEED, FACT_SPLIT,
    FACT_DROP_LAST, FACT_EVEN, FACT_BATCH_SAMPLER, FACT_COLLATE, FACT_RNG, FACT_POSITION, FACT_FIELD_COUNT, FACT_COUNT
};

static const char *const fact_names[FACT_COUNT] = {
    [FACT_KIND] = "kind of data", [FACT_DISPATCH] = "dispatch_batches", [FACT_SAMPLES] = "number of samples",
    [FACT_FILES] = "token files",
    [FACT_BATCH_SIZE] = "batch_size", [FACT_ORDER] = "order", [FACT_SEED] = "seed", [FACT_SPLIT] = "split_batches",
    [FACT_DROP_LAST] = "drop_last", [FACT_EVEN] = "even_batches", [FACT_BATCH_SAMPLER] = "batch_sampler",
    [FACT_COLLATE] = "collate", [FACT_RNG] = "synchronize_rng", [FACT_POSITION] = "position",
    [FACT_FIELD_COUNT] = "number of fields",
};

static const char *
yes_or_no (bool value)
{
    return value ? "true" : "false";
}

/* If rank 0 reads for all, the others' data sets need not work, and so need have no samples. */
static bool
others_have_data (const struct accel_loader *loader)
{
    return !share_is_dispatched (loader, 2); /* or more */
}

static void
describe_order (const struct accel_loader *loader, char value[VALUE_SIZE])
{
    const struct accel_loader_options *options = &loader->options;
    if (options->sampler)
        sampler_describe (options->sampler, SAMPLER_GENERATOR | (others_have_data (loader) ? SAMPLER_SIZES : 0), value,
                          VALUE_SIZE);
    else
        snprintf (value, VALUE_SIZE, "%s%s",
                  options->random_sampler ? "random_sampler" : options->shuffle ? "shuffle" : "the data's own",
                  options->generator ? " with a generator" : "");
}

static void
describe_batch_sampler (const struct accel_batch_sampler *sampler, char value[VALUE_SIZE])
{
    if (!sampler)
        snprintf (value, VALUE_SIZE, "none");
    else
        snprintf (value, VALUE_SIZE, "%zu batches of %zu samples (at most %zu)%s", sampler->length,
                  sampler->batch_size, sampler->most, sampler->drop_last ? ", drop_last" : "");
}

static void
describe_fact (const struct accel_loader *loader, enum fact fact, char value[VALUE_SIZE])
{
    static const char *const dispatch[] = { "auto", "yes", "no" };
    const struct accel_loader_options *options = &loader->options;
    const char *text = NULL;
    unsigned long long number = 0;
    if (fact == FACT_ORDER)
        describe_order (loader, value);
    else if (fact == FACT_BATCH_SAMPLER)
        describe_batch_sampler (options->batch_sampler, value);
    else if (fact == FACT_POSITION && loader->pass.running)
        text = "in the middle of an epoch";
    else if (fact == FACT_POSITION)
        snprintf (value, VALUE_SIZE, "epoch %llu after %zu samples", (unsigned long long) loader->position.epoch,
                  loader->position.start);
    else if (fact == FACT_FILES)
        token_files_describe (others_have_data (loader) ? loader->dataset : NULL, value, VALUE_SIZE);
    else if (fact == FACT_SAMPLES)
        number = others_have_data (loader) ? loader->samples : 0;
    else if (fact == FACT_BATCH_SIZE)
        number = options->batch_size;
    else if (fact == FACT_SEED)
        number = options->seed;
    else if (fact == FACT_FIELD_COUNT)
        number = loader->field_count;
    else
        text = fact == FACT_KIND       ? loader->data->name
               : fact == FACT_DISPATCH ? dispatch[options->dispatch_batches]
               : fact == FACT_COLLATE  ? options->collate ? "a function" : "none"
                                       : yes_or_no (fact == FACT_SPLIT       ? options->split_batches == ACCEL_YES
                                                    : fact == FACT_DROP_LAST ? options->drop_last
                                                    : fact == FACT_EVEN      ? flag_or (options->even_batches, true)
                                                                             : options->synchronize_rng);
    if (text)
        snprintf (value, VALUE_SIZE, "%s", text);
    else if (!*value)
        snprintf (value, VALUE_SIZE, "%llu", number);
}

static void
describe_field (const struct accel_field *field, char value[VALUE_SIZE])
{
    int at = snprintf (value, VALUE_SIZE, "'%.100s' %s [", field->name, accel_dtype_name (field->dtype));
    for (int i = 0; i < field->ndim && at < VALUE_SIZE - 1; i++)
        at += snprintf (value + at, (size_t) (VALUE_SIZE - at), "%s%lld", i ? ", " : "", (long long) field->shape[i]);
    if (at < VALUE_SIZE - 1)
        snprintf (value + at, (size_t) (VALUE_SIZE - at), "]");
}

/* Fact @p index, or, after the facts, a field. */
static void
describe (const struct accel_loader *loader, size_t index, char value[VALUE_SIZE])
{
    memset (value, 0, VALUE_SIZE);
    if (index < FACT_COUNT)
        describe_fact (loader, (enum fact) index, value);
    else
        describe_field (&loader->fields[index - FACT_COUNT], value);
}

/* The same on all ranks, which then hand each other their texts. */
static enum accel_status
explain (const struct accel_loader *loader, struct accel_comm *comm, const struct comm_site *site, size_t index,
         int rank, struct accel_error *err)
{
    char mine[VALUE_SIZE], first[VALUE_SIZE], other[VALUE_SIZE], name[32];
    describe (loader, index, mine);
    enum accel_status status = comm_share_texts (comm, site, mine, first, other, sizeof mine, rank, err);
    if (status)
        return status;
    snprintf (name, sizeof name, "field %zu", index - FACT_COUNT);
    return accel_fail (err, ACCEL_ERR_INVALID, "the ranks' loaders differ in %s: rank 0 has %.140s, rank %d has %.140s",
                       index < FACT_COUNT ? fact_names[index] : name, first, rank, other);
}

/* Compare @p count texts from @p first on.  Two ranks that differ see the same first difference, as all others do. */
static enum accel_status
compare_texts (const struct accel_loader *loader, struct accel_comm *comm, const struct comm_site *site, size_t first,
               size_t count, struct accel_error *err)
{
    AUTO_FREE int64_t *mine = calloc (count + 1, sizeof *mine);
    char value[VALUE_SIZE];
    size_t index = count;
    int rank = 0;
    if (!mine)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to compare loaders");
    for (size_t i = 0; i < count; i++) {
        describe (loader, first + i, value);
        mine[i] = (int64_t) hash_bytes (HASH_START, value, strlen (value));
    }
    enum accel_status status = comm_find_difference (comm, site, mine, count, &index, &rank, err);
    return status || index == count ? status : explain (loader, comm, site, first + index, rank, err);
}

enum accel_status
loader_compare (const struct accel_loader *loader, struct accel_comm *comm, const struct comm_site *site,
                struct accel_error *err)
{
    enum accel_status status = compare_texts (loader, comm, site, 0, FACT_COUNT, err);
    return status ? status : compare_texts (loader, comm, site, FACT_COUNT, loader->field_count, err);
}
