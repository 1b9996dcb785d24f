/* SPDX-License-Identifier: Apache-2.0 */
/* Software of others: where deepspeed is, which mpirun there is, and whose, since the two families spell their options
 * differently; and our package for Python; see topology.h. */
#include <config.h>

#include "launch/machine/topology.h"

#include "launch/machine/executable.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 5000 };

extern char **environ;

static bool
find (const char *name, char *path, size_t size)
{
    AUTO_FREE char *found = NULL;
    int length = !executable_find (name, &found, NULL) && found ? snprintf (path, size, "%s", found) : -1;
    return length >= 0 && (size_t) length < size;
}

/* What comes through the pipe until its end, or until the time is out. */
static void
read_answer (int fd, char *text, size_t size)
{
    int64_t deadline = clock_ms () + ANSWER_MS;
    size_t length = 0;
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    for (int64_t now; length < size - 1 && (now = clock_ms ()) < deadline;) {
        bool is_there = poll (&ready, 1, (int) (deadline - now)) == 1;
        ssize_t got = is_there ? read (fd, text + length, size - 1 - length) : 0;
        if (got <= 0)
            break;
        length += (size_t) got;
    }
    text[length] = '\0';
}

void
topology_probe_deepspeed (struct topology *topology)
{
    if (!find ("deepspeed", topology->deepspeed_program, sizeof topology->deepspeed_program))
        memcpy (topology->deepspeed_program, "deepspeed", sizeof "deepspeed"); /* the start will report it */
}

/* Seen from this binary: in a build folder, and in an installation that was moved. */
void
topology_probe_torch (struct topology *topology)
{
    static const char *const places[] = { "python/package", "../share/accelerate/python" };
    enum { SIZE = sizeof topology->torch_package };
    char folder[SIZE - 128], test[SIZE + 64];
    procfs_own_path (folder, sizeof folder);
    char *slash = strrchr (folder, '/');
    for (size_t i = 0; slash && i <= sizeof places / sizeof *places; i++) {
        if (i < sizeof places / sizeof *places)
            snprintf (topology->torch_package, SIZE, "%.*s/%s", (int) (slash - folder), folder, places[i]);
        else
            snprintf (topology->torch_package, SIZE, "%s", TORCH_PACKAGE_FOLDER);
        snprintf (test, sizeof test, "%s/accel_torch/__init__.py", topology->torch_package);
        if (!access (test, R_OK))
            return;
    }
    *topology->torch_package = '\0';
}

/* Start @program so that its answer comes through a pipe. @return 0, or an errno */
static int
ask (const char *program, int answer, pid_t *pid)
{
    char name[4096], question[] = "--version", *argv[] = { name, question, NULL };
    posix_spawn_file_actions_t actions;
    snprintf (name, sizeof name, "%s", program);
    int error = posix_spawn_file_actions_init (&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_addopen (&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2 (&actions, answer, 1);
    if (!error)
        error = posix_spawn_file_actions_addopen (&actions, 2, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawn (pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy (&actions);
    return error;
}

int
topology_probe_mpi (struct topology *topology, struct fail *fail)
{
    char text[1024];
    int ends[2];
    pid_t pid;
    if (!find ("mpirun", topology->mpi_program, sizeof topology->mpi_program)
        && !find ("mpiexec", topology->mpi_program, sizeof topology->mpi_program)) {
        topology->mpi_program[0] = '\0';
        return 0;
    }
    if (pipe2 (ends, O_CLOEXEC))
        return fail_set (fail, FAIL_GENERAL, "cannot get the version of %s: %s", topology->mpi_program,
                         strerror (errno));
    AUTO_CLOSE int answer = ends[0];
    int error = ask (topology->mpi_program, ends[1], &pid);
    close (ends[1]);
    if (error == ENOMEM)
        return fail_nomem (fail);
    if (error)
        return 0; /* the start will fail too, and report it */
    read_answer (answer, text, sizeof text);
    topology->mpi_is_open = strstr (text, "Open MPI") || strstr (text, "OpenRTE");
    kill (pid, SIGKILL); /* it has answered, or never will */
    waitpid (pid, NULL, 0);
    return 0;
}
