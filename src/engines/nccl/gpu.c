/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of this process.  Threads that come here have it as their present device, and get their own back. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <dlfcn.h>

static int gpu = -1;

/* The driver's cuDevicePrimaryCtxGetState(); NULL: there is none. */
static int (*context_state) (int device, unsigned *flags, int *active);

/* What the program computes on; an older libaccel does not tell. */
static int
device_of (const struct accel_engine_job *job, int count)
{
    if (job->size >= offsetof (struct accel_engine_job, device) + sizeof job->device
        && job->device.device_type == kDLCUDA)
        return job->device.device_id;
    return job->local_rank % count;
}

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
    gpu = device_of (job, count);
    void *driver = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* the runtime has loaded it */
    if (driver)
        *(void **) &context_state = dlsym (driver, "cuDevicePrimaryCtxGetState");
    return true;
}

int
gpu_device (void)
{
    return gpu;
}

void
gpu_name (char *bus, size_t size)
{
    if (cudaDeviceGetPCIBusId (bus, (int) size, gpu))
        *bus = '\0';
}

struct device_guard
gpu_guard (void)
{
    struct device_guard guard = { .before = gpu };
    if (!cudaGetDevice (&guard.before) && guard.before != gpu)
        cudaSetDevice (gpu);
    return guard;
}

/* A device without a context would get one. */
void
gpu_restore (const struct device_guard *guard)
{
    unsigned flags;
    int active;
    if (guard->before != gpu && (!context_state || context_state (guard->before, &flags, &active) || active))
        cudaSetDevice (guard->before);
}
