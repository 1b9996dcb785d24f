/* SPDX-License-Identifier: Apache-2.0 */
/* Under another launcher: local rank 0 makes the job segment and hands its descriptor to the others over a socket with
 * an abstract name, which vanishes with its owner.  Both sides check that the other is the same user. */
#include <config.h>

#include "lib/backends/shm/shm_private.h"

#include "lib/error.h"
#include "util/cleanup.h"
#include "util/envnames.h"

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What a client says first, and what it hears with the descriptor. */
struct hello {
    uint64_t magic;
    uint32_t version;
    uint32_t local_rank;
    uint32_t local_world_size;
    uint32_t spare;
};

/* What tells one job from another on this host; those that a launcher does not set are empty. */
static const char *const identifying[] = {
    ENV_MASTER_ADDR, ENV_MASTER_PORT, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "MV2_COMM_WORLD_ID", "SLURM_JOB_ID", "SLURM_STEP_ID",
};

/* FNV-1a, with a separator after each part. */
static uint64_t
hash (uint64_t value, const char *text)
{
    do
        value = (value ^ (unsigned char) *text) * UINT64_C (0x100000001b3);
    while (*text++);
    return value;
}

static socklen_t
job_address (const struct backend_job *job, struct sockaddr_un *address)
{
    uint64_t value = UINT64_C (0xcbf29ce484222325);
    char sizes[64];
    for (size_t i = 0; i < sizeof identifying / sizeof *identifying; i++) {
        const char *text = getenv (identifying[i]);
        value = hash (value, text ? text : "");
    }
    snprintf (sizes, sizeof sizes, "%d/%d", job->identity.world_size, job->identity.local_world_size);
    value = hash (value, sizes);
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int length = snprintf (address->sun_path + 1, sizeof address->sun_path - 1, "accel-%u-%016llx",
                           (unsigned) geteuid (), (unsigned long long) value);
    return (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + (size_t) length);
}

static bool
is_same_user (int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return !getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid ();
}

static bool
is_readable (int fd, int wait_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    return poll (&poll_fd, 1, wait_ms) == 1;
}

static bool
send_segment (int fd, const struct hello *reply, int segment_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE (sizeof (int))];
    } control = { 0 };
    struct iovec part = { .iov_base = (void *) (uintptr_t) reply, .iov_len = sizeof *reply };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control.bytes };
    struct cmsghdr *header = CMSG_FIRSTHDR (&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN (sizeof (int));
    memcpy (CMSG_DATA (header), &segment_fd, sizeof segment_fd);
    return sendmsg (fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t) sizeof *reply;
}

/* @return the descriptor that came with @reply, or -1 */
static int
receive_segment (int fd, struct hello *reply)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE (sizeof (int))];
    } control = { 0 };
    struct iovec part = { .iov_base = reply, .iov_len = sizeof *reply };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control.bytes };
    int received = -1;
    ssize_t length = recvmsg (fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *header = length > 0 ? CMSG_FIRSTHDR (&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS
        && header->cmsg_len == CMSG_LEN (sizeof (int)))
        memcpy (&received, CMSG_DATA (header), sizeof received);
    if (received >= 0 && length != (ssize_t) sizeof *reply) {
        close (received);
        return -1;
    }
    return received;
}

static struct hello
introduce (const struct backend_job *job)
{
    return (struct hello){ .magic = JOBSEG_MAGIC, .version = JOBSEG_VERSION,
                           .local_rank = (uint32_t) job->identity.local_rank,
                           .local_world_size = (uint32_t) job->identity.local_world_size };
}

void
shm_rendezvous_serve (const struct backend_job *job, int listener, int wait_ms)
{
    struct hello hello, reply = introduce (job);
    if (!is_readable (listener, wait_ms))
        return;
    AUTO_CLOSE int client = accept4 (listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0 || !is_same_user (client) || !is_readable (client, 1000))
        return;
    if (recv (client, &hello, sizeof hello, 0) != (ssize_t) sizeof hello || hello.magic != reply.magic
        || hello.version != reply.version || hello.local_world_size != reply.local_world_size)
        return;
    send_segment (client, &reply, job->segment.fd);
}

static enum accel_status
host (struct backend_job *job, int *listener, struct accel_error *err)
{
    struct sockaddr_un address;
    socklen_t length = job_address (job, &address);
    struct fail fail;
    const struct identity *identity = &job->identity;
    if (jobseg_create (&job->segment, identity->world_size, identity->local_world_size,
                       identity->rank - identity->local_rank, address.sun_path + 1, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "accel_open: %.400s", fail.text);
    int64_t deadline = clock_ms () + job->timeout_ms;
    *listener = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0)
        return accel_fail_errno (err, "accel_open: socket");
    /* An earlier program of the same job may be about to close its own. */
    while (bind (*listener, (struct sockaddr *) &address, length)) {
        if (errno != EADDRINUSE || clock_ms () >= deadline)
            return accel_fail_errno (err,
                                     "accel_open: cannot take the socket @%s: does another job on this host have the "
                                     "same %s?",
                                     address.sun_path + 1, ENV_MASTER_PORT);
        nanosleep (&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    if (listen (*listener, identity->local_world_size))
        return accel_fail_errno (err, "accel_open: listen");
    return ACCEL_OK;
}

/* One attempt.  @return the segment's descriptor, or -1: try again */
static int
ask (const struct backend_job *job, const struct sockaddr_un *address, socklen_t length)
{
    struct hello hello = introduce (job), reply;
    AUTO_CLOSE int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect (fd, (const struct sockaddr *) address, length) || !is_same_user (fd))
        return -1;
    if (send (fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t) sizeof hello || !is_readable (fd, 1000))
        return -1;
    int received = receive_segment (fd, &reply);
    if (received >= 0 && (reply.magic != hello.magic || reply.version != hello.version)) {
        close (received);
        return -1;
    }
    return received;
}

enum accel_status
shm_rendezvous (struct backend_job *job, int *listener, struct accel_error *err)
{
    struct sockaddr_un address;
    struct fail fail;
    if (job->identity.local_rank == 0)
        return host (job, listener, err);
    socklen_t length = job_address (job, &address);
    int64_t deadline = clock_ms () + job->timeout_ms;
    for (;;) {
        int fd = ask (job, &address, length);
        if (fd >= 0 && jobseg_attach_fd (&job->segment, fd, &fail))
            return accel_fail (err, ACCEL_ERR_SYSTEM, "accel_open: the segment of rank 0: %.300s", fail.text);
        if (fd >= 0)
            return ACCEL_OK;
        if (clock_ms () >= deadline)
            return accel_fail (err, ACCEL_ERR_TIMEOUT,
                               "accel_open: rank %d has waited for %u ms, the timeout, for rank 0 (socket @%s)",
                               job->identity.rank, job->timeout_ms, address.sun_path + 1);
        nanosleep (&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
}
