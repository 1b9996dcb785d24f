/* SPDX-License-Identifier: Apache-2.0 */
/* The program in the picture of `accelerate top`: its loss falls, and rank 2 is slower than the others. */
#include <accel/accel.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int
main (void)
{
    struct accel *acc;
    struct accel_error err;
    float gradients[1000] = { 0 };
    accel_check (accel_open (&acc, NULL, &err), &err);
    for (int step = 0; step < 100000; step++) {
        long ms = accel_process_index (acc) == 2 ? 45 : 30;
        nanosleep (&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
        accel_check (accel_comm_all_reduce (accel_world (acc), gradients, gradients, 1000, ACCEL_FLOAT32, ACCEL_AVG,
                                            &err), &err);
        const struct accel_value values[] = { { .key = "loss", .number = 40.0 / (step + 20) + rand () % 100 * 5e-4 },
                                              { .key = "lr", .number = 3e-4 * (step < 150 ? step : 150) / 150 } };
        accel_check (accel_log (acc, values, 2, step, &err), &err);
    }
    accel_close (acc);
    return 0;
}
