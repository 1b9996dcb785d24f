/* SPDX-License-Identifier: Apache-2.0 */
/* From a command line to settings: flags, then the configuration file, then the environment, then what follows from
 * these.  Precedence: flag > file > environment (where a row says so) > default. */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H

#include "config/options.h"
#include "util/fail.h"
#include "util/strbuf.h"

/**
 * All that `accelerate launch` needs: flags, file, environment, checks; a program is required.
 *
 * @param[out] config  release it with config_release(), also after a failure
 * @param argc, argv   what follows the word `launch`; argv must outlive @p config
 * @return 0, or -1 with @p fail set (status 2 for the command line, 1 for the file)
 */
int config_load_launch (struct config *config, int argc, char **argv, struct fail *fail);

/** Steps of the above for commands that need only some; in this order. @{ */
int config_init (struct config *config, struct fail *fail); /* defaults */
int config_load_flags (struct config *config, enum option_command command, int argc, char **argv, struct fail *fail);
int config_load_file (struct config *config, struct fail *fail); /* --config_file, or the default one if it exists */
void config_load_environment (struct config *config);
int config_resolve (struct config *config, struct fail *fail); /* what one setting says about another (mode.c) */
/** @} */

/** Frees what config_load_launch() or config_init() made; accepts a half-made one and one of all zero. */
void config_release (struct config *config);

/**
 * Set one setting from text, unless it has a value of higher precedence (then @p text is only checked).
 * @return 0, or -1 with @p fail saying what is wrong with @p text
 */
int config_set (struct config *config, const struct option *row, const char *text, struct origin origin,
                struct fail *fail);

/** Whether switch @p key (an OPTION_FLAG) is on and its value comes from @p kind.  `--cpu=no` is a flag, but not on. */
bool config_is_on (const struct config *config, const char *key, enum origin_kind kind);

/** Set @p key to @p text because of the setting @p because, whose place in the file it inherits. */
int config_compute (struct config *config, const char *key, const char *text, const char *because, struct fail *fail);

/** Back to the default, as if the setting had not been given. */
int config_reset (struct config *config, const struct option *row, struct fail *fail);

/** Where the value of @p key came from; ORIGIN_DEFAULT for an unknown key. */
struct origin config_origin (const struct config *config, const char *key);

/** Append "flag", "FILE:LINE", "environment", "computed" or "default". */
void config_format_origin (const struct config *config, const struct option *row, struct strbuf *out);

/** The same for a person's eyes: control characters in the name of the file are escaped. */
void config_show_origin (const struct config *config, const struct option *row, struct strbuf *out);

/** Whether the setting has no value at all: no default, and none was given. */
bool config_is_absent (const struct config *config, const struct option *row);

#endif
