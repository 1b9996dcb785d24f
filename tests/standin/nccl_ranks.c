/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that does everything with engine nccl, and says how it ended, for nccl.sh.
 * usage: nccl_ranks [late | leaves | away | killed | group | started | nested | dies | other-gpu | threads | pins |
 *                    closes | grouped] */
#include <config.h>

#include "lib/comm/comm_object.h"
#include "lib/memory/lists.h"
#include "lib/memory/memory.h"
#include "util/clock.h"

#include <accel/accel.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COUNT = 1000, ROUNDS = 3 };

static struct accel *acc;
static struct accel_comm *group, *outer;
static struct accel_work *works[2];
static struct accel_error err;
static int64_t began_ns;

static void
must (enum accel_status status, const char *what)
{
    if (!status)
        return;
    printf ("rank %s: %s: status %d: %s (%lld ms)\n", getenv ("RANK"), what, (int) status, err.text,
            (long long) ((clock_ns () - began_ns) / 1000000));
    if (status != err.code)
        printf ("rank %s: but the error has code %d\n", getenv ("RANK"), (int) err.code);
    for (int i = 0; i < 2; i++)
        if (works[i] && !accel_work_wait (works[i], &err))
            printf ("rank %s: work %d was done\n", getenv ("RANK"), i);
    accel_comm_destroy (outer);
    accel_comm_destroy (group);
    accel_close (acc);
    exit (3);
}
#define MUST(call) must (call, #call)

static void
finish (int work)
{
    struct accel_work *waited = works[work];
    works[work] = NULL;
    MUST (accel_work_wait (waited, &err));
}

static float *
make (const struct memory *memory, DLDevice device, float value)
{
    float host[COUNT], *made = memory->create (device, sizeof host, false);
    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    memory->write (device, made, host, sizeof host);
    return made;
}

/* Like public calls on tensors, and some in flight. */
static void
do_all (struct accel_comm *comm, DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device), starts = site;
    int size = accel_comm_size (comm), row = COUNT / 4, other = !accel_comm_rank (comm);
    float *a = make (memory, device, 1), *b = make (memory, device, 0), host;
    void *kept = NULL;
    starts.work = &works[0];
    MUST (comm_all_reduce (comm, &starts, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    starts.work = &works[1];
    MUST (comm_all_reduce (comm, &starts, b, b, COUNT, ACCEL_FLOAT32, ACCEL_AVG, &err));
    finish (1);
    finish (0);
    MUST (comm_broadcast (comm, &site, a, COUNT, ACCEL_FLOAT32, 0, &err));
    MUST (comm_all_gather (comm, &site, b, a, (size_t) row, ACCEL_FLOAT32, &err));
    MUST (comm_reduce_scatter (comm, &site, a, b, (size_t) row, ACCEL_FLOAT32, ACCEL_MAX, &err));
    MUST (comm_all_to_all (comm, &site, a, b, (size_t) row, ACCEL_FLOAT32, &err));
    MUST (comm_alloc (comm, device, &kept, COUNT, &err));
    if (accel_comm_rank (comm) == 0 && size > 1)
        MUST (comm_send (comm, &site, a, COUNT, ACCEL_FLOAT32, other, &err));
    else if (accel_comm_rank (comm) == 1)
        MUST (comm_recv (comm, &site, a, COUNT, ACCEL_FLOAT32, other, &err));
    comm_free (comm, device, kept);
    MUST (memory->read (device, &host, a, sizeof host, &err));
    memory->destroy (device, a);
    memory->destroy (device, b);
}

/* Three works of a group, each with its outcome. */
static void
fail_group (DLDevice device, const struct memory *memory)
{
    struct accel_work *all[3];
    enum accel_status status, first = ACCEL_OK;
    MUST (accel_group_begin (accel_world (acc), &err));
    for (int i = 0; i < 3; i++) {
        float *a = make (memory, device, 1);
        MUST (accel_comm_all_reduce_start (&all[i], accel_world (acc), a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    }
    MUST (accel_group_end (accel_world (acc), &err));
    for (int i = 2; i >= 0; i--) {
        status = accel_work_synchronize (all[i], &err);
        printf ("rank %s: work %d: status %d: %s\n", getenv ("RANK"), i, (int) status, status ? err.text : "");
        first = first ? first : status;
    }
    must (first, "a group");
}

/* The one that does not come, the second time, computes or ends. */
static void
wait_in_vain (DLDevice device, const struct memory *memory, bool leaves)
{
    struct comm_site plain = { .file = __FILE__, .line = 4711, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    float *a = make (memory, device, 1);
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    if (accel_process_index (acc) == 1) {
        if (!leaves)
            sleep (3);
        accel_close (acc);
        exit (0);
    }
    enum accel_status status
        = comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err);
    memory->destroy (device, a); /* CUDA waits for what the GPU does: nothing of the call may be left there */
    must (status, "comm_all_reduce");
}

/* Rank 0 starts a call and is elsewhere until rank 1, which comes later, has the result. */
static void
be_away (DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device), starts = site;
    struct accel_work *work;
    bool is_away = accel_process_index (acc) == 0;
    float *a = make (memory, device, 1);
    starts.work = &work;
    if (is_away) {
        MUST (comm_all_reduce (accel_world (acc), &starts, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
        fclose (fopen ("started", "w"));
        while (access ("ended", F_OK))
            usleep (1000);
        MUST (accel_work_wait (work, &err));
    } else {
        while (access ("started", F_OK))
            usleep (1000);
        usleep (50000);
        MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
        fclose (fopen ("ended", "w"));
    }
    memory->destroy (device, a);
}

/* Rank 0 is killed, and only then does rank 1 call something, of which it gets an error (STANDIN_FAIL). */
static void
be_killed (DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    int32_t own = (int32_t) getpid (), pids[2];
    float *a = make (memory, device, 1);
    MUST (comm_all_gather (accel_world (acc), &plain, &own, pids, 1, ACCEL_INT32, &err));
    if (accel_process_index (acc) == 0)
        raise (SIGKILL);
    struct pollfd ended = { .fd = (int) syscall (SYS_pidfd_open, pids[0], 0), .events = POLLIN };
    if (ended.fd >= 0)
        poll (&ended, 1, -1);
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
}

/* Rank 1 is killed at a time that both know, while rank 0 is in a call. */
static void
time_death (DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    int64_t end_ns = clock_ns () + 200000000;
    float *a = make (memory, device, 1);
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    MUST (comm_all_reduce (accel_world (acc), &plain, &end_ns, &end_ns, 1, ACCEL_INT64, ACCEL_MAX, &err));
    if (accel_process_index (acc) == 1) {
        while (clock_ns () < end_ns)
            usleep (100);
        raise (SIGKILL);
    }
    struct accel_work *work;
    site.work = &work;
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    enum accel_status status = accel_work_synchronize (work, &err);
    if (status)
        printf ("rank 0: told %lld ms after the death\n", (long long) ((clock_ns () - end_ns) / 1000000));
    must (status, "comm_all_reduce");
}

/* Rank 1 is killed once rank 0 has returned from a blocking call on the GPU, which takes part in nothing else: the next
 * call, on other memory, returns the error. */
static void
die_behind (DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    float *a = make (memory, device, 1);
    int64_t number = 1;
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err)); /* connects */
    if (accel_process_index (acc) == 1) {
        for (int i = 0; i < 20000 && access ("returned", F_OK); i++)
            usleep (1000);
        raise (SIGKILL);
    }
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    fclose (fopen ("returned", "w"));
    for (int i = 0; i < 20000 && !accel_world (acc)->is_broken; i++)
        usleep (1000);
    MUST (comm_all_reduce (accel_world (acc), &plain, &number, &number, 1, ACCEL_INT64, ACCEL_SUM, &err));
}

static bool uses_all;

static enum accel_status
report_gradients (void *user, float scale, struct accel_error *why)
{
    enum accel_status status = uses_all ? accel_grad_ready (user, 1, why) : ACCEL_OK;
    (void) scale;
    return status ? status : accel_grad_ready (user, 0, why);
}

/* Rank 1 begins its step once rank 0 has returned from three: the host waits for no average, norm or number.
 * @param how  has "unused": rank 1 does not use one of two parameters; "power": PowerSGD, which draws one of two
 *             columns anew each time, because gradients have one direction; "fp16": the scale of losses and whether a
 *             step is skipped stay on the GPU */
static void
run_ahead (DLDevice device, const struct memory *memory, const char *how)
{
    const struct accel_ddp_options ddp = {
        .find_unused_parameters = strstr (how, "unused"),
        .bucket_cap_mb = 1e-6,
        .comm_hook = strstr (how, "power") ? ACCEL_COMM_HOOK_POWER_SGD : ACCEL_COMM_HOOK_NONE,
        .start_iter = ACCEL_NONE,
        .matrix_approximation_rank = 2,
    };
    int64_t shape[] = { 20, COUNT / 20 };
    struct accel_tensor tensors[4];
    struct accel_parameter parameters[] = { { "p", &tensors[0].dl, &tensors[1].dl },
                                            { "q", &tensors[2].dl, &tensors[3].dl } };
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    uses_all = !ddp.find_unused_parameters || !accel_process_index (acc);
    for (int i = 0; i < 4; i++) {
        MUST (accel_tensor_init (&tensors[i], ACCEL_FLOAT32, 2, shape, &err));
        tensors[i].dl.device = device;
        tensors[i].dl.data = make (memory, device, 1);
    }
    MUST (accel_model_create (&model, parameters, 2, &err));
    MUST (accel_model_set_ddp (model, &ddp, &err));
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err));
    MUST (accel_prepare (acc, &err, model, optimizer));
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < 20000 && step == 1 && accel_process_index (acc) == 1 && access ("ahead", F_OK); i++)
            usleep (1000);
        if (step == 1 && accel_process_index (acc) == 1 && access ("ahead", F_OK))
            must (ACCEL_ERR_TIMEOUT, "rank 0 waits on the host");
        MUST (accel_backward (acc, model, 0, report_gradients, model, &err));
        MUST (accel_clip_grad_norm (model, 1, NULL, NULL, &err));
        MUST (accel_optimizer_step (optimizer, &err));
        MUST (accel_optimizer_zero_grad (optimizer, &err));
    }
    fclose (fopen ("ahead", "w"));
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    for (int i = 0; i < 4; i++)
        memory->destroy (device, tensors[i].dl.data);
}

/* The same with a group that NCCL is still making (STANDIN_NO_SPLIT): the error is one of its parent.
 * @param starts  before the error comes */
static void
lose_group (DLDevice device, const struct memory *memory, bool starts)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    struct accel_work *work;
    int32_t own = (int32_t) getpid (), pids[2];
    float *a = make (memory, device, 1);
    MUST (accel_comm_split (&group, accel_world (acc), 0, accel_process_index (acc), &err));
    MUST (comm_all_gather (accel_world (acc), &plain, &own, pids, 1, ACCEL_INT32, &err));
    if (accel_process_index (acc) == 0)
        raise (SIGKILL);
    site.work = &work;
    if (starts)
        MUST (comm_all_reduce (group, &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    struct pollfd ended = { .fd = (int) syscall (SYS_pidfd_open, pids[0], 0), .events = POLLIN };
    if (ended.fd >= 0)
        poll (&ended, 1, -1);
    setenv ("STANDIN_FAIL", "ncclCommGetAsyncError:1:6", true);
    if (!starts) {
        usleep (50000); /* until the engine's thread has seen it */
        MUST (comm_all_reduce (group, &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    }
    MUST (accel_work_wait (work, &err));
}

/* A group of a group, of which NCCL still makes both: an error of the world's is one of both, and the outer one ends
 * first. */
static void
lose_nested (DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    float *a = make (memory, device, 1);
    MUST (accel_comm_split (&outer, accel_world (acc), 0, accel_process_index (acc), &err));
    MUST (accel_comm_split (&group, outer, 0, accel_process_index (acc), &err));
    MUST (accel_wait_for_everyone (acc, &err));
    setenv ("STANDIN_FAIL", "ncclCommGetAsyncError:1:3", true);
    usleep (50000); /* until the engine's thread has seen it */
    enum accel_status status = comm_all_reduce (group, &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err);
    memory->destroy (device, a);
    must (status, "comm_all_reduce");
}

static float *shared;

static void *
double_shared (void *unused)
{
    const DLDevice device = accel_device (acc);
    memory_of (device)->scale (device, shared, ACCEL_FLOAT32, COUNT, 2);
    return unused;
}

/* Each thread has a stream: what a thread queued, and what was queued before a start, comes before the call, also if
 * the queue's thread makes it, because work on the host's memory was started before. */
static void
order_threads (DLDevice device, const struct memory *memory)
{
    struct comm_site host = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&host, device);
    struct accel_comm *world = accel_world (acc);
    int size = accel_num_processes (acc);
    float *values = calloc (COUNT, sizeof *values), wanted = 1, result;
    MUST (accel_set_stream (device, (void *) 2, &err));
    shared = make (memory, device, wanted);
    host.work = &works[0];
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        if (pthread_create (&thread, NULL, double_shared, NULL) || pthread_join (thread, NULL))
            abort ();
        site.work = NULL;
        MUST (comm_all_reduce (world, &site, shared, shared, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
        MUST (comm_all_reduce (world, &host, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
        double_shared (NULL);
        site.work = &works[1];
        MUST (comm_all_reduce (world, &site, shared, shared, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
        finish (0);
        finish (1);
        wanted *= (float) (4 * size * size);
    }
    MUST (memory->read (device, &result, shared, sizeof result, &err));
    if (result != wanted)
        must (ACCEL_ERR_SYSTEM, "a wrong sum");
    memory->destroy (device, shared);
    free (values);
}

static void *
pin_memory (void *unused)
{
    const DLDevice device = accel_device (acc);
    const struct memory_copy_streams *copy_streams = memory_of (device)->copy_streams;
    copy_streams->unpin (device, copy_streams->pin (device, COUNT));
    return unused;
}

static void *
allocate_memory (void *unused)
{
    DLDevice device = accel_device (acc);
    memory_of (device)->destroy (device, memory_of (device)->create (device, COUNT, false));
    return unused;
}

static void *
free_memory (void *unused)
{
    memory_of (accel_device (acc))->destroy (accel_device (acc), shared);
    return unused;
}

/* Makes a table, in pinned memory and the GPU's. */
static void *
zero_list (void *values)
{
    const DLDevice device = accel_device (acc);
    struct memory_list list;
    if (!memory_list_create (&list, 1))
        abort ();
    list.items[list.count++] = (struct memory_item){ .data = values, .count = COUNT, .dtype = ACCEL_FLOAT32 };
    memory_list_zero (&list, memory_of (device), device);
    memory_list_destroy (&list, memory_of (device), device);
    return NULL;
}

/* Rank 1 ends, so the call of rank 0 never does by itself.  Its other threads wait for the GPU: CUDA may do that when
 * it pins, allocates or frees memory. */
static void
pin_in_threads (DLDevice device, const struct memory *memory)
{
    struct comm_site plain = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site site = comm_site_on (&plain, device);
    struct accel_work *work;
    void *(*const waits[]) (void *) = { pin_memory, allocate_memory, free_memory, zero_list };
    enum { THREADS = sizeof waits / sizeof *waits };
    pthread_t threads[THREADS];
    float *a = make (memory, device, 1), *b = make (memory, device, 1), *c = make (memory, device, 1);
    shared = make (memory, device, 1);
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    if (accel_process_index (acc) == 1) {
        usleep (300000);
        raise (SIGKILL);
    }
    site.work = &work;
    MUST (comm_all_reduce (accel_world (acc), &site, a, a, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    usleep (100000); /* until it is on the GPU */
    for (int i = 0; i < THREADS; i++)
        if (pthread_create (&threads[i], NULL, waits[i], c))
            abort ();
    usleep (100000); /* until these wait */
    memory->zero (device, b, COUNT * sizeof *b);
    enum accel_status status = accel_work_synchronize (work, &err);
    for (int i = 0; i < THREADS; i++)
        pthread_join (threads[i], NULL);
    must (status, "accel_work_synchronize");
}

/* Rank 1 is gone before NCCL has made a group, so rank 0 closes the job, and the group after it, meanwhile. */
static void
close_early (void)
{
    MUST (accel_comm_split (&group, accel_world (acc), 0, accel_process_index (acc), &err));
    if (accel_process_index (acc) == 1)
        _exit (0);
    accel_close (acc);
    accel_comm_destroy (group);
    printf ("rank %s: closed\n", getenv ("RANK"));
    exit (0);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    bool is_short = !strcmp (what, "late") || !strcmp (what, "nested");
    const struct accel_grad_scaler scaler = { .on_device = ACCEL_YES };
    const struct accel_options options = {
        .timeout_ms = is_short ? 1000 : 20000,
        .mixed_precision = argc > 2 && strstr (argv[2], "fp16") ? "fp16" : NULL,
        .grad_scaler = &scaler,
    };
    began_ns = clock_ns ();
    MUST (accel_open (&acc, &options, &err));
    DLDevice device = accel_device (acc);
    const struct memory *memory = memory_of (device);
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    if (device.device_type != kDLCUDA) {
        printf ("rank %d: no GPU\n", rank);
        return 4;
    }
    if (!strcmp (what, "other-gpu"))
        device.device_id = (device.device_id + 1) % 2;
    if (!strcmp (what, "late") || !strcmp (what, "leaves"))
        wait_in_vain (device, memory, !strcmp (what, "leaves"));
    if (!strcmp (what, "away"))
        be_away (device, memory);
    if (!strcmp (what, "killed"))
        be_killed (device, memory);
    if (!strcmp (what, "group") || !strcmp (what, "started"))
        lose_group (device, memory, !strcmp (what, "started"));
    if (!strcmp (what, "nested"))
        lose_nested (device, memory);
    if (!strcmp (what, "dies"))
        time_death (device, memory);
    if (!strcmp (what, "behind"))
        die_behind (device, memory);
    if (!strcmp (what, "ahead"))
        run_ahead (device, memory, argc > 2 ? argv[2] : "whole");
    if (!strcmp (what, "threads"))
        order_threads (device, memory);
    if (!strcmp (what, "grouped"))
        fail_group (device, memory);
    if (!strcmp (what, "closes"))
        close_early ();
    if (!strcmp (what, "pins"))
        pin_in_threads (device, memory);
    for (int round = 0; round < ROUNDS; round++) {
        do_all (accel_world (acc), device, memory);
        MUST (accel_comm_split (&group, accel_world (acc), rank / 2, rank, &err));
        do_all (group, device, memory);
        accel_comm_destroy (group);
        group = NULL;
        MUST (accel_comm_split (&group, accel_world (acc), rank ? -1 : 0, rank, &err)); /* some are in none */
        if (group)
            do_all (group, device, memory);
        accel_comm_destroy (group);
        group = NULL;
    }
    accel_close (acc);
    printf ("rank %d of %d: done on cuda:%d\n", rank, size, (int) device.device_id);
    return 0;
}
