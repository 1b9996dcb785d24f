/* SPDX-License-Identifier: Apache-2.0 */
/* Under another launcher: local rank 0 makes the job segment and hands its descriptor to the others over a socket with
 * an abstract name, which vanishes with its owner.  Both sides check that the other is the same user.  A process that
 * has taken the name (names.c) is found out at once, and avoided or named. */
#include <config.h>

#include "lib/comm/bootstrap/bootstrap_object.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/envnames.h"
#include "util/peer.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 1000,      /* rank 0 looks at its socket every millisecond */
    SILENCE_MS = 10000,    /* after which a silent process of the same user is in the way */
    FULL_MS = 3000,        /* after which a full queue is not that of a rank 0 which is only slow */
    REFUSALS = 40,         /* connections to a name that is in use, until its owner, who may be ending, is in the way */
    LOOK_EVERY = 25,       /* tries, between two looks at the list of names */
    LOOK_OFTEN = 5,        /* the same, when the primary name is known to be blocked */
};

/* What a client says first, and what it hears with the descriptor. */
struct hello {
    uint64_t magic;
    uint32_t version;
    uint32_t local_rank;
    uint32_t local_world_size;
    uint32_t unused;
};

/* The result of asking at a name. */
enum answer {
    ANSWER_NONE,    /* no process listens */
    ANSWER_FULL,    /* a process does, but has a full queue; the kernel does not say which */
    ANSWER_FOREIGN, /* another user does */
    ANSWER_SILENT,  /* we do, in a process that says nothing */
    ANSWER_RANK_0,  /* rank 0 has it, and has heard that we are rank 0 too */
    ANSWER_SEGMENT, /* rank 0 has sent the segment */
};

static bool
is_readable (int fd, int wait_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    return poll (&poll_fd, 1, wait_ms) == 1;
}

/* @param[out] segment_fd  what was received with the reply, or -1  @return whether @reply is complete */
static bool
receive_reply (int fd, struct hello *reply, int *segment_fd)
{
    if (peer_receive (fd, reply, sizeof *reply, segment_fd) == (ssize_t) sizeof *reply)
        return true;
    if (*segment_fd >= 0)
        close (*segment_fd);
    *segment_fd = -1;
    return false;
}

static struct hello
introduce (const struct engine_job *job)
{
    return (struct hello){ .magic = JOBSEG_MAGIC, .version = JOBSEG_VERSION,
                           .local_rank = (uint32_t) job->base.local_rank,
                           .local_world_size = (uint32_t) job->base.local_world_size };
}

/* Two jobs with all the same variables: it is not known which of the other ranks belong to which. */
static enum accel_status
fail_twice (const struct peer *other, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "accel_open: processes %d and %d are both rank 0: if they belong to two jobs, give each job a "
                       "different %s",
                       (int) getpid (), (int) other->pid, ENV_MASTER_PORT);
}

enum accel_status
bootstrap_serve (const struct engine_job *job, int listener, int wait_ms, struct accel_error *err)
{
    struct hello hello, reply = introduce (job);
    struct peer peer;
    if (!is_readable (listener, wait_ms))
        return ACCEL_OK;
    AUTO_CLOSE int client = accept4 (listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0 || !peer_of (client, &peer) || peer.uid != geteuid () || !is_readable (client, ANSWER_MS))
        return ACCEL_OK;
    if (recv (client, &hello, sizeof hello, 0) != (ssize_t) sizeof hello || hello.magic != reply.magic
        || hello.version != reply.version || hello.local_world_size != reply.local_world_size)
        return ACCEL_OK;
    peer_send (client, &reply, sizeof reply, hello.local_rank ? job->segment.fd : -1, MSG_DONTWAIT);
    return hello.local_rank ? ACCEL_OK : fail_twice (&peer, err);
}

/* @param[out] segment_fd  of ANSWER_SEGMENT  @param[out] owner  unless it is ANSWER_NONE or ANSWER_FULL */
static enum answer
ask (const struct engine_job *job, const struct bootstrap_address *address, struct peer *owner, int *segment_fd)
{
    struct hello hello = introduce (job), reply;
    AUTO_CLOSE int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ANSWER_NONE;
    if (connect (fd, (const struct sockaddr *) &address->un, address->length))
        return errno == EAGAIN ? ANSWER_FULL : ANSWER_NONE;
    if (!peer_of (fd, owner))
        return ANSWER_NONE;
    if (owner->uid != geteuid ())
        return ANSWER_FOREIGN;
    if (send (fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t) sizeof hello || !is_readable (fd, ANSWER_MS)
        || !receive_reply (fd, &reply, segment_fd))
        return ANSWER_SILENT;
    bool is_valid = reply.magic == hello.magic && reply.version == hello.version;
    if (is_valid && *segment_fd >= 0)
        return ANSWER_SEGMENT;
    if (is_valid && !hello.local_rank)
        return ANSWER_RANK_0;
    if (*segment_fd >= 0)
        close (*segment_fd);
    return ANSWER_SILENT;
}

/* The same at all fallback names.  @return the first that is an answer of rank 0, else ANSWER_NONE */
static enum answer
ask_fallbacks (const struct engine_job *job, const struct bootstrap_address *primary, struct peer *owner,
               int *segment_fd)
{
    struct bootstrap_address address;
    AUTO_FILE FILE *list = bootstrap_open_addresses ();
    while (list && bootstrap_next_fallback (list, primary, &address)) {
        enum answer answer = ask (job, &address, owner, segment_fd);
        if (answer == ANSWER_RANK_0 || answer == ANSWER_SEGMENT)
            return answer;
    }
    return ANSWER_NONE;
}

static bool
can_list (void)
{
    AUTO_FILE FILE *list = bootstrap_open_addresses ();
    return list != NULL;
}

/* @param owner  NULL: it accepts no connection, so the kernel does not tell */
static enum accel_status
fail_blocked (const struct bootstrap_address *primary, const struct peer *owner, struct accel_error *err)
{
    char text[256] = "a process that accepts no connection";
    if (owner)
        peer_describe (owner, NULL, text, sizeof text);
    return accel_fail (err, ACCEL_ERR_SYSTEM, "accel_open: the socket @%s is in use by %s, which does not answer: end "
                       "it, or give the job another %s",
                       bootstrap_address_text (primary), text, ENV_MASTER_PORT);
}

/* Not even the primary name's owner can take this one before us.  @param owner  of the primary name, or NULL */
static enum accel_status
take_fallback (const struct engine_job *job, const struct bootstrap_address *primary, const struct peer *owner,
               int listener, struct accel_error *err)
{
    struct bootstrap_address address;
    struct peer other;
    int none;
    if (!can_list () || !bootstrap_fallback_address (primary, &address))
        return fail_blocked (primary, owner, err);
    if (ask_fallbacks (job, primary, &other, &none) == ANSWER_RANK_0)
        return fail_twice (&other, err);
    if (bind (listener, (struct sockaddr *) &address.un, address.length))
        return accel_fail_errno (err, "accel_open: cannot bind the socket @%s", bootstrap_address_text (&address));
    return ACCEL_OK;
}

/* A full queue may be that of another rank 0 with the same variables, which is stopped or slow: it is given time to
 * answer, so that both get an error.  It may also be another user's, who wants to be in the way; the kernel names the
 * owner only to those who are connected.  So after FULL_MS our ranks meet elsewhere, in both cases.  The other ranks
 * keep looking in both places, and have at least half of their time left by then. */
static enum accel_status
take_name (const struct engine_job *job, const struct bootstrap_address *primary, int listener,
           struct accel_error *err)
{
    int64_t begin = clock_ms (), timeout_ms = job->base.timeout_ms;
    int64_t deadline = begin + (timeout_ms < SILENCE_MS ? timeout_ms : SILENCE_MS);
    int64_t full_deadline = begin + (timeout_ms / 2 < FULL_MS ? timeout_ms / 2 : FULL_MS);

    struct peer owner;
    int none, refusals = 0;
    while (bind (listener, (const struct sockaddr *) &primary->un, primary->length)) {
        if (errno != EADDRINUSE)
            return accel_fail_errno (err, "accel_open: cannot bind the socket @%s", bootstrap_address_text (primary));
        enum answer answer = ask (job, primary, &owner, &none);
        if (answer == ANSWER_RANK_0)
            return fail_twice (&owner, err);
        if (answer == ANSWER_FOREIGN)
            return take_fallback (job, primary, &owner, listener, err);
        /* Or an earlier program of the same job is about to close its own. */
        if ((answer == ANSWER_NONE && ++refusals == REFUSALS)
            || (answer == ANSWER_FULL && clock_ms () >= full_deadline))
            return take_fallback (job, primary, NULL, listener, err);
        if (answer == ANSWER_SILENT && clock_ms () >= deadline)
            return fail_blocked (primary, &owner, err);
        nanosleep (&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    return ACCEL_OK;
}

static enum accel_status
host (struct engine_job *job, const struct bootstrap_address *primary, int *listener, struct accel_error *err)
{
    struct fail fail;
    const struct accel_engine_job *base = &job->base;
    if (jobseg_create (&job->segment, base->world_size, base->local_world_size, base->rank - base->local_rank,
                       bootstrap_address_text (primary), &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "accel_open: %.400s", fail.text);
    *listener = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0)
        return accel_fail_errno (err, "accel_open: cannot create a socket");
    enum accel_status status = take_name (job, primary, *listener, err);
    if (!status && listen (*listener, base->local_world_size))
        status = accel_fail_errno (err, "accel_open: cannot listen on the socket");
    return status;
}

static enum accel_status
fail_late (const struct engine_job *job, const struct bootstrap_address *primary, const struct peer *owner,
           struct accel_error *err)
{
    char text[256] = "";
    if (owner)
        peer_describe (owner, NULL, text, sizeof text);
    return accel_fail (err, ACCEL_ERR_TIMEOUT,
                       "accel_open: rank %d timed out after %u ms, waiting for rank 0 (socket @%s%s%s)",
                       job->base.rank, job->base.timeout_ms, bootstrap_address_text (primary),
                       owner ? ", in use by " : "", text);
}

/* Find rank 0, which may come later.  @return the segment's descriptor, or -1 with @err */
static int
find_segment (const struct engine_job *job, const struct bootstrap_address *primary, struct accel_error *err)
{
    int64_t now = clock_ms (), deadline = now + job->base.timeout_ms, silent_since = 0;
    struct peer owner, fallback_owner;
    int fd;
    bool blocked = false;
    for (unsigned tries = 0; now < deadline; now = clock_ms ()) {
        enum answer answer = ask (job, primary, &owner, &fd);
        if (answer == ANSWER_SEGMENT)
            return fd;
        blocked = answer == ANSWER_FOREIGN || answer == ANSWER_SILENT;
        if (tries++ % (blocked ? LOOK_OFTEN : LOOK_EVERY) == 0
            && ask_fallbacks (job, primary, &fallback_owner, &fd) == ANSWER_SEGMENT)
            return fd;
        silent_since = answer != ANSWER_SILENT ? 0 : silent_since ? silent_since : now;
        if ((silent_since && now - silent_since >= SILENCE_MS) || (answer == ANSWER_FOREIGN && !can_list ())) {
            fail_blocked (primary, &owner, err);
            return -1;
        }
        nanosleep (&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    fail_late (job, primary, blocked ? &owner : NULL, err);
    return -1;
}

enum accel_status
bootstrap_rendezvous (struct engine_job *job, int *listener, struct accel_error *err)
{
    struct bootstrap_address primary;
    struct accel_error why;
    struct fail fail;
    bootstrap_primary_address (job, &primary);
    if (job->base.local_rank == 0)
        return host (job, &primary, listener, err);
    int fd = find_segment (job, &primary, &why);
    if (fd < 0) {
        if (err)
            *err = why;
        return why.code;
    }
    if (jobseg_attach_fd (&job->segment, fd, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "accel_open: the job segment from rank 0: %.300s", fail.text);
    return ACCEL_OK;
}
