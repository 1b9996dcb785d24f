/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate config get and set: single keys of a file; see files.h.  A YAML file is changed in the line of the
 * key, so comments and the order of lines stay; the result is read again before it is written. */
#include <config.h>

#include "cli/config/files.h"

#include "config/check.h"
#include "config/effect.h"
#include "config/file.h"
#include "config/file_keys.h"
#include "config/load.h"
#include "config/mode.h"
#include "config/paths.h"
#include "config/write.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"
#include "util/printable.h"
#include "util/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key's name, in any mixture of '-' and '_', also after its section: fsdp_config.fsdp_version.  @return NULL with @p
 * fail */
static const struct option *
find_key (const char *name, struct fail *fail)
{
    const char *dot = strchr (name, '.');
    AUTO_FREE char *section = dot ? strndup (name, (size_t) (dot - name)) : NULL;
    const struct option *row = dot ? section ? file_find_row (section, dot + 1) : NULL : option_find (name);
    struct suggest suggest = { .wanted = name };
    char space[96];
    if (row && row->properties & PROPERTY_FILE)
        return row;
    for (size_t i = 0; i < option_count; i++)
        if (options[i].properties & PROPERTY_FILE)
            suggest_consider (&suggest, options[i].key);
    fail_set (fail, FAIL_USAGE, "unknown key '%s'%s", name,
              suggest.best ? suggest_text (&suggest, "", space, sizeof space)
                           : "; accelerate config show prints keys, accelerate-config(5) explains them");
    return NULL;
}

int
config_files_get (struct config *config, const char *path, struct fail *fail)
{
    const struct option *row = find_key (config->words.items[1], fail);
    AUTO_STRBUF struct strbuf value = { 0 };
    if (!row || config_files_load (config, path, fail))
        return -1;
    if (config_is_absent (config, row))
        return FAIL_GENERAL; /* as of git */
    option_types[row->type].format (option_field_const (row, &config->settings), &value);
    if (value.failed)
        return fail_nomem (fail);
    printable_put (stdout, value.text ? value.text : "");
    putchar ('\n');
    return 0;
}

/* The value as a file would have it: True for yes, a choice in the table's spelling. */
static int
set_value (struct config *config, const struct option *row, const char *text, struct fail *fail)
{
    struct node typed = { .kind = NODE_TEXT, .text = (char *) text };
    bool truth, is_truth = row->type == OPTION_FLAG || row->type == OPTION_TRUTH || row->type == OPTION_SWITCH
                           || row->type == OPTION_PYTHON_BOOL;
    if (row->choices)
        text = file_choice (row, &typed);
    else if (is_truth && parse_bool (text, &truth) == PARSE_OK)
        text = truth ? "True" : "False";
    return config_set (config, row, text, (struct origin){ ORIGIN_FILE, 0 }, fail)
               ? fail_prefix (fail, "%s", row->key) : 0;
}

/* "KEY: VALUE", or that below its section, as a tree and as text. */
static int
write_fragment (const struct option *row, const char *text, struct node *tree, struct strbuf *out, struct fail *fail)
{
    AUTO_CONFIG struct config one = { 0 };
    if (config_init (&one, fail) || set_value (&one, row, text, fail))
        return -1;
    one.only_given = true;
    return config_write_tree (&one, tree) || node_write_lines (tree, out) ? fail_nomem (fail) : 0;
}

/* The mapping that a row belongs to, and its key there, under whatever name. */
static struct node *
find_item (struct node *map, const struct option *row)
{
    for (size_t i = map->count; i-- > 0;)
        if (file_find_row (row->section, map->items[i].key) == row)
            return &map->items[i];
    return NULL;
}

/* The place of the key in the tree gets the value of the fragment.  @p line  of the key, 0: it is new */
static int
change_tree (struct filedoc *doc, const struct option *row, const struct node *value, int *line)
{
    struct node *map = &doc->root;
    if (row->section && !(map = node_find (&doc->root, row->section)))
        map = node_add (&doc->root, row->section);
    if (!map)
        return -1;
    map->kind = NODE_MAP;
    struct node *item = find_item (map, row);
    *line = item ? item->line : 0;
    if (!item)
        item = node_add (map, row->key);
    if (!item || value->kind == NODE_LIST || value->kind == NODE_MAP) /* lists: refuse_list() */
        return -1;
    return node_set (item, value->kind, value->text);
}

static const char *
start_of_line (const char *text, int line)
{
    for (int i = 1; i < line && text; i++)
        text = strchr (text, '\n') ? strchr (text, '\n') + 1 : NULL;
    return text ? text : "";
}

/* The end of a value on one line, without blanks and comments after it. */
static size_t
length_of_value (const char *text)
{
    size_t length = 0, line = strcspn (text, "\r\n");
    if (*text == '"' || *text == '\'') {
        const char *end = memchr (text + 1, *text, line ? line - 1 : 0);
        return end ? (size_t) (end - text) + 1 : line;
    }
    for (size_t i = 0; i < line && !(text[i] == '#' && (!i || text[i - 1] == ' ' || text[i - 1] == '\t')); i++)
        if (text[i] != ' ' && text[i] != '\t')
            length = i + 1;
    return length;
}

/* The file's text with another value in line @p line. */
static void
replace_value (const char *text, int line, const char *value, struct strbuf *out)
{
    const char *start = start_of_line (text, line), *colon = strchr (start, ':');
    if (!colon)
        return;
    const char *old = colon + 1 + strspn (colon + 1, " \t");
    strbuf_add_bytes (out, text, (size_t) (colon + 1 - text));
    strbuf_printf (out, " %s", value);
    const char *rest = old + length_of_value (old);
    strbuf_printf (out, "%s%s", *rest == '#' ? " " : "", rest);
}

/* A new key: before the first of its section, below its section's name, or at the end with it. */
static void
insert_key (const struct filedoc *before, const char *text, const struct option *row, const char *fragment,
            struct strbuf *out)
{
    const struct node *section = row->section ? node_find (&before->root, row->section) : NULL;
    const char *line = row->section ? strchr (fragment, '\n') + 1 : fragment, *end = text + strlen (text);
    const char *at = !section ? end : start_of_line (text, section->count ? section->items[0].line : section->line + 1);
    if (!section) {
        strbuf_printf (out, "%s%s%s", text, end > text && end[-1] != '\n' ? "\n" : "", fragment);
        return;
    }
    int indent = section->count ? (int) strspn (at, " ") : 2;
    if (!*at)
        at = end;
    strbuf_add_bytes (out, text, (size_t) (at - text));
    strbuf_printf (out, "%s%*s%s%s", at > text && at[-1] != '\n' ? "\n" : "", indent, "",
                   line + strspn (line, " "), at);
}

/* The text of the changed file.  What was typed into it by hand stays, if the result means @p doc. */
static int
write_changed (struct filedoc *doc, const char *edited, const char *before, struct strbuf *out, struct fail *fail)
{
    AUTO_FILEDOC struct filedoc again = { 0 };
    struct fail unused = { 0 };
    if (edited && !filedoc_read_text (&again, doc->path, edited, strlen (edited), &unused)
        && node_equal (&again.root, &doc->root)) {
        strbuf_add (out, edited);
        return 0;
    }
    if (path_is_json (doc->path))
        return node_write_json (&doc->root, out) ? fail_nomem (fail) : 0;
    if (strchr (before, '#'))
        return fail_set (fail, FAIL_GENERAL, "%s: this key cannot be changed without losing comments; change it with "
                         "an editor", doc->path);
    return node_write_yaml (&doc->root, out) ? fail_nomem (fail) : 0;
}

/* One key of the file whose text is @p text. */
static int
change_text (const char *path, const char *text, const struct option *row, const char *value, struct strbuf *out,
             struct fail *fail)
{
    AUTO_FILEDOC struct filedoc doc = { 0 }, before = { 0 };
    AUTO_NODE struct node part = { 0 };
    AUTO_STRBUF struct strbuf fragment = { 0 };
    AUTO_STRBUF struct strbuf edited = { 0 };
    int line = 0;
    if (write_fragment (row, value, &part, &fragment, fail) || filedoc_read_text (&doc, path, text, strlen (text), fail)
        || filedoc_read_text (&before, path, text, strlen (text), fail))
        return -1;
    const struct node *item = &part.items[0];
    if (change_tree (&doc, row, row->section ? &item->items[0] : item, &line))
        return fail_nomem (fail);
    char *colon = strchr (row->section ? strchr (fragment.text, '\n') : fragment.text, ':');
    if (line && !path_is_json (path)) {
        colon[strcspn (colon, "\n")] = '\0';
        replace_value (text, line, colon + 2, &edited);
    } else if (!path_is_json (path))
        insert_key (&before, text, row, fragment.text, &edited);
    return edited.failed ? fail_nomem (fail) : write_changed (&doc, edited.text, text, out, fail);
}

/* What launch would say to the file.  @words: "set", then keys and values */
static int
check_text (const char *path, const char *text, const struct strlist *words, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    AUTO_FILEDOC struct filedoc doc = { 0 };
    struct no_effect why;
    if (config_init (&config, fail))
        return -1;
    config.file = strdup (path);
    if (!config.file)
        return fail_nomem (fail);
    if (filedoc_read_text (&doc, path, text, strlen (text), fail) || filedoc_apply (&config, &doc, fail)
        || config_resolve (&config, fail) || config_check (&config, fail))
        return -1;
    for (size_t i = 1; i < words->count; i += 2) {
        const struct option *row = find_key (words->items[i], NULL);
        if (row && effect_is_missing (&config, row, &why))
            fprintf (stderr, "accelerate: note: %s %s%s\n", row->key, why.text, why.mode);
    }
    return 0;
}

/* All keys, before anything is written. */
static int
change_all (const struct strlist *words, const char *path, char **text, struct fail *fail)
{
    for (size_t i = 1; i < words->count; i += 2) {
        AUTO_STRBUF struct strbuf changed = { 0 };
        const struct option *row = find_key (words->items[i], fail);
        if (!row)
            return -1;
        if (row->type == OPTION_LIST || row->type == OPTION_TRIPLE)
            return fail_set (fail, FAIL_USAGE, "%s is a list; change it with an editor in %s", row->key, path);
        if (change_text (path, *text, row, words->items[i + 1], &changed, fail))
            return -1;
        if (changed.failed)
            return fail_nomem (fail);
        free (*text);
        *text = strbuf_take (&changed);
    }
    return 0;
}

int
config_files_set (struct config *config, const char *path, struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    if (config->words.count % 2 == 0)
        return fail_set (fail, FAIL_USAGE, "missing value of '%s': accelerate config set KEY VALUE",
                         config->words.items[config->words.count - 1]);
    if (io_read_file (path, FILEDOC_LARGEST, &text, NULL, fail))
        return access (path, F_OK) ? fail_set (fail, FAIL_GENERAL, "%s does not exist; write it with accelerate config "
                                               "default", path)
                                   : fail_prefix (fail, "configuration file");
    if (change_all (&config->words, path, &text, fail) || check_text (path, text, &config->words, fail))
        return -1;
    return io_write_file (path, text, strlen (text), 0644, fail);
}
