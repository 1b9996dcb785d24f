/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model as they are in files; see pieces.h. */
#include <config.h>

#include "lib/checkpoint/pieces.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/formats/convert.h"
#include "lib/kernels/dtypes.h"
#include "lib/train/file_names.h"
#include "lib/train/packed_parameters.h"
#include "util/cleanup.h"

#include <accel/precision.h>

#include <string.h>

uint64_t
piece_bytes (const struct piece *piece)
{
    return (uint64_t) accel_tensor_count (&piece->from) * convert_element_bytes (piece->to);
}

void
pieces_find_tied (const struct accel_model *model, size_t *same_as)
{
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *tensor = model->parameters[i].data;
        size_t bytes = accel_tensor_count (tensor) * convert_element_bytes (tensor->dtype);
        same_as[i] = i;
        for (size_t j = 0; j < i && bytes && same_as[i] == i; j++) {
            const DLTensor *other = model->parameters[j].data;
            if (packed_first (model, i) != packed_first (model, j))
                continue;
            if (packed_first (model, i) != SIZE_MAX)
                same_as[i] = same_as[j];
            else if (other->data == tensor->data
                && accel_tensor_count (other) * convert_element_bytes (other->dtype) == bytes)
                same_as[i] = same_as[j];
        }
    }
}

static enum accel_status
add (struct pieces *pieces, const char *name, const char *suffix, const DLTensor *from, DLDataType to,
     struct accel_error *err)
{
    struct piece *piece = &pieces->all[pieces->count];
    *piece = (struct piece){ .from = *from, .to = to };
    if (asprintf (&piece->name, "%s%s", name, suffix) < 0)
        return accel_fail_nomem (err);
    pieces->count++;
    return ACCEL_OK;
}

/* A master, of which rank 0 has all if it is divided: accel_save_model() has collected it.  A sharded model that is not
 * prepared has none: it would begin from the parameter. */
static const DLTensor *
find_numbers (struct accel_model *model, size_t index)
{
    const DLTensor *master = accel_model_master (model, index);
    if (sharding_is_on (model) && model->object.owner)
        master = model->trained[index].data;
    return master ? master : model->parameters[index].data;
}

static enum accel_status
add_parameter (struct pieces *pieces, struct accel_model *model, size_t index,
               const struct accel_save_model_options *options, struct accel_error *err)
{
    bool transposed;
    const char *name = file_names_get (model, index, 0, &transposed);
    const DLTensor *tensor = model->parameters[index].data;
    struct piece *piece = &pieces->all[pieces->count];
    DLDataType as = accel_dtype_to_dl (options->dtype), to = tensor->dtype;
    enum accel_status status;
    if (options->precision != ACCEL_SAVE_TRAINED)
        tensor = find_numbers (model, index);
    if (options->precision == ACCEL_SAVE_AS && convert_can (as, tensor->dtype))
        to = as;
    else if (options->precision != ACCEL_SAVE_TRAINED)
        to = model->trained[index].data->dtype;
    status = add (pieces, name, "", tensor, to, err);
    piece->transposed = transposed;
    for (int i = 0; i < 2 && transposed; i++)
        piece->turned[i] = tensor->shape[1 - i];
    if (status || options->precision != ACCEL_SAVE_TRAINED || !dtype_is_scaled (accel_dtype_from_dl (tensor->dtype)))
        return status;
    pieces->scales[index] = accel_model_scale (model, index);
    DLTensor scale = { .data = &pieces->scales[index],
                       .device = { kDLCPU, 0 },
                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    return add (pieces, name, SCALE_SUFFIX, &scale, scale.dtype, err);
}

enum accel_status
pieces_list (struct pieces *pieces, struct accel_model *model, const struct accel_save_model_options *options,
             struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *pieces = (struct pieces){ .parameters = model->count };
    pieces->all = calloc (2 * model->count, sizeof *pieces->all);
    pieces->same_as = calloc (model->count, sizeof *pieces->same_as);
    pieces->piece_of = calloc (model->count, sizeof *pieces->piece_of);
    pieces->scales = calloc (model->count, sizeof *pieces->scales);
    if (!pieces->all || !pieces->same_as || !pieces->piece_of || !pieces->scales)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the names of %zu parameters",
                             model->count);
    if (!status)
        pieces_find_tied (model, pieces->same_as);
    for (size_t i = 0; i < model->count && !status; i++) {
        bool tied = pieces->same_as[i] != i;
        pieces->piece_of[i] = tied ? pieces->piece_of[pieces->same_as[i]] : pieces->count;
        if (!tied)
            status = add_parameter (pieces, model, i, options, err);
    }
    return status;
}

void
pieces_release (struct pieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++)
        free (pieces->all[i].name);
    free (pieces->all);
    free (pieces->same_as);
    free (pieces->piece_of);
    free (pieces->scales);
    *pieces = (struct pieces){ 0 };
}
