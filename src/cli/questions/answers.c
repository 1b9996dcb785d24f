/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the questionnaire: where they are kept, what counts as one, and where proposals come from; see
 * questions.h.  What file they make: answers_apply.c. */
#include <config.h>

#include "cli/questions/questions.h"
#include "config/values.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

/* Conditions look at questions before theirs only, so one pass is enough. */
void
answers_refresh (struct answers *answers)
{
    for (size_t i = 0; i < answers->count; i++)
        answers->items[i].applies = false;
    for (size_t i = 0; i < answers->count; i++) {
        struct answer *item = &answers->items[i];
        const char *environment = item->list->environment;
        item->applies = (!environment || answers_is (answers, "compute_environment", environment))
                        && answers_allow (answers, item->question->if_answer, item->question->when);
    }
}

size_t
answers_choices (const struct answers *answers, const struct answer *item, struct strlist *values,
                 struct strlist *labels)
{
    const struct choice *choices = item->question->choices;
    size_t count = 0;
    if (item->question->kind == ASK_NUMBERS)
        for (int64_t machines = answers_number (answers, "num_machines"); (int64_t) count < machines; count++) {
            strlist_printf (values, "%zu", count);
            strlist_printf (labels, "%zu", count);
        }
    for (; choices && choices[count].value; count++) {
        strlist_add (values, choices[count].value);
        strlist_add (labels, choices[count].label ? choices[count].label : choices[count].value);
    }
    return count;
}

int
answers_menu_number (const struct strlist *values, size_t i)
{
    int64_t number = 0;
    for (size_t j = 0; j < values->count; j++)
        if (parse_int64 (values->items[j], 0, INT_MAX, &number))
            return (int) i;
    (void) parse_int64 (values->items[i], 0, INT_MAX, &number);
    return (int) number;
}

static char *
read_choice (const struct answers *answers, const struct answer *item, const char *typed, struct fail *fail)
{
    AUTO_STRLIST struct strlist values = { 0 };
    AUTO_STRLIST struct strlist labels = { 0 };
    struct suggest suggest = { .wanted = typed };
    int64_t number;
    char space[80];
    size_t count = answers_choices (answers, item, &values, &labels);
    if (values.failed || labels.failed || !count) {
        fail_nomem (fail);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (!strcasecmp (values.items[i], typed) || !strcasecmp (labels.items[i], typed))
            return strdup (values.items[i]);
        suggest_consider (&suggest, values.items[i]);
    }
    if (parse_int64 (typed, 0, INT_MAX, &number) == PARSE_OK)
        for (size_t i = 0; i < count; i++)
            if (answers_menu_number (&values, i) == number)
                return strdup (values.items[i]);
    fail_set (fail, FAIL_USAGE, "'%s' is not one of the choices; enter a number from %d to %d, or a word%s", typed,
              answers_menu_number (&values, 0), answers_menu_number (&values, count - 1),
              suggest_text (&suggest, "", space, sizeof space));
    return NULL;
}

static char *
read_yes_no (const char *typed, struct fail *fail)
{
    bool truth;
    if (parse_bool (typed, &truth) == PARSE_OK)
        return strdup (truth ? "yes" : "no");
    fail_set (fail, FAIL_USAGE, "expected yes or no, got '%s'", typed);
    return NULL;
}

/* What the option's own type says. */
static char *
read_value (const struct answer *item, const char *typed, struct fail *fail)
{
    const struct option *row = option_find (item->question->id);
    struct settings unused = { 0 };
    bool is_list = row && row->type == OPTION_LIST;
    if (item->question->kind == ASK_OPTIONAL && (!*typed || !strcmp (typed, "none")))
        return strdup ("");
    if (!*typed && item->question->kind != ASK_WORDS) {
        fail_set (fail, FAIL_USAGE, "an answer is required");
        return NULL;
    }
    if (row && !is_list) {
        void *field = option_field (row, &unused);
        int result = option_types[row->type].parse (row, typed, false, field, fail);
        option_types[row->type].release (field);
        if (result)
            return NULL;
    }
    char *text = strdup (typed);
    for (char *at = text; at && *at && item->question->kind == ASK_LOWER; at++)
        *at = (char) tolower ((unsigned char) *at);
    return text;
}

char *
answers_read (const struct answers *answers, const struct answer *item, const char *typed, struct fail *fail)
{
    const struct question *question = item->question;
    struct fail wrong = { 0 };
    bool is_menu = question->kind == ASK_MENU || question->kind == ASK_NUMBERS;
    char *text = is_menu                          ? read_choice (answers, item, typed, &wrong)
                 : question->kind == ASK_YES_NO ? read_yes_no (typed, &wrong)
                                                : read_value (item, typed, &wrong);
    const char *objection = text && question->objection ? question->objection (answers, text) : NULL;
    if (objection)
        fail_set (&wrong, FAIL_USAGE, "'%s': %s", typed, objection);
    else if (!text && !wrong.status)
        fail_nomem (&wrong);
    if (!wrong.status)
        return text;
    free (text);
    if (fail)
        *fail = wrong;
    return NULL;
}

/* The stronger of where the keys come from; *is_on: one of them has a value that means something. */
static enum origin_kind
look_at_keys (const struct config *old, const char *keys, bool *is_on)
{
    enum origin_kind kind = ORIGIN_DEFAULT;
    char key[64];
    for (const char *at = keys; *at; at += *at == ' ') {
        size_t length = strcspn (at, " ");
        snprintf (key, sizeof key, "%.*s", (int) length, at);
        at += length;
        const struct option *row = option_find (key);
        enum origin_kind found = config_origin (old, key).kind;
        found = found == ORIGIN_COMPUTED ? ORIGIN_FILE : found; /* what follows from flags is proposed */
        AUTO_STRBUF struct strbuf text = { 0 };
        option_types[row->type].format (option_field_const (row, &old->settings), &text);
        if (found != ORIGIN_DEFAULT && text.length && strcmp (text.text, "false") && strcmp (text.text, "no"))
            *is_on = true;
        kind = found > kind ? found : kind;
    }
    return kind;
}

/* A value of the option table in the words of the question. */
static char *
recall_value (const struct question *question, const struct config *old, const char *key)
{
    const struct option *row = option_find (key);
    AUTO_STRBUF struct strbuf text = { 0 };
    bool truth;
    if (row->type == OPTION_LIST) {
        const struct strlist *list = option_field_const (row, &old->settings);
        for (size_t i = 0; i < list->count; i++)
            strbuf_printf (&text, "%s%s", i ? question->kind == ASK_LINES ? "\n" : "," : "", list->items[i]);
    } else
        option_types[row->type].format (option_field_const (row, &old->settings), &text);
    if (question->kind == ASK_YES_NO && text.text && parse_bool (text.text, &truth) == PARSE_OK)
        return strdup (truth ? "yes" : "no");
    return strbuf_take (&text);
}

/* A flag's value is an answer; a file's, or else the default, is proposed. */
static int
prepare (struct answer *item, const struct config *old, struct fail *fail)
{
    const struct question *question = item->question;
    bool is_on = false;
    enum origin_kind kind;
    char *text = NULL;
    if (question->told_by) {
        kind = look_at_keys (old, question->told_by, &is_on);
        const char *recalled = question->recall ? question->recall (old) : is_on ? "yes" : NULL;
        if (!recalled)
            recalled = question->dflt;
        text = recalled ? strdup (recalled) : NULL;
    } else {
        bool use_also = question->also
                        && config_origin (old, question->id).kind < config_origin (old, question->also).kind;
        const char *key = use_also ? question->also : question->id;
        kind = config_origin (old, key).kind;
        if (kind != ORIGIN_DEFAULT)
            text = recall_value (question, old, key);
        else if (question->dflt)
            text = strdup (question->dflt);
    }
    if (!text && (kind != ORIGIN_DEFAULT || question->dflt))
        return fail_nomem (fail);
    item->source = kind == ORIGIN_FLAG ? ANSWER_FLAG : ANSWER_NONE;
    item->has_recalled = kind != ORIGIN_DEFAULT;
    *(kind == ORIGIN_FLAG ? &item->text : &item->proposal) = text;
    return 0;
}

int
answers_init (struct answers *answers, const struct config *old, int gpus, struct fail *fail)
{
    size_t count = 0;
    *answers = (struct answers){ .gpus = gpus };
    for (int i = 0; i < QUESTION_LISTS; i++)
        count += question_lists[i]->count;
    answers->items = calloc (count, sizeof *answers->items);
    if (!answers->items)
        return fail_nomem (fail);
    for (int i = 0; i < QUESTION_LISTS; i++)
        for (size_t j = 0; j < question_lists[i]->count; j++) {
            struct answer *item = &answers->items[answers->count++];
            item->question = &question_lists[i]->rows[j];
            item->list = question_lists[i];
            if (prepare (item, old, fail))
                return -1;
        }
    answers_refresh (answers);
    return 0;
}

void
answers_release (struct answers *answers)
{
    for (size_t i = 0; i < answers->count; i++) {
        free (answers->items[i].text);
        free (answers->items[i].proposal);
    }
    free (answers->items);
    *answers = (struct answers){ 0 };
}
