/* SPDX-License-Identifier: Apache-2.0 */
/* A job of one process with trackers, whose files are in the scratch folder; and what it says on standard error. */
#ifndef TESTS_TRACK_TRACKED_H
#define TESTS_TRACK_TRACKED_H

#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct accel_error err;

static void
must (enum accel_status status)
{
    if (!status)
        return;
    printf ("Bail out! %s\n", err.text);
    exit (99);
}

/** @param log_with  NULL: none */
__attribute__ ((unused)) static struct accel *
open_tracked (const char *log_with)
{
    struct accel *acc;
    must (accel_open (&acc, &(struct accel_options){ .log_with = log_with }, &err));
    must (accel_set_project_configuration (
        acc, &(struct accel_project_configuration){ .logging_dir = scratch_folder () }, &err));
    return acc;
}

/** Send what is written to @p stream to a file of the scratch folder. */
__attribute__ ((unused)) static void
keep_output (int stream, const char *name)
{
    char path[SCRATCH_SIZE + 16];
    snprintf (path, sizeof path, "%s/%.10s", scratch_folder (), name);
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (fd < 0 || dup2 (fd, stream) < 0)
        exit (99);
    close (fd);
}

/** Send standard error to a file of the scratch folder. */
__attribute__ ((unused)) static void
keep_errors (void)
{
    keep_output (STDERR_FILENO, "errors");
}

/** @return the content of a file of the scratch folder; static */
__attribute__ ((unused)) static const char *
content (const char *name)
{
    static char text[1 << 20];
    char path[SCRATCH_SIZE + 1000];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), name);
    text[scratch_read (path, text, sizeof text - 1)] = '\0';
    return text;
}

__attribute__ ((unused)) static size_t
count_of (const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr (text, part)); text++)
        count++;
    return count;
}

__attribute__ ((unused)) static void
sleep_ms (long ms)
{
    nanosleep (&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/** Wait, up to a minute, until @p done. */
#define WAIT_UNTIL(done)                               \
    for (int waited = 0; waited < 6000 && !(done); waited++) \
        sleep_ms (10)

#endif
