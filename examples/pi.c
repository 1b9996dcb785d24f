/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates pi: each process throws its share of the darts, then all add up their hits.  README.md shows this file. */
#include <accel/accel.h>

int
main (void)
{
    struct accel_error err;
    struct accel *acc;
    accel_check (accel_open (&acc, NULL, &err), &err); /* prints the error and exits */

    const size_t darts = 10000000;
    struct accel_split mine = accel_split_between_processes (acc, darts, false);
    struct accel_generator *generator;
    accel_check (accel_generator_create (&generator, (uint64_t) accel_process_index (acc), &err), &err);
    double hits = 0;
    for (size_t i = mine.begin; i < mine.end; i++) {
        float x = accel_generator_uniform (generator), y = accel_generator_uniform (generator);
        hits += x * x + y * y < 1;
    }
    accel_generator_destroy (generator);

    accel_check (accel_reduce_number (acc, &hits, ACCEL_SUM, &err), &err);
    accel_print (acc, "pi is about %.4f, computed by %d process(es)\n", 4 * hits / darts, accel_num_processes (acc));
    accel_close (acc);
    return 0;
}
