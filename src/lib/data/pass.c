/* SPDX-License-Identifier: Apache-2.0 */
/* One pass through the data: memory and threads, random numbers, the order, the beginning and the end. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "lib/state/state_private.h"

enum { DEFAULT_TIMEOUT_MS = 1800000, DEFAULT_PREFETCH = 2 };

uint32_t
loader_timeout (const struct accel_loader *loader)
{
    return loader->options.timeout_ms ? loader->options.timeout_ms : DEFAULT_TIMEOUT_MS;
}

static enum accel_status
make_reader (struct accel_loader *loader, struct accel_error *err)
{
    const struct accel_loader_options *options = &loader->options;
    size_t threads = loader->stream && options->workers ? 1 : options->workers; /* a stream is read by one */
    size_t ahead = options->prefetch ? options->prefetch : DEFAULT_PREFETCH;
    /* Memory that ranks share is for batches which communication sends from; collate functions get ordinary one, which
     * threads can make larger. */
    struct accel *acc = options->collate || loader->dispatching ? NULL : loader->object.owner;
    size_t rows = loader->row_capacity;
    if (loader->stream && options->workers)
        ahead *= options->workers;
    return reader_create (&loader->reader, threads, ahead, loader->fields, loader->field_count, rows, acc, err);
}

enum accel_status
pass_init (struct accel_loader *loader, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (loader->abandoned)
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of an earlier pass");
    if (loader_reads (loader))
        status = make_reader (loader, err);
    if (!status && loader->stream && loader_reads (loader))
        status = stream_init (loader, err);
    if (!status && loader->dispatching)
        status = dispatch_init (loader, err);
    if (status)
        pass_release (loader);
    return status;
}

void
pass_release (struct accel_loader *loader)
{
    loader->given = (struct accel_batch){ 0 };
    if (!reader_destroy (loader->reader, loader_timeout (loader)))
        loader->abandoned = true;
    loader->reader = NULL;
    dispatch_release (loader);
    if (!loader->abandoned)
        stream_release (loader);
}

struct accel_generator *
loader_order_generator (const struct accel_loader *loader)
{
    return loader->sampler ? sampler_generator (loader->sampler) : NULL;
}

/* What the original agrees on at the beginning of an epoch. */
static enum accel_status
agree (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err)
{
    struct accel *acc = loader->object.owner;
    struct accel_generator *generator = loader_order_generator (loader);
    enum accel_status status = ACCEL_OK;
    if (loader->agreed)
        return ACCEL_OK;
    bool together = acc && loader->processes > 1;
    if (together && loader->options.synchronize_rng)
        status = accel_synchronize_rng_state_at (site->file, site->line, acc, ACCEL_RNG_TORCH, NULL, err);
    if (!status && together && generator && !loader->dispatching)
        status = accel_synchronize_rng_state_at (site->file, site->line, acc, ACCEL_RNG_GENERATOR, generator, err);
    loader->agreed = !status;
    return status;
}

/* torch's loaders draw a number for their workers before the sampler draws anything; from the loader's generator, which
 * a dispatching one does not have. */
static struct accel_generator *
base_seed_generator (const struct accel_loader *loader)
{
    struct accel_generator *own = loader->dispatching ? NULL : loader->options.generator;
    return own ? own : accel_default_generator ();
}

/* A pass that goes on drew it when it began. */
static void
draw_base_seed (const struct accel_loader *loader)
{
    if (!loader->base_seed_drawn)
        (void) accel_generator_random (base_seed_generator (loader));
}

static enum accel_status
draw_order (struct accel_loader *loader, struct accel_error *err)
{
    if (loader->dataset->size != loader->samples)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the data set had %zu samples when its loader was created, but has %zu now", loader->samples,
                           loader->dataset->size);
    if (loader->options.batch_sampler)
        return order_draw_batches (&loader->order, loader->options.batch_sampler, loader->epoch, loader->samples, err);
    accel_sampler_set_epoch (loader->sampler, loader->epoch);
    loader_shape_sampler (loader);
    return order_draw (&loader->order, loader->sampler, loader->samples, err);
}

/* The same, from the state in which the generator was when the epoch began for the first time.  That may have been on
 * another number of processes: one process seeds its orders from the default generator, several share one to draw from.
 * The default generator serves others too: it goes on from where it is. */
static enum accel_status
draw_order_again (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_generator *own = sampler_generator (loader->sampler), *shared = accel_default_generator ();
    struct accel_generator *used = own, stand_in = *shared, kept = *shared;
    if (loader->epoch_source == EPOCH_SEEDED)
        used = shared;
    else if (!own)
        used = &stand_in;
    enum accel_status status
        = accel_generator_set_state (used, loader->epoch_state, sizeof loader->epoch_state, err);
    if (status)
        return status;
    sampler_set_generator (loader->sampler, used == shared ? NULL : used);
    if (base_seed_generator (loader) == used)
        (void) accel_generator_random (used);
    else
        draw_base_seed (loader);
    status = draw_order (loader, err);
    sampler_set_generator (loader->sampler, own);
    if (used == shared)
        *shared = kept;
    return status;
}

static enum accel_status
make_order (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_generator *generator = loader->sampler ? sampler_source (loader->sampler) : NULL;
    bool again = loader->restored && generator;
    loader->restored = false;
    if (again)
        return draw_order_again (loader, err);
    loader->epoch_source = !generator ? EPOCH_FIXED : sampler_generator (loader->sampler) ? EPOCH_DRAWN : EPOCH_SEEDED;
    if (generator)
        accel_generator_get_state (generator, loader->epoch_state);
    draw_base_seed (loader);
    return draw_order (loader, err);
}

/* The reader of a dispatcher reads for all processes, one after the other. */
static struct reader_source
make_source (struct accel_loader *loader)
{
    struct reader_source source
        = { .user = loader, .length = SIZE_MAX, .only_threads = loader->options.timeout_ms > 0 };
    if (loader->stream) {
        source.fill = stream_fill;
        source.serial = true;
        return source;
    }
    source.fill = map_fill;
    source.length = shard_length (&loader->shard);
    return source;
}

static enum accel_status
begin_reading (struct accel_loader *loader, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    loader->interrupted = false;
    if (loader->reader->broken) /* neither the order nor the program's stream may change under that thread */
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of the last pass");
    if (loader->stream) {
        draw_base_seed (loader);
        status = stream_start (loader, loader->start, err);
    } else {
        const struct accel_batch_sampler *batches = loader->options.batch_sampler;
        status = make_order (loader, err);
        loader->shard.samples = batches && !batches->batch_size ? loader->order.batches : loader->order.samples;
        loader->shard.start = loader->start;
        loader->shard.even = loader_is_even (loader);
    }
    if (status)
        return status;
    struct reader_source source = make_source (loader);
    reader_start (loader->reader, &source, 0);
    status = loader->dispatching ? dispatch_start (loader, err) : ACCEL_OK;
    if (status) /* the next attempt begins anew */
        reader_stop (loader->reader, loader->reader->broken ? 0 : loader_timeout (loader));
    return status;
}

enum accel_status
pass_begin_reading (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_generator *drawn[]
        = { loader_order_generator (loader), loader->options.generator, accel_default_generator () };
    struct accel_generator before[3];
    bool restored = loader->restored;
    for (size_t i = 0; i < 3; i++)
        if (drawn[i])
            before[i] = *drawn[i];
    enum accel_status status = begin_reading (loader, err);
    if (!status)
        return ACCEL_OK;
    for (size_t i = 0; i < 3; i++)
        if (drawn[i])
            *drawn[i] = before[i];
    loader->restored = restored;
    return status;
}

/* Go on with a stream whose reading failed: behind what was given out. */
static enum accel_status
start_again (struct accel_loader *loader, struct accel_error *err)
{
    struct reader *reader = loader->reader;
    struct reader_source source = make_source (loader);
    if (!reader_stop (reader, loader_timeout (loader)))
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of an earlier attempt");
    enum accel_status status = stream_start (loader, loader->start + reader->next_out * loader->cursor.group, err);
    if (!status)
        reader_start (reader, &source, reader->next_out);
    return status;
}

enum accel_status
pass_read (struct accel_loader *loader, struct accel_batch **batch, bool *is_last, struct accel_error *err)
{
    enum accel_status status = loader->interrupted ? start_again (loader, err) : ACCEL_OK;
    *batch = NULL;
    if (!status)
        status = reader_next (loader->reader, batch, is_last, loader_timeout (loader), err);
    loader->interrupted = status && loader->stream && loader->stream->start && !loader->reader->broken;
    return status;
}

enum accel_status
pass_begin (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = agree (loader, site, err);
    bool tells = loader->dispatching && loader->processes > 1; /* what went wrong, with the first round */
    loader->stream_remainder = 0;
    loader->dispatcher.failure = (struct accel_error){ 0 };
    loader->dispatcher.not_begun = false;
    loader->dispatcher.current = 1; /* so that the first round to be given out is 0 */
    if (!status && loader_reads (loader)) {
        status = pass_begin_reading (loader, tells ? &loader->dispatcher.failure : err);
        loader->dispatcher.not_begun = tells && status;
        if (tells)
            status = ACCEL_OK;
    } else if (!status)
        draw_base_seed (loader); /* so do the original's processes that only receive */
    if (status)
        return status;
    loader->running = true;
    if (loader->object.owner) {
        loader->outer = state_active_loader (loader->object.owner);
        state_set_active_loader (loader->object.owner, loader);
    }
    return ACCEL_OK;
}

/* Leave the chain of running loaders, wherever in it we are: loops can be left in any order. */
static void
leave (struct accel_loader *loader, struct accel *acc)
{
    struct accel_loader *inner = state_active_loader (acc);
    if (inner == loader)
        state_set_active_loader (acc, loader->outer);
    while (inner && inner->outer != loader)
        inner = inner->outer;
    if (inner)
        inner->outer = loader->outer;
    loader->outer = NULL;
}

void
pass_end (struct accel_loader *loader)
{
    if (loader->running && loader->object.owner)
        leave (loader, loader->object.owner);
    if (loader->reader)
        reader_stop (loader->reader, loader_timeout (loader));
    loader->running = false;
    loader->at_end = false;
    loader->resumed = loader->base_seed_drawn = loader->agreed = false;
    loader->next = 0;
    loader->start = 0;
}
