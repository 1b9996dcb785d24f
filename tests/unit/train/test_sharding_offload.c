/* SPDX-License-Identifier: Apache-2.0 */
/* Offloading to files: a model that is offloaded and one that is not are trained side by side, and have the same bits.
 */
#include <config.h>

#include "lib/train/sharding.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/slow.h"
#include "util/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

enum { PARAMETERS = 4, STEPS = 3, PAGE = 4096 };

/* Many pages, with and without a rest; less than a page. */
static const int64_t shapes[PARAMETERS] = { 120000, 100001, 7, 300000 };

struct way {
    const char *name;
    enum accel_sharding strategy;
    enum accel_dtype dtype;
    enum accel_optimizer_kind kind;
    bool has_parameters; /* in files */
    int ranks;
};

static const struct way *way;
static struct accel_error err;

/* ---- what the system does ---- */

static bool is_full, is_broken, is_unreadable;

#pragma GCC visibility push(default)
int __real_posix_fallocate (int fd, off_t offset, off_t length);
int __wrap_posix_fallocate (int fd, off_t offset, off_t length);
int __real_sync_file_range (int fd, off_t offset, off_t length, unsigned flags);
int __wrap_sync_file_range (int fd, off_t offset, off_t length, unsigned flags);
ssize_t __real_pread (int fd, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int fd, void *memory, size_t bytes, off_t offset);

int
__wrap_posix_fallocate (int fd, off_t offset, off_t length)
{
    return is_full ? ENOSPC : __real_posix_fallocate (fd, offset, length);
}

int
__wrap_sync_file_range (int fd, off_t offset, off_t length, unsigned flags)
{
    errno = EIO;
    return is_broken ? -1 : __real_sync_file_range (fd, offset, length, flags);
}

ssize_t
__wrap_pread (int fd, void *memory, size_t bytes, off_t offset)
{
    errno = EIO;
    return is_unreadable ? -1 : __real_pread (fd, memory, bytes, offset);
}
#pragma GCC visibility pop

/* How many bytes at @memory are in the page tables of this process. */
static size_t
mapped (const void *memory, size_t bytes)
{
    uintptr_t first = (uintptr_t) memory / PAGE, end = ((uintptr_t) memory + bytes + PAGE - 1) / PAGE;
    size_t count = 0, length = (end - first) * sizeof (uint64_t);
    uint64_t *entries = calloc (end - first + 1, sizeof *entries);
    int fd = open ("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    right (entries && fd >= 0 && pread (fd, entries, length, (off_t) (first * sizeof *entries)) == (ssize_t) length,
           "cannot read the page map");
    for (size_t i = 0; entries && i < end - first; i++)
        count += entries[i] >> 63;
    free (entries);
    close (fd);
    return count * PAGE;
}

static size_t
status_kib (const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen ("/proc/self/status", "r");
    while (file && fgets (line, sizeof line, file))
        if (!strncmp (line, name, strlen (name)))
            kib = strtoul (line + strlen (name), NULL, 10);
    if (file)
        fclose (file);
    return kib;
}

/* ---- training ---- */

struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[PARAMETERS], grad[PARAMETERS];
    int64_t shape[PARAMETERS];
    int step;
};

static const char *
folder (void)
{
    static char path[SCRATCH_SIZE + 16];
    snprintf (path, sizeof path, "%s/offload", scratch_folder ());
    return path;
}

static struct accel_sharding_options
options_of_way (bool is_offloaded)
{
    struct accel_sharding_options sharding = { .strategy = way->strategy, .group_size = 2 };
    sharding.offload_optimizer_device = is_offloaded ? ACCEL_OFFLOAD_NVME : ACCEL_OFFLOAD_NONE;
    sharding.offload_param_device = is_offloaded && way->has_parameters ? ACCEL_OFFLOAD_NVME : ACCEL_OFFLOAD_NONE;
    sharding.offload_optimizer_nvme_path = sharding.offload_param_nvme_path = folder ();
    return sharding;
}

/* Elements are those of bfloat16, as which they are read again. */
static void
put (const DLTensor *tensor, size_t i, float value)
{
    uint16_t bits;
    memcpy (&bits, (char *) &value + 2, sizeof bits);
    if (tensor->dtype.bits == 32)
        ((float *) tensor->data)[i] = value;
    else
        ((uint16_t *) tensor->data)[i] = bits;
}

static void
make (struct net *net, struct accel *acc, const struct accel_sharding_options *sharding)
{
    static const char *const names[PARAMETERS] = { "a", "b", "c", "d" };
    const struct accel_optimizer_options options = { .lr = 0.01, .weight_decay = 0.01,
                                                     .momentum = way->kind == ACCEL_SGD ? 0.9 : 0, .threads = 2 };
    struct accel_parameter parameters[PARAMETERS];
    *net = (struct net){ .acc = acc };
    memcpy (net->shape, shapes, sizeof shapes);
    for (int i = 0; i < PARAMETERS; i++) {
        net->data[i] = net->grad[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = &net->shape[i],
                                                  .dtype = accel_dtype_to_dl (way->dtype) };
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grad[i] };
    }
    rank_must (accel_model_create (&net->model, parameters, PARAMETERS, &err), &err);
    if (sharding)
        rank_must (accel_model_set_sharding (net->model, sharding, &err), &err);
    rank_must (accel_optimizer_create (&net->optimizer, net->model, way->kind, &options, &err), &err);
    for (int i = 0; i < PARAMETERS; i++)
        for (size_t j = 0; j < accel_tensor_count (&net->data[i]); j++)
            put (&net->data[i], j, (float) ((j * 31 + (size_t) i) % 64) / 64 - 0.5F);
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    size_t rank = (size_t) accel_process_index (net->acc);
    enum accel_status status = ACCEL_OK;
    for (size_t i = PARAMETERS; i-- > 0 && !status;) {
        status = accel_layer_begin (net->model, &i, 1, error);
        for (size_t j = 0; j < accel_tensor_count (&net->grad[i]); j++)
            put (&net->grad[i], j, scale * ((float) ((j * 7 + rank * 5 + (size_t) net->step * 3 + i) % 32) / 16 - 1));
        status = status ? status : accel_grad_ready (net->model, i, error);
        status = status ? status : accel_layer_end (net->model, &i, 1, error);
    }
    return status;
}

static void
train (struct net *net, int steps)
{
    for (int i = 0; i < steps; i++) {
        rank_must (accel_backward (net->acc, net->model, 1, backward, net, &err), &err);
        rank_must (accel_optimizer_step (net->optimizer, &err), &err);
        rank_must (accel_optimizer_zero_grad (net->optimizer, &err), &err);
        net->step++;
    }
}

/* Of each tensor, at most some pages at the ends of each stretch. */
static void
check_memory (const struct net *net, const char *when)
{
    const struct accel_optimizer *optimizer = net->optimizer;
    size_t most = PARAMETERS * optimizer->state_count * 4 * PAGE;
    size_t has = mapped (optimizer->state_memory, optimizer->state_bytes);
    right (has <= most, "%s, %zu of %zu bytes of states are mapped", when, has, optimizer->state_bytes);
    for (int i = 0; i < PARAMETERS; i++) {
        size_t count = accel_tensor_count (&net->data[i]);
        const DLTensor *trained = net->model->trained[i].data;
        has = mapped (trained->data, count * sizeof (float));
        right (way->dtype == ACCEL_FLOAT32 || has <= 5 * PAGE, "%s, %zu bytes of master %d are mapped", when, has, i);
        has = mapped (net->data[i].data, count * accel_dtype_bytes (way->dtype));
        bool is_whole = !net->model->sharding.parameters_file || !net->step; /* no layer has begun yet */
        right (is_whole || has <= 5 * PAGE, "%s, %zu bytes of parameter %d are mapped",
               when, has, i);
    }
}

static void
compare (struct net *plain, struct net *net)
{
    rank_must (accel_summon_full_params (plain->model, &err), &err);
    rank_must (accel_summon_full_params (net->model, &err), &err);
    for (int i = 0; i < PARAMETERS; i++)
        right (!memcmp (plain->data[i].data, net->data[i].data,
                        accel_tensor_count (&net->data[i]) * accel_dtype_bytes (way->dtype)),
               "step %d: parameter %d has other bits than without offloading", net->step, i);
    rank_must (accel_summon_full_params_end (net->model, &err), &err);
    rank_must (accel_summon_full_params_end (plain->model, &err), &err);
}

static void
save (struct net *net, const char *name)
{
    char path[512];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), name);
    rank_must (accel_save_state (net->acc, path, &err), &err);
}

static void
save_masters (struct net *net)
{
    const struct accel_save_model_options options = { .precision = ACCEL_SAVE_MASTERS };
    char path[512];
    snprintf (path, sizeof path, "%s/masters", scratch_folder ());
    rank_must (accel_save_model (net->acc, net->model, path, &options, &err), &err);
}

/* Unwrapped, and prepared again, it goes on as the other one. */
static void
side_by_side (struct accel *acc)
{
    struct net plain, net;
    const struct accel_sharding_options with = options_of_way (true), without = options_of_way (false);
    make (&plain, acc, &without);
    make (&net, acc, &with);
    rank_must (accel_prepare (acc, &err, plain.model, plain.optimizer), &err);
    rank_must (accel_prepare (acc, &err, net.optimizer, net.model), &err);
    right (net.optimizer->state_file, "states are not in a file");
    bool is_divided = sharding_has_parameters (net.model);
    right (!net.model->sharding.parameters_file == !(way->has_parameters && is_divided), "where parameters are");
    for (int i = 0; i < STEPS; i++) {
        train (&plain, 1);
        train (&net, 1);
        check_memory (&net, "after a step");
        compare (&plain, &net);
    }
    save_masters (&net);
    check_memory (&net, "after a save of masters");
    rank_must (accel_unwrap_model (acc, plain.model, &err), &err);
    rank_must (accel_unwrap_model (acc, net.model, &err), &err);
    right (!net.model->sharding.parameters_file, "parameters are still in a file");
    rank_must (accel_prepare (acc, &err, plain.model), &err);
    rank_must (accel_prepare (acc, &err, net.model), &err);
    train (&plain, 1);
    train (&net, 1);
    compare (&plain, &net);
    check_memory (&net, "prepared again");
    end (&plain);
    end (&net);
}

/* ---- checkpoints ---- */

static const char *loaded, *saved;
static bool is_offloaded;

static void
save_and_load (struct accel *acc)
{
    struct net net;
    char path[512];
    const struct accel_sharding_options sharding = options_of_way (is_offloaded);
    make (&net, acc, &sharding);
    rank_must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), loaded ? loaded : "");
    if (loaded)
        rank_must (accel_load_state (acc, path, &err), &err);
    else
        train (&net, STEPS);
    if (is_offloaded)
        check_memory (&net, "after a load");
    save (&net, saved);
    if (is_offloaded)
        check_memory (&net, "after a save");
    end (&net);
}

static void
test_files (const char *a, const char *b)
{
    char path[2][600];
    for (int i = 0; i < 2; i++)
        snprintf (path[i], sizeof path[i], "%s/%s/optimizer.safetensors", scratch_folder (), i ? b : a);
    ok (scratch_same (path[0], path[1]) > 100, "%s: %s and %s are the same", way->name, a, b);
}

static void
test_checkpoints (void)
{
    static const struct {
        int ranks;
        bool is_offloaded;
        const char *from, *to;
    } jobs[] = { { 2, false, NULL, "plain" }, { 2, true, NULL, "offloaded" }, { 3, true, "plain", "again" },
                 { 1, false, "offloaded", "back" } };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        is_offloaded = jobs[i].is_offloaded;
        loaded = jobs[i].from;
        saved = jobs[i].to;
        as_ranks (jobs[i].ranks, saved, save_and_load);
        test_files ("plain", saved);
    }
}

/* A process is killed after its save: nothing is left in the folder, and another one continues. */
static void
test_kill (void)
{
    int status = 0, entries = 0;
    fflush (stdout);
    pid_t pid = fork ();
    if (!pid) {
        static char texts[RANKS_MOST][RANKS_TEXT];
        struct net net;
        struct accel *acc;
        const struct accel_sharding_options sharding = options_of_way (true);
        ranks_texts = texts;
        rank_must (accel_open (&acc, NULL, &err), &err);
        make (&net, acc, &sharding);
        rank_must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
        train (&net, STEPS);
        save (&net, "killed");
        right (net.optimizer->state_file, "states are not in a file");
        if (!*texts[0])
            raise (SIGKILL);
        _exit (1);
    }
    ok (pid > 0 && waitpid (pid, &status, 0) == pid && WIFSIGNALED (status), "%s: a process is killed", way->name);
    DIR *dir = opendir (folder ());
    for (struct dirent *entry; dir && (entry = readdir (dir));)
        entries += *entry->d_name != '.' || strlen (entry->d_name) > 2;
    if (dir)
        closedir (dir);
    ok (dir && !entries, "%s: %d files are left", way->name, entries);
    is_offloaded = true;
    loaded = "killed";
    saved = "resumed";
    as_ranks (2, "resumed", save_and_load);
    test_files ("killed", "resumed");
}

/* ---- how much memory ---- */

enum { LARGE = 6 << 20, BOUND_KIB = 16 << 10 };

static enum accel_status
nothing (void *user, float scale, struct accel_error *error)
{
    (void) user, (void) scale, (void) error;
    return ACCEL_OK;
}

/* 48 MiB of states, of which a step has few at a time. */
static void
bound_step (struct accel *acc)
{
    static int64_t shape[] = { LARGE };
    const struct accel_sharding_options sharding = { .offload_optimizer_device = ACCEL_OFFLOAD_NVME,
                                                     .offload_optimizer_nvme_path = folder () };
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    struct accel_model *model;
    struct accel_optimizer *adamw;
    rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
    rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
    rank_must (accel_optimizer_create (&adamw, model, ACCEL_ADAMW,
                                       &(struct accel_optimizer_options){ .lr = 0.1, .threads = 1 }, &err), &err);
    rank_must (accel_prepare (acc, &err, model, adamw), &err);
    memset (data.data, 1, LARGE * sizeof (float));
    memset (grad.data, 1, LARGE * sizeof (float));
    for (int i = 0; i < 2; i++) {
        rank_must (accel_backward (acc, model, 0, nothing, NULL, &err), &err);
        int fd = open ("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        bool is_reset = fd >= 0 && write (fd, "5", 1) == 1; /* the highest so far is what is there now */
        size_t before = status_kib ("VmRSS:");
        if (fd >= 0)
            close (fd);
        rank_must (accel_optimizer_step (adamw, &err), &err);
        size_t most = status_kib (is_reset ? "VmHWM:" : "VmRSS:");
        right (most <= before + BOUND_KIB, "a step has needed %zu KiB", most - before);
    }
    accel_optimizer_destroy (adamw);
    accel_model_destroy (model);
}

/* ---- ranges ---- */

enum { SMALL = 15 * PAGE, WHOLE = 16 * PAGE };

static bool cannot_read;

/* Between two ranges that move lies one that is too small to.  What cannot be read again stays. */
static void
move_ranges (struct accel *acc)
{
    struct fail fail = { 0 };
    struct memory_file *file = NULL;
    size_t bytes = 2 * WHOLE + SMALL;
    unsigned char *memory = aligned_alloc (PAGE, bytes);
    right (memory, "aligned_alloc");
    const struct memory_range ranges[]
        = { { memory, WHOLE }, { memory + WHOLE, SMALL }, { memory + WHOLE + SMALL, WHOLE } };
    (void) acc;
    for (size_t i = 0; memory && i < bytes; i++)
        memory[i] = (unsigned char) (i % 251);
    right (!memory_file_create (&file, folder (), &ranges[1], 1, &fail) && !file, "a small range has moved");
    right (!memory_file_create (&file, folder (), ranges, 3, &fail) && file, "%s", fail.text);
    memory_file_release (file, memory, bytes);
    size_t has = mapped (memory, bytes);
    right (has == SMALL, "%zu bytes are mapped", has);
    is_unreadable = cannot_read;
    memory_file_end (file, true);
    is_unreadable = false;
    for (size_t i = 0; memory && i < bytes; i++)
        right (memory[i] == i % 251, "byte %zu is %d", i, memory[i]);
    free (memory);
}

/* ---- what fails ---- */

enum { FILE_LIMIT = 1 << 20 };

/* Infinity: what it may be at most. */
static void
set_file_limit (rlim_t bytes)
{
    struct rlimit limit;
    right (!getrlimit (RLIMIT_FSIZE, &limit), "getrlimit");
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    right (!setrlimit (RLIMIT_FSIZE, &limit), "setrlimit");
}

static void
fail_to_prepare (struct accel *acc)
{
    struct net net;
    struct accel_sharding_options sharding = options_of_way (true);
    const struct accel_sharding_options wrong = { .offload_param_device = 9 };
    sharding.offload_optimizer_nvme_path = "/nowhere/at/all";
    make (&net, acc, &sharding);
    rank_fails (accel_prepare (acc, &err, net.model), ACCEL_ERR_SYSTEM, &err,
                "cannot make a file in '/nowhere/at/all': No such file");
    sharding.offload_optimizer_nvme_path = NULL;
    rank_must (accel_model_set_sharding (net.model, &sharding, &err), &err);
    rank_fails (accel_prepare (acc, &err, net.model), ACCEL_ERR_SYSTEM, &err, "needs offload_optimizer_nvme_path");
    rank_fails (accel_model_set_sharding (net.model, &wrong, &err), ACCEL_ERR_INVALID, &err, "offload_param_device");
    sharding.offload_optimizer_nvme_path = folder ();
    rank_must (accel_model_set_sharding (net.model, &sharding, &err), &err);
    is_full = accel_process_index (acc) == 1;
    rank_fails (accel_prepare (acc, &err, net.model), ACCEL_ERR_SYSTEM, &err, "rank 1: cannot reserve");
    is_full = false;
    set_file_limit (accel_process_index (acc) == 1 ? FILE_LIMIT : RLIM_INFINITY);
    rank_fails (accel_prepare (acc, &err, net.model, net.optimizer), ACCEL_ERR_SYSTEM, &err, "File too large");
    set_file_limit (RLIM_INFINITY);
    right (!net.model->object.owner && net.model->sharding.size == 0, "it is prepared all the same");
    rank_must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    train (&net, 1);
    check_memory (&net, "at last");
    is_broken = true;
    rank_must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
    rank_fails (accel_optimizer_step (net.optimizer, &err), ACCEL_ERR_SYSTEM, &err, "cannot write");
    is_broken = false;
    end (&net);
}

/* ---- what the launcher was asked for ---- */

static bool by_launcher_states, by_launcher_parameters, by_launcher_follows;

static void
by_launcher (struct accel *acc)
{
    struct net net;
    make (&net, acc, by_launcher_follows ? &(struct accel_sharding_options){ 0 } : NULL);
    rank_must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    right (!net.optimizer->state_file == !by_launcher_states, "states");
    right (!net.model->sharding.parameters_file == !by_launcher_parameters, "parameters");
    train (&net, 1);
    end (&net);
}

static void
test_launcher (void)
{
    static const struct {
        const char *stage, *optimizer, *param;
        bool states, parameters, follows;
    } rows[] = { { "3", "nvme", "nvme", true, true, true },  { "3", "cpu", "nvme", false, true, true },
                 { "2", "nvme", "nvme", true, false, true }, { "3", "nvme", "nvme", true, false, false },
                 { "3", "cpu", "cpu", false, false },        { "0", "nvme", "none", false, false },
                 { "3", "none", "none", false, false } };
    setenv (ENV_USE_DEEPSPEED, "true", 1);
    setenv (ENV_OFFLOAD_OPTIMIZER_PATH, folder (), 1);
    setenv (ENV_OFFLOAD_PARAM_PATH, folder (), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[128];
        setenv (ENV_ZERO_STAGE, rows[i].stage, 1);
        setenv (ENV_OFFLOAD_OPTIMIZER, rows[i].optimizer, 1);
        setenv (ENV_OFFLOAD_PARAM, rows[i].param, 1);
        by_launcher_states = rows[i].states;
        by_launcher_parameters = rows[i].parameters;
        by_launcher_follows = rows[i].follows;
        snprintf (name, sizeof name, "--use_deepspeed, stage %s: %s, %s%s", rows[i].stage, rows[i].optimizer,
                  rows[i].param, rows[i].follows ? "; the program follows addresses" : "");
        as_ranks (2, name, by_launcher);
    }
    unsetenv (ENV_USE_DEEPSPEED);
}

int
main (void)
{
    static const struct way ways[] = {
        { "without sharding", ACCEL_SHARDING_NONE, ACCEL_FLOAT32, ACCEL_ADAMW, false, 1 },
        { "stage 1 of bfloat16", ACCEL_SHARDING_OPTIMIZER, ACCEL_BFLOAT16, ACCEL_ADAMW, false, 2 },
        { "stage 2", ACCEL_SHARDING_SHARD_GRAD_OP, ACCEL_FLOAT32, ACCEL_SGD, false, 3 },
        { "stage 3", ACCEL_SHARDING_FULL_SHARD, ACCEL_FLOAT32, ACCEL_ADAMW, true, 3 },
        { "stage 3 of bfloat16", ACCEL_SHARDING_FULL_SHARD, ACCEL_BFLOAT16, ACCEL_ADAMW, true, 2 },
        { "stage 3 in groups", ACCEL_SHARDING_HYBRID_SHARD, ACCEL_FLOAT32, ACCEL_LION, true, 4 },
    };
    if (mkdir (folder (), 0700))
        return 99;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way = &ways[i];
        as_ranks (way->ranks, way->name, side_by_side);
    }
    way = &ways[3];
    test_checkpoints ();
    way = &ways[1];
    test_checkpoints ();
    test_kill ();
    if (!IS_SLOW) /* that sanitizer keeps something of all memory that has been touched */
        as_ranks (1, "a large step", bound_step);
    way = &ways[3];
    as_ranks (2, "what fails", fail_to_prepare);
    as_ranks (1, "small and large ranges", move_ranges);
    cannot_read = true;
    as_ranks (1, "ranges that cannot be read", move_ranges);
    test_launcher ();
    return done_testing ();
}
