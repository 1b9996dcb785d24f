/* SPDX-License-Identifier: Apache-2.0 */
/* late_ranks MS: one rank of three, with that timeout.  Two come late to the same call, each within the timeout after
 * the one before, both together not: the rank that waits for both has one timeout for them, not one for each. */
#include <config.h>

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int
main (int argc, char **argv)
{
    struct accel *acc;
    struct accel_error err = { 0 };
    uint32_t timeout_ms = argc > 1 ? (uint32_t) strtoul (argv[1], NULL, 10) : 0;
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = timeout_ms }, &err)
        || accel_comm_barrier (accel_world (acc), &err)) {
        printf ("opening: %s\n", err.text);
        return 99;
    }
    int rank = accel_process_index (acc);
    int64_t late_ms = rank < 2 ? (rank + 1) * ((int64_t) timeout_ms * 2 / 3) : 0;
    nanosleep (&(struct timespec){ .tv_sec = late_ms / 1000, .tv_nsec = late_ms % 1000 * 1000000 }, NULL);
    enum accel_status status = accel_comm_barrier (accel_world (acc), &err);
    if (rank == 2)
        printf ("%s\n", status == ACCEL_ERR_TIMEOUT && strstr (err.text, "for rank 1 (") ? "timeout" : err.text);
    accel_close (acc);
    return 0;
}
