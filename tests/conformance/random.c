/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of processes, and generators that continue with rank 0's state. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <string.h>

enum { DRAWS = 700 };

/* The next draws of @generator must be those of @seed after @skipped. */
static void
must_continue (struct rank *self, struct accel_generator *generator, uint64_t seed, int skipped, const char *what)
{
    struct accel_generator *wanted;
    struct accel_error err;
    must (self, accel_generator_create (&wanted, seed, &err), &err, "accel_generator_create");
    for (int i = 0; i < skipped; i++)
        accel_generator_next (wanted);
    for (int i = 0; i < DRAWS; i++)
        if (accel_generator_next (generator) != accel_generator_next (wanted))
            fail (self, "%s: draw %d is not that of seed %llu after %d", what, i, (unsigned long long) seed, skipped);
    accel_generator_destroy (wanted);
}

static void
check_seeds (struct rank *self)
{
    struct accel_error err;
    must (self, accel_set_seed (self->acc, 42, false, &err), &err, "accel_set_seed");
    must_continue (self, accel_default_generator (), 42, 0, "the same seed");
    must (self, accel_set_seed (self->acc, 42, true, &err), &err, "accel_set_seed");
    must_continue (self, accel_default_generator (), 42 + (uint64_t) self->rank, 0, "a seed for each rank");
    must (self, accel_set_seed (self->acc, UINT64_MAX, true, &err), &err, "accel_set_seed");
    must_continue (self, accel_default_generator (), (uint64_t) self->rank - 1, 0, "a seed of -1");
}

/* Every rank is elsewhere in its own stream; afterwards all are where rank 0 was, and a kept normal came along. */
static void
check_agreement (struct rank *self, struct accel_generator *generator)
{
    struct accel_error err;
    float normals[8], first;
    uint64_t own = 7 + (uint64_t) self->rank;
    for (int round = 0; round < 3; round++) {
        must (self, accel_set_seed (NULL, own, false, &err), &err, "accel_set_seed");
        accel_generator_seed (generator, own * 100);
        for (int i = 0; i < 5 + 600 * self->rank; i++) {
            accel_generator_next (accel_default_generator ());
            accel_generator_next (generator);
        }
        must (self, accel_synchronize_rng_state (self->acc, NULL, &err), &err, "the default generator");
        if (round)
            must (self, accel_synchronize_rng_state (self->acc, generator, &err), &err, "a given generator");
        self->calls += round ? 2 : 1;
        must_continue (self, accel_default_generator (), 7, 5, "the default generator");
        if (accel_generator_initial_seed (accel_default_generator ()) != 7)
            fail (self, "the initial seed did not come along");
        if (!round)
            must_continue (self, generator, own * 100, 5 + 600 * self->rank, "a generator that was not meant");
        else
            must_continue (self, generator, 700, 5, "a given generator");
    }
    accel_generator_seed (generator, own);
    must (self, accel_generator_fill_normal (generator, normals, self->rank ? 2 : 3, ACCEL_FLOAT32, 0, 1, &err), &err,
          "normals");
    must (self, accel_synchronize_rng_state (self->acc, generator, &err), &err, "one");
    must (self, accel_generator_fill_normal (generator, &first, 1, ACCEL_FLOAT32, 0, 1, &err), &err, "a normal");
    accel_generator_seed (generator, 7);
    must (self, accel_generator_fill_normal (generator, normals, 4, ACCEL_FLOAT32, 0, 1, &err), &err, "normals");
    if (memcmp (&first, normals + 3, sizeof first) != 0)
        fail (self, "the kept normal did not come along: %g, not %g", (double) first, (double) normals[3]);
}

void
suite_random (struct rank *self)
{
    struct accel_generator *generator;
    struct accel_error err;
    must (self, accel_generator_create (&generator, 1, &err), &err, "accel_generator_create");
    check_seeds (self);
    check_agreement (self, generator);
    accel_generator_destroy (generator);
}
