/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups of this process: their files, what they allow, and whether the kernel killed for lack of
 * memory. */
#ifndef LAUNCH_MACHINE_CGROUP_H
#define LAUNCH_MACHINE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** @return how many processes of the group the kernel has killed because memory ran out so far; -1: unknown. */
int64_t cgroup_oom_kills (void);

/** @return how many more processes the group may have; -1: unknown, or no limit. */
int64_t cgroup_free_pids (void);

/**
 * Find the file @p name of a controller's group, from the lines of /proc/self/cgroup.
 *
 * @param lines       text of /proc/self/cgroup
 * @param controller  "memory" (version 1), or "" for the unified hierarchy (version 2)
 * @return false if the text names none, or it does not fit
 */
bool cgroup_path (const char *lines, const char *controller, char *path, size_t size);

/** The number after @p key in text of lines "key number"; -1 if it is missing. */
int64_t cgroup_field (const char *text, const char *key);

/** What the groups from this process's up to the root allow; of limits of one kind the tightest. */
struct cgroup_limits {
    int64_t memory;        /* bytes; 0: no limit is known */
    double cpus;           /* CPUs' worth of time; 0: no limit is known */
    char memory_file[512]; /* where that is */
    char cpus_file[512];
    char cpuset[256];      /* CPUs of the process's own group, "0-3,8"; "": unknown */
};

/**
 * Read the limits, of both versions of control groups.
 *
 * @param lines  text of /proc/self/cgroup
 * @param mount  where the groups are mounted: /sys/fs/cgroup
 */
void cgroup_read_limits (const char *lines, const char *mount, struct cgroup_limits *limits);

/** The same for this process. */
void cgroup_own_limits (struct cgroup_limits *limits);

/** @return how many CPUs' worth of time the group may use, rounded up; 0: no limit is known. */
int cgroup_cpu_quota (void);

#endif
