/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one job, in processes that a C test forks.  The job segment is the test's, so neither a launcher nor a port
 * takes part.  What a rank finds wrong comes back as text. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "tests/tap.h"
#include "util/envnames.h"
#include "util/jobseg.h"

#include <accel/accel.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 8, RANKS_TEXT = 1024, RANKS_DEADLINE_S = 900 };

/** In shared memory: the first thing that each rank found wrong. */
static char (*ranks_texts)[RANKS_TEXT];
static int ranks_self;
/** How each opens the job; NULL: as by default. */
static const struct accel_options *ranks_options;
/** What each does before; NULL: nothing. */
static void (*ranks_begin) (int rank);

/** In a rank: note what is wrong.  @return whether it is right */
__attribute__ ((format (printf, 2, 3), unused)) static bool
right (bool good, const char *format, ...)
{
    char *text = ranks_texts[ranks_self];
    va_list args;
    va_start (args, format);
    if (!good && !*text)
        vsnprintf (text, RANKS_TEXT, format, args);
    va_end (args);
    return good;
}

/** In a rank: a call that must succeed; without it there is no going on. */
__attribute__ ((unused)) static void
rank_must (enum accel_status status, const struct accel_error *err)
{
    if (right (!status, "%s", err->text))
        return;
    _exit (1);
}

/** In a rank: a call that must fail with an error. */
__attribute__ ((unused)) static void
rank_fails (enum accel_status status, enum accel_status wanted, const struct accel_error *err, const char *words)
{
    right (status == wanted, "status %d instead of %d: %s", (int) status, (int) wanted, status ? err->text : "");
    right (status != wanted || strstr (err->text, words), "no '%s' in: %s", words, err->text);
}

/* In a new process. */
static void
ranks_become (const struct jobseg *segment, pid_t parent, int rank, int size)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = { { ENV_RANK, rank }, { ENV_LOCAL_RANK, rank }, { ENV_WORLD_SIZE, size },
                    { ENV_LOCAL_WORLD_SIZE, size } };
    char text[64];
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != parent)
        _exit (1);
    alarm (RANKS_DEADLINE_S);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf (text, sizeof text, "%d", numbers[i].value);
        setenv (numbers[i].name, text, 1);
    }
    snprintf (text, sizeof text, "/proc/%d/fd/%d", (int) parent, segment->fd);
    setenv (ENV_JOB_SEGMENT, text, 1);
    ranks_self = rank;
}

/** Run @p act in @p size ranks, and say whether it went well in all: one test.  This process must not be of a job. */
__attribute__ ((unused)) static void
as_ranks (int size, const char *name, void (*act) (struct accel *acc))
{
    struct jobseg segment = JOBSEG_NONE;
    struct fail fail;
    pid_t pids[RANKS_MOST], parent = getpid ();
    ranks_texts = mmap (NULL, RANKS_MOST * RANKS_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (size > RANKS_MOST || ranks_texts == MAP_FAILED || jobseg_create (&segment, size, size, 0, "ranks", &fail)) {
        printf ("Bail out! no ranks\n");
        exit (99);
    }
    fflush (stdout);
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork ();
        if (!pids[rank]) {
            struct accel *acc;
            struct accel_error err = { 0 };
            ranks_become (&segment, parent, rank, size);
            if (ranks_begin)
                ranks_begin (rank);
            rank_must (accel_open (&acc, ranks_options, &err), &err);
            act (acc);
            accel_close (acc);
            _exit (0);
        }
    }
    bool good = true;
    for (int rank = 0; rank < size; rank++) {
        int status = -1;
        if (pids[rank] > 0)
            waitpid (pids[rank], &status, 0);
        jobseg_mark_exit (&segment, rank, status);
        good = good && !status && !*ranks_texts[rank];
        if (status || *ranks_texts[rank])
            diag ("rank %d of '%s', wait status %x: %s", rank, name, (unsigned) status, ranks_texts[rank]);
    }
    ok (good, "%s (%d ranks)", name, size);
    jobseg_detach (&segment);
    munmap (ranks_texts, RANKS_MOST * RANKS_TEXT);
}

#endif
