/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process: whether its first thread computes, polls or waits. */
#include <config.h>

#include "launch/process/process.h"
#include "tests/tap.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOKS = 1000, LOOK_US = 20000, SLEEPS = 20, RAN_NS = 30000000, SHORT_NS = 200000 };

static void
compute (void)
{
    for (volatile unsigned turns = 0;; turns++)
        continue;
}

static void
look_again_and_again (void)
{
    for (;;)
        usleep (1000);
}

static void
wait_for_ever (void)
{
    for (;;)
        pause ();
}

/* What the first thread of @child does until it has run or slept often enough, or for some looks. */
static struct process_thread
watch (pid_t child, int looks)
{
    struct process_thread before = process_find_use (child).first, grown = before;
    for (int i = 0; i < looks; i++) {
        usleep (LOOK_US);
        grown = process_find_use (child).first;
        grown.ran_ns -= before.ran_ns;
        grown.sleeps -= before.sleeps;
        if (grown.sleeps >= SLEEPS || grown.ran_ns >= RAN_NS)
            break;
    }
    return grown;
}

int
main (void)
{
    static const struct {
        const char *what;
        void (*run) (void);
        int looks;
        bool runs, sleeps_often;
    } rows[] = {
        { "a process that computes", compute, LOOKS, true, false },
        { "one that polls sleeps often, and runs for a short time between", look_again_and_again, LOOKS, true, true },
        { "one that waits", wait_for_ever, 10, false, false },
    };
    alarm (300);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t child = fork ();
        if (child < 0) { /* kill (-1) would end all processes */
            ok (false, "fork: %m");
            break;
        }
        if (!child) {
            alarm (300); /* it may outlive this process */
            rows[i].run ();
        }
        usleep (LOOK_US);
        struct process_thread grown = watch (child, rows[i].looks);
        bool is_right = rows[i].sleeps_often ? grown.ran_ns / SHORT_NS < grown.sleeps : grown.sleeps < SLEEPS;
        if (!ok (is_right && (grown.ran_ns >= 1000000 || rows[i].sleeps_often) == rows[i].runs, "%s", rows[i].what))
            diag ("ran for %llu ns, slept %llu times", (unsigned long long) grown.ran_ns,
                  (unsigned long long) grown.sleeps);
        kill (child, SIGKILL);
        waitpid (child, NULL, 0);
    }
    ok (process_find_use (getpid ()).pid == getpid () && process_find_use (getpid ()).first.is_ready,
        "this one runs, in its first thread");
    ok (!process_find_use (-1).first.ran_ns, "no process, nothing");
    return done_testing ();
}
