/* SPDX-License-Identifier: Apache-2.0 */
/* What loaders give, as text. */
#ifndef TESTS_LOADERS_H
#define TESTS_LOADERS_H

#include <accel/loader.h>

#include <stdio.h>

/* The indices of one epoch as make_goldens.py writes them: "0,1|2,3"; or the error.
 * @return the number of batches */
static size_t
epoch_text (struct accel_loader *loader, char *text, size_t size)
{
    const struct accel_batch *batch;
    struct accel_error err;
    size_t at = 0, count = 0;
    snprintf (text, size, "-");
    for (; accel_loader_next (loader, &batch, &err); count++)
        for (size_t i = 0; i < accel_batch_size (batch) && at + 24 < size; i++)
            at += (size_t) snprintf (text + at, size - at, "%s%lld", i ? "," : count ? "|" : "",
                                     (long long) accel_batch_indices (batch)[i]);
    if (err.code)
        snprintf (text, size, "%.100s", err.text);
    return count;
}

#endif
