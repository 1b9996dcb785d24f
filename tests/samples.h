/* SPDX-License-Identifier: Apache-2.0 */
/* The simplest data set: sample i is the number i. */
#ifndef TESTS_SAMPLES_H
#define TESTS_SAMPLES_H

#include <accel/dataset.h>

#include <string.h>

__attribute__ ((unused)) static enum accel_status
sample_is_index (void *user, size_t index, void *const *into, struct accel_error *error)
{
    (void) user, (void) error;
    memcpy (into[0], &(int64_t){ (int64_t) index }, sizeof (int64_t));
    return ACCEL_OK;
}

#endif
