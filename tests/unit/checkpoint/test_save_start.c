/* SPDX-License-Identifier: Apache-2.0 */
/* Saving while training continues: the files are those of a synchronous save, whatever the program does meanwhile, and
 * failures are reported once.  The program is linked with --wrap: the writing thread can be held, slowed, or made to
 * fail. */
#include <config.h>

#include "files/manifest.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { NUMBERS = 200000, PATH_ROOM = 600 };

/* ---- the writing thread ---- */

int __real_fsync (int fd);
ssize_t __real_pwrite (int fd, const void *bytes, size_t length, off_t offset);
int __real_remove (const char *path);
int __real_pthread_cond_wait (pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_fsync (int fd);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset);
int __wrap_pthread_cond_wait (pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_remove (const char *path);

static atomic_bool held;      /* it waits before it writes or syncs anything */
static atomic_int slow_ms;    /* each sync takes so long */
static atomic_int fails_with; /* errno of each pwrite() */
static atomic_bool is_written_to; /* by another rank: the next folder that is removed */
static atomic_int turns;      /* how often another thread wrote than before */
static atomic_bool is_late;   /* exit() gets the lock back only after a waiting thread has its result */
static atomic_bool has_result;

static bool
is_writer (void)
{
    static atomic_long latest;
    long thread = syscall (SYS_gettid);
    if (thread == getpid ())
        return false;
    turns += atomic_exchange (&latest, thread) != thread;
    while (held)
        usleep (1000);
    return true;
}

int
__wrap_fsync (int fd)
{
    (void) fd; /* the page cache is as good as a disk here */
    if (is_writer ())
        usleep ((useconds_t) slow_ms * 1000);
    return 0;
}

ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset)
{
    if (is_writer () && fails_with)
        return errno = fails_with, -1;
    return __real_pwrite (fd, bytes, length, offset);
}

/* Another rank writes a file while rank 0 removes the folder. */
int
__wrap_remove (const char *path)
{
    char late[PATH_MAX];
    struct stat info;
    if (is_written_to && !stat (path, &info) && S_ISDIR (info.st_mode)) {
        is_written_to = false;
        snprintf (late, sizeof late, "%s/late", path);
        close (open (late, O_WRONLY | O_CREAT, 0600));
    }
    return __real_remove (path);
}

/* The save ends while exit() waits for it, never before. */
int
__wrap_pthread_cond_wait (pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (!is_late)
        return __real_pthread_cond_wait (cond, mutex);
    held = false;
    int status = __real_pthread_cond_wait (cond, mutex);
    pthread_mutex_unlock (mutex);
    while (!has_result)
        usleep (1000);
    pthread_mutex_lock (mutex);
    return status;
}

/* ---- what is saved ---- */

struct world {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    int64_t shape[1], few[1];
    DLTensor weight, grad, extra;
    float *numbers, extras[3];
};

static const char *folder;
static struct accel_error err;

static bool is_broken; /* an object of the program */

static enum accel_status
save_extra (void *user, struct accel_state_dict *state, struct accel_error *cause)
{
    struct world *world = user;
    (void) cause;
    if (is_broken)
        return ACCEL_ERR_INVALID;
    accel_state_dict_set_tensor (state, "tensor", &world->extra);
    accel_state_dict_set_bytes (state, "bytes", world->extras, sizeof world->extras);
    accel_state_dict_set_double (state, "number", (double) world->extras[0]);
    return ACCEL_OK;
}

static enum accel_status
load_extra (void *user, const struct accel_state_dict *state, struct accel_error *cause)
{
    struct world *world = user;
    return accel_state_dict_get_tensor (state, "tensor", &world->extra, cause);
}

static void
fill (struct world *world, float value)
{
    for (size_t i = 0; i < NUMBERS; i++)
        world->numbers[i] = value + (float) i;
    for (size_t i = 0; i < 3; i++)
        world->extras[i] = value - (float) i;
}

/* @return the value that everything was filled with; -1: not with one */
static float
value_of (const struct world *world)
{
    float value = world->numbers[0];
    for (size_t i = 0; i < NUMBERS; i++)
        if (world->numbers[i] != value + (float) i)
            return -1;
    for (size_t i = 0; i < 3; i++)
        if (world->extras[i] != value - (float) i)
            return -1;
    return value;
}

static void
make_world (struct world *world, struct accel *acc, float value)
{
    *world = (struct world){ .acc = acc, .shape = { NUMBERS }, .few = { 3 } };
    world->numbers = malloc (NUMBERS * sizeof (float));
    right (world->numbers != NULL, "memory");
    world->weight = (DLTensor){ .data = world->numbers, .device = { kDLCPU, 0 }, .ndim = 1,
                                .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = world->shape };
    world->grad = world->weight;
    world->grad.data = NULL;
    world->extra = world->weight;
    world->extra.data = world->extras;
    world->extra.shape = world->few;
    const struct accel_parameter parameter = { "weight", &world->weight, &world->grad };
    rank_must (accel_model_create (&world->model, &parameter, 1, &err), &err);
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = ACCEL_ZERO };
    rank_must (accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAMW, &adamw, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model, world->optimizer), &err);
    const struct accel_checkpoint_object object = { .save = save_extra, .load = load_extra, .user = world };
    rank_must (accel_register_for_checkpointing (acc, &object, &err), &err);
    rank_must (accel_optimizer_step (world->optimizer, &err), &err);
    fill (world, value);
}

static void
end_world (struct world *world)
{
    accel_optimizer_destroy (world->optimizer);
    accel_model_destroy (world->model);
    free (world->numbers);
}

static const char *
path_of (const char *name)
{
    static char paths[4][PATH_ROOM];
    static int next;
    char *path = paths[next++ % 4];
    snprintf (path, PATH_ROOM, "%s/%s", folder, name);
    return path;
}

static char *
read_text (const char *path, size_t *length)
{
    struct stat info;
    FILE *in = fopen (path, "r");
    char *text = in && !fstat (fileno (in), &info) ? calloc (1, (size_t) info.st_size + 1) : NULL;
    *length = text ? fread (text, 1, (size_t) info.st_size, in) : 0;
    if (in)
        fclose (in);
    return text;
}

/* Everything but the time in the manifest. */
static void
compare_folders (const char *one, const char *other)
{
    int files = 0;
    DIR *stream = opendir (path_of (one));
    for (const struct dirent *entry; stream && (entry = readdir (stream)); files++) {
        char first[2 * PATH_ROOM], second[2 * PATH_ROOM];
        size_t a_length, b_length;
        snprintf (first, sizeof first, "%s/%s", path_of (one), entry->d_name);
        snprintf (second, sizeof second, "%s/%s", path_of (other), entry->d_name);
        if (*entry->d_name == '.' || !strcmp (entry->d_name, MANIFEST_NAME))
            continue;
        char *a = read_text (first, &a_length), *b = read_text (second, &b_length);
        right (a && b && a_length == b_length && !memcmp (a, b, a_length), "%s differs", entry->d_name);
        free (a);
        free (b);
    }
    right (files > 5, "only %d files", files);
    if (stream)
        closedir (stream);
    struct manifest a, b;
    rank_must (manifest_read (&a, path_of (one), &err), &err);
    rank_must (manifest_read (&b, path_of (other), &err), &err);
    right (a.count == b.count && a.processes == b.processes, "the manifests differ");
    for (size_t i = 0; i < a.count; i++) {
        const struct manifest_file *file = manifest_find_file (&b, a.files[i].name);
        right (file && file->checksum == a.files[i].checksum && file->bytes == a.files[i].bytes, "other manifests");
    }
    manifest_release (&a);
    manifest_release (&b);
}

static int
count_entries (const char *name, const char *words)
{
    int count = 0;
    DIR *stream = opendir (path_of (name));
    for (const struct dirent *entry; stream && (entry = readdir (stream));)
        count += strstr (entry->d_name, words) != NULL;
    if (stream)
        closedir (stream);
    return count;
}

static uint64_t
next_number (const struct accel *acc)
{
    return accel_get_project_configuration (acc)->iteration;
}

/* ---- tests ---- */

/* The program changes and frees everything before the first byte is written. */
static void
compare_with_synchronous (struct accel *acc)
{
    struct world world;
    bool done = true;
    make_world (&world, acc, 5);
    rank_must (accel_save_state (acc, path_of ("sync"), &err), &err);
    held = true;
    rank_must (accel_save_state_start (acc, path_of ("async"), &err), &err);
    fill (&world, 6);
    rank_must (accel_save_state_test (acc, &done, &err), &err);
    right (!done, "a save is done that has not begun");
    right (strstr (accel_checkpoint_path (acc), "/sync") && next_number (acc) == 1, "the latest is not sync");
    end_world (&world);
    rank_must (accel_free_memory (acc, &err), &err);
    held = false;
    rank_must (accel_save_state_wait (acc, &err), &err);
    right (strstr (accel_checkpoint_path (acc), "/async") && next_number (acc) == 2, "the latest is another");
    rank_must (accel_save_state_wait (acc, &err), &err);
    rank_must (accel_save_state_test (acc, &done, &err), &err);
    right (done, "no save is not done");
    if (accel_is_main_process (acc))
        compare_folders ("sync", "async");
    right (!count_entries (".", ".tmp-"), "temporary folders stay");
}

/* The first save needs no more memory then. */
static void
reserve (struct accel *acc)
{
    struct world world, more;
    const struct snapshot *snapshot = &checkpoint_of (acc)->snapshot;
    bool first = accel_is_main_process (acc);
    make_world (&world, acc, 5);
    right (!snapshot->pages, "there is memory before the first save");
    is_broken = true;
    rank_fails (accel_save_state_reserve (acc, &err), first ? ACCEL_ERR_CALLBACK : ACCEL_OK, &err,
                first ? "accel_save_state_reserve: " : "");
    is_broken = false;
    rank_must (accel_save_state_reserve (acc, &err), &err);
    const void *pages = snapshot->pages;
    right (!first || snapshot->bytes >= 3 * NUMBERS * sizeof (float), "%zu bytes are reserved", snapshot->bytes);
    held = true;
    rank_must (accel_save_state_start (acc, path_of ("reserved"), &err), &err);
    fill (&world, 6);
    make_world (&more, acc, 7);
    rank_must (accel_save_state_reserve (acc, &err), &err);
    right (snapshot->pages == pages, "the save in flight has got other memory");
    held = false;
    rank_must (accel_save_state_wait (acc, &err), &err);
    end_world (&more);
    end_world (&world);
    rank_fails (accel_save_state_reserve (NULL, &err), ACCEL_ERR_INVALID, &err, "acc is NULL");
}

/* Whatever comes next waits for the save in flight. */
static void
save_in_a_row (struct accel *acc)
{
    struct world world;
    bool done = false;
    make_world (&world, acc, 1);
    slow_ms = 3;
    for (float value = 1; value < 4; value++) {
        char name[] = { 'r', 'o', 'w', (char) ('0' + (int) value), '\0' };
        fill (&world, value);
        rank_must (accel_save_state_start (acc, path_of (name), &err), &err);
    }
    fill (&world, 4);
    right (next_number (acc) == 2, "started before the former ended");
    rank_must (accel_save_state (acc, path_of ("row4"), &err), &err);
    right (next_number (acc) == 4 && turns == 3, "%d threads took turns", (int) turns);
    fill (&world, 5);
    rank_must (accel_save_state_start (acc, path_of ("row4"), &err), &err);
    rank_must (accel_load_state (acc, path_of ("row4"), &err), &err);
    right (value_of (&world) == 5, "a load during a save has read %g", (double) value_of (&world));
    rank_must (accel_load_state (acc, path_of ("row2"), &err), &err);
    right (value_of (&world) == 2, "the second is %g", (double) value_of (&world));
    rank_must (accel_save_state_start (acc, path_of ("row5"), &err), &err);
    for (int tries = 0; !done && tries < 100000; tries++) {
        rank_must (accel_save_state_test (acc, &done, &err), &err);
        usleep (1000);
    }
    right (done && strstr (accel_checkpoint_path (acc), "/row5"), "the save does not come to its end");
    end_world (&world);
}

static void
limit (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 0);
    const struct accel_project_configuration configuration
        = { .project_dir = path_of ("project"), .automatic_checkpoint_naming = true, .total_limit = 2 };
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
    for (float value = 0; value < 4; value++) {
        fill (&world, value);
        rank_must (accel_save_state_start (acc, NULL, &err), &err);
    }
    rank_must (accel_save_state_wait (acc, &err), &err);
    right (count_entries ("project/checkpoints", "checkpoint_") == 2, "not two stay");
    rank_must (accel_load_state (acc, NULL, &err), &err);
    right (value_of (&world) == 3 && next_number (acc) == 4, "loaded %g", (double) value_of (&world));
    end_world (&world);
}

/* Ranks other than 0 write little, but they write. */
static int culprit;

static void
fail_to_write (struct accel *acc)
{
    struct world world;
    char words[64] = "cannot write: No space left";
    bool done = false;
    make_world (&world, acc, 1);
    bool mine = accel_process_index (acc) == culprit;
    rank_must (accel_save_state (acc, path_of ("full"), &err), &err);
    fill (&world, 2);
    fails_with = mine ? ENOSPC : 0;
    if (!mine)
        snprintf (words, sizeof words, "rank %d: ", culprit);
    rank_must (accel_save_state_start (acc, path_of ("full"), &err), &err);
    rank_fails (accel_save_state_wait (acc, &err), ACCEL_ERR_SYSTEM, &err, words);
    right (!strncmp (err.text, "accel_save_state_wait at ", 25) && strstr (err.text, ": the save started at ")
               && strstr (err.text, "No space left"),
           "%s", err.text);
    rank_must (accel_save_state_wait (acc, &err), &err);
    rank_must (accel_save_state_start (acc, path_of ("full"), &err), &err);
    while (!done && !accel_save_state_test (acc, &done, &err))
        usleep (1000);
    right (done && strstr (err.text, words), "a test says: %s", err.text);
    rank_must (accel_save_state_start (acc, path_of ("full"), &err), &err);
    rank_fails (accel_save_state_start (acc, path_of ("full"), &err), ACCEL_ERR_SYSTEM, &err, words);
    rank_must (accel_save_state_start (acc, path_of ("full"), &err), &err);
    rank_fails (accel_save_state (acc, path_of ("full"), &err), ACCEL_ERR_SYSTEM, &err, words);
    is_written_to = true;
    rank_must (accel_save_state_start (acc, path_of ("full"), &err), &err);
    rank_fails (accel_load_state (acc, path_of ("full"), &err), ACCEL_ERR_SYSTEM, &err, words);
    right (value_of (&world) == 2, "a load that failed has loaded");
    rank_must (accel_load_state (acc, path_of ("full"), &err), &err);
    right (value_of (&world) == 1, "the former checkpoint has %g", (double) value_of (&world));
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    right (!count_entries (".", ".tmp-"), "temporary folders stay");
    fails_with = 0;
    rank_must (accel_save_state_start (acc, path_of ("full"), &err), &err);
    rank_must (accel_save_state_wait (acc, &err), &err);
    rank_fails (accel_save_state_start (acc, "", &err), ACCEL_ERR_INVALID, &err, "output_dir is needed");
    end_world (&world);
}

/* What this process writes to standard error from now on. */
static void
catch_log (void)
{
    char name[32];
    snprintf (name, sizeof name, "log%d", ranks_self);
    fflush (stderr);
    right (freopen (path_of (name), "w", stderr) != NULL, "no log");
}

/* @return how often the words are in it */
static int
log_has (const char *words)
{
    char name[32];
    size_t length;
    int count = 0;
    snprintf (name, sizeof name, "log%d", ranks_self);
    char *text = read_text (path_of (name), &length);
    for (const char *at = text; at && (at = strstr (at, words)); at++)
        count++;
    free (text);
    return count;
}

static void
close_after_failure (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 1);
    catch_log ();
    fails_with = EIO;
    rank_must (accel_save_state_start (acc, path_of ("closed"), &err), &err);
    accel_close (acc);
    right (log_has ("accel_save_state_start at") && log_has ("Input/output error"), "accel_close logs no failure");
    _exit (0);
}

static void
check_at_exit (void)
{
    right (log_has ("accel_save_state_start at") && log_has ("Input/output error"), "exit() logs no failure");
}

static void
exit_after_failure (struct accel *acc)
{
    struct world world;
    right (!atexit (check_at_exit), "atexit"); /* runs after the library's, which is registered later */
    make_world (&world, acc, 1);
    catch_log ();
    fails_with = EIO;
    rank_must (accel_save_state_start (acc, path_of ("closed"), &err), &err);
    exit (0);
}

static struct accel *closed_late;

static void
close_late (void)
{
    accel_close (closed_late);
    int count = log_has ("Input/output error");
    right (count == 1, "the failure was logged %d times", count);
}

static void
close_after_exit (struct accel *acc)
{
    struct world world;
    right (!atexit (close_late), "atexit");
    closed_late = acc;
    make_world (&world, acc, 1);
    catch_log ();
    fails_with = EIO;
    rank_must (accel_save_state_start (acc, path_of ("closed"), &err), &err);
    exit (0);
}

/* Only the rank that failed knows why. */
static void
close_after_failure_of_1 (struct accel *acc)
{
    struct world world;
    bool mine = accel_process_index (acc) == 1;
    make_world (&world, acc, 1);
    catch_log ();
    fails_with = mine ? EIO : 0;
    rank_must (accel_save_state_start (acc, path_of ("closed"), &err), &err);
    accel_close (acc);
    right (log_has (mine ? "Input/output error" : "rank 1 did not write its checkpoint files") == 1, "not logged once");
    _exit (0);
}

static void *
wait_in_thread (void *acc)
{
    struct accel_error cause;
    enum accel_status status = accel_save_state_wait (acc, &cause);
    right (!status, "%s", cause.text);
    has_result = true;
    return NULL;
}

/* What the waiting thread has freed is no longer what it was, with or without an address sanitizer. */
static void
exit_during_wait (struct accel *acc)
{
    enum { GARBAGE = 0x5a };
    struct world world;
    pthread_t thread;
    mallopt (M_PERTURB, GARBAGE);
    make_world (&world, acc, 8);
    held = true;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    right (!pthread_create (&thread, NULL, wait_in_thread, acc) && !pthread_detach (thread), "no thread");
    is_late = true;
    exit (0);
}

/* _exit() without the leak checker, which would look at a thread in the middle of its work. */
static void
vanish (void)
{
    syscall (SYS_exit_group, 0);
}

/* Rank 1 ends before it has written anything. */
static void
leave_early (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 1);
    rank_must (accel_save_state (acc, path_of ("left"), &err), &err);
    fill (&world, 2);
    catch_log ();
    held = accel_process_index (acc) == 1;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    if (held)
        vanish ();
    accel_close (acc);
    right (log_has ("rank 1 did not write its checkpoint files"), "rank 0 does not say who has left");
    right (!count_entries (".", ".tmp-"), "temporary folders stay");
    _exit (0);
}

static void
wait_for_leaver (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 2);
    held = accel_process_index (acc) == 1;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    if (held)
        vanish ();
    rank_fails (accel_save_state_wait (acc, &err), ACCEL_ERR_PEER, &err, "rank 1");
    end_world (&world);
}

static float expected;
static const char *place;

static void
expect_value (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 77);
    rank_must (accel_load_state (acc, path_of (place), &err), &err);
    right (value_of (&world) == expected, "loaded %g instead of %g", (double) value_of (&world), (double) expected);
    end_world (&world);
}

static void
look (const char *name, float value, const char *text)
{
    place = name;
    expected = value;
    as_ranks (1, text, expect_value);
}

static void
exit_at_once (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 3);
    slow_ms = 20;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    fill (&world, 4);
    exit (0);
}

static void
close_at_once (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 4);
    slow_ms = 20;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    end_world (&world);
}

static void
die_at_once (struct accel *acc)
{
    struct world world;
    make_world (&world, acc, 5);
    held = true;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    vanish ();
}

static bool in_fork;

/* What the parent's thread had allocated is not a leak of a fork.  Runs after the library's own part of exit(). */
static void
leave_fork (void)
{
    if (in_fork)
        vanish ();
}

/* A child of fork() has no thread: it neither waits nor cleans up. */
static void
fork_meanwhile (struct accel *acc)
{
    struct world world;
    int status = -1;
    make_world (&world, acc, 6);
    held = true;
    rank_must (accel_save_state_start (acc, path_of ("left"), &err), &err);
    pid_t child = fork ();
    if (!child) {
        in_fork = true;
        held = false;
        rank_fails (accel_save_state_wait (acc, &err), ACCEL_ERR_INVALID, &err, "is a fork of the one that started");
        accel_close (acc);
        exit (0);
    }
    waitpid (child, &status, 0);
    right (!status, "the child ended with %x", (unsigned) status);
    held = false;
    rank_must (accel_save_state_wait (acc, &err), &err);
    end_world (&world);
}

int
main (void)
{
    if (atexit (leave_fork))
        return 99;
    folder = scratch_enter ();
    for (int size = 1; size <= 3; size++)
        as_ranks (size, "the files are those of a synchronous save", compare_with_synchronous);
    as_ranks (3, "memory that is reserved before the first save", reserve);
    look ("reserved", 5, "such a save is complete");
    as_ranks (2, "saves and loads wait for the save in flight", save_in_a_row);
    as_ranks (2, "total_limit", limit);
    for (culprit = 0; culprit < 3; culprit++)
        as_ranks (3, culprit ? "the disk of another rank is full" : "the disk is full", fail_to_write);
    as_ranks (1, "accel_close logs a failure", close_after_failure);
    as_ranks (1, "exit() logs a failure", exit_after_failure);
    as_ranks (1, "accel_close does not repeat what exit() has logged", close_after_exit);
    as_ranks (2, "accel_close logs a failure on the rank that knows the reason", close_after_failure_of_1);
    as_ranks (2, "a rank leaves before it has written: accel_close logs it", leave_early);
    look ("left", 1, "the former checkpoint is still there");
    as_ranks (2, "a rank leaves before it has written: a wait reports it", wait_for_leaver);
    as_ranks (2, "exit() during a save", exit_at_once);
    look ("left", 3, "exit() has waited for its end");
    as_ranks (1, "exit() while another thread waits for a save", exit_during_wait);
    look ("left", 8, "the save has come to its end");
    as_ranks (2, "accel_close during a save", close_at_once);
    look ("left", 4, "accel_close has waited for its end");
    as_ranks (2, "_exit() during a save", die_at_once);
    look ("left", 4, "the former checkpoint is still there");
    as_ranks (1, "a fork during a save", fork_meanwhile);
    look ("left", 6, "the save continues after a fork");
    return done_testing ();
}
