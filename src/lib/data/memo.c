/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a loader back to where it was; see memo.h. */
#include <config.h>

#include "lib/data/memo.h"

#include "lib/base/error.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"

#include <stdlib.h>
#include <string.h>

/* The generator that orders continue from, and the program's. */
enum { GENERATORS = 2 };

struct loader_memo {
    struct accel_loader *loader;
    uint64_t epoch;
    size_t start, stream_remainder;
    bool resumed, base_seed_drawn, restored, draws_on;
    enum epoch_source epoch_source;
    uint8_t epoch_state[ACCEL_GENERATOR_STATE_BYTES];
    uint8_t next_state[ACCEL_GENERATOR_STATE_BYTES];
    struct accel_generator *persistent;
    struct accel_generator *drawn[GENERATORS]; /* or NULL */
    struct accel_generator before[GENERATORS];
};

enum accel_status
loader_remember (struct loader_memo **memo, struct accel_loader *loader, struct accel_error *err)
{
    if (loader->running || loader->agreed)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_evaluate_begin: the loader is in the middle of an epoch; end it with "
                           "accel_loader_end(), or evaluate over another loader");
    struct loader_memo *made = malloc (sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to save the state of a loader");
    *made = (struct loader_memo){
        .loader = loader,
        .epoch = loader->epoch,
        .start = loader->start,
        .stream_remainder = loader->stream_remainder,
        .resumed = loader->resumed,
        .base_seed_drawn = loader->base_seed_drawn,
        .restored = loader->restored,
        .epoch_source = loader->epoch_source,
        .draws_on = loader->dispatcher.draws_on,
        .persistent = loader->persistent,
        .drawn = { loader_order_generator (loader), loader->options.generator },
    };
    memcpy (made->epoch_state, loader->epoch_state, sizeof made->epoch_state);
    memcpy (made->next_state, loader->dispatcher.next_state, sizeof made->next_state);
    for (size_t i = 0; i < GENERATORS; i++)
        if (made->drawn[i])
            made->before[i] = *made->drawn[i];
    /* What a resumed loader skips, and the order it repeats, is for its own next pass. */
    loader->start = 0;
    loader->resumed = loader->base_seed_drawn = loader->restored = false;
    object_hold (&loader->object);
    *memo = made;
    return ACCEL_OK;
}

static void
put_back (const struct loader_memo *memo)
{
    struct accel_loader *loader = memo->loader;
    accel_loader_end (loader);
    if (!memo->persistent && loader->persistent) { /* the next pass makes its own, from where the seeds are then */
        sampler_set_generator (loader->sampler, NULL);
        accel_generator_destroy (loader->persistent);
        loader->persistent = NULL;
    }
    /* One that the library made may have gone since, with the loader that made it, or in accel_free_memory(). */
    struct accel_generator *const now[GENERATORS] = { loader_order_generator (loader), loader->options.generator };
    for (size_t i = 0; i < GENERATORS; i++)
        if (memo->drawn[i] && memo->drawn[i] == now[i])
            *memo->drawn[i] = memo->before[i];
    loader->epoch = memo->epoch;
    loader->start = memo->start;
    loader->stream_remainder = memo->stream_remainder;
    loader->resumed = memo->resumed;
    loader->base_seed_drawn = memo->base_seed_drawn;
    loader->restored = memo->restored;
    loader->epoch_source = memo->epoch_source;
    loader->dispatcher.draws_on = memo->draws_on;
    memcpy (loader->epoch_state, memo->epoch_state, sizeof loader->epoch_state);
    memcpy (loader->dispatcher.next_state, memo->next_state, sizeof loader->dispatcher.next_state);
}

void
loader_restore (struct loader_memo *memo)
{
    if (!memo)
        return;
    if (!object_is_gone (&memo->loader->object))
        put_back (memo);
    object_let_go (&memo->loader->object);
    free (memo);
}
