/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about a process; see procfs.h. */
#include <config.h>

#include "util/procfs.h"

#include "util/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum { STATE = 3, PARENT = 4, FLAGS = 9, USER = 14, KERNEL = 15, CHILD_USER = 16 };
enum { CHILD_KERNEL = 17, RESIDENT = 24, ARG_START = 48, ARG_END = 49, EXIT_CODE = 52 };
enum { PF_EXITING = 4 }; /* include/linux/sched.h in the kernel */

ssize_t
procfs_read_file (const char *path, char *text, size_t size)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read (fd, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

bool
procfs_read_line (const char *path, char *line, size_t size)
{
    procfs_read_file (path, line, size);
    size_t length = strcspn (line, "\n");
    bool is_whole = length > 0 && length < size - 1;
    line[is_whole ? length : 0] = '\0';
    return is_whole;
}

ssize_t
procfs_read (pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf (path, sizeof path, "/proc/%d/%s", (int) pid, name);
    return procfs_read_file (path, text, size);
}

void
procfs_read_whole (pid_t pid, const char *name, struct strbuf *out)
{
    char path[64], piece[16384];
    snprintf (path, sizeof path, "/proc/%d/%s", (int) pid, name);
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0 && (got = read (fd, piece, sizeof piece)) > 0;)
        strbuf_add_bytes (out, piece, (size_t) got);
}

bool
procfs_has_signal (pid_t pid, const char *file, const char *name, int signal)
{
    char text[4096];
    procfs_read (pid, file, text, sizeof text);
    const char *at = strstr (text, name);
    return at && strtoull (at + strlen (name), NULL, 16) >> (signal - 1) & 1;
}

void
procfs_own_path (char *path, size_t size)
{
    ssize_t length = readlink ("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
}

static bool
read_stat (pid_t pid, const char *name, struct procfs_stat *stat)
{
    char text[2048];
    *stat = (struct procfs_stat){ 0 };
    if (procfs_read (pid, name, text, sizeof text) <= 0)
        return false;
    const char *at = strrchr (text, ')'); /* the end of field 2, the program's name, which may contain anything */
    for (int field = STATE; at && (at = strchr (at, ' ')); field++) {
        at++;
        if (field == STATE)
            stat->state = *at;
        else if (field == PARENT)
            stat->parent = (pid_t) strtol (at, NULL, 10);
        else if (field == FLAGS)
            stat->is_exiting = strtoul (at, NULL, 10) & PF_EXITING;
        else if (field == USER || field == KERNEL)
            stat->cpu_ticks += strtoul (at, NULL, 10);
        else if (field == CHILD_USER || field == CHILD_KERNEL)
            stat->child_ticks += strtoul (at, NULL, 10);
        else if (field == RESIDENT)
            stat->resident_pages = strtoul (at, NULL, 10);
        else if (field == ARG_START)
            stat->arg_start = strtoul (at, NULL, 10);
        else if (field == ARG_END)
            stat->arg_end = strtoul (at, NULL, 10);
        else if (field == EXIT_CODE)
            stat->exit_code = (int) strtol (at, NULL, 10);
    }
    return stat->state;
}

bool
procfs_read_stat (pid_t pid, struct procfs_stat *stat)
{
    return read_stat (pid, "stat", stat);
}

/* A thread that is gone meanwhile has ended. */
bool
procfs_is_ending (pid_t pid)
{
    char path[64];
    struct procfs_stat stat;
    struct dirent *entry;
    bool is_ending = procfs_read_stat (pid, &stat) && stat.is_exiting;
    snprintf (path, sizeof path, "/proc/%d/task", (int) pid);
    DIR *tasks = is_ending ? opendir (path) : NULL;
    while (is_ending && tasks && (entry = readdir (tasks))) {
        char name[48];
        snprintf (name, sizeof name, "task/%.20s/stat", entry->d_name);
        if (*entry->d_name != '.' && read_stat (pid, name, &stat))
            is_ending = stat.is_exiting;
    }
    if (tasks)
        closedir (tasks);
    return is_ending;
}

/* Linux 6.15 keeps it for processes that hold a pidfd; linux/pidfd.h of older systems lacks it. */
static bool
ask_pidfd (int pidfd, int *wait_status)
{
    struct {
        uint64_t mask, cgroup;
        uint32_t ids[11];
        int32_t exit_code;
    } info = { .mask = 1 << 3 /* PIDFD_INFO_EXIT */ };
    if (ioctl (pidfd, _IOWR (0xFF, 11, info) /* PIDFD_GET_INFO */, &info) || !(info.mask & 1 << 3))
        return false;
    *wait_status = info.exit_code;
    return true;
}

/* As long as no process has waited for it. */
static bool
ask_proc (pid_t pid, int *wait_status)
{
    struct procfs_stat stat;
    bool ended = procfs_read_stat (pid, &stat) && stat.state == 'Z';
    *wait_status = stat.exit_code;
    return ended;
}

bool
procfs_wait_status (pid_t pid, int pidfd, int *wait_status)
{
    /* Once more: some process may have waited for it in between. */
    return ask_pidfd (pidfd, wait_status) || ask_proc (pid, wait_status) || ask_pidfd (pidfd, wait_status);
}

bool
procfs_takes_signal (pid_t pid, int signal)
{
    static const char *const lines[] = { "\nSigBlk:\t", "\nSigIgn:\t", "\nSigCgt:\t" };
    char text[4096];
    bool is_known = true, takes = false;
    procfs_read (pid, "status", text, sizeof text);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *line = strstr (text, lines[i]);
        unsigned long long set = line ? strtoull (line + strlen (lines[i]), NULL, 16) : 0;
        is_known = is_known && line;
        takes = takes || set >> (signal - 1) & 1;
    }
    return takes || !is_known;
}

uint32_t
procfs_pid_space (void)
{
    struct stat info;
    return stat ("/proc/self/ns/pid", &info) ? 0 : (uint32_t) info.st_ino;
}
