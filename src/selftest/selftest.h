/* SPDX-License-Identifier: Apache-2.0 */
/* The program that `accelerate test` starts: every call of libaccel, compared with what one process would compute.  It
 * uses the public interface only, as any program would. */
#ifndef SELFTEST_SELFTEST_H
#define SELFTEST_SELFTEST_H

#include <accel/accel.h>

/** One rank of the test. */
struct self {
    struct accel *acc;
    struct accel_comm *world;
    int rank, size;
    struct accel_error err; /* of the last call */
    char why[1024]; /* what is wrong, "" so far nothing; only the first counts */
};

/** A row of the table of steps.  Steps return at their first failure, which self->why tells. */
struct step {
    const char *name;
    void (*run) (struct self *self);
};

/** Each ends with an all-zero row. */
extern const struct step state_steps[], comm_steps[], collection_steps[], group_steps[], train_steps[], utility_steps[];

/** For ranks that compute on GPUs, if device_is_everywhere(), which all of them ask. */
extern const struct step device_steps[];
bool device_is_everywhere (struct self *self);

/** With --links TIMEOUT_MS, instead of the others; with --links TIMEOUT_MS gpu, the same between GPUs. */
extern const struct step links_steps[], gpu_links_steps[];

/** Note what is wrong.  @return false always. */
bool wrong (struct self *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/** @return whether @p call, which writes self->err, went well; else its error is noted. */
bool went_well (struct self *self, enum accel_status status, const char *call);
#define CALL(self, call) went_well (self, call, #call)

/** @return whether the values are equal; else both are noted. @{ */
bool expect (struct self *self, const char *what, long long expected, long long got);
bool expect_text (struct self *self, const char *what, const char *expected, const char *got);
bool expect_near (struct self *self, const char *what, double expected, double got, double tolerance);
/** @} */

/** Elements of any type that hold small whole numbers, which all types hold exactly.  @{ */
void put_value (enum accel_dtype dtype, void *array, size_t index, double value);
double get_value (enum accel_dtype dtype, const void *array, size_t index);
/** @} */

#endif
