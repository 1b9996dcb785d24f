/* SPDX-License-Identifier: Apache-2.0 */
/* A job while it runs: what spawn.c starts, supervise.c watches and report.c explains. */
#ifndef LAUNCH_JOB_JOB_H
#define LAUNCH_JOB_JOB_H

#include "launch/output/collapse.h"
#include "launch/plan/plan.h"
#include "launch/process/guardian.h"
#include "launch/stacks/stacks.h"
#include "util/fail.h"
#include "util/jobseg.h"

#include <stdbool.h>
#include <sys/types.h>

/** What of a rank may come through us. */
enum { JOB_OUT, JOB_ERR, JOB_STREAMS };

/** One rank's process. */
struct job_rank {
    const struct plan_process *process;
    pid_t pid;        /* 0: not started */
    int pidfd;        /* -1: reaped or not started */
    bool own_group;   /* it leads its own process group */
    bool may_ask;     /* it reads our standard input, and a user or a program may answer there */
    bool ended;
    bool was_ending;  /* when no rank had been told to end yet; its end could not be seen */
    int wait_status;  /* once ended; so are the next two */
    int64_t peak_bytes; /* of its memory */
    int64_t cpu_ms;     /* user and system time */
    struct output_stream streams[JOB_STREAMS]; /* its stdout and stderr, where they come through us */
    char *doing;      /* what it was doing when the first one failed or a signal came; NULL: not known */
    int64_t doing_ns; /* for how long; -1: not known */
    char *frame;      /* in which function of its own, "load (data.c:33)"; NULL: not known */
};

/** Why a job ended before all ranks had succeeded. */
enum job_end {
    JOB_DONE,   /* it did not: all ranks exited with status 0 */
    JOB_FAILED, /* a rank failed first, or all of them ended well, but a save was lost */
    JOB_STOPPED, /* a signal came first, or its time was over, or its ranks were asked to stop and did */
    JOB_ELSEWHERE, /* a failure or a signal on another machine came first */
};

struct job;

/** The parts of a job on other machines, each with its own launcher.  The supervisor's loop calls serve() in every
 * turn, so it must not wait for anything. */
struct job_peers {
    int fd; /* becomes readable when serve() has something to do */
    /* @param own_is_over  this machine's part has ended, output and all: only the peers are waited for
     * @param skip_wait     and do not wait for them
     * @return when to call it again, even if nothing happens; INT64_MAX: never */
    int64_t (*serve) (struct job_peers *peers, struct job *job, bool own_is_over, bool skip_wait);
    /* Tell the others that all ranks are to save and stop, and why, as in "ended WHY": those here do already. */
    void (*notice) (struct job_peers *peers, const char *why);
    const char *stop_reason; /* why all ranks are to save and stop, from here or another machine; NULL: they are not */
    bool must_end; /* the ranks here have to end, because of another machine */
    bool is_final; /* other machines know which rank was the first to fail here: it stays that one */
    bool is_over;  /* nothing more is to be waited for */
};

/** Who learns at once what becomes of a job. */
struct job_observer {
    /* Of the first failure on this machine, and again if it turns out to be that of another rank; may be NULL. */
    void (*failed) (const struct job *job, const struct job_observer *observer);
    /* Of what asks all ranks of all machines to stop, and why, as in "ended WHY".  NULL: those here stop. */
    void (*noticed) (const struct job_observer *observer, const char *why);
    int fd; /* the observer's own */
    struct job_peers *peers; /* NULL: there are no other machines */
    /* Called by the supervisor's loop again and again; returns when to call it next.  NULL: no such calls. */
    int64_t (*keepalive) (const struct job_observer *observer);
    int64_t silence_ms; /* the observer's own: after which we count as dead */
    pid_t above;        /* the same: who hears the signs */
};

struct job {
    const struct plan *plan;
    const struct guardian *guardian;
    const struct job_observer *observer; /* NULL: none */
    int port_lock;          /* of the job's port, for port_lock_answer(); -1: none */
    char id[40];            /* of this start, as the job segment has it */
    struct jobseg segment;
    struct job_rank *ranks; /* [plan->process_count] */
    int count;
    int alive;
    struct output_sink sinks[JOB_STREAMS]; /* our stdout and stderr */
    struct output_sink *sink_of[JOB_STREAMS]; /* the same one if both are one file: lines stay whole there */
    struct output_collapse *collapses[JOB_STREAMS]; /* of the sinks; NULL: equal lines are not collapsed */
    struct output_sink discard; /* takes all that hidden ranks write (--only_rank) */
    struct output_pool pool;
    const struct logfile *incomplete; /* a file of the output that could not be written: the first one */
    bool incomplete_is_noted;

    enum job_end end;
    int first_failed; /* local rank, of JOB_FAILED; -1 */
    int failed_status; /* of JOB_FAILED: as waitpid() reports the first end that was a failure.  The rank of that may
                        * have named another one as the cause, which is first_failed then */
    int64_t failed_ns; /* CLOCK_MONOTONIC; when the first failure was seen, or we were told to end; 0: neither */
    int ending;       /* ranks that were ending then, and have not been reaped: one of them may become first_failed */
    int signal;       /* of JOB_STOPPED; 0: the launcher was killed, by an unknown signal, unless there is a reason: */
    bool is_called_off; /* a signal to us asked for the end, which is final */
    bool was_rank_asked; /* of JOB_STOPPED: ranks have agreed to stop, though we did not ask them to */
    bool has_asked;   /* ranks have been asked to stop through the job segment, instead of by that signal */
    const char *stop_reason; /* of JOB_STOPPED without a signal to us: "at the time limit"; NULL: none; static, or: */
    char notice[PLAN_NOTICE_BYTES];
    int status;       /* of JOB_ELSEWHERE */
    const struct fail *error; /* why ranks could not be started; NULL: they were */
    int killed;       /* ranks that had to be killed */
    bool out_of_grace; /* because their time was over */
    int64_t oom_kills_before;
    struct strlist gpu_lines; /* who uses the GPUs, by gpu_report_find() */
    struct stacks taken; /* of ranks whose place is of interest, when the first one failed or a signal came */
    json_t *stacks;      /* those with names, see stacks_finish(), or of the latest warning before; NULL: none */
    bool out_of_memory; /* the kernel caused the first failure, because memory ran out */
    uint64_t not_passed_on; /* bytes of output that were not delivered: the user did not wait for the reader */
    bool has_leftovers;     /* processes of the job that SIGKILL did not end in time */
};

/** Choose the id of a job, at random. */
int job_make_id (char id[PLAN_JOB_ID_BYTES], struct fail *fail);

/** The exit status that a job's end leads to; not 0 if output was lost. */
int job_status (const struct job *job);

/** Whether --max_restarts is for such an end: a rank has failed, or was asked to stop, and no signal has come to us. */
bool job_may_restart (const struct job *job);

/** Whether all ranks have agreed that they were asked to stop. */
bool job_has_agreed (const struct job *job);

/** Whether they have saved since then.  @param[out] step  the same on all */
bool job_saved_step (const struct job *job, uint64_t *step);

/** How many bytes of the ranks' output were lost, for whatever reason. */
uint64_t job_lost_bytes (const struct job *job);

void job_release (struct job *job);

/** Where stream @p which of rank @p rank goes. */
static inline struct output_sink *
job_sink (struct job *job, const struct job_rank *rank, int which)
{
    return rank->process->is_hidden ? &job->discard : job->sink_of[which];
}

/* run.c: from a plan to a running job and to its end. */

/**
 * Start the processes of @p plan and wait for their end, in the supervisor that guardian_split() has made.  Makes no
 * report, prints nothing itself.
 *
 * @param port_lock  of the job's port: it answers launches that ask; -1: none
 * @param observer   may be NULL
 * @param[out] job   how it went; release it with job_release(), also after a failure
 * @return 0 if the job was started, whatever became of it; -1 with @p fail set if it could not be
 */
int job_run (struct job *job, const struct plan *plan, const struct guardian *guardian, int port_lock,
             const struct job_observer *observer, struct fail *fail);

/* logs.c: files of the ranks' output, laid out like torchrun's:
 * FOLDER/RUN_RANDOM/attempt_N/LOCAL_RANK/stdout.log, stderr.log and, where the program writes one, error.json. */

/** Make the run's folder, and choose its name; before anything is started.  Does nothing without logs. */
int logs_make_run (struct plan *plan, struct fail *fail);

/** Make the folders of the plan's attempt. */
int logs_make_attempt (const struct plan *plan, struct fail *fail);

/**
 * Open what of @p rank comes through us.  Touches nothing but the rank.
 *
 * @param[out] ends  what the rank gets for stdout and stderr, -1: as ours; the caller closes them
 */
int logs_open_streams (struct job *job, struct job_rank *rank, int ends[JOB_STREAMS], struct fail *fail);
/** How many descriptors of ours the streams of all ranks will be. */
int logs_count_descriptors (const struct job *job);
void logs_close_streams (struct job_rank *rank);

/** What the program of a rank has written about its own failure.
 * @param[out] message  one line, empty if there is none
 * @param[out] lines    the last ones of a traceback */
void logs_read_error (const struct plan *plan, const struct job_rank *rank, struct strbuf *message,
                      struct strlist *lines);

#endif
