/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about a process. */
#ifndef UTIL_PROCFS_H
#define UTIL_PROCFS_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** The beginning of a small file of /proc or /sys and a 0; if nothing can be read, an empty text.
 *  @return its length, or -1 */
ssize_t procfs_read_file (const char *path, char *text, size_t size);

/** The first line of such a file.  @return false if it is empty, or does not fit: then @p line is empty, too */
bool procfs_read_line (const char *path, char *line, size_t size);

/** The beginning of /proc/PID/NAME, as procfs_read_file() does. */
ssize_t procfs_read (pid_t pid, const char *name, char *text, size_t size);

/** Append /proc/PID/NAME as far as it can be read. */
void procfs_read_whole (pid_t pid, const char *name, struct strbuf *out);

/** @return whether the bit of @p signal is set in the mask called @p name, "SigCgt:", of /proc/PID/FILE, a status */
bool procfs_has_signal (pid_t pid, const char *file, const char *name, int signal);

/** The path of the file that this process executes; empty if it is not known. */
void procfs_own_path (char *path, size_t size);

/** The fields of /proc/PID/stat that are of interest; see proc(5). */
struct procfs_stat {
    char state;                       /* 'T': stopped by a signal, 't': by a debugger, 'Z': ended, not yet waited for */
    pid_t parent;
    bool is_exiting;                  /* or has ended: the first thread, which runs no more of the program */
    uint64_t cpu_ticks;               /* of all its threads, in user and kernel mode; 1/sysconf (_SC_CLK_TCK) s */
    uint64_t child_ticks;             /* the same of children that have ended and were waited for, and of theirs */
    uint64_t resident_pages;
    unsigned long arg_start, arg_end; /* where the words of its command line are in its memory */
    int exit_code;                    /* of a zombie, as wait() returns it; 0 without permission to ptrace it */
};

/** Read the status of process @p pid, which must be in our pid namespace.  @return false if there is no such process */
bool procfs_read_stat (pid_t pid, struct procfs_stat *stat);

/** Whether all threads of process @p pid run no more of its program: its files are being closed, or it has ended. */
bool procfs_is_ending (pid_t pid);

/** How process @p pid, which has ended, did, as wait() returns it: for a process that is not its parent.
 * @param pidfd  of it, which Linux 6.15 needs  @return false: not known */
bool procfs_wait_status (pid_t pid, int pidfd, int *wait_status);

/** Whether process @p pid handles, blocks or ignores @p signal, so that it would not end by it; if that is not known,
 * yes. */
bool procfs_takes_signal (pid_t pid, int signal);

/** @return our pid namespace, because process ids mean something only within one; 0: unknown */
uint32_t procfs_pid_space (void);

#endif
