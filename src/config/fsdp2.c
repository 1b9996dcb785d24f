/* SPDX-License-Identifier: Apache-2.0 */
/* FSDP 1 to FSDP 2; see fsdp2.h.  The work is done on the file's tree rather than on settings, so that nothing is added
 * to the file, and nothing lost that has no setting (SageMaker's additional_args). */
#include <config.h>

#include "config/fsdp2.h"
#include "config/file.h"
#include "util/parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum fate { FATE_REMOVED, FATE_NOT_YET, FATE_STRATEGY };

/* Keys that do not stay as they are. */
static const struct {
    const char *key;
    enum fate fate;
} fates[] = {
    { "fsdp_backward_prefetch", FATE_REMOVED },
    { "fsdp_backward_prefetch_policy", FATE_REMOVED }, /* its names in old files */
    { "backward_prefetch_policy", FATE_REMOVED },
    { "fsdp_sync_module_states", FATE_REMOVED },
    { "fsdp_use_orig_params", FATE_REMOVED },
    { "fsdp_forward_prefetch", FATE_NOT_YET },
    { "fsdp_sharding_strategy", FATE_STRATEGY },
    { "fsdp_reshard_after_forward", FATE_STRATEGY }, /* where old questionnaires wrote strategies */
};

/* What version 1 shards, by name and by PyTorch's number, and whether version 2 reshards then. */
static const struct {
    const char *name, *number, *reshard;
} strategies[] = {
    { "FULL_SHARD", "1", "True" },    { "SHARD_GRAD_OP", "2", "False" },      { "NO_SHARD", "3", "False" },
    { "HYBRID_SHARD", "4", "True" },  { "HYBRID_SHARD_ZERO2", "5", "False" },
};

/* Only a number equals a number: '2' in quotes does not say version 2. */
static bool
is_version_2 (const struct node *map)
{
    const struct node *node = node_find (map, "fsdp_version");
    double number = 0;
    return node && (node->kind == NODE_INT || node->kind == NODE_FLOAT)
           && parse_double (node->text, 1.5, 2.5, &number) == PARSE_OK && number - 2 == 0;
}

/* @return what a value of a strategy means, or NULL if it is not one */
static const char *
reshard_of (const struct node *node, bool numbers)
{
    for (size_t i = 0; node->text && i < sizeof strategies / sizeof *strategies; i++)
        if (!strcasecmp (node->text, strategies[i].name) || (numbers && !strcmp (node->text, strategies[i].number)))
            return strategies[i].reshard;
    return NULL;
}

/* The old key's value must be a strategy, or null; the new one's may be a truth value as well. */
static int
convert_strategy (struct node *node, struct fail *fail)
{
    bool has_old_key = !strcmp (node->key, "fsdp_sharding_strategy");
    const char *reshard = reshard_of (node, has_old_key);
    if (has_old_key && !reshard && node->kind != NODE_NULL)
        return fail_set (fail, FAIL_GENERAL, "fsdp_sharding_strategy: '%s' is not one of FULL_SHARD, SHARD_GRAD_OP, "
                         "NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2", node->text ? node->text : "");
    char *key = strdup ("fsdp_reshard_after_forward");
    if (!key || (reshard && node_set (node, NODE_BOOL, reshard))) {
        free (key);
        return fail_nomem (fail);
    }
    free (node->key);
    node->key = key;
    return 0;
}

/* A key that is there already keeps its place, and gets the later value. */
static void
join_duplicate (struct node *map, size_t *at)
{
    for (size_t i = 0; i < *at; i++)
        if (!strcmp (map->items[i].key, map->items[*at].key)) {
            struct node former = map->items[i];
            map->items[i] = map->items[*at];
            map->items[*at] = former;
            node_remove_at (map, (*at)--);
            return;
        }
}

static int
convert_section (struct node *map, struct strlist *notes, struct fail *fail)
{
    for (size_t i = 0; i < map->count; i++) {
        struct node *node = &map->items[i];
        size_t row = 0;
        while (row < sizeof fates / sizeof *fates && strcmp (node->key, fates[row].key))
            row++;
        bool has_fate = row < sizeof fates / sizeof *fates;
        if (has_fate && fates[row].fate != FATE_STRATEGY) {
            strlist_printf (notes, "%s is removed: FSDP2 %s", node->key,
                            fates[row].fate == FATE_REMOVED ? "no longer has it" : "does not have it yet");
            node_remove_at (map, i--);
            continue;
        }
        if (has_fate && convert_strategy (node, fail))
            return -1;
        join_duplicate (map, &i);
    }
    struct node *version = node_find (map, "fsdp_version");
    if (!version)
        version = node_add (map, "fsdp_version");
    return version && !node_set (version, NODE_INT, "2") ? 0 : fail_nomem (fail);
}

static int
convert (const struct node *root, struct strlist *notes, struct fail *fail)
{
    struct node *map = node_find (root, "fsdp_config");
    if (!root->count)
        return fail_set (fail, FAIL_GENERAL, "the configuration file is empty");
    if (!map || map->kind != NODE_MAP || !map->count)
        strlist_add (notes, "the file has no fsdp_config; nothing to convert");
    else if (is_version_2 (map)) {
        strlist_add (notes, "the file is for FSDP2 already; nothing to convert");
        strlist_add (notes, "if its keys have the old names, set fsdp_version to 1 and convert again");
    } else
        return convert_section (map, notes, fail);
    return 0;
}

/* Errors are those of every other reading: file, line, nearest name. */
static int
read_checked (struct filedoc *doc, const char *path, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    return config_init (&config, fail) || filedoc_read (doc, path, fail) || filedoc_apply (&config, doc, fail) ? -1 : 0;
}

int
fsdp2_convert (const char *path, bool as_json, struct strbuf *out, struct strlist *notes, struct fail *fail)
{
    AUTO_FILEDOC struct filedoc doc = { 0 };
    if (read_checked (&doc, path, fail))
        return -1;
    if (convert (&doc.root, notes, fail))
        return fail_prefix (fail, "%s", path);
    bool failed = as_json ? node_write_json (&doc.root, out) : node_write_lines (&doc.root, out);
    return failed || notes->failed ? fail_nomem (fail) : 0;
}
