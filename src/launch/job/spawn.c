/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a process as posix_spawn() does, in a child that shares our memory until it calls exec: the cost does not
 * depend on how large we are, and an error needs no pipe to come back.  posix_spawn() itself cannot ask for the
 * parent-death signal.  See spawn.h. */
#include <config.h>

#include "launch/job/spawn.h"

#include "launch/job/job.h"
#include "launch/machine/cgroup.h"
#include "launch/machine/topology.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/fail.h"
#include "util/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    STACK_BYTES = 64 * 1024,
    SPARE = 16,     /* files that are open while ranks are started, and those of reports */
    GENEROUS = 128, /* more, if they cost nothing */
};

/* ---- whether the limits of this process allow what a job needs ---- */

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

/* Raise what can be raised.  @return 0, or -1 with @fail: not all ranks could be started */
static int
prepare_limits (struct limits *limits, const struct job *job, struct fail *fail)
{
    *limits = (struct limits){ 0 };
    return check_processes (job, fail) || prepare_files (limits, job, fail) ? -1 : 0;
}

/* ---- what the ranks have in common ---- */

/* What the child has to do; it runs on our memory, so it only reads this and writes `error`. */
struct child {
    const char *path;
    char *const *argv;
    char *const *envp;
    int in, out, err; /* -1: as ours */
    int passed; /* a descriptor that it inherits; 0: none */
    pid_t group; /* 0: a new one */
    pid_t launcher;
    const sigset_t *mask;
    const struct rlimit *descriptors; /* NULL: as ours */
    const cpu_set_t *cpus; /* NULL: as ours */
    size_t cpus_bytes;
    char *file_number; /* where to write the number of the file for tracebacks; NULL: it gets none */
    volatile int error;
};

/* The stack is not the one that sanitizers know. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define ON_FOREIGN_STACK __attribute__ ((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#else
#define ON_FOREIGN_STACK
#endif

/* The thread sanitizer takes each clone() for a fork(), and in a child of several threads it stops to look at what
 * synchronises them.  This child shares our memory, so it would stop doing that in ours; __clone() it does not see.
 * Descriptors are the child's own, though: its dup2() does not change ours. */
#ifdef __SANITIZE_THREAD__
extern __typeof__ (clone) __clone;
#define clone __clone
#define dup2(from, to) ((int) syscall (SYS_dup3, from, to, 0))
#endif

/* For Python; see stacks/python.c.  Without a file, the variable says where people see it.  Python writes at the end,
 * because who reads cuts off what was there. */
ON_FOREIGN_STACK static void
make_traceback_file (char *number)
{
    char digits[12];
    int count = 0, fd = (int) syscall (SYS_memfd_create, STACKS_FILE, 0);
    if (fd < 0)
        fd = 2;
    else
        fcntl (fd, F_SETFL, O_APPEND);
    do
        digits[count++] = (char) ('0' + fd % 10);
    while (fd /= 10);
    while (count)
        *number++ = digits[--count];
    *number = '\0';
}

ON_FOREIGN_STACK static int
run_child (void *argument)
{
    struct child *child = argument;
    setpgid (0, child->group);
    /* The order matters: a launcher that has died before prctl() sends no signal any more. */
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != child->launcher)
        _exit (FAIL_BY_SIGNAL + SIGKILL);
    if ((child->in >= 0 && dup2 (child->in, 0) < 0) || (child->out >= 0 && dup2 (child->out, 1) < 0)
        || (child->err >= 0 && dup2 (child->err, 2) < 0)) {
        child->error = errno;
        _exit (FAIL_NOT_FOUND);
    }
    if (child->passed)
        fcntl (child->passed, F_SETFD, 0); /* of its own copy of our descriptors */
    if (child->file_number)
        make_traceback_file (child->file_number);
    if (child->descriptors)
        setrlimit (RLIMIT_NOFILE, child->descriptors);
    if (child->cpus)
        sched_setaffinity (0, child->cpus_bytes, child->cpus); /* if it fails, they have just been taken away from us */
    sigprocmask (SIG_SETMASK, child->mask, NULL);
    execve (child->path, child->argv, child->envp);
    child->error = errno;
    _exit (FAIL_NOT_FOUND);
}

static bool
is_overridden (const struct strlist *env, const char *item)
{
    return strlist_variable (env, item) || !strncmp (item, ENV_JOB_SEGMENT "=", sizeof ENV_JOB_SEGMENT)
           || !strncmp (item, ENV_JOB_ID "=", sizeof ENV_JOB_ID) || !strncmp (item, ENV_MEMORY "=", sizeof ENV_MEMORY)
           || !strncmp (item, ENV_STACK_SIGNAL "=", sizeof ENV_STACK_SIGNAL)
           || !strncmp (item, ENV_STACK_FD "=", sizeof ENV_STACK_FD);
}

/* The launcher's own variables come last and are the same for all ranks; what the plan sets is left out of them. */
static int
make_environment (struct spawn *spawn, struct fail *fail)
{
    const struct job *job = spawn->job;
    const struct strlist *env = &job->plan->processes[0].env;
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    if (asprintf (&spawn->segment, ENV_JOB_SEGMENT "=/proc/%d/fd/%d", (int) spawn->launcher, job->segment.fd) < 0)
        spawn->segment = NULL;
    if (asprintf (&spawn->id, ENV_JOB_ID "=%s", job->id) < 0)
        spawn->id = NULL;
    const struct memtier *memtier = job->plan->memtier;
    if (memtier
        && asprintf (&spawn->memory, ENV_MEMORY "=/proc/%d/fd/%d", (int) spawn->launcher, memtier->fd) < 0)
        spawn->memory = NULL;
    snprintf (spawn->signal, sizeof spawn->signal, ENV_STACK_SIGNAL "=%d", STACKS_SIGNAL);
    spawn->common = calloc (inherited + 5, sizeof *spawn->common);
    if (!spawn->segment || !spawn->id || (memtier && !spawn->memory) || !spawn->common)
        return fail_nomem (fail);
    size_t count = 0;
    if (!job->plan->is_external) { /* the ranks of another launcher are not those of our job */
        spawn->common[count++] = spawn->segment;
        spawn->common[count++] = spawn->id;
        spawn->common[count++] = spawn->signal;
        if (spawn->memory)
            spawn->common[count++] = spawn->memory;
    }
    for (size_t i = 0; i < inherited; i++)
        if (!is_overridden (env, environ[i]))
            spawn->common[count++] = environ[i];
    spawn->common_count = count;
    return 0;
}

int
spawn_init (struct spawn *spawn, struct job *job, struct fail *fail)
{
    struct stat input;
    *spawn = (struct spawn){ .job = job, .null = -1, .launcher = getpid () };
    spawn->has_input = !job->plan->has_no_input && !io_is_closed (0);
    spawn->terminal = spawn->has_input && isatty (0);
    spawn->may_ask = spawn->has_input && !fstat (0, &input)
                     && (spawn->terminal || S_ISFIFO (input.st_mode) || S_ISSOCK (input.st_mode));
    if (prepare_limits (&spawn->limits, job, fail) || make_environment (spawn, fail))
        goto error;
    spawn->null = open ("/dev/null", O_RDWR | O_CLOEXEC);
    if (spawn->null < 0) {
        fail_set (fail, FAIL_GENERAL, "/dev/null: %s", strerror (errno));
        goto error;
    }
    return 0;
error:
    spawn_release (spawn);
    return -1;
}

void
spawn_release (struct spawn *spawn)
{
    free (spawn->common);
    free (spawn->segment);
    free (spawn->id);
    free (spawn->memory);
    if (spawn->null >= 0)
        close (spawn->null);
    *spawn = (struct spawn){ .null = -1 };
}

int
spawn_context_init (struct spawn_context *context, const struct spawn *spawn, struct fail *fail)
{
    size_t own = spawn->job->plan->processes[0].env.count;
    *context = (struct spawn_context){ .spawn = spawn };
    snprintf (context->file, sizeof context->file, ENV_STACK_FD "=");
    context->envp = malloc ((own + spawn->common_count + 2) * sizeof *context->envp);
    if (!context->envp)
        return fail_nomem (fail);
    if (!spawn->job->plan->is_external)
        context->envp[own++] = context->file;
    memcpy (context->envp + own, spawn->common, (spawn->common_count + 1) * sizeof *context->envp);
    void *stack = mmap (NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        spawn_context_release (context);
        return fail_nomem (fail);
    }
    context->stack = stack;
    return 0;
}

void
spawn_context_release (struct spawn_context *context)
{
    free (context->envp);
    if (context->stack)
        munmap (context->stack, STACK_BYTES);
    *context = (struct spawn_context){ 0 };
}

static int
fail_exec (const struct job_rank *rank, int error, struct fail *fail)
{
    return fail_set (fail, status_of_exec (error), "cannot start rank %d: %s: %s%s", rank->process->rank,
                     rank->process->argv.items[0], strerror (error), status_exec_hint (error));
}

static int
start (struct spawn_context *context, struct job_rank *rank, struct child *child, struct fail *fail)
{
    /* The stack grows downwards on every machine that Debian has. */
    pid_t pid = clone (run_child, (char *) context->stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, child);
    if (pid < 0)
        return fail_exec (rank, errno, fail);
    if (child->error) {
        while (waitpid (pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return fail_exec (rank, child->error, fail);
    }
    rank->pid = pid;
    rank->own_group = child->group == 0;
    rank->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
    if (rank->pidfd < 0) {
        int error = errno;
        kill (pid, SIGKILL);
        while (waitpid (pid, NULL, 0) < 0 && errno == EINTR)
            ;
        rank->pid = 0;
        return fail_exec (rank, error, fail);
    }
    return 0;
}

int
spawn_rank (struct spawn_context *context, int index, struct fail *fail)
{
    const struct spawn *spawn = context->spawn;
    struct job *job = spawn->job;
    struct job_rank *rank = &job->ranks[index];
    const struct plan_process *process = rank->process;
    int ends[JOB_STREAMS];
    rank->may_ask = process->local_rank == 0 && spawn->may_ask;
    if (logs_open_streams (job, rank, ends, fail))
        return -1;
    if (process->env.count)
        memcpy (context->envp, process->env.items, process->env.count * sizeof *context->envp);
    cpu_set_t cpus[8];
    CPU_ZERO_S (sizeof cpus, cpus);
    cpu_list_mark (process->cpus ? process->cpus : "", cpus, sizeof cpus);
    struct child child = {
        .path = process->argv.items[0],
        .argv = process->argv.items,
        .envp = (char *const *) context->envp,
        .in = process->local_rank || !spawn->has_input ? spawn->null : -1,
        .out = ends[JOB_OUT] < 0 && io_is_closed (1) ? spawn->null : ends[JOB_OUT],
        .err = ends[JOB_ERR] < 0 && io_is_closed (2) ? spawn->null : ends[JOB_ERR],
        .passed = process->passed_fd,
        .group = spawn->terminal && process->local_rank == 0 ? job->guardian->group : 0,
        .launcher = spawn->launcher,
        .mask = &job->guardian->old_mask,
        .descriptors = spawn->limits.is_raised ? &spawn->limits.given : NULL,
        .cpus = process->cpus ? cpus : NULL,
        .cpus_bytes = sizeof cpus,
        .file_number = job->plan->is_external ? NULL : context->file + sizeof ENV_STACK_FD,
    };
    int result = start (context, rank, &child, fail);
    for (int i = 0; i < JOB_STREAMS; i++)
        if (ends[i] >= 0)
            close (ends[i]);
    if (result)
        logs_close_streams (rank);
    return result;
}
