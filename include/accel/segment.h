/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing: what a forward pass computes is forgotten, and computed again in the backward pass, as
 * torch.utils.checkpoint does.  Not collective; a segment is used by one thread at a time. */
#ifndef ACCEL_SEGMENT_H
#define ACCEL_SEGMENT_H

#include <accel/base.h>
#include <accel/random.h>

ACCEL_BEGIN_DECLS

struct accel;

/**
 * Whether the launcher asks for activation checkpointing, in which case the program should make segments.
 *
 * @return what --fsdp_activation_checkpointing of --use_fsdp said when accel_open() was called; false if @p acc is NULL
 */
ACCEL_API bool accel_activation_checkpointing (const struct accel *acc);

/** A part of a forward pass, such as a layer or a few. */
struct accel_segment;

/**
 * Computes a segment: reads its input and parameters, writes its output and activations, and has no other effect,
 * because it is called twice.
 *
 * @param err  to be filled in if it fails
 */
typedef enum accel_status (*accel_segment_function) (void *user, struct accel_error *err);

/** See accel_segment_create(). */
struct accel_segment_options {
    accel_segment_function forward;     /**< required */
    void *user;                         /**< passed to it */
    struct accel_generator *generator;  /**< the random numbers that `forward` draws, as for dropout; must outlive the
                                             segment; NULL: accel_default_generator() */
    enum accel_flag preserve_rng_state; /**< ACCEL_NO: it draws none; default: yes */
    void *activations; /**< host memory that `forward` writes, and only the segment's own backward pass reads: its pages
                            are given back meanwhile; must outlive the segment; NULL: the program uses one memory for
                            all segments */
    size_t activation_bytes; /**< of it */
};

/**
 * Make a segment.  A pass is:
 *
 *   for (i = 0; i < n; i++)
 *       accel_segment_forward (segments[i], &err);
 *   for (i = n; i-- > 0;) {
 *       accel_segment_recompute (segments[i], &err);
 *       ... the backward pass of segment i ...
 *       accel_segment_end (segments[i]);
 *   }
 *
 * The input of a segment, which is the output of the one before it, must be kept until its backward pass.
 *
 * @param options  copied
 * @retval ACCEL_ERR_INVALID  no `forward`, an invalid flag, or activation_bytes without activations
 */
#define accel_segment_create(...) accel_segment_create_sized (sizeof (struct accel_segment_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_segment_create_sized (size_t options_size, struct accel_segment **segment,
                            const struct accel_segment_options *options, struct accel_error *err);

/** Accepts NULL. */
ACCEL_API void accel_segment_destroy (struct accel_segment *segment);

/**
 * Remember the state of the generator and call `forward`.  Then the activations have no values.
 *
 * @retval ACCEL_ERR_CALLBACK  `forward` failed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_segment_forward (struct accel_segment *segment,
                                                                   struct accel_error *err);

/**
 * Call `forward` again, with the random numbers that it drew the last time.  Then, and also after a failure, the
 * generator is where it was before this call.  The activations have values until accel_segment_end().
 *
 * @retval ACCEL_ERR_CALLBACK  `forward` failed
 * @retval ACCEL_ERR_INVALID   accel_segment_forward() has not succeeded before
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_segment_recompute (struct accel_segment *segment,
                                                                     struct accel_error *err);

/** The segment's backward pass has ended: give back the pages of the activations.  Accepts NULL. */
ACCEL_API void accel_segment_end (struct accel_segment *segment);

ACCEL_END_DECLS

#endif
