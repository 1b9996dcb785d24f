/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the shm engine that live in one process: one of them acts, the others are what the test writes into shared
 * memory.  The system calls in which it would wait or fail are the test's as well, and so is the clock. */
#ifndef TESTS_SHM_PUPPETS_H
#define TESTS_SHM_PUPPETS_H

#include "lib/comm/bootstrap/bootstrap_object.h"
#include "lib/engines/shm/shm_private.h"
#include "tests/must.h"
#include "tests/tap.h"
#include "util/fail.h"
#include "util/procfs.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_RANKS = 64, WAITS = 100000, WOKEN = 16, TIMEOUT_MS = 300 };

/** How the system behaves; all zero is the usual. */
static struct {
    void (*waits) (void);           /* runs while the acting rank sleeps */
    int fallocate_error;            /* of calls that reserve, after @fallocate_good of them */
    int fallocate_good;
    int fallocate_times;            /* how often it fails; 0: always */
    bool no_files;                  /* sizes of files and their limits do not matter */
    bool no_mmap;
    rlim_t address_space;           /* not 0: RLIMIT_AS */
    long pages;                     /* not 0: of memory */
    int bind_error;
    int stranger;                   /* not 0: this many peers of sockets, from the next on, are of another user */
} told;

/** What the system saw. */
static struct {
    int64_t ms;
    unsigned waits;
    void *woken[WOKEN];
    unsigned wakes;
    unsigned holes;
    unsigned binds;
    uint32_t state_while_claiming;
    const _Atomic uint32_t *claimed;
} saw = { .ms = 1000 };

static struct jobseg segment = JOBSEG_NONE;
static struct shm *ranks[MOST_RANKS];
static struct bootstrap members[MOST_RANKS];
static struct watch watch; /* of the rank that acts */
static uint32_t calls;
static const struct comm_site here = { "here.c", 7, JOBSEG_CALL_ALL_REDUCE, NULL };

static void
pass (int64_t ms)
{
    saw.ms += ms;
    if (++saw.waits > WAITS) {
        printf ("Bail out! this wait has no end\n");
        fflush (stdout);
        _exit (1);
    }
    if (told.waits)
        told.waits ();
}

int __real_fallocate (int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate (int fd, int mode, off_t offset, off_t length);
int
__wrap_fallocate (int fd, int mode, off_t offset, off_t length)
{
    saw.holes += mode != 0;
    if (told.no_files)
        return 0;
    if (!mode && told.fallocate_error && told.fallocate_good-- <= 0) {
        errno = told.fallocate_error;
        if (told.fallocate_times && !--told.fallocate_times)
            told.fallocate_error = 0;
        return -1;
    }
    return __real_fallocate (fd, mode, offset, length);
}

long __real_syscall (long number, ...);
long __wrap_syscall (long number, ...);
long
__wrap_syscall (long number, ...)
{
    va_list args;
    va_start (args, number);
    if (number != SYS_futex) {
        int first = va_arg (args, int), second = va_arg (args, int); /* pidfd_open() has these two */
        void *info = number == SYS_pidfd_send_signal ? va_arg (args, void *) : NULL;
        va_end (args);
        return __real_syscall (number, first, second, info, 0);
    }
    void *word = va_arg (args, void *);
    int action = va_arg (args, int);
    (void) va_arg (args, unsigned);
    const struct timespec *limit = va_arg (args, const struct timespec *);
    va_end (args);
    if (action == FUTEX_WAKE)
        saw.woken[saw.wakes++ % WOKEN] = word;
    else
        pass ((int64_t) limit->tv_sec * 1000 + limit->tv_nsec / 1000000);
    return 0;
}

int __wrap_nanosleep (const struct timespec *wanted, struct timespec *rest);
int
__wrap_nanosleep (const struct timespec *wanted, struct timespec *rest)
{
    (void) rest;
    pass ((int64_t) wanted->tv_sec * 1000 + wanted->tv_nsec / 1000000);
    return 0;
}

int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    (void) clock;
    *now = (struct timespec){ .tv_sec = saw.ms / 1000, .tv_nsec = saw.ms % 1000 * 1000000 };
    return 0;
}

int __real_poll (struct pollfd *fds, nfds_t count, int wait_ms);
int __wrap_poll (struct pollfd *fds, nfds_t count, int wait_ms);
int
__wrap_poll (struct pollfd *fds, nfds_t count, int wait_ms)
{
    if (wait_ms > 0)
        pass (1);
    return __real_poll (fds, count, 0);
}

void *__real_mmap (void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap (void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *
__wrap_mmap (void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (told.no_mmap) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap (at, length, protection, flags, fd, offset);
}

int __real_getrlimit (__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit (__rlimit_resource_t resource, struct rlimit *limit);
int
__wrap_getrlimit (__rlimit_resource_t resource, struct rlimit *limit)
{
    int status = __real_getrlimit (resource, limit);
    if (resource == RLIMIT_AS && told.address_space)
        limit->rlim_cur = told.address_space;
    if (resource == RLIMIT_FSIZE && told.no_files)
        limit->rlim_cur = RLIM_INFINITY;
    return status;
}

int __real_ftruncate (int fd, off_t length);
int __wrap_ftruncate (int fd, off_t length);
int
__wrap_ftruncate (int fd, off_t length)
{
    return told.no_files ? 0 : __real_ftruncate (fd, length);
}

long __real_sysconf (int name);
long __wrap_sysconf (int name);
long
__wrap_sysconf (int name)
{
    return name == _SC_PHYS_PAGES && told.pages ? told.pages : __real_sysconf (name);
}

int __real_getsockopt (int fd, int level, int option, void *value, socklen_t *length);
int __wrap_getsockopt (int fd, int level, int option, void *value, socklen_t *length);
int
__wrap_getsockopt (int fd, int level, int option, void *value, socklen_t *length)
{
    int status = __real_getsockopt (fd, level, option, value, length);
    if (option == SO_PEERCRED && told.stranger) {
        told.stranger--;
        ((struct ucred *) value)->uid++;
    }
    return status;
}

int __real_bind (int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind (int fd, const struct sockaddr *address, socklen_t length);
int
__wrap_bind (int fd, const struct sockaddr *address, socklen_t length)
{
    saw.binds++;
    errno = told.bind_error;
    return told.bind_error ? -1 : __real_bind (fd, address, length);
}

int __real_stat (const char *path, struct stat *info);
int __wrap_stat (const char *path, struct stat *info);
int
__wrap_stat (const char *path, struct stat *info)
{
    if (saw.claimed)
        saw.state_while_claiming = atomic_load (saw.claimed);
    return __real_stat (path, info);
}

__attribute__ ((unused)) static bool
was_woken (const void *word)
{
    for (unsigned i = 0; i < saw.wakes && i < WOKEN; i++)
        if (saw.woken[i] == word)
            return true;
    return false;
}

/** One rank that has not joined. */
static struct shm *
make_rank (int rank, int size)
{
    struct shm *shm = calloc (1, sizeof *shm);
    shm->rank = shm->local_rank = rank;
    shm->size = size;
    shm->timeout_ms = TIMEOUT_MS;
    shm->pid = getpid ();
    shm->segment = segment;
    shm->slot = jobseg_slot (&segment, rank);
    if (!shm_make_scratch (shm))
        MUST (ACCEL_ERR_NOMEM);
    bootstrap_close (&members[rank]);
    members[rank] = (struct bootstrap){ .segment = segment, .slot = shm->slot, .rank = rank, .size = size,
                                        .timeout_ms = TIMEOUT_MS, .pid = getpid () };
    return shm;
}

/** A new segment, and ranks that have not joined. */
static void
make_ranks (int size)
{
    struct fail fail;
    memset (&told, 0, sizeof told);
    memset (saw.woken, 0, sizeof saw.woken);
    saw.wakes = saw.waits = saw.holes = 0;
    if (jobseg_create (&segment, size, size, 0, "puppets", &fail)) {
        printf ("Bail out! %s\n", fail.text);
        exit (99);
    }
    for (int r = 0; r < size; r++)
        ranks[r] = make_rank (r, size);
}

/** The same, joined; each has memory of its own mapped. */
__attribute__ ((unused)) static void
make_members (int size)
{
    make_ranks (size);
    for (int r = 0; r < size; r++) {
        ranks[r]->generation = members[r].generation = 1;
        members[r].source = watch_source_create (&segment, r, size, 1);
        atomic_store (&ranks[r]->slot->generation, 1);
        atomic_store (&ranks[r]->slot->pid, getpid ());
        atomic_store (&ranks[r]->slot->pid_space, procfs_pid_space ());
        atomic_store (&ranks[r]->slot->state, JOBSEG_READY);
    }
    MUST (shm_lay_out (ranks[0], &err));
    atomic_store (&segment.header->ready_generation, 1);
    for (int r = 0; r < size; r++)
        MUST (shm_map (ranks[r], &err));
}

/** Rank @p rank acts from now on, as one of the @p size ranks of @p transport; NULL members: of the world. */
__attribute__ ((unused)) static const struct accel_engine_helpers *
act (int rank, void *transport)
{
    const struct shm *shm = transport;
    watch_source_destroy (watch.source);
    watch = (struct watch){ .engine = &engine_shm, .transport = transport, .rank = shm->rank, .size = shm->size,
                            .members = shm->members, .timeout_ms = TIMEOUT_MS, .generation = 1, .calls = &calls };
    watch_init (&watch);
    watch.source = watch_source_create (&segment, rank, (int) segment.header->local_world_size, 1);
    return &watch.helpers;
}

static enum accel_status
exchange (void *context, const void *mine, void *all, size_t bytes, struct accel_error *error)
{
    return bootstrap_exchange (context, mine, all, bytes, error);
}

/** Open @p rank as comm_open() does. */
__attribute__ ((unused)) static enum accel_status
join (int rank, struct engine_job *job)
{
    const struct accel_engine_helpers helpers = { .context = &members[rank], .exchange = exchange };
    bootstrap_close (&members[rank]); /* of an attempt before */
    enum accel_status status = bootstrap_join (&members[rank], job, -1, &err);
    ranks[rank]->generation = members[rank].generation;
    if (!status)
        status = shm_connect (ranks[rank], &helpers, &err);
    if (status)
        bootstrap_leave (&members[rank], JOBSEG_FAILED, err.text);
    else
        bootstrap_ready (&members[rank]);
    return status;
}

/** Note @p call in the ledger of @p rank; all calls have number 1.  @return its record */
__attribute__ ((unused)) static struct jobseg_record *
note_call (int rank, const struct accel_engine_call *call)
{
    struct jobseg_slot *slot = ranks[rank]->slot;
    uint64_t sequence = atomic_load (&slot->ledger_count) + 1;
    struct jobseg_record *record = &slot->ledger[(sequence - 1) % JOBSEG_LEDGER];
    *record = (struct jobseg_record){
        .sequence = sequence, .generation = 1, .number = 1, .kind = (uint8_t) call->kind,
        .call = (uint8_t) engine_site (call)->call, .count = call->count, .dtype = (uint8_t) call->dtype,
        .op = (uint8_t) call->op, .root = (int16_t) call->root, .form = call->form,
        .line = (unsigned) engine_site (call)->line,
    };
    atomic_store (&slot->ledger_count, sequence);
    return record;
}

static void
end_ranks (void)
{
    watch_source_destroy (watch.source);
    memset (&watch, 0, sizeof watch);
    for (int r = 0; r < MOST_RANKS; r++) {
        bootstrap_close (&members[r]);
        shm_destroy (ranks[r]);
        ranks[r] = NULL;
    }
    jobseg_detach (&segment);
    memset (&told, 0, sizeof told);
    memset (&err, 0, sizeof err);
}

static void
is_error (enum accel_status status, enum accel_status wanted, const char *words)
{
    bool good = status == wanted && (status ? err.code == status && strstr (err.text, words) : !*words);
    if (!ok (good, "%s", *words ? words : "no error"))
        diag ("status %d: %s", (int) status, status ? err.text : "");
    memset (&err, 0, sizeof err);
}

__attribute__ ((unused)) static int
count_descriptors (void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct stat info;
        count += !fstat (fd, &info);
    }
    return count;
}

/** A process that lives until it is asked to end. */
__attribute__ ((unused)) static pid_t
make_process (void)
{
    pid_t pid = fork ();
    if (!pid)
        for (;;)
            pause ();
    return pid;
}

#endif
