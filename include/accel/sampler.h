/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers: the order in which an epoch goes through a data set.  Those with torch's names draw what torch draws. */
#ifndef ACCEL_SAMPLER_H
#define ACCEL_SAMPLER_H

#include <accel/base.h>
#include <accel/random.h>

ACCEL_BEGIN_DECLS

/** A sampler: one pass gives a number of indices that is known before it starts. */
struct accel_sampler;

/** 0, 1, ... @p size - 1. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_sequential (struct accel_sampler **sampler, size_t size, struct accel_error *err);

/** How to draw at random; 0 is each field's default. */
struct accel_random_options {
    bool replacement;   /**< an index may come more than once */
    size_t num_samples; /**< indices of one pass; 0: the size */
    struct accel_generator *generator; /**< where to draw from, going on from pass to pass; not owned.  NULL: each pass
                                            seeds a generator of its own from the default one */
};

/** torch's RandomSampler.  @param options  may be NULL  @retval ACCEL_ERR_INVALID  size 0 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_random (struct accel_sampler **sampler, size_t size, const struct accel_random_options *options,
                      struct accel_error *err);

/**
 * The original's SeedableRandomSampler: pass e draws from the seed @p seed + e, so that every process sees the same
 * order without talking, and an order can be had again.  Passes count by themselves; accel_sampler_set_epoch() sets e.
 *
 * @param options  may be NULL; its generator is seeded anew for each pass
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_seedable (struct accel_sampler **sampler, size_t size, uint64_t seed,
                        const struct accel_random_options *options, struct accel_error *err);

/**
 * torch's WeightedRandomSampler: index i comes with probability weights[i] / sum.
 *
 * @param weights  [size], copied; finite, none negative, the sum positive
 * @param options  num_samples 0: size.  Without replacement at most as many as there are weights above 0
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_weighted (struct accel_sampler **sampler, const double *weights, size_t size,
                        const struct accel_random_options *options, struct accel_error *err);

/** torch's SubsetRandomSampler: @p indices in random order.  @param indices  [count], copied */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_subset (struct accel_sampler **sampler, const int64_t *indices, size_t count,
                      struct accel_generator *generator, struct accel_error *err);

/** Share @p rank of @p replicas; 0 is each other field's default. */
struct accel_distributed_options {
    size_t replicas, rank;
    bool sequential; /**< torch's shuffle=False */
    bool drop_last;  /**< leave out what does not divide, instead of repeating from the front */
    uint64_t seed;   /**< pass e draws from seed + e, where e is only what accel_sampler_set_epoch() said */
};

/**
 * torch's DistributedSampler, for programs that share out data themselves: a loader over it should not be prepared,
 * which would share it out once more.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_distributed (struct accel_sampler **sampler, size_t size,
                           const struct accel_distributed_options *options, struct accel_error *err);

/** A sampler of the program. */
struct accel_sampler_calls {
    size_t length; /**< indices of one pass */
    /** A pass begins.  NULL: nothing to do. */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    /** The next index of the pass. */
    enum accel_status (*next) (void *user, int64_t *index, struct accel_error *err);
    void *user;
};

/** @param calls  copied.  All processes must produce the same indices: each takes its share of them. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_custom (struct accel_sampler **sampler, const struct accel_sampler_calls *calls, struct accel_error *err);

/** Free @p sampler; destroy loaders over it first.  Accepts NULL. */
ACCEL_API void accel_sampler_destroy (struct accel_sampler *sampler);

/** @return indices of one pass. */
ACCEL_API size_t accel_sampler_length (const struct accel_sampler *sampler);

/** The epoch of the next pass.  Samplers whose order does not depend on it take no notice. */
ACCEL_API void accel_sampler_set_epoch (struct accel_sampler *sampler, uint64_t epoch);

/** Make one pass.  @param[out] indices  [accel_sampler_length()] */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_draw (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err);

/** Batches of indices, of a program's own making: of varying length, perhaps, or grouped by some rule. */
struct accel_batch_sampler {
    size_t length;     /**< batches of one pass */
    size_t batch_size; /**< of every batch but the last; 0: they vary, and whole batches are dealt to the processes */
    size_t most;       /**< indices of the largest batch; 0: batch_size */
    bool drop_last;    /**< an incomplete round of batches is left out */
    /** A pass begins.  NULL: nothing to do. */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    /** The next batch.  @param indices  [most]  @param[out] count  1 .. most */
    enum accel_status (*next) (void *user, int64_t *indices, size_t *count, struct accel_error *err);
    void *user;
};

ACCEL_END_DECLS

#endif
