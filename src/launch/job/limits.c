/* SPDX-License-Identifier: Apache-2.0 */
/* Open files and processes; see limits.h. */
#include <config.h>

#include "launch/job/limits.h"

#include "launch/job/logs.h"
#include "launch/machine/cgroup.h"

#include <dirent.h>
#include <unistd.h>

enum {
    SPARE = 16,     /* files that are open while ranks are started, and those of reports */
    GENEROUS = 128, /* more, if they cost nothing */
};

/* The one with which we look is not counted. */
static rlim_t
count_open (void)
{
    rlim_t count = 0;
    DIR *folder = opendir ("/proc/self/fd");
    for (const struct dirent *entry; folder && (entry = readdir (folder));)
        count += *entry->d_name != '.';
    if (folder)
        closedir (folder);
    return count ? count - 1 : 3;
}

static const char *
plural_of (const struct job *job)
{
    return job->count > 1 ? "s" : "";
}

static const char *
or_fewer (const struct job *job)
{
    return job->count > 1 ? ", or start fewer" : "";
}

static int
prepare_files (struct limits *limits, const struct job *job, struct fail *fail)
{
    struct rlimit limit;
    rlim_t needed = count_open () + (rlim_t) logs_count_descriptors (job) + (rlim_t) job->count + SPARE;
    if (getrlimit (RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed + GENEROUS)
        return 0;
    if (limit.rlim_max < needed)
        return fail_set (fail, FAIL_GENERAL, "cannot start %d rank%s: the launcher needs %llu open files, but may have "
                         "%llu; raise the hard limit (ulimit -n %llu, as root)%s", job->count, plural_of (job),
                         (unsigned long long) needed, (unsigned long long) limit.rlim_max,
                         (unsigned long long) needed, or_fewer (job));
    limits->given = limit;
    limit.rlim_cur = limit.rlim_max < needed + GENEROUS ? limit.rlim_max : needed + GENEROUS;
    limits->is_raised = !setrlimit (RLIMIT_NOFILE, &limit);
    return 0;
}

/* What is certain: that others of the user, or threads, take the rest is seen when it happens. */
static int
check_processes (const struct job *job, struct fail *fail)
{
    struct rlimit limit;
    int64_t left = cgroup_free_pids ();
    if (left >= 0 && left < job->count)
        return fail_set (fail, FAIL_GENERAL, "cannot start %d rank%s: the control group allows %lld more processes; "
                         "raise its pids.max (docker run --pids-limit)%s", job->count, plural_of (job),
                         (long long) left, or_fewer (job));
    if (geteuid () && !getrlimit (RLIMIT_NPROC, &limit) && limit.rlim_cur < (rlim_t) job->count + 2)
        return fail_set (fail, FAIL_GENERAL, "cannot start %d rank%s: this user may have %llu processes; raise the "
                         "limit (ulimit -u)%s", job->count, plural_of (job), (unsigned long long) limit.rlim_cur,
                         or_fewer (job));
    return 0;
}

int
limits_prepare (struct limits *limits, const struct job *job, struct fail *fail)
{
    *limits = (struct limits){ 0 };
    return check_processes (job, fail) || prepare_files (limits, job, fail) ? -1 : 0;
}
