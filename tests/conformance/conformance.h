/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the conformance program share: one rank, its buffers, and how it says that something is wrong. */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include <accel/accel.h>

struct rank {
    struct accel *acc;
    struct accel_comm *comm;
    int rank;
    int size;
    size_t calls;
    uint64_t hash; /* of all results that must be the same on all ranks */
};

/** Say on standard error what went wrong on which rank, and exit with status 1. */
void fail (const struct rank *self, const char *format, ...) ACCEL_PRINTF (2, 3);

/** fail() unless @p status is ACCEL_OK. */
void must (const struct rank *self, enum accel_status status, const struct accel_error *err, const char *what);

/** fail() unless @p status is ACCEL_ERR_INVALID and the text has @p words. */
void must_refuse (const struct rank *self, enum accel_status status, const struct accel_error *err, const char *what,
                  const char *words);

/* Suites: every rank runs the same ones. */
void suite_types (struct rank *self);     /* every dtype, op and kind with small counts */
void suite_sizes (struct rank *self);     /* every place of the buffers with counts around all borders */
void suite_large (struct rank *self);     /* more than caches hold */
void suite_mixture (struct rank *self);   /* a random sequence of everything, with random delays */
void suite_tensors (struct rank *self);   /* under the original's names */
void suite_objects (struct rank *self);   /* of bytes */
void suite_groups (struct rank *self);    /* by colour, and of meshes */
void suite_trees (struct rank *self);     /* every tensor of a tree; sizes that differ */
void suite_messages (struct rank *self);  /* parts of trees; trees and objects between two */
void suite_debug (struct rank *self);     /* debug mode, which must be on: shapes that differ */
void suite_control (struct rank *self);   /* who runs what when */
void suite_arguments (struct rank *self); /* what is refused */
void suite_memory (struct rank *self);    /* accel_alloc() */
void suite_work (struct rank *self);      /* started, and waited for later */
void suite_random (struct rank *self);    /* seeds, and generators that agree */

/* ---- reference.c: what collectives must give, computed serially and without any code of the library: inputs that
 * every rank can make of every other, reductions in rank order, 16-bit floats in float32, rounded once ---- */

/** One step of a generator of random numbers; any state will do. */
uint64_t next_random (uint64_t *state);

/** Fill @p target with what rank @p rank has: any bits for integers, special values among the floats. */
void reference_input (void *target, enum accel_dtype dtype, int rank, size_t count);

void reference_reduce (void *target, enum accel_dtype dtype, enum accel_op op, const void *const *sources, int ranks,
                       size_t count);

/** @return the first element that differs, or @p count; one NaN is as good as another. */
size_t reference_compare (enum accel_dtype dtype, const void *got, const void *wanted, size_t count);

#endif
