/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers that write files: their bytes; runs that continue, also after one that was killed; a full disk. */
#include <config.h>

#include "tests/unit/track/tracked.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

ssize_t __real_write (int fd, const void *bytes, size_t length);
ssize_t __wrap_write (int fd, const void *bytes, size_t length);

static atomic_long room = -1; /* bytes that the disk of the scratch folder still has; -1: enough */
static atomic_int full_writes, interruptions;

/* A write for which there is not enough room is cut, the next one fails, as on a real disk. */
ssize_t
__wrap_write (int fd, const void *bytes, size_t length)
{
    long left = atomic_load (&room);
    if (fd != STDERR_FILENO && atomic_load (&interruptions)) {
        atomic_fetch_sub (&interruptions, 1);
        return errno = EINTR, -1;
    }
    if (fd == STDERR_FILENO || left < 0)
        return __real_write (fd, bytes, length);
    if (!left) {
        atomic_fetch_add (&full_writes, 1);
        return errno = ENOSPC, -1;
    }
    ssize_t written = __real_write (fd, bytes, length < (size_t) left ? length : (size_t) left);
    if (written > 0)
        atomic_fetch_sub (&room, written);
    return written;
}

int __real_mkdir (const char *path, mode_t mode);
int __wrap_mkdir (const char *path, mode_t mode);

int
__wrap_mkdir (const char *path, mode_t mode)
{
    return atomic_load (&room) ? __real_mkdir (path, mode) : (errno = ENOSPC, -1);
}

static struct accel *
start_run (const char *log_with, const char *project)
{
    struct accel *acc = open_tracked (log_with);
    must (accel_init_trackers (acc, project, NULL, 0, &(struct accel_tracker_options){ .throughput = ACCEL_NO }, &err));
    return acc;
}

/* @return the text with digits in place of the times, as they follow @p before */
static const char *
without_times (const char *text, const char *before, char end)
{
    static char out[1 << 16];
    size_t length = 0;
    for (const char *at = text; *at && length < sizeof out - 2;) {
        size_t matches = strncmp (at, before, strlen (before)) ? 0 : strlen (before);
        for (size_t i = 0; i < matches; i++)
            out[length++] = at[i];
        at += matches;
        if (matches) {
            at += strcspn (at, (char[]){ end, '\n', '\0' });
            out[length++] = 'T';
        } else
            out[length++] = *at++;
    }
    out[length] = '\0';
    return out;
}

static void
log_all_kinds (const char *log_with)
{
    static const char large[4000001];
    float samples[] = { 0, 1, 1, NAN, 64 };
    struct accel_value config[] = { { .key = "lr", .number = 0.001 },
                                    { .key = "model", .kind = ACCEL_TEXT, .text = "mlp" } };
    struct accel_value values[] = {
        { .key = "loss", .number = 0.1 },
        { .key = "odd, \"key\"", .kind = ACCEL_TEXT, .text = "two\nlines, \"\xc3\xa9\xff\"" },
        { .key = "weights", .kind = ACCEL_HISTOGRAM, .data = samples, .count = 5 },
        { .key = "picture", .kind = ACCEL_IMAGE, .data = "abc", .width = 1, .height = 1, .channels = 3 },
        { .key = "large", .kind = ACCEL_IMAGE, .data = large, .count = sizeof large },
        { .key = "file", .kind = ACCEL_IMAGE, .data = "\x89PNG\r", .count = 5 },
    };
    struct accel *acc = open_tracked (log_with);
    must (accel_init_trackers (acc, "kinds", config, 2,
                               &(struct accel_tracker_options){ .run_name = "one", .throughput = ACCEL_NO }, &err));
    must (accel_log (acc, values, 6, 3, &err));
    must (accel_log_number (acc, "big", 1e300 * 1e10, 4, &err));
    must (accel_log_number (acc, "small", -5e-324, 5, &err));
    must (accel_log_number (acc, "none", NAN, 6, &err));
    must (accel_log_number (acc, "count", 123456789012345, 7, &err));
    accel_close (acc);
}

static void
test_bytes (void)
{
    keep_errors ();
    log_all_kinds ("jsonl, csv");
    is_text (without_times (content ("kinds/one/metrics.jsonl"), "\"time\":", ','),
             "{\"config\":{\"lr\":0.001,\"model\":\"mlp\"}}\n"
             "{\"step\":3,\"time\":T,\"values\":{\"loss\":0.1,"
             "\"odd, \\\"key\\\"\":\"two\\nlines, \\\"\\u00e9\\u00ff\\\"\","
             "\"weights\":{\"count\":4,\"min\":0,\"max\":64,\"sum\":66,\"bins\":[1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
             "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]},"
             "\"picture\":{\"png\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAAFElEQVR4AQABAP7/AAEDAPz/YWJjAk4B"
             "J7X5xVwAAAAASUVORK5CYII=\"},\"file\":{\"png\":\"iVBORw0=\"}}}\n"
             "{\"step\":4,\"time\":T,\"values\":{\"big\":\"Infinity\"}}\n"
             "{\"step\":5,\"time\":T,\"values\":{\"small\":-4.94065645841247e-324}}\n"
             "{\"step\":6,\"time\":T,\"values\":{\"none\":\"NaN\"}}\n"
             "{\"step\":7,\"time\":T,\"values\":{\"count\":123456789012345}}\n",
             "JSON lines");
    is_text (content ("kinds/one/metrics.csv") + strlen ("step,time,key,value\n"),
             strstr (content ("kinds/one/metrics.csv"), ",,lr,0.001\n,,model,mlp\n"),
             "CSV: a header, then the configuration");
    const char *rows = content ("kinds/one/metrics.csv");
    ok (strstr (rows, ",loss,0.1\n3,")
            && strstr (rows, ",\"odd, \"\"key\"\"\",\"two\nlines, \"\"\xc3\xa9\xff\"\"\"\n4,")
            && strstr (rows, ",big,inf\n5,") && strstr (rows, ",none,nan\n"),
        "CSV: a row for each value, with quotes where they are needed");
    const char *said = content ("errors");
    ok (count_of (said, "\n") == 5 && strstr (said, "tracker csv cannot write histograms: 'weights' is left out")
            && strstr (said, "tracker csv cannot write images: 'picture'")
            && strstr (said, "tracker jsonl writes images of at most 4 MB: 'large' is left out"),
        "what a tracker cannot write is a warning");
}

/* Between two runs, the end of a killed one. */
static void
test_continued (void)
{
    for (int run = 0; run < 2; run++) {
        struct accel *acc = start_run ("csv,jsonl", "again");
        must (accel_log_number (acc, "x", run, 10 * run, &err));
        accel_close (acc);
        static const char *const names[] = { "again/metrics.csv", "again/metrics.jsonl" };
        for (int i = 0; !run && i < 2; i++) {
            char path[SCRATCH_SIZE + 40];
            snprintf (path, sizeof path, "%s/%s", scratch_folder (), names[i]);
            FILE *file = fopen (path, "a");
            for (int j = 0; j < 9000; j++)
                fputc ('7', file);
            fclose (file);
        }
    }
    is_text (without_times (content ("again/metrics.jsonl"), "\"time\":", ','),
             "{\"step\":0,\"time\":T,\"values\":{\"x\":0}}\n{\"step\":10,\"time\":T,\"values\":{\"x\":1}}\n",
             "JSON lines: a run continues a file, without half a line of a killed one");
    const char *rows = content ("again/metrics.csv");
    ok (count_of (rows, "\n") == 3 && count_of (rows, "step,time") == 1 && strstr (rows, ",x,0\n10,"),
        "and so with CSV");
}

static void
test_killed (void)
{
    int pipes[2];
    if (pipe (pipes))
        exit (99);
    fflush (stdout);
    pid_t child = fork ();
    if (!child) {
        struct accel *acc = start_run ("jsonl", "killed");
        must (accel_log_number (acc, "x", 1, 1, &err));
        WAIT_UNTIL (strstr (content ("killed/metrics.jsonl"), "\"x\":1"));
        if (__real_write (pipes[1], "", 1) == 1)
            pause ();
        _exit (1);
    }
    char byte;
    ok (read (pipes[0], &byte, 1) == 1, "what was logged comes to the file by itself");
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    ok (count_of (content ("killed/metrics.jsonl"), "\n") == 1, "and stays there if the process is killed");
}

static void
test_full_disk (void)
{
    keep_errors ();
    struct accel *acc = start_run ("jsonl", "full");
    atomic_store (&room, 70);
    must (accel_log_number (acc, "a", 1, 1, &err));
    must (accel_log_number (acc, "b", 2, 2, &err));
    WAIT_UNTIL (atomic_load (&full_writes));
    must (accel_log_number (acc, "c", 3, 3, &err));
    WAIT_UNTIL (atomic_load (&full_writes) > 1);
    ok (strlen (content ("full/metrics.jsonl")) == 70, "a disk that is full in the middle of a line");
    atomic_store (&room, -1);
    accel_close (acc);
    is_text (without_times (content ("full/metrics.jsonl"), "\"time\":", ','),
             "{\"step\":1,\"time\":T,\"values\":{\"a\":1}}\n{\"step\":2,\"time\":T,\"values\":{\"b\":2}}\n"
             "{\"step\":3,\"time\":T,\"values\":{\"c\":3}}\n",
             "when it has room again, the rest is written");
    const char *said = content ("errors");
    ok (count_of (said, "\n") == 1 && strstr (said, "metrics.jsonl: No space left on device; what is logged is kept"),
        "one warning: %.200s", said);
}

static void
test_interrupted (void)
{
    keep_errors ();
    struct accel *acc = start_run ("jsonl", "signals");
    atomic_store (&interruptions, 3);
    must (accel_log_number (acc, "a", 1, 1, &err));
    accel_close (acc);
    is_text (without_times (content ("signals/metrics.jsonl"), "\"time\":", ','),
             "{\"step\":1,\"time\":T,\"values\":{\"a\":1}}\n", "a signal costs nothing");
    is_text (content ("errors"), "", "nor a warning");
}

/* No folder can be made, or no header be written. */
static void
test_full_from_the_start (void)
{
    static const char *const projects[] = { "none/made", "killed" };
    for (int i = 0; i < 2; i++) {
        char name[40], path[SCRATCH_SIZE + 40];
        keep_errors ();
        atomic_store (&room, 0);
        atomic_store (&full_writes, 0);
        struct accel *acc = start_run ("csv, tensorboard", projects[i]);
        must (accel_log_number (acc, "a", 1, 1, &err));
        WAIT_UNTIL (count_of (content ("errors"), "\n") == 2);
        must (accel_log_number (acc, "b", 2, 2, &err));
        atomic_store (&room, -1);
        accel_close (acc);
        snprintf (name, sizeof name, "%s/metrics.csv", projects[i]);
        const char *rows = content (name);
        ok (count_of (rows, "\n") == 3 && !strncmp (rows, "step,time,key,value\n1,", 22) && strstr (rows, ",b,2\n"),
            "a disk that is full from the start (%s): the file is made when it has room", projects[i]);
        const char *said = content ("errors");
        ok (count_of (said, "\n") == 2 && count_of (said, "No space left on device; what is logged is kept") == 2,
            "one warning of each tracker: %.300s", said);
        snprintf (path, sizeof path, "%s/%s", scratch_folder (), projects[i]);
        ok (!access (path, F_OK), "the folder is there");
    }
}

int
main (void)
{
    test_bytes ();
    test_continued ();
    test_killed ();
    test_full_disk ();
    test_interrupted ();
    test_full_from_the_start ();
    return done_testing ();
}
