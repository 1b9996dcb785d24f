/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "pipes": Unix sockets; a complete engine as another package would write it, from accel/engine.h alone.  Every
 * two ranks of a communicator have a connection.  The lower one listens, at a name made of random numbers that ranks
 * exchange while opening; both ask the kernel who is at the other end, because other users can find the name and
 * connect.  A call begins with a header from each to each, which are compared; then follow the bytes.  Simple, slow. */
#include <accel/engine.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 50, SLICE_CONNECTING_MS = 2, FLAGS = SOCK_CLOEXEC | SOCK_NONBLOCK, ALL = -1 };

/* What a call begins with.  Compared as bytes, so without padding. */
struct header {
    uint64_t count;
    int32_t kind, root;
    int16_t dtype, op;
    uint32_t public_call, form, number;
};

/* What goes between this rank and another one, until both counts are 0. */
struct peer {
    const char *out;
    char *in;
    size_t out_bytes, in_bytes;
    int fd;         /* where this rank listens, until it is connected */
    bool connected;
    struct header header; /* what the other rank calls */
};

struct pipes {
    const struct accel_engine_helpers *helpers;
    int size, rank;
    uint32_t timeout_ms;
    int64_t id;           /* of the group; 0: the world */
    uint64_t *tokens;     /* [size], of each rank, after the peers */
    struct pollfd *polls; /* [size], after the tokens */
    struct peer peers[];  /* [size] */
};

static int64_t
now_ms (void)
{
    struct timespec now;
    return clock_gettime (CLOCK_MONOTONIC, &now), (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Where rank @low listens for rank @high. */
static socklen_t
name_of (const struct pipes *pipes, int low, int high, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int length = snprintf (name->sun_path + 1, sizeof name->sun_path - 1, "accel-pipes-%jx-%jx-%jx",
                           (uintmax_t) pipes->tokens[low], (uintmax_t) pipes->tokens[high], (uintmax_t) pipes->id);
    return (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + (size_t) length);
}

static void
pipes_close (void *transport)
{
    struct pipes *pipes = transport;
    for (int i = 0; pipes && i < pipes->size; i++)
        close (pipes->peers[i].fd);
    free (pipes);
}

static struct pipes *
create (const struct accel_engine_helpers *helpers, int size, int rank, int64_t group_id, uint32_t timeout_ms)
{
    struct pipes *pipes = calloc (1, sizeof *pipes + (size_t) size * (sizeof *pipes->peers + 2 * sizeof (uint64_t)));
    if (!pipes)
        return NULL;
    *pipes = (struct pipes){ helpers, size, rank, timeout_ms, group_id, NULL, NULL };
    pipes->tokens = (uint64_t *) (void *) &pipes->peers[size];
    pipes->polls = (struct pollfd *) (void *) &pipes->tokens[size];
    for (int i = 0; i < size; i++)
        pipes->peers[i].fd = -1;
    return pipes;
}

/* Waits for no rank.  @pipes: NULL without memory. */
static enum accel_status
listen_to_higher (struct pipes *pipes, const struct accel_engine_helpers *helpers, void **transport,
                  struct accel_error *err)
{
    struct sockaddr_un name;
    bool good = pipes;
    for (int i = good ? pipes->rank + 1 : 0; good && i < pipes->size; i++) {
        socklen_t length = name_of (pipes, pipes->rank, i, &name);
        int fd = pipes->peers[i].fd = socket (AF_UNIX, SOCK_STREAM | FLAGS, 0);
        good = fd >= 0 && !bind (fd, (const struct sockaddr *) &name, length) && !listen (fd, 8);
    }
    *transport = pipes;
    if (good)
        return ACCEL_OK;
    helpers->fail (err, ACCEL_ERR_SYSTEM, "engine pipes: cannot make a socket: %s", strerror (errno));
    return pipes_close (pipes), ACCEL_ERR_SYSTEM;
}

/* The other rank may not have opened, or joined the group, yet.  A user who is not ours never gets or sends a byte. */
static bool
is_connected (struct pipes *pipes, int other)
{
    struct sockaddr_un name;
    struct ucred owner = { .uid = (uid_t) -1 };
    struct peer *peer = &pipes->peers[other];
    socklen_t length = name_of (pipes, other, pipes->rank, &name), owner_length = sizeof owner;
    bool listens = other > pipes->rank;
    if (peer->connected)
        return true;
    int fd = listens ? accept4 (peer->fd, NULL, NULL, FLAGS) : socket (AF_UNIX, SOCK_STREAM | FLAGS, 0);
    peer->connected = fd >= 0 && (listens || !connect (fd, (const struct sockaddr *) &name, length))
                      && !getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &owner, &owner_length) && owner.uid == geteuid ();
    int unused = peer->connected ? peer->fd : fd;
    peer->fd = peer->connected ? fd : peer->fd;
    return close (unused), peer->connected;
}

/* Move what goes without waiting.  @return whether anything went; @wait_ms: 0 if nothing is left to move. */
static bool
step (struct pipes *pipes, int *wait_ms)
{
    bool moved = false;
    *wait_ms = 0;
    for (int i = 0; i < pipes->size; i++) {
        struct peer *peer = &pipes->peers[i];
        pipes->polls[i].fd = -1;
        if ((!peer->out_bytes && !peer->in_bytes) || i == pipes->rank)
            continue;
        bool good = is_connected (pipes, i);
        ssize_t got = good && peer->in_bytes ? recv (peer->fd, peer->in, peer->in_bytes, 0) : -1;
        ssize_t sent = good && peer->out_bytes ? send (peer->fd, peer->out, peer->out_bytes, MSG_NOSIGNAL) : 0;
        good = good && got && (sent >= 0 || errno == EAGAIN); /* look() knows why a connection has ended */
        if (sent > 0)
            peer->out += sent, peer->out_bytes -= (size_t) sent, moved = true;
        if (got > 0)
            peer->in += got, peer->in_bytes -= (size_t) got, moved = true;
        short events = (short) ((peer->out_bytes ? POLLOUT : 0) | (peer->in_bytes ? POLLIN : 0));
        pipes->polls[i] = (struct pollfd){ good && events ? peer->fd : -1, events, 0 };
        if (events)
            *wait_ms = good && *wait_ms != SLICE_CONNECTING_MS ? SLICE_MS : SLICE_CONNECTING_MS;
    }
    return moved;
}

/* Move all that there is, or find out why that will never end.  All late ranks together have one timeout. */
static enum accel_status
transfer (struct pipes *pipes, const struct accel_engine_call *call, bool meets, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = call->helpers;
    int64_t deadline_ms = now_ms () + pipes->timeout_ms;
    enum accel_status status = ACCEL_OK;
    for (int wait_ms;;) {
        bool moved = step (pipes, &wait_ms);
        if (!wait_ms)
            return ACCEL_OK;
        if (moved) {
            deadline_ms = meets ? deadline_ms : now_ms () + pipes->timeout_ms, status = ACCEL_OK;
        } else if (status) {
            return status;
        } else {
            poll (pipes->polls, (nfds_t) pipes->size, wait_ms);
            status = helpers->look (helpers->context, call, err);
            if (!status && now_ms () >= deadline_ms)
                status = helpers->timed_out (helpers->context, call, err);
        }
    }
}

/* @bytes at @out plus i times @out_step go to rank i, and @bytes at @in plus i times @in_step come from there; NULL:
 * none do.  @only: the other rank of a pair, or ALL. */
static enum accel_status
move (struct pipes *pipes, const struct accel_engine_call *call, int only, size_t bytes, const void *out,
      size_t out_step, void *in, size_t in_step, struct accel_error *err)
{
    for (int i = 0; i < pipes->size; i++) {
        bool used = i != pipes->rank && (only == ALL || i == only);
        struct peer *peer = &pipes->peers[i];
        peer->out = used && out ? (const char *) out + (size_t) i * out_step : NULL;
        peer->in = used && in ? (char *) in + (size_t) i * in_step : NULL;
        peer->out_bytes = peer->out ? bytes : 0, peer->in_bytes = peer->in ? bytes : 0;
    }
    return transfer (pipes, call, bytes == sizeof (struct header), err);
}

/* A header from each to each.  Of two ranks, one sends and the other receives. */
static enum accel_status
meet (struct pipes *pipes, const struct accel_engine_call *call, int only, struct accel_error *err)
{
    bool pair = only != ALL;
    struct header mine = { call->count, (int32_t) call->kind, pair ? 0 : call->root, (int16_t) call->dtype,
                           pair ? 0 : (int16_t) call->op, pair ? 0 : call->public_call, pair ? 0 : call->form,
                           call->number };
    enum accel_status status = move (pipes, call, only, sizeof mine, &mine, 0, &pipes->peers->header,
                                     sizeof *pipes->peers, err);
    mine.kind = !pair ? mine.kind : mine.kind == ACCEL_ENGINE_SEND ? ACCEL_ENGINE_RECV : ACCEL_ENGINE_SEND;
    for (int i = 0; !status && i < pipes->size; i++)
        if (i != pipes->rank && (!pair || i == only) && memcmp (&mine, &pipes->peers[i].header, sizeof mine))
            status = pair || pipes->peers[i].header.kind >= ACCEL_ENGINE_SEND /* wait until look() knows why */
                         ? move (pipes, call, i, sizeof mine, NULL, 0, &mine, 0, err)
                         : call->helpers->mismatch (call->helpers->context, call, pipes->rank, i, err);
    return status;
}

/* Every rank gets the rows that it reduces from all others, and reduces them in the order of ranks. */
static enum accel_status
reduce (struct pipes *pipes, const struct accel_engine_call *call, size_t row, size_t step, struct accel_error *err)
{
    size_t size = (size_t) pipes->size;
    char *rows = malloc (size * row + 1);
    const void **sources = calloc (size, sizeof *sources);
    enum accel_status status = rows && sources ? move (pipes, call, ALL, row, call->send, step, rows, row, err)
                                               : call->helpers->fail (err, ACCEL_ERR_NOMEM, "engine pipes: no memory");
    for (size_t i = 0; !status && i < size; i++)
        sources[i] = (int) i == pipes->rank ? (const char *) call->send + i * step : rows + i * row;
    if (!status)
        call->helpers->reduce (call->dtype, call->op, sources, pipes->size, call->recv, call->count);
    free (rows), free (sources);
    return status;
}

static enum accel_status
pipes_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    struct pipes *pipes = transport;
    size_t row = call->count * call->element_bytes, own = (size_t) pipes->rank * row;
    char *recv = call->recv;
    const char *send = call->send;
    bool pair = call->kind == ACCEL_ENGINE_SEND || call->kind == ACCEL_ENGINE_RECV;
    if ((unsigned) call->kind >= ACCEL_ENGINE_KIND_COUNT)
        return call->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "engine pipes: unknown kind %d", (int) call->kind);
    enum accel_status status = meet (pipes, call, pair ? call->root : ALL, err);
    if (status || (!row && !pair))
        return status;
    switch ((int) call->kind) {
    case ACCEL_ENGINE_ALL_REDUCE: return reduce (pipes, call, row, 0, err);
    case ACCEL_ENGINE_REDUCE_SCATTER: return reduce (pipes, call, row, row, err);
    case ACCEL_ENGINE_BROADCAST:
        return call->root == pipes->rank ? move (pipes, call, ALL, row, recv, 0, NULL, 0, err)
                                         : move (pipes, call, call->root, row, NULL, 0, recv, 0, err);
    case ACCEL_ENGINE_ALL_GATHER:
        memmove (recv + own, send, row);
        return move (pipes, call, ALL, row, recv + own, 0, recv, row, err);
    case ACCEL_ENGINE_ALL_TO_ALL:
        memcpy (recv + own, send + own, row);
        return move (pipes, call, ALL, row, send, row, recv, row, err);
    case ACCEL_ENGINE_SEND: /* a second header says that everything has arrived; what a pair lacks is NULL */
    case ACCEL_ENGINE_RECV:
        status = move (pipes, call, call->root, row, send, 0, recv, 0, err);
        return status ? status : meet (pipes, call, call->root, err);
    default: return ACCEL_OK;
    }
}

static enum accel_status
pipes_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    struct pipes *pipes = create (job->helpers, job->world_size, job->rank, 0, job->timeout_ms);
    enum accel_status status = ACCEL_OK;
    uint64_t token;
    if (!pipes || getrandom (&token, sizeof token, 0) != sizeof token)
        status = job->helpers->fail (err, ACCEL_ERR_NOMEM, "engine pipes: out of memory");
    else if (job->world_size > 1)
        status = job->helpers->exchange (job->helpers->context, &token, pipes->tokens, sizeof token, err);
    return status ? (pipes_close (pipes), status) : listen_to_higher (pipes, job->helpers, transport, err);
}

static enum accel_status
pipes_make_group (void *transport, int size, int64_t *id, struct accel_error *err)
{
    (void) transport, (void) size, (void) err;
    return getrandom (id, sizeof *id, 0) == sizeof *id ? (*id &= INT64_MAX, ACCEL_OK) : ACCEL_ERR_SYSTEM;
}

static enum accel_status
pipes_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                  struct accel_error *err)
{
    const struct pipes *parent = transport;
    struct pipes *pipes = create (parent->helpers, size, rank, group_id, parent->timeout_ms);
    for (int i = 0; pipes && i < size; i++)
        pipes->tokens[i] = parent->tokens[ranks[i]];
    return listen_to_higher (pipes, parent->helpers, group, err);
}

ACCEL_API const struct accel_engine accel_engine = {
    .abi = ACCEL_ENGINE_ABI, .size = sizeof (struct accel_engine), .name = "pipes",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT), .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ACCEL_ENGINE_BIT (kDLCPU),
    .open = pipes_open, .close = pipes_close, .make_group = pipes_make_group, .join_group = pipes_join_group,
    .run = pipes_run,
};
