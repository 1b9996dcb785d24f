/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, objects and averaged gradients between ranks that this test forks (tests/ranks.h): what every rank gets,
 * whichever way the bytes go, and which error it gets if ranks do not agree. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/engines/shm/shm_private.h"
#include "lib/train/model_object.h"
#include "lib/train/reducer/reducer_object.h"
#include "tests/ranks.h"
#include "tests/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>

static struct accel_error err;

/* ---- collectives on buffers ---- */

enum { COUNT_MOST = 70001 }; /* more than a piece of a stage holds */

/* What rank @rank sends as element @i. */
static float
element (int rank, size_t i)
{
    return (float) (rank + 1) * (float) (i % 1021 + 1);
}

/* Memory that all have mapped, or this process's own. */
static float *
get (struct accel *acc, bool shared, size_t count)
{
    void *memory;
    if (!shared)
        return calloc (count, sizeof (float));
    rank_must (accel_alloc (acc, count * sizeof (float), &memory, &err), &err);
    return memory;
}

static void
put_back (struct accel *acc, bool shared, void *memory)
{
    if (shared)
        accel_free (acc, memory);
    else
        free (memory);
}

static enum accel_status
call (struct accel_comm *comm, enum accel_engine_kind kind, const float *send, float *recv, size_t count)
{
    switch (kind) {
    case ACCEL_ENGINE_ALL_REDUCE:
        return accel_comm_all_reduce (comm, send, recv, count, ACCEL_FLOAT32, ACCEL_SUM, &err);
    case ACCEL_ENGINE_ALL_GATHER: return accel_comm_all_gather (comm, send, recv, count, ACCEL_FLOAT32, &err);
    case ACCEL_ENGINE_BROADCAST: return accel_comm_broadcast (comm, recv, count, ACCEL_FLOAT32, 1, &err);
    case ACCEL_ENGINE_REDUCE_SCATTER:
        return accel_comm_reduce_scatter (comm, send, recv, count, ACCEL_FLOAT32, ACCEL_SUM, &err);
    default: return accel_comm_all_to_all (comm, send, recv, count, ACCEL_FLOAT32, &err);
    }
}

/* Element @i of what rank @rank of @size must receive. */
static float
wanted (enum accel_engine_kind kind, int rank, int size, size_t count, size_t i)
{
    int from = (int) (i / count), all = size * (size + 1) / 2;
    switch (kind) {
    case ACCEL_ENGINE_ALL_REDUCE: return (float) all * element (0, i);
    case ACCEL_ENGINE_ALL_GATHER: return element (from, i % count);
    case ACCEL_ENGINE_BROADCAST: return element (1, i);
    case ACCEL_ENGINE_REDUCE_SCATTER: return (float) all * element (0, (size_t) rank * count + i);
    default: return element (from, (size_t) rank * count + i % count);
    }
}

static void
check_call (struct accel *acc, enum accel_engine_kind kind, bool send_shared, bool recv_shared, size_t count)
{
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    bool many = kind != ACCEL_ENGINE_ALL_REDUCE && kind != ACCEL_ENGINE_BROADCAST;
    size_t rows = many ? (size_t) size : 1, received = kind == ACCEL_ENGINE_REDUCE_SCATTER ? count : rows * count;
    float *send = get (acc, send_shared, rows * count + 1), *recv = get (acc, recv_shared, rows * count + 1);
    for (size_t i = 0; i < rows * count; i++)
        send[i] = element (rank, i);
    if (kind == ACCEL_ENGINE_BROADCAST && rank == 1)
        memcpy (recv, send, count * sizeof *recv);
    recv[received] = -1;
    rank_must (call (accel_world (acc), kind, send, recv, count), &err);
    size_t wrong = 0;
    for (size_t i = 0; i < received; i++)
        wrong += recv[i] != wanted (kind, rank, size, count, i);
    right (!wrong && recv[received] == -1, "kind %d, %zu elements, shared %d %d: %zu wrong", (int) kind, count,
           send_shared, recv_shared, wrong);
    put_back (acc, send_shared, send);
    put_back (acc, recv_shared, recv);
}

/* Through posts, in shared memory, and piece by piece; with edges of each. */
static void
test_collectives (struct accel *acc)
{
    static const size_t counts[] = { 1, SHM_INLINE / sizeof (float), SHM_INLINE / sizeof (float) + 1, COUNT_MOST };
    static const enum accel_engine_kind kinds[] = {
        ACCEL_ENGINE_ALL_REDUCE, ACCEL_ENGINE_ALL_GATHER, ACCEL_ENGINE_BROADCAST,
        ACCEL_ENGINE_REDUCE_SCATTER, ACCEL_ENGINE_ALL_TO_ALL,
    };
    bool first = !accel_process_index (acc);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            check_call (acc, kinds[k], false, false, counts[c]);
            check_call (acc, kinds[k], true, true, counts[c]);
            check_call (acc, kinds[k], true, first, counts[c]);
            check_call (acc, kinds[k], first, true, counts[c]);
        }
}

/* ---- objects ---- */

enum { LARGE = 3 << 20, LIST_MOST = 16 };

static size_t
object_bytes (int rank, size_t i, bool large)
{
    static const size_t bytes[] = { 5, 700, 0, 33 };
    return bytes[((size_t) rank + i) % 4] + (large && rank == 1 ? LARGE : 0);
}

static void
fill (struct accel_object *object, int rank, size_t i, bool large)
{
    object->size_bytes = object_bytes (rank, i, large);
    char *data = malloc (object->size_bytes + 1);
    memset (data, rank * 16 + (int) i + 1, object->size_bytes);
    object->data = data;
}

static void
check_object (const struct accel_object *object, int rank, size_t i, bool large, const char *what)
{
    const char *data = object->data;
    bool good = object->size_bytes == object_bytes (rank, i, large);
    for (size_t at = 0; good && at < object->size_bytes; at++)
        good = data[at] == (char) (rank * 16 + (int) i + 1);
    right (good, "%s: object %zu of rank %d is wrong", what, i, rank);
}

static void
drop (struct accel_object *objects, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free ((void *) (uintptr_t) objects[i].data);
}

/* Rank r has r + 1 of them, so no two messages have the same length. */
static void
test_gather_objects (struct accel *acc)
{
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    struct accel_object objects[LIST_MOST];
    for (int large = 0; large < 2; large++) {
        struct accel_object_list list = { 0 };
        size_t count = (size_t) rank + 1, at = 0;
        for (size_t i = 0; i < count; i++)
            fill (&objects[i], rank, i, large);
        rank_must (accel_gather_object (&list, acc, objects, count, &err), &err);
        right (list.count == (size_t) (size * (size + 1) / 2), "%zu objects", list.count);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < (size_t) r + 1; i++)
                check_object (&list.items[at++], r, i, large, "gathered");
        accel_object_list_release (&list);
        drop (objects, count);
    }
}

/* Object @i is for rank @i; those for ranks above are large, and those for ranks below too. */
static void
test_swap_objects (struct accel *acc)
{
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    struct accel_object objects[LIST_MOST];
    for (int large = 0; large < 2; large++) {
        struct accel_object_list list = { 0 };
        for (int i = 0; i < size; i++)
            fill (&objects[i], large ? 1 : rank, (size_t) i, large);
        rank_must (accel_all_to_all_object (&list, acc, objects, &err), &err);
        for (int r = 0; r < size; r++)
            check_object (&list.items[r], large ? 1 : r, (size_t) rank, large, "swapped");
        accel_object_list_release (&list);
        drop (objects, (size_t) size);
    }
}

/* All get the same error, and the job continues. */
static void
test_objects_refused (struct accel *acc)
{
    int rank = accel_process_index (acc);
    char byte = 7;
    struct accel_object object = { .data = &byte, .size_bytes = 1 }, endless = { &byte, PTRDIFF_MAX };
    struct accel_object_list list = { 0 };
    rank_fails (accel_broadcast_object_list (&list, acc, &object, 1, rank != 0, &err), ACCEL_ERR_INVALID, &err,
                "roots differ: 0 on rank 0, 1 on rank 1");
    rank_fails (accel_broadcast_object_list (&list, acc, &object, 1 + (rank == 1), 0, &err), ACCEL_ERR_INVALID, &err,
                "numbers of objects differ: 1 on rank 0, 2 on rank 1");
    rank_fails (accel_gather_object (&list, acc, &endless, 1, &err), ACCEL_ERR_INVALID, &err,
                "the objects of all processes are too large: size overflows");
    rank_must (accel_broadcast_object_list (&list, acc, rank ? NULL : &object, 1, 0, &err), &err);
    right (list.count == 1 && *(const char *) list.items[0].data == 7, "the broadcast object");
    accel_object_list_release (&list);
}

/* ---- gradients ---- */

enum { PARAMETERS = 3, ROOM = 400000 };

static struct {
    struct accel_model *model;
    DLTensor data[PARAMETERS], grad[PARAMETERS];
    float buffer[2];
    DLTensor buffer_tensor;
    int64_t shape, buffer_shape;
    bool twice;   /* report a gradient twice */
    bool signals; /* send this process a signal while a thread averages */
    struct accel_comm *group; /* call on it between the gradients; NULL: none */
    int group_sum;
    int first;    /* gradients below are not used in this pass */
    const char *name; /* of the first parameter */
    volatile sig_atomic_t elsewhere; /* signals that another thread than main's took */
} net;
static pthread_t main_thread;

/* Parameters of 1.6 MB, one bucket for each, and a buffer. */
static void
make_net (struct accel *acc, const struct accel_ddp_options *ddp)
{
    const char *const names[] = { net.name ? net.name : "a", "b", "c" };
    struct accel_parameter parameters[PARAMETERS + 1];
    net.shape = ROOM;
    net.buffer_shape = 2;
    for (int i = 0; i < PARAMETERS; i++) {
        net.data[i] = net.grad[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .dtype = { kDLFloat, 32, 1 },
                                                .shape = &net.shape };
        parameters[i] = (struct accel_parameter){ names[i], &net.data[i], &net.grad[i] };
    }
    net.buffer_tensor = net.data[0];
    net.buffer_tensor.shape = &net.buffer_shape;
    net.buffer_tensor.data = net.buffer;
    parameters[PARAMETERS] = (struct accel_parameter){ "running", &net.buffer_tensor, NULL };
    rank_must (accel_model_create (&net.model, parameters, PARAMETERS + 1, &err), &err);
    rank_must (accel_model_set_ddp (net.model, ddp, &err), &err);
    enum accel_status status = accel_prepare (acc, &err, net.model);
    if (!net.name)
        rank_must (status, &err);
}

static void
take_signal (int number)
{
    (void) number;
    net.elsewhere += !pthread_equal (pthread_self (), main_thread);
}

/* Gradients as 1 on rank 0, 3 on rank 1 ... everywhere, reported from the last on, as backward passes do. */
static enum accel_status
pass_back (void *user, float scale, struct accel_error *why)
{
    const struct accel *acc = user;
    (void) scale;
    for (int i = PARAMETERS; i-- > net.first;) {
        float *grad = net.grad[i].data;
        for (size_t at = 0; at < ROOM; at++)
            grad[at] = (float) (2 * accel_process_index (acc) + 1);
        enum accel_status status = accel_grad_ready (net.model, (size_t) i, why);
        if (!status && net.twice)
            status = accel_grad_ready (net.model, (size_t) i, why);
        if (status)
            return status;
        for (int turn = 0; net.group && turn < 20; turn++) {
            int one = 1;
            rank_must (accel_comm_all_reduce (net.group, &one, &one, 1, ACCEL_INT32, ACCEL_SUM, &err), &err);
            net.group_sum += one;
        }
        if (net.signals && i == PARAMETERS - 1)
            kill (getpid (), SIGUSR1); /* for whichever thread takes it */
    }
    return ACCEL_OK;
}

/* The thread that averages while the program computes takes no signals, and leaves the program's mask alone. */
static void
test_overlap (struct accel *acc)
{
    int size = accel_num_processes (acc);
    sigset_t blocked, after;
    main_thread = pthread_self ();
    signal (SIGUSR1, take_signal);
    sigemptyset (&blocked);
    sigaddset (&blocked, SIGUSR1);
    pthread_sigmask (SIG_BLOCK, &blocked, NULL);
    make_net (acc, &(struct accel_ddp_options){ .bucket_cap_mb = 1, .overlap = ACCEL_OVERLAP_ALWAYS });
    right (net.model->span_count == PARAMETERS, "%zu buckets", net.model->span_count);
    net.signals = true;
    rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
    pthread_sigmask (SIG_SETMASK, NULL, &after);
    right (net.model->reducer->overlap, "no thread could be had");
    right (sigismember (&after, SIGUSR1) == 1 && !sigismember (&after, SIGTERM),
           "the program's signal mask is another");
    right (!net.elsewhere, "the thread took the program's signal");
    for (int i = 0; i < PARAMETERS; i++)
        for (size_t at = 0; at < ROOM; at++)
            right (((float *) net.grad[i].data)[at] == (float) size, "parameter %d, element %zu: %g", i, at,
                   (double) ((float *) net.grad[i].data)[at]);
    accel_model_destroy (net.model);
}

/* With one CPU a thread that averages has nothing to gain. */
static void
test_one_cpu (struct accel *acc)
{
    cpu_set_t set, one;
    int cpu = 0;
    if (!right (!sched_getaffinity (0, sizeof set, &set), "sched_getaffinity"))
        return;
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET (cpu, &set))
        cpu++;
    CPU_ZERO (&one);
    CPU_SET (cpu, &one);
    right (!sched_setaffinity (0, sizeof one, &one), "sched_setaffinity");
    make_net (acc, &(struct accel_ddp_options){ .bucket_cap_mb = 1 });
    right (!net.model->reducer->overlap, "a process with one CPU would start a thread");
    rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
    accel_model_destroy (net.model);
}

static void
test_model_buffers (struct accel *acc)
{
    float rank = (float) accel_process_index (acc);
    for (int wanted_back = 0; wanted_back < 2; wanted_back++) {
        make_net (acc, &(struct accel_ddp_options){ .broadcast_buffers = wanted_back });
        net.buffer[1] = 5 + rank;
        rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
        right (net.buffer[1] == (wanted_back ? 5 : 5 + rank), "broadcast_buffers %d: %g", wanted_back,
               (double) net.buffer[1]);
        accel_model_destroy (net.model);
    }
}

/* A pass that fails is over when it has been told: the next one is another. */
static void
test_failed_pass (struct accel *acc)
{
    make_net (acc, &(struct accel_ddp_options){ .bucket_cap_mb = 1 });
    net.twice = true;
    rank_fails (accel_backward (acc, net.model, 0, pass_back, acc, &err), ACCEL_ERR_INVALID, &err,
                "'c' was already reported in this pass");
    net.twice = false;
    rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
    accel_model_destroy (net.model);
}

/* A gradient that no rank has used in a pass stays as it is, though it was used in the pass before. */
static void
test_unused (struct accel *acc)
{
    float own = (float) (accel_process_index (acc) + 10), *grad;
    make_net (acc, &(struct accel_ddp_options){ .find_unused_parameters = true });
    grad = net.grad[0].data;
    rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
    right (*grad == (float) accel_num_processes (acc), "all were used, the first is %g", (double) *grad);
    *grad = own;
    net.first = 1;
    rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
    right (*grad == own, "what no rank has used is %g", (double) *grad);
    accel_model_destroy (net.model);
}

/* Of several ranks that differ from rank 0 all name the lowest. */
static void
test_models_differ (struct accel *acc)
{
    net.name = accel_process_index (acc) ? "other" : "a";
    make_net (acc, &(struct accel_ddp_options){ .bucket_cap_mb = 1 });
    right (err.code == ACCEL_ERR_INVALID
               && strstr (err.text, "at parameter 0: rank 0 has 'a' [400000] float32, rank 1 has 'other' ["),
           "%s", err.text);
    accel_model_destroy (net.model);
}

/* While gradients are averaged the program may make no other call. */
static void
test_reserved (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    comm_reserve (world, true);
    rank_fails (accel_comm_barrier (world, &err), ACCEL_ERR_INVALID, &err,
                "are being averaged: wait for accel_backward");
    comm_reserve (world, false);
    rank_must (accel_comm_barrier (world, &err), &err);
}

/* ... but in groups, as tensor parallelism does, whether or not a thread averages meanwhile. */
static void
test_groups_in_backward (struct accel *acc)
{
    int size = accel_num_processes (acc);
    for (int overlap = ACCEL_OVERLAP_ALWAYS; overlap <= ACCEL_OVERLAP_NEVER; overlap++) {
        rank_must (accel_comm_split (&net.group, accel_world (acc), accel_process_index (acc) / 2, 0, &err), &err);
        make_net (acc, &(struct accel_ddp_options){ .bucket_cap_mb = 1, .overlap = (enum accel_overlap) overlap });
        net.group_sum = 0;
        rank_must (accel_backward (acc, net.model, 0, pass_back, acc, &err), &err);
        right (net.group_sum == 2 * 20 * PARAMETERS, "sums in the group are %d", net.group_sum);
        for (int i = 0; i < PARAMETERS; i++)
            right (*(float *) net.grad[i].data == (float) size, "average %d is %g", i,
                   (double) *(float *) net.grad[i].data);
        accel_model_destroy (net.model);
        accel_comm_destroy (net.group);
        net.group = NULL;
    }
}

/* ---- data ---- */

static bool host_is_full;

int __real_fallocate (int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate (int fd, int mode, off_t offset, off_t length);
int
__wrap_fallocate (int fd, int mode, off_t offset, off_t length)
{
    if (!host_is_full)
        return __real_fallocate (fd, mode, offset, length);
    errno = ENOSPC;
    return -1;
}

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *why)
{
    (void) user, (void) why;
    *(int64_t *) into[0] = (int64_t) index + 1;
    return ACCEL_OK;
}

/* Batches lie in memory that all have mapped, and in ordinary memory where there is no more of that. */
static void
test_batches (struct accel *acc)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    const struct accel_dataset dataset = { 8, &field, 1, read_sample, NULL };
    for (int full = 0; full < 2; full++) {
        struct accel_loader *loader;
        const struct accel_batch *batch;
        int64_t sum = 0;
        host_is_full = full;
        rank_must (accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .batch_size = 2 }, &err),
                   &err);
        rank_must (accel_prepare (acc, &err, loader), &err);
        while (accel_loader_next (loader, &batch, &err)) {
            const int64_t *values = accel_batch_tensor (batch, "x")->data;
            sum += values[0] + values[1];
        }
        right (!err.code && sum == 14 + 8 * accel_process_index (acc), "memory full %d: the sum is %lld: %s", full,
               (long long) sum, err.text);
        accel_loader_destroy (loader);
    }
    host_is_full = false;
}

/* ---- lines ---- */

/* Lines of all ranks come in their order, however late the first is; what a program prints itself keeps its place. */
static void
test_lines (struct accel *acc)
{
    char path[SCRATCH_SIZE + 16], text[256] = "";
    snprintf (path, sizeof path, "%s/lines", scratch_path);
    int fd = open (path, O_RDWR | O_CREAT | O_APPEND, 0600);
    right (fd >= 0 && dup2 (fd, STDOUT_FILENO) >= 0 && dup2 (fd, STDERR_FILENO) >= 0, "cannot open %s", path);
    rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
    if (!accel_process_index (acc))
        nanosleep (&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    rank_must (accel_logger_log_in_order (acc, &err, ACCEL_LOG_ERROR, "a line"), &err);
    if (accel_process_index (acc))
        return;
    printf ("printed, ");
    accel_print (acc, "and told\n");
    fflush (stdout);
    right (pread (fd, text, sizeof text - 1, 0) > 0
               && !strcmp (text, "ERROR: [RANK 0] a line\nERROR: [RANK 1] a line\nprinted, and told\n"),
           "%s", text);
}

/* ---- choosing an engine ---- */

static void
test_engines (void)
{
    static const struct {
        const char *engine, *words;
        struct accel_options options;
    } cases[] = {
        { "nothing", "unknown engine 'nothing': there are self and shm; ", { 0 } },
        { "self", "no engine can connect this job: self ", { 0 } },
        { "shm", "unknown engine 'option'", { .engine = "option" } },
        { "shm", "unknown engine 'former'", { .engine = "former" } },
    };
    setenv (ENV_RANK, "0", 1);
    setenv (ENV_WORLD_SIZE, "2", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel *acc;
        setenv (ENV_ENGINE, cases[i].engine, 1);
        enum accel_status status = accel_open (&acc, &cases[i].options, &err);
        if (!ok (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, cases[i].words), "%s", cases[i].words))
            diag ("status %d: %s", (int) status, status ? err.text : "");
        accel_close (acc);
    }
    unsetenv (ENV_ENGINE);
    unsetenv (ENV_RANK);
    unsetenv (ENV_WORLD_SIZE);
}

int
main (void)
{
    setenv (ENV_TIMEOUT_MS, "300000", 1);
    for (int size = 2; size <= 3; size++) {
        as_ranks (size, "collectives", test_collectives);
        as_ranks (size, "objects gathered", test_gather_objects);
        as_ranks (size, "objects swapped", test_swap_objects);
        as_ranks (size, "objects that cannot be", test_objects_refused);
    }
    as_ranks (2, "gradients averaged by a thread", test_overlap);
    as_ranks (2, "one CPU, no thread", test_one_cpu);
    as_ranks (2, "buffers", test_model_buffers);
    as_ranks (2, "unused parameters", test_unused);
    as_ranks (3, "models that differ", test_models_differ);
    as_ranks (1, "a failed pass", test_failed_pass);
    as_ranks (1, "calls beside averages", test_reserved);
    as_ranks (4, "calls in groups beside averages", test_groups_in_backward);
    as_ranks (2, "batches without shared memory", test_batches);
    scratch_folder ();
    as_ranks (2, "lines", test_lines);
    test_engines ();
    return done_testing ();
}
