/* SPDX-License-Identifier: Apache-2.0 */
/* Asking ranks for their stacks, and /proc about those that show none; see stacks.h. */
#include <config.h>

#include "launch/stacks/stacks.h"

#include "util/array.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"
#include "util/procfs.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

bool
stacks_add (struct stacks *stacks, const struct jobseg *segment, int index, pid_t pid)
{
    struct jobseg_slot *slot = jobseg_slot (segment, index);
    struct stack_rank *rank = array_room (&stacks->ranks, (size_t) stacks->count, sizeof *stacks->ranks);
    if (!rank)
        return false;
    *rank = (struct stack_rank){ .slot = slot, .rank = (int) segment->header->first_rank + index, .pid = pid,
                                 .file = -1 };
    bool is_near = atomic_load (&slot->pid_space) == procfs_pid_space ();
    if (atomic_load (&slot->state) != JOBSEG_EMPTY && is_near)
        rank->pid = atomic_load (&slot->pid); /* of a script's child, if the script is what was started */
    else if (atomic_load (&slot->state) != JOBSEG_EMPTY)
        snprintf (rank->reason, sizeof rank->reason, "it is in another container");
    stacks->count++;
    return true;
}

static bool
is_of_same_user (pid_t pid)
{
    char path[64];
    struct stat info;
    snprintf (path, sizeof path, "/proc/%d", (int) pid);
    return !stat (path, &info) && info.st_uid == geteuid ();
}

static const char *
find_hindrance (const struct stack_rank *rank)
{
    struct procfs_stat stat;
    if (rank->pid <= 0 || !procfs_read_stat (rank->pid, &stat) || stat.state == 'Z')
        return "its process has ended";
    if (stat.state == 'T' || stat.state == 't')
        return stat.state == 'T' ? "it is stopped by a signal" : "it is stopped by a debugger";
    return NULL;
}

/* Whatever the slot says, no signal is sent that its process does not expect: that would end it. */
static const char *
why_not_asked (const struct stack_rank *rank, int signal, pid_t thread)
{
    char file[64];
    if (!signal)
        return atomic_load (&rank->slot->state) == JOBSEG_EMPTY ? "its program has not called accel_open()"
                                                                : "its program does not show it";
    snprintf (file, sizeof file, "task/%d/status", (int) thread);
    if (signal < SIGRTMIN || signal > SIGRTMAX || !is_of_same_user (rank->pid)
        || !procfs_has_signal (rank->pid, "status", "SigCgt:", signal))
        return "its process has no handler for the signal that asks for it";
    return procfs_has_signal (rank->pid, file, "SigBlk:", signal) ? "it blocks the signal that asks for it" : NULL;
}

static char *
read_maps (pid_t pid)
{
    struct strbuf text = { 0 };
    procfs_read_whole (pid, "maps", &text);
    return text.length ? strbuf_take (&text) : NULL;
}

/* Of a Python program that also uses libaccel, its own lines say more than the interpreter's. */
static void
ask (struct stack_rank *rank)
{
    struct jobseg_stack *stack = &rank->slot->stack;
    int signal = (int) atomic_load (&stack->signal);
    pid_t thread = atomic_load (&stack->thread);
    if (*rank->reason)
        return;
    const char *why = find_hindrance (rank);
    rank->is_asked = !why && stack_python_find (rank);
    if (rank->is_asked)
        return;
    why = why ? why : why_not_asked (rank, signal, thread);
    rank->maps = why ? NULL : read_maps (rank->pid); /* now: it may end as soon as it has answered */
    if (!why) {
        rank->number = atomic_fetch_add (&stack->asked, 1) + 1;
        rank->is_asked = !syscall (SYS_tgkill, rank->pid, thread, signal);
        why = rank->is_asked ? NULL : "its thread has ended";
    }
    if (why)
        snprintf (rank->reason, sizeof rank->reason, "%s", why);
}

/* @return whether its answer is there, and was not overwritten while we read */
static bool
copy (struct stack_rank *rank)
{
    const struct jobseg_stack *stack = &rank->slot->stack;
    uint32_t given = atomic_load (&stack->given);
    if ((int32_t) (given - rank->number) < 0 || atomic_load (&stack->asked) != given)
        return false;
    uint32_t count = stack->count;
    rank->count = count < JOBSEG_FRAMES ? count : JOBSEG_FRAMES;
    memcpy (rank->frames, stack->frames, sizeof rank->frames);
    jobseg_fence_reads ();
    return atomic_load (&stack->asked) == given;
}

/* ---- what the kernel says ---- */

static const char *
name_of_state (char state)
{
    switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting for a device or a file";
    case 'T': return "stopped by a signal";
    case 't': return "stopped by a debugger";
    case 'Z': return "ended";
    default: return "in an unknown state";
    }
}

/* "read (3, pipe:[4711])" of a call that has a file; the kernel shows it to who may trace the process. */
static void
describe_call (pid_t pid, char *text, size_t size)
{
    static const struct {
        long number;
        const char *name;
    } calls[] = { { SYS_read, "read" }, { SYS_write, "write" }, { SYS_recvfrom, "recv" }, { SYS_recvmsg, "recvmsg" },
                  { SYS_sendto, "send" } };
    char line[256], path[64], target[80] = "", shown[PRINTABLE_BYTES];
    char *end;
    *text = '\0';
    if (procfs_read (pid, "syscall", line, sizeof line) <= 0)
        return;
    long number = strtol (line, &end, 10);
    long fd = strtol (end, NULL, 16);
    for (size_t i = 0; end != line && i < sizeof calls / sizeof *calls; i++) {
        if (calls[i].number != number)
            continue;
        snprintf (path, sizeof path, "/proc/%d/fd/%ld", (int) pid, fd);
        ssize_t length = readlink (path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        size_t at = (size_t) snprintf (text, size, " in %s (%ld, ", calls[i].name, fd);
        for (const char *next = target; *next && at + PRINTABLE_BYTES + 2 < size;)
            at += (size_t) snprintf (text + at, size - at, "%s", printable_next (&next, shown));
        snprintf (text + at, size - at, ")");
    }
}

static void
describe_process (struct stack_rank *rank)
{
    struct procfs_stat stat;
    char channel[48] = "", call[128], status[4096];
    if (rank->pid <= 0 || !procfs_read_stat (rank->pid, &stat))
        return;
    describe_call (rank->pid, call, sizeof call);
    procfs_read (rank->pid, "wchan", channel, sizeof channel);
    if (!*call && *channel && *channel != '0')
        snprintf (call, sizeof call, " in %s", channel);
    procfs_read (rank->pid, "status", status, sizeof status);
    const char *threads = strstr (status, "\nThreads:");
    long count = threads ? strtol (threads + sizeof "\nThreads:" - 1, NULL, 10) : 1;
    snprintf (rank->process, sizeof rank->process, "%s%s, %ld thread%s", name_of_state (stat.state), call, count,
              count == 1 ? "" : "s");
}

void
stacks_take (struct stacks *stacks, int wait_ms)
{
    int64_t until_ms = clock_ms () + wait_ms;
    int awaited = 0;
    for (int i = 0; i < stacks->count; i++) {
        struct stack_rank *rank = &stacks->ranks[i];
        jobseg_describe (rank->slot, rank->doing, sizeof rank->doing);
        rank->elapsed_ns = jobseg_elapsed_ns (rank->slot);
        ask (rank);
        awaited += rank->is_asked;
    }
    for (bool is_late = false; awaited && !is_late;) {
        is_late = clock_ms () >= until_ms;
        for (int i = 0; i < stacks->count; i++) {
            struct stack_rank *rank = &stacks->ranks[i];
            bool answered = rank->is_asked && (rank->file >= 0 ? stack_python_copy (rank) : copy (rank));
            rank->is_asked = rank->is_asked && !answered;
            awaited -= answered;
        }
        if (awaited && !is_late)
            nanosleep (&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
    for (int i = 0; i < stacks->count; i++) {
        struct stack_rank *rank = &stacks->ranks[i];
        if (rank->is_asked)
            snprintf (rank->reason, sizeof rank->reason, "it did not show its stack within %d ms", wait_ms);
        if (*rank->reason)
            describe_process (rank);
        if (rank->traceback && atomic_load (&rank->slot->state) == JOBSEG_EMPTY)
            snprintf (rank->doing, sizeof rank->doing, "in Python");
        stack_python_end (rank);
    }
}

void
stacks_release (struct stacks *stacks)
{
    for (int i = 0; i < stacks->count; i++) {
        free (stacks->ranks[i].maps);
        free (stacks->ranks[i].traceback);
    }
    free (stacks->ranks);
    *stacks = (struct stacks){ 0 };
}
