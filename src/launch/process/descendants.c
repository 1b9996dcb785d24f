/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over /proc; see process.h. */
#include <config.h>

#include "launch/process/process.h"

#include "util/array.h"
#include "util/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    DESCENDANTS_PAUSE_MS = 5,
    MOST_PID = 4 * 1024 * 1024, /* of Linux */
};

struct entry {
    pid_t pid, parent;
    bool member;
};

struct table {
    struct entry *entries;
    size_t count;
};

/* Not that of another PID namespace, where our children's numbers are those of strangers. */
static bool
proc_is_ours (void)
{
    char text[32];
    ssize_t length = readlink ("/proc/self", text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return strtol (text, NULL, 10) == getpid ();
}

static bool
read_table (struct table *table)
{
    DIR *dir = proc_is_ours () ? opendir ("/proc") : NULL;
    bool complete = dir;
    if (!dir)
        return false;
    for (const struct dirent *item; (item = readdir (dir));) {
        struct procfs_stat stat;
        struct entry entry = { .pid = (pid_t) strtol (item->d_name, NULL, 10) };
        if (!isdigit ((unsigned char) item->d_name[0]) || !procfs_read_stat (entry.pid, &stat)
            || strchr ("ZX", stat.state))
            continue;
        entry.parent = stat.parent;
        entry.member = entry.parent == getpid ();
        struct entry *added = array_room (&table->entries, table->count, sizeof *added);
        complete &= added != NULL;
        if (added) {
            *added = entry;
            table->count++;
        }
    }
    closedir (dir);
    return complete;
}

/* Children of members are members; until nothing changes. */
static void
close_over_children (struct table *table)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct entry *child = &table->entries[i];
            for (size_t j = 0; !child->member && j < table->count; j++)
                if (table->entries[j].member && table->entries[j].pid == child->parent)
                    changed = child->member = true;
        }
    }
}

/* waitid() refuses what is not our child.  @return how many got the signal, zombies left out */
static int
signal_children_between (pid_t first, pid_t last, int signal)
{
    int count = 0;
    for (pid_t pid = first; pid <= last; pid++) {
        siginfo_t info = { 0 };
        if (!waitid (P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid && !kill (pid, signal))
            count++;
    }
    return count;
}

/* PIDs are given in rising order, so children are between us and the newest process, unless the numbers have started
 * again from the lowest since: then all have to be tried, which takes about a second. */
static void
signal_children (int signal)
{
    pid_t newest = fork ();
    if (newest == 0)
        _exit (0);
    if (newest > 0)
        waitpid (newest, NULL, 0);
    if (newest <= getpid () || !signal_children_between (getpid () + 1, newest - 1, signal))
        signal_children_between (1, MOST_PID, signal);
}

void
descendants_signal (int signal)
{
    struct table table = { 0 };
    if (!read_table (&table)) {
        free (table.entries);
        signal_children (signal);
        return;
    }
    close_over_children (&table);
    for (size_t i = 0; i < table.count; i++)
        if (table.entries[i].member)
            kill (table.entries[i].pid, signal);
    free (table.entries);
}

bool
descendants_reap (void)
{
    pid_t pid;
    do
        pid = waitpid (-1, NULL, WNOHANG);
    while (pid > 0);
    return pid < 0 && errno == ECHILD;
}

bool
descendants_kill (int limit_ms)
{
    struct timespec pause = { .tv_nsec = DESCENDANTS_PAUSE_MS * 1000000L };
    for (int waited = 0; !descendants_reap (); waited += DESCENDANTS_PAUSE_MS) {
        if (waited >= limit_ms)
            return false;
        descendants_signal (SIGKILL);
        nanosleep (&pause, NULL);
    }
    return true;
}
