/* SPDX-License-Identifier: Apache-2.0 */
/* What completion offers for the values of flags, for the shells' own files. */
#ifndef CONFIG_EMIT_VALUES_H
#define CONFIG_EMIT_VALUES_H

#include "config/table/options.h"
#include "util/strbuf.h"

enum emit_kind {
    EMIT_NOTHING,
    EMIT_WORDS,
    EMIT_FILES,
    EMIT_CONFIGS, /* *.yaml, *.yml, *.json */
    EMIT_FOLDERS,
    EMIT_GPUS, /* a list of ids with commas, or all */
};

/** How a shell writes one case of several keys: @p before, keys with @p between, @p after, the body. */
struct emit_case_form {
    const char *before, *between, *after;
    /* @p words is a NULL-terminated list if @p kind is EMIT_WORDS */
    void (*add_body) (enum emit_kind kind, const char *const *words, struct strbuf *out);
};

/** A case for each kind of value, or list of words, that some flag of any command takes. */
void emit_value_cases (const struct emit_case_form *form, struct strbuf *out);

/**
 * Names of the flags of @p command, separated by blanks: keys; and short flags as _LETTER, which is what a word -LETTER
 * becomes when its '-' are made '_' and two of them are removed from its front.
 */
void emit_valued_flags (enum option_command command, struct strbuf *out);

#endif
