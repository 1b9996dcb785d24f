/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on a device whose memory the host cannot touch (standin_memory.h), with an engine of its own beside the
 * host's.  Collectives, and whole steps of training, give the bits that the same numbers give in host memory. */
#include <config.h>

#include "lib/comm/comm_object.h"
#include "lib/kernels/reduce.h"
#include "lib/train/model_object.h"
#ifdef DEVICE_IS_CUDA
#include "tests/standin/cuda_memory.h"
#else
#include "tests/engines/standin_memory.h"
#endif
#include "tests/ranks.h"

#include <math.h>

static struct accel_error err;

/* 0, or one of many orders of streams: all of them with small tensors and few steps, so that each is cheap */
static int order;

/* ---- tensors in both memories ---- */

/* The same tensor on the host and on the device. */
struct twin {
    struct accel_tensor host, device;
};

static void
twin_make (struct twin *twin, enum accel_dtype dtype, int ndim, const int64_t *shape)
{
    rank_must (accel_tensor_init (&twin->host, dtype, ndim, shape, &err), &err);
    rank_must (accel_tensor_init (&twin->device, dtype, ndim, shape, &err), &err);
    size_t bytes = accel_tensor_count (&twin->host.dl) * accel_dtype_bytes (dtype);
    twin->host.dl.data = calloc (bytes + 1, 1);
    twin->device.dl.device = standin_device;
    twin->device.dl.data = memory_standin.create (standin_device, bytes, true);
}

static size_t
bytes_of (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * accel_dtype_bytes (accel_dtype_from_dl (tensor->dtype));
}

/* Numbers of any type that differ by rank; small, so that sums of them are exact in any order. */
static void
twin_fill (struct twin *twin, int rank, int step)
{
    size_t count = accel_tensor_count (&twin->host.dl);
    enum accel_dtype dtype = accel_dtype_from_dl (twin->host.dl.dtype);
    float *values = calloc (count + 1, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float) ((int) (i * 7 + (size_t) rank * 5 + (size_t) step * 3) % 23 - 11) / 4;
    if (dtype == ACCEL_FLOAT64)
        for (size_t i = 0; i < count; i++)
            ((double *) twin->host.dl.data)[i] = (double) values[i];
    else if (accel_dtype_to_dl (dtype).code == kDLFloat || accel_dtype_to_dl (dtype).code == kDLBfloat)
        rank_must (accel_convert (values, ACCEL_FLOAT32, twin->host.dl.data, dtype, count, &err), &err);
    else
        for (size_t i = 0; i < bytes_of (&twin->host.dl); i++)
            ((uint8_t *) twin->host.dl.data)[i] = (uint8_t) ((i + (size_t) rank) % 2);
    memory_standin.write (standin_device, twin->device.dl.data, twin->host.dl.data, bytes_of (&twin->host.dl));
    free (values);
}

static bool
same (const DLTensor *host, const DLTensor *device, const char *what)
{
    size_t bytes = bytes_of (host);
    char *read = malloc (bytes + 1);
    bool good = device->device.device_type == standin_device.device_type;
    good = right (good && bytes == bytes_of (device), "%s: another result", what);
    memory_standin.read (standin_device, read, device->data, good ? bytes : 0, NULL);
    for (size_t i = good && !memcmp (read, host->data, bytes) ? bytes : 0; good && i < bytes; i++)
        good = right (read[i] == ((const char *) host->data)[i], "%s: byte %zu of %zu is %#x, not %#x", what, i, bytes,
                      (unsigned char) read[i], ((const unsigned char *) host->data)[i]);
    free (read);
    return good;
}

static void
twin_free (struct twin *twin)
{
    free (twin->host.dl.data);
    memory_standin.destroy (standin_device, twin->device.dl.data);
}

/* ---- collectives ---- */

static void
check_outputs (struct accel *acc, struct twin *twin)
{
    struct accel_tensor host = { .owned_bytes = 0 }, device = { .owned_bytes = 0 };
    struct accel_tensor small = { .owned_bytes = 0 };
    rank_must (accel_gather (&host, acc, &twin->host.dl, &err), &err);
    rank_must (accel_gather (&device, acc, &twin->device.dl, &err), &err);
    same (&host.dl, &device.dl, "gather");
    rank_must (accel_reduce_scatter (&host, acc, &twin->host.dl, ACCEL_SUM, &err), &err);
    rank_must (accel_reduce_scatter (&device, acc, &twin->device.dl, ACCEL_SUM, &err), &err);
    same (&host.dl, &device.dl, "reduce-scatter");
    rank_must (accel_all_to_all (&host, acc, &twin->host.dl, &err), &err);
    rank_must (accel_all_to_all (&device, acc, &twin->device.dl, &err), &err);
    same (&host.dl, &device.dl, "all-to-all");
    /* The result cannot be in memory of the other kind, however large. */
    rank_must (accel_gather (&host, acc, &twin->device.dl, &err), &err);
    rank_must (accel_gather (&small, acc, &twin->host.dl, &err), &err);
    same (&small.dl, &host.dl, "gather into what was on the host");
    accel_tensor_release (&small);
    accel_tensor_release (&host);
    accel_tensor_release (&device);
}

static void
check_strides (struct accel *acc, struct twin *twin)
{
    int64_t strides[] = { 1, twin->host.shape[0] }, shape[] = { twin->host.shape[1], twin->host.shape[0] };
    DLTensor host = twin->host.dl, device = twin->device.dl;
    struct accel_tensor host_out = { .owned_bytes = 0 }, device_out = { .owned_bytes = 0 };
    host.shape = device.shape = shape;
    strides[0] = 1;
    strides[1] = twin->host.shape[1];
    host.strides = device.strides = strides; /* transposed */
    rank_must (accel_reduce (acc, &host, ACCEL_SUM, 0.5, &err), &err);
    rank_must (accel_reduce (acc, &device, ACCEL_SUM, 0.5, &err), &err);
    same (&twin->host.dl, &twin->device.dl, "reduce with strides");
    rank_must (accel_gather (&host_out, acc, &host, &err), &err);
    rank_must (accel_gather (&device_out, acc, &device, &err), &err);
    same (&host_out.dl, &device_out.dl, "gather with strides");
    accel_tensor_release (&host_out);
    accel_tensor_release (&device_out);
}

static void
check_pair (struct accel *acc, struct twin *twin)
{
    int rank = accel_process_index (acc), other = rank ^ 1;
    if (other >= accel_num_processes (acc))
        return;
    for (int turn = 0; turn < 2; turn++)
        if (turn == (rank & 1)) {
            rank_must (accel_send (acc, &twin->host.dl, other, &err), &err);
            rank_must (accel_send (acc, &twin->device.dl, other, &err), &err);
        } else {
            rank_must (accel_recv (acc, &twin->host.dl, other, &err), &err);
            rank_must (accel_recv (acc, &twin->device.dl, other, &err), &err);
        }
    same (&twin->host.dl, &twin->device.dl, "messages");
}

/* ---- buffers ---- */

enum { BUFFER = 60 }; /* elements of a rank */

/* Collectives on buffers, and messages, which cannot be started: from `send` [ranks, BUFFER] to `recv`, as large. */
enum buffer_call { ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE_SCATTER, ALL_TO_ALL, MESSAGES, BUFFER_CALLS };

/* What is started works in place, where it can. */
static enum accel_status
start_buffers (struct accel_work **work, struct accel_comm *comm, enum buffer_call call, float *send, float *recv)
{
    float *own = recv + (size_t) accel_comm_rank (comm) * BUFFER;
    switch (call) {
    case ALL_REDUCE:
        return accel_comm_all_reduce_start (work, comm, send, recv, BUFFER, ACCEL_FLOAT32, ACCEL_SUM, &err);
    case ALL_GATHER: return accel_comm_all_gather_start (work, comm, own, recv, BUFFER, ACCEL_FLOAT32, &err);
    case BROADCAST:
        return accel_comm_broadcast_start (work, comm, recv, BUFFER, ACCEL_FLOAT32, accel_comm_size (comm) - 1, &err);
    case REDUCE_SCATTER:
        return accel_comm_reduce_scatter_start (work, comm, recv, own, BUFFER, ACCEL_FLOAT32, ACCEL_SUM, &err);
    default: return accel_comm_all_to_all_start (work, comm, send, recv, BUFFER, ACCEL_FLOAT32, &err);
    }
}

static enum accel_status
pass_messages (struct accel_comm *comm, float *send, float *recv)
{
    int rank = accel_comm_rank (comm), other = rank ^ 1;
    enum accel_status status = ACCEL_OK;
    for (int turn = 0; turn < 2 && !status && other < accel_comm_size (comm); turn++)
        status = turn == (rank & 1) ? accel_comm_send (comm, send, BUFFER, ACCEL_FLOAT32, other, &err)
                                    : accel_comm_recv (comm, recv, BUFFER, ACCEL_FLOAT32, other, &err);
    return status;
}

static enum accel_status
call_buffers (struct accel_comm *comm, enum buffer_call call, float *send, float *recv)
{
    switch (call) {
    case ALL_REDUCE: return accel_comm_all_reduce (comm, send, recv, BUFFER, ACCEL_FLOAT32, ACCEL_SUM, &err);
    case ALL_GATHER: return accel_comm_all_gather (comm, send, recv, BUFFER, ACCEL_FLOAT32, &err);
    case BROADCAST: return accel_comm_broadcast (comm, recv, BUFFER, ACCEL_FLOAT32, 0, &err);
    case REDUCE_SCATTER: return accel_comm_reduce_scatter (comm, send, recv, BUFFER, ACCEL_FLOAT32, ACCEL_SUM, &err);
    case ALL_TO_ALL: return accel_comm_all_to_all (comm, send, recv, BUFFER, ACCEL_FLOAT32, &err);
    default: return pass_messages (comm, send, recv);
    }
}

enum { BLOCKING, STARTED, GROUPED, MANNERS };

/* Each in a manner of its own; in a group, all kinds at once. */
static void
compare_buffers (struct accel_comm *comm, int manner)
{
    static const char *const manners[] = { "blocking", "started", "in a group" };
    int64_t shape[] = { accel_comm_size (comm) * BUFFER };
    int calls = manner == BLOCKING ? BUFFER_CALLS : MESSAGES;
    struct twin send[BUFFER_CALLS], recv[BUFFER_CALLS];
    struct accel_work *works[BUFFER_CALLS];
    char what[40];
    for (int i = 0; i < calls; i++) {
        twin_make (&send[i], ACCEL_FLOAT32, 1, shape);
        twin_make (&recv[i], ACCEL_FLOAT32, 1, shape);
        twin_fill (&send[i], accel_comm_rank (comm), i);
        twin_fill (&recv[i], accel_comm_rank (comm), i + 1);
    }
    for (int device = 0; device < 2; device++) {
        if (manner == GROUPED)
            rank_must (accel_group_begin (comm, &err), &err);
        for (int i = 0; i < calls; i++) {
            float *from = device ? send[i].device.dl.data : send[i].host.dl.data;
            float *to = device ? recv[i].device.dl.data : recv[i].host.dl.data;
            rank_must (manner == BLOCKING ? call_buffers (comm, (enum buffer_call) i, from, to)
                                          : start_buffers (&works[i], comm, (enum buffer_call) i, from, to), &err);
            if (manner == STARTED)
                rank_must (accel_work_wait (works[i], &err), &err);
        }
        if (manner == GROUPED)
            rank_must (accel_group_end (comm, &err), &err);
        for (int i = 0; i < calls && manner == GROUPED; i++)
            rank_must (accel_work_wait (works[i], &err), &err);
    }
    for (int i = 0; i < calls; i++) {
        snprintf (what, sizeof what, "collective %d on buffers, %s", i, manners[manner]);
        same (&recv[i].host.dl, &recv[i].device.dl, what);
        twin_free (&send[i]);
        twin_free (&recv[i]);
    }
}

/* Where buffers are is found by their addresses. */
static void
buffers (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group;
    int rank = accel_process_index (acc);
    int64_t shape[] = { BUFFER };
    struct twin twin;
    rank_must (accel_comm_split (&group, world, rank % 2, rank, &err), &err);
    for (int manner = 0; manner < MANNERS; manner++) {
        compare_buffers (world, manner);
        compare_buffers (group, manner);
    }
    accel_comm_destroy (group);
    twin_make (&twin, ACCEL_FLOAT32, 1, shape);
    rank_fails (accel_comm_all_reduce (world, twin.host.dl.data, twin.device.dl.data, BUFFER, ACCEL_FLOAT32, ACCEL_SUM,
                                       &err),
                ACCEL_ERR_INVALID, &err, "send is in host memory, but recv is on " device_kind ":");
    twin_free (&twin);
}

static void
collectives (struct accel *acc)
{
    static const enum accel_dtype dtypes[] = { ACCEL_FLOAT32, ACCEL_BFLOAT16, ACCEL_FLOAT16, ACCEL_BOOL };
    int rank = accel_process_index (acc);
    int64_t shape[] = { 12, 1031 };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        struct twin twin;
        struct accel_work *work = NULL;
        float number = (float) rank, sum = -1;
        twin_make (&twin, dtypes[d], 2, shape);
        twin_fill (&twin, rank, 0);
        check_outputs (acc, &twin);
        rank_must (accel_reduce (acc, &twin.host.dl, ACCEL_SUM, 1, &err), &err);
        if (accel_num_processes (acc) > 1) /* of the host, in flight meanwhile */
            rank_must (accel_comm_all_reduce_start (&work, accel_world (acc), &number, &sum, 1, ACCEL_FLOAT32,
                                                    ACCEL_SUM, &err), &err);
        rank_must (accel_reduce (acc, &twin.device.dl, ACCEL_SUM, 1, &err), &err);
        if (work)
            rank_must (accel_work_wait (work, &err), &err);
        right (!work || sum == (float) (accel_num_processes (acc) * (accel_num_processes (acc) - 1) / 2), "sum %g",
               (double) sum);
        same (&twin.host.dl, &twin.device.dl, "reduce");
        twin_fill (&twin, rank, 1);
        rank_must (accel_broadcast (acc, &twin.host.dl, accel_num_processes (acc) - 1, &err), &err);
        rank_must (accel_broadcast (acc, &twin.device.dl, accel_num_processes (acc) - 1, &err), &err);
        same (&twin.host.dl, &twin.device.dl, "broadcast");
        twin_fill (&twin, rank, 2);
        if (dtypes[d] != ACCEL_BOOL)
            check_strides (acc, &twin);
        twin_fill (&twin, rank, 3);
        check_pair (acc, &twin);
        twin_free (&twin);
    }
}

/* Every type with every operation that is defined for it. */
static void
operations (struct accel *acc)
{
    const int64_t shapes[] = { 1, 1031, 40000 }; /* the last in several pieces */
    struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site there = comm_site_on (&site, standin_device);
    char what[80];
    for (int t = 0; t < ACCEL_DTYPE_COUNT; t++)
        for (int o = 0; o < ACCEL_OP_COUNT; o++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                enum accel_dtype dtype = (enum accel_dtype) t;
                enum accel_op op = (enum accel_op) o;
                struct twin twin;
                if (!reduce_is_defined (dtype, op) || (order && (size_t) (t + o + order) % (3 * 3) != s))
                    continue;
                twin_make (&twin, dtype, 1, &shapes[s]);
                twin_fill (&twin, accel_process_index (acc), o);
                void *host = twin.host.dl.data, *device = twin.device.dl.data;
                size_t count = (size_t) shapes[s];
                rank_must (comm_all_reduce (accel_world (acc), &site, host, host, count, dtype, op, &err), &err);
                rank_must (comm_all_reduce (accel_world (acc), &there, device, device, count, dtype, op, &err), &err);
                snprintf (what, sizeof what, "all-reduce of %zu %s, operation %d", count, accel_dtype_name (dtype), o);
                same (&twin.host.dl, &twin.device.dl, what);
                twin_free (&twin);
            }
}

/* A group has the engines of its parent. */
static void
groups (struct accel *acc)
{
    struct accel_comm *group;
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    rank_must (accel_comm_split (&group, accel_world (acc), rank % 2, rank, &err), &err);
    int64_t shape[] = { 100 };
    struct twin twin;
    twin_make (&twin, ACCEL_FLOAT32, 1, shape);
    twin_fill (&twin, rank, 0);
    struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site there = comm_site_on (&site, standin_device);
    void *host = twin.host.dl.data, *device = twin.device.dl.data;
    rank_must (comm_all_reduce (group, &site, host, host, 100, ACCEL_FLOAT32, ACCEL_SUM, &err), &err);
    rank_must (comm_all_reduce (group, &there, device, device, 100, ACCEL_FLOAT32, ACCEL_SUM, &err), &err);
    same (&twin.host.dl, &twin.device.dl, "group");
    right (size == 1 || group->link_count == 2, "the group has %d engines", group->link_count);
    accel_comm_destroy (group);
    twin_free (&twin);
}

/* All ranks get the error, on either engine.  Rank 0 or 2 is named beside rank 1: who comes first compares. */
static void
differ (struct accel *acc)
{
    int64_t shape[] = { 100 };
    struct twin twin;
    twin_make (&twin, ACCEL_FLOAT32, 1, shape);
    bool device = accel_process_index (acc) == 1;
    enum accel_status status = accel_reduce (acc, device ? &twin.device.dl : &twin.host.dl, ACCEL_SUM, 1, &err);
    rank_fails (status, ACCEL_ERR_PEER, &err, "devices differ in accel_reduce: ");
    rank_fails (status, ACCEL_ERR_PEER, &err, "cpu on rank ");
    rank_fails (status, ACCEL_ERR_PEER, &err, device_kind " on rank 1 at ");
}

/* ---- training ---- */

enum { PARAMETERS = 6, STEPS = 5, FEW_STEPS = 3, LARGE = 40 << 10 };

static const struct {
    const char *name;
    enum accel_dtype dtype, grad_dtype;
    int64_t shape[2], small[2];
} layout[PARAMETERS] = {
    { "float", ACCEL_FLOAT32, ACCEL_FLOAT32, { 64, 33 }, { 16, 33 } },
    { "half", ACCEL_FLOAT16, ACCEL_FLOAT16, { 40, 51 }, { 10, 51 } },
    { "brain", ACCEL_BFLOAT16, ACCEL_FLOAT32, { 30, 1025 }, { 6, 103 } },
    { "eighth", ACCEL_FLOAT8_E4M3FN, ACCEL_BFLOAT16, { 17, 65 }, { 17, 31 } },
    { "buffer", ACCEL_FLOAT32, ACCEL_FLOAT32, { 3, 5 }, { 3, 5 } },
    { "large", ACCEL_FLOAT32, ACCEL_FLOAT32, { LARGE, 1 }, { 700, 1 } },
};

struct way {
    const char *name;
    const char *precision;
    struct accel_ddp_options ddp;
    int optimizer;
    double norm_type;
    bool own_gradients, infinite, unwraps, reports, joins, resumes;
};

struct training {
    struct accel *acc;
    const struct way *way;
    struct twin data[PARAMETERS], grads[PARAMETERS];
    struct accel_model *models[2]; /* on the host, on the device */
    struct accel_optimizer *optimizers[2];
    int which, step, pass;
};

/* By all ranks, unless a state is loaded, which has such parameters of rank 0 only; by rank 0, in odd steps by all in
 * the first of two averaged passes; by rank 0 in the first; by rank 1 in the second one.  In the first, there is
 * something in such a gradient all the same, which another rank's use makes 0. */
static bool
is_unused (const struct training *training, int rank, int i)
{
    bool is_odd = training->step % 2, is_first = !training->pass;
    return training->way->ddp.find_unused_parameters
           && ((i == is_odd && !training->way->resumes) || (i == 2 && (!rank || (is_odd && is_first)))
               || (i == 3 && !rank && is_first) || (i == PARAMETERS - 1 && rank == 1 && !is_first));
}

/* Gradients are of the program: here, made on the host and written to where they belong. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct training *training = user;
    struct accel_model *model = training->models[training->which];
    int rank = accel_process_index (training->acc);
    (void) error;
    for (size_t i = PARAMETERS; i-- > 0;) {
        const struct accel_parameter *parameter = &model->parameters[i];
        bool unused = is_unused (training, rank, (int) i);
        if (!parameter->grad || (unused && training->pass))
            continue;
        size_t count = accel_tensor_count (parameter->grad);
        float *values = calloc (count, sizeof *values);
        void *bytes = calloc (count, sizeof *values);
        enum accel_dtype dtype = accel_dtype_from_dl (parameter->grad->dtype);
        for (size_t j = 0; j < count; j++)
            values[j] = scale * sinf ((float) (j % 1009) + (float) (rank * 17 + training->step * 3) + (float) i) / 64;
        if (training->way->infinite && training->step == 2 && i == 2 && rank == 0)
            values[count / 2] = INFINITY;
        rank_must (accel_convert (values, ACCEL_FLOAT32, bytes, dtype, count, &err), &err);
        model->memory->write (model->device, parameter->grad->data, bytes, count * accel_dtype_bytes (dtype));
        free (values);
        free (bytes);
        if (!unused && (training->way->ddp.find_unused_parameters || training->way->reports))
            rank_must (accel_grad_ready (model, i, &err), &err);
    }
    return ACCEL_OK;
}

static struct accel_optimizer *
make_optimizer (const struct way *way, struct accel_model *model)
{
    struct accel_optimizer *made = NULL;
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = ACCEL_ZERO, .amsgrad = true,
                                                   .threads = 3 };
    const struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9, .threads = 3 };
    const struct accel_optimizer_options lion = { .threads = 3 };
    enum accel_status status = way->optimizer == 0   ? accel_optimizer_create (&made, model, ACCEL_ADAMW, &adamw, &err)
                               : way->optimizer == 1 ? accel_optimizer_create (&made, model, ACCEL_SGD, &sgd, &err)
                                                     : accel_optimizer_create (&made, model, ACCEL_LION, &lion, &err);
    rank_must (status, &err);
    return made;
}

static void
make (struct training *training)
{
    const struct way *way = training->way;
    struct accel_parameter parameters[2][PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        struct twin *data = &training->data[i], *grad = &training->grads[i];
        const int64_t *shape = order ? layout[i].small : layout[i].shape;
        twin_make (data, layout[i].dtype, 2, shape);
        twin_fill (data, accel_process_index (training->acc), i); /* rank 0's count */
        twin_make (grad, layout[i].grad_dtype, 2, shape);
        if (!way->own_gradients) {
            free (grad->host.dl.data);
            memory_standin.destroy (standin_device, grad->device.dl.data);
            grad->host.dl.data = grad->device.dl.data = NULL;
        }
        parameters[0][i] = (struct accel_parameter){ layout[i].name, &data->host.dl, &grad->host.dl };
        parameters[1][i] = (struct accel_parameter){ layout[i].name, &data->device.dl, &grad->device.dl };
        if (!strcmp (layout[i].name, "buffer"))
            parameters[0][i].grad = parameters[1][i].grad = NULL;
    }
    for (int which = 0; which < 2; which++) {
        rank_must (accel_model_create (&training->models[which], parameters[which], PARAMETERS, &err), &err);
        struct accel_ddp_options ddp = way->ddp;
        if (way->joins && accel_process_index (training->acc) == 1)
            ddp.overlap = ACCEL_OVERLAP_NEVER; /* each rank may choose */
        rank_must (accel_model_set_ddp (training->models[which], &ddp, &err), &err);
        training->optimizers[which] = make_optimizer (way, training->models[which]);
        rank_must (accel_prepare (training->acc, &err, training->models[which], training->optimizers[which]), &err);
    }
}

static void
resume (struct accel *acc)
{
    const char *folder = (const char *const[]){ "state1", "state2", "state3", "state4" }[accel_num_processes (acc) - 1];
    rank_must (accel_save_state (acc, folder, &err), &err);
    rank_must (accel_load_state (acc, folder, &err), &err);
}

static void
run_step (struct training *training, int which)
{
    const struct way *way = training->way;
    struct accel_model *model = training->models[which];
    /* pow() of a card is not the processor's */
    double norm_type = way->norm_type == 3 && getenv ("DEVICE_WITHOUT_POWER") ? 1 : way->norm_type;
    float norm = 0;
    training->which = which;
    training->pass = 0;
    for (int *pass = &training->pass; *pass < 2; ++*pass) {
        rank_must (accel_accumulate (training->acc, &err, model), &err);
        if (way->ddp.find_unused_parameters)
            rank_must (accel_trigger_sync_in_backward (training->acc, model, &err), &err);
        rank_must (accel_backward (training->acc, model, 0, backward, training, &err), &err);
        if (way->resumes && !*pass)
            resume (training->acc);
    }
    if (training->step % 2)
        rank_must (accel_clip_grad_norm (model, 0.5, &norm,
                                         &(struct accel_clip_options){ .norm_type = accel_exactly (norm_type) },
                                         &err), &err);
    else
        rank_must (accel_clip_grad_value (model, 0.01, &err), &err);
    rank_must (accel_optimizer_step (training->optimizers[which], &err), &err);
    rank_must (accel_optimizer_zero_grad (training->optimizers[which], &err), &err);
    if (way->unwraps && training->step == 1) {
        rank_must (accel_unwrap_model (training->acc, model, &err), &err);
        rank_must (accel_prepare (training->acc, &err, model), &err);
    }
}

static void
compare_training (struct training *training)
{
    char what[160];
    for (size_t i = 0; i < PARAMETERS; i++) {
        snprintf (what, sizeof what, "%s, step %d: parameter %s", training->way->name, training->step, layout[i].name);
        if (!same (&training->data[i].host.dl, &training->data[i].device.dl, what))
            return;
        right (accel_model_scale (training->models[0], i) == accel_model_scale (training->models[1], i), "%s: scale",
               what);
        const char *name = NULL;
        for (size_t s = 0; training->grads[i].host.dl.data
                           && (name = accel_optimizer_state_name (training->optimizers[0], s)); s++) {
            const DLTensor *host = accel_optimizer_state_tensor (training->optimizers[0], i, name);
            const DLTensor *device = accel_optimizer_state_tensor (training->optimizers[1], i, name);
            if (host && !same (host, device, name))
                return;
        }
    }
    right (accel_optimizer_step_was_skipped (training->optimizers[0])
               == accel_optimizer_step_was_skipped (training->optimizers[1]),
           "%s, step %d: only one was skipped", training->way->name, training->step);
}

static const struct way *present_way;

/* The scaler is the job's: what it learns from the one model must not change the other's step. */
static void
train (struct accel *acc)
{
    struct training training = { .acc = acc, .way = present_way };
    struct accel_scaler_state before, after;
    make (&training);
    compare_training (&training);
    bool has_less = present_way->joins && accel_process_index (acc) == 0;
    int steps = (order ? FEW_STEPS : STEPS) - 2 * has_less; /* in the second, it averages what was unused before */
    if (present_way->joins)
        rank_must (accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err), &err);
    for (training.step = 0; training.step < steps; training.step++) {
        bool scales = accel_scaler_get_state (acc, &before);
        run_step (&training, 0);
        accel_scaler_get_state (acc, &after);
        if (scales)
            rank_must (accel_scaler_set_state (acc, &before, &err), &err);
        run_step (&training, 1);
        accel_scaler_get_state (acc, &before);
        right (!scales || before.scale == after.scale, "%s, step %d: the scale", training.way->name, training.step);
        compare_training (&training);
    }
    if (present_way->joins)
        rank_must (accel_join_end (acc, &err), &err);
    compare_training (&training);
    for (int which = 0; which < 2; which++) {
        accel_optimizer_destroy (training.optimizers[which]);
        accel_model_destroy (training.models[which]);
    }
    for (int i = 0; i < PARAMETERS; i++) {
        twin_free (&training.data[i]);
        if (training.way->own_gradients)
            twin_free (&training.grads[i]);
    }
    right (!standin_live, "%s: %zu blocks are left", training.way->name, standin_live);
    right (standin_operations > 200, "%s: only %llu operations", training.way->name, standin_operations);
}

static const struct way ways[] = {
    { .name = "AdamW, buckets", .precision = "no", .norm_type = 2, .reports = true,
      .ddp = { .bucket_cap_mb = 0.05 } },
    { .name = "SGD, fp16 with an overflow", .precision = "fp16", .optimizer = 1, .norm_type = INFINITY,
      .infinite = true, .reports = true },
    { .name = "Lion, gradients of the program", .precision = "bf16", .optimizer = 2, .norm_type = 3,
      .own_gradients = true },
    { .name = "gradients in bfloat16", .precision = "no", .norm_type = 1, .reports = true,
      .ddp = { .comm_hook = ACCEL_COMM_HOOK_BF16 } },
    { .name = "PowerSGD", .precision = "no", .norm_type = 2,
      .ddp = { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .matrix_approximation_rank = 2, .start_iter = 1 } },
    { .name = "unused parameters and buffers", .precision = "no", .norm_type = 2, .own_gradients = true,
      .ddp = { .find_unused_parameters = true, .broadcast_buffers = true, .overlap = ACCEL_OVERLAP_ALWAYS } },
    { .name = "unused parameters, gradients of the library", .precision = "no", .norm_type = 2,
      .ddp = { .find_unused_parameters = true, .bucket_cap_mb = 0.05, .comm_hook = ACCEL_COMM_HOOK_BF16 } },
    { .name = "unused parameters, resumed", .precision = "no", .norm_type = 2, .resumes = true,
      .ddp = { .find_unused_parameters = true } },
    { .name = "rank 0 has less data, PowerSGD from the second pass", .precision = "no", .norm_type = 2, .joins = true,
      .ddp = { .find_unused_parameters = true, .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 1,
               .matrix_approximation_rank = 2 } },
    { .name = "rank 0 has less data", .precision = "no", .norm_type = 2, .reports = true, .joins = true,
      .ddp = { .bucket_cap_mb = 0.05 } },
    { .name = "rank 0 has less data, and all have unused parameters", .precision = "no", .norm_type = 2, .joins = true,
      .ddp = { .find_unused_parameters = true, .bucket_cap_mb = 0.05 } },
    { .name = "unwrapped", .precision = "no", .norm_type = 2, .unwraps = true },
};

/* From the present way to the last of its precision. */
static void
train_several (struct accel *acc)
{
    for (const char *which = present_way->precision; present_way < ways + sizeof ways / sizeof *ways; present_way++)
        if (!strcmp (present_way->precision, which))
            train (acc);
}

/* Each in a job of its own; in many orders, all of one precision in one. */
static void
train_all_ways (int size)
{
    setenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "2", 1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t first = 0;
        while (strcmp (ways[first].precision, ways[i].precision))
            first++;
        if (order && first < i)
            continue;
        setenv ("ACCELERATE_MIXED_PRECISION", ways[i].precision, 1);
        present_way = &ways[i];
        as_ranks (size, ways[i].name, order ? train_several : train);
    }
    setenv ("ACCELERATE_MIXED_PRECISION", "no", 1);
    unsetenv ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
}

#ifdef DEVICE_IS_CUDA
/* The one sentence, and the host's engine continues. */
static void
shared (struct accel *acc)
{
    int64_t shape[] = { 3 };
    struct twin twin;
    right (accel_device (acc).device_type == kDLCPU, "the device is not the CPU");
    setenv ("LOCAL_RANK", "0", 1); /* whose GPU the tensor is on */
    twin_make (&twin, ACCEL_FLOAT32, 1, shape);
    rank_fails (accel_reduce (acc, &twin.device.dl, ACCEL_SUM, 1, &err), ACCEL_ERR_UNSUPPORTED, &err,
                "no engine for cuda memory, only shm for the host's: NCCL needs a GPU for each rank, but ranks 0 and 1 "
                "have the same one: start no more than 1 there, or use --cpu");
    rank_must (accel_reduce (acc, &twin.host.dl, ACCEL_SUM, 1, &err), &err);
    twin_free (&twin);
}

static void
all_calls (struct accel *acc)
{
    collectives (acc);
    operations (acc);
    groups (acc);
    buffers (acc);
}

static void
test_part (int size, const char *part)
{
    bool all = !strcmp (part, "all");
    if (order && strcmp (part, "training"))
        as_ranks (size, "calls", all_calls);
    else if (all || !strcmp (part, "calls")) {
        as_ranks (size, "collectives", collectives);
        as_ranks (size, "operations", operations);
        as_ranks (size, "groups", groups);
        as_ranks (size, "buffers", buffers);
    }
    if (size == 3)
        as_ranks (size, "host tensors on some ranks", differ);
    if (all || !strcmp (part, "training"))
        train_all_ways (size);
}

/* On GPUs, one for each process.
 * usage: device [RANKS [PART [ORDERS]]] | device shared */
int
main (int argc, char **argv)
{
    int size = argc > 1 ? (int) strtol (argv[1], NULL, 10) : 1;
    int orders = argc > 3 ? (int) strtol (argv[3], NULL, 10) : 0;
    const struct accel_options options = { .device_placement = ACCEL_NO }; /* one of two models stays on the host */
    char seed[20];
    ranks_options = &options;
    if (!size)
        as_ranks (2, "ranks on one GPU", shared);
    else if (!orders)
        test_part (size, argc > 2 ? argv[2] : "all");
    for (order = 1; order <= orders; order++) {
        snprintf (seed, sizeof seed, "%d", order);
        setenv ("STANDIN_SEED", seed, 1);
        test_part (size, argv[2]);
    }
    return done_testing ();
}
#else
/* ---- one process without an engine, or without memory ---- */

static void
no_engine (struct accel *acc)
{
    int64_t shape[] = { 3 };
    struct twin twin;
    twin_make (&twin, ACCEL_FLOAT32, 1, shape);
    rank_fails (accel_reduce (acc, &twin.device.dl, ACCEL_SUM, 1, &err), ACCEL_ERR_UNSUPPORTED, &err,
                "is on ext:1, but this job has no engine for ext memory, only shm for the host's");
    rank_must (accel_reduce (acc, &twin.host.dl, ACCEL_SUM, 1, &err), &err); /* no rank was harmed */
}

static void
mixed_model (void)
{
    int64_t shape[] = { 3 };
    struct twin a, b;
    struct accel_model *model;
    twin_make (&a, ACCEL_FLOAT32, 1, shape);
    twin_make (&b, ACCEL_FLOAT32, 1, shape);
    struct accel_parameter parameters[] = { { "a", &a.device.dl, NULL }, { "b", &b.host.dl, NULL } };
    ok (accel_model_create (&model, parameters, 2, &err) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "the tensor of 'b' is on cpu:0, but the first parameter is on ext:1"),
        "a model has its parameters in one place: %s", err.text);
    twin_free (&a);
    twin_free (&b);
}

static void
names (const char *given, const char *words)
{
    struct accel_options options = { .engine = given };
    struct accel *acc;
    enum accel_status status = accel_open (&acc, &options, &err);
    ok (status && strstr (err.text, words), "engine '%s': %s", given, status ? err.text : "opened");
    if (!status)
        accel_close (acc);
}

/* For device.sh: open in a launched rank. */
static int
open_only (void)
{
    struct accel *acc;
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (status)
        fprintf (stderr, "%s\n", err.text);
    else
        accel_close (acc);
    return status != ACCEL_OK;
}

int
main (int argc, char **argv)
{
    (void) argv;
    memory_register (kDLExtDev, &memory_standin);
    if (argc > 1)
        return open_only ();
    names ("cpu:", "expected NAME, or KIND:NAME");
    names ("cuda:nccl", "'cuda:nccl': this build has no code for cuda memory");
    names ("cpu:self,ext:shm", "shm does not move data in ext memory");
    names ("cpu:standin", "standin does not move data in cpu memory");
    names ("ext:nothing", "unknown engine 'nothing'");
    for (int size = 1; size <= 4; size *= 2) {
        static const char *const engines[] = { "cpu:shm,ext:standin", "cpu:pipes,ext:standin" };
        for (int e = 0; e < (size == 2 ? 2 : 1); e++) {
            if (size > 1)
                setenv ("ACCEL_ENGINE", engines[e], 1);
            as_ranks (size, size > 1 ? engines[e] : "self", collectives);
            as_ranks (size, "groups", groups);
            as_ranks (size, "buffers", buffers);
        }
        as_ranks (size, "operations", operations);
        if (size < 4)
            train_all_ways (size);
    }
    setenv ("ACCEL_ENGINE", "ext:standin", 1);
    as_ranks (3, "host tensors on some ranks", differ);
    unsetenv ("STANDIN_ENGINE");
    setenv ("ACCEL_ENGINE", "shm", 1);
    as_ranks (2, "no engine", no_engine);
    mixed_model (); /* the last: a fork would have the same memory as its parent */
    return done_testing ();
}
#endif
