/* SPDX-License-Identifier: Apache-2.0 */
/* From answers to the settings of a file; see questions.h.  Everything that the file shall hold is set here, so that it
 * has Accelerate's keys for the same answers, and no others. */
#include <config.h>

#include "cli/questions/questions.h"
#include "config/conditions.h"
#include "config/file_keys.h"
#include "config/values.h"
#include "util/cleanup.h"

#include <string.h>

static int
set (struct config *file, const char *key, const char *text, struct fail *fail)
{
    const struct option *row = option_find (key);
    /* As from a file, true and false stay words; numbers are written as Python's float() and int() read them. */
    struct origin origin = { row->type == OPTION_NUMBER ? ORIGIN_FLAG : ORIGIN_FILE, 0 };
    return config_set (file, row, text, origin, fail) ? fail_prefix (fail, "%s", key) : 0;
}

/* Items with @p separator between; an empty text is an empty list, which counts as given. */
static int
set_list (struct config *file, const char *key, const char *text, char separator, struct fail *fail)
{
    const struct option *row = option_find (key);
    if (config_reset (file, row, fail))
        return -1;
    file->origins[row - options].kind = ORIGIN_FILE;
    char ends[2] = { separator, '\0' };
    for (const char *at = text; *at;) {
        size_t length = strcspn (at, ends);
        AUTO_FREE char *word = strndup (at, length);
        if (!word)
            return fail_nomem (fail);
        if (set (file, key, word, fail))
            return -1;
        at += length + (at[length] == separator);
    }
    return 0;
}

/* "~" is the home folder; with @p absolute as Python's abspath() makes it: "." and ".." are removed by name. */
static int
set_path (struct config *file, const char *key, const char *text, bool absolute, struct fail *fail)
{
    AUTO_STRBUF struct strbuf whole = { 0 };
    AUTO_STRBUF struct strbuf clean = { 0 };
    AUTO_FREE char *here = NULL;
    const char *home = getenv ("HOME");
    if (*text == '~' && (!text[1] || text[1] == '/') && home && *home)
        strbuf_printf (&whole, "%s%s", home, text + 1);
    else if (absolute && *text != '/' && (here = getcwd (NULL, 0)))
        strbuf_printf (&whole, "%s/%s", here, text);
    else
        strbuf_add (&whole, text);
    if (whole.failed)
        return fail_nomem (fail);
    if (!absolute)
        return set (file, key, whole.text, fail);
    for (const char *at = whole.text; *at;) {
        size_t length = strcspn (at, "/");
        const char *slash = clean.text ? strrchr (clean.text, '/') : NULL;
        if (length == 2 && !strncmp (at, "..", 2))
            strbuf_truncate (&clean, slash ? (size_t) (slash - clean.text) : 0);
        else if (length && !(length == 1 && *at == '.'))
            strbuf_printf (&clean, "/%.*s", (int) length, at);
        at += length + (at[length] == '/');
    }
    return clean.failed ? fail_nomem (fail) : set (file, key, clean.length ? clean.text : "/", fail);
}

static int
apply_answer (const struct answer *item, const char *key, struct config *file, struct fail *fail)
{
    switch (item->question->kind) {
    case ASK_YES_NO:
        return set (file, key, strcmp (item->text, "yes") ? "False" : "True", fail);
    case ASK_WORDS:
    case ASK_LINES:
        return set_list (file, key, item->text, item->question->kind == ASK_LINES ? '\n' : ',', fail);
    case ASK_OPTIONAL:
        return *item->text ? set (file, key, item->text, fail) : 0;
    case ASK_PATH:
    case ASK_FULL_PATH:
        return set_path (file, key, item->text, item->question->kind == ASK_FULL_PATH, fail);
    default:
        return set (file, key, item->text, fail);
    }
}

static int
apply_fixed (const struct answers *answers, const struct question_list *list, const struct config *old,
             struct config *file, struct fail *fail)
{
    for (size_t i = 0; i < list->fixed_count; i++) {
        const struct fixed_value *fixed = &list->fixed[i];
        const struct option *row = option_find (fixed->key);
        if (!answers_allow (answers, fixed->if_answer, fixed->when))
            continue;
        const char *text = fixed->follow ? fixed->follow (answers) : fixed->text;
        AUTO_STRBUF struct strbuf kept = { 0 };
        if (fixed->keep && config_origin (old, fixed->key).kind != ORIGIN_DEFAULT) {
            option_types[row->type].format (option_field_const (row, &old->settings), &kept);
            text = kept.text ? kept.text : text;
        }
        if (row->type == OPTION_LIST ? set_list (file, fixed->key, text, ',', fail)
                                     : set (file, fixed->key, text, fail))
            return -1;
    }
    return 0;
}

static bool
list_has_key (const struct question_list *list, const char *key)
{
    for (size_t i = 0; i < list->fixed_count; i++)
        if (!strcmp (list->fixed[i].key, key))
            return true;
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp (list->rows[i].id, key) || (list->rows[i].also && !strcmp (list->rows[i].also, key)))
            return true;
    return false;
}

static bool
is_asked_about (const char *key)
{
    for (int i = 0; i < QUESTION_LISTS; i++)
        if (list_has_key (question_lists[i], key))
            return true;
    return false;
}

static bool
has_section (const struct config *file, const char *section)
{
    for (size_t i = 0; i < option_count; i++)
        if (options[i].section && !strcmp (options[i].section, section) && file->origins[i].kind != ORIGIN_DEFAULT)
            return true;
    return false;
}

static bool
has_word (const char *words, const char *word)
{
    size_t length = strlen (word);
    for (const char *at = words; at && (at = strstr (at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

static bool
is_taken (const struct answers *answers, const char *key)
{
    for (size_t i = 0; i < answers->count; i++)
        if (answers->items[i].applies
            && (!strcmp (answers->items[i].question->id, key) || has_word (answers->items[i].question->told_by, key)))
            return true;
    return false;
}

/* Whether the new file may have the key: not that of another compute_environment or of a section that has gone. */
static bool
has_place (const struct config *file, const struct option *row)
{
    return row->section ? has_section (file, row->section) : file_has_key (when_sagemaker (&file->settings), row->key);
}

static int
copy_list (const struct config *old, const struct option *row, struct config *file, struct fail *fail)
{
    const struct strlist *list = option_field_const (row, &old->settings);
    if (set_list (file, row->key, "", ',', fail)) /* what a fixed value put there */
        return -1;
    for (size_t i = 0; i < list->count; i++)
        if (set (file, row->key, list->items[i], fail))
            return -1;
    return 0;
}

/* Keep the old file's keys that no question covers, such as `grace`: the user added them by hand.  A flag takes effect
 * even if its question does not apply: launch respects --main_process_port on one machine, too. */
static int
keep_others (const struct answers *answers, const struct config *old, struct config *file, struct fail *fail)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        enum origin_kind kind = old->origins[i].kind;
        if (!(row->properties & PROPERTY_FILE) || (kind != ORIGIN_FILE && kind != ORIGIN_FLAG)
            || (is_asked_about (row->key) && (kind != ORIGIN_FLAG || is_taken (answers, row->key))))
            continue;
        if (kind == ORIGIN_FILE && !has_place (file, row))
            continue;
        if (row->type == OPTION_LIST) {
            if (copy_list (old, row, file, fail))
                return -1;
            continue;
        }
        AUTO_STRBUF struct strbuf text = { 0 };
        option_types[row->type].format (option_field_const (row, &old->settings), &text);
        if (text.failed || set (file, row->key, text.text ? text.text : "", fail))
            return text.failed ? fail_nomem (fail) : -1;
    }
    return 0;
}

int
answers_apply (const struct answers *answers, const struct config *old, struct config *file, struct fail *fail)
{
    if (config_init (file, fail))
        return -1;
    file->only_given = true;
    for (int i = 0; i < QUESTION_LISTS; i++) {
        const char *environment = question_lists[i]->environment;
        if ((!environment || answers_is (answers, "compute_environment", environment))
            && apply_fixed (answers, question_lists[i], old, file, fail))
            return -1;
    }
    for (size_t i = 0; i < answers->count; i++) {
        const struct answer *item = &answers->items[i];
        const struct question *question = item->question;
        const struct option *row = option_find (question->id);
        bool has_key = row && (row->properties & PROPERTY_FILE);
        if (item->applies && item->text && has_key
            && (apply_answer (item, question->id, file, fail)
                || (question->also && apply_answer (item, question->also, file, fail))))
            return -1;
    }
    return keep_others (answers, old, file, fail);
}
