/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of NCCL, for processes of one machine, on the stand-in for the CUDA runtime.  As strict as NCCL's
 * documentation allows: a call on a communicator that does not block puts its work on the stream some time later, and
 * nothing else may be done with that communicator before.  STANDIN_FAIL=NAME:N[:RESULT] lets the N-th call of a
 * function fail, STANDIN_DIE=RANK:NAME:N ends that rank there, with STANDIN_NO_SPLIT a split never ends, and
 * STANDIN_NCCL_VERSION is what ncclGetVersion() says. */
#include <config.h>

#include "tests/standin/nccl_standin.h"

#include <execinfo.h>
#include <signal.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__ ((visibility ("default")))
enum { LATE_POLLS = 3, MEET_S = 30 };

pthread_mutex_t nccl_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t random_state;
static _Thread_local struct nccl_batch *group; /* between GroupStart and GroupEnd */
static _Thread_local unsigned group_depth;
static _Thread_local bool group_is_bad;
static char words[NCCL_WORDS]; /* of the process */
static unsigned long batches;

unsigned
nccl_random (unsigned below)
{
    const char *seed = getenv ("STANDIN_SEED");
    if (!random_state)
        random_state = (seed ? strtoull (seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15 + 1;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned) ((random_state >> 16) % below);
}

void
nccl_note (struct site *site)
{
    site->depth = backtrace (site->at, SITE_DEPTH);
}

/* STANDIN_DIE=RANK:NAME:N */
static void
die_if_asked (const char *name)
{
    static unsigned long calls;
    const char *plan = getenv ("STANDIN_DIE"), *rank = getenv ("RANK");
    size_t rank_length = rank ? strlen (rank) : 0, length = strlen (name);
    if (!plan || !rank || strncmp (plan, rank, rank_length) || plan[rank_length] != ':')
        return;
    plan += rank_length + 1;
    if (!strncmp (plan, name, length) && plan[length] == ':'
        && __atomic_add_fetch (&calls, 1, __ATOMIC_RELAXED) == strtoul (plan + length + 1, NULL, 10))
        raise (SIGKILL);
}

/* Returns from the calling function if it is to fail; takes the lock. */
#define BEGIN(name)                                                    \
    do {                                                               \
        die_if_asked (name);                                           \
        ncclResult_t result_ = (ncclResult_t) standin_injected (name); \
        if (result_)                                                   \
            return result_;                                            \
        pthread_mutex_lock (&nccl_lock);                               \
    } while (0)
#define END(result)                        \
    do {                                   \
        ncclResult_t result_ = (result);   \
        pthread_mutex_unlock (&nccl_lock); \
        return result_;                    \
    } while (0)

/* @param idle  whether nothing may be under way */
static void
check (const struct ncclComm *comm, const char *name, bool idle)
{
    int device;
    if (!comm)
        standin_report (NULL, NULL, "%s: the communicator is NULL", name);
    if (comm->gone)
        standin_report (&comm->made, &comm->ended, "%s: the communicator was destroyed; made and destroyed at", name);
    if (comm->is_unborn)
        standin_report (&comm->made, NULL, "%s: ncclCommSplit() is still making the communicator, since", name);
    if (idle && comm->state == ncclInProgress)
        standin_report (&comm->begun, NULL, "%s on a communicator on which something else is in progress, begun at",
                        name);
    if (idle && comm->finalized)
        standin_report (&comm->ended, NULL, "%s on a communicator that was finalized at", name);
    standin_device (&device, NULL, 0);
    if (idle && device != comm->device)
        standin_report (&comm->made, NULL, "%s on device %d, but the communicator is of device %d; made at", name,
                        device, comm->device);
}

/* ---- small ones ---- */

/* For tests: what NCCL would have launched; calls of a group are one. */
API unsigned long standin_nccl_batches (void);
API unsigned long
standin_nccl_batches (void)
{
    pthread_mutex_lock (&nccl_lock);
    unsigned long count = batches;
    pthread_mutex_unlock (&nccl_lock);
    return count;
}

API ncclResult_t
ncclGetVersion (int *version)
{
    const char *given = getenv ("STANDIN_NCCL_VERSION");
    *version = given ? (int) strtol (given, NULL, 10) : NCCL_VERSION_CODE;
    return (ncclResult_t) standin_injected ("ncclGetVersion");
}

API const char *
ncclGetErrorString (ncclResult_t result)
{
    switch ((int) result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

API const char *
ncclGetLastError (ncclComm_t comm)
{
    return comm ? comm->words : words;
}

/* ---- meeting ---- */

API ncclResult_t
ncclGetUniqueId (ncclUniqueId *id)
{
    BEGIN ("ncclGetUniqueId");
    const char *given = getenv ("NCCL_COMM_ID");
    struct sockaddr_in address;
    memset (id, 0, sizeof *id);
    if (given) {
        snprintf (id->internal, sizeof id->internal, "@%s", given);
        END (nccl_parse_address (given, &address) ? ncclSuccess : ncclInvalidArgument);
    }
    int fd = nccl_offer ();
    snprintf (id->internal, sizeof id->internal, "%d %d", nccl_self (), fd);
    END (fd < 0 ? ncclSystemError : ncclSuccess);
}

/* The first collective connects the ranks, which takes all of them. */
static bool
connects (struct ncclComm *comm)
{
    if (comm->is_connected || comm->late->calls[0].asked.kind >= NCCL_SEND)
        return true;
    for (int rank = 0; rank < comm->count; rank++)
        if (!atomic_load (&comm->shared->members[rank].connects))
            return false;
    comm->is_connected = true;
    return true;
}

/* Advance what is under way. */
static void
move_on (struct ncclComm *comm)
{
    if (comm->state != ncclInProgress)
        return;
    if (comm->is_meeting)
        nccl_meet (comm);
    else if (comm->is_splitting) {
        if (!getenv ("STANDIN_NO_SPLIT"))
            nccl_split (comm);
    } else if (comm->polls)
        comm->polls--;
    else if (comm->late) {
        if (!connects (comm))
            return;
        const struct nccl_call first = comm->late->calls[0]; /* which may soon be gone */
        comm->in_flight++;
        nccl_launch (comm->late);
        standin_poll ("NCCL", first.stream, nccl_move, comm->late, comm->late->issued_ns);
        nccl_launched (comm, &first, first.stream);
        comm->late = NULL;
        comm->state = ncclSuccess;
    } else
        comm->state = ncclSuccess;
}

/* With the lock, of a communicator that blocks. */
static ncclResult_t
wait_for (struct ncclComm *comm)
{
    time_t end = time (NULL) + MEET_S;
    while (comm->state == ncclInProgress && time (NULL) < end) {
        move_on (comm);
        pthread_mutex_unlock (&nccl_lock);
        usleep (100);
        pthread_mutex_lock (&nccl_lock);
    }
    return comm->state == ncclInProgress ? ncclSystemError : comm->state;
}

static bool
is_good (const ncclConfig_t *config)
{
    return !config || (config->magic == 0xcafebeef && config->size >= 16 && config->size <= 1024);
}

/* At the address of NCCL_COMM_ID, which is rank 0's. */
static bool
find_at (const char *address, int count, int rank, int *pid, int *fd)
{
    if (rank)
        return nccl_ask (address, pid, fd);
    *pid = nccl_self ();
    *fd = nccl_offer ();
    return *fd >= 0 && nccl_listen (address, *fd, count);
}

API ncclResult_t
ncclCommInitRankConfig (ncclComm_t *comm, int count, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    int pid, fd;
    BEGIN ("ncclCommInitRankConfig");
    bool good = is_good (config) && count > 0 && count <= NCCL_RANKS && rank >= 0 && rank < count
                && (*id.internal == '@' || sscanf (id.internal, "%d %d", &pid, &fd) == 2);
    if (good && *id.internal == '@')
        good = find_at (id.internal + 1, count, rank, &pid, &fd);
    struct nccl_shared *shared = good ? nccl_attach (pid, fd) : NULL;
    if (!shared) {
        bool is_lost = good || *id.internal == '@';
        snprintf (words, sizeof words, "%s", is_lost ? "nobody answers at the unique id" : "a bad argument");
        END (is_lost ? ncclSystemError : ncclInvalidArgument);
    }
    bool blocking = !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking;
    *comm = nccl_comm_make (shared, fd, rank, count, blocking);
    nccl_note (&(*comm)->begun);
    END (blocking ? wait_for (*comm) : ncclInProgress);
}

API ncclResult_t
ncclCommSplit (ncclComm_t comm, int colour, int key, ncclComm_t *child, ncclConfig_t *config)
{
    BEGIN ("ncclCommSplit");
    check (comm, "ncclCommSplit", true);
    if (!is_good (config))
        END (ncclInvalidArgument);
    *child = NULL;
    comm->child = child;
    comm->colour = colour;
    comm->key = key;
    comm->is_splitting = true;
    comm->state = ncclInProgress;
    nccl_note (&comm->begun);
    END (comm->blocking ? wait_for (comm) : ncclInProgress);
}

API ncclResult_t
ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *error)
{
    die_if_asked ("ncclCommGetAsyncError");
    *error = (ncclResult_t) standin_injected ("ncclCommGetAsyncError");
    if (*error)
        return ncclSuccess;
    pthread_mutex_lock (&nccl_lock);
    check (comm, "ncclCommGetAsyncError", false);
    move_on (comm);
    *error = comm->state;
    END (ncclSuccess);
}

/* ---- ends ---- */

static void
end (struct ncclComm *comm)
{
    for (int i = 0; !comm->aborted && i < NCCL_BUFFERS; i++)
        if (comm->buffers[i].memory)
            standin_report (&comm->made, NULL, "a communicator ends with a registered buffer; made at");
    free (comm->late);
    comm->late = NULL;
    comm->gone = true;
    nccl_note (&comm->ended);
}

API ncclResult_t
ncclCommFinalize (ncclComm_t comm)
{
    BEGIN ("ncclCommFinalize");
    check (comm, "ncclCommFinalize", true);
    comm->finalized = true;
    comm->state = comm->blocking ? ncclSuccess : ncclInProgress;
    comm->polls = LATE_POLLS;
    nccl_note (&comm->ended);
    END (comm->state);
}

API ncclResult_t
ncclCommDestroy (ncclComm_t comm)
{
    BEGIN ("ncclCommDestroy");
    check (comm, "ncclCommDestroy", false);
    if (comm->in_flight || comm->state == ncclInProgress)
        standin_report (&comm->begun, NULL, "ncclCommDestroy of a communicator that is at work, since");
    end (comm);
    END (ncclSuccess);
}

/* What is on streams ends when it is its turn. */
API ncclResult_t
ncclCommAbort (ncclComm_t comm)
{
    BEGIN ("ncclCommAbort");
    check (comm, "ncclCommAbort", false);
    comm->aborted = true;
    if (comm->newborn)
        comm->newborn->is_unborn = false;
    comm->newborn = NULL;
    end (comm);
    END (ncclSuccess);
}

/* ---- memory ---- */

API ncclResult_t
ncclMemAlloc (void **memory, size_t bytes)
{
    ncclResult_t result = (ncclResult_t) standin_injected ("ncclMemAlloc");
    return result ? result : cudaMalloc (memory, bytes) ? ncclUnhandledCudaError : ncclSuccess;
}

API ncclResult_t
ncclMemFree (void *memory)
{
    ncclResult_t result = (ncclResult_t) standin_injected ("ncclMemFree");
    return result ? result : cudaFree (memory) ? ncclUnhandledCudaError : ncclSuccess;
}

API ncclResult_t
ncclCommRegister (const ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
    BEGIN ("ncclCommRegister");
    check (comm, "ncclCommRegister", true);
    for (int i = 0; i < NCCL_BUFFERS; i++)
        if (!comm->buffers[i].memory) {
            comm->buffers[i].memory = buffer;
            comm->buffers[i].bytes = bytes;
            *handle = &comm->buffers[i];
            END (ncclSuccess);
        }
    END (ncclInternalError);
}

API ncclResult_t
ncclCommDeregister (const ncclComm_t comm, void *handle)
{
    BEGIN ("ncclCommDeregister");
    check (comm, "ncclCommDeregister", true);
    for (int i = 0; i < NCCL_BUFFERS; i++)
        if (handle == &comm->buffers[i] && comm->buffers[i].memory) {
            comm->buffers[i].memory = NULL;
            END (ncclSuccess);
        }
    standin_report (&comm->made, NULL, "ncclCommDeregister of what is not registered; communicator made at");
}

/* ---- groups ---- */

API ncclResult_t
ncclGroupStart (void)
{
    ncclResult_t result = (ncclResult_t) standin_injected ("ncclGroupStart");
    if (!result)
        group_depth++;
    return result;
}

/* With the lock.  Some of those that do not block are at once on the stream. */
static ncclResult_t
put (struct nccl_batch *batch)
{
    struct ncclComm *comm = batch->calls[0].comm;
    batches++;
    standin_launch ();
    batch->issued_ns = comm->blocking ? standin_host_ns (0) : 0; /* others are late only here */
    comm->late = batch;
    comm->polls = nccl_random (LATE_POLLS);
    comm->state = ncclInProgress;
    nccl_note (&comm->begun);
    if (batch->calls[0].asked.kind < NCCL_SEND)
        atomic_store (&comm->shared->members[comm->rank].connects, 1);
    if (comm->blocking)
        return wait_for (comm);
    if (!comm->polls)
        move_on (comm);
    return comm->state;
}

API ncclResult_t
ncclGroupEnd (void)
{
    if (!group_depth)
        standin_report (NULL, NULL, "ncclGroupEnd() without ncclGroupStart()");
    if (--group_depth)
        return ncclSuccess;
    struct nccl_batch *batch = group;
    bool bad = group_is_bad;
    group = NULL;
    group_is_bad = false;
    ncclResult_t result = (ncclResult_t) standin_injected ("ncclGroupEnd");
    die_if_asked ("ncclGroupEnd");
    if (result || bad || !batch) {
        free (batch);
        return result ? result : bad ? ncclInvalidArgument : ncclSuccess;
    }
    pthread_mutex_lock (&nccl_lock);
    END (put (batch));
}

/* ---- what moves data ---- */

static void
take_turn (struct nccl_call *call)
{
    struct ncclComm *comm = call->comm;
    int root = call->asked.root;
    call->turn = call->asked.kind == NCCL_SEND   ? comm->sends[root]++
                 : call->asked.kind == NCCL_RECV ? comm->recvs[root]++
                                                 : comm->turns++;
}

static bool
is_valid (const struct nccl_call *call)
{
    const struct nccl_asked *asked = &call->asked;
    bool rooted = asked->kind == NCCL_BROADCAST || asked->kind == NCCL_REDUCE || asked->kind >= NCCL_SEND;
    return nccl_width ((ncclDataType_t) asked->type) && asked->op < ncclNumOps
           && (!rooted || (asked->root >= 0 && asked->root < call->comm->count))
           && !(asked->kind >= NCCL_SEND && asked->root == call->comm->rank);
}

static bool
overlap (const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const char *from = a, *other = b;
    return a && b && from < other + b_bytes && other < from + a_bytes;
}

/* Calls of a group have no order, so that none may write what another one uses. */
static void
check_apart (const struct nccl_batch *batch, const struct nccl_call *call)
{
    for (unsigned i = 0; i < batch->count; i++) {
        const struct nccl_call *other = &batch->calls[i];
        if (overlap (call->written, nccl_writes (call), other->written, nccl_writes (other))
            || overlap (call->written, nccl_writes (call), other->read, nccl_reads (other))
            || overlap (call->read, nccl_reads (call), other->written, nccl_writes (other)))
            standin_report (&other->site, &call->site,
                            "%s and %s of one group use the same memory, one of them writing", other->name, call->name);
    }
}

/* Where the data is, and that no other call uses it. */
static void
aim (struct nccl_call *call, const void *send, void *recv)
{
    size_t reads = nccl_reads (call), writes = nccl_writes (call);
    size_t row = call->asked.count * nccl_width ((ncclDataType_t) call->asked.type);
    size_t whole = call->asked.kind == NCCL_REDUCE_SCATTER ? reads : row;
    call->read = reads ? send : NULL;
    call->written = writes ? recv : NULL;
    call->send = reads ? standin_range (call->name, send, reads, false, call->stream) : NULL;
    call->recv = writes ? standin_range (call->name, recv, writes, true, call->stream) : NULL;
    call->pieces = (whole + NCCL_CHUNK - 1) / NCCL_CHUNK;
}

static ncclResult_t
add (struct ncclComm *comm, const char *name, struct nccl_asked asked, const void *send, void *recv,
     cudaStream_t stream)
{
    struct nccl_call call = { .comm = comm, .name = name, .asked = asked, .stream = stream };
    check (comm, name, true);
    nccl_note (&call.site);
    if (!is_valid (&call)) {
        group_is_bad = group_depth;
        return ncclInvalidArgument;
    }
    if (!asked.count)
        return ncclSuccess;
    if (group && (group->calls[0].comm != comm || group->stream != stream))
        standin_report (&call.site, NULL, "%s: the stand-in has groups of one communicator and stream only", name);
    if (!group && !(group = calloc (1, sizeof *group)))
        abort ();
    if (group->count == NCCL_GROUP)
        standin_report (&call.site, NULL, "%s: the stand-in has groups of %d calls at most", name, NCCL_GROUP);
    aim (&call, send, recv);
    check_apart (group, &call);
    take_turn (&call);
    group->stream = stream;
    group->calls[group->count++] = call;
    if (group_depth)
        return ncclSuccess;
    struct nccl_batch *batch = group;
    group = NULL;
    return put (batch);
}

#define ASKED(kind, op, root) \
    ((struct nccl_asked){ count, NCCL_##kind, (int32_t) type, (int32_t) (op), (int32_t) (root) })

API ncclResult_t
ncclAllReduce (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream)
{
    BEGIN ("ncclAllReduce");
    END (add (comm, "ncclAllReduce", ASKED (ALL_REDUCE, op, -1), from, to, stream));
}

API ncclResult_t
ncclBroadcast (const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream)
{
    BEGIN ("ncclBroadcast");
    END (add (comm, "ncclBroadcast", ASKED (BROADCAST, -1, root), from, to, stream));
}

API ncclResult_t
ncclReduce (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
            cudaStream_t stream)
{
    BEGIN ("ncclReduce");
    END (add (comm, "ncclReduce", ASKED (REDUCE, op, root), from, to, stream));
}

API ncclResult_t
ncclAllGather (const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    BEGIN ("ncclAllGather");
    END (add (comm, "ncclAllGather", ASKED (ALL_GATHER, -1, -1), from, to, stream));
}

API ncclResult_t
ncclReduceScatter (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream)
{
    BEGIN ("ncclReduceScatter");
    END (add (comm, "ncclReduceScatter", ASKED (REDUCE_SCATTER, op, -1), from, to, stream));
}

API ncclResult_t
ncclSend (const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    BEGIN ("ncclSend");
    END (add (comm, "ncclSend", ASKED (SEND, -1, peer), from, NULL, stream));
}

API ncclResult_t
ncclRecv (void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    BEGIN ("ncclRecv");
    END (add (comm, "ncclRecv", ASKED (RECV, -1, peer), NULL, to, stream));
}
