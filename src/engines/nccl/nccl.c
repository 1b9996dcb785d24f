/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "nccl": collectives of tensors on NVIDIA GPUs, one for each rank.  The table of functions. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { YIELDS = 50, PAUSE_US = 20, PAUSE_MOST_US = 500, AWAY_MS = 1000, ROUND_MS = 100 };

static void
lock (void)
{
    pthread_mutex_lock (&nccl_mutex);
}

static void
unlock (void)
{
    pthread_mutex_unlock (&nccl_mutex);
}

/* ---- calls ---- */

/* The oldest that is not over: the one that the others are waiting for. */
static struct flight *
find_oldest (const struct team *team)
{
    struct flight *flight = team->flights;
    while (flight && (!flight->call || flight_is_over (flight)))
        flight = flight->next;
    return flight;
}

/* libaccel's verdict, when it is time for one; without the lock. */
static enum accel_status
judge (struct flight *flight, const struct accel_engine_call *call, struct accel_error *why)
{
    int64_t now = now_ms ();
    if (!flight->since_ms)
        flight->since_ms = flight->looked_ms = now;
    int64_t pause = now - flight->looked_ms;
    if (pause < SLICE_MS)
        return ACCEL_OK;
    flight->looked_ms = now;
    if (pause > AWAY_MS) /* the program was computing between two tests */
        flight->since_ms += pause;
    enum accel_status status = call->helpers->look (call->helpers->context, call, why);
    if (!status && now - flight->since_ms >= flight->team->timeout_ms)
        status = call->helpers->time_is_out (call->helpers->context, call, why);
    return status;
}

/* What is done on the GPU may be through for all that, as other ranks have left. */
static bool
ends_all_the_same (struct flight *flight)
{
    int64_t end = now_ms () + GRACE_MS;
    while (!flight_is_over (flight)) {
        if (now_ms () >= end)
            return false;
        unlock ();
        usleep (PAUSE_MOST_US);
        lock ();
    }
    return true;
}

/* With the lock, which it lets go.  @return whether @flight is over */
static bool
advance (struct team *team, struct flight *flight)
{
    struct accel_error why;
    if (flight_is_over (flight))
        return true;
    struct flight *oldest = find_oldest (team);
    const struct accel_engine_call *call = oldest ? oldest->call : flight->call;
    unlock ();
    enum accel_status status = judge (flight, call, &why);
    lock ();
    if (status && !ends_all_the_same (flight))
        team_fail (team, status, "%s", why.text);
    return flight_is_over (flight);
}

static enum accel_status
fail_as_team (const struct team *team, struct accel_error *err)
{
    return team->helpers->fail (err, team->status, "%s", team->why);
}

/* An error of the network's comes before libaccel knows which process is gone. */
static enum accel_status
blame (const struct team *team, const struct accel_engine_call *call, struct accel_error *err)
{
    int64_t end = now_ms () + BLAME_MS;
    enum accel_status status = ACCEL_OK;
    while (team->is_of_network && !status && now_ms () < end) {
        status = call->helpers->look (call->helpers->context, call, err);
        usleep (SLICE_MS * 1000 / 5);
    }
    return status ? status : fail_as_team (team, err);
}

static enum accel_status
engine_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    struct team *team = transport;
    if (call->device.device_id != gpu_device ())
        return call->helpers->fail (err, ACCEL_ERR_INVALID,
                                    "the tensor is on cuda:%d, but the GPU of this rank is cuda:%d, the one that "
                                    "accel_device() returns",
                                    (int) call->device.device_id, gpu_device ());
    VISIT;
    lock ();
    struct flight *flight = flight_create (team, call);
    if (flight && !team_check_cuda (team, cudaEventRecord (flight->ready, (cudaStream_t) call->stream),
                                    "cudaEventRecord")) {
        flight_destroy (flight);
        flight = NULL;
    }
    if (flight && !team_pump (team))
        carrier_call ();
    enum accel_status status = flight ? ACCEL_OK : fail_as_team (team, err);
    bool is_of_network = team->is_of_network;
    unlock ();
    *work = flight;
    return status && is_of_network ? blame (team, call, err) : status;
}

static bool
engine_test (void *transport, void *work)
{
    VISIT;
    lock ();
    bool over = advance (transport, work);
    unlock ();
    return over;
}

static enum accel_status
engine_wait (void *transport, void *work, struct accel_error *err)
{
    struct team *team = transport;
    struct flight *flight = work;
    const struct accel_engine_call *call = flight->call;
    unsigned turns = 0, pause = PAUSE_US;
    VISIT;
    lock ();
    while (!advance (team, flight)) {
        unlock ();
        if (turns++ < YIELDS)
            sched_yield ();
        else
            usleep (pause);
        pause = pause * 2 < PAUSE_MOST_US ? pause + pause / 4 : PAUSE_MOST_US;
        lock ();
    }
    enum accel_status status = team->status;
    flight_destroy (flight);
    unlock ();
    return status ? blame (team, call, err) : ACCEL_OK;
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
    struct team *team = transport;
    VISIT;
    lock ();
    bool waits = rank != team->rank && (team->is_of_network || find_oldest (team));
    unlock ();
    return waits;
}

static void
engine_give_up (void *transport, const char *reason)
{
    VISIT;
    lock ();
    team_fail (transport, ACCEL_ERR_PEER, "this process gave up: %s", reason);
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
    char boot[64] = "";
    uint64_t hash = UINT64_C (0xcbf29ce484222325);
    FILE *file = fopen ("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets (boot, sizeof boot, file))
        *boot = '\0';
    if (file)
        fclose (file);
    for (const char *c = boot; *c; c++)
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
    struct hello own = { .host = 0 };
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
connect_together (struct team *team, const struct accel_engine_job *job, char *all, struct accel_error *err)
{
    int64_t end = now_ms () + job->timeout_ms;
    bool goes_on = true;
    while (goes_on) {
        lock ();
        bool connected = team_settle (team, ROUND_MS);
        if (!connected && now_ms () >= end)
            team_fail (team, ACCEL_ERR_TIMEOUT, "timed out after %u ms while NCCL was connecting the ranks",
                       (unsigned) job->timeout_ms);
        char mine = connected ? CONNECTED : team->status ? FAILED : CONNECTS;
        unlock ();
        enum accel_status status = ACCEL_OK;
        if (job->world_size > 1)
            status = job->helpers->exchange (job->helpers->context, &mine, all, 1, err);
        else
            *all = mine;
        if (status)
            return status;
        goes_on = false;
        for (int rank = 0; rank < job->world_size && !team->status; rank++) {
            if (all[rank] == FAILED)
                return job->helpers->fail (err, ACCEL_ERR_PEER, "accel_open: NCCL does not start on rank %d", rank);
            goes_on = goes_on || all[rank] == CONNECTS;
        }
    }
    return ACCEL_OK;
}

static enum accel_status
connect_ranks (struct team *team, const struct accel_engine_job *job, const ncclUniqueId *id, struct accel_error *err)
{
    char *all = calloc ((size_t) job->world_size, 1);
    if (!all)
        return job->helpers->fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    lock ();
    team->is_settling = true;
    team_check (team, nccl.CommInitRankConfig (&team->comm, team->size, *id, team->rank, &config),
                "ncclCommInitRankConfig");
    unlock ();
    enum accel_status status = connect_together (team, job, all, err);
    free (all);
    lock ();
    bool is_network = team->is_of_network;
    const char *address = job->rank || (!is_network && team->status != ACCEL_ERR_TIMEOUT) ? NULL : getenv (ADDRESS);
    if (team->status)
        status = job->helpers->fail (err, team->status, "accel_open: engine nccl: %s%s%.60s%s%s", team->why,
                                     address ? " (" ADDRESS " is " : "", address ? address : "",
                                     address && is_network ? ": it must be a free port of this host" : "",
                                     address ? ")" : "");
    else if (status)
        team_fail (team, status, "the job was not opened"); /* so that closing it does not wait */
    unlock ();
    return status;
}

static void
destroy (struct team *team)
{
    lock ();
    team_destroy (team);
    unlock ();
    carrier_end ();
}

static enum accel_status
engine_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    ncclUniqueId id;
    VISIT;
    *transport = NULL;
    enum accel_status status = meet (job, &id, err);
    if (status)
        return status;
    struct team *team;
    lock ();
    status = team_create (&team, job->helpers, job->world_size, job->rank, job->timeout_ms, err);
    unlock ();
    if (!status)
        status = connect_ranks (team, job, &id, err);
    if (status && team)
        destroy (team);
    else
        *transport = team;
    return status;
}

/* NCCL still writes where the communicator will be. */
static void
await_birth (struct team *team)
{
    if (team->parent && !team_settle (team->parent, CLOSE_MS) && team->parent)
        team_fail (team->parent, ACCEL_ERR_PEER, "a group was closed while NCCL was making it");
}

/* Also groups that were made and never joined. */
static void
engine_close (void *transport)
{
    struct team *team = transport;
    VISIT;
    lock ();
    for (struct team *child = nccl_teams, *next; child; child = next) {
        next = child->next;
        if (child->origin == team && !child->is_joined) {
            await_birth (child);
            team_destroy (child);
        }
    }
    await_birth (team);
    unlock ();
    destroy (team);
}

/* ---- groups ---- */

/* The rank that leads it; of those that are made together, each has another. */
static enum accel_status
engine_make_group (void *transport, int size, int64_t *place, struct accel_error *err)
{
    const struct team *team = transport;
    (void) size, (void) err;
    *place = team->rank;
    return ACCEL_OK;
}

static enum accel_status
engine_split (void *transport, int64_t place, int rank, struct accel_error *err)
{
    struct team *team = transport, *child = NULL;
    enum accel_status status = ACCEL_OK;
    VISIT;
    lock ();
    if (place >= 0)
        status = team_create (&child, team->helpers, 0, rank, team->timeout_ms, err);
    struct flight *flight = status ? NULL : flight_create (team, NULL);
    if (flight) {
        flight->child = child;
        flight->colour = place < 0 ? NCCL_SPLIT_NOCOLOR : (int) place;
        flight->key = rank;
    }
    if (flight && child) {
        child->origin = child->parent = team;
        child->place = place;
    }
    if (!status && !flight) {
        status = fail_as_team (team, err);
        if (child)
            team_destroy (child);
    } else if (!status && !team_pump (team)) {
        carrier_call ();
    } else if (!status && team->status) {
        status = fail_as_team (team, err);
    }
    unlock ();
    return status;
}

static enum accel_status
engine_join_group (void *transport, const int *ranks, int size, int rank, int64_t place, void **group,
                   struct accel_error *err)
{
    const struct team *parent = transport;
    (void) ranks, (void) rank;
    lock ();
    struct team *team = nccl_teams;
    while (team && (team->origin != parent || team->is_joined || team->place != place))
        team = team->next;
    if (team) {
        team->is_joined = true;
        team->size = size;
    }
    unlock ();
    *group = team;
    return team ? ACCEL_OK : parent->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "engine nccl needs a newer libaccel");
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
    if (buffer->is_nccls) {
        cudaDeviceSynchronize (); /* as cudaFree() does */
        nccl.MemFree (buffer->memory);
    } else
        cudaFree (buffer->memory);
}

/* In whole words, as the kernels of libaccel like it.  NCCL may decline to register; then it copies. */
static enum accel_status
engine_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err)
{
    struct team *team = transport;
    size_t whole = bytes / 16 * 16 + 16;
    struct buffer *buffer = whole < bytes ? NULL : calloc (1, sizeof *buffer);
    VISIT;
    *memory = NULL;
    if (!buffer)
        return team->helpers->fail (err, ACCEL_ERR_NOMEM, "accel_alloc: out of memory");
    buffer->is_nccls = nccl.MemAlloc && !nccl.MemAlloc (&buffer->memory, whole);
    cudaError_t error = buffer->is_nccls ? cudaSuccess : cudaMalloc (&buffer->memory, whole);
    if (!error) {
        error = clear (buffer->memory, whole);
        if (error)
            give_back (buffer);
    }
    cudaGetLastError ();
    if (error) {
        free (buffer);
        return team->helpers->fail (err, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                                    "accel_alloc: cannot allocate %zu bytes on cuda:%d: %s", bytes, gpu_device (),
                                    cudaGetErrorString (error));
    }
    lock ();
    if (nccl.CommRegister && team_settle (team, CLOSE_MS)
        && nccl.CommRegister (team->comm, buffer->memory, whole, &buffer->handle))
        buffer->handle = NULL;
    buffer->next = team->buffers;
    team->buffers = buffer;
    unlock ();
    *memory = buffer->memory;
    return ACCEL_OK;
}

static void
engine_free (void *transport, void *memory)
{
    struct team *team = transport;
    struct buffer **at = &team->buffers;
    VISIT;
    lock ();
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    struct buffer *buffer = *at;
    if (buffer) {
        *at = buffer->next;
        if (buffer->handle && team->comm && team_settle (team, CLOSE_MS))
            nccl.CommDeregister (team->comm, buffer->handle);
    }
    unlock ();
    if (buffer)
        give_back (buffer);
    free (buffer);
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
    .flags = ACCEL_ENGINE_SEVERAL_HOSTS | ACCEL_ENGINE_ASYNC_PROGRESS,
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
    .split = engine_split,
};
