/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines; see opt_argv.h.  The grammar is that of Accelerate (argparse without abbreviations): both
 * --key=value and --key value, all '_' or all '-', combined short flags. */
#include <config.h>

#include "config/table/opt_argv.h"

#include "config/table/foreign.h"
#include "util/suggest.h"

#include <stdio.h>
#include <string.h>

/* The key's '_' are all '_' or all '-' in the word. */
static bool
is_spelling_of (const char *key, const char *word, size_t length)
{
    char dash = 0;
    if (strlen (key) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (key[i] != '_' && key[i] != word[i])
            return false;
        if (key[i] == '_') {
            if ((word[i] != '_' && word[i] != '-') || (dash && dash != word[i]))
                return false;
            dash = word[i];
        }
    }
    return true;
}

/* "; see accelerate launch --help", for what is like nothing known. */
static const char *
see_help (enum option_command command)
{
    if (command == COMMAND_LAUNCH)
        return "; see accelerate launch --help (options of the program go after its name)";
    switch (command) {
#define COMMAND(NAME, function, name, ...) case COMMAND_##NAME: return "; see accelerate " name " --help";
#include "config/table/rows_commands.h"
#undef COMMAND
    }
    return "";
}

/* argparse's rule: a word that looks like an option is not a value, except negative numbers and texts with blanks. */
static bool
is_value (const char *word)
{
    if (*word != '-' || !word[1] || strchr (word, ' '))
        return true;
    return word[1 + (word[1] == '.')] >= '0' && word[1 + (word[1] == '.')] <= '9';
}

/* What follows the @p length bytes of an unknown option's name, or the next word. */
static const char *
value_after (const struct argv_scan *scan, const char *name, size_t length)
{
    if (name[length])
        return name + length + (name[length] == '=');
    return scan->at < scan->argc && is_value (scan->argv[scan->at]) ? scan->argv[scan->at] : NULL;
}

/* Advice on another launcher's option counts more than a similar name: --fp16 is not a mistyped --cpu. */
static int
refuse_unknown (const struct argv_scan *scan, const char *word, size_t length, struct fail *fail)
{
    char name[64], foreign[FOREIGN_ADVICE_LENGTH];
    snprintf (name, sizeof name, "%.*s", (int) length, word);
    struct suggest suggest = { .wanted = name };
    const char *advice = foreign_advice (scan->command, word, length, value_after (scan, word, length), foreign);
    if (advice)
        return fail_set (fail, FAIL_USAGE, "unknown option '--%.*s': %s", (int) length, word, advice);
    for (size_t i = 0; i < option_count; i++)
        if (option_is_flag_of (&options[i], scan->command))
            suggest_consider (&suggest, options[i].key);
    suggest_consider (&suggest, "help");
    suggest_consider (&suggest, "help_all");
    char space[96];
    return fail_set (fail, FAIL_USAGE, "unknown option '--%.*s'%s", (int) length, word,
                     suggest.best ? suggest_text (&suggest, "--", space, sizeof space) : see_help (scan->command));
}

/* The option whose long name has this spelling, or NULL. */
static const struct option *
find_long (const struct argv_scan *scan, const char *name, size_t length)
{
    for (size_t i = 0; i < option_count; i++)
        if (option_is_flag_of (&options[i], scan->command) && is_spelling_of (options[i].key, name, length))
            return &options[i];
    return NULL;
}

static const struct option *
find_short (const struct argv_scan *scan, char letter)
{
    for (size_t i = 0; i < option_count; i++)
        if (option_is_flag_of (&options[i], scan->command) && options[i].letter == letter)
            return &options[i];
    return NULL;
}

/* How many of these letters are flags, or the value of the last of them: of "host", one. */
static size_t
count_flags (const struct argv_scan *scan, const char *letters)
{
    for (size_t i = 0; letters[i]; i++) {
        const struct option *row = find_short (scan, letters[i]);
        if (!row && letters[i] != 'h')
            return i;
        if (row && option_types[row->type].takes_value)
            break;
    }
    return strlen (letters);
}

/* -np 4, -n4 and -host a,b are known as wholes.  A long option with one dash is one, too. */
static int
refuse_short (const struct argv_scan *scan, const char *letters, struct fail *fail)
{
    char foreign[FOREIGN_ADVICE_LENGTH];
    size_t length = strcspn (letters, "=0123456789"), flags = count_flags (scan, letters);
    const char *advice = foreign_advice (scan->command, letters, length, value_after (scan, letters, length), foreign);
    const struct option *row = advice || length < 2 ? NULL : find_long (scan, letters, length);
    if (row)
        return fail_set (fail, FAIL_USAGE, "unknown option '-%.*s' (did you mean '--%s'?)", (int) length, letters,
                         row->key);
    if (!advice) {
        letters += flags;
        length = 1;
        advice = foreign_advice (scan->command, letters, 1, NULL, foreign);
    }
    return fail_set (fail, FAIL_USAGE, "unknown option '-%.*s'%s%s", (int) length, letters, advice ? ": " : "",
                     advice ? advice : see_help (scan->command));
}

static enum argv_item
take_value (struct argv_scan *scan, const char *attached, const char *spelled, struct fail *fail)
{
    if (attached) {
        scan->value = attached;
        return ARGV_OPTION;
    }
    if (scan->at >= scan->argc || !is_value (scan->argv[scan->at]))
        return fail_set (fail, FAIL_USAGE, "%s: missing value (%s)", spelled, scan->row->metavar);
    scan->value = scan->argv[scan->at++];
    scan->takes_more = scan->row->properties & PROPERTY_WORDS;
    return ARGV_OPTION;
}

static enum argv_item
next_long (struct argv_scan *scan, const char *word, struct fail *fail)
{
    const char *name = word + 2, *equals = strchr (name, '=');
    size_t length = equals ? (size_t) (equals - name) : strlen (name);
    if (is_spelling_of ("help", name, length))
        return ARGV_HELP;
    if (is_spelling_of ("help_all", name, length))
        return ARGV_HELP_ALL;
    const struct option *row = scan->row = find_long (scan, name, length);
    if (!row)
        return refuse_unknown (scan, name, length, fail);
    if (option_types[row->type].takes_value)
        return take_value (scan, equals ? equals + 1 : NULL, word, fail);
    if (equals && scan->command == COMMAND_CONFIG) { /* so that an answer can be no */
        scan->value = equals + 1;
        return ARGV_OPTION;
    }
    if (equals)
        return fail_set (fail, FAIL_USAGE, "--%s: takes no value, got '%s'", row->key, equals + 1);
    scan->value = "true";
    return ARGV_OPTION;
}

static enum argv_item
next_short (struct argv_scan *scan, struct fail *fail)
{
    char letter = *scan->cluster++;
    const char *rest = *scan->cluster ? scan->cluster : NULL;
    scan->cluster = rest;
    if (letter == 'h')
        return ARGV_HELP;
    scan->row = find_short (scan, letter);
    scan->value = "true";
    if (!option_types[scan->row->type].takes_value)
        return ARGV_OPTION;
    scan->cluster = NULL;
    char spelled[3] = { '-', letter, '\0' };
    return take_value (scan, rest, spelled, fail);
}

/* All letters at once: -host a must not be -h, which prints help and starts nothing. */
static enum argv_item
begin_short (struct argv_scan *scan, const char *letters, struct fail *fail)
{
    if (!strcmp (letters, "help"))
        return ARGV_HELP;
    if (count_flags (scan, letters) < strlen (letters) || (letters[1] && find_long (scan, letters, strlen (letters))))
        return refuse_short (scan, letters, fail);
    scan->cluster = letters;
    return next_short (scan, fail);
}

enum argv_item
argv_next (struct argv_scan *scan, struct fail *fail)
{
    if (scan->cluster)
        return next_short (scan, fail);
    if (scan->at >= scan->argc)
        return ARGV_END;
    if (scan->takes_more && is_value (scan->argv[scan->at]))
        return take_value (scan, NULL, scan->row->key, fail);
    scan->takes_more = false;
    const char *word = scan->argv[scan->at++];
    if (!scan->literal && !strcmp (word, "--")) {
        scan->literal = true;
        return argv_next (scan, fail);
    }
    /* argparse: an argument with a blank in it cannot be an option, unless it is --key=value. */
    bool is_free = scan->literal || *word != '-' || !word[1]
                   || (strchr (word, ' ') && !(word[1] == '-' && strchr (word, '=')));
    if (is_free) {
        scan->value = word;
        return ARGV_POSITIONAL;
    }
    if (word[1] == '-')
        return next_long (scan, word, fail);
    return begin_short (scan, word + 1, fail);
}

enum argv_item
argv_wants_help (enum option_command command, int argc, char **argv)
{
    struct argv_scan scan = { .command = command, .argc = argc, .argv = argv };
    for (;;) {
        enum argv_item item = argv_next (&scan, NULL);
        if (item == ARGV_HELP || item == ARGV_HELP_ALL)
            return item;
        if (item != ARGV_OPTION && (item != ARGV_POSITIONAL || command == COMMAND_LAUNCH))
            return ARGV_END;
    }
}
