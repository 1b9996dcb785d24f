/* SPDX-License-Identifier: Apache-2.0 */
/* The option table: one row per setting, from which flags, YAML and JSON keys, environment, help, man page, completion,
 * answers to the questionnaire and origins all come.  To add an option: one row in options.c, one field in
 * settings.h. */
#ifndef CONFIG_TABLE_OPTIONS_H
#define CONFIG_TABLE_OPTIONS_H

#include "config/settings.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_FLAG, /* bool; no value on the command line */
    OPTION_INT,  /* int64_t */
    OPTION_TEXT, /* char *, owned by struct settings; `choices` restricts it */
    OPTION_PATH, /* char *, completed as a file */
    /* The following are char * that hold what Python's str() makes of the value. */
    OPTION_NUMBER,      /* an integer, or with `decimals` any number */
    OPTION_TRUTH,       /* a truth value, spelled as it was given */
    OPTION_PYTHON_BOOL, /* True or False from a flag, unchanged from a file */
    OPTION_SWITCH,      /* 1 or 0 from a flag, unchanged from a file */
    OPTION_TRIPLE,      /* three of these, with commas between; `env` holds three names likewise */
    OPTION_LIST,        /* struct strlist; a flag adds one item */
};

/** Sections of --help, in this order. */
enum option_group {
    GROUP_GENERAL,
    GROUP_HARDWARE,
    GROUP_RESOURCE,
    GROUP_PARADIGM,
    GROUP_DISTRIBUTED,
    GROUP_HOSTS,
    GROUP_MPIRUN,
    GROUP_DEEPSPEED,
    GROUP_FSDP,
    GROUP_MEGATRON,
    GROUP_FP8,
    GROUP_PARALLELISM,
    GROUP_TPU,
    GROUP_AWS,
    GROUP_OURS,
    GROUP_COUNT
};

/** How a value is written into the environment. */
enum option_spelling {
    SPELL_PLAIN,      /* Python's str(): True, False, 1, text as it is; what rows have that name no other */
    SPELL_LOWER,      /* the same in lower case: true, false */
    SPELL_UPPER,
    SPELL_ONE_IF_ON,  /* "1", absent when off */
    SPELL_TRUE_IF_ON, /* "true", absent when off */
    SPELL_MILLISECONDS, /* of an integer that is seconds */
};

/** Which launch path emits a variable; a set of bits.  (cli-contract: s, m, t, d, p, pp, sm) */
enum option_path {
    PATH_SIMPLE = 1 << 0,
    PATH_MPIRUN = 1 << 1,
    PATH_ELASTIC = 1 << 2,
    PATH_DEEPSPEED = 1 << 3,
    PATH_TPU = 1 << 4,
    PATH_TPU_POD = 1 << 5,
    PATH_SAGEMAKER = 1 << 6,
};

/** The place of each subcommand in the table. */
enum command_index {
#define COMMAND(NAME, ...) COMMAND_INDEX_##NAME,
#include "config/table/rows_commands.h"
#undef COMMAND
    COMMAND_COUNT
};

/** Which subcommands have the flag; a set of bits. */
enum option_command {
#define COMMAND(NAME, ...) COMMAND_##NAME = 1 << COMMAND_INDEX_##NAME,
#include "config/table/rows_commands.h"
#undef COMMAND
};

enum option_property {
    PROPERTY_FILE = 1 << 0,       /* a key of the configuration file */
    PROPERTY_NO_FLAG = 1 << 1,    /* only a key of the file, no flag */
    PROPERTY_EXTENSION = 1 << 2,  /* Accelerate does not have it */
    PROPERTY_HIDDEN = 1 << 3,     /* not in help, man page and completion */
    PROPERTY_SECRET = 1 << 5,     /* never printed */
    PROPERTY_FROM_ENV = 1 << 4,   /* the variable counts as a value if flag and file are silent */
    PROPERTY_WORDS = 1 << 6,      /* of a list: the flag takes one or more words, up to the next option */
};

struct option {
    const char *key;       /* the one name, with '_'; the flag is --key with '_' or '-'; unique per command */
    char letter;           /* short flag, or 0 */
    enum option_type type;
    size_t offset;         /* of the field in struct settings */
    size_t field_size;
    const char *dflt;      /* default as text, through the same parser; NULL: absent (false, 0, NULL) */
    const char *const *choices; /* NULL-terminated, or NULL */
    const char *const *synonyms; /* "WORD=CHOICE": hints for other words; then spelling gives none; NULL-terminated */
    const char *const *words;   /* usual words of a free text, and accepted words of numbers and truth values */
    int64_t min, max;      /* of OPTION_INT; of OPTION_NUMBER only min */
    bool decimals;         /* of OPTION_NUMBER */
    const char *section;   /* of the file: "fsdp_config"; NULL: top level */
    enum option_group group;
    unsigned commands;     /* enum option_command */
    unsigned properties;   /* enum option_property */
    const char *env;       /* variable a rank gets, or NULL */
    enum option_spelling spelling;
    unsigned paths;        /* enum option_path */
    bool (*when) (const struct settings *settings); /* emit the variable only when true; NULL: always */
    const char *metavar;   /* for help: N, FILE */
    const char *help;      /* one line, lower case, no full stop, at most 60 characters */
    const char *doc;       /* sentences for the man page */
};

extern const struct option options[];
extern const size_t option_count;

/** Groups are sections of --help and of the manual; some have a meaning in one mode only. */
struct option_group_info {
    const char *title;
    bool (*matters) (const struct settings *settings); /* NULL: always */
    const char *flag; /* what chooses the mode on the command line, or NULL */
    const char *mode; /* what chooses it in a file, or NULL if `matters` is */
    const char *key;  /* the setting that chooses it, and its value: what its flags imply in `config`; or NULL */
    const char *value;
};

extern const struct option_group_info option_groups[GROUP_COUNT];

/** What the types know; one row per enum option_type, in opt_type.c. */
struct option_type_info {
    const char *name;       /* for the man page and JSON: "integer" */
    bool takes_value;       /* on the command line */
    /* Set *field from text; on failure nothing changes and fail says what is wrong with the text, without a place. */
    int (*parse) (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
    /* Append the canonical text, which parse() accepts; nothing if the value is invalid. */
    void (*format) (const void *field, struct strbuf *out);
    void (*release) (void *field);
    const char *yaml_tag;   /* of a value written to a file: "bool", "int", "str" */
};

extern const struct option_type_info option_types[];

/** "'TEXT' is not one of A, B, C (did you mean 'A'?)", if @p choices are the row's.  @return -1 */
int option_refuse_word (const struct option *row, const char *const *choices, const char *text, struct fail *fail);

/** The row of @p key, in any mixture of '-' and '_', or NULL.  If commands have flags of one name that mean different
 *  things, it is the first row, which is launch's. */
const struct option *option_find (const char *key);

/** The row of key @p key in section @p section (NULL: top level) of a configuration file, or NULL. */
const struct option *option_find_in_file (const char *section, const char *key);

/** Whether @p command has the flag --key.  Every key of a file is one of config: the answer to its question. */
static inline bool
option_is_flag_of (const struct option *row, enum option_command command)
{
    if (command == COMMAND_CONFIG && (row->properties & PROPERTY_FILE))
        return true;
    return (row->commands & command) && !(row->properties & PROPERTY_NO_FLAG);
}

static inline void *
option_field (const struct option *row, struct settings *settings)
{
    return (char *) settings + row->offset;
}

static inline const void *
option_field_const (const struct option *row, const struct settings *settings)
{
    return (const char *) settings + row->offset;
}

#endif
