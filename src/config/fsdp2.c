/* SPDX-License-Identifier: Apache-2.0 */
/* FSDP 1 to FSDP 2; see fsdp2.h.  The work is done on libyaml's tree of the file rather than on settings, so that
 * nothing is added to the file, and nothing lost that has no setting (SageMaker's additional_args). */
#include <config.h>

#include "config/fsdp2.h"

#include "config/file.h"
#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { DEEPEST = 64 };

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
    { "FULL_SHARD", "1", "true" },    { "SHARD_GRAD_OP", "2", "false" },      { "NO_SHARD", "3", "false" },
    { "HYBRID_SHARD", "4", "true" },  { "HYBRID_SHARD_ZERO2", "5", "false" },
};

struct conversion {
    yaml_document_t tree;
    struct strlist *notes;
    struct fail *fail;
};

static const char *
text_of (yaml_document_t *tree, int index)
{
    const yaml_node_t *node = yaml_document_get_node (tree, index);
    return node && node->type == YAML_SCALAR_NODE ? (const char *) node->data.scalar.value : NULL;
}

static bool
is_plain (yaml_document_t *tree, int index)
{
    const yaml_node_t *node = yaml_document_get_node (tree, index);
    return node && node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static yaml_node_pair_t *
find_pair (yaml_document_t *tree, yaml_node_t *map, const char *key)
{
    yaml_node_pair_t *found = NULL; /* the last one counts, as in Python */
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
        const char *text = text_of (tree, pair->key);
        if (text && !strcmp (text, key))
            found = pair;
    }
    return found;
}

static int
add_plain (struct conversion *conversion, const char *text)
{
    int index = yaml_document_add_scalar (&conversion->tree, NULL, (const yaml_char_t *) text, -1,
                                          YAML_PLAIN_SCALAR_STYLE);
    return index ? index : fail_nomem (conversion->fail);
}

/* Only a number equals a number: '2' in quotes does not say version 2. */
static bool
is_version_2 (struct conversion *conversion, yaml_node_t *map)
{
    AUTO_STRBUF struct strbuf python = { 0 };
    const yaml_node_pair_t *pair = find_pair (&conversion->tree, map, "fsdp_version");
    if (!pair || !is_plain (&conversion->tree, pair->value))
        return false;
    enum scalar_kind kind = scalar_read (text_of (&conversion->tree, pair->value), &python);
    double number = 0;
    return (kind == SCALAR_INT || kind == SCALAR_FLOAT) && python.text
           && parse_double (python.text, -1e9, 1e9, &number) == PARSE_OK && number > 1.5 && number < 2.5
           && number - 2 == 0;
}

/* @return what a value of a strategy means, or NULL if it is not one */
static const char *
reshard_of (yaml_document_t *tree, const yaml_node_pair_t *pair, bool numbers)
{
    const char *text = text_of (tree, pair->value);
    for (size_t i = 0; text && i < sizeof strategies / sizeof *strategies; i++)
        if (!strcasecmp (text, strategies[i].name) || (numbers && !strcmp (text, strategies[i].number)))
            return strategies[i].reshard;
    return NULL;
}

/* Set @key of a mapping, in its place if it has one.  *used counts the pairs that stay, of those before `pair`. */
static void
keep_pair (yaml_document_t *tree, yaml_node_pair_t *pairs, size_t *used, yaml_node_pair_t pair)
{
    const char *key = text_of (tree, pair.key);
    for (size_t i = 0; i < *used; i++) {
        const char *other = text_of (tree, pairs[i].key);
        if (key && other && !strcmp (key, other)) {
            pairs[i].value = pair.value;
            return;
        }
    }
    pairs[(*used)++] = pair;
}

/* The old key's value must be a strategy, or null; the new one's may be a truth value as well. */
static int
convert_strategy (struct conversion *conversion, yaml_node_pair_t *pair, bool has_old_key)
{
    const char *text = text_of (&conversion->tree, pair->value);
    const char *reshard = reshard_of (&conversion->tree, pair, has_old_key);
    bool is_null = text && is_plain (&conversion->tree, pair->value) && scalar_read (text, NULL) == SCALAR_NULL;
    if (has_old_key && !reshard && !is_null)
        return fail_set (conversion->fail, FAIL_GENERAL, "fsdp_sharding_strategy: '%s' is not one of FULL_SHARD, "
                         "SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2", text ? text : "");
    if (has_old_key)
        pair->key = add_plain (conversion, "fsdp_reshard_after_forward");
    if (reshard)
        pair->value = add_plain (conversion, reshard);
    return pair->key < 0 || pair->value < 0 ? -1 : 0;
}

static int
convert_pair (struct conversion *conversion, yaml_node_pair_t pair, yaml_node_pair_t *pairs, size_t *used)
{
    const char *key = text_of (&conversion->tree, pair.key);
    for (size_t i = 0; key && i < sizeof fates / sizeof *fates; i++) {
        if (strcmp (key, fates[i].key))
            continue;
        if (fates[i].fate != FATE_STRATEGY) {
            strlist_printf (conversion->notes, "%s is removed: FSDP2 %s", key,
                            fates[i].fate == FATE_REMOVED ? "no longer has it" : "does not have it yet");
            return 0;
        }
        if (convert_strategy (conversion, &pair, !strcmp (key, "fsdp_sharding_strategy")))
            return -1;
        break;
    }
    keep_pair (&conversion->tree, pairs, used, pair);
    return 0;
}

static int
convert_section (struct conversion *conversion, int section)
{
    yaml_node_t *map = yaml_document_get_node (&conversion->tree, section);
    size_t count = (size_t) (map->data.mapping.pairs.top - map->data.mapping.pairs.start), used = 0;
    AUTO_FREE yaml_node_pair_t *pairs = calloc (count + 1, sizeof *pairs);
    if (!pairs)
        return fail_nomem (conversion->fail);
    for (size_t i = 0; i < count; i++) {
        /* Adding a node may move all nodes, not the pairs. */
        map = yaml_document_get_node (&conversion->tree, section);
        if (convert_pair (conversion, map->data.mapping.pairs.start[i], pairs, &used))
            return -1;
    }
    yaml_node_pair_t version = { .key = add_plain (conversion, "fsdp_version"), .value = add_plain (conversion, "2") };
    if (version.key < 0 || version.value < 0)
        return -1;
    map = yaml_document_get_node (&conversion->tree, section);
    memcpy (map->data.mapping.pairs.start, pairs, used * sizeof *pairs);
    map->data.mapping.pairs.top = map->data.mapping.pairs.start + used;
    yaml_node_pair_t *old = find_pair (&conversion->tree, map, "fsdp_version");
    if (old)
        old->value = version.value;
    else if (!yaml_document_append_mapping_pair (&conversion->tree, section, version.key, version.value))
        return fail_nomem (conversion->fail);
    return 0;
}

static int
convert (struct conversion *conversion)
{
    yaml_node_t *root = yaml_document_get_root_node (&conversion->tree);
    if (!root || root->type != YAML_MAPPING_NODE || root->data.mapping.pairs.start == root->data.mapping.pairs.top)
        return fail_set (conversion->fail, FAIL_GENERAL, "the configuration file is empty");
    const yaml_node_pair_t *pair = find_pair (&conversion->tree, root, "fsdp_config");
    yaml_node_t *map = pair ? yaml_document_get_node (&conversion->tree, pair->value) : NULL;
    if (!map || map->type != YAML_MAPPING_NODE || map->data.mapping.pairs.start == map->data.mapping.pairs.top)
        strlist_add (conversion->notes, "the file has no fsdp_config; nothing to convert");
    else if (is_version_2 (conversion, map)) {
        strlist_add (conversion->notes, "the file is for FSDP2 already; nothing to convert");
        strlist_add (conversion->notes, "if its keys have the old names, set fsdp_version to 1 and convert again");
    } else
        return convert_section (conversion, pair->value);
    return 0;
}

static json_t *json_of_node (yaml_document_t *tree, int index, int depth);

static json_t *
json_of_scalar (const yaml_node_t *node)
{
    const char *text = (const char *) node->data.scalar.value;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return json_string (text);
    AUTO_STRBUF struct strbuf python = { 0 };
    int64_t whole;
    double number;
    switch (scalar_read (text, &python)) {
    case SCALAR_NULL: return json_null ();
    case SCALAR_BOOL: return json_boolean (python.text && *python.text == 'T');
    case SCALAR_INT:
        if (python.text && parse_int64 (python.text, INT64_MIN, INT64_MAX, &whole) == PARSE_OK)
            return json_integer (whole);
        break;
    case SCALAR_FLOAT:
        if (python.text && parse_double (python.text, -1.7e308, 1.7e308, &number) == PARSE_OK)
            return json_real (number);
        break;
    default: break;
    }
    return json_string (text); /* dates, and numbers that JSON has not */
}

static json_t *
json_of_map (yaml_document_t *tree, const yaml_node_t *node, int depth)
{
    json_t *object = json_object ();
    const yaml_node_pair_t *end = node->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; object && pair < end; pair++) {
        const char *key = text_of (tree, pair->key);
        if (!key || json_object_set_new (object, key, json_of_node (tree, pair->value, depth))) {
            json_decref (object);
            return NULL;
        }
    }
    return object;
}

static json_t *
json_of_node (yaml_document_t *tree, int index, int depth)
{
    const yaml_node_t *node = yaml_document_get_node (tree, index);
    if (!node || depth > DEEPEST)
        return NULL;
    if (node->type == YAML_SCALAR_NODE)
        return json_of_scalar (node);
    if (node->type == YAML_MAPPING_NODE)
        return json_of_map (tree, node, depth + 1);
    json_t *array = json_array ();
    const yaml_node_item_t *end = node->data.sequence.items.top;
    for (const yaml_node_item_t *item = node->data.sequence.items.start; array && item < end; item++)
        if (json_array_append_new (array, json_of_node (tree, *item, depth + 1))) {
            json_decref (array);
            return NULL;
        }
    return array;
}

static int
write_json (struct conversion *conversion, struct strbuf *out)
{
    json_t *root = json_of_node (&conversion->tree, 1, 0);
    AUTO_FREE char *text = root ? json_dumps (root, JSON_INDENT (2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
    json_decref (root);
    if (!text) /* libyaml reads UTF-8 only, and check_text() has refused what is nested too deep */
        return fail_nomem (conversion->fail);
    strbuf_printf (out, "%s\n", text);
    return 0;
}

static int
append (void *out, unsigned char *text, size_t length)
{
    strbuf_add_bytes (out, text, length);
    return 1;
}

/* Dumping frees the tree, whatever comes of it. */
static int
write_yaml (struct conversion *conversion, struct strbuf *out)
{
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize (&emitter))
        return fail_nomem (conversion->fail);
    for (yaml_node_t *node = conversion->tree.nodes.start; node < conversion->tree.nodes.top; node++) {
        if (node->type == YAML_MAPPING_NODE)
            node->data.mapping.style = YAML_BLOCK_MAPPING_STYLE;
        else if (node->type == YAML_SEQUENCE_NODE)
            node->data.sequence.style = YAML_BLOCK_SEQUENCE_STYLE;
    }
    conversion->tree.start_implicit = conversion->tree.end_implicit = 1;
    yaml_emitter_set_output (&emitter, append, out);
    yaml_emitter_set_unicode (&emitter, 1);
    yaml_emitter_set_width (&emitter, -1);
    int done = yaml_emitter_open (&emitter) && yaml_emitter_dump (&emitter, &conversion->tree)
               && yaml_emitter_close (&emitter);
    conversion->tree = (yaml_document_t){ 0 };
    AUTO_FREE char *problem = done || !emitter.problem ? NULL : strdup (emitter.problem);
    yaml_emitter_delete (&emitter);
    return done ? 0 : fail_set (conversion->fail, FAIL_GENERAL, "cannot write the file: %s",
                                problem ? problem : "out of memory");
}

/* Errors are those of every other reading: file, line, nearest name. */
static int
check_text (const char *path, const char *text, size_t length, struct fail *fail)
{
    struct config config;
    struct filedoc doc = { 0 };
    int result = config_init (&config, fail) || filedoc_read_text (&doc, path, text, length, fail)
                         || filedoc_apply (&config, &doc, fail)
                     ? -1
                     : 0;
    filedoc_release (&doc);
    config_release (&config);
    return result;
}

static int
load (struct conversion *conversion, const char *text, size_t length)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize (&parser))
        return fail_nomem (conversion->fail);
    yaml_parser_set_input_string (&parser, (const unsigned char *) text, length);
    int done = yaml_parser_load (&parser, &conversion->tree);
    bool no_memory = parser.error == YAML_MEMORY_ERROR || parser.error == YAML_NO_ERROR; /* said by half of it only */
    yaml_parser_delete (&parser);
    if (done)
        return 0;
    return no_memory ? fail_nomem (conversion->fail)
                     : fail_set (conversion->fail, FAIL_GENERAL, "cannot read it as YAML");
}

int
fsdp2_convert (const char *path, bool as_json, struct strbuf *out, struct strlist *notes, struct fail *fail)
{
    struct conversion conversion = { .notes = notes, .fail = fail };
    AUTO_FREE char *text = NULL;
    size_t length;
    if (io_read_input (path, FILEDOC_LARGEST, &text, &length, fail) || check_text (path, text, length, fail))
        return -1;
    if (load (&conversion, text, length))
        return fail_prefix (fail, "%s", path);
    int result = convert (&conversion);
    if (result)
        fail_prefix (fail, "%s", path);
    else
        result = as_json ? write_json (&conversion, out) : write_yaml (&conversion, out);
    yaml_document_delete (&conversion.tree);
    return !result && (out->failed || notes->failed) ? fail_nomem (fail) : result;
}
