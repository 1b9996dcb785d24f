/* SPDX-License-Identifier: Apache-2.0 */
/* State dicts that are saved; see state_dict.h. */
#include <config.h>

#include "lib/state/state_dict.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "lib/state/state_runs.h"
#include "util/array.h"
#include "util/text.h"
#include "util/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
state_dict_init (struct accel_state_dict *state)
{
    *state = (struct accel_state_dict){ .source = SOURCE_CLOSED };
}

static void
release_tensor (struct state_tensor *tensor)
{
    free (tensor->name);
    free (tensor->owned);
}

void
state_dict_release (struct accel_state_dict *state)
{
    for (size_t i = 0; i < state->value_count; i++) {
        free (state->values[i].name);
        free (state->values[i].text);
    }
    for (size_t i = 0; i < state->tensor_count; i++)
        release_tensor (&state->tensors[i]);
    free (state->values);
    free (state->tensors);
    safetensors_release (&state->header);
    state_runs_destroy (state->runs);
    source_close (&state->source);
    state_dict_init (state);
}

/* ---- adding ---- */

static void
remember (struct accel_state_dict *state, enum accel_status status, const char *name, const char *reason)
{
    if (!state || state->failed)
        return;
    state->failed = true;
    accel_fail (&state->failure, status, "'%.100s': %s", name ? name : "(null)", reason);
}

static bool
is_known (const struct accel_state_dict *state, const char *name)
{
    bool found = false;
    for (size_t i = 0; !found && i < state->value_count; i++)
        found = !strcmp (state->values[i].name, name);
    for (size_t i = 0; !found && i < state->tensor_count; i++)
        found = !strcmp (state->tensors[i].name, name);
    return found;
}

/* Names of models' parameters are unique already, and there may be many: @known skips the check. */
static bool
take_name (struct accel_state_dict *state, const char *name, bool known, char **copy)
{
    *copy = NULL;
    if (!state)
        return false;
    if (!name || !*name || !utf8_is_valid (name, strlen (name)))
        remember (state, ACCEL_ERR_INVALID, name, "the name is empty or not UTF-8");
    else if (!known && is_known (state, name))
        remember (state, ACCEL_ERR_INVALID, name, "duplicate name in a state dict");
    else if (!(*copy = strdup (name)))
        remember (state, ACCEL_ERR_NOMEM, name, "out of memory");
    return *copy != NULL;
}

static void
add_value (struct accel_state_dict *state, const char *name, enum state_kind kind, const char *text)
{
    char *copy, *value = strdup (text);
    if (!take_name (state, name, false, &copy)) {
        free (value);
        return;
    }
    if (value && array_room (&state->values, state->value_count, sizeof *state->values))
        state->values[state->value_count++] = (struct state_value){ copy, value, kind };
    else {
        remember (state, ACCEL_ERR_NOMEM, name, "out of memory");
        free (copy);
        free (value);
    }
}

void
state_dict_mark_trained (struct accel_state_dict *state)
{
    if (!state->failed)
        state->tensors[state->tensor_count - 1].is_trained = true;
}

/* @return where the tensor's view is to be put; NULL: a failure was remembered */
static struct state_tensor *
add_tensor (struct accel_state_dict *state, const char *name, bool known)
{
    char *copy;
    if (!take_name (state, name, known, &copy))
        return NULL;
    if (state->tensor_count == state->tensor_room) {
        size_t room = state->tensor_room ? 2 * state->tensor_room : 16;
        struct state_tensor *more = reallocarray (state->tensors, room, sizeof *more);
        if (!more) {
            remember (state, ACCEL_ERR_NOMEM, name, "out of memory");
            free (copy);
            return NULL;
        }
        for (size_t i = 0; i < state->tensor_count; i++)
            if (more[i].view.dl.shape) /* it points into its own struct, which has moved */
                more[i].view.dl.shape = more[i].view.shape;
        state->tensors = more;
        state->tensor_room = room;
    }
    struct state_tensor *tensor = &state->tensors[state->tensor_count++];
    *tensor = (struct state_tensor){ .name = copy };
    return tensor;
}

static void
set_tensor (struct accel_state_dict *state, const char *name, bool known, const DLTensor *tensor)
{
    struct accel_error err = { 0 };
    if (!tensor || tensor_check (tensor, &err) || !memory_of (tensor->device) || !tensor_is_contiguous (tensor)) {
        remember (state, ACCEL_ERR_UNSUPPORTED, name,
                  !tensor                       ? "the tensor is NULL"
                  : *err.text                   ? err.text
                  : memory_of (tensor->device) ? "the tensor is not contiguous"
                                                : "the tensor is on a device that this libaccel has no code for");
        return;
    }
    struct state_tensor *added = add_tensor (state, name, known);
    if (added)
        tensor_view_set (&added->view, tensor);
}

void
state_dict_add_uint64 (struct accel_state_dict *state, const char *name, uint64_t value)
{
    char text[32];
    snprintf (text, sizeof text, "%" PRIu64, value);
    add_value (state, name, STATE_NUMBER, text);
}

void
accel_state_dict_set_int64 (struct accel_state_dict *state, const char *name, int64_t value)
{
    char text[32];
    snprintf (text, sizeof text, "%" PRId64, value);
    add_value (state, name, STATE_NUMBER, text);
}

/* JSON has neither infinities nor NaN. */
void
accel_state_dict_set_double (struct accel_state_dict *state, const char *name, double value)
{
    char text[64];
    snprintf (text, sizeof text, "%.17g", value);
    text_use_point (text);
    add_value (state, name, isfinite (value) ? STATE_NUMBER : STATE_TEXT, text);
}

void
state_dict_add_bool (struct accel_state_dict *state, const char *name, bool value)
{
    add_value (state, name, STATE_BOOL, value ? "true" : "false");
}

void
accel_state_dict_set_text (struct accel_state_dict *state, const char *name, const char *text)
{
    if (!text || !utf8_is_valid (text, strlen (text)))
        remember (state, ACCEL_ERR_INVALID, name, text ? "the text is not UTF-8" : "the text is NULL");
    else
        add_value (state, name, STATE_TEXT, text);
}

void
accel_state_dict_set_tensor (struct accel_state_dict *state, const char *name, const DLTensor *tensor)
{
    set_tensor (state, name, false, tensor);
}

void
accel_state_dict_set_bytes (struct accel_state_dict *state, const char *name, const void *bytes, size_t size_bytes)
{
    int64_t shape[] = { (int64_t) size_bytes };
    if (size_bytes > PTRDIFF_MAX || (size_bytes && !bytes)) {
        remember (state, ACCEL_ERR_INVALID, name, bytes ? "too large: size overflows" : "the bytes are NULL");
        return;
    }
    void *copy = malloc (size_bytes + !size_bytes);
    if (!copy) {
        remember (state, ACCEL_ERR_NOMEM, name, "out of memory");
        return;
    }
    if (size_bytes)
        memcpy (copy, bytes, size_bytes);
    DLTensor tensor = { .data = copy, .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_UINT8),
                        .shape = shape };
    size_t before = state ? state->tensor_count : 0;
    set_tensor (state, name, false, &tensor);
    if (state && state->tensor_count > before)
        state->tensors[before].owned = copy;
    else
        free (copy);
}

void
state_dict_add_tensor (struct accel_state_dict *state, const char *name, const DLTensor *tensor)
{
    set_tensor (state, name, true, tensor);
}

void
state_dict_add_stretch (struct accel_state_dict *state, const char *name, const DLTensor *tensor, size_t from,
                        size_t end)
{
    size_t before = state->tensor_count;
    set_tensor (state, name, true, tensor);
    if (state->tensor_count == before)
        return;
    struct state_tensor *added = &state->tensors[before];
    added->is_stretch = true;
    added->from = from;
    added->ndim = tensor->ndim;
    for (int i = 0; i < tensor->ndim; i++)
        added->shape[i] = tensor->shape[i];
    added->view.shape[0] = (int64_t) (end - from);
    added->view.dl.ndim = 1;
    added->view.dl.shape = added->view.shape;
    added->view.dl.strides = NULL;
    added->view.dl.byte_offset += from * tensor_element_bytes (tensor);
}

void
state_dict_write (const struct accel_state_dict *state, struct strbuf *out)
{
    for (size_t i = 0; i < state->value_count; i++) {
        const struct state_value *value = &state->values[i];
        strbuf_add (out, i ? ",\n  " : "{\n  ");
        quote_utf8 (out, value->name);
        strbuf_add (out, ": ");
        if (value->kind == STATE_TEXT)
            quote_utf8 (out, value->text);
        else
            strbuf_add (out, value->text);
    }
    if (state->value_count)
        strbuf_add (out, "\n}\n");
}
