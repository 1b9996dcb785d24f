/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for ranks that were stopped; see stops.h.
 *
 * The kernel tells a parent by SIGCHLD that a child has stopped or continued, so ranks that are children of ours cost
 * nothing until then.  A rank that a script has started is looked at in /proc once a second.  No event tells when one
 * joins the job, so ranks that have not joined are looked at in shared memory, less and less often.
 *
 * A stop is noted after SETTLE_MS, because shorter ones do no harm, and because ^Z reaches a rank at the terminal
 * before we hear of it.  A debugger's stops have another state ('t'): who debugs a rank knows that it is stopped. */
#include <config.h>

#include "launch/job/stops.h"

#include "launch/job/stall.h"
#include "launch/stacks/stacks.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    LOOK_MS = 1000,    /* between looks at other processes than children of ours */
    SOON_MS = 100,     /* the same after SIGCHLD, of which each end of a rank sends one */
    SETTLE_MS = 500,   /* that a rank has to stay as it is until a note */
    AGE_PART = 8,      /* of the job's age: after that, the next look for programs that join */
    GAP_MS = 1500,     /* that a look is late: we were stopped, too, or the machine slept */
    WAITING_MS = 100,  /* in one call */
    NOTES = 10,        /* at once */
    NOTE_MS = 60000,   /* and later one for each of these */
};

void
stops_expect (struct stops *stops)
{
    stops->is_signalled = true;
}

void
stops_pass_on (struct stops *stops, bool is_stop)
{
    stops->is_of_job = is_stop;
    stops->is_signalled = stops->is_gap = true;
}

static bool
has_opened (const struct jobseg_slot *slot)
{
    uint32_t state = atomic_load (&slot->state);
    return state == JOBSEG_JOINING || state == JOBSEG_READY;
}

/* The process that runs the rank's program: a rank may be a script that has started it. */
static pid_t
process_of (const struct job *job, int index)
{
    const struct jobseg_slot *slot = jobseg_slot (&job->segment, index);
    bool is_known = atomic_load (&slot->pid) > 0 && atomic_load (&slot->pid_space) == procfs_pid_space ();
    return is_known && has_opened (slot) ? atomic_load (&slot->pid) : job->ranks[index].pid;
}

/* @return the signal that has stopped @pid; 0: not known */
static int
find_signal (pid_t pid, const struct procfs_stat *stat)
{
    siginfo_t info = { 0 };
    if (!waitid (P_PID, (id_t) pid, &info, WSTOPPED | WNOHANG | WNOWAIT) && info.si_pid == pid)
        return info.si_status;
    return stat->exit_code & 0x7f; /* Linux 5.17 has it there, too, for who may read it */
}

static void
look_at (struct stop_rank *seen, pid_t pid, int64_t now_ms)
{
    struct procfs_stat stat;
    bool is_stopped = procfs_read_stat (pid, &stat) && stat.state == 'T', was_stopped = seen->is_stopped;
    int signal = is_stopped ? find_signal (pid, &stat) : seen->signal;
    if (is_stopped == was_stopped && signal == seen->signal)
        return;
    seen->is_stopped = is_stopped;
    seen->signal = signal;
    seen->changed_ms = now_ms;
    if (is_stopped && !was_stopped && !seen->is_noted)
        seen->stopped_ms = now_ms;
}

/* After a gap, all that is not noted yet begins anew: whoever stopped us and the ranks may be continuing them one by
 * one. */
static void
look (struct stops *stops, const struct job *job, int64_t now_ms)
{
    bool is_gap = stops->is_gap || now_ms - stops->look_ms >= GAP_MS;
    for (int i = 0; i < job->count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        struct stop_rank *seen = &stops->ranks[i];
        pid_t pid = process_of (job, i);
        if (!rank->pid || rank->ended)
            seen->is_stopped = seen->is_noted = false;
        else if (stops->is_signalled || seen->is_stopped || pid != rank->pid)
            look_at (seen, pid, now_ms);
        if (is_gap)
            seen->changed_ms = now_ms;
    }
    stops->is_signalled = stops->is_gap = false;
    stops->looked_ms = now_ms;
}

/* Whether the latest note about the rank does not say what is so now. */
static bool
is_news (const struct stop_rank *seen)
{
    return seen->is_stopped != seen->is_noted || (seen->is_stopped && seen->signal != seen->noted_signal);
}

/* Whether a note about the rank is due, or would be soon: the next ones go with the first. */
static bool
is_due (const struct stop_rank *seen, bool is_stop, int64_t now_ms, int64_t settle_ms)
{
    return seen->is_stopped == is_stop && is_news (seen) && now_ms - seen->changed_ms >= settle_ms;
}

/* @return when, after a look; INT64_MAX: when something happens */
static int64_t
find_next_look (const struct stops *stops, const struct job *job, int64_t now_ms)
{
    int64_t pause_ms = INT64_MAX, age_ms = (now_ms - stops->begun_ms) / AGE_PART;
    if (age_ms < LOOK_MS)
        age_ms = LOOK_MS;
    for (int i = 0; i < job->count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        const struct stop_rank *seen = &stops->ranks[i];
        int64_t rank_ms = INT64_MAX;
        if (!rank->pid || rank->ended)
            continue;
        if (is_news (seen)) /* if its note is due, there were too many */
            rank_ms = now_ms - seen->changed_ms < SETTLE_MS ? seen->changed_ms + SETTLE_MS - now_ms : LOOK_MS;
        else if (seen->is_stopped || process_of (job, i) != rank->pid)
            rank_ms = LOOK_MS;
        else if (!has_opened (jobseg_slot (&job->segment, i)))
            rank_ms = age_ms;
        if (rank_ms < pause_ms)
            pause_ms = rank_ms;
    }
    return pause_ms == INT64_MAX ? INT64_MAX : now_ms + pause_ms;
}

/* Append "rank 1", "ranks 1-3".  @param indices  [count] local ranks @return whether that is one */
static bool
put_ranks (const struct job *job, int *indices, int count, struct strbuf *out)
{
    for (int i = 0; i < count; i++)
        indices[i] = job->ranks[indices[i]].process->rank;
    strbuf_printf (out, "rank%s ", count > 1 ? "s" : "");
    stacks_put_ranks (indices, (size_t) count, out);
    return count == 1;
}

/* In which call the rank is, or after which.  Nothing if its program does not use libaccel. */
static void
put_place (const struct job *job, int index, bool is_one, struct strbuf *out)
{
    static const char *const words[] = { "stopped by a signal", "computing" }; /* where its process is not known */
    const struct jobseg_slot *slot = jobseg_slot (&job->segment, index);
    char text[640];
    if (!has_opened (slot))
        return;
    jobseg_describe (slot, text, sizeof text);
    const char *at = text;
    for (size_t i = 0; i < sizeof words / sizeof *words && at == text; i++)
        at += strncmp (text, words[i], strlen (words[i])) ? 0 : strlen (words[i]);
    at += strspn (at, ", ");
    strbuf_add (out, ", ");
    if (!is_one)
        strbuf_printf (out, "rank %d ", job->ranks[index].process->rank);
    strbuf_add (out, at);
}

static void
put_waiting (const struct stops *stops, const struct job *job, int *indices, struct strbuf *out)
{
    int count = 0;
    for (int i = 0; i < job->count; i++) {
        const struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        if (!stops->ranks[i].is_stopped && !job->ranks[i].ended && stall_is_waiting (slot)
            && jobseg_elapsed_ns (slot) >= WAITING_MS * INT64_C (1000000))
            indices[count++] = i;
    }
    if (!count)
        return;
    strbuf_add (out, "; ");
    bool is_one = put_ranks (job, indices, count, out);
    strbuf_printf (out, " %s waiting", is_one ? "is" : "are");
}

static void
put_signal (int signal, struct strbuf *out)
{
    const char *name = sigabbrev_np (signal);
    if (signal && name)
        strbuf_printf (out, "signal %d (SIG%s)", signal, name);
    else
        strbuf_add (out, "a signal");
}

/* SIGCONT does not help a rank that a terminal has stopped: it would stop again at once.
 * @param rank  the first of those that were */
static void
put_remedy (const struct job_rank *rank, long pid, int signal, bool is_one, struct strbuf *out)
{
    const char *who = is_one ? "it" : "they";
    if (signal == SIGTTIN || signal == SIGTTOU) {
        const char *does = signal == SIGTTIN ? (is_one ? "reads" : "read") : is_one ? "writes to" : "write to";
        strbuf_printf (out, "; %s %s the terminal in the background", who, does);
        if (rank->own_group)
            strbuf_add (out, ", and 'fg' brings only local rank 0 to the foreground\n");
        else
            strbuf_printf (out, ": 'fg' brings %s to the foreground\n", is_one ? "it" : "them");
    } else if (is_one)
        strbuf_printf (out, "; 'kill -CONT %ld' continues it\n", pid);
    else
        strbuf_add (out, "; SIGCONT continues them\n");
}

/* @param indices  [count] local ranks that one signal has stopped; also room for those of the job */
static void
put_stop (struct stops *stops, const struct job *job, int *indices, int count)
{
    struct strbuf *out = &stops->text;
    int first = indices[0];
    long pid = process_of (job, first);
    strbuf_add (out, "accelerate: note: ");
    bool is_one = put_ranks (job, indices, count, out);
    strbuf_printf (out, " (process %ld%s", pid, is_one ? "" : " and others");
    if (job->plan->world_size != job->count)
        strbuf_printf (out, " on %s", job->plan->host);
    strbuf_printf (out, ") %s stopped by ", is_one ? "was" : "were");
    put_signal (stops->ranks[first].signal, out);
    put_place (job, first, is_one, out);
    put_waiting (stops, job, indices, out);
    put_remedy (&job->ranks[first], pid, stops->ranks[first].signal, is_one, out);
}

static void
put_continued (struct stops *stops, const struct job *job, int *indices, int count)
{
    struct strbuf *out = &stops->text;
    int64_t most_ms = 0;
    for (int i = 0; i < count; i++) {
        const struct stop_rank *seen = &stops->ranks[indices[i]];
        if (seen->changed_ms - seen->stopped_ms > most_ms)
            most_ms = seen->changed_ms - seen->stopped_ms;
    }
    strbuf_add (out, "accelerate: note: ");
    bool is_one = put_ranks (job, indices, count, out);
    strbuf_add (out, is_one ? " continues, after " : " continue, after up to ");
    stacks_put_seconds ((double) most_ms / 1000, out);
    strbuf_add_char (out, '\n');
}

/* A rank that is stopped again and again gets no more notes than this. */
static bool
may_note (struct stops *stops, int64_t now_ms)
{
    int64_t paid_ms = stops->paid_ms > now_ms ? stops->paid_ms : now_ms;
    if (paid_ms - now_ms > (NOTES - 1) * (int64_t) NOTE_MS)
        return false;
    stops->paid_ms = paid_ms + NOTE_MS;
    return true;
}

/* One note about all ranks that were stopped by the same signal, or that continue, at nearly the same time. */
static void
note (struct stops *stops, const struct job *job, int first, bool is_stop, int64_t now_ms)
{
    int *indices = calloc ((size_t) job->count, sizeof *indices), count = 0;
    for (int i = 0; indices && i < job->count; i++)
        if (is_due (&stops->ranks[i], is_stop, now_ms, i == first ? SETTLE_MS : SETTLE_MS / 2)
            && (!is_stop || stops->ranks[i].signal == stops->ranks[first].signal))
            indices[count++] = i;
    for (int i = 0; i < count; i++) {
        struct stop_rank *seen = &stops->ranks[indices[i]];
        seen->is_noted = is_stop;
        seen->noted_signal = seen->signal;
    }
    if (count)
        (is_stop ? put_stop : put_continued) (stops, job, indices, count);
    free (indices);
}

static void
note_all (struct stops *stops, const struct job *job, int64_t now_ms)
{
    for (int i = 0; i < job->count; i++) {
        if (is_due (&stops->ranks[i], false, now_ms, SETTLE_MS))
            note (stops, job, i, false, now_ms);
        if (is_due (&stops->ranks[i], true, now_ms, SETTLE_MS) && may_note (stops, now_ms))
            note (stops, job, i, true, now_ms);
    }
}

int64_t
stops_serve (struct stops *stops, struct job *job)
{
    int64_t now_ms = clock_ms ();
    if (stops->is_over || job->plan->stall_s <= 0 || job->end != JOB_DONE || !job->alive)
        return INT64_MAX;
    if (!stops->begun_ms) {
        stops->begun_ms = stops->looked_ms = now_ms;
        stops->look_ms = now_ms + LOOK_MS;
        stops->ranks = calloc ((size_t) job->count, sizeof *stops->ranks);
        stops->is_over = !stops->ranks;
        return stops->is_over ? INT64_MAX : stops->look_ms;
    }
    int64_t look_ms = stops->looked_ms + (stops->is_signalled ? SOON_MS : LOOK_MS);
    if (!stops->is_of_job && (now_ms >= look_ms || now_ms >= stops->look_ms)) {
        look (stops, job, now_ms);
        note_all (stops, job, now_ms);
        stops->look_ms = find_next_look (stops, job, now_ms);
    }
    if (stops->text.length)
        output_sink_say_lines (job->sink_of[JOB_ERR], &stops->text);
    if (stops->is_of_job)
        return INT64_MAX;
    return stops->is_signalled && look_ms < stops->look_ms ? look_ms : stops->look_ms;
}

void
stops_end (struct stops *stops)
{
    strbuf_release (&stops->text);
    free (stops->ranks);
    *stops = (struct stops){ .is_over = true };
}
