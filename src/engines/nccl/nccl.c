/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "nccl": collectives of tensors on NVIDIA GPUs, one for each rank.  The table of functions. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { YIELDS = 50, PAUSE_US = 20, SAME_PAUSES = 4, PAUSE_MOST_US = 500, AWAY_MS = 1000, ROUND_MS = 100 };

static void
lock (void)
{
    pthread_mutex_lock (&engine.lock);
}

static void
unlock (void)
{
    pthread_mutex_unlock (&engine.lock);
}

/* With the lock, which it lets go: turn @turn of a wait.  What NCCL has to queue takes microseconds, so others compute
 * first; ranks that connect, and collectives, may take any time, so pauses grow. */
static void
let_others (int turn)
{
    int doublings = (turn - YIELDS) / SAME_PAUSES;
    int us = doublings > 4 ? PAUSE_MOST_US : PAUSE_US << (doublings > 0 ? doublings : 0);
    unlock ();
    if (turn < YIELDS)
        sched_yield ();
    else
        usleep ((useconds_t) us);
    lock ();
}

/* ---- calls ---- */

/* The oldest of @comm that is not over. */
static struct operation *
find_oldest (const struct communicator *comm)
{
    struct operation *operation = comm->operations;
    while (operation && (!operation->call || operation_is_over (operation)))
        operation = operation->next;
    return operation;
}

/* Of all communicators: the one that the others are waiting for. */
static struct operation *
find_oldest_of_all (void)
{
    struct operation *oldest = NULL;
    for (const struct communicator *comm = engine.comms; comm; comm = comm->next) {
        struct operation *first = find_oldest (comm);
        if (first && (!oldest || first->ticket < oldest->ticket))
            oldest = first;
    }
    return oldest;
}

/* What libaccel finds out about the other ranks, when it is time to ask; without the lock. */
static enum accel_status
check_peers (struct operation *operation, const struct accel_engine_call *call, struct accel_error *why)
{
    int64_t now = now_ms ();
    if (!operation->since_ms)
        operation->since_ms = operation->looked_ms = now;
    int64_t pause = now - operation->looked_ms;
    if (pause < SLICE_MS)
        return ACCEL_OK;
    operation->looked_ms = now;
    if (pause > AWAY_MS) /* the program was computing between two tests */
        operation->since_ms += pause;
    enum accel_status status = call->helpers->look (call->helpers->context, call, why);
    if (!status && now - operation->since_ms >= operation->comm->timeout_ms)
        status = call->helpers->timed_out (call->helpers->context, call, why);
    return status;
}

/* What is done on the GPU may be through for all that, as other ranks have left. */
static bool
ends_within_grace (struct operation *operation)
{
    int64_t end = now_ms () + GRACE_MS;
    while (!operation_is_over (operation)) {
        if (now_ms () >= end)
            return false;
        unlock ();
        usleep (PAUSE_MOST_US);
        lock ();
    }
    return true;
}

/* With the lock, which it lets go.  It looks for the oldest call, also of another communicator, of which another thread
 * may be waiting for it.  @return whether @operation is over */
static bool
advance (struct operation *operation)
{
    struct accel_error why;
    if (operation_is_over (operation))
        return true;
    struct operation *oldest = find_oldest_of_all ();
    struct communicator *comm = oldest ? oldest->comm : NULL;
    if (!comm || comm->is_looked_at)
        return operation_is_over (operation);
    comm->is_looked_at = true;
    unlock ();
    enum accel_status status = check_peers (operation, oldest->call, &why);
    lock ();
    if (status && !ends_within_grace (oldest)) {
        comm_fail (comm, status, "%s", why.text);
        operation->since_ms = 0;
    }
    comm->is_looked_at = false;
    return operation_is_over (operation);
}

static enum accel_status
fail_as_comm (const struct communicator *comm, struct accel_error *err)
{
    return comm->helpers->fail (err, comm->status, "%s", comm->why);
}

/* An error of the network's comes before libaccel knows which process is gone. */
static enum accel_status
fail_with_cause (const struct communicator *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    int64_t end = now_ms () + CAUSE_MS;
    enum accel_status status = ACCEL_OK;
    while (comm->is_network_error && !status && now_ms () < end) {
        status = call->helpers->look (call->helpers->context, call, err);
        usleep (SLICE_MS * 1000 / 5);
    }
    return status ? status : fail_as_comm (comm, err);
}

static enum accel_status
engine_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    struct communicator *comm = transport;
    if (call->device.device_id != engine.gpu)
        return call->helpers->fail (err, ACCEL_ERR_INVALID,
                                    "the tensor is on cuda:%d, but the GPU of this rank is cuda:%d, the one that "
                                    "accel_device() returns",
                                    (int) call->device.device_id, engine.gpu);
    DEVICE_GUARD;
    lock ();
    struct operation *operation = operation_create (comm, call);
    if (operation && !comm_check_cuda (comm, cudaEventRecord (operation->ready, (cudaStream_t) call->stream),
                                       "cudaEventRecord")) {
        operation_destroy (operation);
        operation = NULL;
    }
    if (!comm_progress (comm))
        progress_thread_wake ();
    if (!operation)
        comm_await_look (comm);
    unlock ();
    *work = operation;
    return operation ? ACCEL_OK : fail_with_cause (comm, call, err);
}

static bool
engine_test (void *transport, void *work)
{
    (void) transport;
    DEVICE_GUARD;
    lock ();
    bool over = advance (work);
    unlock ();
    return over;
}

static enum accel_status
engine_wait (void *transport, void *work, struct accel_error *err)
{
    struct communicator *comm = transport;
    struct operation *operation = work;
    const struct accel_engine_call *call = operation->call;
    DEVICE_GUARD;
    lock ();
    for (int turn = 0; !advance (operation); turn++)
        let_others (turn);
    enum accel_status status = comm->status;
    comm_await_look (comm);
    operation_destroy (operation);
    unlock ();
    return status ? fail_with_cause (comm, call, err) : ACCEL_OK;
}

static void
engine_coalesce_begin (void *transport)
{
    lock ();
    comm_coalesce_begin (transport);
    unlock ();
}

static void
engine_coalesce_end (void *transport)
{
    struct communicator *comm = transport;
    DEVICE_GUARD;
    lock ();
    comm_coalesce_end (comm);
    if (!comm_progress (comm))
        progress_thread_wake ();
    unlock ();
}

/* Once NCCL has put it on its stream: before, there is no event to come after, and NCCL says only to those who ask that
 * it has.  That takes microseconds, but the first collective, in which ranks connect, as long as these take to come. */
static enum accel_status
engine_order (void *transport, void *work, void *stream, struct accel_error *err)
{
    struct communicator *comm = transport;
    struct operation *operation = work;
    DEVICE_GUARD;
    lock ();
    for (int turn = 0; operation->state < OPERATION_RUNS && !advance (operation); turn++)
        let_others (turn);
    enum accel_status status = ACCEL_OK;
    cudaError_t error = cudaSuccess;
    if (comm->status)
        status = fail_as_comm (comm, err);
    else
        error = cudaStreamWaitEvent ((cudaStream_t) stream, operation->done, 0);
    unlock ();
    if (!error)
        return status;
    return comm->helpers->fail (err, ACCEL_ERR_SYSTEM, "cuda:%d: cudaStreamWaitEvent: %s (%s)%s%s", engine.gpu,
                                cudaGetErrorString (error), cudaGetErrorName (error), OWN_WORDS);
}

static enum accel_status
engine_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    void *work;
    enum accel_status status = engine_start (transport, call, &work, err);
    return status ? status : engine_wait (transport, work, err);
}

/* NCCL says neither which rank it is waiting for, nor which one is the reason for a network error. */
static bool
engine_awaits (void *transport, int rank)
{
    struct communicator *comm = transport;
    DEVICE_GUARD;
    lock ();
    bool waits = rank != comm->rank && (comm->is_network_error || find_oldest (comm));
    unlock ();
    return waits;
}

static void
engine_give_up (void *transport, const char *reason)
{
    DEVICE_GUARD;
    lock ();
    comm_fail (transport, ACCEL_ERR_PEER, "this process gave up: %s", reason);
    unlock ();
}

/* ---- jobs ---- */

static enum accel_status
engine_probe (const struct accel_engine_job *job, struct accel_error *err)
{
    enum accel_status status = library_open (job->helpers, err);
    return status ? status : gpu_choose (job, err) ? ACCEL_OK : ACCEL_ERR_UNSUPPORTED;
}

/* Where rank 0 listens, if the id is not to be a random one; NCCL reads it. */
#define ADDRESS "NCCL_COMM_ID"

/* What ranks tell each other. */
struct hello {
    char id[NCCL_UNIQUE_ID_BYTES]; /* of rank 0 */
    char bus[32];   /* the GPU */
    uint64_t host;
    char words[80]; /* why there is no id */
};
_Static_assert (sizeof (struct hello) <= 256, "exchange() takes 256 bytes");

/* The same number in all processes of a machine, also in containers. */
static uint64_t
find_host (void)
{
    char boot[64];
    uint64_t hash = UINT64_C (0xcbf29ce484222325);
    FILE *file = fopen ("/proc/sys/kernel/random/boot_id", "re");
    const char *line = file ? fgets (boot, sizeof boot, file) : NULL;
    if (file)
        fclose (file);
    for (const char *c = line; c && *c; c++)
        hash = (hash ^ (unsigned char) *c) * UINT64_C (0x100000001b3);
    return hash;
}

static void
say_hello (const struct accel_engine_job *job, struct hello *hello)
{
    ncclUniqueId id;
    ncclResult_t result = job->rank ? ncclSuccess : nccl.GetUniqueId (&id);
    hello->host = find_host ();
    gpu_name (hello->bus, sizeof hello->bus);
    if (result)
        snprintf (hello->words, sizeof hello->words, "ncclGetUniqueId: %s%s", nccl.GetErrorString (result),
                  getenv (ADDRESS) ? " (" ADDRESS ": expected HOST:PORT)" : "");
    else if (!job->rank)
        memcpy (hello->id, id.internal, sizeof hello->id);
}

static bool
is_same_gpu (const struct hello *a, const struct hello *b)
{
    return a->host == b->host && *a->bus && !strcmp (a->bus, b->bus);
}

static int
count_gpus (const struct hello *all, int size, uint64_t host)
{
    int count = 0;
    for (int i = 0; i < size; i++) {
        bool is_new = all[i].host == host;
        for (int j = 0; j < i; j++)
            is_new = is_new && !is_same_gpu (&all[i], &all[j]);
        count += is_new;
    }
    return count;
}

static enum accel_status
check_hellos (const struct accel_engine_job *job, const struct hello *all, struct accel_error *err)
{
    if (*all[0].words)
        return job->helpers->fail (err, ACCEL_ERR_SYSTEM, "accel_open: engine nccl: rank 0: %.80s", all[0].words);
    for (int b = 1; b < job->world_size; b++)
        for (int a = 0; a < b; a++)
            if (is_same_gpu (&all[a], &all[b]))
                return job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED,
                                           "NCCL needs a GPU for each rank, but ranks %d and %d have the same one: "
                                           "start no more than %d there, or use --cpu",
                                           a, b, count_gpus (all, job->world_size, all[a].host));
    return ACCEL_OK;
}

static enum accel_status
meet (const struct accel_engine_job *job, ncclUniqueId *id, struct accel_error *err)
{
    struct hello own = { .bus = "" };
    say_hello (job, &own);
    struct hello *all = calloc ((size_t) job->world_size, sizeof *all);
    if (!all)
        return job->helpers->fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    enum accel_status status = ACCEL_OK;
    if (job->world_size > 1)
        status = job->helpers->exchange (job->helpers->context, &own, all, sizeof own, err);
    else
        all[0] = own;
    if (!status)
        status = check_hellos (job, all, err);
    memcpy (id->internal, all[0].id, sizeof id->internal);
    free (all);
    return status;
}

enum { CONNECTED, CONNECTS, FAILED }; /* what a rank says of itself while NCCL connects */

/* NCCL, which meets the ranks itself, may not notice one that is gone: the exchange does. */
static enum accel_status
connect_together (struct communicator *comm, const struct accel_engine_job *job, char *all, struct accel_error *err)
{
    int64_t end = now_ms () + job->timeout_ms;
    bool goes_on = true;
    while (goes_on) {
        lock ();
        bool connected = comm_await_nccl (comm, ROUND_MS);
        if (!connected && now_ms () >= end)
            comm_fail (comm, ACCEL_ERR_TIMEOUT, "timed out after %u ms while NCCL was connecting the ranks",
                       (unsigned) job->timeout_ms);
        char mine = connected ? CONNECTED : comm->status ? FAILED : CONNECTS;
        unlock ();
        enum accel_status status = ACCEL_OK;
        if (job->world_size > 1)
            status = job->helpers->exchange (job->helpers->context, &mine, all, 1, err);
        else
            *all = mine;
        if (status)
            return status;
        goes_on = false;
        for (int rank = 0; rank < job->world_size; rank++) {
            if (all[rank] == FAILED)
                return job->helpers->fail (err, ACCEL_ERR_PEER, "accel_open: NCCL does not start on rank %d", rank);
            goes_on = goes_on || all[rank] == CONNECTS;
        }
    }
    return ACCEL_OK;
}

static enum accel_status
connect_ranks (struct communicator *comm, const struct accel_engine_job *job, const ncclUniqueId *id,
               struct accel_error *err)
{
    char *all = malloc ((size_t) job->world_size);
    if (!all)
        return job->helpers->fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    lock ();
    comm->is_nccl_busy = true;
    comm_check (comm, nccl.CommInitRankConfig (&comm->nccl_comm, comm->size, *id, comm->rank, &config),
                "ncclCommInitRankConfig");
    unlock ();
    enum accel_status status = connect_together (comm, job, all, err);
    free (all);
    lock ();
    bool is_network = comm->is_network_error;
    const char *address = job->rank || (!is_network && comm->status != ACCEL_ERR_TIMEOUT) ? NULL : getenv (ADDRESS);
    if (comm->status)
        status = job->helpers->fail (err, comm->status, "accel_open: engine nccl: %s%s%.60s%s%s", comm->why,
                                     address ? " (" ADDRESS " is " : "", address ? address : "",
                                     address && is_network ? ": it must be a free port of this host" : "",
                                     address ? ")" : "");
    else if (status)
        comm_fail (comm, status, "the job was not opened"); /* so that closing it does not wait */
    unlock ();
    return status;
}

static void
destroy (struct communicator *comm)
{
    lock ();
    comm_destroy (comm);
    unlock ();
    progress_thread_end ();
}

static enum accel_status
engine_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    ncclUniqueId id;
    DEVICE_GUARD;
    *transport = NULL;
    enum accel_status status = meet (job, &id, err);
    if (status)
        return status;
    struct communicator *comm;
    lock ();
    status = comm_create (&comm, job->helpers, job->rank, job->timeout_ms, err);
    unlock ();
    if (comm)
        comm->size = job->world_size;
    if (comm)
        status = connect_ranks (comm, job, &id, err);
    if (status && comm)
        destroy (comm);
    else
        *transport = comm;
    return status;
}

/* NCCL still writes where the communicator will be. */
static void
await_connection (struct communicator *comm)
{
    if (comm->parent)
        comm_await_nccl (comm->parent, CLOSE_MS);
    if (comm->parent)
        comm_fail (comm->parent, ACCEL_ERR_PEER, "a group was closed while NCCL was making it");
}

/* Also groups that were made and never joined. */
static void
engine_close (void *transport)
{
    struct communicator *comm = transport;
    DEVICE_GUARD;
    lock ();
    for (struct communicator *child = engine.comms, *next; child; child = next) {
        next = child->next;
        if (child->origin == comm && !child->is_joined) {
            await_connection (child);
            comm_destroy (child);
        }
    }
    await_connection (comm);
    unlock ();
    destroy (comm);
}

/* ---- groups ---- */

/* The rank that leads it; of those that are made together, each has another. */
static enum accel_status
engine_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    const struct communicator *comm = transport;
    (void) size, (void) err;
    *group_id = comm->rank;
    return ACCEL_OK;
}

static enum accel_status
engine_split (void *transport, int64_t group_id, int rank, struct accel_error *err)
{
    struct communicator *comm = transport, *child = NULL;
    enum accel_status status = ACCEL_OK;
    DEVICE_GUARD;
    lock ();
    if (group_id >= 0)
        status = comm_create (&child, comm->helpers, rank, comm->timeout_ms, err);
    struct operation *operation = status ? NULL : operation_create (comm, NULL);
    if (operation) {
        operation->child = child;
        operation->color = group_id < 0 ? NCCL_SPLIT_NOCOLOR : (int) group_id;
        operation->key = rank;
    }
    if (child) {
        child->origin = child->parent = comm;
        child->group_id = group_id;
    }
    if (!comm_progress (comm))
        progress_thread_wake ();
    if (!operation && child)
        comm_destroy (child);
    if (comm->status)
        status = fail_as_comm (comm, err);
    unlock ();
    return status;
}

static enum accel_status
engine_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                   struct accel_error *err)
{
    const struct communicator *parent = transport;
    (void) ranks, (void) rank;
    lock ();
    struct communicator *comm = engine.comms;
    while (comm && (comm->origin != parent || comm->is_joined || comm->group_id != group_id))
        comm = comm->next;
    if (comm) {
        comm->is_joined = true;
        comm->size = size;
    }
    unlock ();
    *group = comm;
    return comm ? ACCEL_OK : parent->helpers->fail (err, ACCEL_ERR_INVALID, "engine nccl: split() was not called");

}

/* ---- memory ---- */

static cudaError_t
clear (void *memory, size_t bytes)
{
    cudaStream_t legacy = (cudaStream_t) (uintptr_t) 1; /* the default stream */
    cudaError_t error = cudaMemsetAsync (memory, 0, bytes, legacy);
    return error ? error : cudaStreamSynchronize (legacy);
}

static void
give_back (const struct buffer *buffer)
{
    if (buffer->is_from_nccl) {
        cudaDeviceSynchronize (); /* as cudaFree() does */
        nccl.MemFree (buffer->memory);
    } else
        cudaFree (buffer->memory);
}

/* In whole words, as the kernels of libaccel like it.  NCCL may decline to register; then it copies. */
static enum accel_status
engine_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err)
{
    struct communicator *comm = transport;
    size_t whole = bytes / 16 * 16 + 16;
    struct buffer *buffer = whole < bytes ? NULL : calloc (1, sizeof *buffer);
    DEVICE_GUARD;
    *memory = NULL;
    if (!buffer)
        return comm->helpers->fail (err, ACCEL_ERR_NOMEM, "accel_alloc: out of memory");
    buffer->is_from_nccl = nccl.MemAlloc && !nccl.MemAlloc (&buffer->memory, whole);
    cudaError_t error = buffer->is_from_nccl ? cudaSuccess : cudaMalloc (&buffer->memory, whole);
    if (!error) {
        error = clear (buffer->memory, whole);
        if (error)
            give_back (buffer);
    }
    if (error) {
        free (buffer);
        return comm->helpers->fail (err, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                                    "accel_alloc: cannot allocate %zu bytes on cuda:%d: %s%s%s", bytes, engine.gpu,
                                    cudaGetErrorString (error), OWN_WORDS);
    }
    lock ();
    if (nccl.CommRegister && comm_await_nccl (comm, CLOSE_MS)
        && nccl.CommRegister (comm->nccl_comm, buffer->memory, whole, &buffer->handle))
        buffer->handle = NULL;
    buffer->next = comm->buffers;
    comm->buffers = buffer;
    unlock ();
    *memory = buffer->memory;
    return ACCEL_OK;
}

/* Of which any may use the memory that goes away; with the lock, which it lets go.  Those of ranks that are gone never
 * end, which others find out. */
static void
await_operations (struct communicator *comm)
{
    int64_t end = now_ms () + CLOSE_MS;
    for (int turn = 0; find_oldest (comm) && now_ms () < end; turn++)
        let_others (turn);
}

static void
engine_free (void *transport, void *memory)
{
    struct communicator *comm = transport;
    struct buffer **at = &comm->buffers;
    DEVICE_GUARD;
    lock ();
    await_operations (comm);
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    struct buffer *buffer = *at;
    if (buffer) {
        *at = buffer->next;
        if (buffer->handle && comm_await_nccl (comm, CLOSE_MS))
            nccl.CommDeregister (comm->nccl_comm, buffer->handle);
    }
    unlock ();
    if (buffer)
        give_back (buffer);
    free (buffer);
}

static void
engine_set_timeout (void *transport, uint32_t timeout_ms)
{
    struct communicator *comm = transport;
    comm->timeout_ms = timeout_ms;
}

ACCEL_API const struct accel_engine accel_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "nccl",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT) & ~ACCEL_ENGINE_BIT (ACCEL_ENGINE_BARRIER),
#define X(name, type) | ACCEL_ENGINE_BIT (ACCEL_##name)
    .reduces = 0 REDUCED_TYPES (X),
#undef X
    .devices = ACCEL_ENGINE_BIT (kDLCUDA),
    .flags = ACCEL_ENGINE_MULTI_HOST | ACCEL_ENGINE_ASYNC_PROGRESS,
    .probe = engine_probe,
    .open = engine_open,
    .close = engine_close,
    .give_up = engine_give_up,
    .alloc = engine_alloc,
    .free = engine_free,
    .make_group = engine_make_group,
    .join_group = engine_join_group,
    .run = engine_run,
    .awaits = engine_awaits,
    .start = engine_start,
    .test = engine_test,
    .wait = engine_wait,
    .coalesce_begin = engine_coalesce_begin,
    .coalesce_end = engine_coalesce_end,
    .split = engine_split,
    .order = engine_order,
    .set_timeout = engine_set_timeout,
};
