/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of loaders.sh have in common: complaints, and data whose samples are their own numbers. */
#ifndef TESTS_LOADERS_H
#define TESTS_LOADERS_H

#include <accel/accel.h>

extern struct accel *acc;
extern int rank, size, wrong;

/** Complain on standard error unless @p good; the process will exit with 1. */
__attribute__ ((format (printf, 2, 3))) bool check (bool good, const char *format, ...);

extern const struct accel_field number_field;
enum accel_status read_number (void *user, size_t index, void *const *into, struct accel_error *err);

/** A stream that counts from 0 to end. */
struct counter {
    int64_t next, end;
};
enum accel_status start_counter (void *user, uint64_t epoch, struct accel_error *err);
enum accel_status next_number (void *user, void *const *into, bool *end, struct accel_error *err);

/** Data of some kind and a loader over it. */
struct loading {
    struct counter counter;
    struct accel_dataset stream;
    struct accel_dataset dataset;
    struct accel_loader *loader;
};

/** Make and prepare a loader of @p samples numbers; complains by itself. */
bool open_loading (struct loading *loading, bool is_stream, size_t samples, const struct accel_loader_options *options);

/** Append gather_for_metrics of up to @p steps batches to what @p samples has.  @return how many steps there were */
size_t gather_samples (struct loading *loading, size_t steps, int64_t *samples, size_t *count, size_t most);

/* loaders_property.c */
void check_properties (uint64_t seed, int cases);

/* loaders_agree.c */
void check_differences (void);
void check_epochs (void);
void check_retries (void);

/* loaders_resume.c */
void check_resume (const char *stage, const char *folder);

#endif
