/* SPDX-License-Identifier: Apache-2.0 */
/* Both versions of control groups, as far as a launcher cares; see cgroup.h. */
#include <config.h>

#include "launch/machine/cgroup.h"

#include "util/procfs.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOUNT "/sys/fs/cgroup"

/* A line is "number:controllers:path", with no controllers in version 2. */
bool
cgroup_path (const char *lines, const char *controller, char *path, size_t size)
{
    size_t wanted = strlen (controller);
    for (const char *line = lines; *line; line += strcspn (line, "\n"), line += *line == '\n') {
        const char *list = strchr (line, ':');
        const char *end = list ? strchr (list + 1, ':') : NULL;
        if (!end)
            continue;
        bool found = !wanted && end == list + 1;
        for (const char *word = list + 1; wanted && word < end; word++) {
            size_t length = strcspn (word, ",:");
            found |= length == wanted && !strncmp (word, controller, wanted);
            word += length;
        }
        if (!found)
            continue;
        size_t length = strcspn (end + 1, "\n");
        if (length >= size)
            return false;
        memcpy (path, end + 1, length);
        path[length] = '\0';
        return true;
    }
    return false;
}

int64_t
cgroup_field (const char *text, const char *key)
{
    size_t length = strlen (key);
    for (const char *line = text; *line; line += strcspn (line, "\n"), line += *line == '\n')
        if (!strncmp (line, key, length) && line[length] == ' ')
            return strtoll (line + length + 1, NULL, 10);
    return -1;
}

/* Of this process, which does not move; read once. */
static const char *
own_lines (void)
{
    static char lines[16384];
    static bool is_read;
    if (!is_read)
        procfs_read_file ("/proc/self/cgroup", lines, sizeof lines);
    is_read = true;
    return lines;
}

/* Read a group's file.  In a container the path may be the host's, while the group itself is mounted at the root. */
static bool
read_group (const char *controller, const char *name, char *text, size_t size)
{
    char group[512], path[1024], mount[64];
    if (!cgroup_path (own_lines (), controller, group, sizeof group))
        return false;
    snprintf (mount, sizeof mount, MOUNT "/%s", controller);
    snprintf (path, sizeof path, "%s%s/%s", mount, group, name);
    if (procfs_read_file (path, text, size) > 0)
        return true;
    snprintf (path, sizeof path, "%s/%s", mount, name);
    return procfs_read_file (path, text, size) > 0;
}

int64_t
cgroup_oom_kills (void)
{
    char text[4096];
    int64_t kills = -1;
    if (read_group ("", "memory.events", text, sizeof text))
        kills = cgroup_field (text, "oom_kill");
    if (kills < 0 && read_group ("memory", "memory.oom_control", text, sizeof text))
        kills = cgroup_field (text, "oom_kill");
    return kills;
}

int64_t
cgroup_free_pids (void)
{
    static const char *const controllers[] = { "", "pids" };
    char most[64], now[64];
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        if (!read_group (controllers[i], "pids.max", most, sizeof most)
            || !read_group (controllers[i], "pids.current", now, sizeof now))
            continue;
        int64_t left = strtoll (most, NULL, 10) - strtoll (now, NULL, 10);
        return strncmp (most, "max", 3) ? left > 0 ? left : 0 : -1;
    }
    return -1;
}

/* Version 1 writes the largest multiple of a page if there is no limit. */
static const int64_t no_memory_limit = (int64_t) 1 << 60;

static bool
read_small (const char *folder, const char *name, char *text, size_t size)
{
    char path[1024];
    return (size_t) snprintf (path, sizeof path, "%s/%s", folder, name) < sizeof path
           && procfs_read_line (path, text, size);
}

static void
note_memory (struct cgroup_limits *limits, const char *folder, const char *name)
{
    char text[64];
    if (!read_small (folder, name, text, sizeof text))
        return;
    int64_t bytes = strtoll (text, NULL, 10); /* "max" is 0, and no limit */
    if (bytes <= 0 || bytes >= no_memory_limit || (limits->memory && bytes >= limits->memory))
        return;
    limits->memory = bytes;
    snprintf (limits->memory_file, sizeof limits->memory_file, "%s/%s", folder, name);
}

static void
note_cpus (struct cgroup_limits *limits, const char *folder, const char *name)
{
    char text[64], period_text[64];
    if (!read_small (folder, name, text, sizeof text))
        return;
    char *end;
    long long quota = strtoll (text, &end, 10), period = strtoll (end, NULL, 10); /* version 2: "QUOTA PERIOD" */
    if (!strcmp (name, "cpu.cfs_quota_us"))
        period = read_small (folder, "cpu.cfs_period_us", period_text, sizeof period_text)
                     ? strtoll (period_text, NULL, 10) : 0;
    if (quota <= 0 || period <= 0 || (limits->cpus > 0 && (double) quota / (double) period >= limits->cpus))
        return;
    limits->cpus = (double) quota / (double) period;
    snprintf (limits->cpus_file, sizeof limits->cpus_file, "%s/%s", folder, name);
}

/* The nearest group that says anything. */
static void
note_cpuset (struct cgroup_limits *limits, const char *folder, const char *name)
{
    if (!*limits->cpuset)
        read_small (folder, name, limits->cpuset, sizeof limits->cpuset);
}

/* Which file of which controller says what; with "" as the controller, version 2. */
static const struct {
    const char *controller, *name;
    void (*note) (struct cgroup_limits *limits, const char *folder, const char *name);
} files[] = {
    { "memory", "memory.limit_in_bytes", note_memory },
    { "cpu", "cpu.cfs_quota_us", note_cpus },
    { "cpuset", "cpuset.effective_cpus", note_cpuset },
    { "cpuset", "cpuset.cpus", note_cpuset },
    { "", "memory.max", note_memory },
    { "", "memory.high", note_memory },
    { "", "cpu.max", note_cpus },
    { "", "cpuset.cpus.effective", note_cpuset },
};

void
cgroup_read_limits (const char *lines, const char *mount, struct cgroup_limits *limits)
{
    *limits = (struct cgroup_limits){ 0 };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char group[512], folder[1024];
        if (!cgroup_path (lines, files[i].controller, group, sizeof group))
            continue;
        const char *slash = *files[i].controller ? "/" : "";
        int root = snprintf (folder, sizeof folder, "%s%s%s", mount, slash, files[i].controller);
        if (root < 0 || (size_t) root + strlen (group) >= sizeof folder)
            continue;
        memcpy (folder + root, group, strlen (group) + 1);
        for (;;) {
            files[i].note (limits, folder, files[i].name);
            char *last = strrchr (folder + root, '/');
            if (!last)
                break;
            *last = '\0';
        }
    }
}

void
cgroup_own_limits (struct cgroup_limits *limits)
{
    cgroup_read_limits (own_lines (), MOUNT, limits);
}

int
cgroup_cpu_quota (void)
{
    struct cgroup_limits limits;
    cgroup_own_limits (&limits);
    int whole = limits.cpus < 1 << 20 ? (int) limits.cpus : 0;
    return whole + (whole < limits.cpus && limits.cpus < 1 << 20);
}
