/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: entries to settings; see file.h. */
#include <config.h>

#include "config/file.h"

#include "config/file_keys.h"
#include "config/paths.h"
#include "config/text/tree.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"
#include "util/suggest.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_KEYS = 1000 };

/* A key at the top, or in a section. */
struct entry {
    const char *section; /* NULL: at the top */
    const struct node *parent;
    struct node *node;
};

/* Put "FILE:LINE" before the message. */
static int
prefix_place (const struct filedoc *doc, const struct node *node, struct fail *fail)
{
    if (fail)
        fail->status = FAIL_GENERAL;
    if (node->line)
        return fail_prefix (fail, "%s:%d", doc->path, node->line);
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

static bool
same_text (const char *a, const char *b)
{
    return a && b ? !strcmp (a, b) : a == b;
}

/* The row of a key that is in the wrong place, or, in its section, without the section's name. */
static const struct option *
find_elsewhere (const struct entry *entry)
{
    const char *key = entry->node->key;
    size_t length = strlen (key);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!(row->properties & PROPERTY_FILE))
            continue;
        size_t whole = strlen (row->key);
        bool ends = whole > length && row->key[whole - length - 1] == '_' && !strcmp (row->key + whole - length, key);
        bool is_here = entry->section && row->section && !strcmp (row->section, entry->section);
        if (!strcmp (row->key, key) || (ends && is_here && !strncmp (row->key, row->section, whole - length - 1)))
            return row;
    }
    return NULL;
}

static int
refuse_unknown (const struct entry *entry, struct fail *fail)
{
    const char *key = entry->node->key;
    struct suggest suggest = { .wanted = key };
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
    const struct option *elsewhere = find_elsewhere (entry);
    if (elsewhere && elsewhere->section && same_text (elsewhere->section, entry->section))
        suggest.best = elsewhere->key;
    else if (elsewhere) {
        const char *mode = elsewhere->section ? option_groups[elsewhere->group].mode : NULL;
        return fail_set (fail, FAIL_GENERAL, "unknown key '%s' %s%s: it belongs %s%s%s%s%s", key,
                         entry->section ? "in " : "at the top", entry->section ? entry->section : "",
                         elsewhere->section ? "in " : "at the top", elsewhere->section ? elsewhere->section : "",
                         mode ? " (and has no effect without " : "", mode ? mode : "", mode ? ")" : "");
    }
    return fail_set (fail, FAIL_GENERAL, "unknown key '%s'%s%s%s", key, entry->section ? " in " : "",
                     entry->section ? entry->section : "", suggest_text (&suggest, "", space, sizeof space));
}

/* Keys that Accelerate knows and that mean nothing here. */
static const struct {
    const char *section, *key;
} ignored[] = {
    { NULL, "additional_args" },          /* of SageMaker, a mapping, not a setting: config_read_file() */
    { NULL, "fp16" },                     /* of old releases; if it is true: find_old_key() */
    { "mpirun_config", "mpirun_ccl" },    /* of old releases, and without effect in the newest */
};

static bool
is_of_deepspeed (const struct entry *entry)
{
    const char *key;
    for (size_t i = 0; same_text (entry->section, "deepspeed_config") && (key = file_deepspeed_key (i)); i++)
        if (!strcmp (key, entry->node->key))
            return true;
    return false;
}

static bool
is_ignored (const struct entry *entry)
{
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (same_text (ignored[i].section, entry->section) && !strcmp (ignored[i].key, entry->node->key))
            return true;
    return is_of_deepspeed (entry);
}

/* A truth value for a row that needs a text: YAML made it one, and the author can hardly have meant that. */
static bool
is_misread (const struct option *row, const struct node *node)
{
    if (node->kind != NODE_BOOL || row->choices)
        return false;
    return row->type == OPTION_TEXT || row->type == OPTION_PATH || row->type == OPTION_LIST || row->type == OPTION_INT
           || row->type == OPTION_NUMBER;
}

static int
apply_list (struct config *config, const struct option *row, const struct node *list, struct fail *fail)
{
    struct origin origin = { ORIGIN_FILE, list->line };
    AUTO_STRBUF struct strbuf joined = { 0 };
    for (size_t i = 0; i < list->count; i++) {
        const struct node *item = &list->items[i];
        if (!node_is_scalar (item) || item->kind == NODE_NULL)
            return fail_set (fail, FAIL_GENERAL, "expected a list of single values");
        if (row->type == OPTION_LIST && config_set (config, row, item->text, origin, fail))
            return -1;
        strbuf_printf (&joined, "%s%s", i ? "," : "", item->text);
    }
    if (row->type == OPTION_LIST)
        return 0;
    return config_set (config, row, joined.text ? joined.text : "", origin, fail);
}

static int
apply_value (struct config *config, const struct option *row, const struct node *node, struct fail *fail)
{
    bool takes_list = row->type == OPTION_LIST || row->type == OPTION_TRIPLE;
    if (node->kind == NODE_LIST && takes_list)
        return apply_list (config, row, node, fail);
    if (!node_is_scalar (node))
        return fail_set (fail, FAIL_GENERAL, "expected a %s, got a %s", takes_list ? "list" : "single value",
                         node->kind == NODE_LIST ? "list" : "mapping");
    if (is_misread (row, node))
        return fail_set (fail, FAIL_GENERAL, "YAML reads a bare yes, no, on, off, true or false as a boolean: put "
                         "text in quotes");
    const char *text = row->choices ? file_choice (row, node) : node->text;
    AUTO_STRBUF struct strbuf thrice = { 0 };
    bool unused;
    if (row->type == OPTION_TRIPLE && parse_bool (text, &unused) == PARSE_OK) { /* as old questionnaires wrote it */
        strbuf_printf (&thrice, "%s,%s,%s", text, text, text);
        if (thrice.failed)
            return fail_nomem (fail);
        text = thrice.text;
    }
    return config_set (config, row, text, (struct origin){ ORIGIN_FILE, node->line }, fail);
}

/* Accelerate's questionnaire writes '' for a question without an answer, and its `config update` writes -1 for a number
 * of processes that was not given. */
static bool
says_nothing (const struct option *row, const struct node *node)
{
    bool is_text = (row->type == OPTION_TEXT || row->type == OPTION_PATH) && !row->choices
                   && strcmp (row->key, "gpu_ids") != 0; /* no GPUs at all: hardly meant */
    return node->kind == NODE_NULL || (is_text && node->kind == NODE_TEXT && !*node->text)
           || (node->kind == NODE_INT && !strcmp (row->key, "num_processes") && !strcmp (node->text, "-1"));
}

/* The same key with another value, be it without its section's name or under an old one: one of the two is a mistake,
 * and we cannot tell which. */
static int
check_duplicate (const struct entry *entry, struct fail *fail)
{
    const struct option *row = file_find_row (entry->section, entry->node->key);
    for (const struct node *other = entry->parent->items; other < entry->node; other++) {
        bool same_name = !strcmp (other->key, entry->node->key);
        if ((!same_name && (!row || file_find_row (entry->section, other->key) != row))
            || node_equal (other, entry->node))
            continue;
        return same_name ? fail_set (fail, FAIL_GENERAL, "duplicate key '%s' (first on line %d)", other->key,
                                     other->line)
                         : fail_set (fail, FAIL_GENERAL, "'%s' is the same key as '%s' on line %d", entry->node->key,
                                     other->key, other->line);
    }
    return 0;
}

/* Keys at the top of old releases: `fp16: true` was mixed precision, and dynamo's backend stood at the top. */
static const struct option *
find_old_key (const struct entry *entry)
{
    const struct node *node = entry->node;
    bool truth = false;
    if (entry->section)
        return NULL;
    if (!strcmp (node->key, "dynamo_backend")) /* null too: Accelerate takes it for "no" */
        return option_find_in_file ("dynamo_config", node->key);
    if (!node->text || strcmp (node->key, "fp16") || parse_bool (node->text, &truth) != PARSE_OK || !truth
        || node_find (entry->parent, "mixed_precision"))
        return NULL;
    return option_find_in_file (NULL, "mixed_precision");
}

/* What still works, but has another name now; and what belongs in DeepSpeed's own file. */
static void
note_old_key (const struct filedoc *doc, const struct entry *entry, const struct option *row, struct strlist *problems)
{
    if (!row && is_of_deepspeed (entry))
        strlist_printf (problems, "%s:%d: '%s' has no effect here: write it in the file that deepspeed_config_file "
                        "names",
                        doc->path, entry->node->line, entry->node->key);
    if (row && option_find_in_file (entry->section, entry->node->key) != row)
        strlist_printf (problems, "%s:%d: '%s' is an old name; write %s%s%s", doc->path, entry->node->line,
                        entry->node->key, row->section ? row->section : "", row->section ? ": " : "", row->key);
}

static int
apply_key (struct config *config, const struct entry *entry, const struct option *row, struct fail *fail)
{
    const struct node *node = entry->node;
    bool is_section = !row && !entry->section && is_our_section (node->key), truth;
    if (check_duplicate (entry, fail) || (!entry->section && file_check_kind (entry->parent, node, fail)))
        return -1;
    if (is_section && node->kind != NODE_MAP && node->kind != NODE_NULL)
        return fail_set (fail, FAIL_GENERAL, "%s: expected a mapping, got a %s", node->key,
                         node->kind == NODE_LIST ? "list" : "single value");
    if (is_section)
        return 0;
    if (row && !strcmp (node->key, "fp16"))
        return config_set (config, row, "fp16", (struct origin){ ORIGIN_FILE, node->line }, fail);
    if (row && node->text && file_is_old_backend (row, node->text))
        return fail_set (fail, FAIL_GENERAL, "%s: PyTorch no longer has '%s': choose another backend, or turn it off "
                         "with accelerate config update", node->key, node->text);
    if (row && !says_nothing (row, node))
        return apply_value (config, row, node, fail) ? fail_prefix (fail, "%s", node->key) : 0;
    if (!row && !entry->section && !strcmp (node->key, "fp16") && node->kind != NODE_NULL
        && (!node->text || parse_bool (node->text, &truth) != PARSE_OK))
        return fail_set (fail, FAIL_GENERAL, "fp16: neither true nor false");
    return row || is_ignored (entry) ? 0 : refuse_unknown (entry, fail);
}

/* Old files have words of dynamo_backend that PyTorch no longer knows.  Accelerate reads them only if they take effect.
 * @return whether the failure is kept for later */
static bool
defer (struct config *config, const struct option *row, struct fail *fail)
{
    if (config->problems || config->deferred || !row || strcmp (row->key, "dynamo_backend") != 0)
        return false;
    config->deferred = strdup (fail->text);
    if (config->deferred)
        *fail = (struct fail){ 0 };
    return config->deferred != NULL;
}

/* All keys of a mapping.  @return 0, or -1 without memory; what is wrong with keys is added to @p problems */
static int
apply_map (struct config *config, const struct filedoc *doc, struct node *map, const char *section,
           struct strlist *problems, struct fail *fail)
{
    for (size_t i = 0; i < map->count; i++) {
        struct entry entry = { .section = section, .parent = map, .node = &map->items[i] };
        const struct option *row = file_find_row (section, entry.node->key);
        if (!row)
            row = find_old_key (&entry);
        int result = apply_key (config, &entry, row, fail);
        if (result)
            prefix_place (doc, entry.node, fail);
        if (result && !defer (config, row, fail))
            strlist_add (problems, fail->text);
        else if (config->problems)
            note_old_key (doc, &entry, row, problems);
        if (!section && entry.node->kind == NODE_MAP && is_our_section (entry.node->key)
            && apply_map (config, doc, entry.node, entry.node->key, problems, fail))
            return -1;
    }
    return problems->failed ? fail_nomem (fail) : 0;
}

/* All that is wrong in one line, as far as it is short. */
static int
refuse_problems (const struct filedoc *doc, const struct strlist *problems, struct fail *fail)
{
    enum { LONGEST = 600 }; /* bytes: the rest must fit into the message */
    AUTO_STRBUF struct strbuf text = { 0 };
    size_t shown = 0;
    for (; shown < problems->count && (!shown || text.length + strlen (problems->items[shown]) < LONGEST); shown++)
        strbuf_printf (&text, "%s%s", shown ? "; " : "", problems->items[shown]);
    if (shown < problems->count)
        strbuf_printf (&text, "; and %zu more", problems->count - shown);
    if (text.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_GENERAL, "%s; to check the whole file: accelerate config lint %s", text.text,
                     doc->path);
}

int
filedoc_apply (struct config *config, struct filedoc *doc, struct fail *fail)
{
    size_t keys = doc->root.count;
    for (size_t i = 0; i < doc->root.count; i++)
        keys += doc->root.items[i].count;
    if (keys > MOST_KEYS)
        return fail_set (fail, FAIL_GENERAL, "%s: more than %d keys", doc->path, (int) MOST_KEYS);
    AUTO_STRLIST struct strlist found = { 0 };
    struct strlist *problems = config->problems ? config->problems : &found;
    struct fail unused;
    if (apply_map (config, doc, &doc->root, NULL, problems, fail ? fail : &unused))
        return -1;
    return found.count ? refuse_problems (doc, &found, fail) : 0;
}

int
filedoc_read_text (struct filedoc *doc, const char *path, const char *text, size_t length, struct fail *fail)
{
    doc->path = path;
    return path_is_json (path) ? json_read (doc, text, length, fail) : yaml_read (doc, text, length, fail);
}

int
filedoc_read (struct filedoc *doc, const char *path, struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    size_t length = 0;
    if (io_read_input (path, FILEDOC_LARGEST, &text, &length, fail))
        return fail_prefix (fail, "configuration file");
    return filedoc_read_text (doc, path, text, length, fail);
}

int
config_read_file (struct config *config, const char *path, struct fail *fail)
{
    AUTO_FILEDOC struct filedoc doc = { 0 };
    if (filedoc_read (&doc, path, fail) || filedoc_apply (config, &doc, fail))
        return -1;
    struct node *more = node_find (&doc.root, "additional_args");
    if (more) {
        node_release (&config->additional_args);
        config->additional_args = *more;
        *more = (struct node){ 0 };
    }
    return 0;
}
