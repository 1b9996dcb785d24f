/* SPDX-License-Identifier: Apache-2.0 */
/* The data set of neighbouring samples of another one. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/data/datasets/set.h"
#include "util/cleanup.h"

#include <stdlib.h>

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    enum accel_status status = set_check_index (set, index, err);
    return status ? status : set->whole.read (set->whole.user, set->first + index, into, err);
}

static enum accel_status
read_samples (void *user, const int64_t *indices, size_t count, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    AUTO_FREE int64_t *numbers = calloc (count + 1, sizeof *numbers);
    enum accel_status status = numbers ? ACCEL_OK : accel_fail_nomem (err);
    for (size_t i = 0; i < count && !status; i++) {
        status = set_check_index (set, (uint64_t) indices[i], err);
        numbers[i] = indices[i] + (int64_t) set->first;
    }
    return status ? status : set->whole.read_many (set->whole.user, numbers, count, into, err);
}

enum accel_status
accel_dataset_subset_sized (size_t dataset_size, struct accel_dataset **subset, const struct accel_dataset *dataset,
                            size_t first, size_t size, struct accel_error *err)
{
    struct accel_dataset room;
    struct set *set;
    enum accel_status status;
    if (!subset)
        return accel_fail_null (err, "accel_dataset_subset", "subset");
    *subset = NULL;
    if (!dataset)
        return accel_fail_null (err, "accel_dataset_subset", "dataset");
    dataset = SIZED (dataset, dataset_size, room, &status, err);
    if (status)
        return status;
    if (!dataset->read && !dataset->read_many)
        return accel_fail (err, ACCEL_ERR_INVALID, "a stream has no subsets");
    if (first > dataset->size || size > dataset->size - first)
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu samples from %zu on are more than the data set of %zu has",
                           size, first, dataset->size);
    status = set_create (&set, dataset->field_count, err);
    for (size_t i = 0; i < dataset->field_count && !status; i++)
        status = set_describe (set, i, &dataset->fields[i], err);
    if (status)
        return set_abandon (set, status);
    set->whole = *dataset;
    set->first = first;
    set->dataset.size = size;
    set->dataset.read = dataset->read ? read_sample : NULL;
    set->dataset.read_many = dataset->read_many ? read_samples : NULL;
    *subset = &set->dataset;
    return ACCEL_OK;
}
