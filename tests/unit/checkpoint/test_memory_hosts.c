/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in memory of several hosts: after a restart, each reads models and optimizers from its own memory, and
 * gets them from another host only if it has not the same.  The test is the launcher of hosts with a rank each. */
#include <config.h>

#include "lib/state/state_object.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/memtier.h"

#include <stdatomic.h>

enum { HOSTS = 3, WEIGHTS = 100000, SAMPLES = 96, EPOCHS = 2, EVERY = 4, KILLED = 10, LAST = 8, PATH_ROOM = 600 };

/* In shared memory: what the test wants of the ranks, and what became of them. */
static struct plan {
    uint64_t kill_step;    /* the last rank ends itself after this step; 0: none does */
    int differs;           /* a rank whose model has a tensor of its own, not to be trained; 0: none */
    atomic_int loaded_at;  /* the step that the ranks continued from; -1: from the beginning */
    atomic_int brought;    /* to how many hosts models and optimizers came */
    float weights[HOSTS][WEIGHTS];
} *plan;

static char project[PATH_ROOM];
static struct memtier memtiers[HOSTS];
static char limits[HOSTS][PATH_ROOM];
static int64_t restarts;

/* ---- in ranks ---- */

ssize_t __real_pwrite (int fd, const void *bytes, size_t length, off_t at);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t length, off_t at);

ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t length, off_t at)
{
    if (at == (off_t) memtier_place (MEMTIER_ENTRIES))
        atomic_fetch_add (&plan->brought, 1);
    return __real_pwrite (fd, bytes, length, at);
}

struct network {
    float weights[WEIGHTS], average;
    DLTensor data, grad, other;
    int64_t shape[1], one[1];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_loader *loader;
    const struct accel_batch *batch;
};

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    *(int64_t *) into[0] = (int64_t) (index * index % 17);
    return ACCEL_OK;
}

/* Each rank has random numbers of its own. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct network *network = user;
    const int64_t *samples = accel_batch_tensor (network->batch, "number")->data;
    float *gradient = network->grad.data;
    (void) err;
    for (size_t i = 0; i < WEIGHTS; i++)
        gradient[i] += scale * ((float) samples[0] - network->weights[i] + (float) (i % 7)
                                + (float) accel_generator_uniform (accel_default_generator ()));
    return ACCEL_OK;
}

static void
make (struct network *network, struct accel *acc, const struct accel_dataset *numbers)
{
    struct accel_error err = { 0 };
    *network = (struct network){ .shape = { WEIGHTS }, .one = { 1 } };
    network->data = (DLTensor){ .data = network->weights, .device = { kDLCPU, 0 }, .ndim = 1,
                                .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = network->shape };
    network->grad = network->other = network->data;
    network->grad.data = NULL;
    network->other.data = &network->average;
    network->other.shape = network->one;
    const struct accel_parameter parameters[]
        = { { "weights", &network->data, &network->grad }, { "average", &network->other, NULL } };
    const struct accel_optimizer_options adam = { .lr = 0.05 };
    const struct accel_loader_options loader = { .batch_size = 1, .shuffle = true, .seed = 7 };
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true, .memory_checkpoint_every = EVERY };
    rank_must (accel_set_seed (acc, 5, true, &err), &err);
    rank_must (accel_model_create (&network->model, parameters, 2, &err), &err);
    rank_must (accel_optimizer_create (&network->optimizer, network->model, ACCEL_ADAMW, &adam, &err), &err);
    rank_must (accel_loader_create (&network->loader, numbers, &loader, &err), &err);
    rank_must (accel_prepare (acc, &err, network->model, network->optimizer, network->loader), &err);
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
}

static void
train (struct accel *acc, struct network *network)
{
    struct accel_error err = { 0 };
    int rank = accel_process_index (acc);
    while (accel_loader_epoch (network->loader) < EPOCHS) {
        while (accel_loader_next (network->loader, &network->batch, &err)) {
            rank_must (accel_backward (acc, network->model, 0, backward, network, &err), &err);
            rank_must (accel_optimizer_step (network->optimizer, &err), &err);
            rank_must (accel_optimizer_zero_grad (network->optimizer, &err), &err);
            network->average = rank && rank == plan->differs ? 3 : 0;
            if (accel_optimizer_step_count (network->optimizer) == plan->kill_step
                && rank == accel_num_processes (acc) - 1)
                kill (getpid (), SIGKILL);
        }
        if (err.code) /* the other rank was killed */
            _exit (0);
    }
    memcpy (plan->weights[rank], network->weights, sizeof network->weights);
}

static void
act (struct accel *acc)
{
    static struct network network;
    struct accel_error err = { 0 };
    const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    const struct accel_dataset numbers = { .size = SAMPLES, .fields = fields, .field_count = 1, .read = read_sample };
    acc->identity.local_rank = 0; /* each is the first of its host */
    acc->identity.local_world_size = 1;
    make (&network, acc, &numbers);
    enum accel_status status = accel_load_state (acc, NULL, &err);
    right (!status || status == ACCEL_ERR_NOT_FOUND, "loading: %s", err.text);
    if (accel_is_main_process (acc))
        atomic_store (&plan->loaded_at, status ? -1 : (int) accel_optimizer_step_count (network.optimizer));
    train (acc, &network);
    accel_loader_destroy (network.loader);
    accel_optimizer_destroy (network.optimizer);
    accel_model_destroy (network.model);
}

/* ---- the launchers ---- */

static void
become (const struct jobseg *segment, pid_t parent, int rank, int size)
{
    struct accel *acc;
    struct accel_error err = { 0 };
    char text[64];
    ranks_become (segment, parent, rank, size);
    snprintf (text, sizeof text, "/proc/%d/fd/%d", (int) parent, memtiers[rank].fd);
    setenv (ENV_MEMORY, text, 1);
    setenv (ENV_JOB_ID, "ranks", 1);
    rank_must (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err), &err);
    act (acc);
    accel_close (acc);
    _exit (0);
}

/* @return whether all ranks went well, but for those that were to be killed */
static bool
start (int size)
{
    struct jobseg segment = JOBSEG_NONE;
    struct fail fail;
    pid_t pids[HOSTS], parent = getpid ();
    bool good = true;
    if (jobseg_create (&segment, size, size, 0, "ranks", &fail))
        return false;
    memset (ranks_texts, 0, RANKS_MOST * RANKS_TEXT);
    fflush (stdout);
    for (int rank = 0; rank < size; rank++)
        memtier_begin (&memtiers[rank], 1, restarts, "ranks", limits[rank]);
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork ();
        if (!pids[rank])
            become (&segment, parent, rank, size);
    }
    for (int left = size; left > 0; left--) {
        int status = 0, rank = 0;
        pid_t pid = waitpid (-1, &status, 0);
        while (rank < size - 1 && pids[rank] != pid)
            rank++;
        jobseg_mark_exit (&segment, rank, status);
        good = good && (plan->kill_step || (!status && !*ranks_texts[rank]));
        if (!plan->kill_step && *ranks_texts[rank])
            diag ("rank %d: %s", rank, ranks_texts[rank]);
    }
    jobseg_detach (&segment);
    restarts++;
    return good;
}

static void
renew (int host)
{
    struct fail fail;
    memtier_release (&memtiers[host]);
    if (memtier_create (&memtiers[host], &fail)) {
        printf ("Bail out! %s\n", fail.text);
        exit (99);
    }
}

static void
begin (void)
{
    char command[PATH_ROOM + 16];
    snprintf (command, sizeof command, "rm -rf '%s'", project);
    ok (!system (command), "a new project");
    memset (plan, 0, sizeof *plan);
    restarts = 0;
    for (int host = 0; host < HOSTS; host++) {
        renew (host);
        *limits[host] = '\0';
    }
}

/* ---- what happens to memory ---- */

static struct memtier_entry *
newest (int host)
{
    struct memtier_entry *entries = memtiers[host].header->entries, *best = entries;
    for (size_t i = 0; i < MEMTIER_BUFFERS; i++)
        best = memtier_number_of (&entries[i]) > memtier_number_of (best) ? &entries[i] : best;
    return best;
}

static uint64_t
place_of (int host, const struct memtier_entry *entry)
{
    return memtier_place ((size_t) (entry - memtiers[host].header->entries));
}

static void
flip (int host, uint64_t at)
{
    char byte;
    at += place_of (host, newest (host));
    if (memtier_read (&memtiers[host], &byte, 1, at))
        abort ();
    byte = (char) (byte ^ 4);
    if (memtier_write (&memtiers[host], &byte, 1, at))
        abort ();
}

/* The next host gets a copy, as from hosts/agent/copies.c. */
static void
copy (int host, int next)
{
    static char bytes[64 * 1024];
    const struct memtier_entry *from = newest (host);
    struct memtier_header *header = memtiers[next].header;
    uint64_t hole = from->common_bytes, length = from->index_at + from->index_bytes - hole;
    if (length > sizeof bytes || memtier_read (&memtiers[host], bytes, length, place_of (host, from) + hole)
        || memtier_write (&memtiers[next], bytes, length, memtier_place (MEMTIER_OWN) + hole))
        abort ();
    header->entries[MEMTIER_OWN] = *from;
    header->entries[MEMTIER_OWN].has_common = 0;
    header->copy_count = MEMTIER_COPY_BUFFERS;
}

static void
nothing (void)
{
}

static void
make_hole (void)
{
    atomic_store (&newest (1)->has_common, 0);
}

static void
damage_first (void)
{
    flip (0, 9);
}

static void
damage_second (void)
{
    flip (1, newest (1)->common_bytes - 70);
}

static void
damage_both (void)
{
    damage_first ();
    damage_second ();
}

static void
damage_own (void)
{
    flip (1, newest (1)->common_bytes + 3);
}

static void
forget_newest (void)
{
    atomic_store (&newest (1)->sequence, 0);
}

static void
lose_first (void)
{
    copy (0, 1);
    renew (0);
}

static void
lose_second (void)
{
    copy (1, 0);
    renew (1);
}

static void
lose_common (void)
{
    copy (0, 1);
    renew (0);
    make_hole ();
}

static void
lose_all (void)
{
    renew (0);
    renew (1);
}

/* ---- tests ---- */

static const struct row {
    const char *what;
    void (*happens) (void);
    int size, from, brought;
    int differs, lacks_room; /* a rank, a host; 0: none */
} rows[] = {
    { "each of two hosts reads what it has", nothing, 2, LAST, 0, 0, 0 },
    { "each of three hosts reads what it has", nothing, 3, LAST, 0, 0, 0 },
    { "the second lacks models and optimizers", make_hole, 2, LAST, 1, 0, 0 },
    { "the second of three lacks them", make_hole, 3, LAST, 1, 0, 0 },
    { "those of the first are damaged", damage_first, 2, LAST, 1, 0, 0 },
    { "those of the second are damaged", damage_second, 2, LAST, 1, 0, 0 },
    { "those of two hosts of three are damaged", damage_both, 3, LAST, 2, 0, 0 },
    { "those of both are damaged", damage_both, 2, LAST - EVERY, 0, 0, 0 },
    { "what only the second had is damaged", damage_own, 2, LAST - EVERY, 0, 0, 0 },
    { "the second has an older one", forget_newest, 2, LAST - EVERY, 0, 0, 0 },
    { "the first is new, and the second has a copy with a hole", lose_first, 2, LAST, 1, 0, 0 },
    { "the first of three is new, and the second has a copy with a hole", lose_first, 3, LAST, 1, 0, 0 },
    { "the second is new, and the first has a copy of it", lose_second, 2, LAST, 1, 0, 0 },
    { "the first is new, and only the third has models and optimizers", lose_common, 3, LAST, 2, 0, 0 },
    { "the first is new, and no host has models and optimizers", lose_common, 2, -1, 0, 0, 0 },
    { "both are new", lose_all, 2, -1, 0, 0, 0 },
    { "the second has something else", nothing, 2, LAST, 1, 1, 0 },
    { "the second of three has something else", nothing, 3, LAST, 1, 1, 0 },
    { "the second has no room for models and optimizers", nothing, 2, LAST, 1, 0, 1 },
};

static void
write_file (const char *name, const char *text)
{
    char path[PATH_ROOM + 32];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), name);
    FILE *file = fopen (path, "w");
    if (!file || fputs (text, file) < 0 || fclose (file))
        abort ();
}

/* For two times 1 MiB, which what only a rank has takes, but not for two times 2. */
static void
limit (int host)
{
    write_file ("memory.max", "8388608\n");
    write_file ("memory.current", "4718592\n");
    snprintf (limits[host], sizeof limits[host], "%s/memory.max", scratch_folder ());
}

static float undisturbed[HOSTS + 1][HOSTS][WEIGHTS]; /* by the number of hosts */

static void
test_undisturbed (int size)
{
    begin ();
    ok (start (size), "%d hosts, undisturbed", size);
    memcpy (undisturbed[size], plan->weights, sizeof plan->weights);
}

static void
check (const struct row *row)
{
    begin ();
    plan->kill_step = KILLED;
    plan->differs = row->differs;
    if (row->lacks_room)
        limit (row->lacks_room);
    bool good = start (row->size);
    row->happens ();
    plan->kill_step = plan->differs = 0;
    atomic_store (&plan->brought, 0);
    good = start (row->size) && good;
    int from = atomic_load (&plan->loaded_at), brought = atomic_load (&plan->brought);
    if (!ok (good && from == row->from && brought == row->brought, "%s", row->what))
        diag ("from step %d, brought to %d", from, brought);
    ok (!memcmp (undisturbed[row->size], plan->weights, sizeof plan->weights), "the same bits on all hosts");
}

int
main (void)
{
    ranks_texts = mmap (NULL, RANKS_MOST * RANKS_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    plan = mmap (NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf (project, sizeof project, "%s/project", scratch_folder ());
    for (int host = 0; host < HOSTS; host++)
        memtiers[host] = (struct memtier) MEMTIER_NONE;
    test_undisturbed (2);
    test_undisturbed (3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check (&rows[i]);
    for (int host = 0; host < HOSTS; host++)
        memtier_release (&memtiers[host]);
    return done_testing ();
}
