/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about system, processors, memory and limits, from /proc and /sys. */
#include <config.h>

#include "cli/env/facts.h"

#include "launch/machine/cgroup.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <dirent.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

static const double gib = 1024.0 * 1024 * 1024;

void
fact_platform (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    struct utsname name;
    if (uname (&name)) {
        strlist_add (values, "unknown");
        return;
    }
#ifdef __GLIBC__
    strlist_printf (values, "%s-%s-%s-with-glibc%s", name.sysname, name.release, name.machine, gnu_get_libc_version ());
#else
    strlist_printf (values, "%s-%s-%s", name.sysname, name.release, name.machine);
#endif
}

/* A line "KEY<blanks>: VALUE" of /proc's tables.  @return the value, its length in *length, or NULL */
static const char *
find_line (const char *text, const char *key, size_t *length)
{
    size_t wanted = strlen (key);
    for (const char *line = text; *line; line += strcspn (line, "\n"), line += *line == '\n') {
        if (strncmp (line, key, wanted))
            continue;
        const char *at = line + wanted + strspn (line + wanted, " \t");
        if (*at != ':')
            continue;
        at += 1 + strspn (at + 1, " \t");
        *length = strcspn (at, "\n");
        return at;
    }
    return NULL;
}

/* x86 and POWER name their model; on arm64 the kernel knows numbers only. */
void
fact_cpu (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    static const char *const keys[] = { "model name", "cpu model", "cpu", "Model", "CPU part" };
    AUTO_FREE char *text = NULL;
    struct utsname name;
    size_t length = 0;
    const char *model = NULL;
    if (!io_read_file ("/proc/cpuinfo", 64 << 20, &text, NULL, NULL))
        for (size_t i = 0; i < sizeof keys / sizeof *keys && !model; i++)
            model = find_line (text, keys[i], &length);
    if (model)
        strlist_printf (values, "%.*s", (int) length, model);
    else
        strlist_add (values, uname (&name) ? "unknown" : name.machine);
}

static int
count_numa_nodes (void)
{
    int count = 0;
    DIR *folder = opendir ("/sys/devices/system/node");
    for (struct dirent *entry; folder && (entry = readdir (folder));)
        count += !strncmp (entry->d_name, "node", 4) && entry->d_name[4] >= '0' && entry->d_name[4] <= '9';
    if (folder)
        closedir (folder);
    return count > 0 ? count : 1;
}

void
fact_cpu_count (const struct machine *machine, struct strlist *values)
{
    int nodes = count_numa_nodes ();
    strlist_printf (values, "%d usable of %ld, %d physical cores, %d NUMA node%s", machine->topology.cpus,
                    sysconf (_SC_NPROCESSORS_ONLN), machine->topology.physical_cores, nodes, nodes == 1 ? "" : "s");
}

void
fact_memory (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    struct sysinfo info;
    if (sysinfo (&info))
        strlist_add (values, "unknown");
    else
        strlist_printf (values, "%.2f GB", (double) info.totalram * info.mem_unit / gib);
}

void
fact_limits (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    struct cgroup_limits limits;
    cgroup_own_limits (&limits);
    if (limits.memory)
        strlist_printf (values, "memory: %.2f GB (%s)", (double) limits.memory / gib, limits.memory_file);
    if (limits.cpus > 0)
        strlist_printf (values, "CPU time: %.2f CPUs (%s)", limits.cpus, limits.cpus_file);
    if (*limits.cpuset)
        strlist_printf (values, "CPUs: %s", limits.cpuset);
}
