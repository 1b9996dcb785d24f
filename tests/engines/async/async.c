/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "async": the connections of pipes, with a start, test and wait of its own instead of a thread of libaccel.
 * What has been started moves on whenever this process is in any function here, whatever that one waits for.
 *
 * Between two ranks a call is a header from each, data, and after a message one byte from its receiver.  Calls follow
 * each other in each direction in the order of their starts; one may be far ahead of another. */
#include <accel/engine.h>

/* The symbol of the module is our table; that of pipes gets another name. */
extern const struct accel_engine accel_engine __asm__ ("pipes_engine");
extern const struct accel_engine async_engine __asm__ (ACCEL_ENGINE_SYMBOL);

#include "../pipes/pipes.c"

#include <pthread.h>
#include <stdatomic.h>

enum { HEADER = sizeof (struct header), POLLS = 64, PAUSE_MS = 1000 };

/* What one call still sends to a rank and gets from it; bytes that are done include the header. */
struct peer_transfer {
    const char *out;
    char *in;
    size_t out_bytes, in_bytes, out_done, in_done;
    size_t out_end, in_end; /* 0: that rank takes no part */
    struct header theirs;
    bool differs;
    char byte;
};

struct request {
    struct request *next;
    const struct accel_engine_call *call;
    struct header mine;
    char *rows; /* of a reduction, [size, count] */
    const void **sources; /* [size], the rows */
    bool over;
    enum accel_status status;
    struct accel_error error;
    struct peer_transfer peers[]; /* [size] */
};

struct async {
    struct async *next;
    struct pipes *pipes;
    struct request *first; /* in the order of starts */
    const struct request *oldest; /* that is not over, when it was looked at last */
    int64_t seen_ms, waited_ms, looked_ms;
    bool is_coalescing;
    atomic_bool gave_up;
    int groups, coalesced, started, most_coalesced, most_started; /* for tests */
};

/* Transports move together, so they have one lock.  give_up() does not take it: libaccel has locks of its own then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct async *all;

static bool
is_pair (const struct accel_engine_call *call)
{
    return call->kind == ACCEL_ENGINE_SEND || call->kind == ACCEL_ENGINE_RECV;
}

static struct request *
oldest_of (const struct async *async)
{
    struct request *request = async->first;
    while (request && request->over)
        request = request->next;
    return request;
}

static void
fail_all (struct async *async, enum accel_status status, const struct accel_error *err)
{
    for (struct request *request = async->first; request; request = request->next)
        if (!request->over)
            request->over = true, request->status = status, request->error = *err;
}

/* Send what this call still owes to rank @i.  @return whether that is nothing more */
static bool
push (struct async *async, struct request *request, int i, bool *moved)
{
    struct peer_transfer *peer = &request->peers[i];
    while (peer->out_done < peer->out_end) {
        bool is_data = peer->out_done >= HEADER;
        size_t done = is_data ? peer->out_done - HEADER : peer->out_done;
        size_t left = (is_data ? peer->out_bytes : HEADER) - done;
        const char *at = is_data ? peer->out : (const char *) &request->mine;
        if (!left && peer->in_done < peer->in_end)
            return false; /* what the last byte acknowledges has not arrived */
        ssize_t sent = send (async->pipes->peers[i].fd, left ? at + done : "", left ? left : 1, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        *moved = *moved || is_data;
        peer->out_done += (size_t) sent;
    }
    return true;
}

/* Of two ranks, one sends and the other receives. */
static bool
is_expected (const struct request *request, const struct header *theirs)
{
    struct header mine = request->mine;
    if (is_pair (request->call))
        mine.kind = mine.kind == ACCEL_ENGINE_SEND ? ACCEL_ENGINE_RECV : ACCEL_ENGINE_SEND;
    return !memcmp (&mine, theirs, sizeof mine);
}

/* The same of what it still gets from rank @i. */
static bool
pull (struct async *async, struct request *request, int i, bool *moved)
{
    struct peer_transfer *peer = &request->peers[i];
    while (peer->in_done < peer->in_end && !peer->differs) {
        bool is_data = peer->in_done >= HEADER;
        size_t done = is_data ? peer->in_done - HEADER : peer->in_done;
        size_t left = (is_data ? peer->in_bytes : HEADER) - done;
        char *at = is_data ? peer->in : (char *) &peer->theirs;
        ssize_t got = recv (async->pipes->peers[i].fd, left ? at + done : &peer->byte, left ? left : 1, 0);
        if (got <= 0)
            return false;
        *moved = *moved || is_data;
        peer->in_done += (size_t) got;
        peer->differs = peer->in_done == HEADER && !is_expected (request, &peer->theirs);
    }
    return !peer->differs;
}

/* Whether the call has sent and got everything; if headers differ and look() would not say why, fail. */
static bool
is_complete (struct async *async, struct request *request)
{
    const struct accel_engine_helpers *helpers = request->call->helpers;
    struct accel_error err;
    bool complete = true;
    for (int i = 0; i < async->pipes->size && !request->over; i++) {
        const struct peer_transfer *peer = &request->peers[i];
        complete = complete && peer->out_done == peer->out_end && peer->in_done == peer->in_end && !peer->differs;
        if (peer->differs && !is_pair (request->call) && peer->theirs.kind < ACCEL_ENGINE_SEND
            && request == oldest_of (async))
            fail_all (async, helpers->mismatch (helpers->context, request->call, async->pipes->rank, i, &err), &err);
    }
    return complete && !request->over;
}

static void
complete (struct async *async, struct request *request)
{
    const struct accel_engine_call *call = request->call;
    if (request->rows)
        call->helpers->reduce (call->dtype, call->op, request->sources, async->pipes->size, call->recv, call->count);
    request->over = true;
}

/* @return whether data was moved; headers alone let no time begin anew. */
static bool
progress (struct async *async)
{
    static const struct accel_error gave_up = { .code = ACCEL_ERR_PEER, .text = "engine async: gave up" };
    bool moved = false;
    if (atomic_load (&async->gave_up))
        fail_all (async, ACCEL_ERR_PEER, &gave_up);
    for (int i = 0; i < async->pipes->size; i++) {
        bool goes = oldest_of (async) && i != async->pipes->rank && is_connected (async->pipes, i), comes = goes;
        for (struct request *request = async->first; request && (goes || comes); request = request->next) {
            comes = comes && pull (async, request, i, &moved);
            goes = goes && push (async, request, i, &moved);
        }
    }
    for (struct request *request = async->first; request; request = request->next)
        if (!request->over && is_complete (async, request))
            complete (async, request);
    return moved;
}

/* Find out why what is in flight will never end.  Time runs for the oldest call, and not while the program computes. */
static void
check_oldest (struct async *async, bool moved)
{
    struct request *oldest = oldest_of (async);
    struct accel_error err;
    int64_t now = now_ms (), passed = now - async->seen_ms;
    async->waited_ms += passed < PAUSE_MS ? passed : PAUSE_MS;
    if (oldest != async->oldest || moved)
        async->waited_ms = 0;
    async->seen_ms = now;
    async->oldest = oldest;
    if (!oldest || now < async->looked_ms + SLICE_MS)
        return;
    const struct accel_engine_helpers *helpers = oldest->call->helpers;
    async->looked_ms = now;
    enum accel_status status = helpers->look (helpers->context, oldest->call, &err);
    if (!status && async->waited_ms >= async->pipes->timeout_ms)
        status = helpers->timed_out (helpers->context, oldest->call, &err);
    if (status && !progress (async) && oldest == oldest_of (async))
        fail_all (async, status, &err);
}

/* With the lock. */
static void
progress_all (void)
{
    for (struct async *async = all; async; async = async->next)
        check_oldest (async, progress (async));
}

/* Sleep until something can be read; writing must wait for that, too, or for a moment. */
static void
back_off (void)
{
    struct pollfd polls[POLLS];
    nfds_t count = 0;
    int wait_ms = SLICE_MS;
    for (struct async *async = all; async; async = async->next)
        for (int i = 0; i < async->pipes->size && oldest_of (async); i++) {
            const struct peer_transfer *peer = &oldest_of (async)->peers[i];
            if (count == POLLS || (peer->out_end && !async->pipes->peers[i].connected)
                || peer->out_done < peer->out_end)
                wait_ms = SLICE_CONNECTING_MS;
            else if (peer->in_done < peer->in_end)
                polls[count++] = (struct pollfd){ async->pipes->peers[i].fd, POLLIN, 0 };
        }
    pthread_mutex_unlock (&lock);
    poll (polls, count, wait_ms);
    pthread_mutex_lock (&lock);
}

/* ---- the table ---- */

static void
set_transfer (struct async *async, struct request *request, int i, size_t row)
{
    const struct accel_engine_call *call = request->call;
    struct peer_transfer *peer = &request->peers[i];
    size_t at = (size_t) i * row, own = (size_t) async->pipes->rank * row;
    char *recv = call->recv;
    const char *send = call->send;
    switch ((int) call->kind) {
    case ACCEL_ENGINE_ALL_REDUCE: peer->out = send, peer->in = request->rows + at; break;
    case ACCEL_ENGINE_REDUCE_SCATTER: peer->out = send + at, peer->in = request->rows + at; break;
    case ACCEL_ENGINE_ALL_GATHER: peer->out = recv + own, peer->in = recv + at; break;
    case ACCEL_ENGINE_ALL_TO_ALL: peer->out = send + at, peer->in = recv + at; break;
    case ACCEL_ENGINE_BROADCAST:
        peer->out = call->root == async->pipes->rank ? recv : NULL;
        peer->in = call->root == i ? recv : NULL;
        break;
    case ACCEL_ENGINE_SEND: peer->out = send; break;
    case ACCEL_ENGINE_RECV: peer->in = recv; break;
    default: break;
    }
    peer->out_bytes = peer->out ? row : 0;
    peer->in_bytes = peer->in ? row : 0;
    peer->out_end = HEADER + peer->out_bytes + (call->kind == ACCEL_ENGINE_RECV);
    peer->in_end = HEADER + peer->in_bytes + (call->kind == ACCEL_ENGINE_SEND);
}

/* What this rank sends to itself. */
static void
copy_own (const struct async *async, struct request *request, size_t row)
{
    const struct accel_engine_call *call = request->call;
    size_t own = (size_t) async->pipes->rank * row;
    const char *send = call->send;
    if (!row)
        return;
    if (request->rows)
        memcpy (request->rows + own, call->kind == ACCEL_ENGINE_ALL_REDUCE ? send : send + own, row);
    if (call->kind == ACCEL_ENGINE_ALL_GATHER)
        memmove ((char *) call->recv + own, send, row);
    if (call->kind == ACCEL_ENGINE_ALL_TO_ALL)
        memcpy ((char *) call->recv + own, send + own, row);
}

static enum accel_status
async_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    struct async *async = transport;
    int size = async->pipes->size;
    size_t row = call->count * call->element_bytes;
    bool pair = is_pair (call);
    bool reduces = call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    if ((unsigned) call->kind >= ACCEL_ENGINE_KIND_COUNT)
        return call->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "engine async: unknown kind %d", (int) call->kind);
    struct request *request = calloc (1, sizeof *request + (size_t) size * sizeof *request->peers);
    char *rows = reduces ? malloc ((size_t) size * row + 1) : NULL;
    const void **sources = reduces ? calloc ((size_t) size, sizeof *sources) : NULL;
    if (!request || (reduces && (!rows || !sources))) {
        free (request), free (rows), free (sources);
        return call->helpers->fail (err, ACCEL_ERR_NOMEM, "engine async: no memory");
    }
    request->call = call, request->rows = rows, request->sources = sources;
    for (int i = 0; reduces && i < size; i++)
        sources[i] = rows + (size_t) i * row;
    request->mine = (struct header){ call->count, (int32_t) call->kind, pair ? 0 : call->root, (int16_t) call->dtype,
                                    pair ? 0 : (int16_t) call->op, pair ? 0 : call->public_call,
                                    pair ? 0 : call->form, call->number };
    copy_own (async, request, row);
    for (int i = 0; i < size; i++)
        if (i != async->pipes->rank && (!pair || i == call->root))
            set_transfer (async, request, i, row);
    pthread_mutex_lock (&lock);
    struct request **end = &async->first;
    while (*end)
        end = &(*end)->next;
    *end = request;
    async->started++;
    async->most_started = async->started > async->most_started ? async->started : async->most_started;
    async->coalesced += async->is_coalescing;
    if (!async->is_coalescing)
        progress_all ();
    pthread_mutex_unlock (&lock);
    *work = request;
    return ACCEL_OK;
}

static bool
async_test (void *transport, void *work)
{
    (void) transport;
    const struct request *request = work;
    pthread_mutex_lock (&lock);
    progress_all ();
    bool over = request->over;
    pthread_mutex_unlock (&lock);
    return over;
}

static enum accel_status
async_wait (void *transport, void *work, struct accel_error *err)
{
    struct async *async = transport;
    struct request *request = work, **at = &async->first;
    pthread_mutex_lock (&lock);
    for (progress_all (); !request->over; progress_all ())
        back_off ();
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    async->started--;
    pthread_mutex_unlock (&lock);
    enum accel_status status = request->status;
    if (status && err)
        *err = request->error;
    free (request->rows), free (request->sources), free (request);
    return status;
}

static enum accel_status
async_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    void *work;
    enum accel_status status = async_start (transport, call, &work, err);
    return status ? status : async_wait (transport, work, err);
}

static bool
async_awaits (void *transport, int rank)
{
    const struct request *oldest = oldest_of (transport);
    const struct peer_transfer *peer = oldest ? &oldest->peers[rank] : NULL;
    return peer && (peer->differs || peer->in_done < peer->in_end || peer->out_done < peer->out_end);
}

static void
async_give_up (void *transport, const char *reason)
{
    struct async *async = transport;
    (void) reason;
    atomic_store (&async->gave_up, true);
}

static void
async_coalesce_begin (void *transport)
{
    struct async *async = transport;
    async->is_coalescing = true;
    async->coalesced = 0;
    async->groups++;
}

static void
async_coalesce_end (void *transport)
{
    struct async *async = transport;
    async->is_coalescing = false;
    async->most_coalesced = async->coalesced > async->most_coalesced ? async->coalesced : async->most_coalesced;
    pthread_mutex_lock (&lock);
    progress_all ();
    pthread_mutex_unlock (&lock);
}

static enum accel_status
take (void **transport, struct pipes *pipes, struct accel_error *err)
{
    struct async *async = calloc (1, sizeof *async);
    if (!async) {
        const struct accel_engine_helpers *helpers = pipes->helpers;
        pipes_close (pipes);
        return helpers->fail (err, ACCEL_ERR_NOMEM, "engine async: out of memory");
    }
    async->pipes = pipes;
    pthread_mutex_lock (&lock);
    async->next = all;
    all = async;
    pthread_mutex_unlock (&lock);
    *transport = async;
    return ACCEL_OK;
}

static enum accel_status
async_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    void *pipes;
    enum accel_status status = pipes_open (&pipes, job, err);
    return status ? status : take (transport, pipes, err);
}

static enum accel_status
async_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                  struct accel_error *err)
{
    const struct async *parent = transport;
    void *pipes;
    enum accel_status status = pipes_join_group (parent->pipes, ranks, size, rank, group_id, &pipes, err);
    return status ? status : take (group, pipes, err);
}

static void
async_close (void *transport)
{
    struct async *async = transport, **at = &all;
    if (getenv ("ASYNC_TRACE"))
        fprintf (stderr, "async: %d of %d: %d groups of at most %d, at most %d in flight, %d left\n",
                 async->pipes->rank, async->pipes->size, async->groups, async->most_coalesced, async->most_started,
                 async->started);
    pthread_mutex_lock (&lock);
    while (*at != async)
        at = &(*at)->next;
    *at = async->next;
    pthread_mutex_unlock (&lock);
    pipes_close (async->pipes);
    free (async);
}

static void
async_set_timeout (void *transport, uint32_t timeout_ms)
{
    struct async *async = transport;
    async->pipes->timeout_ms = timeout_ms;
}

ACCEL_API const struct accel_engine async_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "async",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ACCEL_ENGINE_BIT (kDLCPU),
    .open = async_open,
    .close = async_close,
    .give_up = async_give_up,
    .make_group = pipes_make_group,
    .join_group = async_join_group,
    .run = async_run,
    .awaits = async_awaits,
    .start = async_start,
    .test = async_test,
    .wait = async_wait,
    .coalesce_begin = async_coalesce_begin,
    .coalesce_end = async_coalesce_end,
    .set_timeout = async_set_timeout,
};
