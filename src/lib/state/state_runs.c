/* SPDX-License-Identifier: Apache-2.0 */
/* Stored tensors in several pieces; see state_runs.h. */
/* circle: state_dict state_read state_runs: one object, whose runs know its header, and which is read through them */
#include <config.h>

#include "lib/state/state_runs.h"

#include "files/dcp.h"
#include "lib/base/error.h"
#include "util/array.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* Of all tensors together; a share of a process has one for each tensor, or a few. */
enum { MOST_RUNS = 1 << 24 };

/* ---- adding ---- */

static struct state_runs *
runs_of (struct accel_state_dict *state)
{
    if (!state->runs)
        state->runs = calloc (1, sizeof *state->runs);
    return state->runs;
}

static enum accel_status
add_run (struct state_runs *runs, const struct state_run *run, struct accel_error *err)
{
    if (runs->count >= MOST_RUNS)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "the tensors are in more than %d pieces", MOST_RUNS);
    if (!array_room (&runs->all, runs->count, sizeof *runs->all))
        return accel_fail_nomem (err);
    runs->all[runs->count++] = *run;
    return ACCEL_OK;
}

enum accel_status
state_dict_add_run (struct accel_state_dict *state, const char *name, enum safetensors_dtype dtype, size_t ndim,
                    const uint64_t *shape, uint64_t from, uint64_t bytes, uint64_t begin, struct accel_error *err)
{
    struct state_runs *runs = runs_of (state);
    enum accel_status status = runs ? state_dict_add_stored (state, name, dtype, ndim, shape, 0, err)
                                    : accel_fail_nomem (err);
    const struct state_run run
        = { .tensor = state->header.count - 1, .from = from, .bytes = bytes, .begin = begin };
    return status || !bytes ? status : add_run (runs, &run, err);
}

/* ---- putting them together ---- */

static uint64_t
bytes_of (const struct safetensors_tensor *tensor)
{
    uint64_t bytes = safetensors_dtype_bits (tensor->dtype) / 8;
    for (size_t i = 0; i < tensor->ndim; i++)
        bytes *= (uint64_t) tensor->shape[i];
    return bytes;
}

static bool
is_same (const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim
           && (!a->ndim || !memcmp (a->shape, b->shape, a->ndim * sizeof *a->shape));
}

/* What each has added of a tensor becomes one.  @param[out] places  [header->count]: of what was added */
static enum accel_status
join_tensors (struct safetensors *header, size_t *places, struct accel_error *err)
{
    size_t count = 0;
    struct safetensors_tensor *joined = calloc (header->count + 1, sizeof *joined);
    enum accel_status status = joined ? ACCEL_OK : accel_fail_nomem (err);
    for (size_t i = 0; joined && i < header->count; i++) {
        struct safetensors_tensor *tensor = &header->tensors[header->by_name[i]];
        bool is_new = !count || strcmp (joined[count - 1].name, tensor->name);
        if (is_new)
            joined[count++] = *tensor;
        else if (!status && !is_same (&joined[count - 1], tensor))
            status = accel_fail (err, ACCEL_ERR_FORMAT, "tensor '%.100s' has several shapes or types", tensor->name);
        places[header->by_name[i]] = count - 1;
        if (!is_new) {
            free (tensor->name);
            free (tensor->shape);
        }
    }
    if (!joined)
        return status;
    free (header->tensors);
    header->tensors = joined;
    header->count = count;
    for (size_t i = 0; i < count; i++)
        header->by_name[i] = i;
    return status;
}

static int
compare_runs (const void *a, const void *b)
{
    const struct state_run *x = a, *y = b;
    return x->tensor != y->tensor ? (x->tensor > y->tensor) - (x->tensor < y->tensor)
                                  : (x->from > y->from) - (x->from < y->from);
}

/* Sort the runs, and check that they are all of each tensor. */
static enum accel_status
index_runs (struct accel_state_dict *state, struct accel_error *err)
{
    struct state_runs *runs = state->runs;
    const struct safetensors *header = &state->header;
    size_t next = 0;
    if (runs->count)
        qsort (runs->all, runs->count, sizeof *runs->all, compare_runs);
    runs->first = calloc (header->count + 1, sizeof *runs->first);
    if (!runs->first)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < header->count; i++) {
        uint64_t at = 0, bytes = bytes_of (&header->tensors[i]);
        header->tensors[i].begin = i;
        runs->first[i] = next;
        while (next < runs->count && runs->all[next].tensor == i && runs->all[next].from == at)
            at += runs->all[next++].bytes;
        if (at != bytes || (next < runs->count && runs->all[next].tensor == i))
            return accel_fail (err, ACCEL_ERR_FORMAT, "tensor '%.100s' has %llu bytes, but only the first %llu are "
                               "stored once", header->tensors[i].name, (unsigned long long) bytes,
                               (unsigned long long) at);
    }
    runs->first[header->count] = next;
    return ACCEL_OK;
}

enum accel_status
state_dict_seal_runs (struct accel_state_dict *state, struct source *source, struct accel_error *err)
{
    enum accel_status status = state_dict_seal (state, source, err);
    if (status || !runs_of (state))
        return status ? status : accel_fail_nomem (err);
    AUTO_FREE size_t *places = calloc (state->header.count + 1, sizeof *places);
    status = places ? join_tensors (&state->header, places, err) : accel_fail_nomem (err);
    for (size_t i = 0; !status && i < state->runs->count; i++)
        state->runs->all[i].tensor = places[state->runs->all[i].tensor];
    return status ? status : index_runs (state, err);
}

/* ---- a folder ---- */

/* The elements of a box are one run for each index of the dimensions before the last one that is not whole. */
static enum accel_status
add_chunk (struct state_runs *runs, const struct dcp_tensor *tensor, struct state_run run, struct accel_error *err)
{
    const struct dcp_chunk *chunk = &tensor->chunks[run.chunk];
    uint64_t strides[ACCEL_MAX_DIMS + 1], index[ACCEL_MAX_DIMS] = { 0 }, count = 1;
    int cut = tensor->ndim;
    enum accel_status status = ACCEL_OK;
    strides[tensor->ndim] = safetensors_dtype_bits (tensor->dtype) / 8; /* of what is after the last dimension */
    for (int d = tensor->ndim; d--;)
        strides[d] = strides[d + 1] * tensor->shape[d];
    while (cut > 0 && (cut == tensor->ndim || chunk->sizes[cut] == tensor->shape[cut]))
        cut--; /* dimension `cut` may be in part, those after it are whole */
    run.bytes = tensor->ndim ? chunk->sizes[cut] * strides[cut + 1] : strides[0];
    for (int d = 0; d < cut; d++)
        count *= chunk->sizes[d];
    for (uint64_t i = 0; !status && i < count; i++, run.begin += run.bytes) {
        run.from = 0;
        for (int d = 0; d < tensor->ndim; d++)
            run.from += (chunk->offsets[d] + (d < cut ? index[d] : 0)) * strides[d + 1];
        status = add_run (runs, &run, err);
        for (int d = cut - 1; d >= 0 && ++index[d] == chunk->sizes[d]; d--)
            index[d] = 0;
    }
    return status;
}

static enum accel_status
add_tensors (struct accel_state_dict *state, struct accel_error *err)
{
    const struct dcp *dcp = &state->runs->folder->dcp;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < dcp->count; i++) {
        const struct dcp_tensor *tensor = &dcp->tensors[i];
        if (tensor->ndim > ACCEL_MAX_DIMS)
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "tensor '%.100s' has %d dimensions; the maximum is %d",
                               tensor->name, tensor->ndim, ACCEL_MAX_DIMS);
        status = state_dict_add_stored (state, tensor->name, tensor->dtype, (size_t) tensor->ndim, tensor->shape, 0,
                                        err);
        for (size_t c = 0; !status && c < tensor->chunk_count; c++)
            status = add_chunk (state->runs, tensor, (struct state_run){ .tensor = i, .chunk = c }, err);
    }
    return status;
}

enum accel_status
state_dict_open_folder (struct accel_state_dict *state, const char *path, struct accel_error *err)
{
    struct state_runs *runs = runs_of (state);
    struct source none = SOURCE_CLOSED;
    if (!runs || !(runs->folder = calloc (1, sizeof *runs->folder)))
        return accel_fail_nomem (err);
    enum accel_status status = dcp_open (runs->folder, path, err);
    if (!status)
        status = add_tensors (state, err);
    if (!status)
        status = state_dict_seal (state, &none, err);
    return status ? status : index_runs (state, err);
}

/* ---- reading ---- */

static enum accel_status
read_run (struct state_runs *runs, const struct source *source, const struct state_run *run, uint64_t at, void *bytes,
          size_t length, struct accel_error *err)
{
    if (!runs->folder)
        return source_read (source, run->begin + at, bytes, length, err);
    struct dcp_tensor *tensor = &runs->folder->dcp.tensors[run->tensor];
    return dcp_read_chunk (runs->folder, tensor, &tensor->chunks[run->chunk], run->begin + at, bytes, length, err);
}

enum accel_status
state_runs_read (struct state_runs *runs, const struct source *source, const struct safetensors_tensor *tensor,
                 uint64_t at, void *bytes, size_t length, struct accel_error *err)
{
    size_t low = runs->first[tensor->begin], high = runs->first[tensor->begin + 1];
    enum accel_status status = ACCEL_OK;
    while (low + 1 < high) { /* the last that begins at `at` or before */
        size_t middle = low + (high - low) / 2;
        if (runs->all[middle].from <= at)
            low = middle;
        else
            high = middle;
    }
    for (size_t done = 0, some; !status && done < length; done += some, low++) {
        const struct state_run *run = &runs->all[low];
        uint64_t skip = at + done - run->from;
        some = run->bytes - skip < length - done ? (size_t) (run->bytes - skip) : length - done;
        status = read_run (runs, source, run, skip, (char *) bytes + done, some, err);
    }
    return status;
}

void
state_runs_destroy (struct state_runs *runs)
{
    if (!runs)
        return;
    if (runs->folder)
        dcp_close (runs->folder);
    free (runs->folder);
    free (runs->first);
    free (runs->all);
    free (runs);
}
