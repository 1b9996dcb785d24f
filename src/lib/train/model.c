/* SPDX-License-Identifier: Apache-2.0 */
/* Models: named parameters and their gradients. */
#include <config.h>

#include "lib/train/model_object.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/kernels/dtypes.h"
#include "lib/train/file_names.h"
#include "lib/train/model_device.h"
#include "lib/train/packed_parameters.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding_launched.h"
#include "lib/train/sharding_offload.h"
#include "lib/train/staging.h"
#include "lib/train/tensor_parallel.h"
#include "util/cleanup.h"

#include <accel/comm.h>

#include <stdlib.h>
#include <string.h>

enum allowed { ALLOW_ALL, ALLOW_FLOATS, ALLOW_SMALL_FLOATS };

static bool
is_allowed (enum accel_dtype dtype, enum allowed allowed)
{
    return allowed == ALLOW_ALL
           || (dtype_is_small_float (dtype) && (allowed == ALLOW_SMALL_FLOATS || !dtype_is_scaled (dtype)));
}

/* @allowed: what may be trained; buffers are of any type.  @device: where all are. */
static enum accel_status
check_tensor (const char *what, const char *name, const DLTensor *tensor, enum allowed allowed, DLDevice device,
              struct accel_error *err)
{
    if (tensor->ndim < 0 || (tensor->ndim && !tensor->shape))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s of '%s' has no shape", what, name);
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] < 0)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s of '%s' has a negative size in dimension %d", what, name, i);
    if (!memory_of (tensor->device))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s of '%s' is on %s:%d, but this build has no code for %s memory", what, name,
                           tensor_device_name (tensor->device), (int) tensor->device.device_id,
                           tensor_device_name (tensor->device));
    if (!memory_is_same (tensor->device, device))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s of '%s' is on %s:%d, but the first parameter is on %s:%d",
                           what, name, tensor_device_name (tensor->device), (int) tensor->device.device_id,
                           tensor_device_name (device), (int) device.device_id);
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    if (!is_allowed (dtype, allowed))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s of '%s' is %s, but only float32, float16, bfloat16%s can be trained", what, name,
                           accel_dtype_name (dtype),
                           allowed == ALLOW_SMALL_FLOATS ? " and 8-bit floats" : "");
    if (tensor->dtype.bits * tensor->dtype.lanes % 8 || !tensor->dtype.bits)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s of '%s' has elements that are not whole bytes", what, name);
    int64_t bytes = (int64_t) tensor_element_bytes (tensor);
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] && __builtin_mul_overflow (bytes, tensor->shape[i], &bytes))
            return accel_fail (err, ACCEL_ERR_INVALID, "%s of '%s' is too large: size overflows", what, name);
    if (!tensor_is_contiguous (tensor) || tensor->byte_offset)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s of '%s' is not contiguous", what, name);
    return ACCEL_OK;
}

static enum accel_status
check_parameter (const struct accel_parameter *parameters, size_t index, struct accel_error *err)
{
    const struct accel_parameter *parameter = &parameters[index];
    const char *name = parameter->name;
    if (!name || !*name)
        return accel_fail (err, ACCEL_ERR_INVALID, "parameter %zu has no name", index);
    for (size_t i = 0; i < index; i++)
        if (!strcmp (parameters[i].name, name))
            return accel_fail (err, ACCEL_ERR_INVALID, "parameters %zu and %zu are both named '%s'", i, index, name);
    if (!parameter->data)
        return accel_fail (err, ACCEL_ERR_INVALID, "parameter '%s' has no tensor", name);
    DLDevice device = parameters[0].data->device;
    enum accel_status status = check_tensor ("the tensor", name, parameter->data,
                                             parameter->grad ? ALLOW_SMALL_FLOATS : ALLOW_ALL, device, err);
    if (status || !parameter->grad)
        return status;
    status = check_tensor ("the gradient", name, parameter->grad, ALLOW_FLOATS, device, err);
    if (status)
        return status;
    if (parameter->grad == parameter->data)
        return accel_fail (err, ACCEL_ERR_INVALID, "'%s' is its own gradient", name);
    bool same = parameter->grad->ndim == parameter->data->ndim;
    for (int i = 0; same && i < parameter->data->ndim; i++)
        same = parameter->grad->shape[i] == parameter->data->shape[i];
    if (!same)
        return accel_fail (err, ACCEL_ERR_INVALID, "the gradient of '%s' does not have the shape of the parameter",
                           name);
    return ACCEL_OK;
}

static enum accel_status
allocate_data (struct accel_model *model, size_t index, struct accel_error *err)
{
    DLTensor *data = model->parameters[index].data;
    if (data->data)
        return ACCEL_OK;
    size_t bytes;
    if (__builtin_mul_overflow (accel_tensor_count (data), tensor_element_bytes (data), &bytes))
        return accel_fail (err, ACCEL_ERR_NOMEM, "parameter '%s' is too large: size overflows",
                           model->parameters[index].name);
    data->data = model->memory->create (model->device, bytes, true);
    if (!data->data)
        return memory_fail (model->device, err, "cannot allocate memory for parameter '%s' (%zu bytes)",
                            model->parameters[index].name, bytes);
    model->owned[index] = data->data;
    return ACCEL_OK;
}

static void
end_model (struct object *object)
{
    struct accel_model *model = (struct accel_model *) (void *) object;
    const struct memory *home = model_home (model);
    model_release (model);
    prepared_remove (&model->object);
    if (model->placement)
        model_end_placement (model);
    for (size_t i = 0; i < model->count; i++) {
        if (model->owned[i])
            model->parameters[i].data->data = NULL;
        if (model->kept[i] && model->parameters[i].grad->data == model->kept[i])
            model->parameters[i].grad->data = NULL;
        home->destroy (model->device, model->owned[i]);
        home->destroy (model->device, model->kept[i]);
        free ((char *) model->parameters[i].name);
    }
    offload_forget (model);
    sharding_forget_launched (model);
    cut_destroy (model);
    masters_destroy (model);
    staging_end (model);
    model_lists_destroy (model);
    model->memory->destroy (model->device, model->live);
    model->memory->destroy (model->device, model->norms);
    free (model->host_norms);
    file_names_destroy (model->file_names);
    free (model->owned);
    free (model->kept);
    free (model->parameters);
    free (model->views);
    memory_host.destroy (model->device, model->array);
    model->count = 0;
    model->parameters = NULL;
}

static void
let_go (struct object *object)
{
    struct accel_model *model = (struct accel_model *) (void *) object;
    model_release (model);
    if (model->placement && !packed_fetch_own (model, NULL) && !model_fetch (model, NULL)) /* else it stays there */
        model_go_home (model);
}

static const struct object_kind kind_model = {
    .name = kind_of_model, .end = end_model, .prepare = model_prepare, .release = model_unwrap, .let_go = let_go,
    .save = model_save, .load = model_load, .file = "model", .floor = OBJECT_MODEL,
};

enum accel_status
accel_model_create_sized (size_t parameter_size, struct accel_model **model, const struct accel_parameter *parameters,
                          size_t count, struct accel_error *err)
{
    if (!model)
        return accel_fail_null (err, "accel_model_create", "model");
    *model = NULL;
    if (!count || !parameters)
        return accel_fail (err, ACCEL_ERR_INVALID, "a model needs at least one parameter");
    AUTO_FREE struct accel_parameter *resized = NULL;
    enum accel_status status;
    parameters = SIZED_ARRAY (parameters, parameter_size, count, resized, &status, err);
    for (size_t i = 0; i < count && !status; i++)
        status = check_parameter (parameters, i, err);
    if (status)
        return status;
    struct accel_model *made = calloc (1, sizeof *made);
    if (!made)
        goto error;
    made->object = (struct object) OBJECT_INIT (&kind_model);
    made->device = parameters[0].data->device;
    made->memory = memory_of (made->device);
    made->live = made->memory->create (made->device, sizeof *made->live, true);
    made->norms = made->memory->create (made->device, (count + 1) * sizeof *made->norms, false);
    made->host_norms = calloc (count, sizeof *made->host_norms);
    made->parameters = calloc (count, sizeof *made->parameters);
    made->owned = calloc (count, sizeof *made->owned);
    made->kept = calloc (count, sizeof *made->kept);
    if (!made->parameters || !made->owned || !made->kept || !made->live || !made->norms || !made->host_norms)
        goto error;
    made->count = count;
    model_set_defaults (&made->ddp);
    for (size_t i = 0; i < count; i++) {
        made->parameters[i] = parameters[i];
        made->parameters[i].name = strdup (parameters[i].name);
        if (!made->parameters[i].name)
            goto error;
    }
    model_forget_scale (made);
    status = sharding_read_launched (made, err);
    if (!status)
        status = model_lists_create (made, err);
    if (!status)
        status = masters_create (made, err);
    for (size_t i = 0; i < count && !status; i++)
        status = allocate_data (made, i, err);
    if (status) {
        accel_model_destroy (made);
        return status;
    }
    *model = made;
    return ACCEL_OK;
error:
    accel_model_destroy (made);
    return memory_fail (parameters[0].data->device, err, "cannot allocate memory for a model of %zu parameters", count);
}

void
accel_model_destroy (struct accel_model *model)
{
    object_destroy (model ? &model->object : NULL);
}

size_t
accel_model_parameter_count (const struct accel_model *model)
{
    return model ? model->count : 0;
}

const struct accel_parameter *
accel_model_parameter (const struct accel_model *model, size_t index)
{
    return model && index < model->count ? &model->parameters[index] : NULL;
}
