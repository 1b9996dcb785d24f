/* SPDX-License-Identifier: Apache-2.0 */
/* The dialogue of `accelerate config`; see questionnaire.h.  It knows kinds of questions, not questions: those are in
 * machine.c and sagemaker.c. */
#include <config.h>

#include "cli/questions/questionnaire.h"

#include "cli/config/verify.h"
#include "cli/menu.h"
#include "cli/questions/questions.h"
#include "config/values.h"
#include "launch/machine/topology.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/printable.h"
#include "util/utf8.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>

static bool
is_menu (const struct question *question)
{
    return question->kind == ASK_MENU || question->kind == ASK_NUMBERS;
}

/* What an empty answer means: the answer of before, the old file's, the default; *text is NULL if none of them will
 * do.  @return -1 without memory */
static int
find_default (const struct answers *answers, const struct answer *item, char **text, struct fail *fail)
{
    int64_t number = item->question->propose ? item->question->propose (answers) : 0;
    char proposed[24] = "";
    snprintf (proposed, sizeof proposed, "%lld", (long long) number);
    const char *candidates[] = { item->text, item->has_recalled ? item->proposal : NULL, number ? proposed : NULL,
                                 item->proposal, item->question->dflt };
    *text = NULL;
    for (size_t i = 0; !*text && i < sizeof candidates / sizeof *candidates; i++) {
        struct fail wrong = { 0 };
        *text = candidates[i] ? answers_read (answers, item, candidates[i], &wrong) : NULL;
        if (wrong.status && wrong.status != FAIL_USAGE) {
            *fail = wrong;
            return -1;
        }
    }
    return 0;
}

static size_t
find_text (const struct strlist *list, const char *text)
{
    for (size_t i = 0; text && i < list->count; i++)
        if (!strcmp (list->items[i], text))
            return i;
    return 0;
}

/* @param chosen  where the cursor is; SIZE_MAX: at the default
 * @return the typed number or word, or after drawing the value that was chosen */
static enum prompt_result
ask_menu (const struct answers *answers, const struct answer *item, const char *dflt, size_t *chosen, char **line)
{
    AUTO_STRLIST struct strlist values = { 0 };
    AUTO_STRLIST struct strlist labels = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    size_t count = answers_choices (answers, item, &values, &labels);
    AUTO_FREE int *numbers = calloc (count + 1, sizeof *numbers);
    *line = NULL;
    if (values.failed || labels.failed || !numbers)
        return PROMPT_ANSWER;
    if (*chosen >= count)
        *chosen = find_text (&values, dflt);
    for (size_t i = 0; i < count; i++)
        numbers[i] = answers_menu_number (&values, i);
    if (prompt_can_draw ()) {
        enum prompt_result result = menu_choose (item->question->text, (const char *const *) labels.items, numbers,
                                                 count, chosen);
        *line = result == PROMPT_ANSWER ? strdup (values.items[*chosen]) : NULL;
        return result;
    }
    strbuf_printf (&text, "%s\n", item->question->text);
    for (size_t i = 0; i < count; i++)
        strbuf_printf (&text, "  %2d  %s\n", numbers[i], menu_is_number (labels.items[i]) ? "" : labels.items[i]);
    strbuf_printf (&text, "Number or word [%d]: ", numbers[*chosen]);
    return text.failed ? PROMPT_ANSWER : prompt_line (text.text, false, line);
}

static enum prompt_result
ask_typed (const struct question *question, const char *dflt, char **line)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_add (&text, question->text);
    if (question->kind == ASK_YES_NO)
        strbuf_add (&text, !dflt ? " [yes/no]" : strcmp (dflt, "yes") ? " [yes/NO]" : " [YES/no]");
    else if (dflt && !*dflt && question->kind == ASK_OPTIONAL)
        strbuf_add (&text, " [none]");
    else if (dflt && *dflt) {
        strbuf_add (&text, " [");
        printable_add (&text, dflt);
        strbuf_add_char (&text, ']');
    }
    strbuf_add_char (&text, ' ');
    *line = NULL;
    return text.failed
               ? PROMPT_ANSWER
               : prompt_line (text.text, question->kind == ASK_PATH || question->kind == ASK_FULL_PATH, line);
}

/* The option that the question is about, or leads to. */
static const struct option *
find_subject (const struct question *question)
{
    char key[64];
    const struct option *row = option_find (question->id);
    if (row || !question->told_by)
        return row;
    snprintf (key, sizeof key, "%.*s", (int) strcspn (question->told_by, " "), question->told_by);
    return option_find (key);
}

static void
show_help (const struct question *question)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    const struct option *row = find_subject (question);
    if (row) {
        strbuf_printf (&text, "%s\n", row->doc);
        if (row->type == OPTION_INT)
            strbuf_printf (&text, "A number from %lld to %lld. ", (long long) row->min, (long long) row->max);
        strbuf_printf (&text, "Key and option: %s.\n", row->key);
    }
    strbuf_add (&text, question->kind == ASK_YES_NO ? "Answer yes or no"
                       : is_menu (question)         ? "Enter a number or a word from the menu"
                       : question->kind == ASK_PATH || question->kind == ASK_FULL_PATH
                           ? "Enter a path (Tab completes it)"
                       : question->kind == ASK_WORDS    ? "Type comma-separated words, or nothing"
                       : question->kind == ASK_OPTIONAL ? "Enter a value, or none"
                                                     : "Enter a value");
    strbuf_add (&text, "; Enter accepts the value in brackets, < goes back, Ctrl-C quits.");
    prompt_say (text.text && !text.failed ? text.text : "out of memory");
}

static void
drop_last (struct strlist *list)
{
    free (list->items[--list->count]);
    list->items[list->count] = NULL;
}

static enum prompt_result
ask_for_more (bool *is_more)
{
    for (;;) {
        AUTO_FREE char *line = NULL;
        enum prompt_result result = prompt_line ("Do you want to add another command? [yes/NO] ", false, &line);
        *is_more = false;
        if (result == PROMPT_HELP) {
            prompt_say ("Answer yes to enter another line, no to continue, < to change the last line.");
            continue;
        }
        if (result != PROMPT_ANSWER || !line || !*line || parse_bool (line, is_more) == PARSE_OK)
            return result;
        prompt_say ("answer yes or no");
    }
}

/* One line after the other, until the person says no; "<" removes the last one. */
static enum prompt_result
ask_lines (const struct question *question, const char *dflt, char **lines)
{
    AUTO_STRLIST struct strlist list = { 0 };
    AUTO_STRBUF struct strbuf joined = { 0 };
    AUTO_FREE char *shown = dflt ? strdup (dflt) : NULL;
    bool is_more = true;
    for (char *at = shown; at && (at = strchr (at, '\n'));)
        *at = ';';
    while (is_more) {
        AUTO_FREE char *line = NULL;
        enum prompt_result result = ask_typed (question, list.count ? NULL : shown, &line);
        if (result == PROMPT_HELP) {
            show_help (question);
            continue;
        }
        if (result == PROMPT_BACK && list.count) {
            drop_last (&list);
            continue;
        }
        if (result != PROMPT_ANSWER || (line && !*line && !list.count && dflt)) {
            *lines = result == PROMPT_ANSWER ? strdup (dflt) : NULL;
            return result;
        }
        if (!line)
            return PROMPT_ANSWER; /* without a text: no memory */
        if (!*line) {
            prompt_say ("an answer is required");
            continue;
        }
        strlist_add (&list, line);
        if (list.failed)
            return PROMPT_ANSWER; /* without a text: no memory */
        result = ask_for_more (&is_more);
        if (result == PROMPT_BACK) {
            drop_last (&list);
            is_more = true;
        } else if (result != PROMPT_ANSWER)
            return result;
    }
    for (size_t i = 0; i < list.count; i++)
        strbuf_printf (&joined, "%s%s", i ? "\n" : "", list.items[i]);
    *lines = strbuf_take (&joined);
    return PROMPT_ANSWER;
}

/* Until the answer is one. */
static enum prompt_result
ask (const struct answers *answers, struct answer *item, struct fail *fail)
{
    const struct question *question = item->question;
    AUTO_FREE char *dflt = NULL;
    size_t chosen = SIZE_MAX;
    if (find_default (answers, item, &dflt, fail))
        return PROMPT_END;
    for (;;) {
        AUTO_FREE char *line = NULL;
        struct fail wrong = { 0 };
        enum prompt_result result = is_menu (question)            ? ask_menu (answers, item, dflt, &chosen, &line)
                                    : question->kind == ASK_LINES ? ask_lines (question, dflt, &line)
                                                                  : ask_typed (question, dflt, &line);
        if (result == PROMPT_HELP) {
            show_help (question);
            continue;
        }
        if (result != PROMPT_ANSWER)
            return result;
        if (!line) {
            fail_nomem (fail);
            return PROMPT_END;
        }
        char *text = answers_read (answers, item, !*line && dflt ? dflt : line, &wrong);
        if (text) {
            free (item->text);
            item->text = text;
            item->source = ANSWER_PERSON;
            return PROMPT_ANSWER;
        }
        prompt_say (wrong.text);
    }
}

/* An invalid answer of a flag is an error; an answer that became invalid because another one changed is asked again. */
static int
check_answer (const struct answers *answers, struct answer *item, struct fail *fail)
{
    struct fail wrong = { 0 };
    char *text = item->text ? answers_read (answers, item, item->text, &wrong) : NULL;
    if (text) {
        free (item->text);
        item->text = text;
    } else if (item->source == ANSWER_FLAG)
        return fail_set (fail, FAIL_USAGE, "--%s: %s", item->question->id, wrong.text);
    else
        item->source = ANSWER_NONE;
    return 0;
}

static int
take_default (const struct answers *answers, struct answer *item, struct fail *fail)
{
    char *text;
    if (find_default (answers, item, &text, fail))
        return -1;
    if (!text)
        return fail_set (fail, FAIL_USAGE, "'%s' has no default; pass --%s", item->question->text,
                         item->question->id);
    free (item->text);
    item->text = text;
    item->source = ANSWER_DEFAULT;
    return 0;
}

/* The question before @p i that was asked; count: there is none. */
static size_t
find_previous (const struct answers *answers, size_t i)
{
    while (i-- > 0)
        if (answers->items[i].applies && answers->items[i].source != ANSWER_FLAG)
            return i;
    return answers->count;
}

static int
give_up (enum prompt_result result, struct fail *fail)
{
    if (result == PROMPT_INTERRUPT) {
        prompt_say ("");
        return fail_set (fail, FAIL_BY_SIGNAL + SIGINT, "interrupted; nothing was written");
    }
    if (fail->status)
        return -1;
    prompt_say (""); /* the error begins on a new line */
    return fail_set (fail, FAIL_GENERAL, "the input ended before the last question; nothing was written");
}

/* From question @p i to the last.  @p only_new: leave alone what has an answer. */
static int
walk (struct answers *answers, size_t i, bool only_new, bool ask_nothing, struct fail *fail)
{
    for (answers_refresh (answers); i < answers->count; answers_refresh (answers)) {
        struct answer *item = &answers->items[i];
        if (!item->applies) {
            i++;
            continue;
        }
        if (check_answer (answers, item, fail))
            return -1;
        if (item->source == ANSWER_FLAG || (only_new && item->source != ANSWER_NONE)) {
            i++;
            continue;
        }
        if (ask_nothing) {
            if (take_default (answers, item, fail))
                return -1;
            i++;
            continue;
        }
        enum prompt_result result = ask (answers, item, fail);
        if (result == PROMPT_BACK) {
            size_t previous = find_previous (answers, i);
            if (previous == answers->count)
                prompt_say ("already at the first question");
            else {
                i = previous;
                answers->items[i].source = ANSWER_NONE;
            }
        } else if (result == PROMPT_ANSWER)
            i++;
        else
            return give_up (result, fail);
    }
    return 0;
}

static const char *
label_of (const struct answer *item)
{
    const struct choice *choices = item->question->choices;
    if (item->question->kind == ASK_OPTIONAL && !*item->text)
        return "none";
    for (size_t i = 0; choices && choices[i].value; i++)
        if (choices[i].label && !strcmp (choices[i].value, item->text))
            return choices[i].label;
    return item->text;
}

enum { LABEL_COLUMNS = 32 }; /* longer answers have their question on the next line */

/* An answer as the review shows it, on one line.  @return its columns */
static size_t
add_label (struct strbuf *out, const struct answer *item)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    size_t before = out->length, columns = 0;
    strbuf_add (&line, label_of (item));
    for (char *at = line.text; at && (at = strchr (at, '\n'));)
        *at = ';';
    printable_add (out, line.text ? line.text : "");
    for (const char *at = out->text ? out->text + before : ""; *at; columns++)
        utf8_next (&at);
    return columns;
}

/* The columns of the widest answer that shares a line with its question. */
static size_t
measure_labels (const struct answers *answers)
{
    size_t widest = 0;
    for (size_t i = 0; i < answers->count; i++) {
        AUTO_STRBUF struct strbuf label = { 0 };
        size_t columns = answers->items[i].applies ? add_label (&label, &answers->items[i]) : 0;
        if (columns > widest && columns <= LABEL_COLUMNS)
            widest = columns;
    }
    return widest;
}

/* @return how many; *items are their indices, which the caller frees, or NULL without memory */
static size_t
show_answers (const struct answers *answers, size_t **items)
{
    size_t count = 0, widest = measure_labels (answers), indent = strlen (" 123  ") + widest + strlen ("  ");
    *items = calloc (answers->count, sizeof **items);
    prompt_say ("\nYour answers:");
    for (size_t i = 0; *items && i < answers->count; i++) {
        if (!answers->items[i].applies)
            continue;
        AUTO_STRBUF struct strbuf line = { 0 };
        (*items)[count++] = i;
        strbuf_printf (&line, " %3zu  ", count);
        size_t columns = add_label (&line, &answers->items[i]);
        if (columns > widest)
            strbuf_printf (&line, "\n%*s", (int) indent, "");
        else
            strbuf_printf (&line, "%*s", (int) (widest - columns + strlen ("  ")), "");
        printable_add (&line, answers->items[i].question->text);
        prompt_say_indented (line.text ? line.text : "", indent);
    }
    return count;
}

/* Ask one question again, then those that its answer makes necessary. */
static int
change (struct answers *answers, size_t i, struct fail *fail)
{
    enum prompt_result result = ask (answers, &answers->items[i], fail);
    if (result == PROMPT_BACK)
        return 0;
    return result == PROMPT_ANSWER ? walk (answers, 0, true, false, fail) : give_up (result, fail);
}

static int
review (struct answers *answers, struct fail *fail)
{
    for (;;) {
        AUTO_FREE size_t *items = NULL;
        AUTO_FREE char *line = NULL;
        int64_t number;
        size_t count = show_answers (answers, &items), previous = find_previous (answers, answers->count);
        if (!items)
            return fail_nomem (fail);
        enum prompt_result result = prompt_line ("Enter saves, a number changes that answer: ", false, &line);
        if (result == PROMPT_BACK && previous < answers->count) {
            answers->items[previous].source = ANSWER_NONE;
            if (walk (answers, previous, true, false, fail))
                return -1;
        } else if (result == PROMPT_END || result == PROMPT_INTERRUPT)
            return give_up (result, fail);
        else if (result == PROMPT_ANSWER && !line)
            return fail_nomem (fail);
        else if (result == PROMPT_ANSWER && !*line)
            return 0;
        else if (line && parse_int64 (line, 1, (int64_t) count, &number) == PARSE_OK) {
            if (change (answers, items[number - 1], fail))
                return -1;
        } else
            prompt_say ("not a number in the list; Enter saves, Ctrl-C quits without saving");
    }
}

/* What is worth knowing beside the file. */
static void
add_remarks (const struct answers *answers)
{
    if (answers_is (answers, "use_dynamo", "yes") && answers_is (answers, "mixed_precision", "no")
        && !answers_is (answers, "use_cpu", "yes") && !answers_is (answers, "machine", "MULTI_CPU"))
        prompt_say ("note: without mixed precision, torch dynamo is fast only with TF32, which Hugging Face Accelerate "
                    "enables");
    if (answers_is (answers, "authorization", "credentials"))
        prompt_say ("note: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for each launch; the file does not contain "
                    "them");
}

static int
make_file (const struct answers *answers, const struct config *old, struct config *file, struct fail *fail)
{
    config_release (file);
    return answers_apply (answers, old, file, fail) ? -1 : verify_file (old, file, fail);
}

/* A person can mend answers that launch would refuse. */
static int
finish (struct answers *answers, const struct config *old, struct config *file, bool has_person, struct fail *fail)
{
    int result = has_person ? review (answers, fail) : 0;
    while (!result && make_file (answers, old, file, fail)) {
        if (!has_person || fail->status != FAIL_USAGE)
            return -1;
        prompt_say (fail->text);
        *fail = (struct fail){ 0 };
        result = review (answers, fail);
    }
    if (!result)
        add_remarks (answers);
    return result;
}

static int
count_cores (void)
{
    struct topology topology;
    topology_probe (&topology, true);
    int cores = topology.physical_cores;
    topology_release (&topology);
    return cores;
}

int
questionnaire_run (const struct config *old, int gpus, struct config *file, bool *wants_role, struct fail *fail)
{
    struct answers answers;
    struct fail unused = { 0 };
    bool ask_nothing = old->settings.yes, has_person = !ask_nothing && prompt_has_person ();
    fail = fail ? fail : &unused;
    int result = answers_init (&answers, old, gpus, fail);
    answers.cores = has_person ? count_cores () : 0;
    prompt_open ();
    if (!result && has_person)
        prompt_say ("Enter accepts the value in brackets, < goes back one question, ? explains the question.\n"
                    "Nothing is saved until the end; Ctrl-C quits without saving.\n");
    if (!result)
        result = walk (&answers, 0, false, ask_nothing, fail);
    if (!result)
        result = finish (&answers, old, file, has_person, fail);
    *wants_role = !result && answers_is (&answers, "role", "create");
    prompt_close ();
    answers_release (&answers);
    return result;
}
