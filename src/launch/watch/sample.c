/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a job; see sample.h.  Ranks write while this reads, and a stranger may have written anything. */
#include <config.h>

#include "launch/watch/sample.h"

#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/envnames.h"
#include "util/procfs.h"

#include <string.h>

/* ---- processes of ranks that have not opened, as those of programs that do not know libaccel ---- */

/* @return -1: its environment does not say */
static int
read_local_rank (pid_t pid)
{
    enum { MOST = 1 << 18 };
    AUTO_FREE char *text = malloc (MOST);
    ssize_t length = text ? procfs_read (pid, "environ", text, MOST) : -1;
    for (const char *at = text; length > 0 && at < text + length; at += strlen (at) + 1)
        if (!strncmp (at, ENV_LOCAL_RANK "=", sizeof ENV_LOCAL_RANK))
            return (int) strtol (at + sizeof ENV_LOCAL_RANK, NULL, 10);
    return -1;
}

/* Of children of the supervisor; a single one is the rank whatever it says, as mpirun is. */
static void
find_processes (const struct watch_job *job, struct sample *sample)
{
    pid_t *children = NULL;
    size_t count = job->is_supervised ? process_children (job->holder, &children) : 0;
    for (size_t i = 0; i < count; i++) {
        int local = count == 1 && job->rank_count == 1 ? 0 : read_local_rank (children[i]);
        if (local < 0 || local >= sample->count || sample->ranks[local].pid || sample->ranks[local].has_ended)
            continue;
        sample->ranks[local].pid = children[i];
        sample->ranks[local].has_descendants = true;
    }
    free (children);
}

/* ---- the segment ---- */

/* The newest record, if it is whole: its rank may be writing it.  @return whether there is one */
static bool
read_latest (const struct jobseg_slot *slot, struct jobseg_record *record)
{
    return atomic_load (&slot->state) == JOBSEG_READY && !atomic_load (&slot->exited) && jobseg_latest (slot, record)
           && record->sequence == atomic_load (&slot->ledger_count);
}

/* Values that a rank is writing right now, and once more if so, are left out. */
static void
read_values (const struct jobseg_progress *progress, struct sample_rank *rank)
{
    for (int tries = 0; tries < 100; tries++) {
        uint32_t version = atomic_load_explicit (&progress->version, memory_order_acquire);
        uint32_t count = progress->value_count;
        rank->value_count = count < JOBSEG_VALUES ? count : JOBSEG_VALUES;
        memcpy (rank->values, progress->values, sizeof rank->values);
        jobseg_fence_reads ();
        if (!(version & 1) && version == atomic_load_explicit (&progress->version, memory_order_relaxed))
            break;
        rank->value_count = 0;
    }
    for (uint32_t i = 0; i < rank->value_count; i++)
        rank->values[i].name[JOBSEG_VALUE_NAME - 1] = '\0';
}

static void
read_slot (const struct jobseg_slot *slot, struct sample_rank *rank)
{
    struct jobseg_record record;
    const struct jobseg_progress *progress = &slot->progress;
    rank->state = atomic_load (&slot->state);
    rank->has_ended = atomic_load (&slot->exited);
    rank->wait_status = rank->has_ended ? atomic_load (&slot->wait_status) : -1;
    rank->step = atomic_load (&progress->step);
    rank->step_ns = atomic_load (&progress->step_ns);
    rank->first_step = atomic_load (&progress->first_step);
    rank->first_ns = atomic_load (&progress->first_ns);
    rank->waited_ns = atomic_load (&progress->waited_ns);
    rank->call = read_latest (slot, &record) && !record.done ? record.sequence : 0;
    read_values (progress, rank);
    if (!rank->has_ended && rank->state != JOBSEG_EMPTY && atomic_load (&slot->pid_space) == procfs_pid_space ())
        rank->pid = atomic_load (&slot->pid) > 0 ? atomic_load (&slot->pid) : 0;
    if (rank->has_ended)
        jobseg_describe_exit (rank->wait_status, rank->doing, sizeof rank->doing);
    else
        jobseg_describe (slot, rank->doing, sizeof rank->doing);
}

/* What the head has been told; if it writes for longer than that takes, nothing. */
static void
read_told (const struct jobseg_told *told, struct sample_rank *rank, struct jobseg_told *copy)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t version = atomic_load_explicit (&told->version, memory_order_acquire);
        memcpy (copy, told, sizeof *copy);
        jobseg_fence_reads ();
        if (!(version & 1) && version == atomic_load_explicit (&told->version, memory_order_relaxed))
            break;
        copy->ns = 0;
    }
    copy->host[JOBSEG_HOST_NAME - 1] = copy->doing[JOBSEG_DOING - 1] = '\0';
    rank->now_ns = copy->ns;
    rank->is_remote = copy->is_remote;
    memcpy (rank->host, copy->host, sizeof rank->host);
}

static void
read_slot_of_head (const struct jobseg_slot *slot, struct sample_rank *rank, uint64_t now_ns)
{
    struct jobseg_told told;
    read_told (&slot->told, rank, &told);
    double age_s = (double) (now_ns > told.ns ? now_ns - told.ns : 0) / 1e9;
    rank->pid = rank->has_ended ? 0 : atomic_load (&slot->pid);
    rank->cpu_ns = told.cpu_ns;
    rank->memory = told.memory;
    rank->gpu = told.gpu;
    rank->has_descendants = rank->state == JOBSEG_EMPTY;
    rank->process_state = (char) told.process_state;
    rank->has_ended = rank->has_ended || told.process_state == 'Z' || told.host_state == JOBSEG_HOST_ENDED;
    rank->is_silent = told.host_state == JOBSEG_HOST_LOST
                      || (told.host_state == JOBSEG_HOST_RUNS && age_s * 1000 > SAMPLE_SILENCE_MS);
    if (told.host_state == JOBSEG_HOST_LOST)
        snprintf (rank->doing, sizeof rank->doing, "host %s is lost", told.host);
    else if (rank->is_silent && !told.ns)
        snprintf (rank->doing, sizeof rank->doing, "host %s has not answered yet", told.host);
    else if (rank->is_silent)
        snprintf (rank->doing, sizeof rank->doing, "host %s has not answered for %.0f s; before: %.256s", told.host,
                  age_s, told.doing);
    else
        memcpy (rank->doing, told.doing, sizeof rank->doing);
}

static void
read_process (struct sample_rank *rank)
{
    struct procfs_stat stat;
    if (!rank->pid || rank->has_ended)
        return;
    if (!procfs_read_stat (rank->pid, &stat) || stat.state == 'Z') {
        rank->has_ended = true; /* of a rank under another launcher, only /proc shows it */
        snprintf (rank->doing, sizeof rank->doing, "has ended");
        return;
    }
    rank->process_state = stat.state;
    rank->cpu_ns = stat.cpu_ticks * (1000000000u / (uint64_t) sysconf (_SC_CLK_TCK));
    rank->memory = stat.resident_pages * (uint64_t) sysconf (_SC_PAGESIZE);
    if (rank->has_descendants) {
        struct process_use use = process_find_use (rank->pid);
        rank->cpu_ns = use.cpu_ns;
        rank->memory = use.memory;
    }
}

/* Ranks that have saved one more than others are about to be followed by them. */
static void
read_saved (const struct watch_job *job, struct sample *sample)
{
    for (int i = 0; i < job->rank_count; i++) {
        struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        uint64_t saved = atomic_load (&slot->saved_step), in_memory = atomic_load (&slot->memory_step);
        sample->saved_step = !i || saved < sample->saved_step ? saved : sample->saved_step;
        sample->memory_step = !i || in_memory < sample->memory_step ? in_memory : sample->memory_step;
    }
}

int
sample_take (struct sample *sample, const struct watch_job *job, struct fail *fail)
{
    *sample = (struct sample){ .now_ns = (uint64_t) clock_ns (), .count = job->rank_count };
    sample->ranks = calloc ((size_t) sample->count, sizeof *sample->ranks);
    if (!sample->ranks)
        return fail_nomem (fail);
    bool all_known = true;
    for (int i = 0; i < sample->count; i++) {
        struct sample_rank *rank = &sample->ranks[i];
        rank->rank = job->first_rank + i;
        rank->now_ns = sample->now_ns;
        read_slot (jobseg_slot (&job->segment, i), rank);
        if (job->hosts)
            read_slot_of_head (jobseg_slot (&job->segment, i), rank, sample->now_ns);
        all_known &= rank->pid || rank->has_ended || job->hosts;
    }
    if (!all_known)
        find_processes (job, sample);
    read_saved (job, sample);
    for (int i = 0; i < sample->count && !job->hosts; i++)
        read_process (&sample->ranks[i]);
    return 0;
}

void
sample_release (struct sample *sample)
{
    free (sample->ranks);
    *sample = (struct sample){ 0 };
}

int
sample_count_alive (const struct sample *sample)
{
    int alive = 0;
    for (int i = 0; i < sample->count; i++)
        alive += !sample->ranks[i].has_ended;
    return alive;
}

/* ---- who waits for whom ---- */

bool
sample_is_message (const struct jobseg_record *record)
{
    switch (record->call) {
    case JOBSEG_CALL_SEND:
    case JOBSEG_CALL_RECV:
    case JOBSEG_CALL_TENSOR_SEND:
    case JOBSEG_CALL_TENSOR_RECV:
    case JOBSEG_CALL_TREE_SEND:
    case JOBSEG_CALL_TREE_RECV:
    case JOBSEG_CALL_SEND_OBJECT_LIST:
    case JOBSEG_CALL_RECV_OBJECT_LIST: return true;
    default: return false;
    }
}

/* @return the number of the latest collective of @comm that @slot has begun; 0: none that is still in its ledger */
static uint32_t
find_number (const struct jobseg_slot *slot, uint64_t comm)
{
    uint64_t count = atomic_load (&slot->ledger_count);
    uint32_t generation = atomic_load (&slot->generation);
    for (uint64_t i = count; i > 0 && count - i < JOBSEG_LEDGER; i--) {
        struct jobseg_record record = slot->ledger[(i - 1) % JOBSEG_LEDGER];
        if (record.comm == comm && record.generation == generation && record.number && !sample_is_message (&record))
            return record.number;
    }
    return 0;
}

/* A rank that has left, or has ended, comes no more. */
static bool
may_come (const struct jobseg_slot *slot)
{
    return !atomic_load (&slot->exited) && atomic_load (&slot->state) == JOBSEG_READY;
}

/* For whom @record, in which rank @self is, has to wait. */
static int
find_missing (const struct watch_job *job, int self, const struct jobseg_record *record, bool *awaited)
{
    int first = AWAITS_NONE;
    for (int i = 0; i < job->rank_count; i++) {
        const struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        if (i == self || !may_come (slot))
            continue;
        uint32_t number = find_number (slot, record->comm);
        if (number >= record->number || (record->comm && !number))
            continue; /* it has come, or is not a member */
        awaited[i] = true;
        first = first == AWAITS_NONE ? job->first_rank + i : first;
    }
    return first;
}

/* A partner that is in a call of its own may be about to answer. */
static int
find_partner (const struct watch_job *job, const struct jobseg_record *record, bool *awaited)
{
    struct jobseg_record other;
    int i = record->root - job->first_rank;
    if (record->comm || record->root < 0)
        return AWAITS_NONE;
    if (i < 0 || i >= job->rank_count)
        return AWAITS_OTHER_HOSTS;
    const struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
    if (!may_come (slot) || (read_latest (slot, &other) && !other.done))
        return AWAITS_NONE;
    awaited[i] = true;
    return record->root;
}

void
sample_find_awaited (const struct watch_job *job, bool *awaited, int *awaits)
{
    struct jobseg_record record, seen = { 0 };
    int result = AWAITS_NONE;
    memset (awaited, 0, (size_t) job->rank_count * sizeof *awaited);
    for (int i = 0; i < job->rank_count; i++) {
        awaits[i] = AWAITS_NONE;
        if (!read_latest (jobseg_slot (&job->segment, i), &record) || record.done || !record.number)
            continue;
        if (sample_is_message (&record)) {
            awaits[i] = find_partner (job, &record, awaited);
            continue;
        }
        if (!seen.number || record.comm != seen.comm || record.number != seen.number) { /* else as the one before */
            result = find_missing (job, i, &record, awaited);
            seen = record;
        }
        awaits[i] = result;
    }
}
