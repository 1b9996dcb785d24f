/* SPDX-License-Identifier: Apache-2.0 */
/* Engine mpi as a libaccel of version 1 would use it: the helpers end before those that came later, and there is only
 * run().  It loads accel_engine_mpi.so of the folder ACCEL_ENGINE_PATH. */
#include <accel/engine.h>

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern ACCEL_API struct accel_engine accel_engine;
struct accel_engine accel_engine;

static const struct accel_engine *mpi;
static struct accel_engine_helpers first; /* of version 1 */

static enum accel_status
open_with_less (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    memcpy (&first, job->helpers, offsetof (struct accel_engine_helpers, widen));
    first.size = offsetof (struct accel_engine_helpers, widen);
    job->helpers = &first;
    return mpi->open (transport, job, err);
}

static enum accel_status
run_with_less (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    struct accel_engine_call its = *call;
    its.helpers = &first;
    return mpi->run (transport, &its, err);
}

__attribute__ ((constructor)) static void
load (void)
{
    const char *folder = getenv ("ACCEL_ENGINE_PATH");
    char path[4096];
    snprintf (path, sizeof path, "%s/accel_engine_mpi.so", folder ? folder : ".");
    void *library = dlopen (path, RTLD_NOW | RTLD_LOCAL);
    mpi = library ? dlsym (library, ACCEL_ENGINE_SYMBOL) : NULL;
    if (!mpi)
        return; /* libaccel refuses what is all zeros */
    accel_engine = *mpi;
    accel_engine.name = "elder";
    accel_engine.open = open_with_less;
    accel_engine.run = run_with_less;
    accel_engine.start = NULL;
    accel_engine.test = NULL;
    accel_engine.wait = NULL;
    accel_engine.has_one_thread = NULL;
}
