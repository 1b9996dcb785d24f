/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that hang, each for another reason: stalls BUG.  Rank 1 is to blame, and the line of each bug is marked with
 * its name.  And programs that do not hang: stalls compute, stalls alone|thread|children|disk|files|gpu SECONDS, stalls
 * many COLLECTIVES. */
#include <accel/accel.h>

#include "tests/must.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct accel *acc;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long turns;

static __attribute__ ((noinline)) void
spin (void)
{
    for (;;) /* BUG loop */
        turns++; /* BUG loop */
}

/* It believes that the others do not wait for it. */
static __attribute__ ((noinline)) void
evaluate (void)
{
    for (;;)
        usleep (1000); /* BUG skip */
}

static __attribute__ ((noinline)) void
read_batch (void)
{
    int ends[2];
    char byte;
    must (pipe (ends) ? ACCEL_ERR_NOMEM : ACCEL_OK, "pipe");
    while (read (ends[0], &byte, 1) != 1) /* BUG pipe */
        continue;
}

static void *
take_both (void *argument)
{
    pthread_mutex_lock (&second);
    *(volatile int *) argument = 1;
    pthread_mutex_lock (&first);
    return NULL;
}

static __attribute__ ((noinline)) void
lock_both (void)
{
    volatile int has_second = 0;
    pthread_t thread;
    pthread_mutex_lock (&first);
    pthread_create (&thread, NULL, take_both, (void *) &has_second);
    while (!has_second)
        usleep (1000);
    pthread_mutex_lock (&second); /* BUG mutex */
    pthread_mutex_unlock (&second);
}

static __attribute__ ((noinline)) void
exchange (void)
{
    float value = 0;
    int other = 1 - accel_comm_rank (accel_world (acc));
    MUST (accel_comm_recv (accel_world (acc), &value, 1, ACCEL_FLOAT32, other, &err)); /* BUG order */
    MUST (accel_comm_send (accel_world (acc), &value, 1, ACCEL_FLOAT32, other, &err));
}

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *error)
{
    (void) user, (void) index, (void) into, (void) error;
    for (;;)
        sleep (1000); /* BUG sleep */
    return ACCEL_OK;
}

static __attribute__ ((noinline)) void
next_batch (void)
{
    static const struct accel_field field = { .name = "x", .dtype = ACCEL_FLOAT32 };
    struct accel_dataset dataset = { .size = 8, .fields = &field, .field_count = 1, .read = read_sample };
    struct accel_loader_options options = { .batch_size = 1, .reader = ACCEL_READER_CALLER };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    MUST (accel_loader_create (&loader, &dataset, &options, &err));
    accel_loader_next (loader, &batch, &err);
}

static void
hang (const char *bug)
{
    if (!strcmp (bug, "order"))
        exchange ();
    else if (!strcmp (bug, "compute"))
        for (unsigned left = 3; left;) /* all of them; a signal that asks for a stack ends a sleep */
            left = sleep (left);
    else if (accel_comm_rank (accel_world (acc)) == 1) {
        if (!strcmp (bug, "loop"))
            spin ();
        else if (!strcmp (bug, "skip"))
            evaluate ();
        else if (!strcmp (bug, "pipe"))
            read_batch ();
        else if (!strcmp (bug, "mutex"))
            lock_both ();
        else if (!strcmp (bug, "sleep"))
            next_batch ();
        else if (!strcmp (bug, "stop"))
            raise (SIGSTOP);
    }
}

/* A child of rank 1 stops it, and continues it two seconds later, again and again.  @return the child */
static pid_t
begin_stops (void)
{
    pid_t rank = getpid (), child = fork ();
    int stops = 0;
    if (child)
        return child;
    while (usleep (300000), getppid () == rank && !kill (rank, SIGSTOP)) {
        sleep (2);
        kill (rank, SIGCONT);
        printf ("stopped for 2 s, %d times\n", ++stops);
        fflush (stdout);
    }
    _exit (0);
}

/* Rank 0 evaluates, without a call of the library. */
static void
evaluate_alone (double seconds)
{
    struct timespec begin, now;
    clock_gettime (CLOCK_MONOTONIC, &begin);
    do {
        turns++;
        clock_gettime (CLOCK_MONOTONIC, &now);
    } while ((double) (now.tv_sec - begin.tv_sec) + (double) (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
}

static void *
evaluate_beside (void *argument)
{
    evaluate_alone (*(double *) argument);
    return NULL;
}

static void
evaluate_in_thread (double seconds)
{
    pthread_t thread;
    must (pthread_create (&thread, NULL, evaluate_beside, &seconds) ? ACCEL_ERR_NOMEM : ACCEL_OK, "pthread_create");
    pthread_join (thread, NULL);
}

/* As a data loader's workers do: children of a child. */
static void
evaluate_in_children (double seconds)
{
    pid_t child = fork ();
    if (!child && fork () == 0) {
        evaluate_alone (seconds);
        _exit (0);
    }
    while (waitpid (child ? child : -1, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (!child)
        _exit (0);
}

/* The parent of vfork() waits as a process does for a disk: a signal does not end that. */
static void
wait_for_disk (double seconds)
{
    if (vfork () == 0) {
        struct timespec left = { .tv_sec = (time_t) seconds };
        while (nanosleep (&left, &left))
            continue;
        _exit (0);
    }
}

/* A slow file, in another thread; this one waits for it. */
static void *
read_file (void *argument)
{
    char bytes[65536];
    for (long left = (long) (*(double *) argument * 20); left; left--) {
        FILE *file = fopen ("/dev/zero", "r");
        if (!file || fread (bytes, 1, sizeof bytes, file) != sizeof bytes)
            _exit (1);
        fclose (file);
        usleep (50000);
    }
    return NULL;
}

static void
wait_for_files (double seconds)
{
    pthread_t thread;
    must (pthread_create (&thread, NULL, read_file, &seconds) ? ACCEL_ERR_NOMEM : ACCEL_OK, "pthread_create");
    pthread_join (thread, NULL);
}

/* In the name of the driver's. */
__attribute__ ((noinline)) void cuStreamSynchronize (double seconds);
void
cuStreamSynchronize (double seconds)
{
    struct timespec left = { .tv_sec = (time_t) seconds };
    while (nanosleep (&left, &left)) /* a signal asks for the stack */
        continue;
}

/* Rank 0 lets the others wait. */
static const struct {
    const char *name;
    void (*run) (double seconds);
} delays[] = {
    { "alone", evaluate_alone }, { "thread", evaluate_in_thread }, { "children", evaluate_in_children },
    { "disk", wait_for_disk }, { "files", wait_for_files }, { "gpu", cuStreamSynchronize },
};

static bool
delay (const char *name, double seconds)
{
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++)
        if (!strcmp (name, delays[i].name)) {
            if (!accel_comm_rank (accel_world (acc)))
                delays[i].run (seconds);
            return true;
        }
    return false;
}

static void
call_often (long calls)
{
    pid_t child = accel_comm_rank (accel_world (acc)) == 1 ? begin_stops () : 0;
    for (long i = 0; i < calls; i++) {
        float value = 1;
        MUST (accel_comm_all_reduce (accel_world (acc), &value, &value, 1, ACCEL_FLOAT32, ACCEL_SUM, &err));
    }
    if (child)
        kill (child, SIGKILL);
}

int
main (int argc, char **argv)
{
    const char *bug = argc > 1 ? argv[1] : "";
    MUST (accel_open (&acc, NULL, &err));
    if (argc > 2 && !delay (bug, atof (argv[2])))
        call_often (atol (argv[2]));
    for (int step = 0; step < 4; step++) {
        if (step == 3)
            hang (bug);
        MUST (accel_wait_for_everyone (acc, &err)); /* WAIT */
    }
    accel_close (acc);
    puts ("done");
    return 0;
}
