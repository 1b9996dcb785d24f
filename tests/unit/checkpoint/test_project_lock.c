/* SPDX-License-Identifier: Apache-2.0 */
/* Two jobs and one project: until the first has ended, however it ends, the second may load only as a reader, and never
 * save. */
#include <config.h>

#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct accel_error err;

static struct accel *
open_as (const char *project, bool read_only)
{
    struct accel *acc;
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true, .read_only = read_only };
    if (accel_open (&acc, NULL, &err) || accel_set_project_configuration (acc, &configuration, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    return acc;
}

static struct accel *
open_job (const char *project)
{
    return open_as (project, false);
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

/* The lowest number that is free. */
static int
next_descriptor (void)
{
    int fd = open (".", O_RDONLY | O_CLOEXEC);
    close (fd);
    return fd;
}

/* A new project whose folder of checkpoints has this mode. */
static void
make_project (const char *project, mode_t mode, gid_t group)
{
    char folder[64];
    snprintf (folder, sizeof folder, "%s/checkpoints", project);
    if (mkdir (project, 0755) || mkdir (folder, 0700) || chown (folder, (uid_t) -1, group) || chmod (folder, mode)) {
        printf ("Bail out! cannot create %s: %s\n", folder, strerror (errno));
        exit (99);
    }
}

static int
mode_of (const char *path)
{
    struct stat info;
    return stat (path, &info) ? -1 : (int) (info.st_mode & 0777);
}

/* Save as a careful user does, whose files only the owner may read. */
static void
save_carefully (const char *project)
{
    mode_t before = umask (077);
    struct accel *acc = open_job (project);
    ok (!accel_save_state (acc, NULL, &err), "umask 077: a save to %s", project);
    accel_close (acc);
    umask (before);
}

/* In a child: save as another user of the group.  @return 0; 77: cannot become that user */
static int
save_as (uid_t user, gid_t group)
{
    struct accel *acc;
    const struct accel_project_configuration configuration
        = { .project_dir = "group", .automatic_checkpoint_naming = true, .iteration = 1 };
    if (setgroups (0, NULL) || setresgid (group, group, group) || setresuid (user, user, user)
        || access (scratch_folder (), X_OK))
        return 77;
    if (!accel_open (&acc, NULL, &err) && !accel_set_project_configuration (acc, &configuration, &err)
        && !accel_save_state (acc, NULL, &err))
        return 0;
    diag ("%s", err.text);
    return 1;
}

/* The lock file of a project that a group of users shares is for all of them, whatever umask the first one has. */
static void
test_group (void)
{
    enum { USER = 54321, GROUP = 54322 };
    int status = -1;
    bool is_root = !geteuid ();
    make_project ("group", 02770, is_root ? GROUP : (gid_t) -1);
    make_project ("private", 0700, (gid_t) -1);
    save_carefully ("group");
    save_carefully ("private");
    ok (mode_of ("group/checkpoints/.lock") == 0660, "the lock file of a group is for the group");
    ok (mode_of ("private/checkpoints/.lock") == 0600, "that of one user only for this one");
    if (!is_root) {
        skip ("another user of the group saves: only root can become another user");
        return;
    }
    (void) chmod (scratch_folder (), 0755);
    fflush (stdout);
    pid_t pid = fork ();
    if (!pid)
        _exit (save_as (USER, GROUP));
    waitpid (pid, &status, 0);
    if (WIFEXITED (status) && WEXITSTATUS (status) == 77)
        skip ("another user of the group saves: cannot become one, or it cannot reach %s", scratch_folder ());
    else
        ok (!status && path_exists ("group/checkpoints/checkpoint_1"), "another user of the group saves");
}

/* There is nothing to load yet: the second of two new jobs learns that it is the second all the same.  One that cannot
 * write to the project loads, because it cannot be in the way. */
static void
test_first_load (void)
{
    int status = -1;
    struct accel *first = open_job ("fresh/run");
    ok (accel_load_state (first, NULL, &err) == ACCEL_ERR_NOT_FOUND, "a new project: %s",
        err.text);
    fflush (stdout);
    pid_t pid = fork ();
    if (!pid) {
        struct accel *second = open_job ("fresh/run");
        _exit (accel_load_state (second, NULL, &err) != ACCEL_ERR_INVALID
               || !strstr (err.text, "another job is saving"));
    }
    waitpid (pid, &status, 0);
    ok (!status, "another one of the same project");
    ok (!accel_save_state (first, NULL, &err), "which the first does not notice");
    accel_close (first);
    (void) !system ("rm -f fresh/run/checkpoints/.lock && mkdir fresh/run/checkpoints/.lock");
    struct accel *late = open_job ("fresh/run");
    ok (!accel_load_state (late, NULL, &err) && accel_save_state (late, NULL, &err) == ACCEL_ERR_SYSTEM,
        "a project that cannot be locked can be loaded: %s", err.text);
    accel_close (late);
}

int
main (void)
{
    pid_t grandchild;
    char process[64];
    scratch_enter ();
    pid_t pid = start_holder (&grandchild);
    struct accel *acc = open_job ("run"), *elsewhere = open_job ("other"), *reader = open_as ("run", true);
    snprintf (process, sizeof process, "process %ld on host ", (long) pid);
    ok (!accel_load_state (reader, NULL, &err), "another job that only reads loads what the first has saved");
    ok (accel_save_state (reader, NULL, &err) == ACCEL_ERR_INVALID && strstr (err.text, "read_only"),
        "but may not save, whoever else does: %s", err.text);
    accel_close (reader);
    ok (accel_load_state (acc, NULL, &err) == ACCEL_ERR_INVALID,
        "one that may save learns it when it loads, before it trains");
    ok (accel_save_state (acc, NULL, &err) == ACCEL_ERR_INVALID, "or else when it saves");
    ok (strstr (err.text, "run/checkpoints: anna\\x1b, ") && strstr (err.text, process)
            && strstr (err.text, "job 0123abcd;"),
        "and the error says who does: user, process, host, job");
    diag ("%s", err.text);
    ok (!system ("grep -q '^anna\\\\x1b, ' run/checkpoints/.lock"), "the file itself has no control characters");
    ok (accel_save_state_start (acc, NULL, &err) == ACCEL_ERR_INVALID, "nor in the background");
    ok (!path_exists ("run/checkpoints/checkpoint_1"), "nothing was written");
    int before = next_descriptor ();
    ok (accel_save_state (acc, NULL, &err) == ACCEL_ERR_INVALID && next_descriptor () == before,
        "no descriptor is left of a lock that another has");
    ok (!accel_save_state (acc, "alone", &err) || strstr (err.text, "another job"), "the folder argument is ignored");
    ok (!accel_save_state (elsewhere, NULL, &err), "another project is free");
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
    ok (!kill (grandchild, 0) && !accel_load_state (acc, NULL, &err) && !accel_save_state (acc, NULL, &err),
        "once the first is killed, the second loads and saves");
    ok (path_exists ("run/checkpoints/checkpoint_0") && path_exists ("run/checkpoints/checkpoint_1"), "both are there");
    ok (!accel_save_state (acc, NULL, &err), "and again: it has the lock already");
    kill (grandchild, SIGKILL);
    before = next_descriptor ();
    ok (!system ("rm -r run") && !accel_save_state (acc, NULL, &err), "the folder may be removed in between");
    ok (next_descriptor () == before, "the descriptor of the lock that was removed is closed");
    pid = fork ();
    if (!pid) {
        struct accel *late = open_job ("run");
        _exit (accel_load_state (late, NULL, &err) != ACCEL_ERR_INVALID);
    }
    int status = -1;
    waitpid (pid, &status, 0);
    ok (!status, "the lock is that of the new folder");
    ok (!system ("rm run/checkpoints/.lock && : >run/checkpoints/.lock") && !accel_save_state (acc, NULL, &err),
        "another process has made the lock's file anew");
    pid = fork ();
    if (!pid) {
        struct accel *late = open_job ("run");
        _exit (accel_save_state (late, NULL, &err) != ACCEL_ERR_INVALID);
    }
    waitpid (pid, &status, 0);
    ok (!status, "the lock is that of the new file");
    accel_close (acc);
    pid = fork ();
    if (!pid) {
        struct accel *late = open_job ("run");
        _exit (accel_load_state (late, NULL, &err) || accel_save_state (late, NULL, &err));
    }
    waitpid (pid, &status, 0);
    ok (!status, "accel_close() releases the project");
    accel_close (elsewhere);
    test_group ();
    test_first_load ();
    return done_testing ();
}
