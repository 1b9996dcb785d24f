/* SPDX-License-Identifier: Apache-2.0 */
/* Three ranks of which one asks for something else in a call that would move as many elements, or prepares an optimizer
 * or a scheduler with another number: all ranks get an error that names two ranks and what both have.  If one has no
 * memory for the comparison, the others get that error.  Between two cases the job is opened anew, so a rank that is
 * slow to look finds that the others have opened again: it gets the real reason all the same. */
#include <config.h>

#include "tests/allocators.h"
#include "tests/conformance/check.h"

#include <string.h>
#include <unistd.h>

enum { DEADLINE_S = 900, ODD = 1, ELEMENTS = 6, LATE_MS = 300, MOST_ALLOCATIONS = 60 };

static float numbers[4 * ELEMENTS];
static struct accel_error err;

static void
open_job (void)
{
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = 20000 }, &err)) {
        fprintf (stderr, "%s\n", err.text);
        _exit (1);
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
}

/* ---- collectives ---- */

/* [2, 3], on one rank [3, 2]. */
static struct accel_tensor *
make_tensor (void)
{
    static struct accel_tensor tensor;
    int64_t shape[] = { rank == ODD ? 3 : 2, rank == ODD ? 2 : 3 };
    check (!accel_tensor_init (&tensor, ACCEL_FLOAT32, 2, shape, &err), "%s", err.text);
    tensor.dl.data = numbers;
    return &tensor;
}

static enum accel_status
gather (void)
{
    struct accel_tensor out = { .owned_bytes = 0 };
    enum accel_status status = accel_gather (&out, acc, &make_tensor ()->dl, &err);
    accel_tensor_release (&out);
    return status;
}

static enum accel_status
gather_for_metrics (void)
{
    struct accel_tensor out = { .owned_bytes = 0 };
    enum accel_status status = accel_gather_for_metrics (&out, acc, &make_tensor ()->dl, &err);
    accel_tensor_release (&out);
    return status;
}

static enum accel_status
gather_dims (void)
{
    struct accel_tensor out = { .owned_bytes = 0 }, *tensor = make_tensor ();
    tensor->dl.ndim = rank == ODD ? 0 : 1;
    tensor->shape[0] = 1;
    enum accel_status status = accel_gather (&out, acc, &tensor->dl, &err);
    accel_tensor_release (&out);
    return status;
}

static enum accel_status
reduce (void)
{
    return accel_reduce (acc, &make_tensor ()->dl, ACCEL_SUM, 1, &err);
}

static enum accel_status
reduce_scaled (void)
{
    struct accel_tensor *tensor = make_tensor ();
    tensor->shape[0] = 2;
    tensor->shape[1] = 3;
    return accel_reduce (acc, &tensor->dl, ACCEL_SUM, rank == ODD ? 0.5 : 1, &err);
}

static enum accel_status
broadcast (void)
{
    return accel_broadcast (acc, &make_tensor ()->dl, 0, &err);
}

/* Of 6 rows of 1, or 3 of 2. */
static enum accel_status
all_to_all (void)
{
    struct accel_tensor out = { .owned_bytes = 0 }, *tensor = make_tensor ();
    tensor->shape[0] = rank == ODD ? 6 : 3;
    tensor->shape[1] = rank == ODD ? 1 : 2;
    enum accel_status status = accel_all_to_all (&out, acc, &tensor->dl, &err);
    accel_tensor_release (&out);
    return status;
}

static enum accel_status
reduce_scatter (void)
{
    struct accel_tensor out = { .owned_bytes = 0 }, *tensor = make_tensor ();
    tensor->shape[0] = rank == ODD ? 6 : 3;
    tensor->shape[1] = rank == ODD ? 1 : 2;
    enum accel_status status = accel_reduce_scatter (&out, acc, &tensor->dl, ACCEL_SUM, &err);
    accel_tensor_release (&out);
    return status;
}

static enum accel_status
tree_gather (void)
{
    struct accel_tree *tree = NULL, *gathered = NULL;
    enum accel_status status = accel_tree_copy_tensor (&tree, &make_tensor ()->dl, &err);
    if (!status)
        status = accel_tree_gather (&gathered, acc, tree, &err);
    accel_tree_destroy (tree);
    accel_tree_destroy (gathered);
    return status;
}

static enum accel_status
pad (void)
{
    struct accel_tensor out = { .owned_bytes = 0 }, *tensor = make_tensor ();
    enum accel_status status = accel_pad_across_processes (&out, acc, &tensor->dl, rank == ODD, 0, false, &err);
    accel_tensor_release (&out);
    return status;
}

/* As many elements of another type: both partners get an error, and so do the other ranks. */
static enum accel_status
send_other_type (void)
{
    struct accel_comm *world = accel_world (acc);
    if (rank == 0)
        return accel_comm_send (world, numbers, ELEMENTS, ACCEL_FLOAT32, ODD, &err);
    return rank == ODD ? accel_comm_recv (world, numbers, ELEMENTS, ACCEL_INT32, 0, &err)
                       : accel_comm_barrier (world, &err);
}

/* The last rank comes when the others have failed, and have opened again. */
static enum accel_status
send_while_last_computes (void)
{
    if (rank == size - 1)
        usleep (LATE_MS * 1000);
    return send_other_type ();
}

static enum accel_status
reduce_while_last_computes (void)
{
    if (rank == size - 1)
        usleep (LATE_MS * 1000);
    return accel_comm_all_reduce (accel_world (acc), numbers, numbers, rank == ODD ? 2 : 3, ACCEL_FLOAT32, ACCEL_SUM,
                                  &err);
}

static const struct {
    const char *what;
    enum accel_status (*call) (void);
    const char *words[3];
} calls[] = {
    { "gather", gather, { "shapes differ in accel_gather: ", "[2, 3] on rank ", "[3, 2] on rank 1" } },
    { "other dimensions", gather_dims, { "shapes differ in accel_gather: ", "[1] on rank ", "[] on rank 1" } },
    { "metrics", gather_for_metrics, { "shapes differ in accel_gather_for_metrics", "[3, 2] on rank 1", NULL } },
    { "reduce", reduce, { "shapes differ in accel_reduce: ", "[2, 3] on rank ", "[3, 2] on rank 1" } },
    { "scaled reduce", reduce_scaled, { "scales differ in accel_reduce: ", "1 on rank ", "0.5 on rank 1" } },
    { "broadcast", broadcast, { "shapes differ in accel_broadcast: ", "[2, 3] on rank ", "[3, 2] on rank 1" } },
    { "all-to-all", all_to_all, { "shapes differ in accel_all_to_all: ", "[3, 2] on rank ", "[6, 1] on rank 1" } },
    { "reduce-scatter", reduce_scatter, { "shapes differ in accel_reduce_scatter", "[6, 1] on rank 1", NULL } },
    { "tree", tree_gather, { "shapes differ in accel_tree_gather", "[3, 2] on rank 1", NULL } },
    { "padding", pad, { "dimensions differ in accel_pad_across_processes: ", "0 on rank ", "1 on rank 1" } },
    { "send", send_other_type, { "rank 0 sends float32 x 6 in accel_comm_send", "rank 1 expects int32 x 6 in", NULL } },
    { "send, and a late rank", send_while_last_computes,
      { "rank 0 sends float32 x 6 in accel_comm_send", NULL, NULL } },
    { "reduce, and a late rank", reduce_while_last_computes,
      { "counts differ in accel_comm_all_reduce: ", "3 on rank ", "2 on rank 1 at" } },
};

static void
try_call (size_t i)
{
    enum accel_status status = calls[i].call (), later;
    bool good = status == ACCEL_ERR_PEER && err.code == status;
    for (int w = 0; w < 3 && calls[i].words[w]; w++)
        good = good && strstr (err.text, calls[i].words[w]);
    check (good && strstr (err.text, "agreement.c:") && !strstr (err.text, "?:"), "%s: status %d: %s", calls[i].what,
           (int) status, err.text);
    later = accel_comm_barrier (accel_world (acc), &err);
    check (later == ACCEL_ERR_PEER, "%s: later status %d", calls[i].what, (int) later);
}

/* ---- accel_prepare ---- */

static int64_t shape[] = { 2 };
static float values[2], slopes[2];

struct trainer {
    DLTensor data, grad, other_data, other_grad;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
};

static void
make_trainer (struct trainer *trainer)
{
    static float value, slope;
    struct accel_parameter parameters[]
        = { { "w", &trainer->data, &trainer->grad }, { "v", &trainer->other_data, &trainer->other_grad } };
    *trainer = (struct trainer){
        .data = { .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                  .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) },
    };
    trainer->grad = trainer->data;
    trainer->grad.data = slopes;
    trainer->other_data = trainer->other_grad = trainer->data;
    trainer->other_data.ndim = trainer->other_grad.ndim = 0;
    trainer->other_data.data = &value;
    trainer->other_grad.data = &slope;
    check (!accel_model_create (&trainer->model, parameters, 2, &err), "%s", err.text);
}

static void
free_trainer (struct trainer *trainer)
{
    accel_scheduler_destroy (trainer->scheduler);
    accel_optimizer_destroy (trainer->optimizer);
    accel_model_destroy (trainer->model);
}

static enum accel_status
make_optimizer (struct trainer *trainer, const char *name, double other)
{
    bool odd = rank == ODD;
    struct accel_optimizer **made = &trainer->optimizer;
    struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9 };
    struct accel_optimizer_options adam = { .lr = 0.1, .threads = 1 + (unsigned) rank }; /* each rank's own affair */
    struct accel_optimizer_options lion = { .lr = 0.1 };
    if (!strcmp (name, "kind") && odd)
        return accel_optimizer_create (made, trainer->model, ACCEL_SGD, &sgd, &err);
    if (!strcmp (name, "momentum")) {
        sgd.momentum = odd ? other : sgd.momentum;
        return accel_optimizer_create (made, trainer->model, ACCEL_SGD, &sgd, &err);
    }
    if (!strcmp (name, "lion")) {
        lion.beta2 = odd ? other : lion.beta2;
        return accel_optimizer_create (made, trainer->model, ACCEL_LION, &lion, &err);
    }
    struct accel_param_group groups[] = {
        { .name = "a", .match = !strcmp (name, "group member") && odd ? "v" : "w",
          .weight_decay = !strcmp (name, "group decay") && odd ? other : 0.5 },
        { .skip = !strcmp (name, "group skip") && odd },
    };
    if (!strncmp (name, "group ", 6)) {
        adam.groups = groups;
        adam.group_count = !strcmp (name, "group count") && odd ? 0 : 2;
    }
    if (!strcmp (name, "group name") && odd)
        groups->name = "b";
    if (!strcmp (name, "lr") && odd)
        adam.lr = other;
    if (!strcmp (name, "amsgrad") && odd)
        adam.amsgrad = true;
    enum accel_status status = accel_optimizer_create (made, trainer->model, ACCEL_ADAM, &adam, &err);
    if (!strcmp (name, "step") && odd)
        accel_optimizer_set_step_count (*made, 7);
    return status;
}

static enum accel_status
make_scheduler (struct trainer *trainer, const char *name, double other)
{
    bool odd = rank == ODD;
    struct accel_scheduler_options options = { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 100 };
    if (odd && !strcmp (name, "total_steps"))
        options.total_steps = (uint64_t) other;
    if (odd && !strcmp (name, "cycles"))
        options.cycles = other;
    if (odd && !strcmp (name, "split_batches"))
        options.split_batches = true;
    if (odd && !strcmp (name, "schedule"))
        options.schedule = ACCEL_SCHEDULE_LINEAR;
    if (!strcmp (name, "milestone")) {
        const struct accel_scheduler_options parts[] = { options, options };
        return accel_scheduler_create_sequential (&trainer->scheduler, trainer->optimizer, parts, 2,
                                                  (uint64_t[]){ odd ? (uint64_t) other : 10 }, &err);
    }
    if (odd && !strcmp (name, "group schedule"))
        options.group = "a";
    return accel_scheduler_create (&trainer->scheduler, trainer->optimizer, &options, &err);
}

static const struct {
    const char *name;
    double other;
    const char *words[2];
} differences[] = {
    { "lr", 0.2, { "lr of Adam is 0.1 on rank 0", "0.2 on rank 1" } },
    { "lr", 0x1.999999999999bp-4, { "lr of Adam is 0.10000000000000001 on rank 0", "0.10000000000000002 on rank 1" } },
    { "kind", 0, { "rank 0 prepares Adam", "rank 1 prepares SGD" } },
    { "momentum", 0.5, { "momentum of SGD is 0.9 on rank 0", "0.5 on rank 1" } },
    { "lion", 0.5, { "beta2 of Lion is 0.99 on rank 0", "0.5 on rank 1" } },
    { "amsgrad", 0, { "Adam is 2 on rank 0", "3 on rank 1" } },
    { "group count", 0, { "the number of groups of Adam is 2 on rank 0", "1 on rank 1" } },
    { "group member", 0, { "the group of parameter 'w' of Adam is 0 on rank 0", "1 on rank 1" } },
    { "group decay", 0.25, { "weight_decay of group 'a' of Adam is 0.5 on rank 0", "0.25 on rank 1" } },
    { "group skip", 0, { "skip of group 'rest' of Adam is 0 on rank 0", "1 on rank 1" } },
    { "group name", 0, { "the name of group '", "of Adam is different on rank 1" } },
    { "group schedule", 0, { "the number of groups of a cosine schedule is 2 on rank 0", "1 on rank 1" } },
    { "milestone", 11, { "a milestone of a sequence of schedules is 10 on rank 0", "11 on rank 1" } },
    { "step", 0, { "the number of steps done of Adam is 0 on rank 0", "7 on rank 1" } },
    { "total_steps", 101, { "total_steps of a cosine schedule is 100 on rank 0", "101 on rank 1" } },
    { "cycles", 1.5, { "cycles of a cosine schedule is 0.5 on rank 0", "1.5 on rank 1" } },
    { "split_batches", 0, { "split_batches of a cosine schedule is 0 on rank 0", "1 on rank 1" } },
    { "schedule", 0, { "rank 0 prepares a cosine schedule", "rank 1 prepares a linear schedule" } },
    { "objects", 0, { "rank 0 prepares Adam", "rank 1 prepares a cosine schedule" } },
};

/* The job continues: all have found the same. */
static void
try_difference (size_t i)
{
    const char *name = differences[i].name;
    struct trainer trainer;
    make_trainer (&trainer);
    check (!make_optimizer (&trainer, name, differences[i].other), "%s: %s", name, err.text);
    check (!make_scheduler (&trainer, name, differences[i].other), "%s: %s", name, err.text);
    bool turned = !strcmp (name, "objects") && rank == ODD;
    void *first = turned ? (void *) trainer.scheduler : (void *) trainer.optimizer;
    void *second = turned ? (void *) trainer.optimizer : (void *) trainer.scheduler;
    enum accel_status status = accel_prepare (acc, &err, trainer.model, first, second);
    check (status == ACCEL_ERR_INVALID && strstr (err.text, differences[i].words[0])
               && strstr (err.text, differences[i].words[1]),
           "%s: status %d: %s", name, (int) status, err.text);
    free_trainer (&trainer);
}

static void
try_prepare (void)
{
    struct trainer trainer;
    open_job ();
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        try_difference (i);
    make_trainer (&trainer);
    check (!make_optimizer (&trainer, "", 0) && !make_scheduler (&trainer, "", 0), "%s", err.text);
    check (!accel_prepare (acc, &err, trainer.model, trainer.optimizer, trainer.scheduler), "equal: %s", err.text);
    struct accel_local_sgd *local_sgd;
    check (!accel_local_sgd_begin (&local_sgd, acc, trainer.model, 1, true, &err), "%s", err.text);
    accel_model_destroy (trainer.model);
    trainer.model = NULL;
    check (accel_local_sgd_step (local_sgd, &err) == ACCEL_ERR_INVALID && strstr (err.text, "model has been destroyed"),
           "local SGD without its model: %s", err.text);
    check (accel_local_sgd_end (local_sgd, &err) == ACCEL_ERR_INVALID, "local SGD without its model ends");
    free_trainer (&trainer);
    accel_close (acc);
}

/* One rank has no memory left after some allocations: the others get an error, and do not wait for it.  With the model,
 * whose gradients are divided, or without. */
static void
try_memory (bool has_model)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP };
    enum accel_status status = ACCEL_ERR_NOMEM;
    int tries = 0;
    for (; status && tries < MOST_ALLOCATIONS; tries++) {
        struct trainer trainer;
        open_job ();
        make_trainer (&trainer);
        trainer.grad.data = NULL;
        check (!accel_model_set_sharding (trainer.model, &sharding, &err), "%s", err.text);
        check (!make_optimizer (&trainer, "", 0), "%s", err.text);
        if (rank == ODD)
            calls_left = tries;
        status = has_model ? accel_prepare (acc, &err, trainer.model, trainer.optimizer)
                           : accel_prepare (acc, &err, trainer.optimizer);
        calls_left = -1;
        const char *of_peer = status == ACCEL_ERR_PEER ? "cannot allocate memory" : "of rank 1: ";
        check (!status || (rank == ODD ? status == ACCEL_ERR_NOMEM : strstr (err.text, of_peer) != NULL),
               "no memory after %d allocations: status %d: %s", tries, (int) status, err.text);
        free_trainer (&trainer);
        accel_close (acc);
    }
    check (!status && tries > (has_model ? 10 : 3), "%d allocations", tries);
}

static enum accel_status
leave_gradients (void *user, float scale, struct accel_error *why)
{
    (void) user, (void) scale, (void) why;
    return ACCEL_OK;
}

/* The same of the norms of divided gradients. */
static void
try_norms (void)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP };
    enum accel_status status = ACCEL_ERR_NOMEM;
    int tries = 0;
    for (; status && tries < MOST_ALLOCATIONS; tries++) {
        struct trainer trainer;
        float norm;
        open_job ();
        make_trainer (&trainer);
        check (!accel_model_set_sharding (trainer.model, &sharding, &err), "%s", err.text);
        check (!make_optimizer (&trainer, "", 0), "%s", err.text);
        check (!accel_prepare (acc, &err, trainer.model, trainer.optimizer), "%s", err.text);
        check (!accel_backward (acc, trainer.model, 0, leave_gradients, NULL, &err), "%s", err.text);
        if (rank == ODD)
            calls_left = tries;
        status = accel_clip_grad_norm (trainer.model, 1, &norm, NULL, &err);
        calls_left = -1;
        bool good = rank == ODD ? status == ACCEL_ERR_NOMEM : strstr (err.text, "gave up: cannot find norms") != NULL;
        check (!status || good, "norms, no memory after %d allocations: status %d: %s", tries, (int) status, err.text);
        free_trainer (&trainer);
        accel_close (acc);
    }
    check (!status && tries > 2, "norms: %d allocations", tries);
}

int
main (void)
{
    alarm (DEADLINE_S);
    try_prepare ();
    try_memory (false);
    try_memory (true);
    try_norms ();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        open_job ();
        if (size != 3)
            return 2;
        try_call (i);
        accel_close (acc);
    }
    return wrong != 0;
}
