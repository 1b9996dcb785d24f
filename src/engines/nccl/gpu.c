/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of this process.  Threads that come here have it as their present device, and get their own back. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <dlfcn.h>


bool
gpu_choose (const struct accel_engine_job *job, struct accel_error *err)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount (&count);
    if (error || count < 1) {
        cudaGetLastError ();
        job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "finds no GPU: %s",
                            error ? cudaGetErrorString (error) : "none is visible");
        return false;
    }
    engine.gpu = job->device.device_type == kDLCUDA ? job->device.device_id : job->local_rank % count;

    void *driver = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* the runtime has loaded it */
    if (driver)
        *(void **) &engine.context_state = dlsym (driver, "cuDevicePrimaryCtxGetState");
    return true;
}

void
gpu_name (char *bus, size_t size)
{
    if (cudaDeviceGetPCIBusId (bus, (int) size, engine.gpu))
        *bus = '\0';
}

struct device_guard
gpu_guard (void)
{
    struct device_guard guard = { .before = engine.gpu };
    if (!cudaGetDevice (&guard.before) && guard.before != engine.gpu)
        cudaSetDevice (engine.gpu);
    return guard;
}

/* A device without a context would get one. */
void
gpu_restore (const struct device_guard *guard)
{
    unsigned flags;
    int active;
    if (guard->before != engine.gpu
        && (!engine.context_state || engine.context_state (guard->before, &flags, &active) || active))
        cudaSetDevice (guard->before);

}
