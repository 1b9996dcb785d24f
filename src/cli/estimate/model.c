/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a model and its configuration; see estimate.h. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "config/text/tree.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/parse.h"

#include <string.h>

int
estimate_add (struct estimate_model *model, struct estimate_part part, const char *name, size_t length,
              struct fail *fail)
{
    if (part.elements > ESTIMATE_MOST_ELEMENTS - model->elements)
        return fail_set (fail, FAIL_GENERAL, "tensor '%.*s': too large: size overflows",
                         (int) (length < 80 ? length : 80), name);
    model->elements += part.elements;
    struct estimate_part *added = array_room (&model->parts, model->count, sizeof *added);
    part.name = added ? strndup (name, length) : NULL;
    if (!part.name)
        return fail_nomem (fail);
    *added = part;
    model->count++;
    return 0;
}

int
estimate_add_safetensors (struct estimate_model *model, const struct safetensors *header, struct fail *fail)
{
    for (size_t i = 0; i < header->count; i++) {
        const struct safetensors_tensor *tensor = &header->tensors[i];
        DLDataType type = safetensors_to_dl (tensor->dtype);
        struct estimate_part part = { .elements = 1, .bits = safetensors_dtype_bits (tensor->dtype),
                                      .bytes = tensor->end - tensor->begin };
        part.code = type.code;
        part.is_float = type.code != kDLInt && type.code != kDLUInt && type.code != ACCEL_DL_BOOL;
        for (size_t j = 0; j < tensor->ndim; j++)
            part.elements *= (uint64_t) tensor->shape[j]; /* checked by the reader */
        if (estimate_add (model, part, tensor->name, strlen (tensor->name), fail))
            return -1;
    }
    return 0;
}

int
estimate_add_gguf (struct estimate_model *model, const struct gguf *gguf, struct fail *fail)
{
    for (size_t i = 0; i < gguf->count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[i];
        struct estimate_part part
            = { .elements = tensor->elements, .bits = 32, .is_float = true, .bytes = tensor->bytes };
        if (estimate_add (model, part, tensor->name, strlen (tensor->name), fail))
            return -1;
    }
    model->is_gguf = true;
    if (gguf->facts.layers)
        model->facts = gguf->facts;
    return 0;
}

int
estimate_read_config (struct estimate_model *model, const char *path, const char *text, size_t length,
                      struct fail *fail)
{
    model->config.path = path;
    return json_read (&model->config, text, length, fail);
}

/* The language model of one with pictures has its sizes in a mapping of its own. */
const struct node *
estimate_find (const struct estimate_model *model, const char *key)
{
    const struct node *node = node_find (&model->config.root, key);
    const struct node *inner = node_find (&model->config.root, "text_config");
    if ((!node || node->kind == NODE_NULL) && inner && inner->kind == NODE_MAP)
        node = node_find (inner, key);
    return node;
}

uint64_t
estimate_number (const struct estimate_model *model, const char *key, uint64_t other)
{
    const struct node *node = estimate_find (model, key);
    int64_t value;
    return node && node->kind == NODE_INT && parse_int64 (node->text, 0, INT32_MAX, &value) == PARSE_OK
               ? (uint64_t) value
               : other;
}

double
estimate_fraction (const struct estimate_model *model, const char *key, double other)
{
    const struct node *node = estimate_find (model, key), *rope = estimate_find (model, "rope_parameters");
    double value;
    if ((!node || !node_is_scalar (node)) && rope && rope->kind == NODE_MAP)
        node = node_find (rope, key);
    return node && node_is_scalar (node) && node->text && parse_double (node->text, 0, 1, &value) == PARSE_OK ? value
                                                                                                              : other;
}

bool
estimate_is_true (const struct estimate_model *model, const char *key)
{
    const struct node *node = estimate_find (model, key);
    return node && node->kind == NODE_BOOL && !strcmp (node->text, "True");
}

const char *
estimate_text (const struct estimate_model *model, const char *key)
{
    const struct node *node = node_find (&model->config.root, key);
    return node && node->kind == NODE_TEXT ? node->text : NULL;
}

void
estimate_model_release (struct estimate_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        free (model->parts[i].name);
    free (model->parts);
    free (model->library);
    filedoc_release (&model->config);
    *model = (struct estimate_model){ 0 };
}

/* ---- pickled files ----
 *
 * Their tensors are not known without loading them, but the index of several such files says how many bytes they have
 * together. */

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
    AUTO_FILEDOC struct filedoc index = { .path = path };
    return json_read (&index, text, length, fail) ? -1 : add_total (model, path, &index.root, fail);
}
