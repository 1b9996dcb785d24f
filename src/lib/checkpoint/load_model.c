/* SPDX-License-Identifier: Apache-2.0 */
/* accel_load_model(): names are matched and everything is checked before the model is changed. */
#include <config.h>

#include "files/weights.h"
#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/checkpoint/pieces.h"
#include "lib/formats/convert.h"
#include "lib/formats/safetensors_object.h"
#include "lib/kernels/matrix.h"
#include "lib/memory/memory.h"
#include "lib/train/file_names.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/tensor_parallel.h"
#include "util/cleanup.h"
#include "util/memory.h"
#include "util/suggest.h"

#include <accel/precision.h>

#include <string.h>

struct names {
    const char **all;
    size_t count;
};

struct load {
    struct accel *acc;
    const struct comm_site *site;
    struct accel_model *model;
    const char *path;
    bool strict;
    struct accel_safetensors *file;
    size_t *tensor_of; /* [parameters] in the file; SIZE_MAX: none */
    bool *transposed;  /* [parameters] */
    size_t *same_as;   /* [parameters] */
    struct names missing, unexpected;
};

/* ---- names ---- */

/* Another name that the file's metadata has for this one, whose numbers it shares. */
static size_t
find_recorded (const struct load *load, const char *name)
{
    const char *other = safetensors_metadata (load->file, name);
    return other ? weights_find (&load->file->weights, other) : SIZE_MAX;
}

/* @return whether tensor @index is the scale of an 8-bit tensor */
static bool
is_scale (const struct load *load, size_t index)
{
    const char *name = load->file->infos[index].name;
    size_t length = strlen (name), suffix = strlen (SCALE_SUFFIX);
    if (length <= suffix || strcmp (name + length - suffix, SCALE_SUFFIX) != 0)
        return false;
    AUTO_FREE char *base = strndup (name, length - suffix);
    size_t found = base ? weights_find (&load->file->weights, base) : SIZE_MAX;
    return found != SIZE_MAX && load->file->infos[found].dl_dtype.bits == 8
           && convert_can (load->file->infos[found].dl_dtype, accel_dtype_to_dl (ACCEL_FLOAT32));
}

/* Under the first of its names that the file has, or records. */
static void
find (struct load *load, size_t parameter, bool recorded)
{
    const char *name;
    size_t *found = &load->tensor_of[parameter];
    for (size_t i = 0; *found == SIZE_MAX; i++) {
        name = file_names_get (load->model, parameter, i, &load->transposed[parameter]);
        if (!name)
            break;
        *found = recorded ? find_recorded (load, name) : weights_find (&load->file->weights, name);
    }
}

/* A tied parameter is loaded under any of its names, as that one lies. */
static void
find_tied (struct load *load, size_t parameter)
{
    for (size_t j = 0; j < load->model->count && load->tensor_of[parameter] == SIZE_MAX; j++)
        if (load->same_as[j] == load->same_as[parameter]) {
            load->tensor_of[parameter] = load->tensor_of[j];
            load->transposed[parameter] = load->transposed[j];
        }
}

static enum accel_status
match (struct load *load, struct accel_error *err)
{
    const struct weights *weights = &load->file->weights;
    size_t count = load->model->count;
    AUTO_FREE bool *used = calloc (weights->count + 1, sizeof *used);
    load->tensor_of = calloc (count, sizeof *load->tensor_of);
    load->transposed = calloc (count, sizeof *load->transposed);
    load->same_as = calloc (count, sizeof *load->same_as);
    load->missing.all = calloc (count, sizeof *load->missing.all);
    load->unexpected.all = calloc (weights->count + 1, sizeof *load->unexpected.all);
    if (!used || !load->tensor_of || !load->transposed || !load->same_as || !load->missing.all || !load->unexpected.all)
        return accel_fail_nomem (err);
    pieces_find_tied (load->model, load->same_as);
    for (size_t i = 0; i < count; i++)
        load->tensor_of[i] = SIZE_MAX;
    for (int recorded = 0; recorded < 2; recorded++) {
        for (size_t i = 0; i < count; i++)
            find (load, i, recorded);
        for (size_t i = 0; i < count; i++)
            find_tied (load, i);
    }
    for (size_t i = 0; i < count; i++)
        if (load->tensor_of[i] != SIZE_MAX)
            used[load->tensor_of[i]] = true;
    for (size_t i = 0; i < count; i++)
        if (load->tensor_of[i] == SIZE_MAX)
            load->missing.all[load->missing.count++] = load->model->parameters[i].name;
    for (size_t i = 0; i < weights->count; i++)
        if (!used[i] && !is_scale (load, i) && !file_names_ignore (load->model, load->file->infos[i].name))
            load->unexpected.all[load->unexpected.count++] = load->file->infos[i].name;
    return ACCEL_OK;
}

static void
add_names (struct strbuf *text, const char *what, const struct names *names, const struct names *others)
{
    enum { SHOWN = 3 };
    if (!names->count)
        return;
    strbuf_printf (text, "%s%zu %s ", text->length ? "; " : "", names->count, what);
    for (size_t i = 0; i < names->count && i < SHOWN; i++) {
        char space[128];
        struct suggest suggest = { .wanted = names->all[i] };
        for (size_t j = 0; others && j < others->count; j++)
            suggest_consider (&suggest, others->all[j]);
        strbuf_printf (text, "%s'%.60s'%s", i ? ", " : "", names->all[i],
                       suggest_text (&suggest, "", space, sizeof space));
    }
    if (names->count > SHOWN)
        strbuf_add (text, " ...");
}

/* "did you mean" belongs to what is missing: the file has it under a similar name. */
static enum accel_status
check_names (const struct load *load, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (!load->strict || (!load->missing.count && !load->unexpected.count))
        return ACCEL_OK;
    add_names (&text, load->missing.count == 1 ? "parameter is missing:" : "parameters are missing:", &load->missing,
               &load->unexpected);
    add_names (&text, load->unexpected.count == 1 ? "unexpected tensor:" : "unexpected tensors:", &load->unexpected,
               NULL);
    return accel_fail (err, ACCEL_ERR_INVALID, "%s does not fit the model: %s", load->path, text.text ? text.text : "");
}

/* ---- shapes and types ---- */

static void
add_shape (struct strbuf *text, int ndim, const int64_t *shape)
{
    strbuf_add_char (text, '[');
    for (int i = 0; i < ndim; i++)
        strbuf_printf (text, "%s%lld", i ? ", " : "", (long long) shape[i]);
    strbuf_add_char (text, ']');
}

static enum accel_status
check_tensor (const struct load *load, size_t parameter, struct accel_error *err)
{
    const struct accel_safetensors_info *info = &load->file->infos[load->tensor_of[parameter]];
    struct whole whole;
    whole_describe (&whole, load->model, parameter, load->model->parameters[parameter].data);
    const DLTensor *tensor = &whole.tensor;
    AUTO_STRBUF struct strbuf ours = { 0 };
    AUTO_STRBUF struct strbuf theirs = { 0 };
    bool same = info->ndim == tensor->ndim;
    for (int i = 0; i < tensor->ndim && same; i++)
        same = info->shape[i] == tensor->shape[load->transposed[parameter] ? 1 - i : i];
    if (!same) {
        add_shape (&ours, tensor->ndim, tensor->shape);
        add_shape (&theirs, info->ndim, info->shape);
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: tensor '%.80s' has shape %.80s, but the parameter '%.80s' has %.80s%s", info->path,
                           info->name, theirs.text ? theirs.text : "?", load->model->parameters[parameter].name,
                           ours.text ? ours.text : "?", load->transposed[parameter] ? ", transposed" : "");
    }
    if (!convert_can (tensor->dtype, info->dl_dtype))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s' is %s and cannot be converted to %s", info->path,
                           info->name, info->dtype_name, accel_dtype_name (accel_dtype_from_dl (tensor->dtype)));
    return ACCEL_OK;
}

/* ---- reading ---- */

/* What 8-bit elements are to be multiplied by: 1 unless the file says otherwise. */
static enum accel_status
read_scale (const struct load *load, size_t index, float *scale, struct accel_error *err)
{
    AUTO_FREE char *name = NULL;
    *scale = 1;
    if (load->file->infos[index].dl_dtype.bits != 8)
        return ACCEL_OK;
    if (asprintf (&name, "%s" SCALE_SUFFIX, load->file->infos[index].name) < 0) {
        name = NULL;
        return accel_fail_nomem (err);
    }
    size_t found = weights_find (&load->file->weights, name);
    if (found == SIZE_MAX || !is_scale (load, found))
        return ACCEL_OK;
    DLTensor into = { .data = scale, .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    return accel_safetensors_read (load->file, found, NULL, NULL, &into, err);
}

/* By a copy in memory of the host. */
static enum accel_status
read_transposed (const struct load *load, size_t index, const DLTensor *into, struct accel_error *err)
{
    size_t element = convert_element_bytes (into->dtype), bytes = accel_tensor_count (into) * element;
    AUTO_FREE char *copy = memory_create (2 * bytes + 1);
    if (!copy)
        return accel_fail_nomem (err);
    DLTensor theirs = { .data = copy, .device = { kDLCPU, 0 }, .ndim = 2, .dtype = into->dtype,
                        .shape = (int64_t[]){ into->shape[1], into->shape[0] } };
    enum accel_status status = accel_safetensors_read (load->file, index, NULL, NULL, &theirs, err);
    if (status)
        return status;
    matrix_transpose (copy + bytes, copy, (size_t) theirs.shape[0], (size_t) theirs.shape[1], element);
    memory_of (into->device)->write (into->device, memory_data (into), copy + bytes, bytes);
    return memory_check (into->device, err);
}

static enum accel_status
read_tensor (const struct load *load, size_t parameter, struct accel_error *err)
{
    size_t index = load->tensor_of[parameter];
    DLTensor *master = accel_model_master (load->model, parameter);
    const DLTensor *part = master ? master : load->model->parameters[parameter].data, *into;
    struct whole whole;
    float scale;
    enum accel_status status = sharding_open_layer (load->model, parameter, err);
    if (status)
        return status;
    status = whole_begin (&whole, load->model, parameter, part, err);
    into = &whole.tensor;
    if (!status)
        status = read_scale (load, index, &scale, err);
    if (!status && scale != 1 && sharding_is_on (load->model))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                             "%s: 8-bit tensors cannot be loaded into a sharded model: load it before accel_prepare",
                             load->path);
    if (!status && load->transposed[parameter])
        status = read_transposed (load, index, into, err);
    else if (!status)
        status = accel_safetensors_read (load->file, index, NULL, NULL, into, err);
    if (!status && scale != 1 && accel_dtype_from_dl (into->dtype) == ACCEL_FLOAT32)
        memory_of (into->device)->scale (into->device, memory_data (into), ACCEL_FLOAT32, accel_tensor_count (into),
                                         (double) scale);
    status = whole_end (&whole, status, err);
    sharding_discard_layer (load->model, parameter, !status);
    return status;
}

static enum accel_status
read_all (struct load *load, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct io_progress progress;
    uint64_t bytes = 0;
    for (size_t i = 0; i < load->model->count; i++)
        bytes += load->tensor_of[i] == SIZE_MAX ? 0 : load->file->infos[load->tensor_of[i]].bytes;
    io_progress_begin (&progress, checkpoint_show (load->acc), IO_PROGRESS_LOAD, load->path, bytes);
    for (size_t i = 0; i < load->model->count && !status; i++)
        if (load->tensor_of[i] != SIZE_MAX)
            status = read_tensor (load, i, err);
    io_progress_end (&progress, status);
    accel_model_narrow (load->model);
    return status;
}

static enum accel_status
load_parameters (struct load *load, struct accel_error *err)
{
    if (load->model->sharding.packed) { /* one by one: there need not be room for all on the GPU */
        sharding_settle_layers (load->model);
        return checkpoint_agree (load->acc, load->site, read_all (load, err), err);
    }
    enum accel_status status = sharding_summon (load->model, load->site, err);
    if (!status)
        status = checkpoint_agree (load->acc, load->site, read_all (load, err), err);
    sharding_dismiss (load->model);
    return status;
}

/* ---- the result ---- */

/* One piece of memory: the struct, the addresses, the names. */
static struct accel_load_result *
make_result (const struct load *load)
{
    const struct names *names[] = { &load->missing, &load->unexpected };
    size_t count = load->missing.count + load->unexpected.count, bytes = 0, at = 0;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < names[k]->count; i++)
            bytes += strlen (names[k]->all[i]) + 1;
    struct accel_load_result *result = malloc (sizeof *result + count * sizeof (char *) + bytes);
    if (!result)
        return NULL;
    const char **list = (const char **) (void *) (result + 1);
    char *text = (char *) (list + count);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < names[k]->count; i++, at++) {
            size_t length = strlen (names[k]->all[i]) + 1;
            list[at] = memcpy (text, names[k]->all[i], length);
            text += length;
        }
    *result = (struct accel_load_result){ .missing_count = load->missing.count,
                                          .missing = list,
                                          .unexpected_count = load->unexpected.count,
                                          .unexpected = list + load->missing.count };
    return result;
}

static enum accel_status
prepare (struct load *load, const struct accel_safetensors_options *options, const struct accel_load_result **result,
         struct accel_error *err)
{
    struct checkpoint_part *part = checkpoint_of (load->acc);
    free (part->load_result);
    part->load_result = NULL;
    enum accel_status status = accel_safetensors_open (&load->file, load->path, options, err);
    if (!status)
        status = match (load, err);
    if (!status && result && !(*result = part->load_result = make_result (load)))
        status = accel_fail_nomem (err);
    if (!status)
        status = check_names (load, err);
    for (size_t i = 0; i < load->model->count && !status; i++)
        if (load->tensor_of[i] != SIZE_MAX)
            status = check_tensor (load, i, err);
    return status;
}

enum accel_status
accel_load_model_at (const char *file, int line, size_t options_size, struct accel *acc, struct accel_model *model,
                     const char *path, const struct accel_load_result **result,
                     const struct accel_load_model_options *options, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_LOAD_MODEL };
    struct accel_load_model_options room;
    struct accel_error own = { 0 };
    enum accel_status status;
    if (result)
        *result = NULL;
    if (!acc || !model || !path)
        return accel_fail_null (err, "accel_load_model", !acc ? "acc" : !model ? "model" : "path");
    options = SIZED (options, options_size, room, &status, err);
    if (!status && options)
        status = flag_check (options->strict, "strict", err);
    if (status)
        return status;
    struct accel_safetensors_options how = { .follow_links = options && options->follow_links };
    struct load load = { .acc = acc, .site = &site, .model = model, .path = path,
                         .strict = !options || flag_or (options->strict, true) };
    uint64_t entered = checkpoint_enter (acc, &site);
    status = checkpoint_agree (acc, &site, prepare (&load, &how, result, &own), &own);
    if (!status)
        status = load_parameters (&load, &own);
    accel_safetensors_close (load.file);
    free (load.tensor_of);
    free (load.transposed);
    free (load.same_as);
    free (load.missing.all);
    free (load.unexpected.all);
    return checkpoint_leave (acc, &site, entered, status, &own, err);
}
