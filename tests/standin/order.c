/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of several communicators on one GPU, which have to be launched in one order on all ranks: beside buckets
 * of a backward pass, from two threads, in groups, behind host memory.  The stand-in for NCCL ends the program where
 * ranks launch in different orders, or the GPU may.
 * usage: order, as each of 2 or more ranks; order dies, as each of 3, of which rank 2 does not come; or order time, on
 * the stand-in's clocks */
#include <config.h>

#include "lib/comm/wait.h"
#include "lib/comm/work.h"
#include "tests/standin/numbers.h"

#include <accel/train.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 6, COUNT = 500, ROUNDS = 5, AWAY_NS = 150000000 };

/* The world's ranks again, and this rank's neighbour. */
static struct accel_comm *all, *pair;

static float
sum_of (const struct accel_comm *comm)
{
    return (float) accel_comm_size (comm);
}

/* ---- data and tensor parallelism ---- */

static struct net {
    struct accel_model *model;
    struct accel_tensor data[LAYERS];
    DLTensor grads[LAYERS];
    float *ones, *activations[LAYERS];
} net;

/* After each layer, the pair has to have its activations before the next one. */
static enum accel_status
backward (void *user, float scale, struct accel_error *why)
{
    enum accel_status status = ACCEL_OK;
    struct accel_work *works[LAYERS] = { NULL };
    (void) user, (void) scale;
    for (size_t i = LAYERS; !status && i-- > 0;) {
        memory->copy (device, net.grads[i].data, net.ones, COUNT * sizeof (float));
        status = accel_grad_ready (net.model, i, why);
        if (!status && i % 2)
            status = accel_comm_all_reduce (pair, net.activations[i], net.activations[i], COUNT, ACCEL_FLOAT32,
                                            ACCEL_SUM, why);
        else if (!status)
            status = accel_comm_all_reduce_start (&works[i], pair, net.activations[i], net.activations[i], COUNT,
                                                  ACCEL_FLOAT32, ACCEL_SUM, why);
    }
    for (size_t i = 0; i < LAYERS; i++)
        if (works[i])
            MUST (accel_work_wait (works[i], &err));
    return status;
}

static void
make_net (void)
{
    static char names[LAYERS][16];
    struct accel_parameter parameters[LAYERS];
    int64_t shape[] = { COUNT };
    net.ones = make (COUNT, (float) (rank + 1));
    for (size_t i = 0; i < LAYERS; i++) {
        MUST (memory_allocate (&net.data[i], ACCEL_FLOAT32, 1, shape, device, &err));
        net.data[i].dl.shape = net.data[i].shape;
        memory->zero (device, net.data[i].dl.data, COUNT * sizeof (float));
        net.grads[i] = net.data[i].dl;
        net.grads[i].data = NULL;
        net.activations[i] = make (COUNT, 1);
        snprintf (names[i], sizeof names[i], "l%zu", i);
        parameters[i] = (struct accel_parameter){ names[i], &net.data[i].dl, &net.grads[i] };
    }
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 1e-6 };
    MUST (accel_model_create (&net.model, parameters, LAYERS, &err));
    MUST (accel_model_set_ddp (net.model, &ddp, &err));
    MUST (accel_prepare (acc, &err, net.model));
}

static void
beside_buckets (void)
{
    bool right = true;
    float summed = 1, average = 0;
    make_net ();
    for (int i = 0; i < ROUNDS; i++) {
        MUST (accel_backward (acc, net.model, 0, backward, NULL, &err));
        summed *= sum_of (pair);
    }
    for (int i = 0; i < size; i++)
        average += (float) (i + 1) / (float) size;
    for (size_t i = 0; i < LAYERS; i++) {
        float *grad = make (COUNT, 0);
        memory->copy (device, grad, net.grads[i].data, COUNT * sizeof *grad);
        right = take (grad, COUNT, average) && take (net.activations[i], COUNT, summed) && right;
    }
    ok (right, "a pair's all-reduces beside buckets of all ranks");
    accel_model_destroy (net.model);
    memory->destroy (device, net.ones);
    for (size_t i = 0; i < LAYERS; i++)
        accel_tensor_release (&net.data[i]);
}

/* ---- threads ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int next;
} turn = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

struct caller {
    struct accel_comm *comm;
    int number; /* of two, whose turn it is */
    float *values;
};

static void *
call_in_turn (void *user)
{
    const struct caller *caller = user;
    struct accel_error why;
    CUDA (cudaSetDevice (device.device_id));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock (&turn.lock);
        while (turn.next % 2 != caller->number)
            pthread_cond_wait (&turn.changed, &turn.lock);
        must (accel_comm_all_reduce (caller->comm, caller->values, caller->values, COUNT, ACCEL_FLOAT32, ACCEL_SUM,
                                     &why), why.text);
        turn.next++;
        pthread_cond_broadcast (&turn.changed);
        pthread_mutex_unlock (&turn.lock);
    }
    return NULL;
}

/* What one thread calls on even ranks, the other one does on odd ranks. */
static void
two_threads (void)
{
    pthread_t thread;
    struct caller callers[] = { { world, 0, make (COUNT, 1) }, { all, 1, make (COUNT, 1) } };
    float wanted = 1;
    if (pthread_create (&thread, NULL, call_in_turn, &callers[rank % 2]))
        must (ACCEL_ERR_SYSTEM, "pthread_create");
    call_in_turn (&callers[!(rank % 2)]);
    pthread_join (thread, NULL);
    for (int i = 0; i < ROUNDS; i++)
        wanted *= (float) size;
    bool right = take (callers[0].values, COUNT, wanted);
    ok (take (callers[1].values, COUNT, wanted) && right, "two threads in turn");
}

/* ---- groups of starts, and host memory ---- */

static struct accel_work *
start (struct accel_comm *comm, float *values)
{
    struct accel_work *work;
    MUST (accel_comm_all_reduce_start (&work, comm, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    return work;
}

/* A group begins at its end, after what was called on others meanwhile. */
static void
in_groups (void)
{
    float *values[4];
    bool right = true;
    for (int i = 0; i < 4; i++)
        values[i] = make (COUNT, 1);
    for (int round = 0; round < ROUNDS; round++) {
        MUST (accel_group_begin (world, &err));
        struct accel_work *first = start (world, values[0]);
        MUST (accel_group_begin (all, &err));
        struct accel_work *third = start (all, values[2]), *second = start (world, values[1]);
        MUST (accel_comm_all_reduce (pair, values[3], values[3], COUNT, ACCEL_FLOAT32, ACCEL_MAX, &err));
        MUST (accel_group_end (all, &err));
        MUST (accel_group_end (world, &err));
        MUST (accel_work_wait (first, &err));
        MUST (accel_work_wait (second, &err));
        MUST (accel_work_wait (third, &err));
    }
    float wanted = 1;
    for (int i = 0; i < ROUNDS; i++)
        wanted *= (float) size;
    for (int i = 0; i < 4; i++)
        right = take (values[i], COUNT, i < 3 ? wanted : 1) && right;
    ok (right, "groups of two communicators, one within the other, and calls of a third");
}

static void
stay_away (bool is_asked)
{
    if (is_asked)
        nanosleep (&(struct timespec){ .tv_nsec = AWAY_NS }, NULL);
}

/* What waits for host memory on one communicator is not overtaken by what is called later on another: not on the ranks
 * that come first, for on the last one nothing waits. */
static void
behind_host (void)
{
    float *values[] = { make (COUNT, 1), make (COUNT, 1) };
    struct accel_work *host;
    int64_t number = 1;
    stay_away (rank == size - 1);
    MUST (accel_comm_all_reduce_start (&host, world, &number, &number, 1, ACCEL_INT64, ACCEL_SUM, &err));
    struct accel_work *first = start (world, values[0]);
    stay_away (rank == size - 1);
    struct accel_work *second = start (all, values[1]);
    MUST (accel_work_wait (second, &err));
    MUST (accel_work_wait (first, &err));
    MUST (accel_work_wait (host, &err));
    bool right = take (values[0], COUNT, (float) size);
    ok (take (values[1], COUNT, (float) size) && right && number == size, "behind host memory");
}

/* A function of the library's, which reduces @values on @all. */
struct reduction {
    struct accel_work work;
    DLDevice device; /* where they are */
    void *values;
    size_t count;
};

static void
reduce (void *user)
{
    const struct reduction *reduction = user;
    struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site there = comm_site_on (&site, reduction->device);
    struct accel_error why;
    must (comm_all_reduce (all, &there, reduction->values, reduction->values, reduction->count, ACCEL_FLOAT32,
                           ACCEL_SUM, &why), why.text);
}

/* Nor by a function. */
static void
before_function (void)
{
    float *values[] = { make (COUNT, 1), make (COUNT, 1) };
    struct accel_work *host;
    struct reduction reduction = { .device = device, .values = values[1], .count = COUNT };
    int64_t number = 1;
    stay_away (rank == size - 1);
    MUST (accel_comm_all_reduce_start (&host, world, &number, &number, 1, ACCEL_INT64, ACCEL_SUM, &err));
    struct accel_work *first = start (world, values[0]);
    stay_away (rank == size - 1);
    if (!work_start_function (all, &reduction.work, device, reduce, &reduction))
        must (ACCEL_ERR_SYSTEM, "work_start_function");
    work_wait_idle (all);
    MUST (accel_work_wait (first, &err));
    MUST (accel_work_wait (host, &err));
    bool right = take (values[0], COUNT, (float) size);
    ok (take (values[1], COUNT, (float) size) && right, "a function behind host memory");
}

/* The first rank has a function wait in host memory for the others, which wait for a call of it on the GPU before. */
static void
beside_function (void)
{
    float *values = make (COUNT, 1), number = 1;
    struct reduction reduction = { .device = { 0 }, .values = &number, .count = 1 };
    if (!rank && !work_start_function (all, &reduction.work, reduction.device, reduce, &reduction))
        must (ACCEL_ERR_SYSTEM, "work_start_function");
    MUST (accel_work_synchronize (start (world, values), &err));
    if (rank)
        reduce (&reduction);
    work_wait_idle (all);
    ok (take (values, COUNT, (float) size) && number > (float) size - 0.5F, "beside a function in host memory");
}

/* After the last call on a communicator that has ended. */
static void
after_end (void)
{
    struct accel_comm *brief;
    float *values[] = { make (COUNT, 1), make (COUNT, 1) };
    MUST (accel_comm_split (&brief, world, 0, rank, &err));
    MUST (accel_comm_all_reduce (brief, values[0], values[0], COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    accel_comm_destroy (brief);
    MUST (accel_comm_all_reduce (world, values[1], values[1], COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    bool right = take (values[0], COUNT, (float) size);
    ok (take (values[1], COUNT, (float) size) && right, "after a communicator that has ended");
}

static int
end_job (void)
{
    accel_comm_destroy (pair);
    accel_comm_destroy (all);
    accel_close (acc);
    return done_testing ();
}

/* ---- a rank that does not come ---- */

/* What the pair calls waits for what all have called: that is what has an error, with the rank's name. */
static int
lose_one (void)
{
    float *values[] = { make (COUNT, 1), make (COUNT, 1) };
    MUST (accel_work_synchronize (start (pair, values[1]), &err)); /* NCCL has made it */
    MUST (accel_wait_for_everyone (acc, &err));
    if (rank == 2)
        _Exit (0);
    struct accel_work *first = start (world, values[0]), *second = start (pair, values[1]);
    MUST (accel_work_synchronize (second, &err));
    ok (take (values[1], COUNT, 4), "the pair goes on");
    enum accel_status status = accel_work_synchronize (first, &err);
    ok (status == ACCEL_ERR_PEER && strstr (err.text, "rank 2"), "and all have the reason: %s", err.text);
    memory->destroy (device, values[0]);
    return end_job ();
}

/* ---- time ---- */

/* One after the other, unless NCCL says when the second one may begin. */
static int
take_time (void)
{
    bool is_kept = getenv ("NCCL_LAUNCH_ORDER_IMPLICIT");
    int64_t each = 20000000, wanted = is_kept ? each : 2 * each, took = 0;
    float *values[] = { make (COUNT, 1), make (COUNT, 1) };
    int64_t (*host_ns) (int64_t more);
    *(void **) &host_ns = dlsym (RTLD_DEFAULT, "standin_host_ns");
    if (!host_ns)
        must (ACCEL_ERR_UNSUPPORTED, "standin_host_ns");
    setenv ("STANDIN_COSTS", "collective=20000000", true);
    for (int i = 0; i < 3; i++) { /* NCCL connects in the first one */
        MUST (accel_wait_for_everyone (acc, &err));
        CUDA (cudaDeviceSynchronize ());
        int64_t begin = host_ns (0);
        struct accel_work *first = start (world, values[0]), *second = start (all, values[1]);
        MUST (accel_work_wait (first, &err));
        MUST (accel_work_wait (second, &err));
        CUDA (cudaStreamSynchronize ((cudaStream_t) 1));
        took = host_ns (0) - begin;
    }
    ok (took == wanted, "%.3f ms, not %.3f", (double) took / 1e6, (double) wanted / 1e6);
    memory->destroy (device, values[0]);
    memory->destroy (device, values[1]);
    return end_job ();
}

int
main (int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    open_job ();
    MUST (accel_comm_split (&all, world, 0, -rank, &err));
    MUST (accel_comm_split (&pair, world, rank / 2, rank, &err));
    if (*part)
        return *part == 't' ? take_time () : lose_one ();
    beside_buckets ();
    two_threads ();
    in_groups ();
    behind_host ();
    before_function ();
    beside_function ();
    after_end ();
    return end_job ();
}
