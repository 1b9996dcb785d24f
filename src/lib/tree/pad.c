/* SPDX-License-Identifier: Apache-2.0 */
/* Making tensors of trees longer; see accel/tree.h. */
#include <config.h>

#include "lib/tree/tree.h"

#include "lib/base/error.h"
#include "lib/kernels/dtypes.h"
#include "lib/kernels/floats.h"
#include "lib/memory/memory.h"

#include <math.h>
#include <string.h>

static enum accel_status
encode_integer (enum accel_dtype dtype, double value, void *bytes, struct accel_error *err)
{
    double least = (double) dtype_range (dtype).min, end = (double) dtype_range (dtype).max + 1;
    if (!(value >= least && value < end && value == nearbyint (value)))
        return accel_fail (err, ACCEL_ERR_INVALID, "cannot pad with %g: it is not a value of type %s", value,
                           accel_dtype_name (dtype));
    dtype_store_integer (bytes, dtype, (int64_t) value);
    return ACCEL_OK;
}

enum accel_status
tree_pad_element (enum accel_dtype dtype, double value, void *bytes, struct accel_error *err)
{
    if (!dtype_is_float (dtype))
        return encode_integer (dtype, value, bytes, err);
    if (dtype == ACCEL_FLOAT64)
        memcpy (bytes, &value, sizeof value);
    else
        floats_narrow (bytes, dtype, &(float){ (float) value }, 1);
    return ACCEL_OK;
}

/* Repeat the first element through the whole tensor. */
static void
fill (struct accel_tensor *tensor)
{
    size_t done = tensor_element_bytes (&tensor->dl), total = accel_tensor_count (&tensor->dl) * done;
    while (done < total) {
        size_t more = done < total - done ? done : total - done;
        memcpy ((char *) tensor->dl.data + done, tensor->dl.data, more);
        done += more;
    }
}

enum accel_status
tree_pad_tensor (struct accel_tensor *padded, const DLTensor *tensor, int dim, const struct tree_pad *pad,
                 struct accel_error *err)
{
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    int64_t shape[ACCEL_MAX_DIMS] = { 0 };
    if (pad->size > INT64_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "too many elements: size overflows");
    for (int i = 0; i < tensor->ndim; i++)
        shape[i] = i == dim ? (int64_t) pad->size : tensor->shape[i];
    unsigned char element[8] = { 0 };
    enum accel_status status = tree_pad_element (dtype, pad->value, element, err);
    if (!status)
        status = tensor_allocate (padded, dtype, tensor->ndim, shape, false, err);
    if (status)
        return status;
    if (accel_tensor_count (&padded->dl))
        memcpy (padded->dl.data, element, accel_dtype_bytes (dtype));
    fill (padded);
    if (!tensor_device_is_host (tensor->device)) {
        struct accel_tensor filled = *padded;
        filled.dl.shape = filled.shape;
        status = memory_send (padded, &filled.dl, tensor->device, err);
        accel_tensor_release (&filled);
        padded->dl.shape = padded->shape;
    }
    if (status)
        return status;
    struct tensor_view part;
    tensor_view_set (&part, &padded->dl);
    tensor_view_narrow (&part, dim, pad->first ? shape[dim] - tensor->shape[dim] : 0, tensor->shape[dim]);
    memory_of (tensor->device)->copy_tensor (&part.dl, tensor);
    return ACCEL_OK;
}

/* The copy is a leaf of the same device. */
static enum accel_status
pad_tensor (struct accel_tree **made, const struct accel_tree *leaf, int dim, const struct tree_pad *pad,
            struct accel_error *err)
{
    struct accel_tensor result;
    enum accel_status status = tree_pad_tensor (&result, &leaf->tensor.dl, dim, pad, err);
    if (status)
        return status;
    if (leaf->tensor.dl.device.device_type == kDLCPU)
        result.dl.device = leaf->tensor.dl.device;
    return tree_own (made, &result, err);
}

static enum accel_status
pad_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
          struct accel_tree **made, struct accel_error *err)
{
    (void) place;
    const struct tree_pad *pad = walk->user;
    enum accel_status status = tree_need_tensor (leaf, err);
    if (status)
        return status;
    int dim = tree_dim (&leaf->tensor.dl, pad->dim);
    if (dim < 0 || (size_t) leaf->tensor.shape[dim] >= pad->size)
        return tree_share (made, leaf, err);
    return pad_tensor (made, leaf, dim, pad, err);
}

enum accel_status
accel_tree_pad (struct accel_tree **padded, const struct accel_tree *tree, int dim, size_t size, double pad_index,
                bool pad_first, struct accel_error *err)
{
    struct tree_pad pad = { .dim = dim, .size = size, .value = pad_index, .first = pad_first };
    struct tree_walk walk = { .call = "accel_tree_pad", .leaf = pad_leaf, .user = &pad };
    return tree_walk (&walk, padded, tree, err);
}

static enum accel_status
pad_input_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
                struct accel_tree **made, struct accel_error *err)
{
    (void) place;
    const struct tree_pad *pad = walk->user;
    enum accel_status status = tree_need_tensor (leaf, err);
    if (status)
        return status;
    if (!leaf->tensor.dl.ndim)
        return accel_fail (err, ACCEL_ERR_INVALID, "a tensor without dimensions has no rows");
    if ((size_t) leaf->tensor.shape[0] > pad->size)
        return accel_fail (err, ACCEL_ERR_INVALID, "%lld rows, more than the %zu of the padded batch",
                           (long long) leaf->tensor.shape[0], pad->size);
    return pad_tensor (made, leaf, 0, pad, err);
}

/* How many rows Accelerate adds; the result is a multiple of the processes in some cases only.  (Its condition
 * `last > to_pad & to_pad < 1` compares three numbers; if it is false although to_pad is 0, nothing changes.) */
static size_t
rows_to_add (size_t batch_size, size_t num_processes)
{
    size_t share = batch_size / num_processes, last = batch_size % num_processes;
    if (!share)
        return num_processes - batch_size;
    if (share < num_processes)
        return num_processes - share;
    return last + (share - num_processes);
}

enum accel_status
accel_pad_input_tensors (struct accel_tree **padded, const struct accel_tree *tree, size_t batch_size,
                         size_t num_processes, struct accel_error *err)
{
    struct tree_pad pad = { 0 };
    if (padded)
        *padded = NULL;
    if (!num_processes)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_pad_input_tensors: num_processes is 0");
    if (__builtin_add_overflow (batch_size, rows_to_add (batch_size, num_processes), &pad.size))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_pad_input_tensors: too many rows: size overflows");
    struct tree_walk walk = { .call = "accel_pad_input_tensors", .leaf = pad_input_leaf, .user = &pad };
    return tree_walk (&walk, padded, tree, err);
}
