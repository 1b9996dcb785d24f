/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of ranks and of jobs; see supervisor.h. */
#include <config.h>

#include "launch/job/supervisor.h"

#include "launch/job/port_lock.h"
#include "launch/machine/cgroup.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    REPEAT_MS = 250,    /* timeout(1) and similar send a signal to us and to our group: that is one */
    STOP_STACKS_MS = 50, /* for ranks to show their stacks before they are told to end */
};

/* A rank that has joined another group may have left its children in its own. */
static void
signal_group (const struct job_rank *rank, int signal)
{
    bool is_reached = !kill (-rank->pid, signal);
    if (!is_reached || getpgid (rank->pid) != rank->pid)
        kill (rank->pid, signal);
}

/* Who asks for a checkpoint does not want to end a program that does not know how. */
static bool
would_end (const struct job_rank *rank, int signal)
{
    return signal == SIGUSR1 && !procfs_takes_signal (rank->pid, signal);
}

/* A rank that has its own group gets the signal with all its children.  One that is in the guardian's, because it reads
 * the terminal, has got a signal of the terminal already. */
static void
signal_ranks (struct supervisor *supervisor, int signal, bool of_terminal)
{
    const struct job *job = supervisor->job;
    for (int i = 0; i < job->count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        if (!rank->pid || rank->ended || (!rank->own_group && of_terminal) || would_end (rank, signal))
            continue;
        if (rank->own_group)
            signal_group (rank, signal);
        else
            kill (rank->pid, signal);
    }
}

void
shutdown_kill_ranks (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    supervisor->deadline_ms = 0;
    if (job->killed < job->alive)
        job->killed = job->alive;
    signal_ranks (supervisor, SIGKILL, false);
}

/* @param signal  0: they have been asked in another way */
static void
stop_ranks (struct supervisor *supervisor, int signal, bool of_terminal)
{
    int64_t grace_s = supervisor->job->plan->grace_s;
    if (grace_s <= 0) {
        shutdown_kill_ranks (supervisor);
        return;
    }
    supervisor->deadline_ms = clock_ms () + grace_s * 1000;
    if (signal)
        signal_ranks (supervisor, signal, of_terminal);
    signal_ranks (supervisor, SIGCONT, false); /* a stopped one could not end */
}

void
shutdown_fail_ranks (struct supervisor *supervisor)
{
    request_end (supervisor->job);
    stop_ranks (supervisor, SIGTERM, false);
}

/* What rank @index has failed in, if that was the last that it did; 0: nothing. */
static uint32_t
last_failure (const struct job *job, int index)
{
    const struct jobseg_slot *slot = jobseg_slot (&job->segment, index);
    uint32_t failure = atomic_load (&slot->failure);
    return failure && atomic_load (&slot->failure_count) == atomic_load (&slot->ledger_count) ? failure : 0;
}

/* What ranks are doing is of interest at the moment of a failure or a signal, not after they were told to end.
 * @param also  a rank that has ended and counts all the same; -1: none */
static void
note_doing (struct job *job, int also)
{
    for (int i = 0; i < job->count; i++) {
        struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        char text[640];
        if (job->ranks[i].doing || (job->ranks[i].ended && i != also))
            continue;
        if (i == job->first_failed && last_failure (job, i) && WIFEXITED (job->failed_status))
            jobseg_describe_failure (slot, text, sizeof text);
        else
            jobseg_describe (slot, text, sizeof text);
        job->ranks[i].doing_ns = jobseg_elapsed_ns (slot);
        if (atomic_load (&slot->state) != JOBSEG_EMPTY)
            job->ranks[i].doing = strdup (text);
    }
}

/* Where the ranks are that have not ended: all of them, or those that are in no call of the library, or do not use it
 * but show where they are. */
static void
take_stacks (struct job *job, bool all, int wait_ms)
{
    static const char computing[] = "computing";
    if (job->taken.count)
        return;
    for (int i = 0; i < job->count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        bool computes = rank->doing ? !strncmp (rank->doing, computing, sizeof computing - 1)
                                    : stacks_has_python (rank->pid);
        if (rank->pid && !rank->ended && (all || computes))
            stacks_add (&job->taken, &job->segment, i, rank->pid);
    }
    stacks_take (&job->taken, wait_ms);
}

/* Ranks end together if a call about checkpoints fails because of one of them, whose end may be seen later. */
static int
find_cause (const struct job *job, int index)
{
    if (last_failure (job, index) & JOBSEG_FAILURE && !(last_failure (job, index) & JOBSEG_FAILURE_OWN))
        for (int i = 0; i < job->count; i++)
            if (last_failure (job, i) & JOBSEG_FAILURE_OWN)
                return i;
    return index;
}

static void
note_failure (struct supervisor *supervisor, int index)
{
    struct job *job = supervisor->job;
    const struct job_rank *failed = &job->ranks[index];
    job->end = JOB_FAILED;
    job->first_failed = WIFEXITED (failed->wait_status) ? find_cause (job, index) : index;
    job->failed_status = failed->wait_status;
    if (job->observer && job->observer->failed)
        job->observer->failed (job, job->observer);
    if (WIFSIGNALED (failed->wait_status) && WTERMSIG (failed->wait_status) == SIGKILL)
        job->out_of_memory = job->oom_kills_before >= 0 && cgroup_oom_kills () > job->oom_kills_before;
    note_doing (job, index);
    if (failed->doing && strstr (failed->doing, " timed out after "))
        take_stacks (job, true, STACKS_WAIT_MS);
}

/* The kernel closes the files of a process before its end can be seen.  Ranks that fail because of that, here or on
 * other machines, may be noticed first: a rank that is ending without having been told to may be the cause. */
static void
note_ending (struct job *job)
{
    job->failed_ns = clock_ns ();
    for (int i = 0; i < job->count; i++) {
        struct job_rank *rank = &job->ranks[i];
        rank->was_ending = rank->pid && !rank->ended && procfs_is_ending (rank->pid);
        job->ending += rank->was_ending;
    }
}

/* Whether a signal that came to us came to the rank, too, and from the same sender.  Launchers below an agent get
 * theirs from the head, which sends ranks nothing. */
static bool
is_of_same_signal (const struct supervisor *supervisor, int wait_status)
{
    const struct job_observer *observer = supervisor->job->observer;
    return supervisor->stop_signal == WTERMSIG (wait_status) && !(observer && observer->failed);
}

/* Whether the rank that seemed the first to fail has said that it gave up because rank @index had ended. */
static bool
is_named (const struct job *job, int index)
{
    const char *doing = job->end == JOB_FAILED ? job->ranks[job->first_failed].doing : NULL;
    return doing && jobseg_lost_rank (doing) == job->ranks[index].process->rank;
}

/* Whether the head has ended the job.  It knows what ranks of other hosts have said about those of this one. */
static bool
is_stopped_by_head (const struct job *job)
{
    return job->end == JOB_STOPPED && job->observer && job->observer->failed;
}

/* Whether other machines know which rank was the first to fail here: all say the same, also if they are wrong. */
static bool
is_final (const struct job *job)
{
    return job->observer && job->observer->peers && job->observer->peers->is_final;
}

/* Whether rank @index, which has ended, is to blame for what seemed the first failure. */
static bool
is_cause (const struct supervisor *supervisor, int index)
{
    const struct job *job = supervisor->job;
    const struct job_rank *rank = &job->ranks[index];
    bool has_cause = job->end == JOB_FAILED && !status_may_follow (job->ranks[job->first_failed].wait_status);
    bool may_be = !status_may_follow (rank->wait_status) || is_named (job, index) || is_stopped_by_head (job);
    return rank->was_ending && !has_cause && may_be && !is_final (job)
           && !is_of_same_signal (supervisor, rank->wait_status);
}

static void
end_rank (struct supervisor *supervisor, int index, int wait_status)
{
    struct job *job = supervisor->job;
    struct job_rank *rank = &job->ranks[index];
    rank->ended = true;
    rank->wait_status = wait_status;
    job->alive--;
    job->ending -= rank->was_ending;
    jobseg_mark_exit (&job->segment, index, wait_status);
    close (rank->pidfd);
    rank->pidfd = -1;
    if (wait_status == 0 || (job->end != JOB_DONE && !is_cause (supervisor, index)))
        return;
    relay_read_rank (supervisor, index);
    if (job->end != JOB_DONE) {
        note_failure (supervisor, index);
        return;
    }
    note_ending (job);
    note_failure (supervisor, index);
    shutdown_fail_ranks (supervisor);
}

/* The rank whose save failed comes before those that only missed its files. */
void
shutdown_check_saves (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    uint32_t worst = JOBSEG_FAILURE_LOST - 1;
    int failed = -1;
    for (int i = 0; i < job->count && job->end == JOB_DONE; i++) {
        uint32_t failure = atomic_load (&jobseg_slot (&job->segment, i)->failure);
        if (failure > worst) {
            worst = failure;
            failed = i;
        }
    }
    if (failed < 0)
        return;
    job->failed_ns = clock_ns ();
    note_failure (supervisor, failed);
}

void
shutdown_note_agreed (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    bool has_agreed = job_has_agreed (job), all_succeeded = true;
    for (int i = 0; i < job->count; i++)
        all_succeeded = all_succeeded && job->ranks[i].ended && !job->ranks[i].wait_status;
    if (job->end == JOB_DONE && has_agreed) {
        job->end = JOB_STOPPED;
        job->was_rank_asked = true;
        job->stop_reason = "as a signal to a rank asked";
    } else if (job->end == JOB_STOPPED && job->has_asked && !has_agreed && all_succeeded) {
        job->end = JOB_DONE; /* what was asked came after their last step */
        job->signal = 0;
        job->stop_reason = NULL;
    }
}

void
shutdown_reap_rank (struct supervisor *supervisor, int index)
{
    struct job_rank *rank = &supervisor->job->ranks[index];
    struct rusage usage;
    int status;
    if (rank->ended || wait4 (rank->pid, &status, WNOHANG, &usage) != rank->pid)
        return;
    rank->peak_bytes = usage.ru_maxrss * INT64_C (1024);
    rank->cpu_ms = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C (1000)
                   + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
    end_rank (supervisor, index, status);
}

/* @return -1: it is not a rank that may end */
static int
find_rank (const struct job *job, pid_t pid)
{
    for (int i = 0; i < job->count; i++)
        if (job->ranks[i].pid == pid && !job->ranks[i].ended)
            return i;
    return -1;
}

/* Ranks that have ended since the supervisor has looked, in the order in which they did. */
static void
reap_ranks (struct supervisor *supervisor)
{
    struct epoll_event events[256];
    int count = epoll_wait (supervisor->epoll, events, sizeof events / sizeof *events, 0);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 >> 32 == EVENT_RANK)
            shutdown_reap_rank (supervisor, (int) (uint32_t) events[i].data.u64);
        else if (events[i].data.u64 >> 32 == EVENT_PORT_LOCK)
            port_lock_answer (supervisor->job->port_lock); /* the only event that epoll does not report again */
}

/* Orphans of the job come to us, for we are their subreaper; as zombies they must not stay.  waitpid() has an order of
 * its own, in which a rank that failed because of another one may be the first. */
static void
reap_orphans (struct supervisor *supervisor)
{
    siginfo_t info = { 0 };
    int status;
    for (int index; !waitid (P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid; info.si_pid = 0) {
        if ((index = find_rank (supervisor->job, info.si_pid)) >= 0)
            reap_ranks (supervisor);
        if (index >= 0 && !supervisor->job->ranks[index].ended)
            shutdown_reap_rank (supervisor, index);
        else if (index < 0)
            waitpid (info.si_pid, &status, WNOHANG);
    }
}

static bool
died_of (const struct job *job, int signal)
{
    int status = job->ranks[job->first_failed].wait_status;
    return WIFSIGNALED (status) && WTERMSIG (status) == signal;
}

bool
shutdown_may_be_of_terminal (const struct supervisor *supervisor)
{
    const struct job *job = supervisor->job;
    return job->end == JOB_FAILED && !supervisor->stop_ms && (died_of (job, SIGINT) || died_of (job, SIGQUIT));
}

/* No rank is to blame. */
static void
set_stopped (struct job *job, int signal)
{
    job->end = JOB_STOPPED;
    job->signal = signal;
    job->first_failed = -1;
    note_doing (job, -1);
    if (signal)
        take_stacks (job, false, STOP_STACKS_MS);
}

static void
stop_job (struct supervisor *supervisor, int signal, bool of_terminal)
{
    struct job *job = supervisor->job;
    supervisor->stop_ms = clock_ms ();
    supervisor->stop_signal = signal;
    if (job->end == JOB_DONE)
        note_ending (job);
    if (job->end == JOB_DONE || (job->end == JOB_FAILED && of_terminal && died_of (job, signal)))
        set_stopped (job, signal);
    job->has_asked = signal == SIGTERM && request_raise (job, JOBSEG_SAVE | JOBSEG_STOP);
    stop_ranks (supervisor, job->has_asked ? 0 : signal, of_terminal);
}

void
shutdown_stop_for (struct supervisor *supervisor, const char *reason)
{
    stop_job (supervisor, SIGTERM, false);
    supervisor->job->signal = 0;
    supervisor->job->stop_reason = reason;
}

/* The first signal asks, a later one means that the user is impatient.  If no rank is left to be asked, the first
 * one means that too. */
static void
end_job (struct supervisor *supervisor, int signal, bool of_terminal)
{
    struct job *job = supervisor->job;
    bool is_repeated = supervisor->is_signalled || signal != SIGTERM;
    supervisor->is_signalled = job->is_called_off = true;
    if (!supervisor->stop_ms && supervisor->phase <= PHASE_TERMINAL)
        stop_job (supervisor, signal, of_terminal);
    else if (!supervisor->stop_ms) {
        if (supervisor->phase == PHASE_OTHERS && job->end == JOB_DONE)
            set_stopped (job, signal); /* the job is not done yet on other machines */
        supervisor->stop_ms = clock_ms ();
        supervisor->stop_signal = signal;
        supervisor->is_impatient = true;
    } else if (!is_repeated)
        supervisor->stop_ms = clock_ms (); /* the ranks are saving already, for another reason: this repeats nothing */
    else if (clock_ms () - supervisor->stop_ms > REPEAT_MS && (signal == SIGINT || signal == SIGTERM)) {
        supervisor->stop_signal = signal;
        supervisor->is_impatient = true;
        shutdown_kill_ranks (supervisor);
    }
}

void
shutdown_take_signal (struct supervisor *supervisor, const struct signalfd_siginfo *info)
{
    int signal = (int) info->ssi_signo;
    bool of_terminal = info->ssi_code == SI_QUEUE && info->ssi_int == GUARDIAN_SIGNAL_OF_TERMINAL;
    if (info->ssi_code == SI_QUEUE && info->ssi_int == GUARDIAN_SIGNAL_OF_FAILURE)
        request_end (supervisor->job);
    if (signal == SIGCHLD) {
        stops_expect (&supervisor->stops);
        reap_orphans (supervisor);
    } else if (signals_end_job (signal))
        end_job (supervisor, signal, of_terminal);
    else if (signal == SIGWINCH) {
        relay_resize (supervisor);
        signal_ranks (supervisor, signal, false); /* what the terminal has sent came before that */
    } else {
        if (signal == SIGTSTP || signal == SIGCONT) {
            status_stop (&supervisor->status, signal == SIGTSTP);
            stops_pass_on (&supervisor->stops, signal == SIGTSTP);
        }
        if (signal != SIGUSR1 || !request_raise (supervisor->job, JOBSEG_SAVE))
            signal_ranks (supervisor, signal, of_terminal);
    }
}

void
shutdown_for_peers (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    if (job->end != JOB_DONE)
        return; /* they are ending already */
    note_ending (job);
    job->end = JOB_ELSEWHERE;
    note_doing (job, -1);
    if (supervisor->phase == PHASE_RANKS)
        shutdown_fail_ranks (supervisor);
}

void
shutdown_lose_guardian (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, job->guardian->pidfd, NULL);
    supervisor->guardian_is_lost = true;
    set_stopped (job, guardian_death_signal (job->guardian));
    shutdown_kill_ranks (supervisor);
}
