/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "lanes": the connections of pipes, with a start, test and wait of its own instead of a thread of libaccel.
 * What has been started moves on whenever this process is in any function here, whatever that one waits for.
 *
 * Between two ranks a call is a header from each, data, and after a message one byte from its receiver.  Calls follow
 * each other in each direction in the order of their starts; one may be far ahead of another. */
#include <accel/engine.h>

/* The symbol of the module is our table; that of pipes gets another name. */
extern const struct accel_engine accel_engine __asm__ ("pipes_engine");
extern const struct accel_engine lanes_engine __asm__ (ACCEL_ENGINE_SYMBOL);

#include "../pipes/pipes.c"

#include <pthread.h>
#include <stdatomic.h>

enum { HEADER = sizeof (struct header), POLLS = 64, PAUSE_MS = 1000 };

/* What one call still sends to a rank and gets from it; bytes that are done include the header. */
struct leg {
    const char *out;
    char *in;
    size_t out_bytes, in_bytes, out_done, in_done;
    size_t out_end, in_end; /* 0: that rank takes no part */
    struct header theirs;
    bool differs;
    char byte;
};

struct flight {
    struct flight *next;
    const struct accel_engine_call *call;
    struct header mine;
    char *rows; /* of a reduction, [size, count] */
    const void **sources; /* [size], the rows */
    bool over;
    enum accel_status status;
    struct accel_error error;
    struct leg legs[]; /* [size] */
};

struct lanes {
    struct lanes *next;
    struct pipes *pipes;
    struct flight *first; /* in the order of starts */
    const struct flight *oldest; /* that is not over, when it was looked at last */
    int64_t seen_ms, waited_ms, looked_ms;
    bool grouping;
    atomic_bool gave_up;
    int groups, grouped, flying, most_grouped, most_flying; /* for tests */
};

/* Transports move together, so they have one lock.  give_up() does not take it: libaccel has locks of its own then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lanes *all;

static bool
is_pair (const struct accel_engine_call *call)
{
    return call->kind == ACCEL_ENGINE_SEND || call->kind == ACCEL_ENGINE_RECV;
}

static struct flight *
oldest_of (const struct lanes *lanes)
{
    struct flight *flight = lanes->first;
    while (flight && flight->over)
        flight = flight->next;
    return flight;
}

static void
fail_all (struct lanes *lanes, enum accel_status status, const struct accel_error *err)
{
    for (struct flight *flight = lanes->first; flight; flight = flight->next)
        if (!flight->over)
            flight->over = true, flight->status = status, flight->error = *err;
}

/* Send what this call still owes to rank @i.  @return whether that is nothing more */
static bool
push (struct lanes *lanes, struct flight *flight, int i, bool *moved)
{
    struct leg *leg = &flight->legs[i];
    while (leg->out_done < leg->out_end) {
        bool is_data = leg->out_done >= HEADER;
        size_t done = is_data ? leg->out_done - HEADER : leg->out_done;
        size_t left = (is_data ? leg->out_bytes : HEADER) - done;
        const char *at = is_data ? leg->out : (const char *) &flight->mine;
        if (!left && leg->in_done < leg->in_end)
            return false; /* what the last byte acknowledges has not arrived */
        ssize_t sent = send (lanes->pipes->lanes[i].fd, left ? at + done : "", left ? left : 1, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        *moved = *moved || is_data;
        leg->out_done += (size_t) sent;
    }
    return true;
}

/* Of two ranks, one sends and the other receives. */
static bool
is_expected (const struct flight *flight, const struct header *theirs)
{
    struct header mine = flight->mine;
    if (is_pair (flight->call))
        mine.kind = mine.kind == ACCEL_ENGINE_SEND ? ACCEL_ENGINE_RECV : ACCEL_ENGINE_SEND;
    return !memcmp (&mine, theirs, sizeof mine);
}

/* The same of what it still gets from rank @i. */
static bool
pull (struct lanes *lanes, struct flight *flight, int i, bool *moved)
{
    struct leg *leg = &flight->legs[i];
    while (leg->in_done < leg->in_end && !leg->differs) {
        bool is_data = leg->in_done >= HEADER;
        size_t done = is_data ? leg->in_done - HEADER : leg->in_done;
        size_t left = (is_data ? leg->in_bytes : HEADER) - done;
        char *at = is_data ? leg->in : (char *) &leg->theirs;
        ssize_t got = recv (lanes->pipes->lanes[i].fd, left ? at + done : &leg->byte, left ? left : 1, 0);
        if (got <= 0)
            return false;
        *moved = *moved || is_data;
        leg->in_done += (size_t) got;
        leg->differs = leg->in_done == HEADER && !is_expected (flight, &leg->theirs);
    }
    return !leg->differs;
}

/* Whether the call has sent and got everything; if headers differ and look() would not say why, fail. */
static bool
is_complete (struct lanes *lanes, struct flight *flight)
{
    const struct accel_engine_helpers *helpers = flight->call->helpers;
    struct accel_error err;
    bool complete = true;
    for (int i = 0; i < lanes->pipes->size && !flight->over; i++) {
        const struct leg *leg = &flight->legs[i];
        complete = complete && leg->out_done == leg->out_end && leg->in_done == leg->in_end && !leg->differs;
        if (leg->differs && !is_pair (flight->call) && leg->theirs.kind < ACCEL_ENGINE_SEND
            && flight == oldest_of (lanes))
            fail_all (lanes, helpers->differ (helpers->context, flight->call, lanes->pipes->rank, i, &err), &err);
    }
    return complete && !flight->over;
}

static void
complete (struct lanes *lanes, struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    if (flight->rows)
        call->helpers->reduce (call->dtype, call->op, flight->sources, lanes->pipes->size, call->recv, call->count);
    flight->over = true;
}

/* @return whether data was moved; headers alone let no time begin anew. */
static bool
progress (struct lanes *lanes)
{
    static const struct accel_error gave_up = { .code = ACCEL_ERR_PEER, .text = "engine lanes: gave up" };
    bool moved = false;
    if (atomic_load (&lanes->gave_up))
        fail_all (lanes, ACCEL_ERR_PEER, &gave_up);
    for (int i = 0; i < lanes->pipes->size; i++) {
        bool goes = oldest_of (lanes) && i != lanes->pipes->rank && is_connected (lanes->pipes, i), comes = goes;
        for (struct flight *flight = lanes->first; flight && (goes || comes); flight = flight->next) {
            comes = comes && pull (lanes, flight, i, &moved);
            goes = goes && push (lanes, flight, i, &moved);
        }
    }
    for (struct flight *flight = lanes->first; flight; flight = flight->next)
        if (!flight->over && is_complete (lanes, flight))
            complete (lanes, flight);
    return moved;
}

/* Find out why what is in flight will never end.  Time runs for the oldest call, and not while the program computes. */
static void
consider (struct lanes *lanes, bool moved)
{
    struct flight *oldest = oldest_of (lanes);
    struct accel_error err;
    int64_t now = now_ms (), passed = now - lanes->seen_ms;
    lanes->waited_ms += passed < PAUSE_MS ? passed : PAUSE_MS;
    if (oldest != lanes->oldest || moved)
        lanes->waited_ms = 0;
    lanes->seen_ms = now;
    lanes->oldest = oldest;
    if (!oldest || now < lanes->looked_ms + SLICE_MS)
        return;
    const struct accel_engine_helpers *helpers = oldest->call->helpers;
    lanes->looked_ms = now;
    enum accel_status status = helpers->look (helpers->context, oldest->call, &err);
    if (!status && lanes->waited_ms >= lanes->pipes->timeout_ms)
        status = helpers->time_is_out (helpers->context, oldest->call, &err);
    if (status && !progress (lanes) && oldest == oldest_of (lanes))
        fail_all (lanes, status, &err);
}

/* With the lock. */
static void
progress_all (void)
{
    for (struct lanes *lanes = all; lanes; lanes = lanes->next)
        consider (lanes, progress (lanes));
}

/* Sleep until something can be read; writing must wait for that, too, or for a moment. */
static void
doze (void)
{
    struct pollfd polls[POLLS];
    nfds_t count = 0;
    int wait_ms = SLICE_MS;
    for (struct lanes *lanes = all; lanes; lanes = lanes->next)
        for (int i = 0; i < lanes->pipes->size && oldest_of (lanes); i++) {
            const struct leg *leg = &oldest_of (lanes)->legs[i];
            if (count == POLLS || (leg->out_end && !lanes->pipes->lanes[i].connected) || leg->out_done < leg->out_end)
                wait_ms = SLICE_CONNECTING_MS;
            else if (leg->in_done < leg->in_end)
                polls[count++] = (struct pollfd){ lanes->pipes->lanes[i].fd, POLLIN, 0 };
        }
    pthread_mutex_unlock (&lock);
    poll (polls, count, wait_ms);
    pthread_mutex_lock (&lock);
}

/* ---- the table ---- */

static void
set_leg (struct lanes *lanes, struct flight *flight, int i, size_t row)
{
    const struct accel_engine_call *call = flight->call;
    struct leg *leg = &flight->legs[i];
    size_t at = (size_t) i * row, own = (size_t) lanes->pipes->rank * row;
    char *recv = call->recv;
    const char *send = call->send;
    switch ((int) call->kind) {
    case ACCEL_ENGINE_ALL_REDUCE: leg->out = send, leg->in = flight->rows + at; break;
    case ACCEL_ENGINE_REDUCE_SCATTER: leg->out = send + at, leg->in = flight->rows + at; break;
    case ACCEL_ENGINE_ALL_GATHER: leg->out = recv + own, leg->in = recv + at; break;
    case ACCEL_ENGINE_ALL_TO_ALL: leg->out = send + at, leg->in = recv + at; break;
    case ACCEL_ENGINE_BROADCAST:
        leg->out = call->root == lanes->pipes->rank ? recv : NULL;
        leg->in = call->root == i ? recv : NULL;
        break;
    case ACCEL_ENGINE_SEND: leg->out = send; break;
    case ACCEL_ENGINE_RECV: leg->in = recv; break;
    default: break;
    }
    leg->out_bytes = leg->out ? row : 0;
    leg->in_bytes = leg->in ? row : 0;
    leg->out_end = HEADER + leg->out_bytes + (call->kind == ACCEL_ENGINE_RECV);
    leg->in_end = HEADER + leg->in_bytes + (call->kind == ACCEL_ENGINE_SEND);
}

/* What this rank sends to itself. */
static void
copy_own (const struct lanes *lanes, struct flight *flight, size_t row)
{
    const struct accel_engine_call *call = flight->call;
    size_t own = (size_t) lanes->pipes->rank * row;
    const char *send = call->send;
    if (!row)
        return;
    if (flight->rows)
        memcpy (flight->rows + own, call->kind == ACCEL_ENGINE_ALL_REDUCE ? send : send + own, row);
    if (call->kind == ACCEL_ENGINE_ALL_GATHER)
        memmove ((char *) call->recv + own, send, row);
    if (call->kind == ACCEL_ENGINE_ALL_TO_ALL)
        memcpy ((char *) call->recv + own, send + own, row);
}

static enum accel_status
lanes_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    struct lanes *lanes = transport;
    int size = lanes->pipes->size;
    size_t row = call->count * call->element_bytes;
    bool pair = is_pair (call);
    bool reduces = call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    if ((unsigned) call->kind >= ACCEL_ENGINE_KIND_COUNT)
        return call->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "engine lanes: unknown kind %d", (int) call->kind);
    struct flight *flight = calloc (1, sizeof *flight + (size_t) size * sizeof *flight->legs);
    char *rows = reduces ? malloc ((size_t) size * row + 1) : NULL;
    const void **sources = reduces ? calloc ((size_t) size, sizeof *sources) : NULL;
    if (!flight || (reduces && (!rows || !sources))) {
        free (flight), free (rows), free (sources);
        return call->helpers->fail (err, ACCEL_ERR_NOMEM, "engine lanes: no memory");
    }
    flight->call = call, flight->rows = rows, flight->sources = sources;
    for (int i = 0; reduces && i < size; i++)
        sources[i] = rows + (size_t) i * row;
    flight->mine = (struct header){ call->count, (int32_t) call->kind, pair ? 0 : call->root, (int16_t) call->dtype,
                                    pair ? 0 : (int16_t) call->op, pair ? 0 : call->public_call,
                                    pair ? 0 : call->form, call->number };
    copy_own (lanes, flight, row);
    for (int i = 0; i < size; i++)
        if (i != lanes->pipes->rank && (!pair || i == call->root))
            set_leg (lanes, flight, i, row);
    pthread_mutex_lock (&lock);
    struct flight **end = &lanes->first;
    while (*end)
        end = &(*end)->next;
    *end = flight;
    lanes->flying++;
    lanes->most_flying = lanes->flying > lanes->most_flying ? lanes->flying : lanes->most_flying;
    lanes->grouped += lanes->grouping;
    if (!lanes->grouping)
        progress_all ();
    pthread_mutex_unlock (&lock);
    *work = flight;
    return ACCEL_OK;
}

static bool
lanes_test (void *transport, void *work)
{
    (void) transport;
    const struct flight *flight = work;
    pthread_mutex_lock (&lock);
    progress_all ();
    bool over = flight->over;
    pthread_mutex_unlock (&lock);
    return over;
}

static enum accel_status
lanes_wait (void *transport, void *work, struct accel_error *err)
{
    struct lanes *lanes = transport;
    struct flight *flight = work, **at = &lanes->first;
    pthread_mutex_lock (&lock);
    for (progress_all (); !flight->over; progress_all ())
        doze ();
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    lanes->flying--;
    pthread_mutex_unlock (&lock);
    enum accel_status status = flight->status;
    if (status && err)
        *err = flight->error;
    free (flight->rows), free (flight->sources), free (flight);
    return status;
}

static enum accel_status
lanes_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    void *work;
    enum accel_status status = lanes_start (transport, call, &work, err);
    return status ? status : lanes_wait (transport, work, err);
}

static bool
lanes_awaits (void *transport, int rank)
{
    const struct flight *oldest = oldest_of (transport);
    const struct leg *leg = oldest ? &oldest->legs[rank] : NULL;
    return leg && (leg->in_done < leg->in_end || leg->out_done < leg->out_end || leg->differs);
}

static void
lanes_give_up (void *transport, const char *reason)
{
    struct lanes *lanes = transport;
    (void) reason;
    atomic_store (&lanes->gave_up, true);
}

static void
lanes_group_begin (void *transport)
{
    struct lanes *lanes = transport;
    lanes->grouping = true;
    lanes->grouped = 0;
    lanes->groups++;
}

static void
lanes_group_end (void *transport)
{
    struct lanes *lanes = transport;
    lanes->grouping = false;
    lanes->most_grouped = lanes->grouped > lanes->most_grouped ? lanes->grouped : lanes->most_grouped;
    pthread_mutex_lock (&lock);
    progress_all ();
    pthread_mutex_unlock (&lock);
}

static enum accel_status
take (void **transport, struct pipes *pipes, struct accel_error *err)
{
    struct lanes *lanes = calloc (1, sizeof *lanes);
    if (!lanes) {
        const struct accel_engine_helpers *helpers = pipes->helpers;
        pipes_close (pipes);
        return helpers->fail (err, ACCEL_ERR_NOMEM, "engine lanes: out of memory");
    }
    lanes->pipes = pipes;
    pthread_mutex_lock (&lock);
    lanes->next = all;
    all = lanes;
    pthread_mutex_unlock (&lock);
    *transport = lanes;
    return ACCEL_OK;
}

static enum accel_status
lanes_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    void *pipes;
    enum accel_status status = pipes_open (&pipes, job, err);
    return status ? status : take (transport, pipes, err);
}

static enum accel_status
lanes_join_group (void *transport, const int *ranks, int size, int rank, int64_t place, void **group,
                  struct accel_error *err)
{
    const struct lanes *parent = transport;
    void *pipes;
    enum accel_status status = pipes_join_group (parent->pipes, ranks, size, rank, place, &pipes, err);
    return status ? status : take (group, pipes, err);
}

static void
lanes_close (void *transport)
{
    struct lanes *lanes = transport, **at = &all;
    if (getenv ("LANES_TRACE"))
        fprintf (stderr, "lanes: %d of %d: %d groups of at most %d, at most %d in flight, %d left\n",
                 lanes->pipes->rank, lanes->pipes->size, lanes->groups, lanes->most_grouped, lanes->most_flying,
                 lanes->flying);
    pthread_mutex_lock (&lock);
    while (*at != lanes)
        at = &(*at)->next;
    *at = lanes->next;
    pthread_mutex_unlock (&lock);
    pipes_close (lanes->pipes);
    free (lanes);
}

ACCEL_API const struct accel_engine lanes_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "lanes",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ACCEL_ENGINE_BIT (kDLCPU),
    .open = lanes_open,
    .close = lanes_close,
    .give_up = lanes_give_up,
    .make_group = pipes_make_group,
    .join_group = lanes_join_group,
    .run = lanes_run,
    .awaits = lanes_awaits,
    .start = lanes_start,
    .test = lanes_test,
    .wait = lanes_wait,
    .group_begin = lanes_group_begin,
    .group_end = lanes_group_end,
};
