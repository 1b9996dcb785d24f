/* SPDX-License-Identifier: Apache-2.0 */
/* Values in PyTorch's files; see python_values.h. */
#include <config.h>

#include "lib/checkpoint/python_values.h"

#include "lib/base/error.h"

bool
python_number (const struct pickle_value *value, double *number)
{
    if (!value || (value->type != PICKLE_INT && value->type != PICKLE_FLOAT && value->type != PICKLE_BOOL))
        return false;
    *number = value->type == PICKLE_FLOAT ? value->real : (double) value->integer;
    return true;
}

enum accel_status
python_add_tensor (struct accel_state_dict *state, const char *name, struct torch_archive *archive,
                   const struct pickle_value *value, struct accel_error *err)
{
    struct torch_tensor tensor;
    uint64_t begin = 0;
    enum accel_status status = torch_archive_find (archive, value, &tensor, &begin, err);
    if (status)
        return accel_fail_in (err, status, "'%.100s'", name);
    return state_dict_add_stored (state, name, tensor.dtype, (size_t) tensor.ndim, tensor.sizes, begin, err);
}
