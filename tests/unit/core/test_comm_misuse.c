/* SPDX-License-Identifier: Apache-2.0 */
/* What a program must not do to a job, or may do although it looks harmless: calls of two threads at once are refused,
 * and closed descriptors do not make living ranks look dead. */
#include <config.h>

#include "lib/comm/comm_object.h"
#include "lib/state/state_object.h"
#include "tests/ranks.h"

#include <pthread.h>
#include <sys/resource.h>

enum { LONG_WAIT_US = 400000 /* a rank that waits looks after the others several times */ };

static struct accel_error err;
static atomic_bool *go; /* shared by the ranks */

static atomic_int first_line;

static void *
reduce (void *user)
{
    struct accel *acc = user;
    struct accel_error own;
    double number = 1;
    first_line = __LINE__ + 1;
    rank_must (accel_reduce_number (acc, &number, ACCEL_SUM, &own), &own);
    right (number == 2, "the sum is %g", number);
    return NULL;
}

/* Rank 1 comes when rank 0 has tried to make a second call. */
static void
two_threads (struct accel *acc)
{
    pthread_t thread;
    char place[64];
    if (accel_process_index (acc)) {
        while (!atomic_load (go))
            usleep (1000);
        reduce (acc);
        rank_must (accel_wait_for_everyone (acc, &err), &err);
        return;
    }
    right (!pthread_create (&thread, NULL, reduce, acc), "no thread");
    while (!atomic_load (&acc->world->inside))
        usleep (1000);
    rank_fails (accel_wait_for_everyone (acc, &err), ACCEL_ERR_INVALID, &err, "another thread of this process is in");
    snprintf (place, sizeof place, "test_comm_misuse.c:%d: ", first_line);
    right (strstr (err.text, place) != NULL, "no '%s' in: %s", place, err.text);
    right (!strncmp (err.text, "accel_wait_for_everyone at ", 27), "not the second call: %s", err.text);
    atomic_store (go, true);
    pthread_join (thread, NULL);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
}

/* Others now have the numbers of the descriptors that libaccel had. */
static void
descriptors (struct accel *acc)
{
    struct rlimit most;
    int pipes[2];
    if (!accel_process_index (acc))
        usleep (LONG_WAIT_US);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    if (accel_process_index (acc)) {
        right (!getrlimit (RLIMIT_NOFILE, &most), "no limit");
        for (int fd = STDERR_FILENO + 1; fd < (int) (most.rlim_cur < 1024 ? most.rlim_cur : 1024); fd++)
            close (fd);
    } else
        usleep (LONG_WAIT_US);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
    if (accel_process_index (acc)) {
        for (int i = 0; i < 20; i++)
            right (!pipe (pipes) && write (pipes[1], "", 1) == 1, "no pipe"); /* which can be read */
    } else
        usleep (LONG_WAIT_US);
    rank_must (accel_wait_for_everyone (acc, &err), &err);
}

int
main (void)
{
    go = mmap (NULL, sizeof *go, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (go == MAP_FAILED)
        return 99;
    as_ranks (2, "a call of a second thread is refused, and names both", two_threads);
    as_ranks (2, "ranks do not look dead where all descriptors were closed", descriptors);
    return done_testing ();
}
