/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding: states that only rare programs, or rare timing, bring about. */
#include <config.h>

#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/unit/train/resident.h"
#include "util/memory.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { LAYERS = 3, ROWS = 30000, PATIENCE_MS = 60000 };

static struct accel_error err;

/* As many layers, each with one parameter. */
struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[LAYERS], grad[LAYERS];
    int64_t shape;
    int step;
};

static void
make (struct net *net, struct accel *acc, enum accel_sharding strategy, const struct accel_ddp_options *ddp)
{
    static const char *const names[LAYERS] = { "w0", "w1", "w2" };
    struct accel_parameter parameters[LAYERS];
    *net = (struct net){ .acc = acc, .shape = ROWS };
    for (int i = 0; i < LAYERS; i++) {
        net->data[i] = net->grad[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = &net->shape,
                                                  .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grad[i] };
    }
    rank_must (accel_model_create (&net->model, parameters, LAYERS, &err), &err);
    rank_must (accel_model_set_sharding (net->model, &(struct accel_sharding_options){ .strategy = strategy }, &err),
               &err);
    rank_must (accel_model_set_ddp (net->model, ddp, &err), &err);
    rank_must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_SGD,
                                       &(struct accel_optimizer_options){ .lr = 0.01, .momentum = 0.9 }, &err),
               &err);
    rank_must (accel_prepare (acc, &err, net->model, net->optimizer), &err);
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

/* ---- layers and steps ---- */

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    enum accel_status status = ACCEL_OK;
    for (size_t i = LAYERS; i-- > 0 && !status;) {
        status = accel_layer_begin (net->model, &i, 1, error);
        for (int j = 0; j < ROWS; j++)
            ((float *) net->grad[i].data)[j] = scale;
        status = status ? status : accel_grad_ready (net->model, i, error);
        status = status ? status : accel_layer_end (net->model, &i, 1, error);
    }
    return status;
}

static void
forward (struct net *net, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rank_must (accel_layer_begin (net->model, &i, 1, &err), &err);
        rank_must (accel_layer_end (net->model, &i, 1, &err), &err);
    }
}

/* A step in the middle of the order: what is gathered ahead then must have ended before parameters change. */
static void
step_amid_layers (struct accel *acc)
{
    const struct comm_site site = { .file = "test", .call = JOBSEG_CALL_OPTIMIZER_STEP };
    struct net net;
    make (&net, acc, ACCEL_SHARDING_FULL_SHARD, &(struct accel_ddp_options){ .overlap = ACCEL_OVERLAP_ALWAYS });
    forward (&net, LAYERS);
    rank_must (accel_backward (acc, net.model, 0, backward, &net, &err), &err);
    rank_must (accel_optimizer_step (net.optimizer, &err), &err);
    forward (&net, 1);
    size_t bytes = ROWS * sizeof (float), has = 0;
    for (int i = 0; i < PATIENCE_MS && (has = resident (net.data[1].data, bytes)) < bytes; i++)
        usleep (1000);
    right (has >= bytes, "the second layer is not gathered ahead");
    rank_must (sharding_begin_step (net.optimizer, &site, &err), &err);
    has = resident (net.data[1].data, bytes);
    right (has < bytes, "before an update, the second layer has %zu of %zu bytes, some perhaps on their way", has,
           bytes);
    end (&net);
}

/* The first rank uses only the first layer in odd steps. */
static enum accel_status
backward_some (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    bool is_short = net->step % 2 && !accel_process_index (net->acc);
    enum accel_status status = ACCEL_OK;
    for (size_t i = LAYERS; i-- > 0 && !status;) {
        status = accel_layer_begin (net->model, &i, 1, error);
        for (int j = 0; j < ROWS; j++)
            ((float *) net->grad[i].data)[j] += scale;
        if (!status && (!i || !is_short))
            status = accel_grad_ready (net->model, i, error);
        status = status ? status : accel_layer_end (net->model, &i, 1, error);
    }
    return status;
}

/* On one CPU: the others' averages must not come between layers that the first rank still begins. */
static void
use_others (struct accel *acc)
{
    struct net net;
    cpu_set_t all, one;
    CPU_ZERO (&all);
    CPU_ZERO (&one);
    right (!sched_getaffinity (0, sizeof all, &all), "sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT (&one); cpu++)
        if (CPU_ISSET (cpu, &all))
            CPU_SET (cpu, &one);
    right (!sched_setaffinity (0, sizeof one, &one), "sched_setaffinity");
    make (&net, acc, ACCEL_SHARDING_FULL_SHARD,
          &(struct accel_ddp_options){ .bucket_cap_mb = 0.01, .find_unused_parameters = true });
    right (!net.model->reducer->overlap || sysconf (_SC_NPROCESSORS_ONLN) == 1, "a thread averages");
    for (net.step = 0; net.step < 4; net.step++) {
        forward (&net, LAYERS);
        rank_must (accel_backward (acc, net.model, 0, backward_some, &net, &err), &err);
        rank_must (accel_optimizer_step (net.optimizer, &err), &err);
        rank_must (accel_optimizer_zero_grad (net.optimizer, &err), &err);
    }
    end (&net);
}

/* ---- pages ---- */

/* @return whether @memory is where the kernel is to use small pages only */
static bool
has_small_pages (const void *memory)
{
    char line[512];
    bool is_here = false, found = false;
    FILE *maps = fopen ("/proc/self/smaps", "r");
    while (maps && fgets (line, sizeof line, maps)) {
        char *rest;
        uintptr_t begin = strtoul (line, &rest, 16);
        if (*rest == '-')
            is_here = (uintptr_t) memory >= begin && (uintptr_t) memory < strtoul (rest + 1, NULL, 16);
        else if (is_here && !strncmp (line, "VmFlags:", 8))
            found = strstr (line, " nh");
    }
    if (maps)
        fclose (maps);
    return found;
}

static void
look_at_chunks (struct accel *acc, const char *what, const DLTensor *tensor)
{
    const float *quarter = (const float *) tensor->data + tensor->shape[0] / 4, *other = quarter + tensor->shape[0] / 2;
    bool is_first = accel_process_index (acc) == 0;
    right (!has_small_pages (is_first ? other : quarter), "others' chunks of a %s are in small pages", what);
    right (has_small_pages (is_first ? quarter : other), "this process's chunk of a %s may be in huge pages", what);
}

static enum accel_status
fill_large (void *user, float scale, struct accel_error *error)
{
    const DLTensor *grad = user;
    (void) error;
    for (int64_t i = 0; i < grad->shape[0]; i++)
        ((float *) grad->data)[i] = scale;
    return ACCEL_OK;
}

/* What is gathered or written again and again is in huge pages, and what this process keeps, in small ones. */
static void
look_at_pages (struct accel *acc)
{
    static int64_t shape[] = { 3 << 20 };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    struct accel_model *model;
    rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
    rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
    rank_must (accel_prepare (acc, &err, model), &err);
    if (!access ("/sys/kernel/mm/transparent_hugepage", F_OK)) {
        look_at_chunks (acc, "parameter", &data);
        look_at_chunks (acc, "gradient", &grad);
    }
    rank_must (accel_backward (acc, model, 0, fill_large, &grad, &err), &err);
    size_t bytes = (size_t) shape[0] * sizeof (float), has = resident (grad.data, bytes);
    right (has <= bytes / 2 + PAGE, "after a pass, a gradient has %zu of %zu bytes", has, bytes);
    for (int64_t i = 0; i < shape[0]; i++)
        if (!right (((float *) grad.data)[i] == (float) (i / (shape[0] / 2) == accel_process_index (acc)),
                    "element %lld of an average is %g", (long long) i, (double) ((float *) grad.data)[i]))
            break;
    accel_model_destroy (model);
}

/* Pages of the next gradient are there before it is written, if the system can do that. */
static enum accel_status
write_expected (void *user, float scale, struct accel_error *error)
{
    const struct net *net = user;
    size_t least = ROWS / 2 * sizeof (float);
    enum accel_status status = ACCEL_OK;
    for (int i = LAYERS; i-- > 0 && !status;) {
        size_t has = resident (net->grad[i].data, ROWS * sizeof (float));
        right (i == LAYERS - 1 || has >= least, "before it is written, gradient %d has %zu bytes", i, has);
        for (int j = 0; j < ROWS; j++)
            ((float *) net->grad[i].data)[j] += scale;
        status = accel_grad_ready (net->model, (size_t) i, error);
    }
    return status;
}

static void
expect_gradients (struct accel *acc)
{
    struct net net;
    void *page = memory_create_sparse (PAGE);
    bool can_populate = page && !madvise (page, PAGE, MADV_POPULATE_WRITE);
    free (page);
    make (&net, acc, ACCEL_SHARDING_SHARD_GRAD_OP, &(struct accel_ddp_options){ .bucket_cap_mb = 1e-9 });
    for (int step = 0; step < 2 && can_populate; step++) {
        rank_must (accel_backward (acc, net.model, 0, write_expected, &net, &err), &err);
        rank_must (accel_optimizer_step (net.optimizer, &err), &err);
        rank_must (accel_optimizer_zero_grad (net.optimizer, &err), &err);
    }
    end (&net);
}

/* ---- custom optimizers ---- */

static enum accel_status
custom_step (void *user, const struct accel_update *update, struct accel_error *error)
{
    (void) user, (void) update, (void) error;
    return ACCEL_OK;
}

/* What the program keeps of each parameter is the program's: a save neither gives it back nor puts it together. */
static void
keep_custom (struct accel *acc)
{
    static const char *const names[] = { "seen" };
    const struct accel_custom_optimizer functions
        = { .step = custom_step, .lr = 0.1, .state_names = names, .state_count = 1 };
    struct net net;
    struct accel_optimizer *custom;
    char path[SCRATCH_SIZE + 32];
    float own = (float) accel_process_index (acc) + 1;
    make (&net, acc, ACCEL_SHARDING_OPTIMIZER, &(struct accel_ddp_options){ 0 });
    rank_must (accel_optimizer_create_custom (&custom, net.model, &functions, &err), &err);
    rank_must (accel_prepare (acc, &err, custom), &err);
    float *state = accel_optimizer_state_tensor (custom, 1, "seen")->data;
    for (int i = 0; i < ROWS; i++)
        state[i] = own;
    snprintf (path, sizeof path, "%s/custom", scratch_folder ());
    rank_must (accel_save_state (acc, path, &err), &err);
    for (int i = 0; i < ROWS; i++)
        right (state[i] == own, "after a save, element %d is %g, but was %g", i, (double) state[i], (double) own);
    for (int i = 0; i < ROWS; i++)
        state[i] = 0;
    rank_must (accel_load_state (acc, path, &err), &err);
    for (int i = 0; i < ROWS; i++)
        right (state[i] == 1, "after a load, element %d is %g, but rank 0 had saved 1", i, (double) state[i]);
    accel_optimizer_destroy (custom);
    end (&net);
}

/* ---- what is refused ---- */

static void
refuse_initialize (struct accel *acc)
{
    const struct accel_initializer row = { .mean = 1 };
    struct net net;
    struct accel_generator *generator;
    rank_must (accel_generator_create (&generator, 1, &err), &err);
    make (&net, acc, ACCEL_SHARDING_OPTIMIZER, &(struct accel_ddp_options){ 0 });
    rank_must (accel_unwrap_model (acc, net.model, &err), &err);
    rank_fails (accel_model_initialize (net.model, &row, 1, generator, &err), ACCEL_ERR_INVALID, &err,
                "has been sharded");
    end (&net);
    accel_generator_destroy (generator);
}

/* ---- float16 ---- */

enum { HALF_992 = 0x63C0, HALF_20000 = 0x74E2, HALF_20992 = 0x7520 };

/* Adds 20000 to gradients of 0, and then 992. */
static enum accel_status
add_half (void *user, float scale, struct accel_error *error)
{
    static bool is_second;
    uint16_t *grad = ((DLTensor *) user)->data;
    (void) scale, (void) error;
    for (int i = 0; i < ROWS; i++)
        grad[i] = grad[i] == HALF_20000 ? HALF_20992 : grad[i] ? grad[i] : is_second ? HALF_992 : HALF_20000;
    is_second = true;
    return ACCEL_OK;
}

/* Of one parameter, whose gradient is @grad. */
static struct accel_model *
make_half (DLTensor *data, DLTensor *grad)
{
    static int64_t shape[] = { ROWS };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP };
    struct accel_parameter parameter = { "w", data, grad };
    struct accel_model *model;
    *data = *grad = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                                .dtype = accel_dtype_to_dl (ACCEL_FLOAT16) };
    rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
    rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
    return model;
}

/* Four times the average of the first pass is more than float16 has. */
static void
add_to_large (struct accel *acc)
{
    DLTensor data, grad;
    struct stretch own[STRETCHES];
    struct accel_model *model = make_half (&data, &grad);
    rank_must (accel_prepare (acc, &err, model), &err);
    for (int pass = 0; pass < 2; pass++)
        rank_must (accel_backward (acc, model, 0, add_half, &grad, &err), &err);
    sharding_gradient_stretches (model, 0, own);
    for (int s = 0; s < STRETCHES; s++)
        for (size_t i = own[s].from; i < own[s].end; i++) {
            uint16_t bits = ((uint16_t *) grad.data)[i];
            right (bits == HALF_20992, "element %zu of a gradient has the bits %x", i, bits);
        }
    accel_model_destroy (model);
}

static enum accel_status
look_at_half (void *user, float scale, struct accel_error *error)
{
    const DLTensor *grad = user;
    size_t has = resident (grad->data, ROWS * sizeof (uint16_t));
    (void) scale, (void) error;
    right (has <= ROWS * sizeof (uint16_t) / 2 + 2 * PAGE, "a pass begins with %zu bytes of a gradient", has);
    memset (grad->data, 0, ROWS * sizeof (uint16_t));
    return ACCEL_OK;
}

/* Gradients that an optimizer has made zero need not be whole again for the next pass. */
static void
zero_half (struct accel *acc)
{
    const struct accel_optimizer_options options = { .lr = 0.01 };
    DLTensor data, grad;
    struct accel_optimizer *optimizer;
    struct accel_model *model = make_half (&data, &grad);
    rank_must (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &options, &err), &err);
    rank_must (accel_prepare (acc, &err, model, optimizer), &err);
    for (int step = 0; step < 3; step++) {
        rank_must (accel_optimizer_zero_grad (optimizer, &err), &err);
        rank_must (accel_backward (acc, model, 0, look_at_half, &grad, &err), &err);
        rank_must (accel_optimizer_step (optimizer, &err), &err);
    }
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

/* ---- two jobs, one after the other ---- */

static struct jobseg first_job;
static struct net kept;

static void
use_first_job (int rank)
{
    char second[64], first[64];
    struct accel *acc;
    (void) rank;
    snprintf (second, sizeof second, "%s", getenv (ENV_JOB_SEGMENT));
    snprintf (first, sizeof first, "/proc/%d/fd/%d", (int) getppid (), first_job.fd);
    setenv (ENV_JOB_SEGMENT, first, 1);
    rank_must (accel_open (&acc, NULL, &err), &err);
    make (&kept, acc, ACCEL_SHARDING_FULL_SHARD, &(struct accel_ddp_options){ .overlap = ACCEL_OVERLAP_NEVER });
    forward (&kept, LAYERS);
    rank_must (accel_backward (acc, kept.model, 0, backward, &kept, &err), &err);
    rank_must (accel_optimizer_step (kept.optimizer, &err), &err);
    accel_close (acc);
    setenv (ENV_JOB_SEGMENT, second, 1);
}

/* accel_close() waits for no process, so the next accel_prepare() takes the parameters from chunks. */
static void
use_second_job (struct accel *acc)
{
    rank_must (accel_prepare (acc, &err, kept.model, kept.optimizer), &err);
    for (size_t i = 0; i < LAYERS; i++) {
        rank_must (accel_layer_begin (kept.model, &i, 1, &err), &err);
        for (int j = 0; j < ROWS; j++) {
            float value = ((const float *) kept.data[i].data)[j];
            if (!right (value == -0.01F, "element %d of layer %zu is %g", j, i, (double) value))
                return;
        }
        rank_must (accel_layer_end (kept.model, &i, 1, &err), &err);
    }
    end (&kept);
}

static void
change_jobs (void)
{
    struct fail fail;
    if (jobseg_create (&first_job, 2, 2, 0, "ranks", &fail))
        ok (false, "a first job");
    ranks_begin = use_first_job;
    as_ranks (2, "a model whose job was closed, in the next one", use_second_job);
    ranks_begin = NULL;
    jobseg_detach (&first_job);
}

int
main (void)
{
    (void) scratch_folder ();
    as_ranks (3, "a step amid layers", step_amid_layers);
    ranks_options = &(struct accel_options){ .timeout_ms = 20000 };
    as_ranks (3, "ranks use other parameters, on one CPU", use_others);
    ranks_options = NULL;
    as_ranks (2, "pages of parameters and gradients that are divided", look_at_pages);
    as_ranks (3, "pages of gradients that come next", expect_gradients);
    as_ranks (2, "states of a custom optimizer", keep_custom);
    as_ranks (2, "initializers of a sharded model", refuse_initialize);
    as_ranks (4, "passes that add to large float16 averages", add_to_large);
    as_ranks (2, "passes after float16 averages became zero", zero_half);
    change_jobs ();
    return done_testing ();
}
