/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates pi: each process throws its share of the darts, then all add up their hits.  README.md shows this file. */
#include <accel/accel.h>
#include <stdio.h>

int
main (void)
{
    struct accel_error err;
    struct accel *acc;
    if (accel_open (&acc, NULL, &err))
        return fprintf (stderr, "pi: %s\n", err.text), 1;

    const size_t darts = 10000000;
    struct accel_split mine = accel_split_between_processes (acc, darts, false);
    struct accel_generator *generator;
    if (accel_generator_create (&generator, (uint64_t) accel_process_index (acc), &err))
        return fprintf (stderr, "pi: %s\n", err.text), 1;
    int64_t hits = 0;
    for (size_t i = mine.begin; i < mine.end; i++) {
        float x = accel_generator_uniform (generator), y = accel_generator_uniform (generator);
        hits += x * x + y * y < 1;
    }
    accel_generator_destroy (generator);

    if (accel_comm_all_reduce (accel_world (acc), &hits, &hits, 1, ACCEL_INT64, ACCEL_SUM, &err))
        return fprintf (stderr, "pi: %s\n", err.text), 1; /* a peer died, say: err.text names it */
    accel_print (acc, "pi is about %.4f, computed by %d process(es)\n", 4.0 * (double) hits / darts,
                 accel_num_processes (acc));
    accel_close (acc);
    return 0;
}
