/* SPDX-License-Identifier: Apache-2.0 */
/* What Accelerate's `config update` does to a file: old keys get their new names, and what is missing is filled in.
 * Everything else stays as it is, down to the types of values: `gpu_ids: 0` does not become a text. */
#include <config.h>

#include "config/update.h"

#include "config/file_keys.h"
#include "config/write.h"
#include "util/cleanup.h"
#include "util/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- filling in ---- */

static const struct filled {
    const char *key;
    enum node_kind kind;
    const char *text;
} machine_defaults[] = {
    { "num_processes", NODE_INT, "-1" }, /* if distributed_type is not NO: unknown */
    { "machine_rank", NODE_INT, "0" },
    { "num_machines", NODE_INT, "1" },
    { "rdzv_backend", NODE_TEXT, "static" },
    { "same_network", NODE_BOOL, "False" },
    { "main_training_function", NODE_TEXT, "main" },
    { "downcast_bf16", NODE_BOOL, "False" },
    { "tpu_use_cluster", NODE_BOOL, "False" },
    { "tpu_use_sudo", NODE_BOOL, "False" },
}, sagemaker_defaults[] = {
    { "region", NODE_TEXT, "us-east-1" },
    { "num_machines", NODE_INT, "1" },
    { "gpu_ids", NODE_TEXT, "all" },
    { "base_job_name", NODE_TEXT, "accelerate-sagemaker-1" },
    { "pytorch_version", NODE_TEXT, "1.10.2" },
    { "transformers_version", NODE_TEXT, "4.17.0" },
    { "py_version", NODE_TEXT, "py38" },
}, all_defaults[] = {
    { "compute_environment", NODE_TEXT, "LOCAL_MACHINE" },
    { "distributed_type", NODE_TEXT, "NO" }, /* without it, Accelerate does not read a file */
    { "use_cpu", NODE_BOOL, "False" },
    { "debug", NODE_BOOL, "False" },
    { "enable_cpu_affinity", NODE_BOOL, "False" },
};

static int
set_key (struct node *map, const char *key, enum node_kind kind, const char *text)
{
    struct node *node = node_find (map, key);
    if (!node)
        node = node_add (map, key);
    return node ? node_set (node, kind, text) : -1;
}

/* A key with null is there, and so nothing is filled in; it goes away later. */
static int
fill_in (struct node *root, const struct filled *filled, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!node_find (root, filled[i].key) && set_key (root, filled[i].key, filled[i].kind, filled[i].text))
            return -1;
    return 0;
}

static int
fill_all_in (struct node *root)
{
    static const char *const needed[] = { "compute_environment", "distributed_type" }; /* by Accelerate */
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const struct node *node = node_find (root, needed[i]);
        if (node && node->kind == NODE_NULL)
            node_remove (root, needed[i]);
    }
    const struct node *type = node_find (root, "distributed_type");
    bool is_one = !type || (type->text && !strcmp (type->text, "NO"));
    if (fill_in (root, all_defaults, sizeof all_defaults / sizeof *all_defaults))
        return -1;
    if (!file_is_for_sagemaker (root))
        return (is_one && fill_in (root, &(struct filled){ "num_processes", NODE_INT, "1" }, 1))
               || fill_in (root, machine_defaults, sizeof machine_defaults / sizeof *machine_defaults);
    /* Accelerate takes the word NO in a file for SageMaker for one of machines, but false for NO. */
    return (is_one && set_key (root, "distributed_type", NODE_BOOL, "False"))
           || fill_in (root, sagemaker_defaults, sizeof sagemaker_defaults / sizeof *sagemaker_defaults);
}

/* ---- old keys, and values that Accelerate spells differently ---- */

static int
move_fp16 (struct node *root)
{
    const struct node *node = node_find (root, "fp16");
    bool truth = false;
    bool is_true = node && node->text && parse_bool (node->text, &truth) == PARSE_OK && truth;
    if (is_true && !node_find (root, "mixed_precision") && set_key (root, "mixed_precision", NODE_TEXT, "fp16"))
        return -1;
    node_remove (root, "fp16");
    return 0;
}

static int
move_dynamo (struct node *root)
{
    const struct node *node = node_find (root, "dynamo_backend");
    if (!node)
        return 0;
    char word[40] = "NO";
    if (node->kind == NODE_TEXT && strlen (node->text) < sizeof word)
        strcpy (word, node->text);
    enum node_kind kind = node->kind;
    node_remove (root, "dynamo_backend");
    struct node *section = node_find (root, "dynamo_config");
    if (kind == NODE_NULL || !strcasecmp (word, "NO")
        || (section && (node_find (section, "dynamo_backend") || node_find (section, "backend"))))
        return 0;
    if (!section)
        section = node_add (root, "dynamo_config");
    if (!section)
        return -1;
    section->kind = NODE_MAP;
    return set_key (section, "dynamo_backend", NODE_TEXT, word);
}

/* Names of backends are in upper case, other words as the table has them. */
static int
set_choice (const struct option *row, struct node *node)
{
    char word[40];
    snprintf (word, sizeof word, "%s", file_choice (row, node));
    for (char *at = word; *at && row->spelling == SPELL_UPPER; at++)
        *at = *at >= 'a' && *at <= 'z' ? (char) (*at - 'a' + 'A') : *at;
    return strcmp (word, node->text) ? node_set (node, NODE_TEXT, word) : 0;
}

/* Words where Accelerate expects numbers and truth values: it would take 'false' for true, and count with '2'. */
static int
settle_value (const struct option *row, struct node *node)
{
    bool truth;
    int64_t number;
    char digits[24];
    if (!node->text || !strcmp (row->key, "downcast_bf16")) /* Accelerate's own questionnaire writes 'no' there */
        return 0;
    if (file_is_old_backend (row, node->text))
        return node_set (node, NODE_TEXT, "NO");
    if (row->choices && (node->kind == NODE_BOOL || (node->kind == NODE_TEXT && !row->section)))
        return set_choice (row, node);
    if (row->type == OPTION_FLAG && node->kind != NODE_BOOL && parse_bool (node->text, &truth) == PARSE_OK)
        return node_set (node, NODE_BOOL, truth ? "True" : "False");
    if (row->type == OPTION_INT && node->kind == NODE_TEXT
        && parse_int64 (node->text, row->min, row->max, &number) == PARSE_OK) {
        snprintf (digits, sizeof digits, "%lld", (long long) number);
        return node_set (node, NODE_INT, digits);
    }
    return 0;
}

/* Whether a key of a section occurs a second time, under a name that is not old. */
static bool
has_present_name (const struct node *map, const char *section, const char *name)
{
    for (size_t i = 0; i < map->count; i++)
        if (option_find_in_file (section, map->items[i].key) == option_find (name))
            return true;
    return false;
}

static int
settle_map (struct node *map, const char *section)
{
    for (size_t i = 0; i < map->count; i++) {
        struct node *node = &map->items[i];
        const char *name = file_new_name (section, node->key);
        if (name && has_present_name (map, section, name)) { /* with the same value: filedoc_apply() */
            node_remove_at (map, i--);
            continue;
        }
        if (name) {
            char *copy = strdup (name);
            if (!copy)
                return -1;
            free (node->key);
            node->key = copy;
        }
        const struct option *row = option_find_in_file (section, node->key);
        if ((row && settle_value (row, node)) || (!section && node->kind == NODE_MAP && settle_map (node, node->key)))
            return -1;
    }
    return 0;
}

/* Accelerate's files have null for an empty mapping inside a section, and nothing for one at the top. */
static void
empty_to_null (struct node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        if (map->items[i].kind != NODE_MAP)
            continue;
        if (!map->items[i].count)
            map->items[i].kind = NODE_NULL;
        else
            empty_to_null (&map->items[i]);
    }
}

int
filedoc_update (struct filedoc *doc, struct fail *fail)
{
    static const char *const needed[] = { "ec2_instance_type", "iam_role_name" };
    struct node *root = &doc->root;
    for (size_t i = 0; file_is_for_sagemaker (root) && i < sizeof needed / sizeof *needed; i++)
        if (!node_find (root, needed[i]))
            return fail_set (fail, FAIL_GENERAL, "%s: missing key for SageMaker: %s", doc->path, needed[i]);
    if (move_fp16 (root) || move_dynamo (root) || settle_map (root, NULL) || fill_all_in (root))
        return fail_nomem (fail);
    empty_to_null (root);
    for (size_t i = root->count; i-- > 0;)
        if (root->items[i].kind == NODE_NULL)
            node_remove_at (root, i);
    return 0;
}

int
config_default_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail)
{
    AUTO_FILEDOC struct filedoc doc = { .path = "the new file" };
    if (config_write_tree (config, &doc.root))
        return fail_nomem (fail);
    if (config_origin (config, "gpu_ids").kind == ORIGIN_DEFAULT)
        node_remove (&doc.root, "gpu_ids");
    if (filedoc_update (&doc, fail))
        return -1;
    return (as_json ? node_write_json : node_write_yaml) (&doc.root, out) ? fail_nomem (fail) : 0;
}
