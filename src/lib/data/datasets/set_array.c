/* SPDX-License-Identifier: Apache-2.0 */
/* The data set of arrays in memory. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/datasets/set.h"

enum accel_status
accel_dataset_from_arrays (struct accel_dataset **dataset, const struct accel_field *fields, const void *const *arrays,
                           size_t field_count, size_t size, struct accel_error *err)
{
    struct set *set;
    if (!dataset)
        return accel_fail_null (err, __func__, "dataset");
    *dataset = NULL;
    if (!fields || !field_count || !arrays)
        return accel_fail (err, ACCEL_ERR_INVALID, "a data set of arrays needs fields, and an array for each");
    enum accel_status status = set_create (&set, field_count, err);
    if (status)
        return status;
    for (size_t i = 0; i < field_count; i++) {
        size_t bytes;
        status = set_describe (set, i, &fields[i], err);
        if (status)
            goto error;
        if (__builtin_mul_overflow (set->tables[i].row_bytes, size, &bytes)) {
            status = accel_fail (err, ACCEL_ERR_INVALID, "field '%s': %zu samples are too large: size overflows",
                                 fields[i].name, size);
            goto error;
        }
        if (!arrays[i] && bytes) {
            status = accel_fail (err, ACCEL_ERR_INVALID, "field '%s' has no array", fields[i].name);
            goto error;
        }
        set->tables[i].memory = arrays[i];
    }
    set->dataset.size = size;
    *dataset = &set->dataset;
    return ACCEL_OK;

error:
    return set_abandon (set, status);
}
