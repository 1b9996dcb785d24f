/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets of tokens: one file (set_tokens.c), and several files as one data set (set_token_files.c). */
#ifndef LIB_DATA_DATASETS_SET_TOKENS_H
#define LIB_DATA_DATASETS_SET_TOKENS_H

#include "lib/data/datasets/set.h"

/** Check the options and make a set without files whose fields are described. */
enum accel_status tokens_create (struct set **set, const struct accel_tokens_options *options,
                                 struct accel_error *err);

/** Make @p set, which tokens_create() made, that of one file, which stays open. */
enum accel_status tokens_open_file (struct set *set, const char *path, struct accel_error *err);

/** Find where the tokens of @p source begin and how many there are. */
enum accel_status tokens_measure (const struct source *source, const struct accel_tokens_options *options,
                                  struct token_layout *layout, struct accel_error *err);

/** @return the number of complete samples in @p count tokens that follow each other.  The stride must be set. */
uint64_t tokens_samples (const struct accel_tokens_options *options, uint64_t count);

/**
 * Read a part of a sample.
 *
 * @param token  the first to read: its number in the file
 * @param from   its place in the sample; with labels, the sample has sequence_length + 1 places
 * @param count  tokens to read
 * @param into   the fields of the whole sample
 */
enum accel_status tokens_read (const struct source *source, const struct token_layout *layout,
                               const struct accel_tokens_options *options, uint64_t token, size_t from, size_t count,
                               void *const *into, struct accel_error *err);

/** Calls the set's `read` for each sample. */
enum accel_status tokens_read_many (void *user, const int64_t *indices, size_t count, void *const *into,
                                    struct accel_error *err);

/**
 * Say which files @p dataset consists of, so that ranks can compare them: names without folders, sizes, their order.
 * "none" if it is not a data set of several token files.
 */
void token_files_describe (const struct accel_dataset *dataset, char *text, size_t size);

/**
 * @return how many shards @p dataset has, for llm.c's order: 1 for a token file, one for each of several token files,
 *         0 if their samples cross files or if it is another kind of data set.
 */
size_t token_shards (const struct accel_dataset *dataset);

/** @return the number of samples in shard @p index. */
size_t token_shard_samples (const struct accel_dataset *dataset, size_t index);

#endif
