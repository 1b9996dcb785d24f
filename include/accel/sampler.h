/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers: the order in which an epoch goes through a data set.  Those named after torch's draw the same numbers. */
#ifndef ACCEL_SAMPLER_H
#define ACCEL_SAMPLER_H

#include <accel/base.h>
#include <accel/random.h>

ACCEL_BEGIN_DECLS

/** A sampler: one pass yields a number of indices that is known in advance. */
struct accel_sampler;

/** 0, 1, ... @p size - 1. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_sequential (struct accel_sampler **sampler, size_t size, struct accel_error *err);

/** How to draw at random; 0 is each field's default. */
struct accel_random_options {
    bool replacement;   /**< an index may occur more than once */
    size_t num_samples; /**< indices per pass; 0: the size */
    struct accel_generator *generator; /**< the generator to draw from, which carries on from pass to pass; not owned.
                                            NULL: each pass seeds its own generator from the default one */
};

/** torch's RandomSampler.  @param options  may be NULL  @retval ACCEL_ERR_INVALID  size 0 */
#define accel_sampler_random(...) accel_sampler_random_sized (sizeof (struct accel_random_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_random_sized (size_t options_size, struct accel_sampler **sampler, size_t size,
                            const struct accel_random_options *options, struct accel_error *err);

/**
 * SeedableRandomSampler of Hugging Face Accelerate: pass e draws from the seed @p seed + e, so every process sees the
 * same order without communication, and any order can be reproduced.  Passes are counted automatically;
 * accel_sampler_set_epoch() sets e.
 *
 * @param options  may be NULL; its generator is seeded again for each pass
 */
#define accel_sampler_seedable(...) accel_sampler_seedable_sized (sizeof (struct accel_random_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_seedable_sized (size_t options_size, struct accel_sampler **sampler, size_t size, uint64_t seed,
                              const struct accel_random_options *options, struct accel_error *err);

/**
 * torch's WeightedRandomSampler: index i has the probability weights[i] / sum.
 *
 * @param weights  [size], copied; finite, none negative, with a positive sum
 * @param options  num_samples 0: size.  Without replacement, at most as many as there are weights above 0
 */
#define accel_sampler_weighted(...) accel_sampler_weighted_sized (sizeof (struct accel_random_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_weighted_sized (size_t options_size, struct accel_sampler **sampler, const double *weights, size_t size,
                              const struct accel_random_options *options, struct accel_error *err);

/** torch's SubsetRandomSampler: @p indices in random order.  @param indices  [count], copied */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_subset (struct accel_sampler **sampler, const int64_t *indices, size_t count,
                      struct accel_generator *generator, struct accel_error *err);

/** Share @p rank of @p replicas; 0 is each other field's default. */
struct accel_distributed_options {
    size_t replicas, rank; /**< replicas: required; rank: from 0 */
    enum accel_flag shuffle; /**< yes unless ACCEL_NO */
    bool drop_last;  /**< omit samples that cannot be divided evenly, instead of repeating from the start */
    uint64_t seed;   /**< pass e draws from seed + e; only accel_sampler_set_epoch() changes e */
};

/**
 * torch's DistributedSampler, for programs that distribute data themselves.  Do not prepare a loader over it, which
 * would distribute the data a second time.
 */
#define accel_sampler_distributed(...)                                                       \
    accel_sampler_distributed_sized (sizeof (struct accel_distributed_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_distributed_sized (size_t options_size, struct accel_sampler **sampler, size_t size,
                                 const struct accel_distributed_options *options, struct accel_error *err);

struct accel_dataset;

/** How to go through token files like llm.c; 0 is each field's default. */
struct accel_llmc_options {
    bool shuffle;  /**< files in random order, and the batches of each file in random order */
    uint64_t seed; /**< with shuffle; 0: 42, as in llm.c */
};

/**
 * The order of llm.c's DataLoader (github.com/karpathy/llm.c, llmc/dataloader.h), batch for batch.  A step takes one
 * batch per process from a file, consecutive samples in rank order; the rest of a file that is less than a whole step
 * is omitted.  Then the next file follows.
 *
 * With `shuffle`, every rank has its own order, drawn from seed + rank: as in llm.c, ranks are not in the same file at
 * the same time, and an epoch may repeat samples on one rank that it omits on another.  Epoch e continues the random
 * numbers of epoch e - 1.
 *
 * The loader sets the batch size and the number of processes.  Without a loader, both are 1.  The order of another
 * number of processes is a different one: resume on the same number.
 *
 * @param dataset  from accel_dataset_open_tokens(), _token_files() or _token_pattern(); not used after the call
 * @param options  may be NULL
 * @retval ACCEL_ERR_INVALID  another kind of data set, or samples that cross files
 */
#define accel_sampler_llmc(...) accel_sampler_llmc_sized (sizeof (struct accel_llmc_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_llmc_sized (size_t options_size, struct accel_sampler **sampler, const struct accel_dataset *dataset,
                          const struct accel_llmc_options *options, struct accel_error *err);

/** The program's own sampler. */
struct accel_sampler_calls {
    size_t length; /**< indices per pass */
    /** Begin a pass.  May be NULL. */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    /** Return the next index of the pass. */
    enum accel_status (*next) (void *user, int64_t *index, struct accel_error *err);
    void *user;
};

/** @param calls  copied.  All processes must produce the same indices, because each takes its share of them. */
#define accel_sampler_custom(...) accel_sampler_custom_sized (sizeof (struct accel_sampler_calls), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_custom_sized (size_t calls_size, struct accel_sampler **sampler,
                            const struct accel_sampler_calls *calls, struct accel_error *err);

/** Free @p sampler; destroy loaders over it first.  Accepts NULL. */
ACCEL_API void accel_sampler_destroy (struct accel_sampler *sampler);

/** @return the number of indices per pass. */
ACCEL_API size_t accel_sampler_length (const struct accel_sampler *sampler);

/** Set the epoch of the next pass.  Samplers whose order does not depend on it ignore the call. */
ACCEL_API void accel_sampler_set_epoch (struct accel_sampler *sampler, uint64_t epoch);

/** Make one pass.  @param[out] indices  [accel_sampler_length()] */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_draw (struct accel_sampler *sampler, int64_t *indices, struct accel_error *err);

/** Batches of indices made by the program, for example of varying length or grouped by some rule. */
struct accel_batch_sampler {
    size_t length;     /**< batches per pass */
    size_t batch_size; /**< of every batch but the last; 0: sizes vary, and complete batches are dealt out */
    size_t most;       /**< indices in the largest batch; 0: batch_size */
    bool drop_last;    /**< omit an incomplete round of batches */
    /** Begin a pass.  May be NULL. */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    /** Return the next batch.  @param indices  [most]  @param[out] count  1 .. most */
    enum accel_status (*next) (void *user, int64_t *indices, size_t *count, struct accel_error *err);
    void *user;
};

ACCEL_END_DECLS

#endif
