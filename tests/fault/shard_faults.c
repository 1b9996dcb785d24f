/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of shard_faults.sh: shard_faults STRATEGY PHASE VICTIM [FOLDER STEP]
 *
 * All ranks train a sharded model, layer by layer; in the fourth step rank VICTIM is killed in PHASE: in a layer, in a
 * backward pass with some gradients on their way, or at some time (soon).  The others look at the error.
 *
 * With FOLDER, they continue from its newest checkpoint, save their shares after each step, and rank VICTIM is killed
 * in STEP.  If it is 0, none is: then rank 0 prints the sum of all bits of the parameters, which do not depend on how
 * many ranks there are, as their number is a power of two. */
#include <config.h>

#include <accel/accel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { DEADLINE_S = 900, LAYERS = 3, ELEMENTS = 1 << 18, LAST_STEP = 8, MANY = 1 << 20 };

static const char *const strategies[] = { "default", "none", "1", "2", "3", "hybrid", "hybrid-2" };
static const char *phase;
static int rank, victim, step, fatal_step = 4;
static struct accel *acc;
static struct accel_model *model;
static struct accel_optimizer *optimizer;
static DLTensor data[LAYERS], grads[LAYERS], done; /* one number: steps */

static void
die (int number)
{
    (void) number;
    raise (SIGKILL);
}

static void
reach (const char *here)
{
    if (step == fatal_step && rank == victim && !strcmp (phase, here))
        die (0);
}

/* Of processor time: waiting for the others does not count. */
static void
die_soon (void)
{
    struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
    struct sigaction action = { .sa_handler = die };
    sigaction (SIGVTALRM, &action, NULL);
    setitimer (ITIMER_VIRTUAL, &soon, NULL);
}

static void
must (enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    printf ("rank %d: WRONG: %s\n", rank, err->text);
    exit (3);
}

static void
prepare (enum accel_sharding strategy)
{
    static const char *const names[LAYERS] = { "a", "b", "c" };
    static int64_t shape[] = { ELEMENTS }, one[] = { 1 };
    struct accel_parameter parameters[LAYERS + 1];
    struct accel_error err;
    const struct accel_sharding_options sharding = { .strategy = strategy, .group_size = 2 };
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 1, .overlap = ACCEL_OVERLAP_ALWAYS };
    for (int i = 0; i < LAYERS; i++) {
        data[i] = grads[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                                         .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    }
    done = data[0];
    done.shape = one;
    parameters[LAYERS] = (struct accel_parameter){ "steps", &done, NULL };
    must (accel_model_create (&model, parameters, LAYERS + 1, &err), &err);
    for (int i = 0; i < LAYERS; i++)
        for (int j = 0; j < ELEMENTS; j++)
            ((float *) data[i].data)[j] = (float) (j % 61 - 30);
    must (accel_model_set_sharding (model, &sharding, &err), &err);
    must (accel_model_set_ddp (model, &ddp, &err), &err);
    must (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err), &err);
    must (accel_prepare (acc, &err, model, optimizer), &err);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    (void) user;
    for (size_t i = LAYERS; i-- > 0;) {
        enum accel_status status = accel_layer_begin (model, &i, 1, err);
        for (size_t j = 0; !status && j < ELEMENTS; j++)
            ((float *) grads[i].data)[j] += scale * ((float *) data[i].data)[j];
        if (!status)
            status = accel_grad_ready (model, i, err);
        if (!status)
            status = accel_layer_end (model, &i, 1, err);
        if (status)
            return status;
        if (i == 1)
            reach ("backward");
    }
    return ACCEL_OK;
}

static enum accel_status
make_step (struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < LAYERS && !status; i++) {
        status = accel_layer_begin (model, &i, 1, err);
        if (i == 1)
            reach ("layer");
        if (!status)
            status = accel_layer_end (model, &i, 1, err);
    }
    if (!status)
        status = accel_backward (acc, model, 0, backward, NULL, err);
    if (!status)
        status = accel_optimizer_step (optimizer, err);
    return status ? status : accel_optimizer_zero_grad (optimizer, err);
}

static void
load (const char *folder)
{
    struct accel_error err;
    const struct accel_project_configuration project
        = { .project_dir = folder, .automatic_checkpoint_naming = true, .total_limit = 2,
            .state_dict_type = ACCEL_STATE_DICT_SHARDED };
    must (accel_set_project_configuration (acc, &project, &err), &err);
    enum accel_status status = accel_load_state (acc, NULL, &err);
    must (status == ACCEL_ERR_NOT_FOUND ? ACCEL_OK : status, &err);
    step = (int) *(float *) done.data;
    if (!rank)
        printf ("after step %d\n", step);
}

static enum accel_status
save (struct accel_error *err)
{
    *(float *) done.data = (float) step;
    reach ("save");
    return accel_save_state (acc, NULL, err);
}

static void
print_sum (void)
{
    struct accel_error err;
    unsigned long long sum = 0;
    must (accel_summon_full_params (model, &err), &err);
    for (int i = 0; i < LAYERS; i++)
        for (int j = 0; j < ELEMENTS; j++) {
            unsigned bits;
            memcpy (&bits, (float *) data[i].data + j, sizeof bits);
            sum = sum * 31 + bits;
        }
    if (!rank)
        printf ("sum %llx\n", sum);
}

int
main (int argc, char **argv)
{
    struct accel_error err = { 0 }, later = { 0 };
    enum accel_status status = ACCEL_OK;
    int strategy = 0;
    setvbuf (stdout, NULL, _IOLBF, 0);
    signal (SIGTERM, SIG_IGN); /* the launcher's, so that all have their say */
    alarm (DEADLINE_S);
    if (argc != 4 && argc != 6)
        return 2;
    while (strcmp (argv[1], strategies[strategy]) != 0)
        strategy++;
    phase = argv[2];
    victim = (int) strtol (argv[3], NULL, 10);
    must (accel_open (&acc, NULL, &err), &err);
    rank = accel_process_index (acc);
    prepare ((enum accel_sharding) strategy);
    bool is_soon = !strcmp (phase, "soon"), saves = argc == 6;
    if (saves) {
        fatal_step = (int) strtol (argv[5], NULL, 10);
        load (argv[4]);
    }
    while (!status && step < (is_soon ? MANY : LAST_STEP)) {
        if (++step == fatal_step && is_soon && rank == victim)
            die_soon ();
        status = make_step (&err);
        if (saves && !status)
            status = save (&err);
    }
    if (saves && !fatal_step)
        print_sum ();
    char culprit[64];
    snprintf (culprit, sizeof culprit, "rank %d ", victim);
    bool has_failed = status == ACCEL_ERR_PEER || status == ACCEL_ERR_CALLBACK; /* of what the backward pass called */
    bool good = !fatal_step || (has_failed && strstr (err.text, culprit) && strstr (err.text, "shard_faults.c:")
                && accel_wait_for_everyone (acc, &later) == ACCEL_ERR_PEER);
    printf ("rank %d: %s: status %d in step %d: %s\n", rank, good ? "as expected" : "WRONG", (int) status, step,
            err.text);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_close (acc);
    return good ? 0 : 3;
}
