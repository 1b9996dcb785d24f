/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of engine nccl, without libaccel around them and with a job of one rank: what accel/engine.h allows and
 * libaccel does not do.
 * usage: nccl_table MODULE */
#include <config.h>

#include "lib/base/error.h"
#include "tests/tap.h"

#include <accel/engine.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

enum { COUNT = 1000 };

static const struct accel_engine *engine;
static struct accel_error err;

static void
must (int status, const char *what)
{
    if (!status)
        return;
    printf ("Bail out! %s: %d: %s\n", what, status, err.text);
    exit (1);
}
#define MUST(call) must ((int) (call), #call)

static const struct accel_engine_helpers helpers = { .size = sizeof helpers, .fail = accel_fail };

/* @param gpu  -1: the rank computes on the processor */
static void *
open_job (int local_rank, int gpu)
{
    struct accel_engine_job job = {
        .size = sizeof job,
        .world_size = 1,
        .local_rank = local_rank,
        .local_world_size = local_rank + 1,
        .timeout_ms = 60000,
        .helpers = &helpers,
        .device = { .device_type = gpu < 0 ? kDLCPU : kDLCUDA, .device_id = gpu < 0 ? 0 : gpu },

    };
    void *transport = NULL;
    MUST (engine->probe (&job, &err));
    MUST (engine->open (&transport, &job, &err));
    return transport;
}

static void
test_gpu (int local_rank, int gpu, int wanted)
{
    void *transport = open_job (local_rank, gpu), *memory;
    MUST (cudaSetDevice (wanted));
    MUST (cudaMalloc (&memory, COUNT * sizeof (float)));
    struct accel_engine_call call = {
        .helpers = &helpers, .send = memory, .recv = memory, .count = COUNT, .element_bytes = sizeof (float),
        .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = ACCEL_FLOAT32, .op = ACCEL_SUM, .root = -1,
        .device = { .device_type = kDLCUDA, .device_id = wanted }, .stream = (void *) 1,
    };
    err.text[0] = '\0';
    ok (!engine->run (transport, &call, &err), "local rank %d, told %d, has cuda:%d: %s", local_rank, gpu, wanted,
        err.text);
    MUST (cudaFree (memory));
    engine->close (transport);
}

static void
test_memory (void)
{
    void *transport = open_job (0, 0), *memory = NULL;
    unsigned char bytes[COUNT];
    size_t wrong = 0;
    MUST (cudaSetDevice (0));
    MUST (engine->alloc (transport, &memory, COUNT, &err));
    memset (bytes, 1, sizeof bytes);
    MUST (cudaMemcpyAsync (bytes, memory, sizeof bytes, cudaMemcpyDeviceToHost, (cudaStream_t) 1));
    MUST (cudaStreamSynchronize ((cudaStream_t) 1));
    for (size_t i = 0; i < sizeof bytes; i++)
        wrong += bytes[i] != 0;
    ok (!wrong, "memory is zeroed: %zu bytes are not", wrong);
    engine->free (transport, memory);
    engine->close (transport);
}

static void
test_groups (void)
{
    const int ranks[] = { 0 };
    void *transport = open_job (0, 0), *groups[3] = { NULL };
    for (int64_t group_id = 0; group_id < 3; group_id++)
        MUST (engine->split (transport, group_id, 0, &err));
    for (int64_t group_id = 0; group_id < 3; group_id++)
        MUST (engine->join_group (transport, ranks, 1, 0, group_id, &groups[group_id], &err));
    bool good = ok (groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2],
                    "groups that are made before any is joined are three");
    for (int i = 0; good && i < 3; i++)
        engine->close (groups[i]);
    if (good)
        engine->close (transport);
}

int
main (int argc, char **argv)
{
    void *module = argc > 1 ? dlopen (argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    engine = module ? dlsym (module, ACCEL_ENGINE_SYMBOL) : NULL;
    if (!engine) {
        printf ("Bail out! %s\n", dlerror ());
        return 1;
    }
    test_gpu (0, 2, 2);
    test_gpu (6, -1, 2);
    test_memory ();
    test_groups ();
    return done_testing ();
}
