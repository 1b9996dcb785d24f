/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for stalls in the ranks' ledgers; see stall.h.
 *
 * A rank that waits inside libaccel shows signs of life all the time, since it looks there for the ends of other ranks.
 * So it can be told from one that computes, or is blocked elsewhere, without asking it.
 *
 * A rank that computes while others wait may be in an endless loop, or in an evaluation that takes long: its processor
 * time is a sign of life that both give, whichever of its threads or child processes has used it.  So do bytes that it
 * reads and writes, the state of a process that waits for a disk or a file server, and a stack that ends in a driver of
 * a GPU.  So there is no warning of such ranks, but a note with their places, and PATIENCE times as late another one
 * with their stacks: who has written the program knows which of the two it is. */
#include <config.h>

#include "launch/job/stall.h"

#include "util/clock.h"
#include "util/procfs.h"

#include <stdio.h>
#include <string.h>

enum {
    LOOKS = 8,            /* per timeout */
    IDLE_LOOKS = 3,       /* one after the other: then it does not compute any more */
    PATIENCE = 10,        /* timeouts, with ranks that work */
    MOVED_BYTES = 65536,  /* each second: fewer may be of threads that wake each other, or look at /proc */
    MOST_MS = 10000,      /* between looks */
    LEAST_MS = 50,
    POLL_NS = 200000,     /* that a thread runs at most between two sleeps, if all it does is to look for something */
    SIGN_OF_LIFE_MS = 3000, /* waiting ranks give one each 50 ms, as far as they get a processor */
    NAMES_MS = 10000,     /* for the child that finds names: a file may be on a server that is down */
    NAMES_LOOK_MS = 20,
};

static int64_t
interval_ms (const struct job *job)
{
    int64_t interval = job->plan->stall_s * 1000 / LOOKS;
    return interval > MOST_MS ? MOST_MS : interval < LEAST_MS ? LEAST_MS : interval;
}

static uint64_t
mix (uint64_t sum, uint64_t word)
{
    return (sum ^ word) * UINT64_C (0x9e3779b97f4a7c15) + 1;
}

/* Whether a call of the rank is under way in which others take part.  It may have begun later ones. */
static bool
is_in_call (const struct jobseg_slot *slot)
{
    uint32_t generation = atomic_load (&slot->generation);
    uint64_t count = atomic_load (&slot->ledger_count);
    for (uint64_t i = 0; i < JOBSEG_LEDGER && i < count; i++) {
        const struct jobseg_record *record = &slot->ledger[(count - 1 - i) % JOBSEG_LEDGER];
        if (record->generation == generation && record->number && !record->done)
            return true;
    }
    return false;
}

bool
stall_is_waiting (const struct jobseg_slot *slot)
{
    uint32_t state = atomic_load (&slot->state);
    uint64_t beat = atomic_load (&slot->heartbeat_ns), now = jobseg_now_ns ();
    bool lives = beat + UINT64_C (1000000) * SIGN_OF_LIFE_MS > now;
    return lives && (state == JOBSEG_JOINING || (state == JOBSEG_READY && is_in_call (slot)));
}

/* '?': not known */
static char
state_of (pid_t pid)
{
    struct procfs_stat stat;
    return pid > 0 && procfs_read_stat (pid, &stat) ? stat.state : '?';
}

/* What @pid has read and written so far; 0: the kernel does not say. */
static uint64_t
moved_by (pid_t pid)
{
    char text[512];
    unsigned long long got, put;
    bool is_known = pid > 0 && procfs_read (pid, "io", text, sizeof text) > 0
                    && sscanf (text, "rchar: %llu wchar: %llu", &got, &put) == 2;
    return is_known ? got + put : 0;
}

static int64_t
grown_ms (uint64_t before_ns, uint64_t ns)
{
    return ns > before_ns ? (int64_t) (ns - before_ns) / 1000000 : 0;
}

/* A thread that polls would hardly run, however many processors were free: it only waits longer for one on a busy
 * machine.  One that runs for longer than it sleeps does not poll, however short both are.  What it does is known again
 * when it has run: the kernel counts a delay when it is over. */
static void
look_at_first (struct stall_rank *seen, const struct process_thread *first, int64_t now_ms)
{
    uint64_t ran_ns = first->ran_ns - seen->ran.ran_ns, sleeps = first->sleeps - seen->ran.sleeps;
    int64_t rest_ms = now_ms - seen->ran_ms - grown_ms (seen->ran.delayed_ns, first->delayed_ns);
    if (!ran_ns)
        return;
    seen->polls = ran_ns / POLL_NS < sleeps && (int64_t) (ran_ns / 500000) < rest_ms;
    seen->ran = *first;
    seen->ran_ms = now_ms;
}

/* What it has worked, and would have worked with processors of its own.  The delays of threads that end are no longer
 * counted. */
static int64_t
find_work_ms (const struct stall_rank *seen, const struct process_use *use)
{
    uint64_t then_ns = seen->delayed_ns - (seen->polls ? seen->first.delayed_ns : 0);
    uint64_t now_ns = use->delayed_ns - (seen->polls ? use->first.delayed_ns : 0);
    return grown_ms (seen->cpu_ns, use->cpu_ns) + grown_ms (then_ns, now_ns);
}

/* Whether it works for at least half of the time, waits for a disk, or gets on with files. */
static void
look_at_work (struct stall_rank *seen, pid_t pid, char state, int64_t now_ms)
{
    struct process_use use = process_find_use (pid);
    uint64_t bytes = moved_by (pid);
    int64_t elapsed_ms = now_ms - seen->looked_ms;
    look_at_first (seen, &use.first, now_ms);
    int64_t worked_ms = find_work_ms (seen, &use);
    uint64_t moved = seen->moved_bytes && bytes > seen->moved_bytes ? bytes - seen->moved_bytes : 0;
    bool is_ready = use.is_ready || (use.first.is_ready && !seen->polls);
    bool is_starved = is_ready && !worked_ms; /* the kernel counts a delay when it is over */
    bool computes = seen->cpu_ns && (worked_ms * 2 >= elapsed_ms || is_starved);
    bool uses_files = state == 'D' || (int64_t) moved * 1000 >= MOVED_BYTES * elapsed_ms;
    bool is_idle = seen->is_stopped || (!computes && !uses_files);
    seen->idle_looks = is_idle ? seen->idle_looks + 1 : 0;
    if (!is_idle)
        seen->work = computes ? STALL_COMPUTES : STALL_USES_FILES;
    seen->cpu_ns = use.cpu_ns;
    seen->delayed_ns = use.delayed_ns;
    seen->first = use.first;
    seen->moved_bytes = bytes;
    seen->looked_ms = now_ms;
}

/* A rank that was stopped begins anew when it continues. */
static void
look_at (struct stall_rank *seen, const struct job_rank *rank, const struct jobseg_slot *slot, int64_t now_ms)
{
    struct jobseg_record latest = { 0 };
    bool was_stopped = seen->is_stopped;
    char state;
    pid_t pid = atomic_load (&slot->pid_space) == procfs_pid_space () ? atomic_load (&slot->pid) : rank->pid;
    jobseg_latest (slot, &latest);
    uint64_t sum = mix (atomic_load (&slot->ledger_count), latest.done);
    sum = mix (mix (sum, atomic_load (&slot->state)), atomic_load (&slot->generation));
    sum = mix (mix (sum, atomic_load (&slot->progress.step)), atomic_load (&slot->progress.version));
    seen->is_waiting = stall_is_waiting (slot);
    state = state_of (pid);
    seen->is_stopped = state == 'T' || state == 't';
    look_at_work (seen, pid, state, now_ms);
    if (sum == seen->seen && !(was_stopped && !seen->is_stopped))
        return;
    seen->seen = sum;
    seen->since_ms = now_ms;
    seen->is_on_gpu = false;
}

/* What a rank that makes no progress does. */
static enum stall_work
work_kind (const struct stall_rank *seen)
{
    if (seen->idle_looks < IDLE_LOOKS)
        return seen->work;
    return seen->is_on_gpu && !seen->is_stopped ? STALL_USES_GPU : STALL_IDLE;
}

/* What the ranks of this host come to. */
struct view {
    int waiting;  /* for as long as the timeout */
    int held_up;  /* neither wait nor make progress, for as long */
    int stopped;  /* of these */
    int working;   /* of these */
    enum stall_work work; /* that all of them do; STALL_IDLE: not the same */
    int active;   /* have done something since */
    int64_t waited_ms; /* the longest wait */
    int64_t worked_ms; /* the same of those that work */
};

static bool
counts (const struct job *job, int index)
{
    uint32_t state = atomic_load (&jobseg_slot (&job->segment, index)->state);
    return job->ranks[index].pid && !job->ranks[index].ended && state != JOBSEG_LEFT && state != JOBSEG_FAILED;
}

static bool
is_late (const struct stall *stall, const struct job *job, int index, int64_t now_ms)
{
    return now_ms - stall->ranks[index].since_ms >= job->plan->stall_s * 1000;
}

static struct view
find_view (const struct stall *stall, const struct job *job, int64_t now_ms)
{
    struct view view = { 0 };
    for (int i = 0; i < job->count; i++) {
        const struct stall_rank *seen = &stall->ranks[i];
        if (!counts (job, i))
            continue;
        if (!is_late (stall, job, i, now_ms))
            view.active++;
        else if (seen->is_waiting) {
            view.waiting++;
            if (now_ms - seen->since_ms > view.waited_ms)
                view.waited_ms = now_ms - seen->since_ms;
        } else {
            enum stall_work work = work_kind (seen);
            view.held_up++;
            view.stopped += seen->is_stopped;
            if (!work)
                continue;
            view.work = !view.working++ || view.work == work ? work : STALL_IDLE;
            if (now_ms - seen->since_ms > view.worked_ms)
                view.worked_ms = now_ms - seen->since_ms;
        }
    }
    return view;
}

/* Ranks that are waiting, or those that are not; all of them late. */
static int
put_ranks (const struct stall *stall, const struct job *job, bool waiting, int64_t now_ms, struct strbuf *out)
{
    int *ranks = calloc ((size_t) job->count, sizeof *ranks);
    int count = 0;
    for (int i = 0; ranks && i < job->count; i++)
        if (counts (job, i) && is_late (stall, job, i, now_ms) && stall->ranks[i].is_waiting == waiting)
            ranks[count++] = job->ranks[i].process->rank;
    strbuf_printf (out, "rank%s ", count > 1 ? "s" : "");
    stacks_put_ranks (ranks, (size_t) count, out);
    free (ranks);
    return count;
}

/* No rank of this host keeps others waiting.  @return whether ranks of other hosts may do */
static bool
waits_for_hosts (const struct job *job, const struct view *view)
{
    return !view->held_up && job->plan->world_size != job->count;
}

static const char waiting_host[] = "all ranks on %s are waiting for ranks on other hosts, or for each other";

static void
put_headline (struct stall *stall, const struct job *job, const struct view *view, int64_t now_ms)
{
    struct strbuf *out = &stall->text;
    strbuf_add (out, "accelerate: warning: ");
    if (view->held_up) {
        int count = put_ranks (stall, job, false, now_ms, out);
        if (view->stopped == view->held_up)
            strbuf_printf (out, " %s stopped by a signal, until SIGCONT; ", count > 1 ? "are" : "is");
        else
            strbuf_printf (out, " %s made no progress; ", count > 1 ? "have" : "has");
        count = put_ranks (stall, job, true, now_ms, out);
        strbuf_printf (out, " %s been waiting for ", count > 1 ? "have" : "has");
    } else {
        strbuf_printf (out, waits_for_hosts (job, view) ? waiting_host : "all ranks are waiting for each other",
                       job->plan->host);
        strbuf_add (out, ", for ");
    }
    stacks_put_seconds ((double) view->waited_ms / 1000, out);
    strbuf_add_char (out, '\n');
}

/* In place of a warning. */
static void
put_work (struct stall *stall, const struct job *job, const struct view *view, int64_t now_ms)
{
    static const char *const works[] = { "working", "computing", "busy with files", "waiting for a GPU" };
    struct strbuf *out = &stall->text;
    strbuf_add (out, "accelerate: note: ");
    if (waits_for_hosts (job, view)) {
        strbuf_printf (out, waiting_host, job->plan->host);
    } else {
        int count = put_ranks (stall, job, false, now_ms, out);
        strbuf_printf (out, " %s been %s without a call of libaccel for ", count > 1 ? "have" : "has",
                       works[view->work]);
        stacks_put_seconds ((double) view->worked_ms / 1000, out);
        strbuf_add (out, ", and ");
        count = put_ranks (stall, job, true, now_ms, out);
        strbuf_printf (out, " %s waiting", count > 1 ? "are" : "is");
    }
}

/* The places follow; who wants to know more can ask. */
static void
put_note (struct stall *stall, const struct job *job, const struct view *view, int64_t now_ms)
{
    struct strbuf *out = &stall->text;
    put_work (stall, job, view, now_ms);
    strbuf_printf (out, " ('accelerate stacks %s' shows the stacks, and so does the note after ", job->plan->job_id);
    stacks_put_seconds ((double) (job->plan->stall_s * PATIENCE), out);
    strbuf_add (out, ")\n");
}

/* An endless loop has to be found; a long evaluation is not to look like a failure. */
static void
put_late_note (struct stall *stall, const struct job *job, const struct view *view, int64_t now_ms)
{
    struct strbuf *out = &stall->text;
    put_work (stall, job, view, now_ms);
    if (view->held_up)
        strbuf_add (out, ": long work, or an endless loop?\n");
    else {
        strbuf_add (out, ", for ");
        stacks_put_seconds ((double) view->waited_ms / 1000, out);
        strbuf_add_char (out, '\n');
    }
}

/* A kernel may take long, as an evaluation may.
 * @return whether all ranks that keep others waiting work, some of them on a GPU, and none for too long yet */
static bool
wait_for_gpus (struct stall *stall, const struct job *job, const json_t *ranks)
{
    bool are_all_working = true, is_one_on_gpu = false;
    for (int i = 0; i < job->count; i++) {
        struct stall_rank *seen = &stall->ranks[i];
        if (!counts (job, i) || seen->is_waiting || !is_late (stall, job, i, stall->looked_ms))
            continue;
        if (seen->idle_looks >= IDLE_LOOKS)
            seen->is_on_gpu = stacks_show_gpu (ranks, job->ranks[i].process->rank);
        bool has_time = stall->looked_ms - seen->since_ms < job->plan->stall_s * 1000 * PATIENCE;
        are_all_working = are_all_working && has_time && work_kind (seen) != STALL_IDLE;
        is_one_on_gpu = is_one_on_gpu || work_kind (seen) == STALL_USES_GPU;
    }
    return are_all_working && is_one_on_gpu;
}

/* Of @ranks (see stacks_finish()), those that keep others waiting.  NULL without memory */
static json_t *
find_held_up (const struct stall *stall, const struct job *job, const json_t *ranks)
{
    json_t *found = json_array ();
    for (int i = 0; i < job->count; i++) {
        bool is_held_up = counts (job, i) && !stall->ranks[i].is_waiting && is_late (stall, job, i, stall->looked_ms);
        for (size_t j = 0; is_held_up && j < json_array_size (ranks); j++) {
            json_t *rank = json_array_get (ranks, j);
            if (json_integer_value (json_object_get (rank, "rank")) == job->ranks[i].process->rank)
                json_array_append (found, rank);
        }
    }
    return found;
}

/* A late note shows the stacks of those that work; where all ranks are waiting, of all. */
static void
put_stacks (struct stall *stall, const struct job *job, const json_t *ranks)
{
    bool is_late_note = stall->kind == STALL_LATE_NOTE;
    json_t *working = is_late_note ? find_held_up (stall, job, ranks) : NULL;
    stacks_put (json_array_size (working) ? working : ranks, "  ", &stall->text);
    json_decref (working);
    strbuf_printf (&stall->text, "  the job continues; the next %s comes in ", is_late_note ? "note" : "warning");
    stacks_put_seconds ((double) stall->pause_ms / 1000, &stall->text);
    strbuf_add (&stall->text, " (--stall_timeout), and ranks wait until their timeout (--timeout)\n");
}

static void
finish (struct stall *stall, struct job *job)
{
    json_t *ranks = stacks_finish (&stall->names, &stall->stacks);
    stacks_release (&stall->stacks);
    if (stall->kind == STALL_NOTE) {
        stacks_put_places (ranks, "  ", &stall->text);
        json_decref (ranks);
        return;
    }
    if (wait_for_gpus (stall, job, ranks)) {
        json_decref (ranks);
        strbuf_release (&stall->text); /* the next look has a note in its place */
        stall->warn_ms = 0;
        return;
    }
    put_stacks (stall, job, ranks);
    json_decref (job->stacks);
    job->stacks = ranks;
    stall->pause_ms *= 2;
}

/* The stacks of all, because a rank that waits may be in the wrong place; but the first note disturbs only those that
 * it names. */
static void
begin (struct stall *stall, struct job *job, enum stall_kind kind, const struct view *view, int64_t now_ms)
{
    static void (*const puts[]) (struct stall *, const struct job *, const struct view *, int64_t) = {
        [STALL_WARNING] = put_headline, [STALL_NOTE] = put_note, [STALL_LATE_NOTE] = put_late_note,
    };
    stall->kind = kind;
    puts[kind] (stall, job, view, now_ms);
    for (int i = 0; i < job->count; i++) {
        bool is_named = !view->held_up
                        || (counts (job, i) && !stall->ranks[i].is_waiting && is_late (stall, job, i, now_ms));
        if (job->ranks[i].pid && !job->ranks[i].ended && (is_named || kind != STALL_NOTE))
            stacks_add (&stall->stacks, &job->segment, i, job->ranks[i].pid);
    }
    stacks_take (&stall->stacks, STACKS_WAIT_MS);
    stall->looked_ms = clock_ms ();
    stall->names_until_ms = now_ms + NAMES_MS;
    if (stacks_start (&stall->stacks, &stall->names))
        finish (stall, job);
}

/* We were stopped with them, or the machine slept. */
static void
forget_gap (struct stall *stall, const struct job *job, int64_t now_ms)
{
    if (now_ms - stall->looked_ms > 3 * interval_ms (job))
        for (int i = 0; i < job->count; i++)
            stall->ranks[i].since_ms = now_ms;
    stall->looked_ms = now_ms;
}

static void
look (struct stall *stall, struct job *job, int64_t now_ms)
{
    forget_gap (stall, job, now_ms);
    for (int i = 0; i < job->count; i++)
        if (counts (job, i))
            look_at (&stall->ranks[i], &job->ranks[i], jobseg_slot (&job->segment, i), now_ms);
    struct view view = find_view (stall, job, now_ms);
    if (!view.waiting || (!view.held_up && view.active)) {
        stall->warn_ms = 0;
        stall->is_noted = false;
        return;
    }
    /* The launcher of another host names its ranks, or sees them work. */
    bool are_all_working = view.held_up ? view.working == view.held_up : waits_for_hosts (job, &view);
    int64_t worked_ms = view.held_up ? view.worked_ms : view.waited_ms;
    if (are_all_working && worked_ms < job->plan->stall_s * 1000 * PATIENCE) {
        if (!stall->is_noted && !stall->warn_ms) {
            stall->is_noted = true;
            begin (stall, job, STALL_NOTE, &view, now_ms);
        }
        return;
    }
    if (!stall->warn_ms)
        stall->pause_ms = job->plan->stall_s * 1000 * (are_all_working ? PATIENCE : 1);
    bool has_stopped_working = stall->kind == STALL_LATE_NOTE && !are_all_working;
    if (stall->warn_ms && now_ms < stall->warn_ms && !has_stopped_working)
        return;
    stall->warn_ms = now_ms + stall->pause_ms;
    begin (stall, job, are_all_working ? STALL_LATE_NOTE : STALL_WARNING, &view, now_ms);
}

int64_t
stall_serve (struct stall *stall, struct job *job)
{
    int64_t now_ms = clock_ms ();
    if (job->plan->stall_s <= 0 || job->end != JOB_DONE || !job->alive || (!stall->ranks && stall->look_ms))
        return INT64_MAX;
    if (!stall->look_ms) {
        stall->ranks = calloc ((size_t) job->count, sizeof *stall->ranks);
        stall->look_ms = stall->looked_ms = now_ms;
    }
    if (stall->names.pid)
        forget_gap (stall, job, now_ms); /* finding names may take longer than what would be one */
    if (stall->names.pid && (stacks_read (&stall->names) || now_ms >= stall->names_until_ms))
        finish (stall, job);
    if (stall->ranks && now_ms >= stall->look_ms) {
        if (!stall->names.pid)
            look (stall, job, now_ms);
        stall->look_ms = clock_ms () + interval_ms (job);
    }
    if (stall->text.length && !stall->names.pid)
        output_sink_say_lines (job->sink_of[JOB_ERR], &stall->text);
    return stall->names.pid ? now_ms + NAMES_LOOK_MS : stall->look_ms;
}

void
stall_end (struct stall *stall)
{
    if (stall->names.pid)
        json_decref (stacks_finish (&stall->names, &stall->stacks));
    stacks_release (&stall->stacks);
    strbuf_release (&stall->text);
    free (stall->ranks);
    *stall = (struct stall){ .look_ms = INT64_MAX };
}
