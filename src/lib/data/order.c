/* SPDX-License-Identifier: Apache-2.0 */
/* Writing down what samplers say; see order.h. */
#include <config.h>

#include "lib/data/order.h"

#include "lib/base/error.h"
#include "lib/data/sampler.h"
#include "util/memory.h"

#include <stdlib.h>
#include <string.h>

void
order_release (struct order *order)
{
    free (order->indices);
    free (order->ends);
    *order = (struct order){ 0 };
}

/* @return memory for @p wanted indices; NULL without any */
static int64_t *
make_room (size_t wanted)
{
    size_t bytes;
    return __builtin_mul_overflow (wanted, sizeof (int64_t), &bytes) ? NULL : memory_create (bytes);
}

/* Room for @p samples; the first @p kept entries stay. */
static enum accel_status
reserve (struct order *order, size_t samples, size_t kept, struct accel_error *err)
{
    if (samples <= order->capacity)
        return ACCEL_OK;
    if (!kept) { /* never two orders at once */
        free (order->indices);
        order->indices = NULL;
        order->capacity = 0;
    }
    int64_t *grown = make_room (samples);
    if (!grown)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an order of %zu samples", samples);
    if (kept)
        memcpy (grown, order->indices, kept * sizeof *grown);
    free (order->indices);
    order->indices = grown;
    order->capacity = samples;
    return ACCEL_OK;
}

static enum accel_status
check_indices (const struct order *order, size_t size, struct accel_error *err)
{
    for (size_t i = 0; i < order->samples; i++)
        if (order->indices[i] < 0 || (size_t) order->indices[i] >= size)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "the sampler's index %zu is %lld, which is out of range: the data set has %zu samples",
                               i,
                               (long long) order->indices[i], size);
    return ACCEL_OK;
}

enum accel_status
order_draw (struct order *order, struct accel_sampler *sampler, size_t size, struct accel_error *err)
{
    size_t samples = accel_sampler_length (sampler);
    order->samples = samples;
    if (sampler_is_identity (sampler))
        return samples <= size ? ACCEL_OK
                               : accel_fail (err, ACCEL_ERR_INVALID,
                                             "the sampler covers %zu samples, but the data set has %zu",
                                             samples, size);
    enum accel_status status = reserve (order, samples, 0, err);
    if (!status)
        status = accel_sampler_draw (sampler, order->indices, err);
    return status || sampler_bound (sampler) <= size ? status : check_indices (order, size, err);
}

/* One batch more.  Batches of a size that was promised have it, but for the last. */
static enum accel_status
add_batch (struct order *order, const struct accel_batch_sampler *sampler, size_t most, size_t number,
           struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (order->samples + most > order->capacity) /* twice as much, so that the whole is copied a few times only */
        status = reserve (order, 2 * order->samples + most, order->samples, err);
    if (status)
        return status;
    size_t count = 0;
    struct accel_error cause = { 0 };
    status = sampler->next (sampler->user, order->indices + order->samples, &count, &cause);
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "the program's batch sampler failed at batch %zu of %zu: %s",
                           number, sampler->length, *cause.text ? cause.text : accel_status_string (status));
    if (count < 1 || count > most)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "batch %zu of the program's batch sampler has %zu samples; expected 1 to %zu", number,
                           count, most);
    if (sampler->batch_size && count < sampler->batch_size && number + 1 < sampler->length)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "batch %zu of the program's batch sampler has %zu samples; all but the last must have %zu",
                           number, count, sampler->batch_size);
    order->samples += count;
    order->ends[number] = order->samples;
    return ACCEL_OK;
}

enum accel_status
order_draw_batches (struct order *order, const struct accel_batch_sampler *sampler, uint64_t epoch, size_t size,
                    struct accel_error *err)
{
    struct accel_error cause = { 0 };
    size_t most = sampler->batch_size ? sampler->batch_size : sampler->most;
    order->samples = 0;
    order->batches = sampler->length;
    size_t *ends = reallocarray (order->ends, sampler->length + 1, sizeof *ends);
    if (!ends)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu batches", sampler->length);
    order->ends = ends;
    enum accel_status status = sampler->start ? sampler->start (sampler->user, epoch, &cause) : ACCEL_OK;
    if (status)
        return accel_fail (err, ACCEL_ERR_CALLBACK, "the program's batch sampler could not start a pass: %s",
                           *cause.text ? cause.text : accel_status_string (status));
    for (size_t i = 0; i < sampler->length && !status; i++)
        status = add_batch (order, sampler, most, i, err);
    return status ? status : check_indices (order, size, err);
}
