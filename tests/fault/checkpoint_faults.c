/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints while ranks are killed, disks fail and the power is lost: the newest complete checkpoint always loads.
 *
 *   checkpoint_faults kills [ROUNDS [SEED]]        kill a rank at a random call to the file system, or all of them
 *   checkpoint_faults kills-async [ROUNDS [SEED]]  the same while saves are written in the background
 *   checkpoint_faults disk                         let each call to the file system fail once, on each rank
 *   checkpoint_faults disk-async                   the same, in the background */
#include <config.h>

#include "tests/fault/disk.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"

enum { WEIGHTS = 3000, SAVES = 4, LIMIT = 2, MOST_CALLS = 400, PATH_ROOM = 600 };

/* In shared memory. */
static struct shared {
    atomic_int committed; /* number of the latest save that all ranks were told of; -1: none */
    atomic_long calls[2]; /* that a rank has made for one save */
} *shared;

static char project[PATH_ROOM]; /* where checkpoints are */
static int saves;

struct world {
    struct accel_model *model;
    int64_t shape[1];
    DLTensor tensors[2];
    float weights[2][WEIGHTS];
};

static void
make_world (struct world *world, struct accel *acc)
{
    struct accel_error err = { 0 };
    struct accel_parameter parameters[2];
    world->shape[0] = WEIGHTS;
    for (int i = 0; i < 2; i++) {
        world->tensors[i] = (DLTensor){ .data = world->weights[i], .device = { kDLCPU, 0 }, .ndim = 1,
                                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = world->shape };
        parameters[i] = (struct accel_parameter){ i ? "second" : "first", &world->tensors[i], NULL };
    }
    rank_must (accel_model_create (&world->model, parameters, 2, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model), &err);
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true, .total_limit = LIMIT };
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
}

static void
fill (struct world *world, float value)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < WEIGHTS; j++)
            world->weights[i][j] = value;
}

/* @return the value that all weights have; -1: they do not agree */
static int
read_value (const struct world *world)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < WEIGHTS; j++)
            if (world->weights[i][j] != world->weights[0][0])
                return -1;
    return (int) world->weights[0][0];
}

static bool in_background;

/* Training goes on while the state is written. */
static enum accel_status
save (struct accel *acc, struct world *world, struct accel_error *err)
{
    float value = world->weights[0][0];
    if (!in_background)
        return accel_save_state (acc, NULL, err);
    enum accel_status status = accel_save_state_start (acc, NULL, err);
    fill (world, value + 1000);
    if (!status)
        status = accel_save_state_wait (acc, err);
    fill (world, value);
    return status;
}

/* ---- kills ---- */

static int victim; /* the rank that dies; -1: both */
static long fatal; /* at this call */

/* Continue from the newest checkpoint, and save some more.  A rank that survives gets an error. */
static void
save_until_killed (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    int rank = accel_process_index (acc);
    make_world (&world, acc);
    enum accel_status status = accel_load_state (acc, NULL, &err);
    int from = status ? 0 : read_value (&world) + 1;
    right (!status || shared->committed < 0, "a checkpoint was there, but: %s", err.text);
    if (victim == rank || victim < 0)
        disk_left = fatal;
    for (int i = from; i < from + saves; i++) {
        fill (&world, (float) i);
        status = save (acc, &world, &err);
        if (status) {
            right (status == ACCEL_ERR_PEER, "status %d: %s", (int) status, err.text);
            break;
        }
        if (!rank)
            shared->committed = i;
    }
    shared->calls[rank] = disk_calls;
    accel_model_destroy (world.model);
}

static void
look (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    make_world (&world, acc);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    rank_must (accel_load_state (acc, NULL, &err), &err);
    int value = read_value (&world);
    right (value >= shared->committed, "loaded %d, but %d was complete", value, (int) shared->committed);
    right (accel_save_iteration (acc) > (uint64_t) value, "the next number is %d", (int) accel_save_iteration (acc));
    accel_model_destroy (world.model);
}

/* The ranks of one round; some are killed, which is no failure of theirs.  @return whether all others went well */
static bool
run_ranks (int size, void (*act) (struct accel *acc))
{
    struct jobseg segment = JOBSEG_NONE;
    struct fail fail;
    pid_t pids[2], parent = getpid ();
    bool good = true;
    if (jobseg_create (&segment, size, size, 0, "ranks", &fail))
        return false;
    memset (ranks_texts, 0, RANKS_MOST * RANKS_TEXT);
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork ();
        if (!pids[rank]) {
            struct accel *acc;
            struct accel_error err = { 0 };
            ranks_become (&segment, parent, rank, size);
            rank_must (accel_open (&acc, NULL, &err), &err);
            act (acc);
            accel_close (acc);
            _exit (0);
        }
    }
    for (int left = size; left--;) {
        int status = 0, rank = 0;
        pid_t pid = waitpid (-1, &status, 0);
        while (rank < size && pids[rank] != pid)
            rank++;
        if (rank < size)
            jobseg_mark_exit (&segment, rank, status);
        bool killed = WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL;
        good = good && (killed || !status) && !*ranks_texts[rank];
        if (rank < size && *ranks_texts[rank])
            diag ("rank %d: %s", rank, ranks_texts[rank]);
    }
    jobseg_detach (&segment);
    return good;
}

static int
remove_found (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info, (void) kind, (void) ftw;
    return __real_remove (path);
}

static void
remove_folder (const char *path)
{
    nftw (path, remove_found, SCRATCH_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

/* What the power has left, in two cases; each must have a checkpoint that is not older than the latest complete one. */
static bool
survives_power_loss (const char *folder)
{
    char key[96], kept[PATH_ROOM], recovered[PATH_ROOM];
    bool good = true;
    snprintf (kept, sizeof kept, "%s", project);
    disk_key (key, sizeof key, AT_FDCWD, kept);
    for (int with_names = 0; with_names < 2; with_names++) {
        snprintf (recovered, sizeof recovered, "%s/recovered%d", folder, with_names);
        disk_recover (key, with_names ? kept : NULL, recovered);
        snprintf (project, sizeof project, "%s", recovered);
        good = run_ranks (1, look) && good;
        snprintf (project, sizeof project, "%s", kept);
        remove_folder (recovered);
    }
    return good;
}

static void
start_round (const char *folder)
{
    static char shadow[PATH_ROOM];
    snprintf (shadow, sizeof shadow, "%s/shadow", folder);
    snprintf (project, sizeof project, "%s/project", folder);
    remove_folder (shadow);
    remove_folder (project);
    if (__real_mkdir (shadow, 0777) || __real_mkdir (project, 0777))
        abort ();
    int fd = open (project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    disk_shadow = shadow;
    disk_note (fd);
    close (fd);
    shared->committed = -1;
    victim = 2;
    fatal = -1;
}

static void
test_kills (long rounds, unsigned seed)
{
    const char *folder = scratch_folder ();
    char text[160];
    bool good = true;
    start_round (folder);
    saves = SAVES;
    good = run_ranks (2, save_until_killed);
    long most[2] = { shared->calls[0], shared->calls[1] };
    ok (good && most[0] > most[1] && most[1] > 0, "rank 0 needs %ld calls for %d saves, rank 1 %ld", most[0], SAVES,
        most[1]);
    snprintf (text, sizeof text, "the newest complete checkpoint loads after each of %ld kills, and without power",
              rounds);
    for (long round = 0; round < rounds && good; round++) {
        srandom (seed + (unsigned) round);
        if (random () % 4 == 0)
            start_round (folder); /* even before there is a first one */
        victim = (int) (random () % 3) - 1;
        fatal = random () % (victim == 1 ? most[1] : most[0]);
        good = run_ranks (2, save_until_killed);
        if (shared->committed >= 0)
            good = run_ranks (1, look) && survives_power_loss (folder) && good;
        if (!good)
            diag ("round %ld of seed %u: rank %d, call %ld", round, seed, victim, fatal);
    }
    ok (good, "%s", text);
}

/* ---- disks that fail ---- */

static int culprit;

static int
count_entries (const char *path, const char *words)
{
    int count = 0;
    DIR *stream = opendir (path);
    for (const struct dirent *entry; stream && (entry = readdir (stream));)
        count += strstr (entry->d_name, words) != NULL;
    if (stream)
        closedir (stream);
    return count;
}

/* Every call fails once: both ranks get the same error, and what was there loads. */
static void
let_calls_fail (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char checkpoints[PATH_ROOM + 16];
    int rank = accel_process_index (acc), good = 0, failed = 0;
    make_world (&world, acc);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    snprintf (checkpoints, sizeof checkpoints, "%s/checkpoints", project);
    fill (&world, 0);
    rank_must (accel_save_state (acc, NULL, &err), &err);
    for (long call = 0; call < MOST_CALLS; call++) {
        int value = -1, before = (int) accel_save_iteration (acc) - 1;
        fill (&world, (float) before + 1);
        disk_left = rank == culprit ? call : -1;
        disk_errno = call % 2 ? ENOSPC : EIO;
        enum accel_status status = save (acc, &world, &err);
        bool over = disk_left >= 0;
        disk_left = -1;
        failed += status != ACCEL_OK;
        good += !status;
        if (status)
            right (status == ACCEL_ERR_SYSTEM
                       && strstr (err.text, in_background ? "accel_save_state_" : "accel_save_state at")
                       && (rank == culprit || strstr (err.text, culprit ? "rank 1: " : "rank 0: ")),
                   "call %ld: status %d: %s", call, (int) status, err.text);
        rank_must (accel_load_state (acc, NULL, &err), &err);
        value = read_value (&world);
        right (value == before + !status || (status && value == before + 1), "call %ld: loaded %d after %d", call,
               value, before);
        if (!rank)
            right (count_entries (checkpoints, ".tmp-") <= 2, "call %ld: temporary folders stay", call);
        int32_t ends[] = { over };
        rank_must (accel_comm_broadcast (accel_world (acc), ends, 1, ACCEL_INT32, culprit, &err), &err);
        if (ends[0])
            break;
    }
    right (failed > 2 && good > 0, "%d failed, %d went well", failed, good);
    fill (&world, 9999);
    rank_must (accel_save_state (acc, NULL, &err), &err);
    if (!rank)
        right (count_entries (checkpoints, ".tmp-") == 0, "temporary folders stay after a good save");
    accel_model_destroy (world.model);
}

static void
test_disk (void)
{
    for (culprit = 0; culprit < 2; culprit++) {
        start_round (scratch_folder ());
        disk_shadow = NULL;
        as_ranks (2, culprit ? "each call of rank 1 fails once" : "each call of rank 0 fails once", let_calls_fail);
    }
}

/* ---- a checkpoint that is replaced ---- */

static void
replace (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char path[PATH_ROOM + 16];
    make_world (&world, acc);
    rank_must (accel_set_project_configuration (acc, &(struct accel_project_configuration){ 0 }, &err), &err);
    snprintf (path, sizeof path, "%s/state", project);
    int from = 0;
    if (!accel_load_state (acc, path, &err))
        from = read_value (&world) + 1;
    right (from > shared->committed, "loaded %d, but %d was complete: %s", from - 1, (int) shared->committed, err.text);
    disk_left = fatal;
    for (int i = from; i < from + saves; i++) {
        fill (&world, (float) i);
        rank_must (accel_save_state (acc, path, &err), &err);
        shared->committed = i;
    }
    shared->calls[0] = disk_calls;
    accel_model_destroy (world.model);
}

/* One folder that is saved to again and again: whichever call is the last, it can be loaded. */
static void
test_replacing (void)
{
    for (int lacks = 0; lacks < 2; lacks++) {
        bool good = true;
        start_round (scratch_folder ());
        disk_shadow = NULL;
        disk_lacks_exchange = lacks;
        saves = 2;
        good = run_ranks (1, replace);
        long most = shared->calls[0];
        for (fatal = 0; good && fatal <= most; fatal++)
            good = run_ranks (1, replace);
        ok (good, "a folder that is saved to again can be loaded, whichever of %ld calls kills the process%s", most,
            lacks ? " (on a file system without exchange)" : "");
    }
}

int
main (int argc, char **argv)
{
    ranks_texts = mmap (NULL, RANKS_MOST * RANKS_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap (NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    scratch_folder ();
    in_background = argc > 1 && strstr (argv[1], "-async");
    if (argc > 1 && !strncmp (argv[1], "kills", 5))
        test_kills (argc > 2 ? strtol (argv[2], NULL, 10) : 30, argc > 3 ? (unsigned) strtoul (argv[3], NULL, 10) : 1);
    else {
        test_disk ();
        if (!in_background)
            test_replacing ();
    }
    return done_testing ();
}
