/* SPDX-License-Identifier: Apache-2.0 */
/* Settings to environment; see envmap.h. */
#include <config.h>

#include "config/envmap.h"

#include "config/conditions.h"
#include "config/values.h"
#include "util/envnames.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

const struct envrule envrules[] = {
    { "KMP_AFFINITY", PATH_SIMPLE | PATH_MPIRUN, when_on_cpu, "granularity=fine,compact,1,0",
      "On CPUs: Intel's OpenMP pins each thread to a core." },
    { "KMP_BLOCKTIME", PATH_SIMPLE | PATH_MPIRUN, when_on_cpu, "1",
      "On CPUs: idle threads of Intel's OpenMP go to sleep after 1 ms." },
    { "XLA_USE_BF16", PATH_TPU, when_bf16, "1", "On TPUs with bf16: float and double become bfloat16." },
    { "XLA_DOWNCAST_BF16", PATH_TPU, when_downcast_bf16, "1",
      "On TPUs with bf16 and --downcast_bf16: float becomes bfloat16, double becomes float32." },
};

const size_t envrule_count = sizeof envrules / sizeof *envrules;

static char
upper (char c)
{
    return c >= 'a' && c <= 'z' ? (char) (c - 'a' + 'A') : c;
}

static char
lower (char c)
{
    return c >= 'A' && c <= 'Z' ? (char) (c - 'A' + 'a') : c;
}

/* Names and values, both separated by commas. */
static void
emit_triple (const struct option *row, const char *value, struct strlist *env)
{
    for (const char *name = row->env; *name;) {
        size_t name_length = strcspn (name, ","), value_length = strcspn (value, ",");
        strlist_printf (env, "%.*s=%.*s", (int) name_length, name, (int) value_length, value);
        name += name_length + (name[name_length] == ',');
        value += value_length + (value[value_length] == ',');
    }
}

/* Append NAME=VALUE; nothing if the spelling is silent about it. */
static void
emit_row (const struct option *row, const struct settings *settings, struct strlist *env, struct strbuf *text)
{
    const void *field = option_field_const (row, settings);
    bool is_flag = row->type == OPTION_FLAG;
    strbuf_truncate (text, 0);
    option_types[row->type].format (field, text);
    bool is_on = text->text && *text->text && strcmp (text->text, "false");
    if (row->spelling == SPELL_ONE_IF_ON || row->spelling == SPELL_TRUE_IF_ON) {
        if (is_on)
            strlist_printf (env, "%s=%s", row->env, row->spelling == SPELL_ONE_IF_ON ? "1" : "true");
        return;
    }
    if (is_flag && row->spelling == SPELL_PLAIN) { /* as Python writes truth */
        strlist_printf (env, "%s=%s", row->env, is_on ? "True" : "False");
        return;
    }
    if (row->type == OPTION_TRIPLE) {
        emit_triple (row, text->text, env);
        return;
    }
    for (char *at = text->text; at && *at; at++)
        *at = row->spelling == SPELL_UPPER ? upper (*at) : row->spelling == SPELL_LOWER ? lower (*at) : *at;
    strlist_printf (env, "%s=%s%s", row->env, text->text ? text->text : "",
                    row->spelling == SPELL_MILLISECONDS ? "000" : "");
}

int
envmap_emit (const struct config *config, unsigned path, struct strlist *env, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    AUTO_STRBUF struct strbuf text = { 0 };
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (row->env && (row->paths & path) && !config_is_absent (config, row)
            && (!row->when || row->when (settings)))
            emit_row (row, settings, env, &text);
    }
    for (size_t i = 0; i < envrule_count; i++)
        if ((envrules[i].paths & path) && envrules[i].when (settings))
            strlist_printf (env, "%s=%s", envrules[i].name, envrules[i].value);
    if (env->failed || text.failed)
        return fail_nomem (fail);
    if (env->count)
        qsort (env->items, env->count, sizeof *env->items, text_compare);
    return 0;
}
