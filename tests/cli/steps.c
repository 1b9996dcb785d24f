/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that shows steps in the job segment, as libaccel does, and writes.  Does what its arguments say, in order:
 *
 *   step=N  LOSS=NUMBER  say=TEXT (a line)  put=TEXT (no line)  ms=N (sleep)  await=FILE  make=FILE
 *   run=N:MS   N more steps, MS each, with a line after each
 *
 * "R/" before an argument: only in rank R. */
#include <config.h>

#include "util/envnames.h"
#include "util/jobseg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct jobseg_progress *progress;

static void
pause_ms (long ms)
{
    nanosleep (&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void
step (uint64_t number)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    atomic_store (&progress->step, number);
    atomic_store (&progress->step_ns, (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec);
}

static void
log_value (const char *name, double value)
{
    uint32_t i = 0;
    while (i < progress->value_count && strcmp (progress->values[i].name, name))
        i++;
    if (i == JOBSEG_VALUES)
        exit (2);
    atomic_fetch_add (&progress->version, 1);
    snprintf (progress->values[i].name, sizeof progress->values[i].name, "%s", name);
    progress->values[i].value = value;
    progress->value_count += i == progress->value_count;
    atomic_fetch_add (&progress->version, 1);
}

static void
run (const char *text)
{
    char *rest;
    long count = strtol (text, &rest, 10), ms = *rest ? strtol (rest + 1, NULL, 10) : 0;
    for (long i = 0; i < count; i++) {
        pause_ms (ms);
        step (atomic_load (&progress->step) + 1);
        printf ("line %llu of rank %s\n", (unsigned long long) progress->step, getenv (ENV_RANK));
        fflush (stdout);
    }
}

static void
perform (char *word)
{
    char *value = strchr (word, '=');
    FILE *file;
    if (!value)
        exit (2);
    *value++ = '\0';
    if (!strcmp (word, "step"))
        step (strtoull (value, NULL, 10));
    else if (!strcmp (word, "say") || !strcmp (word, "put"))
        printf (*word == 's' ? "%s\n" : "%s", value);
    else if (!strcmp (word, "ms"))
        pause_ms (strtol (value, NULL, 10));
    else if (!strcmp (word, "run"))
        run (value);
    else if (!strcmp (word, "make") && (file = fopen (value, "w")))
        fclose (file);
    else if (!strcmp (word, "await"))
        while (access (value, F_OK))
            pause_ms (10);
    else
        log_value (word, strtod (value, NULL));
    fflush (stdout);
}

int
main (int argc, char **argv)
{
    struct jobseg segment = JOBSEG_NONE;
    struct fail fail = { 0 };
    const char *rank = getenv (ENV_LOCAL_RANK);
    if (jobseg_attach (&segment, getenv (ENV_JOB_SEGMENT), &fail))
        return fprintf (stderr, "%s\n", fail.text), 1;
    progress = &jobseg_slot (&segment, rank ? (int) strtol (rank, NULL, 10) : 0)->progress;
    for (int i = 1; i < argc; i++) {
        char *slash = strchr (argv[i], '/'), *equals = strchr (argv[i], '=');
        bool is_of_one = slash && equals && slash < equals;
        if (!is_of_one || (rank && !strncmp (argv[i], rank, (size_t) (slash - argv[i]))))
            perform (is_of_one ? slash + 1 : argv[i]);
    }
    jobseg_detach (&segment);
    return 0;
}
