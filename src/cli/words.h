/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of commands with free words that are not a program: flags become settings, words a list. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "config/values.h"
#include "util/fail.h"

/** @param[out] words  for strlist_release() */
int words_read (struct config *config, enum option_command command, int argc, char **argv, struct strlist *words,
                struct fail *fail);

#endif
