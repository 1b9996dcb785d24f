/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a loader back to where it was; see loader_backup.h. */
#include <config.h>

#include "lib/data/loader_backup.h"

#include "lib/base/error.h"
#include "lib/data/loader_object.h"

#include <stdlib.h>

/* The generator that orders continue from, and the program's. */
enum { GENERATORS = 2 };

struct loader_backup {
    struct accel_loader *loader;
    struct position position;
    struct accel_generator *persistent;
    struct accel_generator *drawn[GENERATORS]; /* or NULL */
    struct accel_generator before[GENERATORS];
};

enum accel_status
loader_back_up (struct loader_backup **backup, struct accel_loader *loader, struct accel_error *err)
{
    if (loader->pass.running || loader->pass.agreed)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_evaluate_begin: the loader is in the middle of an epoch; end it with "
                           "accel_loader_end(), or evaluate over another loader");
    struct loader_backup *made = malloc (sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to save the state of a loader");
    *made = (struct loader_backup){
        .loader = loader,
        .position = loader->position,
        .persistent = loader->drawing.persistent,
        .drawn = { drawing_generator (loader), loader->options.generator },
    };
    for (size_t i = 0; i < GENERATORS; i++)
        if (made->drawn[i])
            made->before[i] = *made->drawn[i];
    /* What a resumed loader skips, and the order it repeats, is for its own next pass. */
    loader->position.start = 0;
    loader->position.order = 0;
    loader->position.resumed = loader->position.base_seed_drawn = loader->position.restored = false;
    object_hold (&loader->object);
    *backup = made;
    return ACCEL_OK;
}

static void
put_back (const struct loader_backup *backup)
{
    struct accel_loader *loader = backup->loader;
    accel_loader_end (loader);
    if (!backup->persistent) /* the next pass makes its own, from where the seeds are then */
        drawing_drop_persistent (loader);
    /* One that the library made may have gone since, with the loader that made it, or in accel_free_memory(). */
    struct accel_generator *const now[GENERATORS] = { drawing_generator (loader), loader->options.generator };
    for (size_t i = 0; i < GENERATORS; i++)
        if (backup->drawn[i] && backup->drawn[i] == now[i])
            *backup->drawn[i] = backup->before[i];
    loader->position = backup->position;
}

void
loader_restore (struct loader_backup *backup)
{
    if (!backup)
        return;
    if (!object_is_gone (&backup->loader->object))
        put_back (backup);
    object_let_go (&backup->loader->object);
    free (backup);
}
