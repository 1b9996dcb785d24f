/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of training_faults.sh: training_faults SCENARIO VICTIM [HOW]
 *
 * All ranks train; in the fourth step rank VICTIM dies in the phase of a step that the scenario is called after (HOW:
 * exit, abort or kill), or has gradients that are not finite, or makes a step fewer.  The others look at the error
 * that they get, as those of comm_faults.c do. */
#include <config.h>

#include <accel/accel.h>

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { DEADLINE_S = 900, FEW = 8, LARGE = 1 << 20, FATAL_STEP = 4, LAST_STEP = 8, MANY = 1 << 20 };

static const char *scenario, *how;
static struct accel *acc;
static struct accel_model *model;
static struct accel_optimizer *optimizer;
static struct accel_scheduler *scheduler;
static int rank, victim, step;
static int64_t few[] = { FEW }, large[] = { LARGE };
static DLTensor data[2], grads[2];

static void wrong (const char *format, ...) ACCEL_PRINTF (1, 2);
static void
wrong (const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    printf ("rank %d: WRONG: %s\n", rank, text);
    exit (3);
}

static bool
is_scenario (const char *name)
{
    return !strcmp (scenario, name);
}

static void
die (int number)
{
    (void) number;
    if (!strcmp (how, "exit"))
        _exit (7);
    if (!strcmp (how, "abort"))
        abort ();
    raise (SIGKILL);
}

/* The victim's end, in the phase of that name. */
static void
reach (const char *phase)
{
    if (rank == victim && step == FATAL_STEP && is_scenario (phase))
        die (0);
}

/* Die somewhere in the steps to come, which do little but send gradients. */
static void
die_soon (void)
{
    struct itimerval soon = { .it_value = { .tv_usec = 30000 } };
    struct sigaction action = { .sa_handler = die };
    sigaction (SIGVTALRM, &action, NULL);
    setitimer (ITIMER_VIRTUAL, &soon, NULL); /* of processor time: waiting for the others does not count */
}

static double
rate (void *user, uint64_t number)
{
    (void) user, (void) number;
    reach ("scheduler");
    return 1;
}

static enum accel_status
update (void *user, const struct accel_update *one, struct accel_error *err)
{
    (void) user, (void) err;
    float *parameter = one->parameter->data->data;
    const float *grad = one->parameter->grad->data;
    if (one->index == 1)
        reach ("optimizer");
    for (size_t i = 0; i < FEW; i++)
        parameter[i] -= (float) one->lr * grad[i];
    return ACCEL_OK;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    (void) user, (void) err;
    for (int i = 0; i < FEW; i++)
        ((float *) grads[0].data)[i] = scale * (float) (rank + i);
    reach ("backward");
    if (rank == victim && (is_scenario ("nan") || is_scenario ("inf")))
        ((float *) grads[1].data)[LARGE / 2] = is_scenario ("nan") ? NAN : -INFINITY;
    return ACCEL_OK;
}

static void
must (enum accel_status status, const struct accel_error *err)
{
    if (status)
        wrong ("at first: %s", err->text);
}

static void
prepare (void)
{
    static const char *const names[] = { "small", "large" };
    struct accel_parameter parameters[2];
    struct accel_error err;
    for (int i = 0; i < 2; i++) {
        data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32),
                              .shape = i ? large : few };
        grads[i] = data[i];
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    }
    struct accel_custom_optimizer own = { .lr = 0.1, .step = update };
    struct accel_scheduler_options options = { .schedule = ACCEL_SCHEDULE_LAMBDA, .lambda = rate };
    must (accel_model_create (&model, parameters, 2, &err), &err);
    must (accel_optimizer_create_custom (&optimizer, model, &own, &err), &err);
    must (accel_scheduler_create (&scheduler, optimizer, &options, &err), &err);
    must (accel_prepare (acc, &err, model, optimizer, scheduler), &err);
}

static enum accel_status
make_step (struct accel_error *err)
{
    float norm;
    reach ("forward");
    enum accel_status status = accel_backward (acc, model, 0, backward, NULL, err);
    if (status)
        return status;
    reach ("clip");
    status = accel_clip_grad_norm (model, 1, &norm, NULL, err);
    if (!status)
        status = accel_optimizer_step (optimizer, err);
    if (!status)
        status = accel_scheduler_step (scheduler, err);
    return status ? status : accel_optimizer_zero_grad (optimizer, err);
}

static enum accel_status
make_steps (int last, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    while (!status && step < last) {
        step++;
        if (step == FATAL_STEP && rank == victim && is_scenario ("collective"))
            die_soon ();
        status = make_step (err);
    }
    return status;
}

/* All ranks learn what became of the victim. */
static void
check_death (void)
{
    struct accel_error err = { 0 }, later = { 0 };
    char words[3][64];
    enum accel_status status = make_steps (is_scenario ("collective") ? MANY : LAST_STEP, &err);
    const char *end = !strcmp (how, "exit")    ? "exited with status 7"
                      : !strcmp (how, "abort") ? "was killed by signal 6 (SIGABRT)"
                                               : "was killed by signal 9 (SIGKILL)";
    snprintf (words[0], sizeof words[0], "rank %d %s", victim, end);
    snprintf (words[1], sizeof words[1], "rank %d ended (process", victim);
    if (status != ACCEL_ERR_PEER || err.code != status || !strstr (err.text, "training_faults.c:")
        || !strstr (err.text, "accel_backward") || (!strstr (err.text, words[0]) && !strstr (err.text, words[1])))
        wrong ("status %d: %s", (int) status, err.text);
    if (accel_wait_for_everyone (acc, &later) != ACCEL_ERR_PEER || strcmp (later.text, err.text) != 0)
        wrong ("a later call: %s", later.text);
    printf ("rank %d: as expected: %s\n", rank, err.text);
}

/* No clipping on any rank, and training continues: without the check, parameters become what gradients are. */
static void
check_numbers (void)
{
    struct accel_error err = { 0 };
    const float *values = grads[1].data, *parameter = data[0].data;
    step = 1;
    must (accel_backward (acc, model, 0, backward, NULL, &err), &err);
    bool seen = is_scenario ("nan") ? isnan (values[LARGE / 2]) : values[LARGE / 2] == -INFINITY;
    enum accel_status status = accel_clip_grad_norm (model, 1, NULL,
                                                     &(struct accel_clip_options){ .error_if_nonfinite = true }, &err);
    if (!seen || status != ACCEL_ERR_INVALID || !strstr (err.text, is_scenario ("nan") ? "not a number" : "infinite"))
        wrong ("status %d: %s", (int) status, err.text);
    char text[sizeof err.text];
    snprintf (text, sizeof text, "%s", err.text);
    must (accel_optimizer_step (optimizer, &err), &err);
    if (!isfinite (parameter[1]))
        wrong ("a finite gradient made a parameter %g", (double) parameter[1]);
    must (accel_clip_grad_norm (model, 1, NULL, NULL, &err), &err);
    must (accel_optimizer_step (optimizer, &err), &err);
    if (is_scenario ("nan") ? !isnan (parameter[1]) : !isfinite (parameter[1]))
        wrong ("clipping by no number made the parameter %g", (double) parameter[1]);
    must (accel_wait_for_everyone (acc, &err), &err);
    printf ("rank %d: as expected: %s\n", rank, text);
}

/* The victim makes one step fewer than the others, and leaves or waits for them. */
static void
check_fewer (void)
{
    struct accel_error err = { 0 };
    char words[64];
    bool leaves = is_scenario ("fewer-leaves");
    enum accel_status status = make_steps (rank == victim ? 2 : 3, &err);
    if (rank == victim) {
        must (status, &err);
        if (leaves)
            return;
        status = accel_wait_for_everyone (acc, &err);
    }
    snprintf (words, sizeof words, leaves ? "rank %d has left the job (accel_close)" : "rank %d", victim);
    if (status != ACCEL_ERR_PEER || err.code != status || !strstr (err.text, words)
        || !strstr (err.text, "accel_backward") || (!leaves && !strstr (err.text, "accel_wait_for_everyone")))
        wrong ("status %d: %s", (int) status, err.text);
    printf ("rank %d: as expected: %s\n", rank, err.text);
}

int
main (int argc, char **argv)
{
    struct accel_error err = { 0 };
    setvbuf (stdout, NULL, _IOLBF, 0);
    signal (SIGTERM, SIG_IGN); /* the launcher's, so that all have their say */
    alarm (DEADLINE_S);
    setrlimit (RLIMIT_CORE, &(struct rlimit){ 0 });
    if (argc < 3)
        return 99;
    scenario = argv[1];
    victim = atoi (argv[2]);
    how = argc > 3 ? argv[3] : "";
    must (accel_open (&acc, NULL, &err), &err);
    rank = accel_process_index (acc);
    prepare ();
    if (*how)
        check_death ();
    else if (is_scenario ("nan") || is_scenario ("inf"))
        check_numbers ();
    else
        check_fewer ();
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_close (acc);
    return 0;
}
