/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for stalls in the ranks' ledgers; see stall.h.
 *
 * A rank that waits inside libaccel shows signs of life all the time, since it looks there for the ends of other ranks.
 * So it can be told from one that computes, or is blocked elsewhere, without asking it.
 *
 * A rank that computes while others wait may be in an endless loop, or in an evaluation that takes long: its processor
 * time is a sign of life that both give.  So such ranks have PATIENCE times as long, and until then there is a note. */
#include <config.h>

#include "launch/job/stall.h"

#include "util/clock.h"
#include "util/procfs.h"

#include <stdio.h>
#include <string.h>

enum {
    LOOKS = 8,            /* per timeout */
    IDLE_LOOKS = 3,       /* one after the other: then it does not compute any more */
    PATIENCE = 10,        /* timeouts, with ranks that compute */
    MOST_MS = 10000,      /* between looks */
    LEAST_MS = 50,
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

static bool
is_waiting (const struct jobseg_slot *slot)
{
    uint32_t state = atomic_load (&slot->state);
    uint64_t beat = atomic_load (&slot->heartbeat_ns), now = jobseg_now_ns ();
    bool lives = beat + UINT64_C (1000000) * SIGN_OF_LIFE_MS > now;
    return lives && (state == JOBSEG_JOINING || (state == JOBSEG_READY && is_in_call (slot)));
}

static bool
has_stopped (pid_t pid)
{
    struct procfs_stat stat;
    return pid > 0 && procfs_read_stat (pid, &stat) && (stat.state == 'T' || stat.state == 't');
}

/* What the main thread of @pid has worked, or would have if it had got a processor; 0: the kernel does not say. */
static uint64_t
work_of (pid_t pid)
{
    char text[96];
    unsigned long long ran_ns, waited_ns;
    bool is_known = pid > 0 && procfs_read (pid, "schedstat", text, sizeof text) > 0
                    && sscanf (text, "%llu %llu", &ran_ns, &waited_ns) == 2;
    return is_known ? ran_ns + waited_ns : 0;
}

/* Whether it works for at least half of the time. */
static void
look_at_work (struct stall_rank *seen, pid_t pid, int64_t now_ms)
{
    uint64_t work_ns = work_of (pid);
    int64_t worked_ms = work_ns > seen->work_ns ? (int64_t) (work_ns - seen->work_ns) / 1000000 : 0;
    bool is_idle = seen->is_stopped || !seen->work_ns || worked_ms * 2 < now_ms - seen->looked_ms;
    seen->idle_looks = is_idle ? seen->idle_looks + 1 : 0;
    seen->work_ns = work_ns;
    seen->looked_ms = now_ms;
}

/* A rank that was stopped begins anew when it continues. */
static void
look_at (struct stall_rank *seen, const struct job_rank *rank, const struct jobseg_slot *slot, int64_t now_ms)
{
    struct jobseg_record latest = { 0 };
    bool was_stopped = seen->is_stopped;
    pid_t pid = atomic_load (&slot->pid_space) == procfs_pid_space () ? atomic_load (&slot->pid) : rank->pid;
    jobseg_latest (slot, &latest);
    uint64_t sum = mix (atomic_load (&slot->ledger_count), latest.done);
    sum = mix (mix (sum, atomic_load (&slot->state)), atomic_load (&slot->generation));
    sum = mix (mix (sum, atomic_load (&slot->progress.step)), atomic_load (&slot->progress.version));
    seen->is_waiting = is_waiting (slot);
    seen->is_stopped = has_stopped (pid);
    look_at_work (seen, pid, now_ms);
    if (sum == seen->seen && !(was_stopped && !seen->is_stopped))
        return;
    seen->seen = sum;
    seen->since_ms = now_ms;
}

/* What the ranks of this host come to. */
struct view {
    int waiting;  /* for as long as the timeout */
    int held_up;  /* neither wait nor make progress, for as long */
    int stopped;  /* of these */
    int computing; /* of these */
    int active;   /* have done something since */
    int64_t waited_ms; /* the longest wait */
    int64_t computed_ms; /* the same of those that compute */
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
            bool computes = seen->idle_looks < IDLE_LOOKS;
            view.held_up++;
            view.stopped += seen->is_stopped;
            view.computing += computes;
            if (computes && now_ms - seen->since_ms > view.computed_ms)
                view.computed_ms = now_ms - seen->since_ms;
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

static void
put_headline (struct stall *stall, const struct job *job, const struct view *view, int64_t now_ms)
{
    struct strbuf *out = &stall->text;
    bool is_everywhere = job->plan->world_size == job->count;
    strbuf_add (out, "accelerate: warning: ");
    if (view->held_up) {
        int count = put_ranks (stall, job, false, now_ms, out);
        if (view->stopped == view->held_up)
            strbuf_printf (out, " %s stopped by a signal, until SIGCONT; ", count > 1 ? "are" : "is");
        else
            strbuf_printf (out, " %s made no progress; ", count > 1 ? "have" : "has");
        count = put_ranks (stall, job, true, now_ms, out);
        strbuf_printf (out, " %s been waiting for ", count > 1 ? "have" : "has");
    } else if (is_everywhere)
        strbuf_add (out, "all ranks are waiting for each other, for ");
    else
        strbuf_printf (out, "all ranks on %s are waiting for ranks on other hosts, or for each other, for ",
                       job->plan->host);
    stacks_put_seconds ((double) view->waited_ms / 1000, out);
    strbuf_add_char (out, '\n');
}

/* In place of a warning.  Who wants to know more can ask. */
static void
put_note (struct stall *stall, const struct job *job, const struct view *view, int64_t now_ms)
{
    struct strbuf *out = &stall->text;
    strbuf_add (out, "accelerate: note: ");
    int count = put_ranks (stall, job, false, now_ms, out);
    strbuf_printf (out, " %s been computing without a call of libaccel for ", count > 1 ? "have" : "has");
    stacks_put_seconds ((double) view->computed_ms / 1000, out);
    strbuf_add (out, ", and ");
    count = put_ranks (stall, job, true, now_ms, out);
    strbuf_printf (out, " %s waiting ('accelerate stacks %s' shows where; a warning comes after ",
                   count > 1 ? "are" : "is", job->plan->job_id);
    stacks_put_seconds ((double) (job->plan->stall_s * PATIENCE), out);
    strbuf_add (out, ")\n");
    stall->is_noted = true;
}

static void
finish_warning (struct stall *stall, struct job *job)
{
    json_t *ranks = stacks_finish (&stall->names, &stall->stacks);
    stacks_put (ranks, "  ", &stall->text);
    strbuf_add (&stall->text, "  the job continues; the next warning comes in ");
    stacks_put_seconds ((double) stall->pause_ms / 1000, &stall->text);
    strbuf_add (&stall->text, " (--stall_timeout)\n");
    json_decref (job->stacks);
    job->stacks = ranks;
    stall->pause_ms *= 2;
    stacks_release (&stall->stacks);
}

/* The stacks of all, because a rank that waits may be in the wrong place. */
static void
begin_warning (struct stall *stall, struct job *job, const struct view *view, int64_t now_ms)
{
    put_headline (stall, job, view, now_ms);
    for (int i = 0; i < job->count; i++)
        if (job->ranks[i].pid && !job->ranks[i].ended)
            stacks_add (&stall->stacks, &job->segment, i, job->ranks[i].pid);
    stacks_take (&stall->stacks, STACKS_WAIT_MS);
    stall->looked_ms = clock_ms ();
    stall->names_until_ms = now_ms + NAMES_MS;
    if (stacks_start (&stall->stacks, &stall->names))
        finish_warning (stall, job);
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
    if (view.computing && view.computing == view.held_up && view.computed_ms < job->plan->stall_s * 1000 * PATIENCE) {
        if (!stall->is_noted && !stall->warn_ms)
            put_note (stall, job, &view, now_ms);
        return;
    }
    if (!stall->warn_ms) {
        stall->warn_ms = now_ms;
        stall->pause_ms = job->plan->stall_s * 1000;
    }
    if (now_ms < stall->warn_ms)
        return;
    stall->warn_ms = now_ms + stall->pause_ms;
    begin_warning (stall, job, &view, now_ms);
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
        finish_warning (stall, job);
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
