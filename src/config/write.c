/* SPDX-License-Identifier: Apache-2.0 */
/* Settings to the content of a configuration file, whose text PyYAML's safe_dump or Python's json.dump would write. */
#include <config.h>

#include "config/write.h"
#include "config/file_keys.h"
#include "config/text/scalar.h"
#include "util/parse.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* Accelerate refuses keys that it does not know, and drops empty sections: write ours, and sections' keys, only where
 * the user gave a value. */
static bool
is_written (const struct config *config, const struct option *row)
{
    if (!(row->properties & PROPERTY_FILE) || config_is_absent (config, row))
        return false;
    bool is_given = config->origins && config->origins[row - options].kind != ORIGIN_DEFAULT;
    bool is_aws = !strcmp (config->settings.compute_environment, "AMAZON_SAGEMAKER");
    return is_given
           || (!config->only_given && file_has_key (is_aws, row->key) && !row->section
               && !(row->properties & PROPERTY_EXTENSION));
}

/* What Python calls True and False is a truth value; every other word is the text or number that it was. */
static int
set_truth (struct node *node, const char *text)
{
    bool is_bool = !strcmp (text, "True") || !strcmp (text, "False");
    return node_set (node, is_bool ? NODE_BOOL : scalar_read (text, NULL) == SCALAR_INT ? NODE_INT : NODE_TEXT, text);
}

/* Three of them, with commas between. */
static int
set_triple (struct node *node, const char *text)
{
    node->kind = NODE_LIST;
    for (const char *at = text; *at;) {
        char word[8] = "";
        size_t length = strcspn (at, ",");
        memcpy (word, at, length < sizeof word ? length : sizeof word - 1);
        struct node *item = node_add (node, NULL);
        if (!item || set_truth (item, word))
            return -1;
        at += length + (at[length] == ',');
    }
    return 0;
}

static int
set_list (struct node *node, const struct strlist *list)
{
    node->kind = NODE_LIST;
    for (size_t i = 0; i < list->count; i++) {
        struct node *item = node_add (node, NULL);
        if (!item || node_set (item, NODE_TEXT, list->items[i]))
            return -1;
    }
    return 0;
}

/* Other spellings of a number, such as 1e-0, were texts where they came from. */
static bool
is_python_float (const char *text)
{
    AUTO_STRBUF struct strbuf again = { 0 };
    double value;
    if (parse_double (text, -HUGE_VAL, HUGE_VAL, &value) != PARSE_OK)
        return false;
    scalar_add_float (&again, value);
    return !again.failed && !strcmp (again.text, text);
}

static int
set_text (struct node *node, const struct option *row, const char *text)
{
    const char *tag = option_types[row->type].yaml_tag;
    bool is_plain = !strcmp (tag, "plain"), is_number = is_plain || !strcmp (tag, "int") || row->choices;
    if (!strcmp (tag, "truth"))
        return set_truth (node, text);
    if (is_number && scalar_read (text, NULL) == SCALAR_INT) /* a choice between numbers is one: fsdp_version */
        return node_set (node, NODE_INT, text);
    return node_set (node, is_plain && is_python_float (text) ? NODE_FLOAT : NODE_TEXT, text);
}

/* Names of backends are in upper case in files, as Accelerate's library expects them. */
static int
set_value (struct node *node, const struct option *row, const struct settings *settings)
{
    const void *field = option_field_const (row, settings);
    AUTO_STRBUF struct strbuf text = { 0 };
    if (row->type == OPTION_FLAG)
        return node_set (node, NODE_BOOL, *(const bool *) field ? "True" : "False");
    if (row->type == OPTION_LIST)
        return set_list (node, field);
    strbuf_add (&text, "");
    option_types[row->type].format (field, &text);
    if (text.failed)
        return -1;
    for (char *at = text.text; *at && row->spelling == SPELL_UPPER; at++)
        *at = (char) toupper ((unsigned char) *at);
    return row->type == OPTION_TRIPLE ? set_triple (node, text.text) : set_text (node, row, text.text);
}

int
config_write_tree (const struct config *config, struct node *root)
{
    root->kind = NODE_MAP;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!is_written (config, row))
            continue;
        struct node *parent = row->section ? node_find (root, row->section) : root;
        if (!parent && (parent = node_add (root, row->section)))
            parent->kind = NODE_MAP;
        struct node *node = parent ? node_add (parent, row->key) : NULL;
        if (!node || set_value (node, row, &config->settings))
            return -1;
    }
    node_sort (root);
    return 0;
}

int
config_write_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail)
{
    AUTO_NODE struct node root = { 0 };
    bool failed = config_write_tree (config, &root)
                  || (as_json ? node_write_json (&root, out) : node_write_lines (&root, out));
    return failed ? fail_nomem (fail) : 0;
}
