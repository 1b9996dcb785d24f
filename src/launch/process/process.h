/* SPDX-License-Identifier: Apache-2.0 */
/* Processes, whatever they run: signals for them, their ends, what they leave behind, and what they use. */
#ifndef LAUNCH_PROCESS_PROCESS_H
#define LAUNCH_PROCESS_PROCESS_H

#include "util/fail.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- which signals reach the ranks of a job through the launcher ---- */

/**
 * Block all that is passed on, SIGCHLD, and what writing to a closed pipe or from the background would bring.  What was
 * ignored (nohup) stays ignored and is left out.
 *
 * @param[out] wanted  the signals for signalfd() or sigwaitinfo()
 * @param[out] old     the mask as it was given to us
 */
void signals_block (sigset_t *wanted, sigset_t *old);

/** @return whether @p signal ends a job; others are only passed on. */
bool signals_end_job (int signal);

/** All those that end a job. */
void signals_ending (sigset_t *set);

/* ---- the exit status of `accelerate launch`: what the end of a rank, a failed exec and a signal turn into ---- */

/** Of a rank that ended as waitpid() reports: its own status, or 128+N for signal N. */
int status_of_wait (int wait_status);

/** Of an exec that failed with @p error: 127 if there is no such program, 126 if it cannot be executed. */
int status_of_exec (int error);

/** Of a launcher that was told to end by @p signal: 128+N. */
int status_of_signal (int signal);

/** Whether the loss of a connection to another rank may bring about such an end: an exit, or an abort. */
bool status_may_follow (int wait_status);

/** A process could not be started because of @p error, an errno.  @return -1, with @p fail set */
int status_fail_start (int error, struct fail *fail);

/** @return what to do about @p error from starting a program, "" if there is nothing to say. */
const char *status_exec_hint (int error);

/* descendants.c: ending what a job has left running.  A subreaper is the ancestor of all its job's processes for ever,
 * so they are its descendants in /proc, and there is one exactly as long as there is a child to wait for.  Where /proc
 * is missing only children are found; when one of them ends, its own children come to us. */

/** Send @p signal to all descendants of this process; without /proc, to its children. */
void descendants_signal (int signal);

/** Reap children that have ended.  @return whether none is left, dead or alive */
bool descendants_reap (void);

enum { DESCENDANTS_KILL_MS = 10000 }; /* after which what SIGKILL does not end is left to the kernel */

/** Kill all descendants and reap them, for at most @p limit_ms.  @return whether none is left */
bool descendants_kill (int limit_ms);

/* use.c: what a process uses, with all that it has started and that has not been left to another parent. */

/** A thread, as far as the kernel says. */
struct process_thread {
    uint64_t ran_ns;
    uint64_t delayed_ns; /* ready to run without a processor */
    uint64_t sleeps;     /* how often it has given up its processor to wait for something */
    bool is_ready;       /* it runs, or is ready to; how long it has been so is not in delayed_ns yet */
};

struct process_use {
    pid_t pid;           /* the process itself, without descendants */
    uint64_t cpu_ns;     /* in user and kernel mode; of threads and children that have ended, too */
    uint64_t delayed_ns; /* that threads have been ready to run without a processor; 0: the kernel does not say */
    uint64_t memory;     /* bytes that are resident; what processes share counts for each */
    bool is_ready;       /* a thread other than the first one of `pid` runs, or is ready to */
    struct process_thread first; /* that one, which counts above, too */
};

/** @return that of @p pid and its descendants; all zero if there is no such process */
struct process_use process_find_use (pid_t pid);

/** @param[out] pids  to be freed, also if there are none  @return how many children @p pid has */
size_t process_children (pid_t pid, pid_t **pids);

/** @return whether @p pid is @p ancestor or one of its descendants */
bool process_is_below (pid_t pid, pid_t ancestor);

/* foreground.c: one other program, run in our place: our terminal, our signals, its exit status. */

/**
 * Run a program to its end, with our standard streams and environment.  Signals that a user or a scheduler sends to us
 * reach it once; it gets no signal when we are killed.
 *
 * @param argv  ended by NULL; the program is looked for in PATH
 * @return its exit status, 128+N for signal N, or -1 with @p fail set if it cannot be started
 */
int foreground_run (char *const *argv, struct fail *fail);

#endif
