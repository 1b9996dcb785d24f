/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the segments of running jobs in /proc; see jobs.h. */
#include <config.h>

#include "launch/watch/jobs.h"

#include "util/array.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/parse.h"
#include "util/procfs.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { OWN_ID = 16 }; /* digits of an id that a launcher has made */

/* What the kernel shows for jobseg_create()'s memfd, and guardian.c's name for the supervisor. */
static const char segment_link[] = "/memfd:accel-job (deleted)";
static const char supervisor_name[] = "accel-job";

static void
copy_text (char *to, size_t size, const char *from, size_t most)
{
    snprintf (to, size, "%.*s", (int) (most < size ? most : size - 1), from);
}

static bool
is_supervisor (pid_t pid)
{
    char name[32];
    procfs_read (pid, "comm", name, sizeof name);
    return !strncmp (name, supervisor_name, sizeof supervisor_name - 1) && name[sizeof supervisor_name - 1] == '\n';
}

/* The number of process @pid in its own namespace, which is what it writes into segments. */
static pid_t
own_number (pid_t pid)
{
    char text[4096];
    procfs_read (pid, "status", text, sizeof text);
    char *line = strstr (text, "\nNSpid:");
    if (!line)
        return pid;
    line++;
    line[strcspn (line, "\n")] = '\0';
    return (pid_t) strtol (strrchr (line, '\t') ? strrchr (line, '\t') : "0", NULL, 10);
}

/* The guardian is the parent of the supervisor, unless it was killed. */
static pid_t
find_launcher (pid_t supervisor, const struct jobseg_header *header)
{
    struct procfs_stat stat;
    if (header->launcher_pid <= 0 || !procfs_read_stat (supervisor, &stat) || stat.parent <= 0)
        return 0;
    return own_number (stat.parent) == header->launcher_pid ? stat.parent : 0;
}

/* Of a program that was started in another way. */
static void
read_command_line (pid_t pid, char *text, size_t size)
{
    ssize_t length = procfs_read (pid, "cmdline", text, size);
    while (length > 0 && !text[length - 1]) /* as where a title for ps has taken the place of the words */
        length--;
    for (ssize_t i = 0; i < length; i++)
        if (!text[i])
            text[i] = ' ';
}

static bool
has_segment (const struct watch_jobs *jobs, uint64_t inode)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->jobs[i].inode == inode)
            return true;
    return false;
}

/* A stranger can write into what is mapped at any time, so each number is read once, and checked. */
static void
fill_in (struct watch_job *job, bool is_ours)
{
    const struct jobseg_header *header = job->segment.header;
    size_t room = (job->segment.mapped_bytes - header->slots_offset) / sizeof (struct jobseg_slot);
    uint32_t count = header->local_world_size, first = header->first_rank, world = header->world_size;
    job->rank_count = (int) (count < room ? count : room);
    job->first_rank = first <= INT32_MAX - JOBSEG_MAX_LOCAL ? (int) first : 0;
    job->world_size = world <= INT32_MAX ? (int) world : job->rank_count;
    job->started_s = header->started_s;
    job->restarts = header->restarts;
    job->is_supervised = is_ours;
    job->hosts = is_ours ? 0 : (int) (header->hosts % INT32_MAX);
    job->launcher = job->hosts ? job->holder : is_ours ? find_launcher (job->holder, header) : 0;
    copy_text (job->id, sizeof job->id, header->job_id, sizeof header->job_id);
    if (strspn (job->id, "0123456789abcdef") == OWN_ID && job->id[OWN_ID] == '.')
        job->id[OWN_ID] = '\0'; /* what follows is the number of the restart */
    copy_text (job->program, sizeof job->program, header->program, sizeof header->program);
    if (!*job->program)
        read_command_line (job->holder, job->program, sizeof job->program);
}

/* A file that can become shorter would kill who reads it. */
static bool
cannot_shrink (int fd)
{
    int seals = fcntl (fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* Descriptor @holder_fd of process @pid.  What is not a segment is left out.  @return 0, or -1 without memory */
static int
add_segment (struct watch_jobs *jobs, pid_t pid, int holder_fd, bool is_ours)
{
    char path[64];
    struct stat info;
    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int) pid, holder_fd);
    struct jobseg segment = JOBSEG_NONE;
    if (stat (path, &info) || !S_ISREG (info.st_mode) || has_segment (jobs, info.st_ino))
        return 0;
    int fd = open (path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0; /* it has been closed */
    if (!cannot_shrink (fd)) {
        close (fd);
        jobs->foreign++;
        return 0;
    }
    if (jobseg_attach_fd (&segment, fd, NULL)) {
        jobs->foreign++;
        return 0;
    }
    bool is_head = segment.header->hosts > 0 && own_number (pid) == segment.header->launcher_pid;
    /* A rank of a job whose supervisor has it, too, or has ended. */
    if (!is_ours && !is_head && segment.header->launcher_pid > 0) {
        jobseg_detach (&segment);
        return 0;
    }
    struct watch_job *job = array_room (&jobs->jobs, jobs->count, sizeof *job);
    if (!job) {
        jobseg_detach (&segment);
        return -1;
    }
    close (segment.fd); /* or whoever searches would take us for a rank, when the last one has ended, too */
    segment.fd = -1;
    *job = (struct watch_job){ .segment = segment, .inode = info.st_ino, .holder = pid, .holder_fd = holder_fd };
    fill_in (job, is_ours);
    jobs->count++;
    return 0;
}

/* Processes that end meanwhile are left out. */
static int
search_process (struct watch_jobs *jobs, pid_t pid)
{
    char path[64], link[sizeof segment_link + 1];
    snprintf (path, sizeof path, "/proc/%d/fd", (int) pid);
    DIR *dir = opendir (path);
    int result = 0, is_ours = -1;
    for (const struct dirent *item; dir && !result && (item = readdir (dir));) {
        ssize_t length = readlinkat (dirfd (dir), item->d_name, link, sizeof link);
        if (length != (ssize_t) sizeof segment_link - 1 || memcmp (link, segment_link, sizeof segment_link - 1))
            continue;
        if (is_ours < 0)
            is_ours = is_supervisor (pid);
        result = add_segment (jobs, pid, (int) strtol (item->d_name, NULL, 10), is_ours);
    }
    if (dir)
        closedir (dir);
    return result;
}

static int
compare (const void *one, const void *other)
{
    const struct watch_job *a = one, *b = other;
    return (a->holder > b->holder) - (a->holder < b->holder);
}

/* The agent of the head's own host is below the head. */
static bool
is_part_of (const struct watch_job *job, const struct watch_job *head)
{
    enum { GENERATIONS = 4 }; /* supervisor, guardian, agent, head */
    struct procfs_stat stat;
    pid_t pid = job->holder;
    for (int i = 0; i < GENERATIONS && pid > 1 && pid != head->holder; i++)
        pid = procfs_read_stat (pid, &stat) ? stat.parent : 0;
    return head->hosts && !job->hosts && pid == head->holder;
}

/* A head shows all of its job. */
static void
remove_parts (struct watch_jobs *jobs)
{
    size_t kept = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        bool is_part = false;
        for (size_t j = 0; j < jobs->count; j++)
            is_part = is_part || is_part_of (&jobs->jobs[i], &jobs->jobs[j]);
        if (!is_part)
            jobs->jobs[kept++] = jobs->jobs[i];
        else
            watch_job_release (&jobs->jobs[i]);
    }
    jobs->count = kept;
}

int
watch_jobs_find (struct watch_jobs *jobs, struct fail *fail)
{
    *jobs = (struct watch_jobs){ 0 };
    DIR *dir = opendir ("/proc");
    if (!dir)
        return fail_set (fail, FAIL_GENERAL, "cannot read /proc: %s", strerror (errno));
    int result = 0;
    for (const struct dirent *item; !result && (item = readdir (dir));) {
        struct stat info;
        if (isdigit ((unsigned char) *item->d_name) && !fstatat (dirfd (dir), item->d_name, &info, 0)
            && info.st_uid == geteuid ())
            result = search_process (jobs, (pid_t) strtol (item->d_name, NULL, 10));
    }
    closedir (dir);
    if (result) {
        watch_jobs_release (jobs);
        return fail_nomem (fail);
    }
    if (jobs->count)
        qsort (jobs->jobs, jobs->count, sizeof *jobs->jobs, compare);
    remove_parts (jobs);
    return 0;
}

int
watch_job_of (struct watch_job *job, pid_t supervisor)
{
    struct watch_jobs jobs = { 0 };
    int result = search_process (&jobs, supervisor) || !jobs.count ? -1 : 0;
    *job = (struct watch_job){ .segment = JOBSEG_NONE };
    if (!result) {
        *job = jobs.jobs[0];
        jobs.jobs[0].segment = (struct jobseg) JOBSEG_NONE;
    }
    watch_jobs_release (&jobs);
    return result;
}

/* ---- asking a head ---- */

/* What can be written to is a pipe, and the head never stops reading it. */
void
watch_job_ask (const struct watch_job *job)
{
    char path[64];
    struct stat info;
    if (!job->hosts)
        return;
    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int) job->holder, (int) job->segment.header->bell);
    AUTO_CLOSE int fd = open (path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !fstat (fd, &info) && S_ISFIFO (info.st_mode) && write (fd, "", 1) < 0)
        return; /* full: it has been asked */
}

static bool
have_answered (const struct watch_job *job, uint64_t since_ns)
{
    for (int i = 0; i < job->rank_count; i++) {
        const struct jobseg_told *told = &jobseg_slot (&job->segment, i)->told;
        if (atomic_load (&told->ns) < since_ns && atomic_load (&told->host_state) == JOBSEG_HOST_RUNS)
            return false;
    }
    return true;
}

void
watch_job_await (const struct watch_job *job, int wait_ms)
{
    enum { AGAIN_MS = 1000 }; /* an agent may have known nothing of its ranks yet */
    uint64_t since_ns = (uint64_t) clock_ns ();
    int64_t until_ms = clock_ms () + wait_ms, ask_ms = 0;
    while (job->hosts && !have_answered (job, since_ns) && clock_ms () < until_ms) {
        if (clock_ms () >= ask_ms)
            watch_job_ask (job);
        ask_ms = clock_ms () >= ask_ms ? clock_ms () + AGAIN_MS : ask_ms;
        nanosleep (&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
}

void
watch_job_release (struct watch_job *job)
{
    jobseg_detach (&job->segment);
}

void
watch_jobs_release (struct watch_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        watch_job_release (&jobs->jobs[i]);
    free (jobs->jobs);
    *jobs = (struct watch_jobs){ 0 };
}

/* @return -1 */
static int
fail_choice (const struct watch_jobs *jobs, const char *what, struct fail *fail)
{
    enum { NAMED = 8 };
    AUTO_STRBUF struct strbuf list = { 0 };
    for (size_t i = 0; i < jobs->count && i < NAMED; i++)
        strbuf_printf (&list, "%s%s (%.40s)", i ? ", " : "", jobs->jobs[i].id, jobs->jobs[i].program);
    return fail_set (fail, FAIL_GENERAL, "%s: %s%s", what, list.text ? list.text : "",
                     jobs->count > NAMED ? " and others" : "");
}

static void
fail_unknown (const struct watch_jobs *jobs, const char *word, struct fail *fail)
{
    char what[160], space[80];
    struct suggest suggest = { .wanted = word };
    for (size_t i = 0; i < jobs->count; i++)
        suggest_consider (&suggest, jobs->jobs[i].id);
    if (suggest.best)
        fail_set (fail, FAIL_GENERAL, "no running job '%.40s'%s", word,
                  suggest_text (&suggest, "", space, sizeof space));
    else {
        snprintf (what, sizeof what, "no running job '%.40s'; there are", word);
        fail_choice (jobs, what, fail);
    }
}

struct watch_job *
watch_jobs_choose (const struct watch_jobs *jobs, const char *word, struct fail *fail)
{
    struct watch_job *found = NULL;
    int64_t pid = 0;
    if (!jobs->count) {
        fail_set (fail, FAIL_GENERAL, "this user has no running job on this host%s",
                  jobs->foreign ? " but those of other releases" : "");
        return NULL;
    }
    if (!word && jobs->count > 1) {
        fail_choice (jobs, "several jobs are running, name one of them", fail);
        return NULL;
    }
    if (word && parse_int64 (word, 1, INT32_MAX, &pid) != PARSE_OK)
        pid = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        struct watch_job *job = &jobs->jobs[i];
        if (!word || (pid && pid == (job->launcher ? job->launcher : job->holder)))
            return job;
    }
    for (size_t i = 0; word && *word && i < jobs->count; i++) {
        if (strncmp (jobs->jobs[i].id, word, strlen (word)))
            continue;
        if (found && !strcmp (found->id, jobs->jobs[i].id)) { /* hosts in containers that this process sees into */
            found = jobs->jobs[i].hosts ? &jobs->jobs[i] : found;
            continue;
        }
        if (found) {
            char what[96];
            snprintf (what, sizeof what, "'%.40s' is the beginning of several jobs", word);
            fail_choice (jobs, what, fail);
            return NULL;
        }
        found = &jobs->jobs[i];
    }
    if (!found)
        fail_unknown (jobs, word, fail);
    return found;
}

int
watch_job_find (struct watch_job *job, const char *word, struct fail *fail)
{
    struct watch_jobs jobs;
    *job = (struct watch_job){ .segment = JOBSEG_NONE };
    if (watch_jobs_find (&jobs, fail))
        return -1;
    struct watch_job *found = watch_jobs_choose (&jobs, word, fail);
    if (found) {
        *job = *found;
        found->segment = (struct jobseg) JOBSEG_NONE;
    }
    watch_jobs_release (&jobs);
    return found ? 0 : -1;
}

/* Ranks that mpirun or torchrun has started get their signals through that. */
static int
fail_without_launcher (const struct watch_job *job, struct fail *fail)
{
    struct procfs_stat stat = { 0 };
    char name[32] = "";
    if (job->is_supervised)
        return fail_set (fail, FAIL_GENERAL, "job %s is already ending: its launcher is gone", job->id);
    if (procfs_read_stat (job->holder, &stat))
        procfs_read (stat.parent, "comm", name, sizeof name);
    name[strcspn (name, "\n")] = '\0';
    return fail_set (fail, FAIL_GENERAL, "accelerate launch has not started job %s, so send the signal to its "
                     "launcher: process %d (%s)", job->id, (int) stat.parent, name);
}

static bool
holds_segment (const struct watch_job *job)
{
    char path[64];
    struct stat info;
    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int) job->holder, job->holder_fd);
    return !stat (path, &info) && info.st_ino == job->inode;
}

int
watch_job_signal (const struct watch_job *job, int signal, struct fail *fail)
{
    struct procfs_stat stat;
    if (!job->launcher)
        return fail_without_launcher (job, fail);
    int fd = (int) syscall (SYS_pidfd_open, job->launcher, 0);
    /* The process, and not another one that has got its number meanwhile. */
    if (fd < 0 || !(job->hosts ? holds_segment (job) : procfs_read_stat (job->holder, &stat)
                                                       && stat.parent == job->launcher))
        fail_set (fail, FAIL_GENERAL, "job %s has just ended", job->id);
    else if (syscall (SYS_pidfd_send_signal, fd, signal, NULL, 0))
        fail_set (fail, FAIL_GENERAL, "cannot send a signal to process %d: %s", (int) job->launcher, strerror (errno));
    else
        return fd;
    if (fd >= 0)
        close (fd);
    return -1;
}
