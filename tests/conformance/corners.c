/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of corners.sh: `corners CHECK`.  Corners of groups, of shared memory, of uneven inputs, and of what is said
 * when a rank dies or shapes differ. */
#include <config.h>

#include "tests/conformance/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEADLINE_S = 900, BLOCKS = 40, TURNS = 3000 };

static struct accel_error err;

static void
must (enum accel_status status)
{
    if (!status)
        return;
    fprintf (stderr, "rank %d: %s\n", rank, err.text);
    exit (1);
}

static void
open_job (void)
{
    must (accel_open (&acc, &(struct accel_options){ .timeout_ms = 20000 }, &err));
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
}

/* Ranks of one key stay in their order, after those of a smaller one. */
static void
check_keys (void)
{
    struct accel_comm *group;
    open_job ();
    must (accel_comm_split (&group, accel_world (acc), 0, 7, &err));
    check (accel_comm_rank (group) == rank, "equal keys: rank %d", accel_comm_rank (group));
    accel_comm_destroy (group);
    must (accel_comm_split (&group, accel_world (acc), 0, rank == 0, &err));
    check (accel_comm_rank (group) == (rank + size - 1) % size, "rank 0 last: rank %d", accel_comm_rank (group));
    accel_comm_destroy (group);
    accel_close (acc);
}

/* ---- memory ---- */

struct block {
    unsigned char *memory;
    size_t bytes;
};

/* Small blocks, gaps between them, and blocks of huge pages, which such a gap must not be taken for. */
static void
change_block (struct block *blocks, size_t i)
{
    static const size_t sizes[] = { 1, 64, 100, 4096, 70000, 3 << 20 };
    void *memory;
    if (blocks[i].bytes) {
        bool whole = blocks[i].memory[0] == i + 1 && blocks[i].memory[blocks[i].bytes - 1] == i + 1;
        check (whole, "block %zu was written over", i);
        accel_free (acc, blocks[i].memory);
        blocks[i].bytes = 0;
        return;
    }
    blocks[i].bytes = sizes[(unsigned) rand () % (sizeof sizes / sizeof *sizes)];
    must (accel_alloc (acc, blocks[i].bytes, &memory, &err));
    blocks[i].memory = memory;
    check (!blocks[i].memory[0] && !blocks[i].memory[blocks[i].bytes - 1], "block %zu is not zero", i);
    for (size_t j = 0; j < BLOCKS; j++)
        check (j == i || !blocks[j].bytes || blocks[j].memory + blocks[j].bytes <= blocks[i].memory
                   || blocks[i].memory + blocks[i].bytes <= blocks[j].memory,
               "blocks %zu and %zu overlap", i, j);
    blocks[i].memory[0] = blocks[i].memory[blocks[i].bytes - 1] = (unsigned char) (i + 1);
}

static int
count_mappings (void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen ("/proc/self/maps", "r");
    while (maps && fgets (line, sizeof line, maps))
        count += strstr (line, "accel-job") != NULL;
    if (maps)
        fclose (maps);
    return count;
}

static void
check_memory (void)
{
    struct block blocks[BLOCKS] = { { 0 } };
    void *first;
    open_job ();
    srand ((unsigned) rank);
    for (int turn = 0; turn < TURNS && !wrong; turn++)
        change_block (blocks, (unsigned) rand () % BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].bytes)
            accel_free (acc, blocks[i].memory);
    accel_close (acc);
    check (!count_mappings (), "closed, and %d mappings of the job are left", count_mappings ());
    open_job ();
    must (accel_alloc (acc, 4096, &first, &err));
    accel_close (acc);
    *(volatile unsigned char *) first = 1; /* what was not freed can still be written to */
    check (count_mappings (), "memory that was not freed is mapped no longer");
}

/* Arenas leave most of a small address space to the program. */
static void
check_limit (void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return; /* their shadows need more */
#endif
    rlim_t limit = (rlim_t) 3 << 30;
    setrlimit (RLIMIT_AS, &(struct rlimit){ limit, limit });
    open_job ();
    void *rest = malloc ((size_t) limit * 2 / 5);
    check (rest != NULL, "no address space is left for the program");
    free (rest);
    accel_close (acc);
}

/* ---- uneven inputs ---- */

/* Within them loaders may be uneven; after them they are what they were made for. */
static void
check_join (void)
{
    static const struct accel_field field = { "x", ACCEL_FLOAT32, 0, { 0 } };
    float samples[16] = { 0 };
    struct accel_dataset *dataset;
    struct accel_loader *loader;
    open_job ();
    size_t all = (size_t) size + 1;
    must (accel_dataset_from_arrays (&dataset, &field, (const void *[]){ samples }, 1, all, &err));
    must (accel_loader_create (&loader, dataset, NULL, &err));
    must (accel_prepare (acc, &err, loader));
    check (accel_loader_length (loader) == 2, "even: %zu", accel_loader_length (loader));
    must (accel_join_uneven_inputs (acc, ACCEL_NO, &err));
    check (accel_loader_length (loader) == (rank ? 1 : 2), "uneven: %zu", accel_loader_length (loader));
    must (accel_join_end (acc, &err));
    check (accel_loader_length (loader) == 2, "even again: %zu", accel_loader_length (loader));
    accel_loader_destroy (loader);
    accel_dataset_close (dataset);
    accel_close (acc);
}

/* ---- training ---- */

static enum accel_status
set_slope (void *user, float scale, struct accel_error *error)
{
    (void) error;
    *(float *) user = scale * (float) rank;
    return ACCEL_OK;
}

/* Local SGD averages what is trained, and at its end gradients are averaged again. */
static void
check_local_sgd (void)
{
    float values[2], slope = 0, mean;
    int64_t one = 1;
    DLTensor tensors[3];
    struct accel_local_sgd *local_sgd;
    struct accel_model *model;
    open_job ();
    mean = (float) (size - 1) / 2;
    for (int i = 0; i < 3; i++)
        tensors[i] = (DLTensor){ .data = i < 2 ? &values[i] : &slope, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &one,
                                 .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    struct accel_parameter parameters[] = { { "trained", &tensors[0], &tensors[2] }, { "kept", &tensors[1], NULL } };
    must (accel_model_create (&model, parameters, 2, &err));
    must (accel_prepare (acc, &err, model));
    values[0] = (float) rank;
    values[1] = (float) (10 + rank);
    must (accel_local_sgd_begin (&local_sgd, acc, model, 1, true, &err));
    must (accel_local_sgd_step (local_sgd, &err));
    check (values[0] == mean, "averaged: %g", (double) values[0]);
    check (values[1] == (float) (10 + rank), "not trained, and averaged: %g", (double) values[1]);
    must (accel_local_sgd_end (local_sgd, &err));
    must (accel_backward (acc, model, 0, set_slope, &slope, &err));
    check (slope == mean, "after the end gradients are averaged: %g", (double) slope);
    accel_model_destroy (model);
    accel_close (acc);
}

/* accel_end_training returns on no rank before all have called it. */
static void
check_end (void)
{
    open_job ();
    if (rank) {
        usleep (100000);
        fclose (fopen ("called", "w"));
    }
    must (accel_end_training (acc, &err));
    check (!access ("called", F_OK), "the end came before all had called it");
    accel_close (acc);
}

/* ---- what is said ---- */

/* A table that has no room has the rows that differ, and rank 0's; all of them. */
static void
check_table (void)
{
    static float number;
    struct accel_tensor tensor, out = { .owned_bytes = 0 };
    int64_t shape[8] = { 0, 1000000, 1000000, 1, 1, 1, 1, 1 };
    open_job ();
    shape[7] = rank == 1 ? 2 : 1;
    must (accel_tensor_init (&tensor, ACCEL_FLOAT32, 8, shape, &err));
    tensor.dl.data = &number;
    enum accel_status status = accel_gather (&out, acc, &tensor.dl, &err);
    const char *last = strstr (err.text, "Process 1: [0, 1000000, 1000000, 1, 1, 1, 1, 2]");
    check (status == ACCEL_ERR_INVALID && strstr (err.text, "Process 0: [0, 1000000,") && last
               && !strstr (err.text, "Process 2:"),
           "status %d: %s", (int) status, err.text);
    accel_close (acc);
}

/* The last rank dies; rank 0 hears of it and gives up.  Rank 1, which comes later, learns which rank died. */
static void
check_death (void)
{
    signal (SIGTERM, SIG_IGN); /* the launcher's */
    open_job ();
    if (rank == size - 1)
        raise (SIGKILL);
    while (rank == 1 && access ("despaired", F_OK))
        usleep (1000);
    char words[64];
    snprintf (words, sizeof words, "rank %d was killed by signal 9", size - 1);
    enum accel_status status = accel_wait_for_everyone (acc, &err);
    check (status == ACCEL_ERR_PEER && !strncmp (err.text, words, strlen (words)), "%s", err.text);
    if (!rank)
        fclose (fopen ("despaired", "w"));
    printf ("rank %d: %s\n", rank, wrong ? "WRONG" : "as expected");
    accel_close (acc);
}

/* Two ranks whose parent looks after them late: the first reads how the second ended from the kernel. */
static void
check_zombie (void)
{
    pid_t children[2];
    setenv ("WORLD_SIZE", "2", 1);
    for (int r = 0; r < 2; r++) {
        children[r] = fork ();
        if (children[r])
            continue;
        setenv ("RANK", r ? "1" : "0", 1);
        open_job ();
        if (rank)
            raise (SIGKILL);
        enum accel_status status = accel_wait_for_everyone (acc, &err);
        check (status == ACCEL_ERR_PEER && strstr (err.text, "rank 1 was killed by signal 9 (SIGKILL)"), "%s",
               err.text);
        _exit (wrong != 0);
    }
    int status = 0;
    waitpid (children[0], &status, 0);
    check (WIFEXITED (status) && !WEXITSTATUS (status), "rank 0 ended with %x", (unsigned) status);
    waitpid (children[1], &status, 0);
}

/* So many warnings that the oldest are forgotten: the others are not written again. */
static void
check_log (void)
{
    enum { TEXTS = 1100, KEPT = 1024 };
    open_job ();
    for (int turn = 0; turn < 2; turn++)
        for (int i = turn ? TEXTS - KEPT : 0; i < TEXTS; i++)
            accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE, "warning %d", i);
    accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE, "warning %d", 0);
    accel_close (acc);
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run) (void);
    } checks[] = {
        { "keys", check_keys },   { "memory", check_memory }, { "limit", check_limit },   { "join", check_join },
        { "table", check_table }, { "death", check_death },   { "zombie", check_zombie },
        { "log", check_log },     { "local-sgd", check_local_sgd }, { "end", check_end },
    };
    alarm (DEADLINE_S);
    for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof *checks; i++)
        if (!strcmp (argv[1], checks[i].name)) {
            checks[i].run ();
            return wrong != 0;
        }
    return 99;
}
