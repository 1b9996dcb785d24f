/* SPDX-License-Identifier: Apache-2.0 */
/* The position of a loader, and continuing from there.  A position is a number of samples of the epoch's order (or,
 * if the program makes batches that vary, a number of these), on whichever ranks; so it means the same to any number
 * of processes. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "lib/state/state_dict.h"
#include "util/hash.h"

#include <accel/utility.h>

#include <string.h>

/* The first that could be had did not say whether its epoch had begun. */
enum { STATE_VERSION = 0x4c530003, STATE_VERSION_WITHOUT_BEGUN = 0x4c530002 };

/* Bits of has_generator.  Later epochs are seeded from the default generator, which a state between two epochs has to
 * say, too.  The upper bits are the loader's traits, or 0. */
enum { STATE_SOURCE = 3, STATE_SEEDS = 8, STATE_TRAITS_SHIFT = 8 };

static uint64_t
checksum (const struct accel_loader_state *state)
{
    return hash_bytes (HASH_START, state, offsetof (struct accel_loader_state, checksum));
}

enum accel_status
accel_loader_get_state (const struct accel_loader *loader, struct accel_loader_state *state, struct accel_error *err)
{
    if (!loader || !state)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, loader ? "state" : "loader");
    memset (state, 0, sizeof *state);
    state->version = STATE_VERSION;
    state->epoch = loader->position.epoch;
    state->seed = loader->options.seed;
    state->position = loader->source->position (loader);
    const struct position *position = &loader->position;
    struct accel_generator *own = drawing_generator (loader);
    bool running = loader->pass.running;
    if ((running || position->restored) && position->epoch_source) {
        state->has_generator = position->epoch_source;
        memcpy (state->generator, position->epoch_state, sizeof state->generator);
    } else if (!running && own) { /* between epochs: no other process could note one that several share */
        state->has_generator = EPOCH_DRAWN;
        accel_generator_get_state (own, state->generator);
    } else if (!running && position->draws_on) { /* rank 0's, where this rank has none */
        state->has_generator = EPOCH_DRAWN;
        memcpy (state->generator, position->next_state, sizeof state->generator);
    }
    if (running || position->base_seed_drawn)
        state->has_generator |= ACCEL_LOADER_STATE_BEGUN;
    if (drawing_seeds (loader) && (state->has_generator & STATE_SOURCE) != EPOCH_DRAWN)
        state->has_generator |= STATE_SEEDS;
    if (loader->share.processes == 1 || share_is_dealt (loader)) /* otherwise only rank 0 need have the data */
        state->has_generator |= loader->traits << STATE_TRAITS_SHIFT;
    state->checksum = checksum (state);
    return ACCEL_OK;
}

/* Between two epochs, a loader has no position in its data. */
static bool
is_inside (const struct accel_loader_state *state)
{
    return state->position || state->has_generator & ACCEL_LOADER_STATE_BEGUN;
}

/* What an epoch draws from the default generator when it begins is not drawn again if that is done. */
static bool
has_begun (const struct accel_loader_state *state)
{
    if (state->version == STATE_VERSION_WITHOUT_BEGUN)
        return state->position || state->has_generator == EPOCH_SEEDED; /* it has no other bits */
    return state->has_generator & ACCEL_LOADER_STATE_BEGUN;
}

/* Whether orders, or their seeds, are drawn from a generator. */
static bool
has_source (const struct accel_loader *loader)
{
    return loader->drawing.sampler && sampler_source (loader->drawing.sampler);
}

static enum accel_status
check_state (const struct accel_loader *loader, const struct accel_loader_state *state, uint32_t source,
             struct accel_error *err)
{
    bool known = state->version == STATE_VERSION || state->version == STATE_VERSION_WITHOUT_BEGUN;
    if (!known || source >= EPOCH_SOURCES || state->position > PTRDIFF_MAX)
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a loader state, or from a different release");
    if (state->checksum != checksum (state))
        return accel_fail (err, ACCEL_ERR_FORMAT, "the loader state is damaged: its checksum is wrong");
    if (state->seed != loader->options.seed)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the state is from a loader with seed %llu, but this loader has %llu: their orders differ",
                           (unsigned long long) state->seed, (unsigned long long) loader->options.seed);
    uint32_t hash = state->has_generator >> STATE_TRAITS_SHIFT;
    if (hash && is_inside (state) && loader->share.reads && hash != loader->traits)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the state is from a loader over other data, or with another order: its position has no "
                           "meaning here");
    if (source && loader->share.reads && !has_source (loader))
        return accel_fail (err, ACCEL_ERR_INVALID, "the state contains a generator, but this loader uses none");
    if (state->position > loader->source->end (loader))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the state is %llu samples into an epoch, but this loader's epochs have %zu",
                           (unsigned long long) state->position, loader->source->end (loader));
    struct accel_generator scratch = *accel_default_generator ();
    if (source && accel_generator_set_state (&scratch, state->generator, sizeof state->generator, NULL))
        return accel_fail (err, ACCEL_ERR_FORMAT, "the loader state contains an invalid generator state");
    return ACCEL_OK;
}

enum accel_status
accel_loader_set_state (struct accel_loader *loader, const struct accel_loader_state *state, struct accel_error *err)
{
    if (!loader || !state)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, loader ? "state" : "loader");
    uint32_t source = state->has_generator & STATE_SOURCE;
    enum accel_status status = check_state (loader, state, source, err);
    bool seeds = state->has_generator & STATE_SEEDS;
    if (!status)
        status = drawing_continue (loader, seeds ? EPOCH_SEEDED : (enum epoch_source) source, err);
    if (status)
        return status;
    if (loader->object.owner)
        comm_clear_failure (accel_world (loader->object.owner), loader);
    pass_end (loader);
    struct position *position = &loader->position;
    position->restored = source;
    position->epoch_source = (enum epoch_source) source;
    position->resumed = source || state->position;
    position->base_seed_drawn = has_begun (state);
    memcpy (position->epoch_state, state->generator, sizeof position->epoch_state);
    position->epoch = state->epoch;
    position->start = (size_t) state->position;
    return ACCEL_OK;
}

/* The object is the first member. */
void
loader_save (const struct object *object, struct accel_state_dict *state)
{
    struct accel_loader_state position;
    if (accel_loader_get_state ((const struct accel_loader *) (const void *) object, &position, NULL))
        return;
    state_dict_add_uint64 (state, "version", position.version);
    state_dict_add_uint64 (state, "epoch", position.epoch);
    state_dict_add_uint64 (state, "seed", position.seed);
    state_dict_add_uint64 (state, "position", position.position);
    state_dict_add_uint64 (state, "has_generator", position.has_generator);
    traits_save ((const struct accel_loader *) (const void *) object, state);
    if (position.has_generator & STATE_SOURCE)
        accel_state_dict_set_bytes (state, "generator", position.generator, sizeof position.generator);
}

/* The epoch begins with other data, in the orders of this loader. */
static void
begin_anew (const struct accel_loader *loader, struct accel_loader_state *position, const char *why)
{
    accel_logger_log (loader->object.owner, ACCEL_LOG_WARNING, "epoch %llu %s: %s",
                      (unsigned long long) position->epoch,
                      is_inside (position) ? "restarts" : "continues over other data than were saved", why);
    position->position = 0;
    position->seed = loader->options.seed;
    position->has_generator &= has_source (loader) ? STATE_SOURCE | STATE_SEEDS : 0;
}

static enum accel_status
read_place (const struct accel_state_dict *state, struct accel_loader_state *position, struct accel_error *err)
{
    uint64_t version = 0, has_generator = 0;
    memset (position, 0, sizeof *position);
    enum accel_status status = state_dict_read_uint64 (state, "version", &version, err);
    if (!status)
        status = state_dict_read_uint64 (state, "epoch", &position->epoch, err);
    if (!status)
        status = state_dict_read_uint64 (state, "seed", &position->seed, err);
    if (!status)
        status = state_dict_read_uint64 (state, "position", &position->position, err);
    if (!status)
        status = state_dict_read_uint64 (state, "has_generator", &has_generator, err);
    if (!status && (version > UINT32_MAX || has_generator > UINT32_MAX))
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a loader state, or from a different release");
    position->version = (uint32_t) version;
    position->has_generator = (uint32_t) has_generator;
    return status || !(has_generator & STATE_SOURCE)
               ? status
               : accel_state_dict_get_bytes (state, "generator", position->generator, sizeof position->generator, err);
}

/* If rank 0 reads for all, the others' data sets need not be there; to begin anew, all ranks have to see why. */
static enum accel_status
check_traits (const struct accel_loader *loader, const struct accel_state_dict *state,
              struct accel_loader_state *position, uint64_t *order, struct accel_error *err)
{
    struct accel_error difference = { 0 };
    bool restarts = loader->options.restart_on_other_data;
    if (loader->share.reads || restarts)
        (void) traits_check (loader, state, &difference);
    bool other = difference.code == ACCEL_ERR_INVALID;
    if (!difference.code && restarts && position->seed != loader->options.seed)
        other = accel_fail (&difference, ACCEL_ERR_INVALID, "seed %llu then, %llu now",
                            (unsigned long long) position->seed, (unsigned long long) loader->options.seed);
    if (other && !restarts && is_inside (position))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the checkpoint's position is in %.380s; continue with the same, or set "
                           "restart_on_other_data to restart the epoch", difference.text);
    if (other) {
        begin_anew (loader, position, difference.text);
        *order = 0;
    } else if (difference.code && err)
        *err = difference;
    return other ? ACCEL_OK : difference.code;
}

enum accel_status
loader_load (struct object *object, const struct accel_state_dict *state, struct accel_error *err)
{
    struct accel_loader *loader = (struct accel_loader *) (void *) object;
    struct accel_loader_state position;
    uint64_t order = 0;
    enum accel_status status = read_place (state, &position, err);
    if (!status && accel_state_dict_has (state, "order_hash"))
        status = state_dict_read_uint64 (state, "order_hash", &order, err);
    if (!status)
        status = check_traits (loader, state, &position, &order, err);
    position.checksum = checksum (&position);
    if (!status)
        status = accel_loader_set_state (loader, &position, err);
    if (!status && loader->dataset && loader->share.reads)
        loader->position.order = order;
    return status;
}
