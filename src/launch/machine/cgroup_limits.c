/* SPDX-License-Identifier: Apache-2.0 */
/* What control groups allow; see cgroup_limits.h.  A group's own file does not show what its parents allow, so the way
 * goes up to the root.  In a container the path may be the host's, and its folders are missing: then only the root
 * counts. */
#include <config.h>

#include "launch/machine/cgroup_limits.h"

#include "launch/machine/cgroup.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdio.h>
#include <string.h>

#define MOUNT "/sys/fs/cgroup"

/* Version 1 writes the largest multiple of a page if there is no limit. */
static const int64_t no_memory_limit = (int64_t) 1 << 60;

static bool
read_small (const char *folder, const char *name, char *text, size_t size)
{
    char path[1024];
    size_t length;
    AUTO_FREE char *bytes = NULL;
    if ((size_t) snprintf (path, sizeof path, "%s/%s", folder, name) >= sizeof path
        || io_read_file (path, size - 1, &bytes, &length, NULL))
        return false;
    memcpy (text, bytes, length);
    text[length] = '\0';
    text[strcspn (text, "\n")] = '\0';
    return *text;
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
    AUTO_FREE char *lines = NULL;
    *limits = (struct cgroup_limits){ 0 };
    if (!io_read_file ("/proc/self/cgroup", 65536, &lines, NULL, NULL))
        cgroup_read_limits (lines, MOUNT, limits);
}

int
cgroup_cpu_quota (void)
{
    struct cgroup_limits limits;
    cgroup_own_limits (&limits);
    int whole = limits.cpus < 1 << 20 ? (int) limits.cpus : 0;
    return whole + (whole < limits.cpus && limits.cpus < 1 << 20);
}
