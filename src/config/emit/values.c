/* SPDX-License-Identifier: Apache-2.0 */
/* Values for completion; see values.h. */
#include <config.h>

#include "config/emit/values.h"

#include "config/emit/emit.h"

#include <string.h>

struct values {
    enum emit_kind kind;
    const char *const *words;
};

/* Keys without a flag have no help text. */
static bool
has_metavar (const struct option *row, const char *word)
{
    return row->metavar && !strcmp (row->metavar, word);
}

static struct values
values_of (const struct option *row)
{
    static const char *const truth[] = { "true", "false", NULL };
    if (row->properties & PROPERTY_HIDDEN)
        return (struct values){ EMIT_NOTHING, NULL };
    if (row->choices || row->words)
        return (struct values){ EMIT_WORDS, row->choices ? row->choices : row->words };
    if (!strcmp (row->key, "config_file") || !strcmp (row->key, "output_file"))
        return (struct values){ EMIT_CONFIGS, NULL };
    switch (row->type) {
    case OPTION_PATH: return (struct values){ has_metavar (row, "FOLDER") ? EMIT_FOLDERS : EMIT_FILES, NULL };
    case OPTION_TRUTH:
    case OPTION_PYTHON_BOOL:
    case OPTION_SWITCH: return (struct values){ EMIT_WORDS, truth };
    case OPTION_TEXT: return (struct values){ has_metavar (row, "GPUS") ? EMIT_GPUS : EMIT_NOTHING, NULL };
    default: return (struct values){ EMIT_NOTHING, NULL };
    }
}

static bool
are_equal (const struct values *a, const struct values *b)
{
    if (a->kind != b->kind || !a->words != !b->words)
        return false;
    size_t i = 0;
    while (a->words && a->words[i] && b->words[i] && !strcmp (a->words[i], b->words[i]))
        i++;
    return !a->words || (!a->words[i] && !b->words[i]);
}

/* Each case at the first of its rows. */
static bool
is_earlier (size_t row, const struct values *values)
{
    for (size_t i = 0; i < row; i++) {
        struct values other = values_of (&options[i]);
        if (are_equal (&other, values))
            return true;
    }
    return false;
}

void
emit_value_cases (const struct emit_case_form *form, struct strbuf *out)
{
    for (size_t i = 0; i < option_count; i++) {
        struct values values = values_of (&options[i]);
        if (values.kind == EMIT_NOTHING || is_earlier (i, &values))
            continue;
        strbuf_printf (out, "%s%s", form->before, options[i].key);
        for (size_t j = i + 1; j < option_count; j++) {
            struct values other = values_of (&options[j]);
            if (are_equal (&other, &values))
                strbuf_printf (out, "%s%s", form->between, options[j].key);
        }
        strbuf_add (out, form->after);
        form->add_body (values.kind, values.words, out);
    }
}

void
emit_valued_flags (enum option_command command, struct strbuf *out)
{
    bool is_first = true;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!emit_completes_row (row, command) || !option_types[row->type].takes_value)
            continue;
        strbuf_printf (out, "%s%s", is_first ? "" : " ", row->key);
        if (row->letter)
            strbuf_printf (out, " _%c", row->letter);
        is_first = false;
    }
}
