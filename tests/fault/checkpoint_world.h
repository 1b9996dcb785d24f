/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of checkpoints on bad disks share: a small state, a project to save it in, and ranks that may die. */
#ifndef TESTS_FAULT_CHECKPOINT_WORLD_H
#define TESTS_FAULT_CHECKPOINT_WORLD_H

#include "tests/fault/disk.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"

enum { WEIGHTS = 3000, LIMIT = 2, PATH_ROOM = 600, LOSSES = 7 };

/* In shared memory. */
static struct shared {
    atomic_int committed; /* number of the latest save that all ranks know of; -1: none */
    atomic_int trying;    /* of the latest that began */
    atomic_long calls[2]; /* that a rank has made for one save */
    pid_t pids[2];        /* of the ranks */
    char last[32];        /* the function that was the last */
    /* Of ranks that a launcher starts. */
    char project[PATH_ROOM];
    pid_t launcher;
    int victim, signal;
    long fatal;
    char texts[2][RANKS_TEXT];
} *shared;

static char project[PATH_ROOM]; /* where checkpoints are */

struct world {
    struct accel_model *model;
    int64_t shape[1];
    DLTensor tensors[2], gradients[2];
    float weights[2][WEIGHTS];
};

/* The model is divided among the ranks, and each writes its share. */
static bool is_sharded;

static void
make_world (struct world *world, struct accel *acc)
{
    struct accel_error err = { 0 };
    struct accel_parameter parameters[2];
    world->shape[0] = WEIGHTS;
    for (int i = 0; i < 2; i++) {
        world->tensors[i] = (DLTensor){ .data = world->weights[i], .device = { kDLCPU, 0 }, .ndim = 1,
                                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = world->shape };
        world->gradients[i] = world->tensors[i];
        world->gradients[i].data = NULL;
        parameters[i] = (struct accel_parameter){ i ? "second" : "first", &world->tensors[i],
                                                  is_sharded ? &world->gradients[i] : NULL };
    }
    const struct accel_sharding_options sharding
        = { .strategy = is_sharded ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE };
    rank_must (accel_model_create (&world->model, parameters, 2, &err), &err);
    rank_must (accel_model_set_sharding (world->model, &sharding, &err), &err);
    rank_must (accel_prepare (acc, &err, world->model), &err);
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true, .total_limit = LIMIT,
            .state_dict_type = is_sharded ? ACCEL_STATE_DICT_SHARDED : ACCEL_STATE_DICT_DEFAULT };
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

/* Save, in the background while training continues, if that is asked for. */
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

/* The ranks of one round; some are killed, which is not their failure.  @return whether all others went well */
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
            shared->pids[rank] = getpid ();
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

/* A new project, of which all is known to the disk. */
static void
start_round (bool noted)
{
    static char shadow[PATH_ROOM];
    const char *folder = scratch_folder ();
    snprintf (shadow, sizeof shadow, "%s/shadow", folder);
    snprintf (project, sizeof project, "%s/project", folder);
    snprintf (disk_root, sizeof disk_root, "%s", project);
    remove_folder (shadow);
    remove_folder (project);
    if (__real_mkdir (shadow, 0777) || __real_mkdir (project, 0777))
        abort ();
    disk_shadow = noted ? shadow : NULL;
    shared->committed = shared->trying = -1;
}

/* What the disk may have without power, in the folders recovered0 to recovered6. */
static void
lose_power (void)
{
    char recovered[PATH_ROOM];
    for (int i = 0; i < LOSSES; i++) {
        snprintf (recovered, sizeof recovered, "%s/recovered%d", scratch_folder (), i);
        remove_folder (recovered);
        disk_recover (project, i < DISK_SOME ? (enum disk_part) i : DISK_SOME, recovered);
    }
}

#endif
