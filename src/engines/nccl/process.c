/* SPDX-License-Identifier: Apache-2.0 */
/* What this process has: NCCL, and a GPU.  Which release of NCCL it is shows only when it is loaded; if PyTorch brings
 * its own, LD_LIBRARY_PATH leads to it.  Threads that come here have the GPU as their present device, and get their
 * own back. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

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
    int version = VERSION_LEAST;
#define X(name) *(void **) &found.name = dlsym (library, "nccl" #name);
    NCCL_NEEDED (X)
    NCCL_OPTIONAL (X)
#undef X
    if (found.GetVersion && found.GetVersion (&version))
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "cannot use libnccl.so.2: ncclGetVersion() fails");
    if (version < VERSION_LEAST)
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "needs NCCL 2.18 or newer, but libnccl.so.2 is version %d",
                              version);
#define X(name)      \
    if (!found.name) \
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "cannot use libnccl.so.2: it lacks nccl" #name "()");
    NCCL_NEEDED (X)
#undef X
    const char *order = getenv ("NCCL_LAUNCH_ORDER_IMPLICIT");
    engine.orders_launches = version >= VERSION_ORDERS && order && !strcmp (order, "1");
    if (!found.MemFree)
        found.MemAlloc = NULL;
    if (!found.CommDeregister)
        found.CommRegister = NULL;
    nccl = found;
    return ACCEL_OK;
}

/* A child of fork() that closes its communicators finds the lock as if no thread had it. @{ */
static void
before_fork (void)
{
    pthread_mutex_lock (&engine.lock);
}

static void
after_fork (void)
{
    pthread_mutex_unlock (&engine.lock);
}

/* The threads that looked for calls have stayed in the parent. */
static void
begin_child (void)
{
    for (struct communicator *comm = engine.comms; comm; comm = comm->next)
        comm->is_looked_at = false;
    after_fork ();
}
/* @} */

enum accel_status
library_open (const struct accel_engine_helpers *helpers, struct accel_error *err)
{
    if (nccl.GetVersion)
        return ACCEL_OK;
    if (!engine.library)
        engine.library = dlopen ("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!engine.library)
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "finds no NCCL: %s", dlerror ());
    if (!engine.watches_forks && pthread_atfork (before_fork, after_fork, begin_child))
        return helpers->fail (err, ACCEL_ERR_NOMEM, "out of memory");
    engine.watches_forks = true;
    return load (engine.library, helpers, err);
}

/* ---- the GPU ---- */

static _Thread_local cudaError_t own_error;

cudaError_t
gpu_own_error (void)
{
    return own_error;
}

/* That an event has not happened yet is the runtime's last error, too, but not the driver's.  Numbers of errors are the
 * same. */
cudaError_t
gpu_event_query (cudaEvent_t event)
{
    return engine.event_query ? (cudaError_t) engine.event_query (event) : cudaEventQuery (event);
}

bool
gpu_choose (const struct accel_engine_job *job, struct accel_error *err)
{
    int count = 0;
    own_error = cudaPeekAtLastError ();
    cudaError_t error = cudaGetDeviceCount (&count);
    if (error || count < 1) {
        job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "finds no GPU: %s%s%s",
                            error ? cudaGetErrorString (error) : "none is visible", OWN_WORDS);
        if (error)
            cudaGetLastError (); /* no guard takes it: there may be no device */
        return false;
    }
    engine.gpu = job->device.device_type == kDLCUDA ? job->device.device_id : job->local_rank % count;

    void *driver = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* the runtime has loaded it */
    if (driver)
        *(void **) &engine.context_state = dlsym (driver, "cuDevicePrimaryCtxGetState");
    if (driver)
        *(void **) &engine.event_query = dlsym (driver, "cuEventQuery");
    return true;
}

void
gpu_name (char *bus, size_t size)
{
    if (cudaDeviceGetPCIBusId (bus, (int) size, engine.gpu))
        *bus = '\0';
}

/* The device is set also where it is the present one: the driver, which is asked for events, needs its context to be
 * current.  To exchange modes makes a context on the present device, so that comes second. */
struct device_guard
gpu_guard (void)
{
    struct device_guard guard = { .before = engine.gpu, .capture_mode = cudaStreamCaptureModeRelaxed };
    guard.own = own_error = cudaPeekAtLastError ();
    if (cudaGetDevice (&guard.before))
        guard.before = engine.gpu;
    cudaSetDevice (engine.gpu);
    cudaThreadExchangeStreamCaptureMode (&guard.capture_mode);
    return guard;
}

/* A device without a context would get one, also by the exchange. */
void
gpu_restore (struct device_guard *guard)
{
    unsigned flags;
    int active;
    cudaThreadExchangeStreamCaptureMode (&guard->capture_mode);
    if (guard->before != engine.gpu
        && (!engine.context_state || engine.context_state (guard->before, &flags, &active) || active))
        cudaSetDevice (guard->before);
    if (!guard->own)
        cudaGetLastError ();
}
