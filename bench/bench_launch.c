/* SPDX-License-Identifier: Apache-2.0 */
/* What launching costs: N x /bin/true by posix_spawn alone, by `accelerate launch` and by mpirun, in turns.
 *
 *   bench_launch ACCELERATE [REPEATS [COMPLETION]]
 *
 * Prints medians of the wall-clock time, what each adds to bare spawning, and the peak memory of the launcher alone.
 * With COMPLETION, the script for bash: instead, what words take that start nothing, and a Tab. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_REPEATS = 1000, PATIENCE_MS = 5000 };

static const int sizes[] = { 2, 8, 64 };

static double
now_ms (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e3 + (double) time.tv_nsec / 1e6;
}

static int
by_value (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double
median (double *values, int count)
{
    qsort (values, (size_t) count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Run a command to its end, its output thrown away.  posix_spawn() keeps our own memory out of its figures.
 * @return milliseconds, -1 if it failed */
static double
run (const char *const *command, long *peak_kib)
{
    pid_t pid;
    int status;
    struct rusage usage;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init (&actions);
    posix_spawn_file_actions_addopen (&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen (&actions, 2, "/dev/null", O_WRONLY, 0);
    double began = now_ms ();
    int error = posix_spawnp (&pid, command[0], &actions, NULL, (char *const *) command, environ);
    int pidfd = error ? -1 : (int) syscall (SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && poll (&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, PATIENCE_MS) == 0)
        kill (pid, SIGTERM); /* mpirun has been seen to wait for ever for programs that end before it looks */
    bool good = !error && wait4 (pid, &status, 0, &usage) == pid && status == 0;
    double took = now_ms () - began;
    if (pidfd >= 0)
        close (pidfd);
    posix_spawn_file_actions_destroy (&actions);
    if (peak_kib && good)
        *peak_kib = usage.ru_maxrss;
    return good ? took : -1;
}

/* N children at once, without any launcher. */
static double
run_bare (int count)
{
    pid_t pids[64];
    const char *const command[] = { "/bin/true", NULL };
    double began = now_ms ();
    for (int i = 0; i < count; i++)
        if (posix_spawn (&pids[i], command[0], NULL, NULL, (char *const *) command, environ))
            return -1;
    for (int i = 0; i < count; i++)
        if (waitpid (pids[i], NULL, 0) < 0)
            return -1;
    return now_ms () - began;
}

static double
run_accelerate (const char *accelerate, int count, long *peak_kib)
{
    char number[16];
    snprintf (number, sizeof number, "%d", count);
    const char *const command[] = { accelerate, "launch", "--cpu", "--num_processes", number, "/bin/true", NULL };
    return run (command, peak_kib);
}

static double
run_mpirun (int count)
{
    char number[16];
    snprintf (number, sizeof number, "%d", count);
    const char *const command[] = { "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", number, "/bin/true",
                                    NULL };
    return run (command, NULL);
}

static void
bench_size (const char *accelerate, int count, int repeats, bool has_mpirun)
{
    static double bare[MOST_REPEATS], ours[MOST_REPEATS], mpi[MOST_REPEATS];
    int mpi_repeats = repeats < 7 ? repeats : 7, mpi_ended = 0; /* it takes long */
    long peak_kib = 0;
    for (int i = 0; i < repeats; i++) {
        bare[i] = run_bare (count);
        ours[i] = run_accelerate (accelerate, count, &peak_kib);
        if (has_mpirun && i < mpi_repeats && (mpi[mpi_ended] = run_mpirun (count)) >= 0)
            mpi_ended++;
        if (bare[i] < 0 || ours[i] < 0) {
            printf ("%4d processes: failed\n", count);
            return;
        }
    }
    double b = median (bare, repeats), o = median (ours, repeats); /* sorted now */
    printf ("%4d processes: bare %7.2f ms   accelerate %7.2f ms (%+.2f ms, %.2f x; fastest %+.2f ms)   peak %.1f MiB",
            count, b, o, o - b, o / b, ours[0] - bare[0], (double) peak_kib / 1024);
    if (mpi_ended) {
        double m = median (mpi, mpi_ended);
        printf ("   mpirun %7.2f ms (%+.2f ms, %.1f x accelerate)", m, m - b, m / o);
    }
    if (has_mpirun && mpi_ended < mpi_repeats)
        printf ("   %d of %d mpirun did not end in %d s", mpi_repeats - mpi_ended, mpi_repeats, PATIENCE_MS / 1000);
    putchar ('\n');
}

struct word {
    const char *name;
    const char *command[8];
    double times[MOST_REPEATS], median;
    long peak_kib;
};

/* In turns, so that whatever else the machine does affects all of them alike. */
static void
bench_in_turns (struct word *words, int count, int repeats)
{
    for (int i = 0; i < repeats; i++)
        for (int j = 0; j < count; j++) {
            long peak_kib = 0;
            words[j].times[i] = run (words[j].command, &peak_kib);
            if (peak_kib > words[j].peak_kib)
                words[j].peak_kib = peak_kib;
        }
    for (int j = 0; j < count; j++) {
        struct word *word = &words[j];
        word->median = median (word->times, repeats); /* sorted now */
        if (word->times[0] < 0)
            printf ("%-20s failed\n", word->name);
        else
            printf ("%-20s %6.2f ms, fastest %5.2f ms, peak %.1f MiB\n", word->name, word->median, word->times[0],
                    (double) word->peak_kib / 1024);
    }
}

static void
bench_words (const char *accelerate, int repeats)
{
    static struct word words[] = {
        { .name = "/bin/true", .command = { "/bin/true" } },
        { .name = "--help", .command = { NULL, "--help" } },
        { .name = "launch --help", .command = { NULL, "launch", "--help" } },
        { .name = "launch --help-all", .command = { NULL, "launch", "--help-all" } },
        { .name = "launch --dry_run",
          .command = { NULL, "launch", "--dry_run", "--cpu", "--num_processes", "8", "/bin/true" } },
        { .name = "--emit=gpu-ids", .command = { NULL, "--emit=gpu-ids" } },
    };
    enum { COUNT = sizeof words / sizeof *words };
    for (int i = 1; i < COUNT; i++)
        words[i].command[0] = accelerate;
    printf ("words: medians of %d runs in turns\n", repeats);
    bench_in_turns (words, COUNT, repeats);
}

/* What bash does between Tab and its answer.  It reads the script at the first Tab only. */
static void
bench_completion (const char *accelerate, const char *script, int repeats)
{
#define ASK(words, last)                                                                                               \
    ". \"$1\"; COMP_WORDS=(\"$0\" launch " words ") COMP_CWORD=" last "; _accelerate; [[ ${#COMPREPLY[@]} -gt 0 ]]"
    static struct word words[] = {
        { .name = "bash alone", .command = { "bash", "--norc", "-c", ":" } },
        { .name = "bash, script", .command = { "bash", "--norc", "-c", ". \"$1\"" } },
        { .name = "bash, script, flag", .command = { "bash", "--norc", "-c", ASK ("--cpu --mixed", "3") } },
        { .name = "bash, script, ids", .command = { "bash", "--norc", "-c", ASK ("--gpu_ids ''", "3") } },
    };
#undef ASK
    for (int i = 0; i < 4; i++) {
        words[i].command[4] = accelerate;
        words[i].command[5] = script;
    }
    bench_in_turns (words, 4, repeats);
    printf ("completion: the script %.2f ms, at the first Tab; then a flag %.2f ms, GPU ids %.2f ms\n",
            words[1].median - words[0].median, words[2].median - words[1].median, words[3].median - words[1].median);
}

static void
bench_launches (const char *accelerate, int repeats)
{
    const char *const version[] = { "mpirun", "--version", NULL };
    bool has_mpirun = run (version, NULL) >= 0;
    printf ("launch: medians of %d runs in turns, N x /bin/true\n", repeats);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        bench_size (accelerate, sizes[i], repeats, has_mpirun);
    if (!has_mpirun)
        printf ("mpirun: not here, left out\n");
}

int
main (int argc, char **argv)
{
    if (argc < 2) {
        fprintf (stderr, "usage: bench_launch ACCELERATE [REPEATS [COMPLETION]]\n");
        return 2;
    }
    int repeats = argc > 2 ? atoi (argv[2]) : 31;
    if (repeats < 1 || repeats > MOST_REPEATS)
        repeats = 31;
    if (argc > 3) {
        bench_words (argv[1], repeats);
        bench_completion (argv[1], argv[3], repeats);
    } else
        bench_launches (argv[1], repeats);
    return 0;
}
