/* SPDX-License-Identifier: Apache-2.0 */
/* The program in the picture of a failure: rank 1 runs out of data in step 3 and leaves the loop, the others do not. */
#include <accel/accel.h>
#include <stdio.h>

int
main (void)
{
    struct accel *acc;
    struct accel_error err;
    float gradients[1000] = { 0 };
    if (accel_open (&acc, NULL, &err))
        return fprintf (stderr, "%s\n", err.text), 1;
    for (int step = 1; step <= 100; step++) {
        if (accel_process_index (acc) == 1 && step == 3) {
            fprintf (stderr, "shard-1.bin: unexpected end of file\n");
            return 5;
        }
        if (accel_comm_all_reduce (accel_world (acc), gradients, gradients, 1000, ACCEL_FLOAT32, ACCEL_AVG, &err))
            return fprintf (stderr, "%s\n", err.text), 1;
        accel_print (acc, "step %d\n", step);
    }
    accel_close (acc);
    return 0;
}
