/* SPDX-License-Identifier: Apache-2.0 */
/* Making, mapping and reading the job segment; see jobseg.h. */
#include <config.h>

#include "util/jobseg.h"

#include "util/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *
jobseg_call_name (unsigned call)
{
    /* All in one object, found by where they begin in it: pointers would have to be relocated at every start. */
#define X(name, text) char name[sizeof text];
    static const struct names {
        JOBSEG_CALL_MAP (X)
#undef X
    } names = {
#define X(name, text) text,
        JOBSEG_CALL_MAP (X)
#undef X
    };
#define X(name, text) offsetof (struct names, name),
    static const uint16_t offsets[] = { JOBSEG_CALL_MAP (X) };
#undef X
    return call < JOBSEG_CALL_COUNT ? (const char *) &names + offsets[call] : "?";
}

static size_t
slots_offset (void)
{
    return (sizeof (struct jobseg_header) + 127) / 128 * 128;
}

static size_t
control_bytes (size_t local_world_size)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    size_t bytes = slots_offset () + local_world_size * sizeof (struct jobseg_slot);
    return (bytes + page - 1) / page * page;
}

static int
map (struct jobseg *segment, size_t bytes, struct fail *fail)
{
    void *memory = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (memory == MAP_FAILED)
        return fail_set (fail, FAIL_GENERAL, "cannot map the job segment: %s", strerror (errno));
    segment->header = memory;
    segment->mapped_bytes = bytes;
    return 0;
}

int
jobseg_create (struct jobseg *segment, int world_size, int local_world_size, int first_rank, const char *job_id,
               struct fail *fail)
{
    *segment = (struct jobseg) JOBSEG_NONE;
    if (local_world_size < 1 || local_world_size > JOBSEG_MAX_LOCAL)
        return fail_set (fail, FAIL_GENERAL, "%d processes on one host: expected 1 to %d", local_world_size,
                         JOBSEG_MAX_LOCAL);
    size_t bytes = control_bytes ((size_t) local_world_size);
    segment->fd = memfd_create ("accel-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* Touching memory beyond the end of a file means SIGBUS: no rank shall be able to do that to the others and us. */
    if (segment->fd < 0 || ftruncate (segment->fd, (off_t) bytes) || fcntl (segment->fd, F_ADD_SEALS, F_SEAL_SHRINK)) {
        fail_set (fail, FAIL_GENERAL, "cannot create the job segment (memfd of %zu bytes): %s", bytes,
                  strerror (errno));
        goto error;
    }
    if (map (segment, bytes, fail))
        goto error;
    struct jobseg_header *header = segment->header;
    header->slot_bytes = sizeof (struct jobseg_slot);
    header->slots_offset = (uint32_t) slots_offset ();
    header->world_size = (uint32_t) world_size;
    header->local_world_size = (uint32_t) local_world_size;
    header->first_rank = (uint32_t) first_rank;
    header->data_offset = bytes;
    header->started_s = time (NULL);
    snprintf (header->job_id, sizeof header->job_id, "%s", job_id);
    header->version = JOBSEG_VERSION;
    header->magic = JOBSEG_MAGIC;
    return 0;
error:
    jobseg_detach (segment);
    return -1;
}

/* What a stranger may have put there must not lead us outside the mapping. */
static int
check (const struct jobseg_header *header, size_t file_bytes, struct fail *fail)
{
    if (header->magic != JOBSEG_MAGIC)
        return fail_set (fail, FAIL_GENERAL, "not a job segment");
    if (header->version != JOBSEG_VERSION || header->slot_bytes != sizeof (struct jobseg_slot)
        || header->slots_offset != slots_offset ())
        return fail_set (fail, FAIL_GENERAL,
                         "the job segment has version %u, this libaccel has %d: use the launcher from the same release",
                         header->version, JOBSEG_VERSION);
    uint32_t local = header->local_world_size;
    if (local < 1 || local > JOBSEG_MAX_LOCAL || control_bytes (local) > file_bytes
        || header->data_offset != control_bytes (local))
        return fail_set (fail, FAIL_GENERAL, "the job segment is damaged");
    return 0;
}

int
jobseg_attach_fd (struct jobseg *segment, int fd, struct fail *fail)
{
    *segment = (struct jobseg){ .fd = fd };
    struct stat info;
    if (fstat (fd, &info)) {
        fail_set (fail, FAIL_GENERAL, "%s", strerror (errno));
        goto error;
    }
    if (!S_ISREG (info.st_mode) || (size_t) info.st_size < control_bytes (1)) {
        fail_set (fail, FAIL_GENERAL, "not a job segment");
        goto error;
    }
    if (map (segment, control_bytes (1), fail) || check (segment->header, (size_t) info.st_size, fail))
        goto error;
    size_t bytes = control_bytes (segment->header->local_world_size);
    munmap (segment->header, segment->mapped_bytes);
    segment->header = NULL;
    if (map (segment, bytes, fail))
        goto error;
    return 0;
error:
    jobseg_detach (segment);
    return -1;
}

int
jobseg_attach (struct jobseg *segment, const char *path, struct fail *fail)
{
    *segment = (struct jobseg) JOBSEG_NONE;
    int fd = open (path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    if (jobseg_attach_fd (segment, fd, fail))
        return fail_prefix (fail, "%s", path);
    return 0;
}

void
jobseg_detach (struct jobseg *segment)
{
    int saved = errno;
    if (segment->header)
        munmap (segment->header, segment->mapped_bytes);
    if (segment->fd >= 0)
        close (segment->fd);
    *segment = (struct jobseg) JOBSEG_NONE;
    errno = saved;
}

int
jobseg_grow (const struct jobseg *segment, size_t bytes)
{
    if (ftruncate (segment->fd, (off_t) bytes))
        return -1;
    /* Segments that are ordinary files, in tests, have no seals. */
    return fcntl (segment->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) && errno != EINVAL ? -1 : 0;
}

struct jobseg_slot *
jobseg_slot (const struct jobseg *segment, int local_rank)
{
    char *base = (char *) segment->header;
    return (struct jobseg_slot *) (void *) (base + slots_offset () + (size_t) local_rank * sizeof (struct jobseg_slot));
}

void
jobseg_mark_exit (struct jobseg *segment, int local_rank, int wait_status)
{
    struct jobseg_slot *slot = jobseg_slot (segment, local_rank);
    atomic_store (&slot->wait_status, wait_status);
    atomic_store (&slot->exited, 1);
}

bool
jobseg_latest (const struct jobseg_slot *slot, struct jobseg_record *record)
{
    uint64_t count = atomic_load (&slot->ledger_count);
    if (!count)
        return false;
    *record = slot->ledger[(count - 1) % JOBSEG_LEDGER];
    return record->generation == atomic_load (&slot->generation);
}

const char *
jobseg_file (const struct jobseg_slot *slot, const struct jobseg_record *record)
{
    if (record->file >= JOBSEG_FILES || record->file >= atomic_load (&slot->file_count))
        return "?";
    return slot->files[record->file];
}

/* Whether the process of @slot was stopped, by SIGSTOP or ^Z, or by a debugger.  Its number means something only within
 * one namespace. */
static const char *
find_stop (const struct jobseg_slot *slot)
{
    struct procfs_stat stat;
    pid_t pid = atomic_load (&slot->pid);
    if (pid <= 0 || pid == getpid () || atomic_load (&slot->exited)
        || atomic_load (&slot->pid_space) != procfs_pid_space () || !procfs_read_stat (pid, &stat))
        return NULL;
    return stat.state == 'T' ? "stopped by a signal" : stat.state == 't' ? "stopped by a debugger" : NULL;
}

void
jobseg_describe (const struct jobseg_slot *slot, char *text, size_t size)
{
    struct jobseg_record record;
    const char *stop;
    switch (atomic_load (&slot->state)) {
    case JOBSEG_EMPTY: snprintf (text, size, "not in accel_open() yet"); return;
    case JOBSEG_LEFT: snprintf (text, size, "has left the job (accel_close)"); return;
    case JOBSEG_FAILED: snprintf (text, size, "gave up: %.*s", (int) sizeof slot->reason, slot->reason); return;
    case JOBSEG_JOINING: snprintf (text, size, "in accel_open()"); return;
    default: break;
    }
    stop = find_stop (slot);
    if (!jobseg_latest (slot, &record)) {
        snprintf (text, size, "%s, no collective yet", stop ? stop : "computing");
        return;
    }
    snprintf (text, size, "%s%s%s %s at %.*s:%u", stop ? stop : record.done ? "computing" : "",
              stop || record.done ? " " : "", record.done ? "after" : "in", jobseg_call_name (record.call),
              JOBSEG_FILE_NAME, jobseg_file (slot, &record), record.line);
}

/* A rank shows signs of life while it is in a call, and none afterwards: the latest is from the end of its call. */
int64_t
jobseg_elapsed_ns (const struct jobseg_slot *slot)
{
    struct jobseg_record record;
    uint64_t since_ns, now_ns;
    if (atomic_load (&slot->state) != JOBSEG_READY)
        return -1;
    if (!jobseg_latest (slot, &record) || record.done)
        since_ns = atomic_load (&slot->heartbeat_ns);
    else
        since_ns = atomic_load (&slot->begun_ns);
    now_ns = jobseg_now_ns (); /* after what it is compared with, and clocks of two processors may differ a little */
    return !since_ns ? -1 : since_ns < now_ns ? (int64_t) (now_ns - since_ns) : 0;
}

void
jobseg_describe_failure (const struct jobseg_slot *slot, char *text, size_t size)
{
    snprintf (text, size, "failed in %.*s", (int) sizeof slot->failure_text, slot->failure_text);
}

void
jobseg_describe_exit (int wait_status, char *text, size_t size)
{
    if (WIFSIGNALED (wait_status)) {
        int number = WTERMSIG (wait_status);
        const char *name = sigabbrev_np (number);
        snprintf (text, size, "was killed by signal %d (SIG%s)", number, name ? name : "?");
    } else
        snprintf (text, size, "exited with status %d", WEXITSTATUS (wait_status));
}

int
jobseg_read_rank (const char *text, const char **rest)
{
    static const char word[] = "rank ";
    char *end;
    if (strncmp (text, word, sizeof word - 1) || text[sizeof word - 1] < '0' || text[sizeof word - 1] > '9')
        return -1;
    long rank = strtol (text + sizeof word - 1, &end, 10);
    if (rest)
        *rest = end;
    return rank > INT_MAX ? -1 : (int) rank;
}

int
jobseg_lost_rank (const char *doing)
{
    static const char gave_up[] = "gave up: ", open[] = "accel_open: ";
    static const char *const ends[] = { " ended ", " exited with ", " was killed by " };
    const char *at = doing;
    while (at && !strncmp (at, gave_up, sizeof gave_up - 1)) {
        at += sizeof gave_up - 1;
        at += strncmp (at, open, sizeof open - 1) ? 0 : sizeof open - 1;
        int rank = jobseg_read_rank (at, &at);
        for (size_t i = 0; rank >= 0 && i < sizeof ends / sizeof *ends; i++)
            if (!strncmp (at, ends[i], strlen (ends[i])))
                return rank;
        at = rank >= 0 && *at == ' ' ? at + 1 : NULL;
    }
    return -1;
}
