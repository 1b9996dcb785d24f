/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces in place on GPUs, by accel_reduce() and by NCCL itself, whose caller waits for the end of each, too.  In
 * turns; medians of the slowest rank.  NCCL is loaded, like the engine's.  usage, in each rank: allreduce small|full */
#include "bench/gpu/gpu.h"

#include <dlfcn.h>
#include <nccl.h>

static struct {
    __typeof__ (&ncclGetUniqueId) get_id;
    __typeof__ (&ncclCommInitRankConfig) init;
    __typeof__ (&ncclAllReduce) all_reduce;
    __typeof__ (&ncclCommDestroy) destroy;
    ncclComm_t comm;
    cudaStream_t stream;
} raw;

static void
must_nccl (ncclResult_t result, const char *what)
{
    if (!result)
        return;
    fprintf (stderr, "%s: error %d of NCCL\n", what, (int) result);
    exit (1);
}
#define NCCL(call) must_nccl (call, #call)

static void
open_raw (struct accel *acc)
{
    ncclUniqueId id = { { 0 } };
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    void *library = dlopen ("libnccl.so.2", RTLD_NOW);
    *(void **) &raw.get_id = library ? dlsym (library, "ncclGetUniqueId") : NULL;
    *(void **) &raw.init = library ? dlsym (library, "ncclCommInitRankConfig") : NULL;
    *(void **) &raw.all_reduce = library ? dlsym (library, "ncclAllReduce") : NULL;
    *(void **) &raw.destroy = library ? dlsym (library, "ncclCommDestroy") : NULL;
    if (!raw.get_id || !raw.init || !raw.all_reduce || !raw.destroy)
        must_nccl (ncclSystemError, library ? "functions of libnccl.so.2" : dlerror ());
    if (accel_is_main_process (acc))
        NCCL (raw.get_id (&id));
    MUST (accel_comm_broadcast (accel_world (acc), &id, sizeof id, ACCEL_UINT8, 0, &err));
    CUDA (cudaSetDevice (accel_device (acc).device_id));
    CUDA (cudaStreamCreateWithFlags (&raw.stream, cudaStreamNonBlocking));
    NCCL (raw.init (&raw.comm, accel_num_processes (acc), id, accel_process_index (acc), &config));
}

/* @return seconds that each takes on the slowest rank */
static double
measure (struct accel *acc, DLTensor *tensor, int times, bool by_nccl)
{
    MUST (accel_comm_barrier (accel_world (acc), &err));
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (int i = 0; i < times && by_nccl; i++) {
        NCCL (raw.all_reduce (tensor->data, tensor->data, (size_t) tensor->shape[0], ncclFloat, ncclSum, raw.comm,
                              raw.stream));
        CUDA (cudaStreamSynchronize (raw.stream));
    }
    for (int i = 0; i < times && !by_nccl; i++)
        MUST (accel_reduce (acc, tensor, ACCEL_SUM, 1, &err));
    CUDA (cudaDeviceSynchronize ());
    double each = (seconds () - begin) / times;
    MUST (accel_comm_all_reduce (accel_world (acc), &each, &each, 1, ACCEL_FLOAT64, ACCEL_MAX, &err));
    return each;
}

static void
compare (struct accel *acc, size_t bytes, int times)
{
    const int64_t shape[] = { (int64_t) (bytes / sizeof (float)) };
    struct accel_tensor tensor;
    double ours[ROUNDS], theirs[ROUNDS];
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &err));
    tensor.dl.device = accel_device (acc);
    tensor.dl.data = gpu_memory (bytes);
    measure (acc, &tensor.dl, 2, false);
    measure (acc, &tensor.dl, 2, true);
    for (int round = 0; round < rounds; round++) {
        ours[round] = measure (acc, &tensor.dl, times, false);
        theirs[round] = measure (acc, &tensor.dl, times, true);
    }
    double our = median (ours, rounds), their = median (theirs, rounds);
    if (accel_is_main_process (acc))
        printf ("all-reduce of %zu bytes, %d ranks: %.1f us, NCCL %.1f us, %.1f %% of its speed%s\n", bytes,
                accel_num_processes (acc), our * 1e6, their * 1e6, their / our * 100,
                bytes >= 1 << 20 ? " (goal: 95 %)" : "");
    CUDA (cudaFree (tensor.dl.data));
}

int
main (int argc, char **argv)
{
    bool small = is_small (argc, argv);
    struct accel *acc = open_on_gpu (NULL);
    open_raw (acc);
    for (size_t bytes = small ? 1024 : 4096; bytes <= (small ? 4096 : (size_t) 1 << 28); bytes *= 4)
        compare (acc, bytes, small ? 2 : bytes > 1 << 24 ? 20 : 100);
    NCCL (raw.destroy (raw.comm));
    CUDA (cudaStreamDestroy (raw.stream));
    accel_close (acc);
    return 0;
}
