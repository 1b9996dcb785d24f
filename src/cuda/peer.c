/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two GPUs of one process, without the host.  Each GPU is visited in turn, because two threads that copy
 * in both directions would wait for each other with both locks; events order what is done meanwhile. */
#include <config.h>

#include "cuda/gpu.h"

/* Let @gpu, the present device, and @other reach each other's memory, if they can: else CUDA copies by way of the host.
 * A pool's memory is opened apart from what cudaMalloc() has allocated. */
static void
open_to (struct gpu *gpu, int device, int other)
{
    const struct cudaMemAccessDesc access = {
        .location = { .type = cudaMemLocationTypeDevice, .id = other },
        .flags = cudaMemAccessFlagsProtReadWrite,
    };
    int can = 0;
    if (other < 0 || other >= 64 || gpu->peers >> other & 1) /* one that cannot exist: the copy fails */
        return;
    gpu->peers |= UINT64_C (1) << other;
    if (!cudaDeviceCanAccessPeer (&can, other, device) && can && gpu->pool)
        cudaMemPoolSetAccess (gpu->pool, &access, 1);
    if (!cudaDeviceCanAccessPeer (&can, device, other) && can)
        cudaDeviceEnablePeerAccess (other, 0);
    cudaGetLastError (); /* the program may have enabled it already */
}

/* @param[out] event  what has been queued on @device so far */
static bool
mark (DLDevice device, int other, cudaEvent_t *event, struct accel_error *err)
{
    VISIT (device);
    if (gpu)
        open_to (gpu, (int) device.device_id, other);
    bool good = gpu && NOTE (gpu, cudaEventCreateWithFlags, event, cudaEventDisableTiming)
                && NOTE (gpu, cudaEventRecord, *event, stream);
    if (!good)
        visit_fail (&visit, device, err);
    return good;
}

static bool
copy (DLDevice device, cudaEvent_t before, void *to, DLDevice other, const void *from, size_t bytes,
      struct accel_error *err)
{
    VISIT (device);
    bool good = gpu && NOTE (gpu, cudaStreamWaitEvent, stream, before, 0)
                && NOTE (gpu, cudaMemcpyPeerAsync, to, (int) device.device_id, from, (int) other.device_id, bytes,
                         stream);
    if (!good)
        visit_fail (&visit, device, err);
    return good;
}

/* What is queued on @device from now on, such as that its memory is freed, comes after @after. */
static void
follow (DLDevice device, cudaEvent_t after)
{
    VISIT (device);
    if (gpu)
        NOTE (gpu, cudaStreamWaitEvent, stream, after, 0);
}

enum accel_status
gpu_copy_from (DLDevice device, void *to, DLDevice other, const void *from, size_t bytes, struct accel_error *err)
{
    struct accel_error why = { .code = ACCEL_OK };
    cudaEvent_t before = NULL, after = NULL;
    if (mark (other, (int) device.device_id, &before, &why) && copy (device, before, to, other, from, bytes, &why)
        && mark (device, (int) other.device_id, &after, &why))
        follow (other, after);
    if (before)
        cudaEventDestroy (before); /* once it has happened */
    if (after)
        cudaEventDestroy (after);
    if (why.code && err)
        *err = why;
    return why.code;
}
