/* SPDX-License-Identifier: Apache-2.0 */
/* State dicts that are loaded; see state_dict.h. */
#include <config.h>

#include "lib/state/state_dict.h"

#include "files/json_reader.h"
#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "lib/state/state_runs.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */

static enum accel_status
take_value (struct json_reader *json, struct state_value *value)
{
    char c = json_reader_peek (json);
    size_t start = json->at;
    if (c == '"') {
        value->kind = STATE_TEXT;
        return json_reader_string (json, &value->text, "a text");
    }
    if (c == '{' || c == '[' || c == 'n')
        return json_reader_fail (json, "expected a number, a text or a truth value");
    enum accel_status status = json_reader_skip (json);
    if (status)
        return status;
    value->kind = c == 't' || c == 'f' ? STATE_BOOL : STATE_NUMBER;
    value->text = strndup (json->text + start, json->at - start);
    return value->text ? ACCEL_OK : accel_fail_nomem (json->err);
}

static int
compare_values (const void *a, const void *b)
{
    return strcmp (((const struct state_value *) a)->name, ((const struct state_value *) b)->name);
}

static enum accel_status
add_value (struct accel_state_dict *state, struct json_reader *json)
{
    struct state_value value = { 0 };
    enum accel_status status = json_reader_key (json, &value.name);
    if (!status)
        status = take_value (json, &value);
    if (!status && !array_room (&state->values, state->value_count, sizeof *state->values))
        status = accel_fail_nomem (json->err);
    if (!status)
        state->values[state->value_count++] = value;
    else {
        free (value.name);
        free (value.text);
    }
    return status;
}

enum accel_status
state_dict_parse (struct accel_state_dict *state, const char *text, size_t length, struct accel_error *err)
{
    struct json_reader json = { text, length, 0, err };
    bool first = true, more;
    enum accel_status status = json_reader_begin (&json);
    if (!status)
        status = json_reader_take (&json, '{', "an object");
    while (!status && !(status = json_reader_next (&json, '}', &first, &more)) && more)
        status = add_value (state, &json);
    if (!status)
        status = json_reader_end (&json);
    if (!status && state->value_count)
        qsort (state->values, state->value_count, sizeof *state->values, compare_values);
    for (size_t i = 1; !status && i < state->value_count; i++)
        if (!compare_values (&state->values[i], &state->values[i - 1]))
            status = accel_fail (err, ACCEL_ERR_FORMAT, "duplicate name '%.100s'", state->values[i].name);
    return status;
}

enum accel_status
state_dict_open (struct accel_state_dict *state, struct source *source, struct accel_error *err)
{
    state->source = *source;
    *source = (struct source) SOURCE_CLOSED;
    return safetensors_read (&state->header, &state->source, &state->data, err);
}

/* ---- by hand ---- */

enum accel_status
state_dict_add_stored (struct accel_state_dict *state, const char *name, enum safetensors_dtype dtype, size_t ndim,
                       const uint64_t *shape, uint64_t begin, struct accel_error *err)
{
    struct safetensors *header = &state->header;
    struct safetensors_tensor made = { .dtype = dtype, .ndim = ndim, .begin = begin, .name = strdup (name) };
    made.shape = calloc (ndim + 1, sizeof *made.shape);
    if (!made.name || !made.shape || !array_room (&header->tensors, header->count, sizeof *header->tensors)) {
        free (made.name);
        free (made.shape);
        return accel_fail_nomem (err);
    }
    for (size_t i = 0; i < ndim; i++)
        made.shape[i] = (int64_t) shape[i];
    header->tensors[header->count++] = made;
    return ACCEL_OK;
}

static int
compare_tensors (const void *a, const void *b, void *user)
{
    const struct safetensors_tensor *tensors = user;
    return strcmp (tensors[*(const size_t *) a].name, tensors[*(const size_t *) b].name);
}

enum accel_status
state_dict_seal (struct accel_state_dict *state, struct source *source, struct accel_error *err)
{
    struct safetensors *header = &state->header;
    state->source = *source;
    *source = (struct source) SOURCE_CLOSED;
    if (state->failed)
        return accel_fail (err, state->failure.code, "%s: %s", state->source.path, state->failure.text);
    header->by_name = calloc (header->count + 1, sizeof *header->by_name);
    if (!header->by_name)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < header->count; i++)
        header->by_name[i] = i;
    qsort_r (header->by_name, header->count, sizeof *header->by_name, compare_tensors, header->tensors);
    if (state->value_count)
        qsort (state->values, state->value_count, sizeof *state->values, compare_values);
    return ACCEL_OK;
}

/* ---- values ---- */

static const struct state_value *
find_value (const struct accel_state_dict *state, const char *name)
{
    const struct state_value wanted = { .name = (char *) (uintptr_t) name };
    if (!name || !state->value_count)
        return NULL;
    return bsearch (&wanted, state->values, state->value_count, sizeof wanted, compare_values);
}

bool
accel_state_dict_has (const struct accel_state_dict *state, const char *name)
{
    return state && name && (find_value (state, name) || safetensors_find (&state->header, name));
}

static enum accel_status
need_value (const struct accel_state_dict *state, const char *name, const struct state_value **value,
            struct accel_error *err)
{
    *value = state ? find_value (state, name) : NULL;
    if (*value)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_FORMAT, "'%.100s' is missing", name ? name : "(null)");
}

static enum accel_status
wrong_kind (const struct state_value *value, const char *wanted, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_FORMAT, "'%.100s' is '%.60s', but must be %s", value->name, value->text, wanted);
}

enum accel_status
state_dict_read_uint64 (const struct accel_state_dict *state, const char *name, uint64_t *number,
                        struct accel_error *err)
{
    const struct state_value *value;
    char *end = NULL;
    enum accel_status status = need_value (state, name, &value, err);
    if (status)
        return status;
    errno = 0;
    uint64_t read = strtoull (value->text, &end, 10);
    if (value->kind != STATE_NUMBER || *value->text == '-' || *end || errno)
        return wrong_kind (value, "a whole number from 0 on", err);
    *number = read;
    return ACCEL_OK;
}

enum accel_status
accel_state_dict_get_int64 (const struct accel_state_dict *state, const char *name, int64_t *number,
                            struct accel_error *err)
{
    const struct state_value *value;
    enum accel_status status = need_value (state, name, &value, err);
    if (status)
        return status;
    if (value->kind == STATE_BOOL)
        *number = *value->text == 't';
    else if (value->kind != STATE_NUMBER || parse_int64 (value->text, INT64_MIN, INT64_MAX, number) != PARSE_OK)
        return wrong_kind (value, "a whole number", err);
    return ACCEL_OK;
}

enum accel_status
accel_state_dict_get_double (const struct accel_state_dict *state, const char *name, double *number,
                             struct accel_error *err)
{
    static const struct {
        const char *text;
        double value;
    } special[] = { { "inf", INFINITY }, { "-inf", -INFINITY }, { "nan", NAN }, { "-nan", NAN } };
    const struct state_value *value;
    enum accel_status status = need_value (state, name, &value, err);
    if (status)
        return status;
    for (size_t i = 0; value->kind == STATE_TEXT && i < sizeof special / sizeof *special; i++)
        if (!strcmp (value->text, special[i].text)) {
            *number = special[i].value;
            return ACCEL_OK;
        }
    if (value->kind != STATE_NUMBER || parse_double (value->text, -INFINITY, INFINITY, number) != PARSE_OK)
        return wrong_kind (value, "a number", err);
    return ACCEL_OK;
}

enum accel_status
state_dict_read_bool (const struct accel_state_dict *state, const char *name, bool *truth, struct accel_error *err)
{
    const struct state_value *value;
    enum accel_status status = need_value (state, name, &value, err);
    if (!status && value->kind != STATE_BOOL)
        return wrong_kind (value, "true or false", err);
    if (!status)
        *truth = *value->text == 't';
    return status;
}

enum accel_status
accel_state_dict_get_text (const struct accel_state_dict *state, const char *name, const char **text,
                           struct accel_error *err)
{
    const struct state_value *value;
    enum accel_status status = need_value (state, name, &value, err);
    if (!status && value->kind != STATE_TEXT)
        return wrong_kind (value, "a text", err);
    if (!status)
        *text = value->text;
    return status;
}

/* ---- tensors ---- */

static void
add_shape (struct strbuf *out, enum accel_dtype dtype, const char *other, size_t ndim, const int64_t *shape)
{
    strbuf_printf (out, "%s [", dtype < ACCEL_DTYPE_COUNT ? accel_dtype_name (dtype) : other);
    for (size_t i = 0; i < ndim; i++)
        strbuf_printf (out, "%s%" PRId64, i ? ", " : "", shape[i]);
    strbuf_add_char (out, ']');
}

static bool
is_like (const struct safetensors_tensor *stored, const DLTensor *like)
{
    bool same = stored->ndim == (size_t) like->ndim
                && safetensors_to_accel (stored->dtype) == accel_dtype_from_dl (like->dtype);
    for (size_t i = 0; same && i < stored->ndim; i++)
        same = (int64_t) stored->shape[i] == like->shape[i];
    return same;
}

enum accel_status
state_dict_check (const struct accel_state_dict *state, const char *name, const DLTensor *like,
                  struct accel_error *err)
{
    const struct safetensors_tensor *stored = safetensors_find (&state->header, name);
    if (!stored)
        return accel_fail (err, ACCEL_ERR_FORMAT, "tensor '%.100s' is missing", name);
    if (is_like (stored, like))
        return ACCEL_OK;
    AUTO_STRBUF struct strbuf text = { 0 };
    add_shape (&text, safetensors_to_accel (stored->dtype), safetensors_dtype_name (stored->dtype), stored->ndim,
               (const int64_t *) (const void *) stored->shape);
    strbuf_add (&text, ", but must be ");
    add_shape (&text, accel_dtype_from_dl (like->dtype), "another type", (size_t) like->ndim, like->shape);
    return accel_fail (err, ACCEL_ERR_FORMAT, "tensor '%.100s' is %s", name, text.failed ? "different" : text.text);
}

struct stored {
    const struct accel_state_dict *state;
    const struct safetensors_tensor *tensor;
    uint64_t begin; /* byte of the tensor */
};

static enum accel_status
read_stored (void *user, size_t at, void *bytes, size_t length, struct accel_error *err)
{
    const struct stored *stored = user;
    const struct accel_state_dict *state = stored->state;
    uint64_t begin = stored->begin + at;
    return state->runs ? state_runs_read (state->runs, &state->source, stored->tensor, begin, bytes, length, err)
                       : source_read (&state->source, stored->tensor->begin + state->data + begin, bytes, length, err);
}

/* Elements @from to @end - 1 of the stored tensor, to their places. */
static enum accel_status
read_elements (const struct accel_state_dict *state, const char *name, const DLTensor *into, size_t from, size_t end,
               struct accel_error *err)
{
    size_t bytes = tensor_element_bytes (into);
    int64_t count = (int64_t) (end - from);
    DLTensor part = *into;
    struct stored stored = { state, safetensors_find (&state->header, name), from * bytes };
    part.ndim = 1;
    part.shape = &count;
    part.strides = NULL;
    part.byte_offset += from * bytes;
    return memory_write_pieces (&part, read_stored, &stored, err);
}

enum accel_status
accel_state_dict_get_tensor (const struct accel_state_dict *state, const char *name, DLTensor *into,
                             struct accel_error *err)
{
    if (!state || !name || !into)
        return accel_fail_null (err, __func__, !state ? "state" : name ? "into" : "name");
    enum accel_status status = tensor_check (into, err);
    if (!status && !memory_of (into->device))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                             "tensor '%.100s': into is on %s, which this libaccel has no code for", name,
                             tensor_device_name (into->device));
    if (!status && !tensor_is_contiguous (into))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "tensor '%.100s': into is not contiguous", name);
    if (!status)
        status = state_dict_check (state, name, into, err);
    if (status)
        return status;
    return read_elements (state, name, into, 0, accel_tensor_count (into), err);
}

enum accel_status
state_dict_read_stretch (const struct accel_state_dict *state, const char *name, const DLTensor *into, size_t from,
                         size_t end, struct accel_error *err)
{
    enum accel_status status = state_dict_check (state, name, into, err);
    return status || from == end ? status : read_elements (state, name, into, from, end, err);
}

enum accel_status
accel_state_dict_get_bytes (const struct accel_state_dict *state, const char *name, void *bytes, size_t size_bytes,
                            struct accel_error *err)
{
    int64_t shape[] = { (int64_t) size_bytes };
    DLTensor into = { .data = bytes, .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_UINT8),
                      .shape = shape };
    return accel_state_dict_get_tensor (state, name, &into, err);
}

size_t
accel_state_dict_tensor_count (const struct accel_state_dict *state, const char *name)
{
    const struct safetensors_tensor *stored = state && name ? safetensors_find (&state->header, name) : NULL;
    size_t count = stored != NULL;
    for (size_t i = 0; stored && i < stored->ndim; i++)
        count *= (size_t) stored->shape[i];
    return count;
}
