/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: models that are only there as pickled files, whose tensors are not known without loading them.  The
 * index of several such files says how many bytes they have together. */
#include <config.h>

#include "cli/estimate/estimate.h"

#include "config/text/json.h"
#include "util/parse.h"

#include <string.h>

/* @return bytes of an element, by the name of its type in config.json; 0: not known */
static unsigned
element_bytes (const struct estimate_model *model)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = { { "float32", 4 }, { "float16", 2 }, { "bfloat16", 2 }, { "float64", 8 } };
    const struct node *node = estimate_find (model, "dtype");
    if (!node || node->kind != NODE_TEXT)
        node = estimate_find (model, "torch_dtype");
    for (size_t i = 0; node && node->kind == NODE_TEXT && i < sizeof types / sizeof *types; i++)
        if (!strcmp (node->text, types[i].name))
            return types[i].bytes;
    return 0;
}

static int
add_total (struct estimate_model *model, const char *path, const struct node *index, struct fail *fail)
{
    const struct node *metadata = node_find (index, "metadata");
    const struct node *size = metadata && metadata->kind == NODE_MAP ? node_find (metadata, "total_size") : NULL;
    unsigned bytes = element_bytes (model);
    int64_t total;
    if (!size || size->kind != NODE_INT || parse_int64 (size->text, 1, INT64_MAX, &total) != PARSE_OK)
        return fail_set (fail, FAIL_GENERAL, "%s: has no metadata.total_size, and the tensors of pickled files are not "
                         "known without loading them: convert them to safetensors", path);
    if (!bytes)
        return fail_set (fail, FAIL_GENERAL, "%s: the pickled files have %lld bytes, but config.json does not say of "
                         "which type (dtype): convert them to safetensors", path, (long long) total);
    const struct estimate_part part
        = { .elements = (uint64_t) total / bytes, .bits = 8 * bytes, .is_float = true, .bytes = (uint64_t) total };
    model->is_total = true;
    return estimate_add (model, part, "all", 3, fail);
}

int
estimate_read_total (struct estimate_model *model, const char *path, const char *text, size_t length,
                     struct fail *fail)
{
    struct filedoc index = { .path = path };
    int result = json_read (&index, text, length, fail);
    if (!result)
        result = add_total (model, path, &index.root, fail);
    filedoc_release (&index);
    return result;
}
