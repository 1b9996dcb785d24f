/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers that note requests; see request_signals.h. */
#include <config.h>

#include "lib/utility/request_signals.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

static const struct {
    int signal;
    uint32_t request;
} signals[] = { { SIGTERM, JOBSEG_SAVE | JOBSEG_STOP }, { SIGUSR1, JOBSEG_SAVE } };
enum { SIGNALS = sizeof signals / sizeof *signals };

/* Of the process, as signals are; what the handler reads is atomic. */
static _Atomic uint32_t raised;
static _Atomic (const struct jobseg_header *) followed;
static _Atomic int inside; /* handlers that run */
static _Atomic pid_t owner;
static bool is_taken[SIGNALS];
static unsigned jobs;

static bool
has_failed (void)
{
    const struct jobseg_header *header = atomic_load (&followed);
    return header && atomic_load (&header->request) & JOBSEG_END;
}

/* Children of the program, such as workers that read data, have the handler too: what ends them must end them. */
static void
take (int number)
{
    int kept = errno;
    atomic_fetch_add (&inside, 1);
    if (getpid () != atomic_load (&owner) || has_failed ()) {
        signal (number, SIG_DFL);
        raise (number); /* comes when this function has returned */
    } else
        for (int i = 0; i < SIGNALS; i++)
            if (signals[i].signal == number)
                atomic_fetch_or (&raised, signals[i].request);
    atomic_fetch_sub (&inside, 1);
    errno = kept;
}

void
request_signals_take (void)
{
    if (jobs++)
        return;
    atomic_store (&owner, getpid ());
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction old, action = { .sa_handler = take, .sa_flags = SA_RESTART };
        is_taken[i] = !sigaction (signals[i].signal, NULL, &old) && old.sa_handler == SIG_DFL
                      && !sigaction (signals[i].signal, &action, NULL);
    }
}

/* The program may have put a handler of its own in our place. */
void
request_signals_leave (void)
{
    if (--jobs)
        return;
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction old;
        if (is_taken[i] && !sigaction (signals[i].signal, NULL, &old) && old.sa_handler == take)
            signal (signals[i].signal, SIG_DFL);
    }
}

/* The caller may unmap what was followed before: a handler on another thread may still read it. */
void
request_signals_follow (const struct jobseg_header *header)
{
    atomic_store (&followed, header);
    while (!header && atomic_load (&inside))
        sched_yield ();
}

uint32_t
request_signals_read (void)
{
    return atomic_load_explicit (&raised, memory_order_relaxed) ? atomic_exchange (&raised, 0) : 0;
}
