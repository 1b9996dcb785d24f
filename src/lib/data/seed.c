/* SPDX-License-Identifier: Apache-2.0 */
/* The process's own generator, seeding it, and making generators of all processes agree. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_private.h"
#include "lib/data/generator.h"
#include "lib/state/state_dict.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

struct random_part {
    struct part part;
};

static void
save_random (const struct part *part, struct accel_state_dict *state)
{
    uint8_t bytes[ACCEL_GENERATOR_STATE_BYTES];
    (void) part;
    accel_generator_get_state (accel_default_generator (), bytes);
    accel_state_dict_set_bytes (state, "torch_manual_seed", bytes, sizeof bytes);
}

/* A rank that did not exist then keeps the numbers that the program has seeded. */
static enum accel_status
load_random (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    uint8_t bytes[ACCEL_GENERATOR_STATE_BYTES];
    (void) part;
    if (!state)
        return ACCEL_OK;
    enum accel_status status = accel_state_dict_get_bytes (state, "torch_manual_seed", bytes, sizeof bytes, err);
    return status ? status : accel_generator_set_state (accel_default_generator (), bytes, sizeof bytes, err);
}

const struct part_kind part_random = { .size_bytes = sizeof (struct random_part), .save = save_random,
                                       .load = load_random, .file = "random_states", .of_each_rank = true };

static struct accel_generator default_generator;
static pthread_once_t default_once = PTHREAD_ONCE_INIT;

static void
seed_from_entropy (void)
{
    uint64_t seed;
    if (getrandom (&seed, sizeof seed, 0) != sizeof seed) {
        /* A kernel or a sandbox without the call: no secret hangs on this seed, it must only differ. */
        struct timespec now;
        clock_gettime (CLOCK_REALTIME, &now);
        seed = ((uint64_t) now.tv_sec << 30 ^ (uint64_t) now.tv_nsec) * UINT64_C (0x9e3779b97f4a7c15)
               + (uint64_t) getpid ();
    }
    generator_init (&default_generator, seed);
}

struct accel_generator *
accel_default_generator (void)
{
    pthread_once (&default_once, seed_from_entropy);
    return &default_generator;
}

enum accel_status
accel_set_seed (const struct accel *acc, uint64_t seed, bool device_specific, struct accel_error *err)
{
    if (device_specific && !acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: device_specific needs acc, but acc is NULL", __func__);
    if (device_specific)
        seed += (uint64_t) accel_process_index (acc);
    accel_generator_seed (accel_default_generator (), seed);
    return ACCEL_OK;
}

enum accel_status
accel_synchronize_rng_state_at (const char *file, int line, struct accel *acc, struct accel_generator *generator,
                                struct accel_error *err)
{
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES];
    if (!generator)
        generator = accel_default_generator ();
    accel_generator_get_state (generator, state);
    enum accel_status status = comm_broadcast (accel_world (acc), SITE (SYNCHRONIZE_RNG_STATE), state, sizeof state,
                                               ACCEL_UINT8, 0, err);
    return status ? status : accel_generator_set_state (generator, state, sizeof state, err);
}
