/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of one invocation and where each came from: what every other part of this folder reads or sets.  Knows
 * the option table, but neither files nor command lines. */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include "config/table/options.h"
#include "config/text/tree.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** Where a value came from. */
enum origin_kind {
    ORIGIN_DEFAULT,
    ORIGIN_ENVIRONMENT,
    ORIGIN_FILE,
    ORIGIN_FLAG,
    ORIGIN_COMPUTED, /* follows from another setting; `line` is that of the other setting, if it is in the file */
};

struct origin {
    enum origin_kind kind;
    int line; /* of ORIGIN_FILE; 0 if unknown */
    int file_place; /* its number among the keys of the file, though a flag may count before it; 0: it has none */
};

/** All that is known after reading flags, file and environment. */
struct config {
    struct settings settings;
    struct origin *origins; /* [option_count] */
    char *file;             /* the file that was read, or NULL */
    int file_keys;          /* how many keys were read from it */
    struct node additional_args; /* of the file, for SageMaker; a null if there are none */
    bool only_given;        /* write no key without a given value: the questionnaire sets all that it wants */
    struct strlist *problems; /* where to note what is wrong with a file, which is then no failure; or NULL */
    char *deferred;         /* what is wrong with dynamo_backend in the file: an error only if it takes effect */
    char *program;          /* launch: the program, or NULL */
    struct strlist words;   /* other commands: what is not a flag */
    char **program_args;    /* launch: NULL-terminated tail of argv, not owned */
};

/** Every setting at its default.  @return 0, or -1 with @p fail set */
int config_init (struct config *config, struct fail *fail);

/** Frees what config_init() made; accepts a half-made one and one of all zero. */
void config_release (struct config *config);

/** Released when it goes out of scope. */
#define AUTO_CONFIG __attribute__ ((cleanup (config_release)))

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
int config_compute_number (struct config *config, const char *key, int64_t value, const char *because,
                           struct fail *fail);

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
