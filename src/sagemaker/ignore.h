/* SPDX-License-Identifier: Apache-2.0 */
/* What .gitignore files say about files, to name those that were hardly meant to be uploaded. */
#ifndef SAGEMAKER_IGNORE_H
#define SAGEMAKER_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

struct ignore_rule;

/** Rules in the order in which they were read: the last that matches decides. All zero: none. */
struct ignore {
    struct ignore_rule *rules;
    size_t count;
};

/** Read FOLDER/.gitignore, if there is one that can be read. @param folder  an absolute path without links
 *  @return 0, or -1 without memory */
int ignore_read (struct ignore *ignore, const char *folder);

/** The same for a text. @param text  is split into lines */
int ignore_add (struct ignore *ignore, const char *folder, char *text);

/** Read those of the folders above @p folder, if it is in a repository. */
int ignore_read_above (struct ignore *ignore, const char *folder);

/** @param path  absolute, below a folder that was read */
bool ignore_matches (const struct ignore *ignore, const char *path, bool is_folder);

/** Forget the rules after the first @p count. */
void ignore_truncate (struct ignore *ignore, size_t count);

#endif
