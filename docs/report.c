/* SPDX-License-Identifier: Apache-2.0 */
/* The runs in the picture of a report: report RUN RATE.  All ranks fit 32 weights to samples with noise.  Rank 1 is slow,
 * and if the rate is too high, the loss grows until rank 2 gives up. */
#include <accel/accel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TRY(call) accel_check ((call), &err)

enum { SIZE = 32, BATCH = 8, STEPS = 900 };
static struct accel_error err;

static float
noise (unsigned *state)
{
    *state = *state * 1103515245 + 12345;
    return (float) (*state >> 8 & 0xffff) / 0x8000 - 1;
}

/* The gradient of the mean squared error of a batch, and the error itself after it. */
static void
pass (const float *weight, unsigned *state, float *grad)
{
    for (int i = 0; i <= SIZE; i++)
        grad[i] = 0;
    for (int s = 0; s < BATCH; s++) {
        float x[SIZE], error = noise (state) / 8;
        for (int i = 0; i < SIZE; i++)
            error += (weight[i] - (float) i / 8) * (x[i] = noise (state));
        for (int i = 0; i < SIZE; i++)
            grad[i] += 2 * error * x[i] / BATCH;
        grad[SIZE] += error * error / BATCH;
    }
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    const char *run = argc > 2 ? argv[1] : "run";
    const double rate = argc > 2 ? atof (argv[2]) : 0.1;
    const struct accel_value config[] = { { .key = "lr", .number = rate }, { .key = "batch", .number = BATCH } };
    float weight[SIZE] = { 0 }, grad[SIZE + 1];
    char profile[200];
    snprintf (profile, sizeof profile, "logs/fit/%s/profile.json", run);
    TRY (accel_open (&acc, &(struct accel_options){ .log_with = "jsonl" }, &err));
    TRY (accel_set_project_configuration (acc, &(struct accel_project_configuration){ .logging_dir = "logs" }, &err));
    TRY (accel_init_trackers (acc, "fit", config, 2, &(struct accel_tracker_options){ .run_name = run }, &err));
    TRY (accel_profile_start (acc, &(struct accel_profile_options){ .path = profile }, &err));
    unsigned state = (unsigned) accel_process_index (acc) + 1;
    for (int step = 0; step < STEPS; step++) {
        double lr = rate * fmin (1, step / 90.0) * (0.5 + 0.5 * cos (M_PI * step / STEPS)), norm = 0;
        accel_profile_begin (acc, "load data");
        usleep (1500);
        accel_profile_end (acc);
        pass (weight, &state, grad);
        usleep (accel_process_index (acc) == 1 ? 7000 : 5000);
        TRY (accel_comm_all_reduce (accel_world (acc), grad, grad, SIZE + 1, ACCEL_FLOAT32, ACCEL_AVG, &err));
        for (int i = 0; i < SIZE; i++) {
            norm += (double) (grad[i] * grad[i]);
            weight[i] -= (float) lr * grad[i];
        }
        TRY (accel_log (acc, (struct accel_value[]){ { .key = "train/loss", .number = (double) grad[SIZE] },
                                                     { .key = "train/lr", .number = lr },
                                                     { .key = "grad_norm", .number = sqrt (norm) } }, 3, step, &err));
        accel_profile_step (acc);
        if (grad[SIZE] > 1e6f && accel_process_index (acc) == 2) {
            fprintf (stderr, "the loss of step %d is %g: the learning rate is too high\n", step, (double) grad[SIZE]);
            return 5;
        }
    }
    TRY (accel_profile_stop (acc, &err));
    accel_close (acc);
    return 0;
}
