/* SPDX-License-Identifier: Apache-2.0 */
/* A run that logs all kinds of values, for readers of other programs: track_run LOG_WITH FOLDER [STEPS [FROM]]
 * Trackers have a minute to finish, for machines that are busy. */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>

static struct accel_error err;

static void
log_step (struct accel *acc, int step)
{
    float samples[] = { 0, 1, 2, 3 };
    unsigned char pixels[] = { 255, 0, 0, 0, 0, 255 };
    struct accel_value values[] = {
        { .key = "train/loss", .number = 1.0 / (step + 1) },
        { .key = "note", .kind = ACCEL_TEXT, .text = "step" },
        { .key = "picture", .kind = ACCEL_IMAGE, .width = 2, .height = 1, .channels = 3, .data = pixels },
        { .key = "weights", .kind = ACCEL_HISTOGRAM, .data = samples, .count = 4 },
    };
    accel_check (accel_log (acc, values, step ? 1 : 4, step, &err), &err);
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    struct accel_options options = { .log_with = argc > 1 ? argv[1] : NULL };
    struct accel_project_configuration project = { .logging_dir = argc > 2 ? argv[2] : NULL };
    struct accel_value config[] = { { .key = "lr", .number = 0.001 },
                                    { .key = "model", .kind = ACCEL_TEXT, .text = "mlp" } };
    int steps = argc > 3 ? atoi (argv[3]) : 10, from = argc > 4 ? atoi (argv[4]) : 0;
    accel_check (accel_open (&acc, &options, &err), &err);
    accel_check (accel_set_project_configuration (acc, &project, &err), &err);
    accel_check (accel_init_trackers (acc, "project", config, 2,
                                      &(struct accel_tracker_options){ .finish_timeout_ms = 60000 }, &err), &err);
    for (int step = from; step < from + steps; step++)
        log_step (acc, step);
    accel_check (accel_end_training (acc, &err), &err);
    accel_close (acc);
    return 0;
}
