/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to foreign code in a child process; see probe.h. */
#include <config.h>

#include "util/probe.h"

#include "util/cleanup.h"
#include "util/clock.h"
#include "util/io.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

int
probe_open_library (const char *const *names, const struct probe_symbol *symbols, struct fail *fail)
{
    void *library = NULL;
    const char *name = *names;
    for (; *names && !library; names++)
        library = dlopen (name = *names, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror ();
        bool is_absent = !why || strstr (why, "No such file");
        return fail_set (fail, is_absent ? FAIL_NOT_FOUND : FAIL_GENERAL, "%s", why ? why : "not found");
    }
    for (; symbols->name; symbols++) {
        void *address = dlsym (library, symbols->name);
        if (!address)
            return fail_set (fail, FAIL_GENERAL, "%s has no %s()", name, symbols->name);
        memcpy (symbols->address, &address, sizeof address);
    }
    return 0;
}

void
probe_find_more (const char *name, const struct probe_symbol *symbols)
{
    void *library = dlopen (name, RTLD_NOW | RTLD_NOLOAD);
    for (; library && symbols->name; symbols++) {
        void *address = dlsym (library, symbols->name);
        if (address)
            memcpy (symbols->address, &address, sizeof address);
    }
}

/* A crash must look like one (a sanitizer or an inherited handler would hide it), leave no core file and no sound. */
static void
isolate (pid_t parent)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGPIPE };
    setpgid (0, 0);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != parent)
        _exit (FAIL_GENERAL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal (crashes[i], SIG_DFL);
    struct rlimit none = { 0, 0 };
    setrlimit (RLIMIT_CORE, &none);
    int null = open ("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2 (null, fd);
}

/* What the child sends: whether it failed, why, and then the answer, aligned for whatever that is. */
struct reply {
    _Alignas (16) int result;
    struct fail fail;
};

static void __attribute__ ((noreturn))
answer_in_child (const struct probe *probe, int fd, struct reply *reply)
{
    reply->result = probe->ask (reply + 1, probe->user, &reply->fail);
    io_write_all (fd, reply, sizeof *reply + probe->size);
    _exit (0); /* not exit(): the library's destructors are as foreign as the rest */
}

/* @return bytes read before the deadline, or the end of the pipe; *in_time is false after the former */
static size_t
read_reply (int fd, int64_t deadline, void *reply, size_t size, bool *in_time)
{
    size_t length = 0;
    *in_time = true;
    while (length < size) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int64_t left = deadline - clock_ms ();
        int ready = left > 0 ? poll (&wait, 1, (int) left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            *in_time = false;
            break;
        }
        ssize_t got = read (fd, (char *) reply + length, size - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t) got;
    }
    return length;
}

/* The child's end, with all that it started.  A process that sleeps in a driver cannot be killed: it is left behind
 * after a moment rather than waited for.  @return its wait status, or -1 */
static int
end_child (pid_t pid)
{
    kill (-pid, SIGKILL);
    kill (pid, SIGKILL); /* before its setpgid() there is no such group */
    for (int i = 0; i < 200; i++) {
        int status;
        pid_t got = waitpid (pid, &status, WNOHANG);
        if (got == pid)
            return status;
        if (got < 0 && errno != EINTR)
            return -1;
        usleep (1000);
    }
    return -1;
}

static int
give_outcome (const struct probe *probe, bool in_time, int status, struct fail *fail)
{
    if (!in_time)
        return fail_set (fail, FAIL_GENERAL, "%s did not answer in %g s", probe->name, probe->deadline_ms / 1000.0);
    if (status >= 0 && WIFSIGNALED (status) && WTERMSIG (status) != SIGKILL)
        return fail_set (fail, FAIL_GENERAL, "%s crashed with signal %d (%s)", probe->name, WTERMSIG (status),
                         strsignal (WTERMSIG (status)));
    return fail_set (fail, FAIL_GENERAL, "%s ended the process that called it", probe->name);
}

int
probe_run (const struct probe *probe, void *answer, struct fail *fail)
{
    size_t size = sizeof (struct reply) + probe->size;
    AUTO_FREE struct reply *reply = calloc (1, size);
    if (!reply)
        return fail_nomem (fail);
    int ends[2];
    if (pipe2 (ends, O_CLOEXEC))
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a pipe: %s", probe->name, strerror (errno));
    pid_t parent = getpid (), pid = fork ();
    if (!pid) {
        isolate (parent);
        answer_in_child (probe, ends[1], reply);
    }
    close (ends[1]);
    AUTO_CLOSE int fd = ends[0];
    if (pid < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot start a process: %s", probe->name, strerror (errno));
    bool in_time;
    size_t length = read_reply (fd, clock_ms () + probe->deadline_ms, reply, size, &in_time);
    int status = end_child (pid);
    if (length < size)
        return give_outcome (probe, in_time, status, fail);
    if (reply->result)
        return fail_set (fail, reply->fail.status, "%s", reply->fail.text);
    memcpy (answer, reply + 1, probe->size);
    return 0;
}
