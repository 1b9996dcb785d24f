/* SPDX-License-Identifier: Apache-2.0 */
/* accel_selftest: run the steps, one after the other, on every rank; see selftest.h.
 *
 * No step can hang.  A call that waits for a peer ends after the timeout with an error that names the peer
 * (ACCEL_TIMEOUT_MS, 30 s here unless it is set); and should the library not keep to that, an alarm ends the process
 * and names the step.  A barrier after each step makes "ok" mean that all ranks found it so. */
#include <config.h>

#include "selftest/selftest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_TIMEOUT_MS = 30000 };

/* What the alarm says; made before each step, for a signal handler may not format. */
static char alarm_text[256];
static size_t alarm_length;

static void
on_alarm (int number)
{
    (void) number;
    if (write (STDERR_FILENO, alarm_text, alarm_length) < 0)
        _exit (2);
    _exit (1);
}

/* Twice the longest wait, for a step has many calls, of which only the last can be the one that waits that long. */
static void
set_alarm (const struct self *self, const char *step, uint32_t timeout_ms)
{
    unsigned int seconds = timeout_ms / 500 + 10;
    int length = snprintf (alarm_text, sizeof alarm_text, "accel_selftest: rank %d: %s: did not finish within %u s\n",
                           self->rank, step, seconds);
    alarm_length = length < (int) sizeof alarm_text ? (size_t) length : sizeof alarm_text - 1;
    alarm (seconds);
}

/* @given  an argument, or NULL */
static uint32_t
find_timeout (const char *given)
{
    const char *text = given ? given : getenv ("ACCEL_TIMEOUT_MS");
    unsigned long value = text ? strtoul (text, NULL, 10) : 0;
    return value && value < UINT32_MAX ? (uint32_t) value : USUAL_TIMEOUT_MS;
}

static int
fail_step (const struct self *self, const char *step)
{
    fprintf (stderr, "accel_selftest: rank %d: %s: %s\n", self->rank, step, self->why);
    return 1;
}

static int
run_steps (struct self *self, const struct step *steps, uint32_t timeout_ms)
{
    for (; steps->name; steps++) {
        set_alarm (self, steps->name, timeout_ms);
        steps->run (self);
        if (!*self->why)
            CALL (self, accel_comm_barrier (self->world, &self->err));
        if (*self->why)
            return fail_step (self, steps->name);
        if (self->rank == 0)
            printf ("%-28s ok\n", steps->name);
        fflush (stdout);
    }
    return 0;
}

static int
run_device_steps (struct self *self, uint32_t timeout_ms)
{
    set_alarm (self, "GPU", timeout_ms);
    bool everywhere = device_is_everywhere (self);
    if (*self->why)
        return fail_step (self, "GPU");
    return everywhere ? run_steps (self, device_steps, timeout_ms) : 0;
}

static int
run_all (struct self *self, uint32_t timeout_ms)
{
    return run_steps (self, state_steps, timeout_ms) || run_steps (self, comm_steps, timeout_ms)
           || run_steps (self, collection_steps, timeout_ms) || run_steps (self, group_steps, timeout_ms)
           || run_steps (self, train_steps, timeout_ms) || run_steps (self, utility_steps, timeout_ms)
           || run_device_steps (self, timeout_ms);
}

int
main (int argc, char **argv)
{
    struct accel_options options = { .device_placement = ACCEL_NO }; /* it looks at batches */
    struct self self = { 0 };
    const char *rank = getenv ("RANK");
    self.rank = rank ? (int) strtol (rank, NULL, 10) : 0;
    bool measures = argc > 2 && !strcmp (argv[1], "--links"), on_gpus = argc > 3 && !strcmp (argv[3], "gpu");
    uint32_t timeout_ms = find_timeout (measures ? argv[2] : NULL);
    if (measures || !getenv ("ACCEL_TIMEOUT_MS")) /* one that is malformed is accel_open()'s to refuse */
        options.timeout_ms = timeout_ms;
    signal (SIGALRM, on_alarm);
    set_alarm (&self, "accel_open", timeout_ms);
    if (!CALL (&self, accel_open (&self.acc, &options, &self.err)))
        return fail_step (&self, "open");
    self.world = accel_world (self.acc);
    self.rank = accel_process_index (self.acc);
    self.size = accel_num_processes (self.acc);
    if (self.rank == 0)
        printf ("libaccel %s, %d process%s, engine %s\n", accel_version (), self.size, self.size == 1 ? "" : "es",
                accel_comm_engine (self.world));
    const struct step *links = on_gpus ? gpu_links_steps : links_steps;
    int status = measures ? run_steps (&self, links, timeout_ms) : run_all (&self, timeout_ms);
    accel_close (self.acc);
    return status;
}
