/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in memory: ranks that are started again continue with the same bits, from the newest state that all of
 * them had completed; and nothing else is ever loaded from there.  The test is the launcher. */
#include <config.h>

#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/memtier.h"

#include <stdatomic.h>

enum { SAMPLES = 64, BATCH = 2, WEIGHTS = 3, MANY_WEIGHTS = 5003, EPOCHS = 2, EVERY = 4, LARGE = 1 << 20 };
enum { CHECK_PIECE = 256 << 10 /* as in memory_load.c */ };
enum { PATH_ROOM = 600 };

/* In shared memory: what the test wants of the ranks, and what became of them. */
static struct plan {
    int kill_rank, kill_step; /* that rank ends itself after this step; 0: none does */
    int save_step;            /* to the disk; 0: never */
    int metric_step;          /* a number is noted, the only one; 0: never */
    atomic_bool has_best;     /* of the latest save to the disk */
    int passes;               /* of a step; 0: one */
    int torn_save;            /* rank 0 ends itself in the middle of this one, which is_large; 0: never */
    bool moves; /* weights and moments, and back, before gradients are computed */
    bool registers_hook, lacks_limit, lacks_memory, is_large; /* lacks_memory: rank 1 */
    enum accel_sharding strategy; /* of a model of MANY_WEIGHTS, of which some are compared; 0: it is small */
    uint64_t every; /* in the project configuration */
    atomic_int loaded_at; /* the step that the ranks continued from; -1: from the beginning */
    atomic_int checks;    /* pieces that the program's threads have compared checksums of */
    atomic_bool is_left;  /* loading left the random numbers of the last rank as they were */
    float weights[WEIGHTS];
    double lr;
    char progress[32];
} *plan;

static char project[PATH_ROOM];

/* ---- in ranks ---- */

ssize_t __real_pwrite (int fd, const void *bytes, size_t length, off_t at);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t length, off_t at);

ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t length, off_t at)
{
    static int saves;
    saves += length == LARGE * sizeof (float);
    if (length != LARGE * sizeof (float) || saves != plan->torn_save)
        return __real_pwrite (fd, bytes, length, at);
    (void) !__real_pwrite (fd, bytes, length / 2, at);
    kill (getpid (), SIGKILL);
    return -1;
}

ssize_t __real_pread (int fd, void *bytes, size_t length, off_t at);
ssize_t __wrap_pread (int fd, void *bytes, size_t length, off_t at);

ssize_t
__wrap_pread (int fd, void *bytes, size_t length, off_t at)
{
    if (length == CHECK_PIECE && gettid () == getpid ())
        atomic_fetch_add (&plan->checks, 1);
    return __real_pread (fd, bytes, length, at);
}

struct training {
    struct accel *acc;
    float weights[MANY_WEIGHTS];
    int64_t shape[1], large_shape[1];
    DLTensor data, grad;
    float *large; /* registered, and saved by rank 0 */
    DLTensor large_data;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_loader *loader;
    const struct accel_batch *batch;
    int64_t steps;
};

static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

/* With random numbers of each rank. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    static const size_t layer = 0;
    struct training *training = user;
    const int64_t *samples = accel_batch_tensor (training->batch, "number")->data;
    float *gradient = training->grad.data;
    enum accel_status status = accel_layer_begin (training->model, &layer, 1, err);
    for (size_t s = 0; !status && s < accel_batch_size (training->batch); s++)
        for (int64_t i = 0; i < training->shape[0]; i++)
            gradient[i] += scale * ((float) (samples[s] % (5 + i % WEIGHTS)) - training->weights[i]
                                    + (float) accel_generator_uniform (accel_default_generator ()));
    return status ? status : accel_layer_end (training->model, &layer, 1, err);
}

static enum accel_status
save_steps (void *user, struct accel_state_dict *state, struct accel_error *err)
{
    struct training *training = user;
    (void) err;
    accel_state_dict_set_int64 (state, "steps", training->steps);
    if (training->large)
        accel_state_dict_set_tensor (state, "large", &training->large_data);
    return ACCEL_OK;
}

static enum accel_status
load_steps (void *user, const struct accel_state_dict *state, struct accel_error *err)
{
    struct training *training = user;
    return accel_state_dict_get_int64 (state, "steps", &training->steps, err);
}

static enum accel_status
hook (void *user, const char *folder, bool *with_models, struct accel_error *err)
{
    (void) user, (void) folder, (void) with_models, (void) err;
    return ACCEL_OK;
}

static void
make_training (struct training *training, struct accel *acc, const struct accel_dataset *numbers)
{
    struct accel_error err = { 0 };
    *training = (struct training){ .acc = acc, .large_shape = { LARGE } };
    training->shape[0] = plan->strategy ? MANY_WEIGHTS : WEIGHTS;
    training->data = (DLTensor){ .data = training->weights, .device = { kDLCPU, 0 }, .ndim = 1,
                                 .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = training->shape };
    training->grad = training->data;
    training->grad.data = NULL;
    training->large = plan->is_large ? calloc (LARGE, sizeof *training->large) : NULL;
    training->large_data = training->data;
    training->large_data.data = training->large;
    training->large_data.shape = training->large_shape;
    const struct accel_parameter parameter = { "weights", &training->data, &training->grad };
    const struct accel_optimizer_options adam = { .lr = 0.05 };
    const struct accel_scheduler_options decay = { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 3, .gamma = 0.9 };
    const struct accel_loader_options loader = { .batch_size = BATCH, .shuffle = true, .seed = 7 };
    const struct accel_checkpoint_object object = { save_steps, load_steps, training };
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true, .memory_checkpoint_every = plan->every };
    rank_must (accel_set_seed (acc, 3, true, &err), &err);
    rank_must (accel_model_create (&training->model, &parameter, 1, &err), &err);
    const struct accel_sharding_options sharding
        = { .strategy = plan->strategy ? plan->strategy : ACCEL_SHARDING_NONE };
    rank_must (accel_model_set_sharding (training->model, &sharding, &err), &err);
    rank_must (accel_optimizer_create (&training->optimizer, training->model, ACCEL_ADAMW, &adam, &err), &err);
    rank_must (accel_scheduler_create (&training->scheduler, training->optimizer, &decay, &err), &err);
    rank_must (accel_loader_create (&training->loader, numbers, &loader, &err), &err);
    rank_must (accel_prepare (acc, &err, training->model, training->optimizer, training->scheduler, training->loader),
               &err);
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
    rank_must (accel_register_for_checkpointing (acc, &object, &err), &err);
    if (plan->registers_hook)
        rank_must (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, hook, NULL, NULL, &err), &err);
}

/* As programs do that need gradients of two places: no call of the library comes before they write. */
static void
move (struct training *training)
{
    DLTensor *moments = accel_optimizer_state_tensor (training->optimizer, 0, "exp_avg");
    float *const tensors[] = { training->weights, moments->data };
    float kept[2][WEIGHTS];
    for (int i = 0; i < 2; i++) {
        memcpy (kept[i], tensors[i], sizeof kept[i]);
        memset (tensors[i], 0x40, sizeof kept[i]);
    }
    usleep (20000);
    for (int i = 0; i < 2; i++)
        memcpy (tensors[i], kept[i], sizeof kept[i]);
}

/* One pass of a step.  @return whether it completed the step */
static bool
train (struct training *training)
{
    struct accel_error err = { 0 };
    if (plan->moves && training->steps % EVERY == 0) /* a save was due */
        move (training);
    rank_must (accel_accumulate (training->acc, &err), &err);
    rank_must (accel_backward (training->acc, training->model, 0, backward, training, &err), &err);
    rank_must (accel_optimizer_step (training->optimizer, &err), &err);
    rank_must (accel_scheduler_step (training->scheduler, &err), &err);
    rank_must (accel_optimizer_zero_grad (training->optimizer, &err), &err);
    return accel_sync_gradients (training->acc);
}

/* A loader that the body of the loop uses for something else: the state is not taken there. */
static void
evaluate (struct accel_loader *loader)
{
    struct accel_error err = { 0 };
    const struct accel_batch *batch;
    while (accel_loader_next (loader, &batch, &err))
        ;
    rank_must (err.code, &err);
}

static void
after_step (struct training *training)
{
    struct accel_error err = { 0 };
    int rank = accel_process_index (training->acc);
    training->steps++;
    if (training->steps == plan->metric_step)
        rank_must (accel_note_metric (training->acc, 1, NULL, &err), &err);
    if (training->steps == plan->save_step) {
        rank_must (accel_save_state (training->acc, NULL, &err), &err);
        if (!rank)
            atomic_store (&plan->has_best, accel_best_checkpoint_path (training->acc));
    }
    if (training->steps == plan->kill_step && rank == plan->kill_rank)
        kill (getpid (), SIGKILL);
}

static void
act (struct accel *acc)
{
    struct accel_error err = { 0 };
    struct training training;
    struct accel_loader *other;
    const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    const struct accel_dataset numbers
        = { .size = SAMPLES, .fields = fields, .field_count = 1, .read = read_number };
    const struct accel_loader_options plain = { .batch_size = 16 };
    make_training (&training, acc, &numbers);
    rank_must (accel_loader_create (&other, &numbers, &plain, &err), &err);
    rank_must (accel_prepare (acc, &err, other), &err);
    uint8_t before[ACCEL_GENERATOR_STATE_BYTES], after[ACCEL_GENERATOR_STATE_BYTES];
    accel_generator_get_state (accel_default_generator (), before);
    enum accel_status status = accel_load_state (acc, NULL, &err);
    accel_generator_get_state (accel_default_generator (), after);
    if (accel_process_index (acc) == accel_num_processes (acc) - 1)
        atomic_store (&plan->is_left, !memcmp (before, after, sizeof before));
    right (!status || status == ACCEL_ERR_NOT_FOUND, "loading: %s", err.text);
    if (!accel_process_index (acc))
        atomic_store (&plan->loaded_at, status ? -1 : (int) training.steps);
    while (accel_loader_epoch (training.loader) < EPOCHS) {
        while (accel_loader_next (training.loader, &training.batch, &err)) {
            if (!train (&training))
                continue;
            evaluate (other);
            after_step (&training);
        }
        if (err.code) /* the other rank was killed */
            _exit (0);
    }
    rank_must (accel_summon_full_params (training.model, &err), &err);
    if (!accel_process_index (acc)) {
        for (int64_t i = 0; i < WEIGHTS; i++)
            plan->weights[i] = training.weights[i * (training.shape[0] - 1) / (WEIGHTS - 1)];
        plan->lr = accel_scheduler_lr (training.scheduler);
    }
    accel_loader_destroy (other);
    accel_loader_destroy (training.loader);
    accel_scheduler_destroy (training.scheduler);
    accel_optimizer_destroy (training.optimizer);
    accel_model_destroy (training.model);
    free (training.large);
}

/* ---- the launcher ---- */

static struct memtier memtier = MEMTIER_NONE;
static int64_t restarts;
static char limit_file[PATH_ROOM];

static void
become (const struct jobseg *segment, pid_t parent, int rank, int size)
{
    struct accel *acc;
    struct accel_error err = { 0 };
    char text[64];
    ranks_become (segment, parent, rank, size);
    snprintf (text, sizeof text, "/proc/%d/fd/%d", (int) parent, memtier.fd);
    setenv (ENV_MEMORY, text, 1);
    setenv (ENV_JOB_ID, "ranks", 1);
    setenv (ENV_MEMORY_EVERY, "4", 1);
    if (plan->lacks_memory && rank == 1)
        unsetenv (ENV_MEMORY);
    if (plan->lacks_limit)
        unsetenv (ENV_MEMORY_EVERY);
    const struct accel_options options = { .cpu = true, .gradient_accumulation_steps = (uint32_t) plan->passes };
    rank_must (accel_open (&acc, &options, &err), &err);
    act (acc);
    accel_close (acc);
    _exit (0);
}

/* @return whether all ranks that were not killed went well */
static bool
start (int size)
{
    struct jobseg segment = JOBSEG_NONE;
    struct fail fail;
    pid_t pids[RANKS_MOST], parent = getpid ();
    bool good = true;
    if (jobseg_create (&segment, size, size, 0, "ranks", &fail))
        return false;
    memset (ranks_texts, 0, RANKS_MOST * RANKS_TEXT);
    memtier_begin (&memtier, size, restarts, "ranks", limit_file);
    fflush (stdout);
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork ();
        if (!pids[rank])
            become (&segment, parent, rank, size);
    }
    for (int left = size; left > 0; left--) {
        int status = 0, rank = 0;
        pid_t pid = waitpid (-1, &status, 0);
        while (rank < size && pids[rank] != pid)
            rank++;
        if (rank == size)
            continue;
        jobseg_mark_exit (&segment, rank, status);
        bool is_expected = (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL) || plan->torn_save || plan->kill_step;
        good = good && (is_expected || (!status && !*ranks_texts[rank]));
        if (!is_expected && *ranks_texts[rank])
            diag ("rank %d: %s", rank, ranks_texts[rank]);
    }
    jobseg_detach (&segment);
    restarts++;
    return good;
}

static void
remove_project (void)
{
    char command[PATH_ROOM + 16];
    snprintf (command, sizeof command, "rm -rf '%s'", project);
    ok (!system (command), "a new project");
}

/* A job that is not interrupted, without a launcher before it. */
static void
begin (int passes)
{
    struct fail fail;
    memtier_release (&memtier);
    restarts = 0;
    *limit_file = '\0';
    memset (plan, 0, sizeof *plan);
    plan->passes = passes;
    remove_project ();
    ok (!memtier_create (&memtier, &fail), "memory for checkpoints");
}

struct result {
    float weights[WEIGHTS];
    double lr;
};

static struct result
undisturbed (int size, int passes)
{
    struct result result;
    begin (passes);
    ok (start (size), "%d ranks, undisturbed, %d passes per step", size, passes);
    memcpy (result.weights, plan->weights, sizeof result.weights);
    result.lr = plan->lr;
    return result;
}

static void
is_same (const struct result *result, const char *what)
{
    bool is_equal = !memcmp (result->weights, plan->weights, sizeof plan->weights)
                    && !memcmp (&result->lr, &plan->lr, sizeof plan->lr);
    ok (is_equal, "the same bits: %s", what);
}

static void
restarted_from (int size, int step, const char *what)
{
    plan->kill_step = 0;
    ok (start (size) && atomic_load (&plan->loaded_at) == step, "%s: from step %d", what, step);
    if (atomic_load (&plan->loaded_at) != step)
        diag ("from step %d", atomic_load (&plan->loaded_at));
}

/* ---- tests ---- */

static void
test_kills (void)
{
    const struct result result = undisturbed (2, 1);
    static const int kills[] = { 3, 4, 5, 9, 16, 17, 31 };
    for (size_t i = 0; i < sizeof kills / sizeof *kills; i++) {
        begin (1);
        plan->kill_step = kills[i];
        plan->kill_rank = (int) i % 2;
        start (2);
        /* The state of a step is taken when the next batch is asked for. */
        int from = (kills[i] - 1) / EVERY * EVERY;
        restarted_from (2, from ? from : -1, "a rank was killed");
        is_same (&result, "after one kill");
    }
    begin (1);
    for (int step = 6; step < 30; step += 6) {
        plan->kill_step = step;
        start (2);
    }
    plan->kill_step = 0;
    ok (start (2), "killed four times");
    is_same (&result, "after four kills");
}

static void
test_passes (void)
{
    const struct result result = undisturbed (2, 2);
    begin (2);
    plan->kill_step = 6;
    start (2);
    restarted_from (2, 4, "two passes per step");
    is_same (&result, "two passes per step");
}

/* Rank 0 ends while it writes: the state before is used, also if that is the one from which this start continued. */
static void
test_torn (void)
{
    const struct result result = undisturbed (2, 1);
    begin (1);
    plan->is_large = true;
    plan->torn_save = 3;
    start (2);
    ok (!atomic_load (&memtier.header->entries[0].sequence), "half a state is none");
    plan->torn_save = 1;
    ok (start (2) && atomic_load (&plan->loaded_at) == 2 * EVERY, "killed in the third save: from step %d", 2 * EVERY);
    plan->torn_save = 0;
    restarted_from (2, 2 * EVERY, "killed in the first save after that");
    is_same (&result, "killed while writing");
}

/* What is saved is what was there when the batch was asked for, whatever the program does with it afterwards. */
static void
test_moves (void)
{
    const struct result result = undisturbed (2, 1);
    begin (1);
    plan->moves = true;
    plan->kill_step = 10;
    start (2);
    restarted_from (2, 2 * EVERY, "a program moves weights and moments");
    is_same (&result, "with moves");
}

/* Checksums of the newest state are compared while processes meet, and not again; of an older one afterwards. */
static void
test_checks (void)
{
    for (int is_newest = 0; is_newest < 2; is_newest++) {
        begin (1);
        plan->is_large = true;
        plan->kill_step = 10;
        start (2);
        atomic_store (&plan->checks, 0);
        if (!is_newest)
            atomic_store (&memtier.header->entries[MEMTIER_BUFFERS + 1].sequence, 0); /* of rank 1, which has little */
        restarted_from (2, is_newest ? 2 * EVERY : EVERY, is_newest ? "the newest state" : "an older one");
        ok ((atomic_load (&plan->checks) == 0) == is_newest, "when its checksum is compared");
    }
}

/* What one rank has completed, and the other has not, is not used: not even if it has another state of this number. */
static void
test_incomplete (void)
{
    const struct result result = undisturbed (2, 1);
    begin (1);
    plan->kill_step = 10;
    start (2);
    atomic_store (&memtier.header->entries[MEMTIER_BUFFERS + 1].sequence, 0); /* rank 1's second */
    restarted_from (2, EVERY, "rank 1 lacks the newest");
    is_same (&result, "from the older one");
    begin (1);
    plan->kill_step = 10;
    start (2);
    memtier.header->entries[MEMTIER_BUFFERS + 1].restarts = 5; /* as if from another start */
    restarted_from (2, EVERY, "rank 1 has one from another start");
    begin (1);
    plan->kill_step = 10;
    start (2);
    for (int i = 0; i < MEMTIER_BUFFERS; i++)
        atomic_store (&memtier.header->entries[i].sequence, 0);
    restarted_from (2, -1, "rank 0 has none");
}

/* A number is noted, and the ranks are started again before the checkpoint that it makes the best one. */
static void
test_best (void)
{
    begin (1);
    plan->metric_step = EVERY - 1;
    plan->kill_step = EVERY + 2;
    start (2);
    plan->save_step = EVERY + 3;
    restarted_from (2, EVERY, "killed between a number and the save");
    ok (atomic_load (&plan->has_best), "the next checkpoint is the best one");
}

/* ---- damage, and copies of other hosts ---- */

/* The place of the latest save of @p rank. */
static size_t
newest_of (int rank)
{
    size_t best = (size_t) rank * MEMTIER_BUFFERS;
    for (size_t i = best; i < ((size_t) rank + 1) * MEMTIER_BUFFERS; i++)
        if (memtier_number_of (&memtier.header->entries[i]) > memtier_number_of (&memtier.header->entries[best]))
            best = i;
    return best;
}

static void
flip (size_t entry, uint64_t at)
{
    char byte;
    if (memtier_read (&memtier, &byte, 1, memtier_place (entry) + at))
        abort ();
    byte = (char) (byte ^ 4);
    if (memtier_write (&memtier, &byte, 1, memtier_place (entry) + at))
        abort ();
}

/* As if @p rank were one of the host before ours, of which we have a copy. */
static size_t
copy (size_t entry, int rank)
{
    static char bytes[64 * 1024];
    struct memtier_header *header = memtier.header;
    size_t place = MEMTIER_OWN + (size_t) rank * MEMTIER_COPY_BUFFERS;
    size_t length = (size_t) (header->entries[entry].index_at + header->entries[entry].index_bytes);
    if (length > sizeof bytes || memtier_read (&memtier, bytes, length, memtier_place (entry))
        || memtier_write (&memtier, bytes, length, memtier_place (place)))
        abort ();
    header->entries[place] = header->entries[entry];
    header->copy_count = (uint32_t) (rank + 1) * MEMTIER_COPY_BUFFERS;
    return place;
}

static void
interrupt (void)
{
    begin (1);
    plan->kill_step = 10;
    start (2);
}

static void
test_damage (void)
{
    const struct result result = undisturbed (2, 1);
    interrupt ();
    flip (newest_of (0), 1);
    restarted_from (2, EVERY, "an element is damaged");
    is_same (&result, "from the state before");
    interrupt ();
    flip (newest_of (1), memtier.header->entries[newest_of (1)].index_at + 9);
    restarted_from (2, EVERY, "what says what is where is damaged");
    is_same (&result, "from the state before");
    interrupt ();
    size_t from = newest_of (0);
    copy (from, 0);
    flip (from, 1);
    restarted_from (2, 2 * EVERY, "an original is damaged, but not its copy");
    is_same (&result, "from the copy");
    interrupt ();
    from = newest_of (0);
    flip (copy (from, 0), 1);
    atomic_store (&memtier.header->entries[from].sequence, 0);
    restarted_from (2, EVERY, "a copy is damaged, and its original is gone");
    is_same (&result, "from the state before");
}

/* Copies that a host did not get to forget, because its ranks had ended, are older than the disk. */
static void
test_forgotten (void)
{
    begin (1);
    plan->save_step = 10;
    plan->kill_step = 11;
    start (2);
    for (int rank = 0; rank < 2; rank++) {
        struct memtier_entry *entry = &memtier.header->entries[copy ((size_t) rank * MEMTIER_BUFFERS + 1, rank)];
        entry->restarts = 0;
        atomic_store (&entry->sequence, 2);
    }
    restarted_from (2, 10, "copies are older than the disk");
}

/* Until all hosts have copies of something newer, ranks leave what they have agreed on. */
static void
test_kept (void)
{
    const struct result result = undisturbed (2, 1);
    for (int sequence = 2; sequence > 0; sequence--) {
        begin (1);
        atomic_store (&memtier.header->buffers, MEMTIER_BUFFERS);
        atomic_store (&memtier.header->kept[0], memtier_number (0, 1));
        atomic_store (&memtier.header->kept[1], memtier_number (0, 2));
        plan->kill_step = 30;
        start (2);
        for (size_t i = 0; i < MEMTIER_BUFFERS; i++)
            if (atomic_load (&memtier.header->entries[i].sequence) > (uint64_t) sequence)
                atomic_store (&memtier.header->entries[i].sequence, 0);
        restarted_from (2, EVERY * sequence, "a save that was kept");
        is_same (&result, "from what was kept");
        ok (atomic_load (&memtier.header->kept[0]) == memtier_number (0, (uint64_t) sequence), "it is still kept");
    }
}

static void
test_disk (void)
{
    const struct result result = undisturbed (2, 1);
    begin (1);
    plan->save_step = 10;
    plan->kill_step = 11;
    start (2);
    restarted_from (2, 10, "the disk is newer");
    is_same (&result, "from the disk");
    begin (1);
    plan->save_step = 10;
    plan->kill_step = 15;
    start (2);
    restarted_from (2, 12, "memory is newer");
    is_same (&result, "from memory");
    begin (1);
    plan->save_step = 10;
    plan->kill_step = 15;
    start (2);
    memtier_release (&memtier);
    struct fail fail;
    ok (!memtier_create (&memtier, &fail), "memory is lost");
    restarted_from (2, 10, "memory is gone");
    is_same (&result, "from the disk, when memory is gone");
}

/* The sum over ranks has other rounding errors, and the ranks have other random numbers, which new ranks do not get. */
static void
test_sizes (void)
{
    static const int sizes[][2] = { { 2, 1 }, { 1, 2 }, { 4, 2 }, { 2, 4 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        begin (1);
        plan->kill_step = 6;
        start (sizes[i][0]);
        restarted_from (sizes[i][1], 4, "another number of processes");
        bool is_new = sizes[i][1] > sizes[i][0] && sizes[i][0] > 1;
        ok (atomic_load (&plan->is_left) == is_new, "%d, then %d processes: random numbers", sizes[i][0], sizes[i][1]);
    }
}

static void
begin_sharded (enum accel_sharding strategy)
{
    begin (1);
    plan->strategy = strategy;
}

/* Each rank has its share in its own buffer. */
static void
test_sharded (void)
{
    static const enum accel_sharding strategies[]
        = { ACCEL_SHARDING_OPTIMIZER, ACCEL_SHARDING_FULL_SHARD, ACCEL_SHARDING_SHARD_GRAD_OP };
    static const int kills[] = { 9, 18, 13 }, sizes[][2] = { { 2, 1 }, { 2, 3 }, { 3, 2 } };
    struct result result;
    begin_sharded (ACCEL_SHARDING_OPTIMIZER);
    ok (start (2), "a sharded model, undisturbed");
    memcpy (result.weights, plan->weights, sizeof result.weights);
    result.lr = plan->lr;
    for (int i = 0; i < 3; i++) {
        begin_sharded (strategies[i]);
        plan->kill_step = kills[i];
        plan->kill_rank = i % 2;
        start (2);
        restarted_from (2, (kills[i] - 1) / EVERY * EVERY, "a sharded model");
        is_same (&result, "of a sharded model");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        begin_sharded (strategies[i]);
        plan->kill_step = 6;
        start (sizes[i][0]);
        restarted_from (sizes[i][1], 4, "shares of another number of processes");
    }
}

static void
write_file (const char *name, const char *text)
{
    char path[PATH_ROOM + 32];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), name);
    FILE *file = fopen (path, "w");
    if (!file || fputs (text, file) < 0 || fclose (file))
        abort ();
}

static void
test_refusals (void)
{
    begin (1);
    write_file ("memory.max", "10485760\n");
    write_file ("memory.current", "9437184\n");
    snprintf (limit_file, sizeof limit_file, "%s/memory.max", scratch_folder ());
    plan->kill_step = 10;
    start (2);
    restarted_from (2, -1, "no room in the control group");
    begin (1);
    write_file ("memory.stat", "anon 1\ninactive_file 8388608\n");
    snprintf (limit_file, sizeof limit_file, "%s/memory.max", scratch_folder ());
    plan->kill_step = 10;
    start (2);
    restarted_from (2, 8, "room that pages of files take");
    begin (1);
    plan->is_large = true; /* 4 MiB and a few bytes: 2 x 5 MiB, of 12 */
    write_file ("memory.max", "20971520\n");
    write_file ("memory.current", "8388608\n");
    write_file ("memory.stat", "anon 1\n");
    snprintf (limit_file, sizeof limit_file, "%s/memory.max", scratch_folder ());
    plan->kill_step = 10;
    start (2);
    write_file ("memory.current", "17825792\n"); /* with them */
    plan->kill_step = 14;
    start (2);
    restarted_from (2, 12, "the room that buffers have after a restart");
    begin (1);
    plan->registers_hook = true;
    plan->kill_step = 10;
    start (2);
    restarted_from (2, -1, "a hook needs a folder");
    begin (1);
    plan->save_step = 6;
    plan->kill_step = 10;
    start (2);
    plan->lacks_memory = true;
    restarted_from (2, 6, "a rank without memory, and a state on the disk");
    begin (1);
    plan->lacks_limit = true;
    plan->kill_step = 10;
    start (2);
    restarted_from (2, -1, "it was not asked for");
    begin (1);
    plan->lacks_limit = true;
    plan->every = 3;
    plan->kill_step = 8;
    start (2);
    restarted_from (2, 6, "the project configuration asks for it");
    begin (1);
    plan->kill_step = 10;
    start (2);
    struct memtier other;
    struct fail fail;
    char path[64];
    snprintf (path, sizeof path, "/proc/self/fd/%d", memtier.fd);
    ok (memtier_attach (&other, path, "another", &fail)
            && strstr (fail.text, "not memory for checkpoints of job another"),
        "that of another job is refused");
    ok (memtier_attach (&other, "/dev/null", "ranks", &fail), "a device is refused");
}

int
main (void)
{
    ranks_texts = mmap (NULL, RANKS_MOST * RANKS_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    plan = mmap (NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf (project, sizeof project, "%s/project", scratch_folder ());
    test_kills ();
    test_passes ();
    test_torn ();
    test_moves ();
    test_checks ();
    test_incomplete ();
    test_best ();
    test_damage ();
    test_forgotten ();
    test_kept ();
    test_disk ();
    test_sizes ();
    test_sharded ();
    test_refusals ();
    memtier_release (&memtier);
    return done_testing ();
}
