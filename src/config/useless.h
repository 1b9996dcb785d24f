/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that have no effect beside others, or contradict them: what `config lint` finds, and flags that `config`
 * refuses. */
#ifndef CONFIG_USELESS_H
#define CONFIG_USELESS_H

#include "config/values.h"

struct useless {
    const char *text; /* after the key: "has no effect without " */
    const char *mode; /* then this; "" if text says it all */
};

/** Whether the group's options take effect in the mode that the settings select, after config_resolve(). */
bool useless_group_counts (enum option_group group, const struct settings *settings);

/** Whether the settings, after config_resolve(), leave @p row a meaning. */
bool useless_applies (const struct settings *settings, const struct option *row);

/** Whether @p row has a value that says nothing in these settings.  One that equals the default never does. */
bool useless_find (const struct config *config, const struct option *row, struct useless *found);

/** The first argument of a program that is an option of launch.
 *  @param is_certain  only one that says which processes there are, and where: a slip, most likely
 *  @return NULL: there is none */
const struct option *useless_find_misplaced (char *const *words, bool is_certain);

/** Add a note for each flag that has no effect, after config_resolve(), and for one that the program gets. */
void useless_note_flags (const struct config *config, struct strlist *notes);

#endif
