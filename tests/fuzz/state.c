/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of the values of a state dict, as the JSON files of a checkpoint have them: what is read can be written, and
 * is then the same. */
#include <config.h>

#include "lib/state/state_dict.h"
#include "tests/fuzz/target.h"
#include "util/utf8.h"

/* Every getter answers or says why not. */
static void
get_all (const struct accel_state_dict *state, const char *name)
{
    struct accel_error err = { 0 };
    const char *text = NULL;
    uint64_t natural;
    int64_t integer;
    double number;
    bool truth;
    enum accel_status all[] = { state_dict_read_uint64 (state, name, &natural, &err),
                                accel_state_dict_get_int64 (state, name, &integer, &err),
                                accel_state_dict_get_double (state, name, &number, &err),
                                state_dict_read_bool (state, name, &truth, &err),
                                accel_state_dict_get_text (state, name, &text, &err) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        must (!all[i] || all[i] == ACCEL_ERR_FORMAT);
    must (!*err.text || !strchr (err.text, '\n'));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct accel_state_dict state, again;
    struct accel_error err = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    state_dict_init (&state);
    state_dict_init (&again);
    enum accel_status status = state_dict_parse (&state, (const char *) data, size, &err);
    if (status)
        must (err.code == status && *err.text && !strchr (err.text, '\n'));
    else if (state.value_count) {
        state_dict_write (&state, &text);
        must (!text.failed && !state_dict_parse (&again, text.text, text.length, &err));
        must (again.value_count == state.value_count);
        for (size_t i = 0; i < state.value_count; i++) {
            const struct state_value *a = &state.values[i], *b = &again.values[i];
            must (utf8_is_valid (a->name, strlen (a->name)) && utf8_is_valid (a->text, strlen (a->text)));
            must (!strcmp (a->name, b->name) && !strcmp (a->text, b->text) && a->kind == b->kind);
            get_all (&state, a->name);
        }
    }
    state_dict_release (&state);
    state_dict_release (&again);
    return 0;
}
