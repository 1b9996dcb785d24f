/* SPDX-License-Identifier: Apache-2.0 */
/* The line that says how far a save or a load is, on a slow disk: the program is linked with --wrap, and each call that
 * reads, writes or syncs takes 400 ms, on the clock and not in truth. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

ssize_t __real_pwrite (int fd, const void *bytes, size_t length, off_t offset);
ssize_t __real_pread (int fd, void *bytes, size_t length, off_t offset);
int __real_fsync (int fd);
int __real_clock_gettime (clockid_t clock, struct timespec *now);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pread (int fd, void *bytes, size_t length, off_t offset);
int __wrap_fsync (int fd);
int __wrap_clock_gettime (clockid_t clock, struct timespec *now);

enum { TENSORS = 8, NUMBERS = 1000, CALL_MS = 400, TEXT = 16384 };

static atomic_long later_ms; /* than it is */
static bool slow, fails;
static bool frozen; /* the clock stands still but for what calls take */

static bool
take_time (int fd)
{
    struct stat info;
    if (slow && !fstat (fd, &info) && (S_ISREG (info.st_mode) || S_ISDIR (info.st_mode)))
        later_ms += CALL_MS;
    if (fails && later_ms > 5 * CALL_MS)
        errno = ENOSPC;
    return fails && later_ms > 5 * CALL_MS;
}

ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset)
{
    return take_time (fd) ? -1 : __real_pwrite (fd, bytes, length, offset);
}

ssize_t
__wrap_pread (int fd, void *bytes, size_t length, off_t offset)
{
    return take_time (fd) ? -1 : __real_pread (fd, bytes, length, offset);
}

int
__wrap_fsync (int fd)
{
    (void) take_time (fd);
    return 0;
}

int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    static struct timespec stopped;
    int status = __real_clock_gettime (clock, now);
    long ms = later_ms;
    if (frozen && !stopped.tv_sec)
        stopped = *now;
    if (frozen && clock == CLOCK_MONOTONIC)
        *now = stopped;
    now->tv_sec += ms / 1000;
    now->tv_nsec += ms % 1000 * 1000000;
    if (now->tv_nsec >= 1000000000) {
        now->tv_sec++;
        now->tv_nsec -= 1000000000;
    }
    return status;
}

/* ---- a job ---- */

struct world {
    struct accel *acc;
    struct accel_model *model;
    struct accel_tensor tensors[TENSORS];
    float numbers[TENSORS][NUMBERS];
};

static const char *folder;

static void
make_world (struct world *world, struct accel *acc)
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    struct accel_error err = { 0 };
    struct accel_parameter parameters[TENSORS];
    world->acc = acc;
    for (int i = 0; i < TENSORS; i++) {
        rank_must (accel_tensor_init (&world->tensors[i], ACCEL_FLOAT32, 1, (int64_t[]){ NUMBERS }, &err), &err);
        world->tensors[i].dl.data = world->numbers[i];
        parameters[i] = (struct accel_parameter){ .name = names[i], .data = &world->tensors[i].dl };
    }
    rank_must (accel_model_create (&world->model, parameters, TENSORS, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model), &err);
}

typedef enum accel_status (*transfer) (struct world *world, struct accel_error *err);

static const char *
path_of (const char *name)
{
    static char path[600];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    return path;
}

static enum accel_status
save_state (struct world *world, struct accel_error *err)
{
    return accel_save_state (world->acc, path_of ("state"), err);
}

static enum accel_status
load_state (struct world *world, struct accel_error *err)
{
    return accel_load_state (world->acc, path_of ("state"), err);
}

static enum accel_status
save_model (struct world *world, struct accel_error *err)
{
    return accel_save_model (world->acc, world->model, path_of ("model"), NULL, err);
}

static enum accel_status
load_model (struct world *world, struct accel_error *err)
{
    return accel_load_model (world->acc, world->model, path_of ("model"), NULL, NULL, err);
}

/* ---- what is on standard error ---- */

struct screen {
    int reader, writer, kept;
};

/* A terminal, or a pipe.  @return false: there are no terminals here */
static bool
open_screen (struct screen *screen, bool terminal)
{
    int ends[2];
    if (terminal) {
        screen->reader = posix_openpt (O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (screen->reader < 0 || grantpt (screen->reader) || unlockpt (screen->reader))
            return false;
        screen->writer = open (ptsname (screen->reader), O_RDWR | O_NOCTTY);
    } else {
        if (pipe2 (ends, O_NONBLOCK))
            return false;
        screen->reader = ends[0];
        screen->writer = ends[1];
    }
    screen->kept = dup (STDERR_FILENO);
    return screen->writer >= 0 && dup2 (screen->writer, STDERR_FILENO) >= 0;
}

/* What was written until now. */
static const char *
close_screen (struct screen *screen)
{
    static char text[TEXT];
    size_t used = 0;
    for (ssize_t got; used < TEXT - 1 && (got = read (screen->reader, text + used, TEXT - 1 - used)) > 0;)
        used += (size_t) got;
    text[used] = '\0';
    dup2 (screen->kept, STDERR_FILENO);
    close (screen->kept);
    close (screen->writer);
    close (screen->reader);
    return text;
}

static size_t
count (const char *text, const char *what)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr (at, what)); at += strlen (what))
        found++;
    return found;
}

static const char *
run (struct world *world, transfer act, bool terminal, bool is_slow, bool succeeds)
{
    struct screen screen;
    struct accel_error err = { 0 };
    if (!open_screen (&screen, terminal))
        return NULL;
    slow = is_slow;
    frozen = true;
    later_ms = 0;
    enum accel_status status = act (world, &err);
    slow = frozen = false;
    const char *text = close_screen (&screen);
    ok (!status == succeeds, "it %s", succeeds ? "succeeds" : "fails");
    if (status && succeeds)
        diag ("%s", err.text);
    return text;
}

/* ---- tests ---- */

static const struct {
    const char *name;
    transfer act;
    const char *during, *after;
} transfers[] = {
    { "accel_save_state", save_state, "saving state: ", "saved state: 3" },
    { "accel_load_state", load_state, "loading state: ", "loaded state: 3" },
    { "accel_save_model", save_model, "saving model: ", "saved model: 32." },
    { "accel_load_model", load_model, "loading model: ", "loaded model: 32." },
};

static void
show (const char *text)
{
    char line[200];
    for (const char *at = text; *at;) {
        size_t length = strcspn (at, "\r\n");
        snprintf (line, sizeof line, "%.*s", (int) (length < 150 ? length : 150), at);
        if (length)
            diag ("%s", line + strspn (line, "\r"));
        at += length + (at[length] != '\0');
    }
}

static void
test_one (struct world *world, size_t i)
{
    const char *name = transfers[i].name, *text = run (world, transfers[i].act, false, false, true);
    is_text (text, "", "a fast one says nothing");
    text = run (world, transfers[i].act, false, true, true);
    show (text);
    ok (count (text, transfers[i].during) == 1, "%s: one line when it takes more than a second", name);
    ok (strstr (text, " of 3") && strstr (text, "/s, ") && strstr (text, " left\n"),
        "it has sizes, a rate, an estimate");
    ok (count (text, transfers[i].after) == 1 && !strchr (text, '\r'), "%s: one at the end, and none is redrawn", name);
    text = run (world, transfers[i].act, true, true, true);
    if (!text) {
        skip ("no terminals here");
        return;
    }
    show (text);
    ok (count (text, transfers[i].during) > 2 && count (text, "\r") > 3, "%s: on a terminal, it is redrawn", name);
    ok (count (text, transfers[i].after) == 1 && count (text, "\n") <= 2, "and replaced at the end");
    if (!strncmp (transfers[i].during, "saving", 6))
        ok (strstr (text, ", syncing to disk") != NULL, "waiting for the disk is shown");
    if (transfers[i].act == load_model)
        ok (strstr (text, "20.0 KB of 32.0 KB, 10.0 KB/s, 1 s left") != NULL, "five of eight reads of 400 ms each");
}

static void
test_failure (struct world *world)
{
    fails = true;
    const char *text = run (world, save_state, true, true, false);
    fails = false;
    if (!text)
        return;
    show (text);
    const char *erased = "\r\33[K";
    ok (strlen (text) > 3 && !strcmp (text + strlen (text) - strlen (erased), erased),
        "after a failure, it is removed");
    ok (!strstr (text, "saved"), "and nothing claims success");
}

/* Ten seconds pass between two lines. */
static void
test_newest (struct world *world)
{
    const struct accel_project_configuration project
        = { .project_dir = folder, .automatic_checkpoint_naming = true };
    struct accel_error err = { 0 };
    ok (!accel_set_project_configuration (world->acc, &project, &err), "a project");
    ok (!accel_save_state (world->acc, NULL, &err), "its checkpoint");
    struct screen screen;
    if (!open_screen (&screen, false))
        return;
    slow = true;
    enum accel_status status = accel_load_state (world->acc, NULL, &err);
    slow = false;
    const char *text = close_screen (&screen);
    show (text);
    ok (!status && count (text, "checking checkpoints: ") == 1 && strstr (text, "checked checkpoints: 3"),
        "looking for the newest checkpoint is shown as well");
}

static void
save_slowly (struct accel *acc)
{
    static struct world world;
    struct accel_error err = { 0 };
    make_world (&world, acc);
    slow = true;
    rank_must (save_state (&world, &err), &err);
    accel_model_destroy (world.model);
}

int
main (void)
{
    static struct world world;
    struct accel *acc;
    struct accel_error err = { 0 };
    struct screen screen;
    folder = scratch_folder ();
    if (open_screen (&screen, false)) {
        fflush (stdout);
        as_ranks (2, "a slow save on two ranks", save_slowly);
        ok (count (close_screen (&screen), "saved state") == 1, "one rank writes");
    }
    setenv ("ACCEL_NO_PROGRESS", "1", 1);
    if (open_screen (&screen, false)) {
        as_ranks (1, "a slow save that is to be silent", save_slowly);
        is_text (close_screen (&screen), "", "ACCEL_NO_PROGRESS=1: nothing is written");
    }
    setenv ("ACCEL_NO_PROGRESS", "perhaps", 1);
    ok (accel_open (&acc, NULL, &err) == ACCEL_ERR_INVALID && strstr (err.text, "ACCEL_NO_PROGRESS='perhaps'"),
        "a word that is not a boolean is refused");
    unsetenv ("ACCEL_NO_PROGRESS");
    ranks_texts = calloc (RANKS_MOST, RANKS_TEXT);
    rank_must (accel_open (&acc, NULL, &err), &err);
    make_world (&world, acc);
    for (size_t i = 0; i < sizeof transfers / sizeof *transfers; i++)
        test_one (&world, i);
    test_failure (&world);
    test_newest (&world);
    accel_model_destroy (world.model);
    accel_close (acc);
    free (ranks_texts);
    return done_testing ();
}
