/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through shuffled data, can be killed at any moment, and continues where it was, on any number of processes.
 *
 *   accelerate launch --num_processes 2 examples/resume [--state FILE] [--log FILE] [--samples N] [--batch_size N]
 *                                                       [--epochs N] [--every N] [--seed N] [--step_ms N]
 *
 * To build it by hand: cc resume.c -o resume $(pkg-config --cflags --libs libaccel)
 *
 * Each sample that was used is a line in the log: its epoch, the sample, a random number.  Every few steps the state is
 * saved: where the loader is, where the random numbers are, how long the log is.  If the program is started
 * again, it cuts the log back to that length, and the log becomes the same as that of a run that was never killed. */
#include <accel/accel.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 1000, LOCK_PAUSE_MS = 10 };

__attribute__ ((format (printf, 1, 2), noreturn)) static void
die (const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    fprintf (stderr, "resume: %s\n", text);
    exit (EXIT_FAILURE);
}

static void
pause_ms (long ms)
{
    struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    if (ms)
        nanosleep (&time, NULL);
}

/* ---- files ---- */

static void
write_all (int fd, const char *path, const void *bytes, size_t count)
{
    for (const char *next = bytes; count;) {
        ssize_t written = write (fd, next, count);
        if (written < 0 && errno != EINTR)
            die ("%s: %s", path, strerror (errno));
        next += written > 0 ? written : 0;
        count -= written > 0 ? (size_t) written : 0;
    }
}

/* A new name is on the disk when its folder is. */
static void
sync_folder_of (const char *path)
{
    char folder[PATH_MAX];
    snprintf (folder, sizeof folder, "%s", path);
    char *slash = strrchr (folder, '/');
    strcpy (slash ? slash + 1 : folder, ".");
    int fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync (fd))
        die ("%s: %s", folder, strerror (errno));
    close (fd);
}

/* Whatever happens, either the old file or the new one is there and complete: a temporary file is written, synced and
 * renamed. */
static void
replace_file (const char *path, const void *bytes, size_t count)
{
    char temporary[PATH_MAX];
    if ((size_t) snprintf (temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
        die ("%s: the name is too long", path);
    int fd = open (temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        die ("%s: %s", temporary, strerror (errno));
    write_all (fd, temporary, bytes, count);
    if (fsync (fd) || close (fd) || rename (temporary, path))
        die ("%s: %s", temporary, strerror (errno));
    sync_folder_of (path);
}

/* Ranks of a run that was killed may not have ended yet: until then, they write to the log. */
static int
open_log (const char *path)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        die ("%s: %s", path, strerror (errno));
    for (int tries = 0; flock (fd, LOCK_EX | LOCK_NB); tries++) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || tries == LOCK_TRIES)
            die ("%s: %s", path, errno == EWOULDBLOCK ? "another run is writing to it" : strerror (errno));
        pause_ms (LOCK_PAUSE_MS);
    }
    return fd;
}

/* ---- the state ---- */

static const char magic[8] = "resume1";

/* Everything needed to continue, written to the file as it is in memory. */
struct state {
    char magic[sizeof magic];
    uint64_t samples;   /* of the data set */
    uint64_t log_bytes; /* what was logged before */
    struct accel_loader_state loader;
    uint8_t generator[ACCEL_GENERATOR_STATE_BYTES]; /* rank 0's default one */
};

/* @return whether there is a state to continue from */
static bool
read_state (struct state *state, const char *path)
{
    FILE *file = fopen (path, "rb");
    if (!file && errno == ENOENT)
        return false;
    if (!file)
        die ("%s: %s", path, strerror (errno));
    if (fread (state, sizeof *state, 1, file) != 1 || getc (file) != EOF || memcmp (state->magic, magic, sizeof magic))
        die ("%s: not a state file of this program", path);
    fclose (file);
    return true;
}

/* Everything that the state says was logged must be on the disk before the state is. */
static void
save_state (const struct accel_loader *loader, uint64_t samples, int log, const char *log_path, const char *path)
{
    struct accel_error err;
    struct stat info;
    struct state state;
    memset (&state, 0, sizeof state);
    memcpy (state.magic, magic, sizeof magic);
    if (fsync (log) || fstat (log, &info))
        die ("%s: %s", log_path, strerror (errno));
    state.samples = samples;
    state.log_bytes = (uint64_t) info.st_size;
    accel_check (accel_loader_get_state (loader, &state.loader, &err), &err);
    accel_generator_get_state (accel_default_generator (), state.generator);
    replace_file (path, &state, sizeof state);
}

/* ---- what the program was asked ---- */

struct options {
    long samples, batch_size, epochs, every, seed, step_ms;
    const char *state, *log;
};

static long
parse_count (const char *name, const char *text, long min, long max)
{
    char *end;
    errno = 0;
    long value = strtol (text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        die ("%s: '%s' is not a whole number from %ld to %ld", name, text, min, max);
    return value;
}

static struct options
parse_options (int argc, char **argv)
{
    struct options options = { .samples = 1000, .batch_size = 8, .epochs = 3, .every = 5, .state = "resume.state",
                               .log = "resume.log" };
    const struct {
        const char *name;
        long *value;
        long min, max;
    } counts[] = {
        { "--samples", &options.samples, 1, 1000000000 },
        { "--batch_size", &options.batch_size, 1, 1000000 },
        { "--epochs", &options.epochs, 0, 1000000 },
        { "--every", &options.every, 1, 1000000 },
        { "--seed", &options.seed, 0, LONG_MAX },
        { "--step_ms", &options.step_ms, 0, 60000 },
    };
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        bool known = false;
        if (!strcmp (name, "--help")) {
            puts ("usage: resume [--state FILE] [--log FILE] [--samples N] [--batch_size N] [--epochs N] [--every N] "
                  "[--seed N] [--step_ms N]");
            exit (EXIT_SUCCESS);
        }
        if (!value)
            die ("%s: missing value", name);
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            if (!strcmp (name, counts[j].name)) {
                *counts[j].value = parse_count (name, value, counts[j].min, counts[j].max);
                known = true;
            }
        if (!strcmp (name, "--state"))
            options.state = value;
        else if (!strcmp (name, "--log"))
            options.log = value;
        else if (!known)
            die ("unknown option '%s'; see --help", name);
    }
    return options;
}

/* ---- going through the data ---- */

/* Sample i is the number i. */
static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user;
    (void) err;
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

/* Rank 0 decides whether there is a state, for it might appear between two looks.  @return the log; -1 on others */
static int
begin (struct accel *acc, struct accel_loader *loader, const struct options *options)
{
    struct accel_error err;
    struct state state;
    int log = -1;
    uint8_t goes_on = 0;
    memset (&state, 0, sizeof state);
    if (accel_is_main_process (acc)) {
        log = open_log (options->log);
        goes_on = read_state (&state, options->state);
        struct stat info;
        if (fstat (log, &info))
            die ("%s: %s", options->log, strerror (errno));
        if ((uint64_t) info.st_size < state.log_bytes)
            die ("%s is shorter than %s records", options->log, options->state);
        if (goes_on && state.samples != (uint64_t) options->samples)
            die ("%s belongs to a run with %llu samples", options->state, (unsigned long long) state.samples);
        if (ftruncate (log, (off_t) state.log_bytes))
            die ("%s: %s", options->log, strerror (errno));
    }
    struct accel_comm *world = accel_world (acc);
    accel_check (accel_comm_broadcast (world, &goes_on, sizeof goes_on, ACCEL_UINT8, 0, &err), &err);
    accel_check (accel_set_seed (acc, (uint64_t) options->seed, false, &err), &err);
    if (!goes_on)
        return log;
    accel_check (accel_comm_broadcast (world, &state, sizeof state, ACCEL_UINT8, 0, &err), &err);
    accel_check (accel_loader_set_state (loader, &state.loader, &err), &err);
    accel_check (accel_generator_set_state (accel_default_generator (), state.generator, sizeof state.generator, &err),
                 &err);
    return log;
}

/* Training would be here.  The samples of all processes come in the order of the ranks, which is the loader's; those
 * that were repeated to fill up the last round are left out. */
static void
use (struct accel *acc, const struct accel_loader *loader, const struct accel_batch *batch, int log, const char *path)
{
    struct accel_error err;
    struct accel_tensor all = { 0 };
    accel_check (accel_gather_for_metrics (acc, accel_batch_tensor (batch, "number"), &all, &err), &err);
    size_t count = accel_tensor_count (&all.dl), used = 0, room = count * 64 + 1;
    char *lines = log < 0 ? NULL : malloc (room);
    if (log >= 0 && !lines)
        die ("out of memory");
    for (size_t i = 0; lines && i < count; i++)
        used += (size_t) snprintf (lines + used, room - used, "%llu %lld %.6f\n",
                                   (unsigned long long) accel_loader_epoch (loader),
                                   (long long) ((const int64_t *) all.dl.data)[i],
                                   (double) accel_generator_uniform (accel_default_generator ()));
    if (lines)
        write_all (log, path, lines, used);
    free (lines);
    accel_tensor_release (&all);
}

int
main (int argc, char **argv)
{
    struct options options = parse_options (argc, argv);
    struct accel *acc;
    struct accel_error err;
    accel_check (accel_open (&acc, NULL, &err), &err);

    const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    const struct accel_dataset numbers
        = { .size = (size_t) options.samples, .fields = fields, .field_count = 1, .read = read_number };
    const struct accel_loader_options loader_options = { .batch_size = (size_t) options.batch_size, .shuffle = true,
                                                         .seed = (uint64_t) options.seed, .workers = 2 };
    struct accel_loader *loader;
    accel_check (accel_loader_create (&loader, &numbers, &loader_options, &err), &err);
    accel_check (accel_prepare (acc, &err, loader), &err);

    int log = begin (acc, loader, &options);
    accel_print (acc, "%d process(es), from epoch %llu\n", accel_num_processes (acc),
                 (unsigned long long) accel_loader_epoch (loader));
    const struct accel_batch *batch;
    long steps = 0;
    while (accel_loader_epoch (loader) < (uint64_t) options.epochs) {
        while (accel_loader_next (loader, &batch, &err)) {
            use (acc, loader, batch, log, options.log);
            pause_ms (options.step_ms);
            if (++steps % options.every == 0 && log >= 0)
                save_state (loader, numbers.size, log, options.log, options.state);
        }
        accel_check (err.code, &err);
    }
    if (log >= 0)
        save_state (loader, numbers.size, log, options.log, options.state);
    accel_print (acc, "finished %ld epochs\n", options.epochs);

    accel_loader_destroy (loader);
    accel_close (acc);
    return 0;
}
