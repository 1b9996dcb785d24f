/* SPDX-License-Identifier: Apache-2.0 */
/* What loaders ask of a sampler beyond its public face. */
#ifndef LIB_DATA_SAMPLER_H
#define LIB_DATA_SAMPLER_H

#include <accel/sampler.h>

/** Whether its order is just 0, 1, 2, ..., so that it need not be written down. */
bool sampler_is_identity (const struct accel_sampler *sampler);

/** Tell a sampler whose order depends on it how samples are dealt out: @p batch_size for each of @p processes. */
void sampler_set_shape (struct accel_sampler *sampler, size_t batch_size, size_t processes);

/** All indices of a sampler of ours are below this; SIZE_MAX where only looking at them tells. */
size_t sampler_bound (const struct accel_sampler *sampler);

/**
 * The generator that the sampler continues to draw from in each pass: the one that processes have to agree on, and
 * whose state an epoch can be had again from.  NULL: there is none.
 */
struct accel_generator *sampler_generator (const struct accel_sampler *sampler);

/** The generator that the next order depends on: that one, or the default one; NULL: none. */
struct accel_generator *sampler_source (const struct accel_sampler *sampler);

/** Whether it could continue to draw from a generator in each pass, but was given none. */
bool sampler_wants_generator (const struct accel_sampler *sampler);

/** What sampler_describe() is to say beside the kind and the seed. */
enum sampler_facts {
    SAMPLER_SIZES = 1,     /**< how many samples it gives, and of which */
    SAMPLER_GENERATOR = 2, /**< whether it has one */
    SAMPLER_SHAPE = 4,     /**< how samples are dealt out, if the order depends on it */
};

/**
 * Say what @p sampler is, so that two that give different orders have different texts, as far as that is known.
 *
 * @param facts  of enum sampler_facts
 */
void sampler_describe (const struct accel_sampler *sampler, unsigned facts, char *text, size_t size);

/** Give such a one a generator to continue to draw from; not owned.  NULL takes it away again. */
void sampler_set_generator (struct accel_sampler *sampler, struct accel_generator *generator);

#endif
