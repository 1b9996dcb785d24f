/* SPDX-License-Identifier: Apache-2.0 */
/* The order of an epoch, and what else is drawn from generators when one begins. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"

void
drawing_shape_sampler (const struct accel_loader *loader)
{
    size_t parts = loader->options.split_batches == ACCEL_YES ? loader->share.processes : 1;
    if (loader->drawing.sampler)
        sampler_set_shape (loader->drawing.sampler, loader->options.batch_size / parts, loader->share.processes);
}

struct accel_generator *
drawing_generator (const struct accel_loader *loader)
{
    return loader->drawing.sampler ? sampler_generator (loader->drawing.sampler) : NULL;
}

/* It is agreed on at the beginning of each epoch. */
enum accel_status
drawing_make_persistent (struct accel_loader *loader, struct accel_error *err)
{
    struct drawing *drawing = &loader->drawing;
    if (!share_has_peers (loader) || drawing->seeds || !drawing->sampler || !sampler_wants_generator (drawing->sampler))
        return ACCEL_OK;
    uint64_t seed = (uint64_t) generator_random (accel_default_generator ());
    enum accel_status status = accel_generator_create (&drawing->persistent, seed, err);
    if (!status)
        sampler_set_generator (drawing->sampler, drawing->persistent);
    return status;
}

/* The sampler may be the program's, which outlives the loader. */
void
drawing_drop_persistent (struct accel_loader *loader)
{
    struct drawing *drawing = &loader->drawing;
    if (drawing->persistent && drawing->sampler)
        sampler_set_generator (drawing->sampler, NULL);
    accel_generator_destroy (drawing->persistent);
    drawing->persistent = NULL;
}

enum accel_status
drawing_continue (struct accel_loader *loader, enum epoch_source source, struct accel_error *err)
{
    struct drawing *drawing = &loader->drawing;
    if (!source || !drawing->sampler || !(drawing->persistent || sampler_wants_generator (drawing->sampler)))
        return ACCEL_OK;
    drawing->seeds = source == EPOCH_SEEDED;
    if (drawing->seeds)
        drawing_drop_persistent (loader);
    if (drawing->seeds || drawing->persistent)
        return ACCEL_OK;
    enum accel_status status = accel_generator_create (&drawing->persistent, 0, err); /* the state has its numbers */
    if (!status)
        sampler_set_generator (drawing->sampler, drawing->persistent);
    return status;
}

bool
drawing_seeds (const struct accel_loader *loader)
{
    const struct accel_sampler *sampler = loader->drawing.sampler;
    return sampler && sampler_source (sampler) && !sampler_generator (sampler);
}

/* Several processes draw from rank 0's default generator, as the one process did that began the run. */
static bool
seeds_together (const struct accel_loader *loader)
{
    return loader->object.owner && share_has_peers (loader) && loader->drawing.seeds;
}

enum accel_status
drawing_agree (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err)
{
    struct accel *acc = loader->object.owner;
    struct accel_generator *generator = drawing_generator (loader);
    enum accel_status status = ACCEL_OK;
    /* Not if an epoch continues: all ranks have continued from what they agreed on when it began. */
    if (acc && (loader->share.processes > 1 || share_has_peers (loader)) && loader->options.synchronize_rng
        && !loader->position.base_seed_drawn)
        status = accel_synchronize_rng_state_at (site->file, site->line, acc, NULL, err);
    if (!status && acc && generator && share_has_peers (loader))
        status = accel_synchronize_rng_state_at (site->file, site->line, acc, generator, err);
    if (status || !seeds_together (loader))
        return status;
    loader->drawing.agreed = *accel_default_generator ();
    return accel_synchronize_rng_state_at (site->file, site->line, acc, &loader->drawing.agreed, err);
}

/* torch's loaders draw a number for their workers before the sampler draws anything; from the loader's generator, which
 * a dispatching one does not have. */
static struct accel_generator *
base_seed_generator (const struct accel_loader *loader)
{
    struct accel_generator *own = loader->drawing.base_seed;
    return own ? own : accel_default_generator ();
}

/* A pass that continues drew it when it began. */
void
drawing_draw_base_seed (const struct accel_loader *loader)
{
    if (!loader->position.base_seed_drawn)
        (void) generator_random (base_seed_generator (loader));
}

static enum accel_status
draw_order (struct accel_loader *loader, struct accel_error *err)
{
    uint64_t epoch = loader->position.epoch;
    if (loader->dataset->size != loader->samples)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the data set had %zu samples when its loader was created, but has %zu now", loader->samples,
                           loader->dataset->size);
    if (loader->options.batch_sampler)
        return order_draw_batches (&loader->order, loader->options.batch_sampler, epoch, loader->samples, err);
    accel_sampler_set_epoch (loader->drawing.sampler, epoch);
    drawing_shape_sampler (loader);
    return order_draw (&loader->order, loader->drawing.sampler, loader->samples, err);
}

/* The same, from the state in which the generator was when the epoch began for the first time.  That may have been on
 * another number of processes: one process seeds its orders from the default generator, several share one to draw from.
 * The default generator serves others too: it continues from where it is. */
static enum accel_status
draw_order_again (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_sampler *sampler = loader->drawing.sampler;
    const struct position *position = &loader->position;
    struct accel_generator *own = sampler_generator (sampler), *shared = accel_default_generator ();
    struct accel_generator *used = own, stand_in = *shared, kept = *shared;
    if (position->epoch_source == EPOCH_SEEDED)
        used = shared;
    else if (!own)
        used = &stand_in;
    enum accel_status status = accel_generator_set_state (used, position->epoch_state, sizeof position->epoch_state,
                                                          err);
    if (status)
        return status;
    sampler_set_generator (sampler, used == shared ? NULL : used);
    if (base_seed_generator (loader) == used)
        (void) generator_random (used);
    else
        drawing_draw_base_seed (loader);
    status = draw_order (loader, err);
    sampler_set_generator (sampler, own);
    if (used == shared)
        *shared = kept;
    return status;
}

/* After this, rank 0's default generator has drawn the order; those of the others have drawn only the base seed, as in
 * any epoch. */
static enum accel_status
draw_together (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_generator *shared = accel_default_generator (), kept = *shared;
    *shared = loader->drawing.agreed;
    loader->position.epoch_source = EPOCH_SEEDED;
    accel_generator_get_state (shared, loader->position.epoch_state);
    drawing_draw_base_seed (loader);
    enum accel_status status = draw_order (loader, err);
    if (!loader->share.process)
        return status;
    *shared = kept;
    if (base_seed_generator (loader) == shared)
        drawing_draw_base_seed (loader);
    return status;
}

enum accel_status
drawing_make_order (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_sampler *sampler = loader->drawing.sampler;
    struct position *position = &loader->position;
    struct accel_generator *generator = sampler ? sampler_source (sampler) : NULL;
    bool again = position->restored && generator;
    position->restored = false;
    if (again)
        return draw_order_again (loader, err);
    if (seeds_together (loader))
        return draw_together (loader, err);
    position->epoch_source = !generator ? EPOCH_FIXED : sampler_generator (sampler) ? EPOCH_DRAWN : EPOCH_SEEDED;
    if (generator)
        accel_generator_get_state (generator, position->epoch_state);
    drawing_draw_base_seed (loader);
    return draw_order (loader, err);
}

enum accel_status
drawing_try (struct accel_loader *loader,
             enum accel_status (*begin) (struct accel_loader *loader, struct accel_error *err), struct accel_error *err)
{
    struct accel_generator *drawn[]
        = { drawing_generator (loader), loader->options.generator, accel_default_generator () };
    struct accel_generator before[3];
    bool restored = loader->position.restored;
    for (size_t i = 0; i < 3; i++)
        if (drawn[i])
            before[i] = *drawn[i];
    enum accel_status status = begin (loader, err);
    if (!status)
        return ACCEL_OK;
    for (size_t i = 0; i < 3; i++)
        if (drawn[i])
            *drawn[i] = before[i];
    loader->position.restored = restored;
    return status;
}
