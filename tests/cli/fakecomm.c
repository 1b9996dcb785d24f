/* SPDX-License-Identifier: Apache-2.0 */
/* Put before libaccel with LD_PRELOAD: its broadcasts, or its random numbers, go wrong on one rank, FAKE_COMM_RANK.
 *
 * FAKE_COMM=corrupt  one element is another number
 * FAKE_COMM=stop     the process is stopped
 * FAKE_COMM=leave    the process exits with 0
 * FAKE_COMM=crash    the process is killed by SIGSEGV
 * FAKE_COMM=alarm    the deadline of the step has come
 * FAKE_COMM=uniform  random numbers in [0, 1) are too large by 2^-20 */
#include <config.h>

#include <accel/accel.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
goes_wrong (const char *how)
{
    const char *wanted = getenv ("FAKE_COMM"), *rank = getenv ("FAKE_COMM_RANK"), *own = getenv ("RANK");
    return wanted && rank && !strcmp (wanted, how) && !strcmp (own ? own : "0", rank);
}

float
accel_generator_uniform (struct accel_generator *generator)
{
    void *address = dlsym (RTLD_NEXT, "accel_generator_uniform");
    float (*uniform) (struct accel_generator *);
    memcpy (&uniform, &address, sizeof address);
    return uniform (generator) + (goes_wrong ("uniform") ? 0x1p-20F : 0);
}

typedef enum accel_status (*broadcast_function) (const char *, int, struct accel_comm *, void *, size_t,
                                                 enum accel_dtype, int, struct accel_error *);

enum accel_status
accel_comm_broadcast_at (const char *file, int line, struct accel_comm *comm, void *buffer, size_t count,
                         enum accel_dtype dtype, int root, struct accel_error *err)
{
    void *address = dlsym (RTLD_NEXT, "accel_comm_broadcast_at");
    broadcast_function broadcast;
    memcpy (&broadcast, &address, sizeof address);
    if (goes_wrong ("stop"))
        raise (SIGSTOP);
    if (goes_wrong ("leave"))
        _exit (0);
    if (goes_wrong ("crash")) {
        signal (SIGSEGV, SIG_DFL); /* a sanitizer would make it an exit */
        raise (SIGSEGV);
    }
    if (goes_wrong ("alarm"))
        raise (SIGALRM);
    enum accel_status status = broadcast (file, line, comm, buffer, count, dtype, root, err);
    if (goes_wrong ("corrupt") && count > 100 && dtype == ACCEL_INT64)
        ((int64_t *) buffer)[100] += 5;
    return status;
}
