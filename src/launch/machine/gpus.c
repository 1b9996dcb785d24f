/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs in /proc/driver/nvidia and /sys, and who uses them; see gpus.h. */
#include <config.h>

#include "launch/machine/gpus.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/procfs.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 16 * 1024 };

/* The first line of a file of /sys. */
static bool
read_line (const char *root, const char *bus, const char *name, char *line, size_t size)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", root, bus, name);
    return procfs_read_line (path, line, size);
}

void
gpu_location_find (const char *root, struct gpu_location *location)
{
    char node[16];
    location->node = -1;
    if (read_line (root, location->bus, "numa_node", node, sizeof node))
        location->node = (int) strtol (node, NULL, 10);
    read_line (root, location->bus, "local_cpulist", location->cpus, sizeof location->cpus);
}

/* "Model: \t\t NVIDIA H200": the value of a line, or "". */
static void
find_field (const char *text, const char *field, char *value, size_t size)
{
    *value = '\0';
    const char *line = strstr (text, field);
    if (!line)
        return;
    line += strlen (field);
    line += strspn (line, " \t");
    size_t length = strcspn (line, "\n");
    while (length && isspace ((unsigned char) line[length - 1]))
        length--;
    snprintf (value, size, "%.*s", (int) length, line);
}

/* CUDA makes nodes that are missing by a program that runs as root.  Where /dev is not the kernel's, as in containers,
 * the node of a GPU that was not passed on is made, too, but cannot be opened. */
static bool
makes_nodes (const char *root)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    char text[4096];
    struct mntent entry;
    bool is_kernels = false; /* the last mount at /dev hides those before */
    strbuf_printf (&path, "%s" GPU_LOCATIONS_MODPROBE, root);
    if (path.failed || access (path.text, X_OK))
        return false;
    strbuf_truncate (&path, 0);
    strbuf_printf (&path, "%s/proc/self/mounts", root);
    AUTO_FILE FILE *file = path.failed ? NULL : fopen (path.text, "re");
    while (file && getmntent_r (file, &entry, text, sizeof text))
        if (!strcmp (entry.mnt_dir, "/dev"))
            is_kernels = !strcmp (entry.mnt_type, "devtmpfs");
    return is_kernels;
}

static bool
node_allows (const char *root, const char *minor, int mode)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/dev/nvidia%s", root, minor);
    return path.failed || !access (path.text, mode);
}

/* In a container, /proc lists the host's GPUs, but /dev has only those that were passed on; a batch system may forbid
 * to open the others.  If there is no node at all, or missing ones are made, those that are missing prove nothing. */
static bool
has_node (const char *root, const char *minor)
{
    bool has_any = false;
    if (!*minor || node_allows (root, minor, R_OK | W_OK))
        return true;
    if (node_allows (root, minor, F_OK))
        return false;
    for (int i = 0; i < GPU_LOCATIONS_MOST && !has_any; i++) {
        char number[16];
        snprintf (number, sizeof number, "%d", i);
        has_any = node_allows (root, number, F_OK);
    }
    return !has_any || makes_nodes (root);
}

/* Entries of a folder: those of @p prefix and a number, or all.  @param usable  nullable: how many may be opened */
static int
count_entries (const char *root, const char *folder, const char *prefix, int *usable)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s%s", root, folder);
    DIR *dir = path.failed ? NULL : opendir (path.text);
    int count = 0;
    size_t length = prefix ? strlen (prefix) : 0;
    for (const struct dirent *entry; dir && (entry = readdir (dir));)
        if (prefix ? !strncmp (entry->d_name, prefix, length) && isdigit ((unsigned char) entry->d_name[length])
                   : entry->d_name[0] != '.') {
            count++;
            if (usable)
                *usable += !faccessat (dirfd (dir), entry->d_name, R_OK | W_OK, 0);
        }
    if (dir)
        closedir (dir);
    return count;
}

static bool
has_driver (const char *root)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/dev/nvidiactl", root);
    AUTO_CLOSE int fd = path.failed ? -1 : open (path.text, O_RDWR | O_CLOEXEC);
    return fd >= 0;
}

int
gpu_locations_count (const char *root)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    int usable = 0, nodes = count_entries (root, "/dev", "nvidia", &usable);
    strbuf_printf (&path, "%s/proc/driver/nvidia", root);
    if (path.failed || access (path.text, F_OK))
        return usable && has_driver (root) ? usable : 0;
    int listed = count_entries (root, "/proc/driver/nvidia/gpus", NULL, NULL);
    int missing = listed > nodes && (!nodes || makes_nodes (root)) ? listed - nodes : 0;
    return usable + missing;
}

static int
compare (const void *one, const void *other)
{
    return strcmp (((const struct gpu_location *) one)->bus, ((const struct gpu_location *) other)->bus);
}

int
gpu_locations_list (const char *root, struct gpu_location *locations)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/proc/driver/nvidia/gpus", root);
    DIR *dir = path.failed ? NULL : opendir (path.text);
    int count = 0;
    for (const struct dirent *entry; dir && count < GPU_LOCATIONS_MOST && (entry = readdir (dir));) {
        struct gpu_location *location = &locations[count];
        if (*entry->d_name == '.' || strlen (entry->d_name) >= sizeof location->bus)
            continue;
        char minor[16] = "";
        AUTO_FREE char *text = NULL;
        *location = (struct gpu_location){ .node = -1 };
        memcpy (location->bus, entry->d_name, strlen (entry->d_name));
        strbuf_truncate (&path, 0);
        strbuf_printf (&path, "%s/proc/driver/nvidia/gpus/%s/information", root, entry->d_name);
        if (!path.failed && !io_read_file (path.text, FILE_BYTES, &text, NULL, NULL)) {
            find_field (text, "Model:", location->model, sizeof location->model);
            find_field (text, "GPU UUID:", location->uuid, sizeof location->uuid);
            find_field (text, "Device Minor:", minor, sizeof minor);
        }
        if (!has_node (root, minor))
            continue;
        gpu_location_find (root, location);
        count++;
    }
    if (dir)
        closedir (dir);
    qsort (locations, (size_t) count, sizeof *locations, compare);
    return count;
}

/* The first word that is a version: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug ..." */
static bool
find_version (const char *text, int version[3])
{
    for (const char *word = text; *word && *word != '\n'; word += strcspn (word, " \t\n")) {
        word += strspn (word, " \t");
        version[2] = 0;
        if (isdigit ((unsigned char) *word)
            && sscanf (word, "%9d.%9d.%9d", &version[0], &version[1], &version[2]) >= 2)
            return true;
    }
    return false;
}

/* Whether two cards can reach each other since the driver learnt it, in 550.40.07. */
static bool
is_new (const int version[3])
{
    static const int wanted[3] = { 550, 40, 7 };
    for (int i = 0; i < 3; i++)
        if (version[i] != wanted[i])
            return version[i] > wanted[i];
    return true;
}

bool
gpus_lack_p2p (const char *root)
{
    int version[3];
    char path[PATH_MAX], text[4096];
    snprintf (path, sizeof path, "%s/proc/driver/nvidia/version", root);
    if (procfs_read_file (path, text, sizeof text) <= 0 || !find_version (text, version) || is_new (version))
        return false;
    AUTO_FREE struct gpu_location *locations = calloc (GPU_LOCATIONS_MOST, sizeof *locations);
    int count = locations ? gpu_locations_list (root, locations) : 0;
    bool found = false;
    for (int i = 0; i < count; i++)
        found = found || strstr (locations[i].model, "RTX 40");
    return found && count > 1;
}

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
