/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tensors: which, their norms, and the way from the whole to the part; see tensor_parallel.h. */
#include <config.h>

#include "lib/train/tensor_parallel.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/collectives/parallel.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/dtypes.h"
#include "lib/kernels/floats_element.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/stretches.h"
#include "util/cleanup.h"

#include <accel/precision.h>

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one tensor ---- */

/* The part of process @rank in a whole tensor, and a tensor that has only it, as [before, blocks, after]. */
struct views {
    int64_t shape[3], strides[3];
    DLTensor part, place;
};

static void
make_views (struct views *views, const struct accel_model *model, size_t index, const DLTensor *like, void *whole,
            void *part, int rank)
{
    const struct model_cut *cut = &model->cuts[index];
    int64_t before = 1, after = 1, blocks = (int64_t) cut->blocks;
    for (int d = 0; d < cut->ndim; d++)
        *(d < cut->dim ? &before : &after) *= cut->shape[d];
    after /= blocks;
    *views = (struct views){ .shape = { before, blocks, after },
                             .strides = { blocks * after * model->tp_size, after * model->tp_size, 1 } };
    views->part = (DLTensor){ .data = part, .device = like->device, .ndim = 3, .dtype = like->dtype,
                              .shape = views->shape };
    views->place = views->part;
    views->place.data = memory_at (whole, (size_t) (after * rank), tensor_element_bytes (&views->part));
    views->place.strides = views->strides;
}

void
cut_copy (const struct accel_model *model, size_t index, const DLTensor *like, void *whole, void *part, int rank,
          bool is_to_whole)
{
    struct views views;
    make_views (&views, model, index, like, whole, part, rank);
    memory_of (like->device)->copy_tensor (is_to_whole ? &views.place : &views.part,
                                           is_to_whole ? &views.part : &views.place);
}

bool
cut_has (const struct accel_model *model, size_t index)
{
    return model->cuts && model->cuts[index].blocks;
}

void
whole_describe (struct whole *whole, const struct accel_model *model, size_t index, const DLTensor *part)
{
    *whole = (struct whole){ .tensor = *part, .model = model, .index = index, .part = part };
    if (!cut_has (model, index))
        return;
    for (int d = 0; d < part->ndim; d++)
        whole->shape[d] = part->shape[d] * (d == model->cuts[index].dim ? model->tp_size : 1);
    whole->tensor.shape = whole->shape;
    whole->tensor.strides = NULL;
    whole->tensor.byte_offset = 0;
    whole->tensor.data = NULL;
}

enum accel_status
whole_begin (struct whole *whole, const struct accel_model *model, size_t index, const DLTensor *part,
             struct accel_error *err)
{
    whole_describe (whole, model, index, part);
    if (!cut_has (model, index))
        return ACCEL_OK;
    size_t bytes = accel_tensor_count (&whole->tensor) * tensor_element_bytes (part);
    whole->tensor.data = whole->memory = memory_of (part->device)->create (part->device, bytes, false);
    return whole->memory ? ACCEL_OK
                         : memory_fail (part->device, err, "cannot allocate memory for the whole of '%s' (%zu bytes)",
                                        model->parameters[index].name, bytes);
}

void
whole_destroy (struct whole *whole)
{
    DLDevice device = whole->tensor.device;
    memory_of (device)->destroy (device, whole->memory);
    whole->memory = NULL;
}

enum accel_status
whole_end (struct whole *whole, enum accel_status status, struct accel_error *err)
{
    const struct accel_model *model = whole->model;
    if (!whole->memory)
        return status;
    if (!status) {
        cut_copy (model, whole->index, whole->part, whole->memory, memory_data (whole->part), model->tp_rank, false);
        status = memory_check (whole->part->device, err);
    }
    whole_destroy (whole);
    return status;
}

/* ---- cutting a model ---- */

static enum accel_status
check_cut (const struct accel_model *model, size_t index, const struct accel_partition *row, int size,
           struct accel_error *err)
{
    static const char function[] = "accel_model_set_tensor_parallel";
    const struct accel_parameter *parameter = &model->parameters[index];
    const DLTensor *data = parameter->data;
    uint64_t blocks = row->blocks ? row->blocks : 1;
    if (row->dim >= (uint64_t) data->ndim || data->ndim > ACCEL_MAX_DIMS)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: '%s' has %d dimensions, none of which is %llu", function,
                           parameter->name, (int) data->ndim, (unsigned long long) row->dim);
    if (blocks > INT32_MAX || (uint64_t) data->shape[row->dim] % (blocks * (uint64_t) size))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: dimension %d of '%s', %lld in %llu block(s), cannot be cut "
                           "into %d equal parts", function, (int) row->dim, parameter->name,
                           (long long) data->shape[row->dim], (unsigned long long) blocks, size);
    if (parameter->grad && dtype_is_scaled (accel_dtype_from_dl (data->dtype)))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: '%s' is of 8 bits, with one scale for all of its elements",
                           function, parameter->name);
    for (size_t i = 0; i < model->count; i++)
        if (i != index && model->parameters[i].data->data == data->data && accel_tensor_count (data))
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: '%s' has the memory of '%s': tied parameters cannot be "
                               "cut", function, parameter->name, model->parameters[i].name);
    return ACCEL_OK;
}

/* The first row that matches a parameter counts. */
static enum accel_status
choose_cuts (const struct accel_model *model, const struct accel_partition *rows, size_t count, int size,
             struct model_cut *cuts, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    AUTO_FREE bool *used = calloc (count + 1, sizeof *used);
    if (!used)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < model->count && !status; i++) {
        bool found = false;
        for (size_t r = 0; r < count; r++) {
            if (rows[r].match && fnmatch (rows[r].match, model->parameters[i].name, 0))
                continue;
            used[r] = true;
            if (!found)
                status = check_cut (model, i, &rows[r], size, err);
            if (!found && !status)
                cuts[i] = (struct model_cut){ .blocks = rows[r].blocks ? rows[r].blocks : 1, .dim = (int) rows[r].dim };
            found = true;
        }
    }
    for (size_t r = 0; r < count && !status; r++)
        if (!used[r])
            status = accel_fail (err, ACCEL_ERR_INVALID,
                                 "accel_model_set_tensor_parallel: row %zu: '%.80s' matches no parameter", r,
                                 rows[r].match ? rows[r].match : "*");
    return status;
}

/* @tensor has the shape of its part already.  @owned: of its memory, if that is the model's */
static enum accel_status
keep_part (const struct accel_model *model, size_t index, DLTensor *tensor, void **owned, struct accel_error *err)
{
    size_t bytes = accel_tensor_count (tensor) * tensor_element_bytes (tensor);
    if (!tensor->data)
        return ACCEL_OK;
    void *part = model->memory->create (model->device, bytes, false);
    if (!part)
        return memory_fail (model->device, err, "cannot allocate memory for a part of '%s' (%zu bytes)",
                            model->parameters[index].name, bytes);
    cut_copy (model, index, tensor, tensor->data, part, model->tp_rank, false);
    void *given_back = owned && *owned == tensor->data ? tensor->data : part;
    if (given_back == part)
        model->memory->copy (model->device, tensor->data, part, bytes);
    else
        tensor->data = *owned = part;
    enum accel_status status = memory_check (model->device, err);
    model->memory->destroy (model->device, given_back);
    return status;
}

static void
set_shape (DLTensor *tensor, struct cut_shape *given, int64_t *shape)
{
    *given = (struct cut_shape){ tensor->shape, tensor->strides };
    tensor->shape = shape;
    tensor->strides = NULL;
}

static enum accel_status
cut_parameter (struct accel_model *model, size_t index, struct accel_error *err)
{
    struct model_cut *cut = &model->cuts[index];
    const struct accel_parameter *parameter = &model->parameters[index];
    struct master *master = &model->masters[index];
    cut->ndim = parameter->data->ndim;
    for (int d = 0; d < parameter->data->ndim; d++)
        cut->shape[d] = parameter->data->shape[d] / (d == cut->dim ? model->tp_size : 1);
    set_shape (parameter->data, &cut->data, cut->shape);
    if (parameter->grad)
        set_shape (parameter->grad, &cut->grad, cut->shape);
    cut->is_shaped = true;
    enum accel_status status = keep_part (model, index, parameter->data, &model->owned[index], err);
    if (!status && parameter->grad)
        status = keep_part (model, index, parameter->grad, NULL, err);
    if (!status && master->tensor.data) {
        master->tensor.shape = cut->shape;
        status = keep_part (model, index, &master->tensor, &master->tensor.data, err);
    }
    return status;
}

enum accel_status
accel_model_set_tensor_parallel_sized (size_t row_size, struct accel_model *model, const struct accel *acc,
                                       const struct accel_partition *rows, size_t count, struct accel_error *err)
{
    static const char function[] = "accel_model_set_tensor_parallel";
    AUTO_FREE struct accel_partition *room = NULL;
    enum accel_status status;
    if (!model || !acc || (count && !rows))
        return accel_fail_null (err, function, !model ? "model" : !acc ? "acc" : "rows");
    const struct accel_partition *own = SIZED_ARRAY (rows, row_size, count, room, &status, err);
    if (status)
        return status;
    bool is_offloaded = model->sharding.masters_file;
    if (model->object.owner || model->optimizers || model->cuts || sharding_is_on (model) || is_offloaded)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the model %s", function,
                           model->object.owner ? "is already prepared"
                           : model->optimizers ? "already has an optimizer"
                           : is_offloaded      ? "has been offloaded"
                                               : "has already been divided");
    const struct accel_comm *comm = parallel_tensor_comm (acc);
    int size = comm ? accel_comm_size (comm) : 1;
    struct model_cut *cuts = calloc (model->count, sizeof *cuts);
    status = cuts ? choose_cuts (model, own, count, size, cuts, err) : accel_fail_nomem (err);
    if (status || size == 1) {
        free (cuts);
        return status;
    }
    model->cuts = cuts;
    model->tp_size = size;
    model->tp_rank = accel_comm_rank (comm);
    for (size_t i = 0; i < model->count && !status; i++)
        if (cut_has (model, i))
            status = cut_parameter (model, i, err);
    return status;
}

void
cut_destroy (struct accel_model *model)
{
    for (size_t i = 0; model->cuts && i < model->count; i++) {
        const struct model_cut *cut = &model->cuts[i];
        const struct accel_parameter *parameter = &model->parameters[i];
        if (!cut->is_shaped)
            continue;
        parameter->data->shape = cut->data.shape;
        parameter->data->strides = cut->data.strides;
        if (!parameter->grad)
            continue;
        parameter->grad->shape = cut->grad.shape;
        parameter->grad->strides = cut->grad.strides;
    }
    free (model->cuts);
    model->cuts = NULL;
}

/* ---- training ---- */

struct accel_model *
cut_first (const struct accel *acc)
{
    struct accel_model *model = model_first (acc);
    while (model && !model->cuts)
        model = model_next (model);
    return model;
}

enum accel_status
cut_check (const struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    const struct accel_comm *comm = parallel_tensor_comm (acc);
    int size = comm ? accel_comm_size (comm) : 1, rank = comm ? accel_comm_rank (comm) : 0;
    if (!model->cuts || (size == model->tp_size && rank == model->tp_rank))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "accel_prepare: the model was cut for process %d of %d that divide its "
                       "tensors, but this is %d of %d", model->tp_rank, model->tp_size, rank, size);
}

struct accel_comm *
cut_comm (const struct accel_model *model, size_t index, struct accel *acc)
{
    return cut_has (model, index) ? parallel_data_comm (acc) : accel_world (acc);
}

enum accel_status
cut_broadcast (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct accel_comm *comm = parallel_tensor_comm (acc);
    enum accel_status status = ACCEL_OK;
    masters_need (model);
    for (size_t i = 0; comm && i < model->count && !status; i++) {
        const DLTensor *data = model->trained[i].data;
        struct comm_site there = comm_site_on (site, data->device); /* offloaded masters are on the host */
        if (!cut_has (model, i))
            status = comm_broadcast (comm, &there, memory_data (data),
                                     accel_tensor_count (data) * tensor_element_bytes (data), ACCEL_UINT8, 0, err);
    }
    return status ? status : model_make_equal (model, acc, parallel_data_comm (acc), site, err);
}

/* The norm of several norms: p-th powers add up. */
UNFUSED static float
join_norms (const float *norms, size_t stride, int count, double p)
{
    double sum = 0;
    float most = 0;
    for (int r = 0; r < count; r++) {
        float norm = norms[(size_t) r * stride];
        most = isnan (most) || norm <= most ? most : norm;
        sum += p ? norm_term (norm, p) : (double) norm;
    }
    return isinf (p) ? most : norm_of_sum (sum, p);
}

/* All processes have all norms, and so the same bits. */
enum accel_status
cut_norms (struct accel_model *model, const struct comm_site *site, double p, struct accel_error *err)
{
    size_t count = model_gradients (model)->count, next = 0;
    if (!model->cuts || !model->object.owner)
        return ACCEL_OK;
    AUTO_FREE float *all = calloc (count * (size_t) model->tp_size + 1, sizeof *all);
    struct accel_comm *comm = parallel_tensor_comm (model->object.owner);
    if (!all) {
        comm_give_up (comm, "cannot allocate memory for norms");
        return accel_fail_nomem (err);
    }
    enum accel_status status = comm_all_gather (comm, site, model->host_norms, all, count, ACCEL_FLOAT32, err);
    for (size_t i = 0; i < model->count && !status; i++) {
        if (!model_is_trained (model, i))
            continue;
        /* Whole gradients are averaged by each column of the grid, and may differ in their last bits: the first's. */
        model->host_norms[next] = cut_has (model, i) ? join_norms (all + next, count, model->tp_size, p) : all[next];
        next++;
    }
    return status;
}
