/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers: the order in which an epoch goes through a data set.  Those named after torch's draw the same numbers. */
#ifndef ACCEL_SAMPLER_H
#define ACCEL_SAMPLER_H

#include <accel/base.h>
#include <accel/random.h>

ACCEL_BEGIN_DECLS

/** A sampler: one pass yields a number of indices that is known in advance. */
struct accel_sampler;

/** Which order; accel_sampler(3) says what each draws. */
enum accel_sampler_kind {
    ACCEL_SAMPLER_SEQUENTIAL, /**< 0, 1, ... size - 1 */
    ACCEL_SAMPLER_RANDOM,     /**< torch's RandomSampler */
    ACCEL_SAMPLER_SEEDABLE,   /**< Accelerate's SeedableRandomSampler: pass e draws from `seed` + e, so every process
                                   sees the same order without communication, and any order can be reproduced.  Passes
                                   are counted automatically; accel_sampler_set_epoch() sets e */
    ACCEL_SAMPLER_WEIGHTED,   /**< torch's WeightedRandomSampler: index i has the probability weights[i] / sum */
    ACCEL_SAMPLER_SUBSET,     /**< torch's SubsetRandomSampler: `indices` in random order */
    /**
     * torch's DistributedSampler: a share of the samples, for programs that distribute data themselves.  Do not prepare
     * a loader over it, which would distribute the data a second time.  Pass e draws from `seed` + e; only
     * accel_sampler_set_epoch() changes e.
     */
    ACCEL_SAMPLER_DISTRIBUTED,
    ACCEL_SAMPLER_KIND_COUNT
};

/** What some kinds need, and others refuse; 0 is each field's default. */
struct accel_sampler_options {
    bool replacement;   /**< RANDOM, SEEDABLE, WEIGHTED: an index may occur more than once */
    size_t num_samples; /**< of the same: indices per pass; 0: the size.  WEIGHTED without replacement: at most as many
                             as there are weights above 0 */
    struct accel_generator *generator; /**< of the same, and SUBSET: the generator to draw from, which carries on from
                                            pass to pass (SEEDABLE: is seeded again for each); not owned.  NULL:
                                            RANDOM seeds its own for each pass from the default one, SEEDABLE from
                                            `seed`; the others draw from the default one */
    const double *weights;  /**< WEIGHTED: [size], copied; finite, none negative, with a positive sum */
    const int64_t *indices; /**< SUBSET: [size], copied */
    size_t replicas, rank;   /**< DISTRIBUTED: replicas, which are required, and which of them this is, from 0 */
    enum accel_flag shuffle; /**< DISTRIBUTED: yes unless ACCEL_NO; accel_sampler_create_llmc(): only if ACCEL_YES */
    bool drop_last; /**< DISTRIBUTED: omit samples that cannot be divided evenly, instead of repeating from the start */
    uint64_t seed;  /**< SEEDABLE, DISTRIBUTED; accel_sampler_create_llmc(): 0: 42, as in llm.c */
};

/**
 * Make a sampler.
 *
 * @param size     samples of the data set; of ACCEL_SAMPLER_SUBSET the number of `indices`
 * @param options  may be NULL if @p kind needs none
 * @retval ACCEL_ERR_INVALID  size 0 for random kinds, an option that is missing or wrong, or one of another kind
 */
#define accel_sampler_create(...) accel_sampler_create_sized (sizeof (struct accel_sampler_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_create_sized (size_t options_size, struct accel_sampler **sampler, enum accel_sampler_kind kind,
                            size_t size, const struct accel_sampler_options *options, struct accel_error *err);

struct accel_dataset;

/**
 * The order of llm.c's DataLoader (github.com/karpathy/llm.c, llmc/dataloader.h), batch for batch.  A step takes one
 * batch per process from a file, consecutive samples in rank order; the rest of a file that is less than a whole step
 * is omitted.  Then the next file follows.
 *
 * With `shuffle`, every rank has its own order of the files and of each file's batches, drawn from `seed` + rank: as in
 * llm.c, ranks are not in the same file at the same time, and an epoch may repeat samples on one rank that it omits on
 * another.  Epoch e continues the random numbers of epoch e - 1.
 *
 * The loader sets the batch size and the number of processes.  Without a loader, both are 1.  The order of another
 * number of processes is a different one: resume on the same number.
 *
 * @param dataset  from accel_dataset_open_tokens(); not used after the call
 * @param options  `shuffle` and `seed`; may be NULL
 * @retval ACCEL_ERR_INVALID  another kind of data set, samples that cross files, or another option
 */
#define accel_sampler_create_llmc(...)                                                       \
    accel_sampler_create_llmc_sized (sizeof (struct accel_sampler_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_create_llmc_sized (size_t options_size, struct accel_sampler **sampler,
                                 const struct accel_dataset *dataset, const struct accel_sampler_options *options,
                                 struct accel_error *err);

/** The program's own sampler. */
struct accel_sampler_calls {
    size_t length; /**< indices per pass */
    /** Begin a pass.  May be NULL. */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    /** Return the next index of the pass. */
    enum accel_status (*next) (void *user, int64_t *index, struct accel_error *err);
    void *user;
};

/**
 * Make a sampler of the program's own.
 *
 * @param calls  copied.  All processes must produce the same indices, because each takes its share of them
 */
#define accel_sampler_create_custom(...)                                                     \
    accel_sampler_create_custom_sized (sizeof (struct accel_sampler_calls), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sampler_create_custom_sized (size_t calls_size, struct accel_sampler **sampler,
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
