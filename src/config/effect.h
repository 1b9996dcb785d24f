/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that have no effect beside others, or contradict them: what `config lint` finds, and flags that `config`
 * refuses. */
#ifndef CONFIG_EFFECT_H
#define CONFIG_EFFECT_H

#include "config/values.h"

struct no_effect {
    const char *text; /* after the key: "has no effect without " */
    const char *mode; /* then this; "" if text says it all */
};

/** Whether the group's options take effect in the mode that the settings select, after config_resolve(). */
bool effect_of_group (enum option_group group, const struct settings *settings);

/** Whether the settings, after config_resolve(), leave @p row a meaning. */
bool effect_applies (const struct config *config, const struct option *row);

/** Whether @p row has a value that says nothing in these settings.  One that equals the default never does. */
bool effect_is_missing (const struct config *config, const struct option *row, struct no_effect *found);

/** The first argument of a program that is an option of launch.
 *  @param[out] is_certain  whether it is one that says which processes there are, and where, the first of which counts
 *                          more than others: a slip, most likely
 *  @return NULL: there is none */
const struct option *effect_find_misplaced (char *const *words, bool *is_certain);

/** Add a note for each flag that has no effect, after config_resolve(), and for one that the program gets. */
void effect_note_flags (const struct config *config, struct strlist *notes);

#endif
