/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of checkpoints beside those that another job is writing: what is locked belongs to a job that runs, and is
 * neither removed nor put anywhere; what is not locked was left by one that was killed. */
#include <config.h>

#include "lib/checkpoint/folder.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_mkdir (const char *path, mode_t mode);
int __wrap_mkdir (const char *path, mode_t mode);

static struct accel_error err;
static int sweeps; /* how often another job sweeps just after a temporary folder was made */

/* Another job of the same place, which finds the folder before its owner has locked it. */
int
__wrap_mkdir (const char *path, mode_t mode)
{
    int status = __real_mkdir (path, mode);
    if (!status && sweeps && strstr (path, ".tmp-")) {
        struct checkpoint_folder other;
        sweeps--;
        ok (!checkpoint_folder_begin (&other, "swept", false, &err), "another job begins");
        checkpoint_folder_end (&other);
    }
    return status;
}

static bool
begin (struct checkpoint_folder *folder, const char *place)
{
    enum accel_status status = checkpoint_folder_begin (folder, place, false, &err);
    if (status)
        diag ("%s", err.text);
    return !status;
}

/* Two jobs save to one place at the same time: the later one wins, and neither harms the other. */
static void
test_live (void)
{
    struct checkpoint_folder first, second;
    ok (begin (&first, "live") && first.lock >= 0, "a job has a locked folder");
    ok (!mkdir ("live.tmp-00000001", 0777) && begin (&second, "live"), "another one begins at the same place");
    ok (path_exists (first.temporary), "what the first one writes stays");
    ok (!path_exists ("live.tmp-00000001"), "what a killed one left does not");
    ok (!checkpoint_folder_commit (&second, &err) && !checkpoint_folder_commit (&first, &err) && path_exists ("live"),
        "both commit");
    checkpoint_folder_end (&second);
    checkpoint_folder_end (&first);
    ok (path_exists ("live"), "the last one stays");
}

static int
next_descriptor (void)
{
    int next = dup (STDERR_FILENO);
    close (next);
    return next;
}

/* What a killed job left is loaded for the place whose name it has, and for no other one. */
static void
test_find (const char *complete)
{
    char found[PATH_MAX];
    int before = next_descriptor ();
    ok (!checkpoint_folder_find (found, "moved", &err) && strstr (found, complete), "it is found by its name");
    ok (checkpoint_folder_find (found, "move", &err) == ACCEL_ERR_INVALID
            && checkpoint_folder_find (found, "moved2", &err) == ACCEL_ERR_INVALID
            && checkpoint_folder_find (found, "noved", &err) == ACCEL_ERR_INVALID, "and by no other one");
    ok (next_descriptor () == before, "no folder stays open");
    int file = creat ("file", 0600);
    ok (checkpoint_folder_find (found, "file/%s%d%n", &err) == ACCEL_ERR_SYSTEM && strstr (err.text, "file/%s%d%n: "),
        "whatever its name is, it is said: %s", err.text);
    close (file);
}

/* A program may have closed its standard input. */
static void
test_lowest (void)
{
    struct checkpoint_folder folder;
    int input = dup (STDIN_FILENO);
    close (STDIN_FILENO);
    bool is_lowest = begin (&folder, "lowest") && !folder.lock;
    checkpoint_folder_end (&folder);
    ok (is_lowest && fcntl (STDIN_FILENO, F_GETFD) < 0 && folder.lock < 0,
        "a lock that is descriptor 0 is closed, too");
    if (input >= 0) {
        dup2 (input, STDIN_FILENO);
        close (input);
    }
}

/* Where names cannot be exchanged, a job that replaces a checkpoint leaves its place empty for a moment. */
static void
test_restore (void)
{
    struct accel *acc;
    struct checkpoint_folder folder;
    const char *place = "moved", *complete = "moved.tmp-00000002";
    if (accel_open (&acc, NULL, &err) || accel_save_state (acc, place, &err) || rename (place, complete)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    accel_close (acc);
    test_find (complete);
    int other = open (complete, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok (other >= 0 && !flock (other, LOCK_EX | LOCK_NB), "another job is about to put its checkpoint in its place");
    ok (begin (&folder, place) && path_exists (complete) && !path_exists (place), "it is left to that job");
    checkpoint_folder_end (&folder);
    close (other);
    ok (begin (&folder, place) && !path_exists (complete) && path_exists ("moved/manifest.json"),
        "if that job is gone, the checkpoint gets its name back");
    checkpoint_folder_end (&folder);
}

/* Between mkdir() and flock(), the new folder looks like one that was left. */
static void
test_swept (void)
{
    struct checkpoint_folder folder;
    sweeps = 1;
    ok (begin (&folder, "swept") && !sweeps && folder.lock >= 0 && path_exists (folder.temporary),
        "a folder that another job has swept away is made again");
    char name[PATH_MAX];
    snprintf (name, sizeof name, "%s", folder.temporary);
    checkpoint_folder_end (&folder);
    ok (!path_exists (name), "nothing stays");
}

int
main (void)
{
    scratch_enter ();
    test_live ();
    test_lowest ();
    test_restore ();
    test_swept ();
    return done_testing ();
}
