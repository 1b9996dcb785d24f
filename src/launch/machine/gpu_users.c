/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on GPUs, with whose they are; see gpus.h. */
#include <config.h>

#include "launch/machine/gpus.h"

#include "util/cleanup.h"
#include "util/procfs.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HOST_PID_SPACE = 0xEFFFFFFC }; /* the number of the first pid namespace, in every kernel */

static const double gib = 1024.0 * 1024 * 1024;

/* By /etc/passwd alone: a directory of users may be far away, and not answer. */
static void
add_user (uid_t uid, struct strbuf *out)
{
    char text[4096];
    struct passwd entry, *found = NULL;
    AUTO_FILE FILE *file = fopen ("/etc/passwd", "re");
    while (file && !fgetpwent_r (file, &entry, text, sizeof text, &found))
        if (entry.pw_uid == uid) {
            strbuf_printf (out, " of %s", entry.pw_name);
            return;
        }
    strbuf_printf (out, " of user %u", (unsigned int) uid);
}

bool
gpu_processes_are_known (void)
{
    return procfs_pid_space () == HOST_PID_SPACE;
}

void
gpu_process_describe (const struct gpu_process *process, bool with_user, struct strbuf *out)
{
    char path[48];
    struct stat info;
    char name[64];
    strbuf_printf (out, "process %d", process->pid);
    snprintf (path, sizeof path, "/proc/%d", process->pid);
    if (!gpu_processes_are_known ())
        strbuf_add (out, " of the host");
    else if (stat (path, &info))
        strbuf_add (out, " (ended, or hidden from this user)");
    else {
        if (with_user)
            add_user (info.st_uid, out);
        if (procfs_read (process->pid, "comm", name, sizeof name) > 0)
            strbuf_printf (out, " (%.*s)", (int) strcspn (name, "\n"), name);
    }
    if (process->memory != NVML_UNKNOWN)
        strbuf_printf (out, ", %.2f GB", (double) process->memory / gib);
}

void
gpu_describe_use (const struct gpu *gpu, struct strbuf *out)
{
    strbuf_printf (out, "GPU %d (%s)", gpu->index, gpu->name);
    if (gpu->memory)
        strbuf_printf (out, " has %.2f of %.2f GB free", (double) gpu->memory_free / gib, (double) gpu->memory / gib);
    int named = 0;
    for (int i = 0; i < gpu->process_count && i < NVML_MOST_PROCESSES; i++) {
        if (!gpu->processes[i].pid)
            continue;
        strbuf_add (out, named++ ? "; " : gpu->memory ? "; used by " : " is used by ");
        gpu_process_describe (&gpu->processes[i], true, out);
    }
    if (gpu->process_count > named)
        strbuf_printf (out, "%s%d %sprocesses", named ? " and " : "; used by ", gpu->process_count - named,
                       named ? "more " : "");
}
