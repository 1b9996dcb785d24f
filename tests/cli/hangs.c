/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 never comes to where the others wait for it; with an argument it comes, and says something else. */
#include <accel/accel.h>

#include <stdio.h>
#include <unistd.h>

int
main (int argc, char **argv)
{
    (void) argv;
    struct accel *acc;
    struct accel_error err;
    if (accel_open (&acc, NULL, &err))
        return fprintf (stderr, "%s\n", err.text), 1;
    if (accel_wait_for_everyone (acc, &err))
        return fprintf (stderr, "%s\n", err.text), 1;
    int64_t numbers[2] = { 0 };
    size_t count = accel_is_main_process (acc) ? 1 : 2;
    if (argc > 1 && accel_comm_all_reduce (accel_world (acc), numbers, numbers, count, ACCEL_INT64, ACCEL_SUM, &err)) {
        fprintf (stderr, "%s\n", err.text);
        _exit (1); /* without accel_close(), and without what a sanitizer says of that */
    }
    while (accel_is_main_process (acc)) {
        sleep (1); /* the others have come to their next call */
        puts ("hangs");
        fflush (stdout);
    }
    return accel_wait_for_everyone (acc, &err) ? 1 : 0;
}
