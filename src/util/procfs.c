/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about a process; see procfs.h. */
#include <config.h>

#include "util/procfs.h"

#include "util/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { STATE = 3, FLAGS = 9, ARG_START = 48, ARG_END = 49, EXIT_CODE = 52 };
enum { PF_EXITING = 4 }; /* include/linux/sched.h in the kernel */

bool
procfs_read_stat (pid_t pid, struct procfs_stat *stat)
{
    char path[40], text[2048];
    snprintf (path, sizeof path, "/proc/%d/stat", (int) pid);
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read (fd, text, sizeof text - 1);
    *stat = (struct procfs_stat){ 0 };
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *at = strrchr (text, ')'); /* the end of field 2, the program's name, which may contain anything */
    for (int field = STATE; at && (at = strchr (at, ' ')); field++) {
        at++;
        if (field == STATE)
            stat->state = *at;
        else if (field == FLAGS)
            stat->is_exiting = strtoul (at, NULL, 10) & PF_EXITING;
        else if (field == ARG_START)
            stat->arg_start = strtoul (at, NULL, 10);
        else if (field == ARG_END)
            stat->arg_end = strtoul (at, NULL, 10);
        else if (field == EXIT_CODE)
            stat->exit_code = (int) strtol (at, NULL, 10);
    }
    return stat->state;
}

uint32_t
procfs_pid_space (void)
{
    struct stat info;
    return stat ("/proc/self/ns/pid", &info) ? 0 : (uint32_t) info.st_ino;
}
