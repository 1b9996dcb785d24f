/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the conformance tests of engines: conformance [SUITE]...
 *
 * Runs the suites named, by default all but "debug"; "rounds" (opening and closing many times) apart from the others.
 * Rank 0 says on standard output how much it did; whatever is wrong is one line on standard error and exit status 1. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void
fail (const struct rank *self, const char *format, ...)
{
    va_list args;
    fprintf (stderr, "rank %d of %d: ", self->rank, self->size);
    va_start (args, format);
    vfprintf (stderr, format, args);
    va_end (args);
    fputc ('\n', stderr);
    exit (1);
}

void
must (const struct rank *self, enum accel_status status, const struct accel_error *err, const char *what)
{
    if (status)
        fail (self, "%s: status %d: %s", what, (int) status, err->text);
}

void
must_refuse (const struct rank *self, enum accel_status status, const struct accel_error *err, const char *what,
             const char *words)
{
    if (status != ACCEL_ERR_INVALID || err->code != status)
        fail (self, "%s: status %d, wanted ACCEL_ERR_INVALID: %s", what, (int) status, status ? err->text : "");
    if (!strstr (err->text, words))
        fail (self, "%s: '%s' is not in '%s'", what, words, err->text);
}

static void
open_rank (struct rank *self)
{
    struct accel_error err = { .code = ACCEL_OK };
    must (self, accel_open (&self->acc, NULL, &err), &err, "accel_open");
    self->comm = accel_world (self->acc);
    self->rank = accel_comm_rank (self->comm);
    self->size = accel_comm_size (self->comm);
}

/* Opening again and again, with and without calls in between, each rank at its own pace; and twice at once. */
static void
suite_rounds (struct rank *self)
{
    uint64_t random = (uint64_t) getpid ();
    struct accel_error err = { .code = ACCEL_OK };
    for (int round = 0; round < 25; round++) {
        struct accel *second = NULL;
        int64_t sum = round;
        open_rank (self);
        enum accel_status status = accel_open (&second, NULL, &err);
        if (self->size > 1 && (status != ACCEL_ERR_INVALID || second || !strstr (err.text, "already joined its job")))
            fail (self, "a second accel_open: status %d: %s", (int) status, err.text);
        accel_close (second);
        for (int i = 0; i < round % 3; i++) {
            must (self, accel_comm_all_reduce (self->comm, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err), &err,
                  "all_reduce");
            self->calls++;
        }
        if (round % 3 == 2 && sum != (int64_t) round * self->size * self->size)
            fail (self, "round %d: sum %lld", round, (long long) sum);
        if (round % 3 == 1) {
            struct accel_comm *group;
            must (self, accel_comm_split (&group, self->comm, 0, -self->rank, &err), &err, "a group");
            must (self, accel_comm_barrier (group, &err), &err, "its barrier");
            accel_comm_destroy (group);
        }
        if (next_random (&random) % 3 == 0)
            nanosleep (&(struct timespec){ .tv_nsec = (long) (next_random (&random) % 2000000) }, NULL);
        accel_close (self->acc);
    }
}

static const struct suite {
    const char *name;
    void (*run) (struct rank *self);
} suites[] = {
    { "types", suite_types },     { "sizes", suite_sizes },         { "mixture", suite_mixture },
    { "tensors", suite_tensors }, { "control", suite_control },     { "arguments", suite_arguments },
    { "memory", suite_memory },   { "large", suite_large },         { "random", suite_random },
    { "objects", suite_objects }, { "trees", suite_trees },         { "debug", suite_debug },
    { "groups", suite_groups },   { "messages", suite_messages },
    { "work", suite_work },
};
enum { SUITES = sizeof suites / sizeof *suites };

static bool
is_wanted (const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp (argv[i], name))
            return true;
    return argc == 1 && strcmp (name, "debug") != 0;
}

int
main (int argc, char **argv)
{
    struct rank self = { .rank = -1, .size = -1, .hash = 1 };
    setvbuf (stderr, NULL, _IOLBF, 0);
    alarm (900);
    if (is_wanted ("rounds", argc, argv))
        suite_rounds (&self);
    open_rank (&self);
    for (int i = 0; i < SUITES; i++)
        if (is_wanted (suites[i].name, argc, argv))
            suites[i].run (&self);
    if (self.rank == 0)
        printf ("%s, %d ranks: %zu collectives\n", accel_comm_engine (self.comm), self.size, self.calls);
    accel_close (self.acc);
    return 0;
}
