/* SPDX-License-Identifier: Apache-2.0 */
/* Two jobs and one project: the second may load, but not save, until the first has ended, however it ends. */
#include <config.h>

#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct accel_error err;

static struct accel *
open_job (const char *project)
{
    struct accel *acc;
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true };
    if (accel_open (&acc, NULL, &err) || accel_set_project_configuration (acc, &configuration, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    return acc;
}

/* A job in another process that has saved, and stays.  It has a child, which must not keep the lock. */
static pid_t
start_holder (pid_t *grandchild)
{
    int ends[2];
    if (pipe (ends))
        exit (99);
    fflush (stdout);
    pid_t pid = fork ();
    if (!pid) {
        setenv ("USER", "anna\x1b", 1);
        setenv ("ACCEL_JOB_ID", "0123abcd", 1);
        struct accel *acc = open_job ("run");
        if (accel_save_state (acc, NULL, &err))
            _exit (1);
        pid_t child = fork ();
        if (!child)
            pause ();
        (void) !write (ends[1], &child, sizeof child);
        pause ();
        _exit (0);
    }
    close (ends[1]);
    if (read (ends[0], grandchild, sizeof *grandchild) != sizeof *grandchild) {
        printf ("Bail out! the other job did not save\n");
        exit (99);
    }
    close (ends[0]);
    return pid;
}

static bool
exists (const char *path)
{
    return !access (path, F_OK);
}

int
main (void)
{
    pid_t grandchild;
    char process[64];
    scratch_enter ();
    pid_t pid = start_holder (&grandchild);
    struct accel *acc = open_job ("run"), *elsewhere = open_job ("other");
    snprintf (process, sizeof process, "process %ld on host ", (long) pid);
    ok (!accel_load_state (acc, NULL, &err), "another job loads what the first has saved");
    ok (accel_save_state (acc, NULL, &err) == ACCEL_ERR_INVALID, "but may not save");
    ok (strstr (err.text, "run/checkpoints: anna\\x1b, ") && strstr (err.text, process)
            && strstr (err.text, "job 0123abcd;"),
        "and is told who does: user, process, host, job");
    diag ("%s", err.text);
    ok (accel_save_state_start (acc, NULL, &err) == ACCEL_ERR_INVALID, "nor in the background");
    ok (!exists ("run/checkpoints/checkpoint_1"), "nothing was written");
    ok (!accel_save_state (acc, "alone", &err) || strstr (err.text, "another job"), "the folder argument is ignored");
    ok (!accel_save_state (elsewhere, NULL, &err), "another project is free");
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
    ok (!kill (grandchild, 0) && !accel_save_state (acc, NULL, &err), "once the first is killed, the second saves");
    ok (exists ("run/checkpoints/checkpoint_0") && exists ("run/checkpoints/checkpoint_1"), "both are there");
    ok (!accel_save_state (acc, NULL, &err), "and again: it has the lock already");
    kill (grandchild, SIGKILL);
    ok (!system ("rm -r run") && !accel_save_state (acc, NULL, &err), "the folder may be removed in between");
    pid = fork ();
    if (!pid) {
        struct accel *late = open_job ("run");
        _exit (accel_load_state (late, NULL, &err) || accel_save_state (late, NULL, &err) != ACCEL_ERR_INVALID);
    }
    int status = -1;
    waitpid (pid, &status, 0);
    ok (!status, "the lock is that of the new folder");
    accel_close (acc);
    pid = fork ();
    if (!pid) {
        struct accel *late = open_job ("run");
        _exit (accel_load_state (late, NULL, &err) || accel_save_state (late, NULL, &err));
    }
    waitpid (pid, &status, 0);
    ok (!status, "accel_close() releases the project");
    accel_close (elsewhere);
    return done_testing ();
}
