/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized models: from the packed tensors of their files to the tensors of the model that they were made from, which
 * Accelerate measures.  A tensor that is only there for the others, such as their scales, stays as a part without
 * elements, so its bytes count as stored. */
#include <config.h>

#include "cli/estimate/estimate.h"

#include "util/cleanup.h"
#include "util/parse.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BITS = 16, BYTE = 8 };

/* How a method of quantization stores weights.  Endings of names are separated by blanks; one that begins with '_' ends
 * a component of the name, others are one or several whole components. */
struct method {
    const char *name;       /* quant_method in config.json */
    const char *packed;     /* ending of tensors whose elements hold several values */
    const char *beside;     /* packed are only tensors that have this one beside them; NULL: all */
    unsigned bits;          /* of a value; 0: config.json says it */
    const char *companions; /* endings of the tensors that the model does not have */
};

#define SCALES "weight_scale weight_scale_inv weight_scale_2 input_scale input_scale_ub output_scale " \
               "activation_scale activation_scale_inv k_scale v_scale q_scale _scale_inv"

static const struct method methods[] = {
    { "auto-round", "qweight", NULL, 0, "qzeros scales g_idx" },
    { "awq", "qweight", NULL, 0, "qzeros scales" },
    { "bitnet", "weight", "weight_scale", 2, "weight_scale" },
    { "bitsandbytes", "", "absmax", 4,
      "absmax quant_map nested_absmax nested_quant_map quant_state.bitsandbytes__nf4 quant_state.bitsandbytes__fp4 SCB "
      "weight_format" },
    { "compressed-tensors", "weight_packed", NULL, 0,
      SCALES " weight_zero_point weight_g_idx weight_shape weight_global_scale input_global_scale input_zero_point "
             "output_zero_point k_zero_point v_zero_point" },
    { "eetq", NULL, NULL, 0, "weight_scales" },
    { "fbgemm_fp8", NULL, NULL, 0, SCALES },
    { "fp8", NULL, NULL, 0, SCALES },
    { "gptq", "qweight", NULL, 0, "qzeros scales g_idx" },
    { "intel/auto-round", "qweight", NULL, 0, "qzeros scales g_idx" },
    { "modelopt", "weight", "weight_scale_2", 4, SCALES },
    { "mxfp4", "_blocks", NULL, 4, "_scales" },
};

/* ---- config.json ---- */

static const char *
text_at (const struct node *map, const char *key)
{
    const struct node *node = map && map->kind == NODE_MAP ? node_find (map, key) : NULL;
    return node && node->kind == NODE_TEXT ? node->text : NULL;
}

static bool
is_true (const struct node *map, const char *key)
{
    const struct node *node = node_find (map, key);
    return node && node->kind == NODE_BOOL && !strcmp (node->text, "True");
}

static const struct node *
find_quantization (const struct estimate_model *model)
{
    const struct node *node = estimate_find (model, "quantization_config");
    if (!node || node->kind != NODE_MAP)
        node = estimate_find (model, "compression_config"); /* as compressed-tensors was called before */
    return node && node->kind == NODE_MAP ? node : NULL;
}

static const char *
name_of (const struct node *config)
{
    const char *name = text_at (config, "quant_method");
    if (name)
        return name;
    return is_true (config, "load_in_4bit") || is_true (config, "load_in_8bit") ? "bitsandbytes" : "an unknown method";
}

static unsigned
bits_at (const struct node *map)
{
    static const char *const keys[] = { "bits", "num_bits", "w_bit" };
    int64_t bits;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && map->kind == NODE_MAP; i++) {
        const struct node *node = node_find (map, keys[i]);
        if (node && node->kind == NODE_INT && parse_int64 (node->text, 1, MOST_BITS, &bits) == PARSE_OK)
            return (unsigned) bits;
    }
    return 0;
}

/* Of the packed weights of all groups of layers.  8-bit floats are not packed.  @return 0: of several widths */
static unsigned
bits_of_groups (const struct node *groups)
{
    unsigned all = 0;
    for (size_t i = 0; groups && groups->kind == NODE_MAP && i < groups->count; i++) {
        const struct node *group = &groups->items[i];
        const struct node *weights = group->kind == NODE_MAP ? node_find (group, "weights") : NULL;
        const char *type = weights ? text_at (weights, "type") : NULL;
        unsigned bits = weights ? bits_at (weights) : 0;
        if (!bits || (bits == BYTE && type && !strcmp (type, "float")))
            continue;
        if (all && all != bits)
            return 0;
        all = bits;
    }
    return all;
}

/* Whether single layers are packed in another way than the rest. */
static bool
has_other_bits (const struct node *layers, unsigned usual)
{
    for (size_t i = 0; layers && layers->kind == NODE_MAP && i < layers->count; i++) {
        unsigned bits = bits_at (&layers->items[i]);
        if (bits && bits < MOST_BITS && bits != usual)
            return true;
    }
    return false;
}

/* @return 0: not known, or not the same in all layers */
static unsigned
find_bits (const struct node *config, const struct method *method)
{
    unsigned bits = method->bits ? method->bits : bits_at (config);
    if (!bits)
        bits = bits_of_groups (node_find (config, "config_groups"));
    return has_other_bits (node_find (config, "dynamic"), bits)
                   || has_other_bits (node_find (config, "extra_config"), bits)
               ? 0
               : bits;
}

/* ---- names ---- */

static int
compare (const void *a, const void *b)
{
    return strcmp (((const struct estimate_part *) a)->name, ((const struct estimate_part *) b)->name);
}

/* @return where the ending begins, or NULL */
static char *
find_ending (char *name, const char *ending, size_t length)
{
    size_t own = strlen (name);
    if (own < length || strncmp (name + own - length, ending, length) != 0)
        return NULL;
    return *ending == '_' || own == length || name[own - length - 1] == '.' ? name + own - length : NULL;
}

static char *
find_companion (char *name, const char *endings)
{
    char *place = NULL;
    for (size_t length; !place && *endings; endings += length + (endings[length] == ' ')) {
        length = strcspn (endings, " ");
        place = find_ending (name, endings, length);
    }
    return place;
}

/* Beside "x.weight" is "x.NAME" if @packed ends all names of packed tensors, else "x.weight.NAME". */
static int
is_beside (const struct estimate_model *model, const struct method *method, const struct estimate_part *part,
           bool *result, struct fail *fail)
{
    AUTO_STRBUF struct strbuf name = { 0 };
    size_t length = strlen (part->name) - strlen (method->packed);
    strbuf_add_bytes (&name, part->name, length);
    strbuf_printf (&name, "%s%s", *method->packed ? "" : ".", method->beside);
    if (name.failed)
        return fail_nomem (fail);
    const struct estimate_part wanted = { .name = name.text };
    *result = bsearch (&wanted, model->parts, model->count, sizeof wanted, compare) != NULL;
    return 0;
}

/* ---- tensors ---- */

static int
unpack (struct estimate_model *model, struct estimate_part *part, unsigned bits, struct fail *fail)
{
    if (!bits)
        return fail_set (fail, FAIL_GENERAL, "tensor '%.80s' is packed, and config.json does not say with how many "
                         "bits, or with different numbers in different layers", part->name);
    if (part->elements * part->bits % bits)
        return fail_set (fail, FAIL_GENERAL, "tensor '%.80s': %llu x %u bits are not whole values of %u bits",
                         part->name, (unsigned long long) part->elements, part->bits, bits);
    uint64_t elements = part->elements * part->bits / bits;
    if (elements > ESTIMATE_MOST_ELEMENTS - (model->elements - part->elements))
        return fail_set (fail, FAIL_GENERAL, "tensor '%.80s': too large: size overflows", part->name);
    model->elements += elements - part->elements;
    part->elements = elements;
    part->is_float = true;
    return 0;
}

/* Integers that are not packed: booleans, counters and positions. */
static bool
is_plain_integer (const struct estimate_part *part)
{
    return part->bits == 64 || part->code == ACCEL_DL_BOOL || part->elements <= 1;
}

static int
unpack_part (struct estimate_model *model, const struct method *method, unsigned bits, size_t number, struct fail *fail)
{
    struct estimate_part *part = &model->parts[number];
    bool is_packed = method->packed
                     && (!*method->packed || find_ending (part->name, method->packed, strlen (method->packed)));
    if (is_packed && method->beside && is_beside (model, method, part, &is_packed, fail))
        return -1;
    /* A packed float is an 8-bit float beside integers, unless bitsandbytes has stored integers as floats. */
    if (is_packed && (!part->is_float || !*method->packed))
        return unpack (model, part, bits, fail);
    if (part->code == kDLInt && part->bits == BYTE && find_ending (part->name, "weight", 6))
        part->is_float = true; /* an integer for each value */
    if (part->is_float || is_plain_integer (part))
        return 0;
    return fail_set (fail, FAIL_GENERAL, "tensor '%.80s' is packed in an unknown way", part->name);
}

/* @return whether it is one */
static bool
empty_companion (struct estimate_model *model, struct estimate_part *part, const char *endings)
{
    char *place = find_companion (part->name, endings);
    if (!place)
        return false;
    model->elements -= part->elements;
    part->elements = 0;
    return true;
}

/* "x.weight.absmax" would make a module of x.weight. */
static void
flatten_companions (struct estimate_model *model, const char *endings)
{
    for (size_t i = 0; i < model->count; i++) {
        char *name = model->parts[i].name, *place = model->parts[i].elements ? NULL : find_companion (name, endings);
        for (place = place && place > name ? place - 1 : place; place && *place; place++)
            if (*place == '.')
                *place = '_';
    }
}

static int
unpack_all (struct estimate_model *model, const struct method *method, unsigned bits, struct fail *fail)
{
    for (size_t i = 0; i < model->count; i++)
        if (!empty_companion (model, &model->parts[i], method->companions)
            && unpack_part (model, method, bits, i, fail))
            return -1;
    flatten_companions (model, method->companions);
    return 0;
}

/* ---- refusals ---- */

static int
refuse (const struct estimate_model *model, const char *method, struct fail *fail)
{
    AUTO_STRBUF struct strbuf size = { 0 };
    uint64_t stored = 0;
    for (size_t i = 0; i < model->count; i++)
        stored += model->parts[i].bytes;
    estimate_show_bytes (&size, (double) stored, true);
    if (size.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_GENERAL, "is quantized with %.40s: its files have %s of tensors, and do not say how "
                     "many parameters the model has: name the model that it was made from", method, size.text);
}

/* A file alone, without the configuration that says how it is packed. */
static int
check_unpacked (const struct estimate_model *model, struct fail *fail)
{
    for (size_t i = 0; i < model->count; i++) {
        const struct estimate_part *part = &model->parts[i];
        if (!part->is_float
            && (find_ending (part->name, "qweight", 7) || find_ending (part->name, "weight_packed", 13)))
            return fail_set (fail, FAIL_GENERAL, "tensor '%.80s' is packed, and there is no quantization_config in a "
                             "config.json that says how", part->name);
    }
    return 0;
}

/* Layouts of known methods that are other ones than those above. */
static bool
is_other_layout (const struct node *config, const char *method)
{
    const char *format = text_at (config, "format"), *packing = text_at (config, "packing_format");
    const char *checkpoint = text_at (config, "checkpoint_format");
    if (!strcmp (method, "compressed-tensors"))
        return format && (strstr (format, "marlin") || strstr (format, "sparse"));
    if (strstr (method, "auto-round"))
        return packing && !strstr (packing, "gptq") && !strstr (packing, "awq");
    return !strcmp (method, "gptq") && checkpoint && strncmp (checkpoint, "gptq", 4) != 0;
}

int
estimate_unpack (struct estimate_model *model, const char *name, struct fail *fail)
{
    const struct node *config = find_quantization (model);
    const char *wanted = config ? name_of (config) : NULL;
    const struct method *method = NULL;
    if (model->is_gguf || model->is_built)
        return 0;
    for (size_t i = 0; wanted && i < sizeof methods / sizeof *methods; i++)
        if (!strcmp (methods[i].name, wanted))
            method = &methods[i];
    if (model->count)
        qsort (model->parts, model->count, sizeof *model->parts, compare);
    int result = !config                                       ? check_unpacked (model, fail)
                 : !method || model->is_total || is_other_layout (config, wanted) ? refuse (model, wanted, fail)
                                                               : unpack_all (model, method, find_bits (config, method),
                                                                             fail);
    model->quantization = wanted;
    return result ? fail_prefix (fail, "model '%s'", name) : 0;
}
