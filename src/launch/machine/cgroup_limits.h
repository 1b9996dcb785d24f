/* SPDX-License-Identifier: Apache-2.0 */
/* What the control groups of this process allow it: memory, time and CPUs. */
#ifndef LAUNCH_MACHINE_CGROUP_LIMITS_H
#define LAUNCH_MACHINE_CGROUP_LIMITS_H

#include <stdint.h>

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
