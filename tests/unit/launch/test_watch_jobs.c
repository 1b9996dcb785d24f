/* SPDX-License-Identifier: Apache-2.0 */
/* Finding running jobs: which processes' segments are jobs, what strangers put there, and which job a word means. */
#include <config.h>

#include "launch/watch/jobs.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, FIRST = 4, WORLD = 9 };

static char id[40]; /* other jobs may be running */

/* A process that holds what @make has made, and waits. */
static pid_t
start (const char *name, void (*make) (void))
{
    int ends[2];
    char byte;
    if (pipe (ends))
        return -1;
    pid_t pid = fork ();
    if (pid == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        prctl (PR_SET_NAME, name);
        make ();
        if (write (ends[1], "x", 1) == 1)
            pause ();
        _exit (0);
    }
    close (ends[1]);
    ok (read (ends[0], &byte, 1) == 1, "%s has started", name);
    close (ends[0]);
    return pid;
}

static void
stop (pid_t pid)
{
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
}

static struct jobseg made;

static void
make_job (void)
{
    jobseg_create (&made, WORLD, RANKS, FIRST, id, NULL);
    made.header->launcher_pid = getppid ();
    made.header->restarts = 2;
    snprintf (made.header->program, sizeof made.header->program, "train --lr 1");
}

static void
make_job_of_another (void)
{
    make_job ();
    made.header->launcher_pid = 1;
}

static void
make_foreign (void)
{
    make_job ();
    made.header->launcher_pid = 0;
    *made.header->program = '\0';
}

static void
make_endless_texts (void)
{
    make_job ();
    memset (made.header->job_id, 'j', sizeof made.header->job_id);
    memset (made.header->program, 'p', sizeof made.header->program);
    memcpy (made.header->job_id, id, strlen (id));
    made.header->first_rank = UINT32_MAX;
    made.header->world_size = UINT32_MAX;
}

static void
make_other_version (void)
{
    make_job ();
    made.header->version++;
}

static void
make_garbage (void)
{
    int fd = memfd_create ("accel-job", MFD_ALLOW_SEALING);
    static char bytes[1 << 18];
    memset (bytes, 0xa5, sizeof bytes);
    if (write (fd, bytes, sizeof bytes) < 0 || fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK))
        _exit (1);
}

static void
make_empty (void)
{
    if (fcntl (memfd_create ("accel-job", MFD_ALLOW_SEALING), F_ADD_SEALS, F_SEAL_SHRINK))
        _exit (1);
}

/* All that a segment has, but its maker may cut it off while it is read. */
static void
make_unsealed (void)
{
    static char bytes[1 << 20];
    make_job ();
    int fd = memfd_create ("accel-job", MFD_ALLOW_SEALING);
    memcpy (bytes, made.header, made.mapped_bytes);
    if (write (fd, bytes, sizeof bytes) < 0)
        _exit (1);
    jobseg_detach (&made);
}

/* @return our job among those that run, by the beginning of its id */
static struct watch_job *
find (struct watch_jobs *jobs)
{
    struct fail fail;
    if (watch_jobs_find (jobs, &fail)) {
        diag ("%s", fail.text);
        return NULL;
    }
    for (size_t i = 0; i < jobs->count; i++)
        if (!strncmp (jobs->jobs[i].id, id, strlen (id)))
            return &jobs->jobs[i];
    return NULL;
}

static void
test_job (void)
{
    struct watch_jobs jobs;
    pid_t pid = start ("accel-job", make_job);
    const struct watch_job *job = find (&jobs);
    ok (job && job->holder == pid && job->launcher == getpid () && job->rank_count == RANKS && job->first_rank == FIRST
        && job->world_size == WORLD && job->restarts == 2 && !strcmp (job->program, "train --lr 1") && job->started_s,
        "a supervisor's segment is a job");
    watch_jobs_release (&jobs);
    stop (pid);
    ok (!find (&jobs), "and is none when the supervisor has ended");
    watch_jobs_release (&jobs);
}

static void
test_launcher (void)
{
    struct watch_jobs jobs;
    pid_t pid = start ("accel-job", make_job_of_another);
    const struct watch_job *job = find (&jobs);
    ok (job && !job->launcher, "a parent that is not the guardian gets no signals");
    watch_jobs_release (&jobs);
    stop (pid);
    pid = start ("rank", make_foreign);
    job = find (&jobs);
    ok (job && job->holder == pid && !job->launcher && strstr (job->program, "test_watch_jobs"),
        "ranks under another launcher are a job, too, with their command line: '%s'", job ? job->program : "");
    stop (pid);
    struct watch_jobs later;
    ok (job && !find (&later), "and none when they have ended, although somebody still watches");
    watch_jobs_release (&later);
    watch_jobs_release (&jobs);
    pid = start ("rank", make_job);
    ok (!find (&jobs), "a rank whose supervisor has ended is not");
    watch_jobs_release (&jobs);
    stop (pid);
}

static void
test_strangers (void)
{
    static const struct {
        const char *name;
        void (*make) (void);
    } strangers[] = { { "another version", make_other_version }, { "garbage", make_garbage }, { "nothing", make_empty },
                      { "a file that can shrink", make_unsealed } };
    struct watch_jobs jobs;
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        pid_t pid = start ("accel-job", strangers[i].make);
        ok (!find (&jobs) && jobs.foreign > 0, "%s is left out, and counted", strangers[i].name);
        watch_jobs_release (&jobs);
        stop (pid);
    }
    pid_t pid = start ("accel-job", make_endless_texts);
    const struct watch_job *job = find (&jobs);
    ok (job && strlen (job->id) == sizeof job->id - 1 && strlen (job->program) == sizeof job->program - 1
        && job->first_rank == 0 && job->world_size == RANKS, "endless texts are cut off, wrong numbers replaced");
    watch_jobs_release (&jobs);
    stop (pid);
}

static void
test_choice (void)
{
    struct watch_job rows[] = { { .id = "12ab", .holder = 11, .launcher = 10, .program = "one" },
                                { .id = "12cd", .holder = 21, .launcher = 20, .program = "two" },
                                { .id = "job.29500", .holder = 31, .program = "three" } };
    struct watch_jobs jobs = { .jobs = rows, .count = 3 }, one = { .jobs = rows, .count = 1 }, none = { 0 };
    struct watch_jobs two = { .jobs = rows, .count = 2 };
    struct fail fail = { 0 };
    ok (watch_jobs_choose (&one, NULL, &fail) == rows, "the only one");
    ok (watch_jobs_choose (&jobs, "12c", &fail) == &rows[1], "the beginning of an id");
    ok (watch_jobs_choose (&jobs, "20", &fail) == &rows[1], "a launcher's process");
    ok (watch_jobs_choose (&jobs, "31", &fail) == &rows[2], "a rank's, where there is no launcher");
    ok (!watch_jobs_choose (&two, "job", &fail) && !watch_jobs_choose (&two, "31", &fail), "none beyond the end");
    ok (!watch_jobs_choose (&jobs, NULL, &fail) && strstr (fail.text, "several jobs")
        && strstr (fail.text, "12cd (two)"), "%s", fail.text);
    ok (!watch_jobs_choose (&jobs, "12", &fail) && strstr (fail.text, "beginning of several"), "%s", fail.text);
    ok (!watch_jobs_choose (&jobs, "12ax", &fail) && strstr (fail.text, "did you mean '12ab'"), "%s", fail.text);
    ok (!watch_jobs_choose (&jobs, "", &fail) && strstr (fail.text, "job ''; there are"), "%s", fail.text);
    ok (!watch_jobs_choose (&jobs, "nonsense-word", &fail) && strstr (fail.text, "are: 12ab (one)"), "%s", fail.text);
    ok (!watch_jobs_choose (&none, "12ab", &fail) && strstr (fail.text, "no running job on"), "%s", fail.text);
    ok (!watch_jobs_choose (&none, NULL, &fail), "%s", fail.text);
}

static void
test_find (void)
{
    struct watch_job job;
    struct fail fail;
    pid_t pid = start ("accel-job", make_job);
    ok (!watch_job_find (&job, id, &fail) && job.holder == pid && job.segment.header->restarts == 2, "found by its id");
    if (job.segment.header)
        atomic_fetch_or (&job.segment.header->request, JOBSEG_SAVE);
    watch_job_release (&job);
    ok (!watch_job_find (&job, id, &fail) && atomic_load (&job.segment.header->request) == JOBSEG_SAVE,
        "a request reaches it");
    watch_job_release (&job);
    stop (pid);
    ok (watch_job_find (&job, id, &fail) && !job.segment.header, "%s", fail.text);
}

int
main (void)
{
    snprintf (id, sizeof id, "test.%d", (int) getpid ());
    test_job ();
    test_launcher ();
    test_strangers ();
    test_choice ();
    test_find ();
    return done_testing ();
}
