/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command, does something to it once its processes are ready, and sees what remains of it.
 *
 *   drive [-p] [-n READY] [-s SIGNAL | -c CHARACTER] [-t SIGNAL] -- COMMAND...
 *
 *   -p  on a pseudo terminal of its own, as a person would type it
 *   -n  after READY times the word "ready" on its output, and only then,
 *   -s  send it SIGNAL (a number), or
 *   -c  type CHARACTER (its number: 3 is ^C);
 *   -t  and half a second later send it another signal
 *
 * The output is passed on.  Orphans of the command become children of this program, so that a process which outlives it
 * is seen, wherever it hides.  Exit status: the command's, 128+N for signal N; 96 it did not end in 15 minutes; 97 it
 * was not ready in 15 minutes, or ended before; 98 something has outlived it by a minute; 99 usage and similar.
 * These times are for busy machines: what does not hang comes nowhere near them. */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { READY_S = 900, END_S = 900, SURVIVE_S = 60 };

static double
now (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void
run (char **command)
{
    for (int i = 1; i < 32; i++)
        signal (i, SIG_DFL); /* a shell starts background jobs with SIGINT ignored */
    execvp (command[0], command);
    perror (command[0]);
    _exit (127);
}

static pid_t
start (bool terminal, char **command, int *output)
{
    pid_t pid;
    int pipes[2];
    if (terminal) {
        pid = forkpty (output, NULL, NULL, NULL);
        if (pid == 0)
            run (command);
        return pid;
    }
    if (pipe (pipes))
        return -1;
    pid = fork ();
    if (pid == 0) {
        dup2 (pipes[1], 1);
        close (pipes[0]);
        close (pipes[1]);
        run (command);
    }
    close (pipes[1]);
    *output = pipes[0];
    return pid;
}

static char text[1 << 16];
static size_t length;

/* Pass on what comes within @ms milliseconds.  @return false at the end */
static bool
relay (int fd, int ms)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    if (poll (&ready, 1, ms) < 1)
        return true;
    if (length >= sizeof text - 1)
        length = 0;
    ssize_t got = read (fd, text + length, sizeof text - 1 - length);
    if (got <= 0)
        return false;
    fwrite (text + length, 1, (size_t) got, stdout);
    fflush (stdout);
    length += (size_t) got;
    text[length] = '\0';
    return true;
}

static int
count_ready (void)
{
    int count = 0;
    for (const char *at = text; (at = strstr (at, "ready")); at += 5)
        count++;
    return count;
}

/* All that is left are children of ours.  @return whether they have ended in time */
static bool
all_end (double limit)
{
    for (double until = now () + limit; now () < until; usleep (10000)) {
        while (waitpid (-1, NULL, WNOHANG | __WALL) > 0)
            ;
        if (waitpid (-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD)
            return true;
    }
    return false;
}

int
main (int argc, char **argv)
{
    int option, first_signal = 0, second_signal = 0, character = 0, wanted = 0, output = -1, status = 0;
    bool terminal = false;
    while ((option = getopt (argc, argv, "+pn:s:c:t:")) >= 0)
        switch (option) {
        case 'p': terminal = true; break;
        case 'n': wanted = atoi (optarg); break;
        case 's': first_signal = atoi (optarg); break;
        case 'c': character = atoi (optarg); break;
        case 't': second_signal = atoi (optarg); break;
        default: return 99;
        }
    prctl (PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = optind < argc ? start (terminal, argv + optind, &output) : -1;
    if (pid < 0)
        return 99;
    for (double until = now () + READY_S; count_ready () < wanted;)
        if (!relay (output, 50) || now () > until) {
            fprintf (stderr, "drive: only %d of %d were ready\n", count_ready (), wanted);
            kill (pid, SIGTERM);
            all_end (SURVIVE_S);
            return 97;
        }
    if (first_signal)
        kill (pid, first_signal);
    if (character && write (output, &(char){ (char) character }, 1) != 1)
        return 99;
    double began = now ();
    bool open = true, hung = false;
    while (waitpid (pid, &status, WNOHANG) == 0) {
        if (second_signal && now () > began + 0.5) {
            kill (pid, second_signal);
            second_signal = 0;
        }
        if (now () > began + END_S && !hung) {
            fprintf (stderr, "drive: the command does not end\n");
            kill (pid, SIGKILL);
            hung = true;
        }
        if (open)
            open = relay (output, 10);
        else
            usleep (10000);
    }
    bool ended = all_end (SURVIVE_S);
    while (open && poll (&(struct pollfd){ .fd = output, .events = POLLIN }, 1, 0) > 0)
        open = relay (output, 0);
    if (!ended) {
        fprintf (stderr, "drive: something has outlived the command\n");
        return 98;
    }
    if (hung)
        return 96;
    return WIFSIGNALED (status) ? 128 + WTERMSIG (status) : WEXITSTATUS (status);
}
