/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a part of a tensor.  A part is runs of bytes; those that lie close together are read at once. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/formats/convert.h"
#include "lib/formats/safetensors_object.h"
#include "util/cleanup.h"
#include "util/memory.h"

#include <string.h>

enum {
    WINDOW_BYTES = 256 << 10, /* what is read at once if it is not read into place */
    NEAR_BYTES = 4 << 10,     /* gaps that are read rather than skipped */
};

struct runs {
    const struct weights_tensor *tensor;
    const int64_t *begin, *end;
    size_t outer;      /* the first dimensions, which are gone through one by one */
    int64_t *at;       /* [outer] */
    uint64_t *strides; /* [outer] bytes */
    uint64_t bytes;    /* of a run */
    uint64_t offset;   /* of the present one in the tensor */
    uint64_t last;     /* end of the last one */
    uint64_t gap;      /* to the next one, where only the last of the outer dimensions moves */
    unsigned char *window;
    uint64_t window_begin, window_end;
};

/* Bytes of @p elements; the whole tensor's fit 64 bits.  @return false if they are not whole bytes */
static bool
to_bytes (const struct runs *runs, uint64_t elements, uint64_t *bytes)
{
    uint64_t bits = safetensors_dtype_bits (runs->tensor->tensor->dtype);
    *bytes = bits % 8 ? elements * bits / 8 : elements * (bits / 8);
    return !(bits % 8) || !(elements * bits % 8);
}

/* Find which dimensions are gone through, and where the first and the last run are. */
static bool
lay_out (struct runs *runs)
{
    const struct safetensors_tensor *tensor = runs->tensor->tensor;
    size_t k = tensor->ndim;
    uint64_t inner = 1; /* elements of the dimensions from k on */
    while (k && !runs->begin[k - 1] && runs->end[k - 1] == tensor->shape[k - 1])
        inner *= (uint64_t) tensor->shape[--k];
    uint64_t run = inner, first = 0, stride = inner;
    if (k) {
        k--;
        run *= (uint64_t) (runs->end[k] - runs->begin[k]);
        first = inner * (uint64_t) runs->begin[k];
        stride = inner * (uint64_t) tensor->shape[k];
    }
    runs->outer = k;
    bool whole = to_bytes (runs, run, &runs->bytes) && to_bytes (runs, first, &runs->offset);
    runs->last = runs->offset + runs->bytes;
    for (size_t i = k; i--; stride *= (uint64_t) tensor->shape[i]) {
        whole = to_bytes (runs, stride, &runs->strides[i]) && whole;
        runs->at[i] = runs->begin[i];
        runs->offset += runs->strides[i] * (uint64_t) runs->begin[i];
        runs->last += runs->strides[i] * (uint64_t) (runs->end[i] - 1);
    }
    runs->gap = k ? runs->strides[k - 1] - runs->bytes : 0;
    return whole;
}

/* @return false after the last run */
static bool
next_run (struct runs *runs)
{
    for (size_t i = runs->outer; i--; ) {
        runs->offset += runs->strides[i];
        if (++runs->at[i] < runs->end[i])
            return true;
        runs->offset -= runs->strides[i] * (uint64_t) (runs->end[i] - runs->begin[i]);
        runs->at[i] = runs->begin[i];
    }
    return false;
}

/* The bytes from @offset on, at most *length, which becomes as many as there are in the window. */
static enum accel_status
look (struct runs *runs, uint64_t offset, uint64_t *length, const unsigned char **bytes, struct accel_error *err)
{
    if (offset < runs->window_begin || offset + *length > runs->window_end) {
        uint64_t wanted = runs->gap <= NEAR_BYTES ? runs->last - offset : *length;
        if (wanted > WINDOW_BYTES)
            wanted = WINDOW_BYTES;
        runs->window_begin = runs->window_end = offset;
        enum accel_status status = weights_read (runs->tensor, offset, runs->window, (size_t) wanted, err);
        if (status)
            return status;
        runs->window_end = offset + wanted;
    }
    if (*length > runs->window_end - offset)
        *length = runs->window_end - offset;
    *bytes = runs->window + (offset - runs->window_begin);
    return ACCEL_OK;
}

/* One run, as elements of @dtype, to *into, which is advanced. */
static enum accel_status
read_run (struct runs *runs, unsigned char **into, DLDataType dtype, struct accel_error *err)
{
    DLDataType from = safetensors_to_dl (runs->tensor->tensor->dtype);
    bool same = from.code == dtype.code && from.bits == dtype.bits;
    uint64_t done = 0;
    while (done < runs->bytes) {
        uint64_t length = runs->bytes - done;
        const unsigned char *bytes;
        enum accel_status status;
        if (same && length >= WINDOW_BYTES / 2) {
            status = weights_read (runs->tensor, runs->offset + done, *into, (size_t) length, err);
            if (status)
                return status;
            *into += length;
            return ACCEL_OK;
        }
        length = length < WINDOW_BYTES ? length : WINDOW_BYTES;
        if ((status = look (runs, runs->offset + done, &length, &bytes, err)))
            return status;
        if (same) {
            memcpy (*into, bytes, (size_t) length);
            *into += length;
        } else {
            size_t count = (size_t) length / convert_element_bytes (from);
            convert_elements (*into, dtype, bytes, from, count);
            *into += count * convert_element_bytes (dtype);
        }
        done += length;
    }
    return ACCEL_OK;
}

enum accel_status
slice_read (const struct weights_tensor *tensor, const int64_t *begin, const int64_t *end, void *into, DLDataType dtype,
            struct accel_error *err)
{
    size_t ndim = tensor->tensor->ndim;
    unsigned char *at = into;
    for (size_t i = 0; i < ndim; i++)
        if (begin[i] == end[i])
            return ACCEL_OK;
    AUTO_FREE int64_t *indices = malloc ((ndim + 1) * sizeof *indices);
    AUTO_FREE uint64_t *strides = malloc ((ndim + 1) * sizeof *strides);
    AUTO_FREE unsigned char *window = memory_create (WINDOW_BYTES);
    if (!indices || !strides || !window)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory to read tensor '%.80s'",
                           tensor->file->source.path, tensor->tensor->name);
    struct runs runs = { .tensor = tensor, .begin = begin, .end = end, .at = indices, .strides = strides,
                         .window = window };
    if (!lay_out (&runs))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%s: tensor '%.80s': this part begins or ends within a byte (elements of %u bits)",
                           tensor->file->source.path, tensor->tensor->name,
                           safetensors_dtype_bits (tensor->tensor->dtype));
    enum accel_status status;
    do
        status = read_run (&runs, &at, dtype, err);
    while (!status && next_run (&runs));
    return status;
}
