/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: entries to settings, settings to text; see file.h. */
#include <config.h>

#include "config/file.h"

#include "config/load.h"
#include "config/paths.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"
#include "util/suggest.h"

#include <string.h>
#include <strings.h>

enum { LARGEST_FILE = 1 << 20, MOST_ENTRIES = 1000 };

struct entry *
filedoc_add (struct filedoc *doc, const char *section, const char *key, const char *value, enum entry_kind kind,
             int line)
{
    if (doc->count == doc->capacity) {
        size_t capacity = doc->capacity ? doc->capacity * 2 : 32;
        struct entry *grown = reallocarray (doc->entries, capacity, sizeof *grown);
        if (!grown)
            return NULL;
        doc->entries = grown;
        doc->capacity = capacity;
    }
    struct entry *entry = &doc->entries[doc->count];
    *entry = (struct entry){ .kind = kind, .line = line };
    doc->count++;
    entry->section = section ? strdup (section) : NULL;
    entry->key = strdup (key);
    entry->value = value ? strdup (value) : NULL;
    bool is_whole = entry->key && !section == !entry->section && !value == !entry->value;
    return is_whole ? entry : NULL;
}

void
filedoc_release (struct filedoc *doc)
{
    for (size_t i = 0; i < doc->count; i++) {
        free (doc->entries[i].section);
        free (doc->entries[i].key);
        free (doc->entries[i].value);
        strlist_release (&doc->entries[i].items);
    }
    free (doc->entries);
    *doc = (struct filedoc){ 0 };
}

/* Put "FILE:LINE" before the message. */
static int
prefix_place (const struct filedoc *doc, const struct entry *entry, struct fail *fail)
{
    if (fail)
        fail->status = FAIL_GENERAL;
    if (entry->line)
        return fail_prefix (fail, "%s:%d", doc->path, entry->line);
    return fail_prefix (fail, "%s", doc->path);
}

static bool
is_our_section (const char *name)
{
    for (size_t i = 0; i < option_count; i++)
        if (options[i].section && !strcmp (options[i].section, name))
            return true;
    return false;
}

static int
refuse_unknown (const struct entry *entry, struct fail *fail)
{
    struct suggest suggest = { .wanted = entry->key };
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!(row->properties & PROPERTY_FILE))
            continue;
        if (!entry->section && row->section)
            suggest_consider (&suggest, row->section);
        if (entry->section ? row->section && !strcmp (row->section, entry->section) : !row->section)
            suggest_consider (&suggest, row->key);
    }
    char space[96];
    return fail_set (fail, FAIL_GENERAL, "unknown key '%s'%s%s%s", entry->key, entry->section ? " in " : "",
                     entry->section ? entry->section : "", suggest_text (&suggest, "", space, sizeof space));
}

/* Keys that the original knows and that mean nothing here. */
static const struct {
    const char *section, *key;
} ignored[] = {
    { NULL, "additional_args" },          /* of SageMaker, a mapping */
    { NULL, "fp16" },                     /* of old releases; where it is true: translate_old_key() */
    { "mpirun_config", "mpirun_ccl" },    /* of old releases, and without effect in the newest */
};

static bool
same_text (const char *a, const char *b)
{
    return a && b ? !strcmp (a, b) : a == b;
}

static bool
is_ignored (const struct entry *entry)
{
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        bool inside = !ignored[i].section && entry->section && !strcmp (entry->section, ignored[i].key);
        if (inside || (same_text (ignored[i].section, entry->section) && !strcmp (ignored[i].key, entry->key)))
            return true;
    }
    return false;
}

/* The row's own word for an entry's: words in any case, and `no` even where YAML makes it a truth value. */
static const char *
choice_for (const struct option *row, const struct entry *entry)
{
    bool truth = true;
    bool is_false = entry->is_truth && parse_bool (entry->value, &truth) == PARSE_OK && !truth;
    for (size_t i = 0; row->choices[i]; i++)
        if (!strcasecmp (row->choices[i], entry->value) || (is_false && !strcasecmp (row->choices[i], "no")))
            return row->choices[i];
    return entry->value;
}

/* A truth value where the row wants a text: YAML made it one, and the author can hardly have meant that. */
static bool
is_misread (const struct option *row, const struct entry *entry)
{
    if (!entry->is_truth || row->choices)
        return false;
    return row->type == OPTION_TEXT || row->type == OPTION_PATH || row->type == OPTION_LIST || row->type == OPTION_INT
           || row->type == OPTION_NUMBER;
}

static int
apply_list (struct config *config, const struct option *row, const struct entry *entry, struct fail *fail)
{
    struct origin origin = { ORIGIN_FILE, entry->line };
    AUTO_STRBUF struct strbuf joined = { 0 };
    if (entry->is_nested)
        return fail_set (fail, FAIL_GENERAL, "a list of single values is wanted");
    for (size_t i = 0; i < entry->items.count; i++) {
        if (row->type == OPTION_LIST && config_set (config, row, entry->items.items[i], origin, fail))
            return -1;
        strbuf_printf (&joined, "%s%s", i ? "," : "", entry->items.items[i]);
    }
    if (row->type == OPTION_LIST)
        return 0;
    return config_set (config, row, joined.text ? joined.text : "", origin, fail);
}

static int
apply_value (struct config *config, const struct option *row, const struct entry *entry, struct fail *fail)
{
    bool takes_list = row->type == OPTION_LIST || row->type == OPTION_TRIPLE;
    if (entry->kind == ENTRY_LIST && takes_list)
        return apply_list (config, row, entry, fail);
    if (entry->kind == ENTRY_LIST || entry->kind == ENTRY_MAP)
        return fail_set (fail, FAIL_GENERAL, "a %s is wanted, not a %s", takes_list ? "list" : "single value",
                         entry->kind == ENTRY_LIST ? "list" : "mapping");
    if (is_misread (row, entry))
        return fail_set (fail, FAIL_GENERAL, "a bare yes, no, on, off, true or false is a truth value in YAML: put a "
                         "text in quotes");
    const char *text = row->choices ? choice_for (row, entry) : entry->value;
    return config_set (config, row, text, (struct origin){ ORIGIN_FILE, entry->line }, fail);
}

static int
apply_entry (struct config *config, const struct option *row, const struct entry *entry, struct fail *fail)
{
    if (entry->kind == ENTRY_NULL || !apply_value (config, row, entry, fail))
        return 0;
    return fail_prefix (fail, "%s", entry->key);
}

/* The same key with another value: one of the two is a mistake, and nobody can say which. */
static int
check_duplicate (const struct filedoc *doc, const struct entry *entry, struct fail *fail)
{
    for (const struct entry *other = doc->entries; other < entry; other++)
        if (same_text (other->section, entry->section) && same_text (other->key, entry->key)
            && !(other->kind == entry->kind && entry->value && same_text (other->value, entry->value)))
            return fail_set (fail, FAIL_GENERAL, "'%s' stands here and on line %d", entry->key, other->line);
    return 0;
}

/* What the original's own questionnaire calls some keys of fp8_config, under names that nothing reads. */
static const struct {
    const char *wrong, *right;
} fp8_keys[] = {
    { "amax_history_length", "fp8_amax_history_len" },
    { "amax_compute_algorithm", "fp8_amax_compute_algo" },
    { "optimization_level", "fp8_opt_level" },
};

/* Keys of old releases: `fp16: true` was mixed precision, and dynamo's backend stood at the top. */
static const struct option *
translate_old_key (const struct filedoc *doc, struct entry *entry)
{
    bool truth = false;
    for (size_t i = 0; i < sizeof fp8_keys / sizeof *fp8_keys; i++)
        if (entry->section && !strcmp (entry->section, "fp8_config") && !strcmp (entry->key, fp8_keys[i].wrong))
            return option_find (fp8_keys[i].right);
    if (entry->section || !entry->value)
        return NULL;
    if (!strcmp (entry->key, "dynamo_backend"))
        return option_find_in_file ("dynamo_config", entry->key);
    if (strcmp (entry->key, "fp16") || parse_bool (entry->value, &truth) != PARSE_OK || !truth)
        return NULL;
    for (size_t i = 0; i < doc->count; i++)
        if (!doc->entries[i].section && !strcmp (doc->entries[i].key, "mixed_precision"))
            return NULL;
    char *word = strdup ("fp16");
    if (!word)
        return NULL;
    free (entry->value);
    entry->value = word;
    entry->kind = ENTRY_TEXT;
    return option_find_in_file (NULL, "mixed_precision");
}

/* What still works, but has another name now. */
static void
note_old_key (const struct filedoc *doc, const struct entry *entry, const struct option *row, struct strlist *problems)
{
    if (row && option_find_in_file (entry->section, entry->key) != row)
        strlist_printf (problems, "%s:%d: '%s' is an old name: write %s%s%s", doc->path, entry->line, entry->key,
                        row->section ? row->section : "", row->section ? ": " : "", row->key);
}

static int
apply (struct config *config, struct filedoc *doc, struct fail *fail)
{
    if (doc->count > MOST_ENTRIES)
        return fail_set (fail, FAIL_GENERAL, "%s: more than %d keys", doc->path, (int) MOST_ENTRIES);
    for (size_t i = 0; i < doc->count; i++) {
        struct entry *entry = &doc->entries[i];
        const struct option *row = option_find_in_file (entry->section, entry->key);
        if (!row)
            row = translate_old_key (doc, entry);
        bool is_section = !row && !entry->section && is_our_section (entry->key);
        int result = check_duplicate (doc, entry, fail);
        if (!result && is_section && entry->kind != ENTRY_MAP && entry->kind != ENTRY_NULL)
            result = fail_set (fail, FAIL_GENERAL, "%s: a mapping is wanted, not a single value", entry->key);
        else if (!result && !is_section)
            result = row                  ? apply_entry (config, row, entry, fail)
                     : is_ignored (entry) ? 0
                                          : refuse_unknown (entry, fail);
        if (result)
            prefix_place (doc, entry, fail);
        if (result && !config->problems)
            return -1;
        if (result)
            strlist_add (config->problems, fail->text);
        else if (config->problems)
            note_old_key (doc, entry, row, config->problems);
    }
    return 0;
}

int
config_read_file (struct config *config, const char *path, struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    size_t length = 0;
    if (io_read_file (path, LARGEST_FILE, &text, &length, fail))
        return fail_prefix (fail, "configuration file");
    struct filedoc doc = { .path = path };
    int result = path_is_json (path) ? json_read (&doc, text, length, fail) : yaml_read (&doc, text, length, fail);
    if (!result)
        result = apply (config, &doc, fail);
    filedoc_release (&doc);
    return result;
}
