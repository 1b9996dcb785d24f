/* SPDX-License-Identifier: Apache-2.0 */
/* Loading NCCL.  Which release it is shows only then; if PyTorch brings its own, LD_LIBRARY_PATH leads to it. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <dlfcn.h>

struct nccl nccl;
struct nccl_engine engine = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .gpu = -1,
    .progress = { .wake = PTHREAD_COND_INITIALIZER },
};

static enum accel_status
load (void *library, const struct accel_engine_helpers *helpers, struct accel_error *err)
{
    struct nccl found = { 0 };
    int version = 0;
#define X(name) *(void **) &found.name = dlsym (library, "nccl" #name);
    NCCL_NEEDED (X)
    NCCL_OPTIONAL (X)
#undef X
    if (found.GetVersion && found.GetVersion (&version))
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "cannot use libnccl.so.2: ncclGetVersion() fails");
    if (found.GetVersion && version < VERSION_LEAST)
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "needs NCCL 2.18 or newer, but libnccl.so.2 is version %d",
                              version);
#define X(name)      \
    if (!found.name) \
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "cannot use libnccl.so.2: it lacks nccl" #name "()");
    NCCL_NEEDED (X)
#undef X
    if (!found.MemAlloc || !found.MemFree)
        found.MemAlloc = NULL;
    if (!found.CommRegister || !found.CommDeregister)
        found.CommRegister = NULL;
    nccl = found;
    return ACCEL_OK;
}

enum accel_status
library_open (const struct accel_engine_helpers *helpers, struct accel_error *err)
{
    if (nccl.GetVersion)
        return ACCEL_OK;
    if (!engine.library)
        engine.library = dlopen ("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!engine.library)
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "finds no NCCL: %s", dlerror ());
    return load (engine.library, helpers, err);
}
