/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks find each other: a unique id names a process and a descriptor of it; their memory is shared, and
 * gone when the last rank is.  With NCCL_COMM_ID, the id is an address, where rank 0 says which process that is.
 * Processes of simulated hosts do not see each other: with STANDIN_NCCL_FOLDER, the memory is a file in that folder. */
#include <config.h>

#include "tests/standin/nccl_standin.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C (0x6e63636c2d737469)

enum { PATH_BYTES = 400, MOST_PIDS = 1000000, MEETING_S = 10 };

static const char *
find_folder (void)
{
    return getenv ("STANDIN_NCCL_FOLDER");
}

/* Hosts have processes of the same numbers. */
int
nccl_self (void)
{
    struct stat info;
    if (!find_folder () || stat ("/proc/self/ns/pid", &info))
        return (int) getpid ();
    return (int) (info.st_ino % 1000) * MOST_PIDS + (int) getpid ();
}

static void
find_path (int pid, int fd, char path[PATH_BYTES])
{
    const char *folder = find_folder ();
    if (folder)
        snprintf (path, PATH_BYTES, "%s/%d.%d", folder, pid, fd);
    else
        snprintf (path, PATH_BYTES, "/proc/%d/fd/%d", pid, fd);
}

static int
make_file (void)
{
    char made[PATH_BYTES], path[PATH_BYTES];
    snprintf (made, sizeof made, "%s/XXXXXX", find_folder ());
    int fd = mkostemp (made, O_CLOEXEC);
    find_path (nccl_self (), fd, path);
    if (fd < 0 || !rename (made, path))
        return fd;
    close (fd);
    return -1;
}

int
nccl_offer (void)
{
    int fd = find_folder () ? make_file () : memfd_create ("nccl-standin", MFD_CLOEXEC);
    static unsigned offers;
    const uint64_t start[] = { MAGIC, (uint64_t) nccl_self () << 16 | ++offers };
    if (fd < 0)
        return -1;
    if (!ftruncate (fd, sizeof (struct nccl_shared)) && pwrite (fd, start, sizeof start, 0) == sizeof start)
        return fd;
    close (fd);
    return -1;
}

struct nccl_shared *
nccl_attach (int pid, int fd)
{
    char path[PATH_BYTES];
    find_path (pid, fd, path);
    int own = open (path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return NULL;
    struct nccl_shared *shared
        = mmap (NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    close (own);
    return shared == MAP_FAILED || shared->magic != MAGIC ? NULL : shared;
}

/* ---- addresses ---- */

struct answers {
    int socket, fd, count;
};

bool
nccl_parse_address (const char *text, struct sockaddr_in *address)
{
    char host[64];
    unsigned short port;
    *address = (struct sockaddr_in){ .sin_family = AF_INET };
    if (sscanf (text, "%63[0-9.]:%hu", host, &port) != 2)
        return false;
    address->sin_port = htons (port);
    return inet_pton (AF_INET, host, &address->sin_addr) == 1;
}

/* To the other ranks, once each, as NCCL's root does. */
static void *
answer (void *user)
{
    struct answers *answers = user;
    char line[64];
    int length = snprintf (line, sizeof line, "%d %d", nccl_self (), answers->fd);
    for (int i = 1; i < answers->count; i++) {
        int peer = accept (answers->socket, NULL, NULL);
        if (peer >= 0 && write (peer, line, (size_t) length) != length)
            i--;
        close (peer);
    }
    close (answers->socket);
    free (answers);
    return NULL;
}

bool
nccl_listen (const char *text, int fd, int count)
{
    struct sockaddr_in address;
    pthread_t thread;
    struct answers *answers = malloc (sizeof *answers);
    int one = 1, own = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!answers || own < 0 || !nccl_parse_address (text, &address)
        || setsockopt (own, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)
        || bind (own, (const struct sockaddr *) &address, sizeof address) || listen (own, NCCL_RANKS))
        goto error;
    *answers = (struct answers){ own, fd, count };
    if (pthread_create (&thread, NULL, answer, answers))
        goto error;
    pthread_detach (thread);
    return true;
error:
    close (own);
    free (answers);
    return false;
}

bool
nccl_ask (const char *text, int *pid, int *fd)
{
    struct sockaddr_in address;
    bool good = false;
    time_t deadline = time (NULL) + MEETING_S;
    while (!good && time (NULL) < deadline && nccl_parse_address (text, &address)) {
        char line[64] = "";
        int own = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        /* There may be no process that refuses. */
        good = !setsockopt (own, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = 1 }, sizeof (struct timeval))
               && !connect (own, (const struct sockaddr *) &address, sizeof address)
               && read (own, line, sizeof line - 1) > 0 && sscanf (line, "%d %d", pid, fd) == 2;
        close (own);
        if (!good)
            usleep (10000);
    }
    return good;
}

struct ncclComm *
nccl_comm_make (struct nccl_shared *shared, int fd, int rank, int count, bool blocking)
{
    struct ncclComm *comm = calloc (1, sizeof *comm);
    if (!comm)
        abort ();
    comm->shared = shared;
    comm->fd = fd;
    comm->rank = rank;
    comm->count = count;
    comm->blocking = blocking;
    comm->is_meeting = true;
    comm->state = ncclInProgress;
    comm->next = nccl_comms; /* never freed, so that whoever uses one that is gone is found */
    nccl_comms = comm;
    nccl_note (&comm->made);
    struct nccl_member *self = &shared->members[rank];
    standin_device (&comm->device, self->bus, sizeof self->bus);
    if (self->pid)
        standin_report (NULL, NULL, "there are two ranks %d", rank);
    atomic_store (&self->pid, nccl_self ());
    return comm;
}

void
nccl_meet (struct ncclComm *comm)
{
    const struct nccl_member *members = comm->shared->members;
    for (int rank = 0; rank < comm->count; rank++)
        if (!atomic_load (&members[rank].pid))
            return;
    comm->is_meeting = false;
    comm->state = ncclSuccess;
    for (int a = 0; a < comm->count; a++)
        for (int b = 0; b < a; b++)
            if (!strcmp (members[a].bus, members[b].bus)) {
                snprintf (comm->words, sizeof comm->words, "Duplicate GPU detected : rank %d and rank %d both on %s", b,
                          a, members[a].bus);
                comm->state = ncclInvalidUsage;
            }
}

/* ---- splits ---- */

static bool
have_all (const struct ncclComm *comm, unsigned splits, bool done)
{
    for (int rank = 0; rank < comm->count; rank++) {
        const struct nccl_member *member = &comm->shared->members[rank];
        if (atomic_load (done ? &member->splits_done : &member->splits) < splits)
            return false;
    }
    return true;
}

static bool
comes_before (const struct nccl_member *members, int a, int b)
{
    return members[a].key != members[b].key ? members[a].key < members[b].key : a < b;
}

static struct ncclComm *
join (struct ncclComm *comm)
{
    const struct nccl_member *members = comm->shared->members;
    int first = comm->rank, rank = 0, count = 0;
    for (int other = 0; other < comm->count; other++) {
        if (members[other].colour != comm->colour)
            continue;
        count++;
        rank += comes_before (members, other, comm->rank);
        if (comes_before (members, other, first))
            first = other;
    }
    struct nccl_shared *shared = nccl_attach (members[first].pid, members[first].fd);
    return shared ? nccl_comm_make (shared, -1, rank, count, comm->blocking) : NULL;
}

/* Two offers are not taken at once: what one says must stay until all have read it. */
void
nccl_split (struct ncclComm *comm)
{
    struct nccl_member *self = &comm->shared->members[comm->rank];
    if (!comm->has_offered) {
        if (!have_all (comm, comm->splits, true))
            return;
        if (comm->splits && self->fd >= 0)
            close (self->fd); /* of the last split, which is over everywhere */
        self->colour = comm->colour;
        self->key = comm->key;
        self->fd = comm->colour >= 0 ? nccl_offer () : -1;
        comm->has_offered = true;
        atomic_store (&self->splits, ++comm->splits);
    }
    if (!have_all (comm, comm->splits, false))
        return;
    if (comm->colour >= 0 && !comm->newborn) {
        *comm->child = comm->newborn = join (comm);
        if (comm->newborn) {
            comm->newborn->is_unborn = true; /* like NCCL, which reports it later than it writes */
            return;
        }
    }
    if (comm->newborn)
        comm->newborn->is_unborn = false;
    comm->newborn = NULL;
    comm->state = comm->colour >= 0 && !*comm->child ? ncclSystemError : ncclSuccess;
    comm->is_splitting = comm->has_offered = false;
    atomic_store (&self->splits_done, comm->splits);
}
