/* SPDX-License-Identifier: Apache-2.0 */
/* Trees from text and to text, as make_tree_goldens.py writes them; tensors in several layouts of memory. */
#ifndef TESTS_UNIT_TREE_TEXT_H
#define TESTS_UNIT_TREE_TEXT_H

#include "lib/tree/tree.h"
#include "util/strbuf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char type_letters[] = "dfehbBil?";
static const enum accel_dtype letter_types[] = {
    ACCEL_FLOAT64, ACCEL_FLOAT32, ACCEL_FLOAT16, ACCEL_BFLOAT16, ACCEL_INT8,
    ACCEL_UINT8,   ACCEL_INT32,   ACCEL_INT64,   ACCEL_BOOL,
};

enum layout { PACKED, COLUMNS, BACKWARDS, LAYOUTS };

/* Memory that borrowed leaves use, freed by forget_memory(). */
static void *remembered[65536];
static size_t remembered_count;

static void
forget_memory (void)
{
    while (remembered_count)
        free (remembered[--remembered_count]);
}

/* Write a whole number of few digits as an element. */
static void
put_element (enum accel_dtype dtype, double value, void *at)
{
    float single = (float) value;
    uint32_t bits;
    memcpy (&bits, &single, sizeof bits);
    uint16_t half = (uint16_t) (bits >> 16);
    if (dtype == ACCEL_FLOAT16) {
        int exponent = 0;
        double fraction = fabs (frexp (value, &exponent));
        half = value == 0 ? 0 : (uint16_t) ((exponent + 14) * 1024 + (int) (fraction * 2048) - 1024);
        half = (uint16_t) (half | (value < 0 ? 0x8000 : 0));
    }
    int64_t whole = (int64_t) value;
    size_t size = accel_dtype_bytes (dtype);
    if (dtype == ACCEL_FLOAT64)
        memcpy (at, &value, size);
    else if (dtype == ACCEL_FLOAT32)
        memcpy (at, &single, size);
    else if (size == 2)
        memcpy (at, &half, size);
    else
        memcpy (at, &whole, size); /* the low bytes come first on the machines that the tests know */
}

static double
get_element (enum accel_dtype dtype, const void *at)
{
    double wide;
    float single;
    uint16_t half;
    int32_t middle;
    int64_t whole;
    switch (dtype) {
    case ACCEL_FLOAT64:
        memcpy (&wide, at, sizeof wide);
        return wide;
    case ACCEL_FLOAT32:
        memcpy (&single, at, sizeof single);
        return (double) single;
    case ACCEL_FLOAT16:
        memcpy (&half, at, sizeof half);
        wide = half & 0x7c00 ? ldexp (1024 + (half & 1023), (half >> 10 & 31) - 25) : ldexp (half & 1023, -24);
        return half & 0x8000 ? -wide : wide;
    case ACCEL_BFLOAT16: {
        memcpy (&half, at, sizeof half);
        uint32_t bits = (uint32_t) half << 16;
        memcpy (&single, &bits, sizeof single);
        return (double) single;
    }
    case ACCEL_INT8:
        return *(const int8_t *) at;
    case ACCEL_INT32:
        memcpy (&middle, at, sizeof middle);
        return middle;
    case ACCEL_INT64:
        memcpy (&whole, at, sizeof whole);
        return (double) whole;
    default:
        return *(const uint8_t *) at;
    }
}

/* The address of element @index, counted in the order of rows. */
static char *
element_at (const DLTensor *tensor, size_t index)
{
    int64_t at = 0, stride = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        int64_t size = tensor->shape[i];
        at += (int64_t) (index % (size_t) size) * (tensor->strides ? tensor->strides[i] : stride);
        index /= (size_t) size;
        stride *= size;
    }
    return (char *) tensor->data + tensor->byte_offset + at * (tensor->dtype.bits / 8);
}

/* Describe memory of the layout for a tensor whose type and shape are there. */
static void
lay_out (DLTensor *tensor, int64_t *strides, enum layout layout)
{
    int64_t stride = layout == COLUMNS ? 2 : 1, element = tensor->dtype.bits / 8;
    for (int n = 0; n < tensor->ndim; n++) {
        int i = layout == COLUMNS ? n : tensor->ndim - 1 - n;
        strides[i] = layout == BACKWARDS ? -stride : stride;
        stride *= tensor->shape[i];
    }
    size_t bytes = (size_t) ((stride + 2) * element);
    char *memory = malloc (bytes);
    remembered[remembered_count++] = memory;
    memset (memory, 0x55, bytes);
    tensor->data = memory;
    tensor->strides = layout == PACKED ? NULL : strides;
    int64_t skipped = layout == BACKWARDS ? stride : layout == COLUMNS ? 1 : 0;
    tensor->byte_offset = (uint64_t) (skipped * element);
}

static struct accel_tree *
read_tensor (const char **text, enum layout layout)
{
    int64_t shape[ACCEL_MAX_DIMS] = { 0 }, strides[ACCEL_MAX_DIMS];
    enum accel_dtype dtype = letter_types[strchr (type_letters, *(*text)++) - type_letters];
    DLTensor tensor = { .device = { .device_type = kDLCPU }, .dtype = accel_dtype_to_dl (dtype), .shape = shape };
    char *end;
    while (**text != '=') {
        shape[tensor.ndim++] = strtoll (*text, &end, 10);
        *text = end + (*end == 'x');
    }
    lay_out (&tensor, strides, layout);
    for (size_t i = 0; *++*text && **text != ';'; i++) {
        put_element (dtype, strtod (*text, &end), element_at (&tensor, i));
        *text = end;
        if (*end == ';')
            break;
    }
    ++*text;
    struct accel_tree *leaf;
    return accel_tree_borrow_tensor (&leaf, &tensor, NULL) ? NULL : leaf;
}

static struct accel_tree *
read_tree (const char **text, enum layout layout)
{
    struct accel_tree *tree = NULL;
    char open = **text;
    if (strchr (type_letters, open))
        return read_tensor (text, layout);
    if (*(*text)++ == '\'') {
        const char *end = strchr (*text, '\'');
        if (accel_tree_create_bytes (&tree, *text, (size_t) (end - *text), NULL))
            return NULL;
        *text = end + 1;
        return tree;
    }
    if (accel_tree_create (&tree, open == '[' ? ACCEL_TREE_LIST : ACCEL_TREE_DICT, NULL))
        return NULL;
    while (**text != ']' && **text != '}') {
        char key[64] = "";
        size_t length = open == '{' ? strcspn (*text, ":") : 0;
        memcpy (key, *text, length);
        *text += length + (open == '{');
        struct accel_tree *item = read_tree (text, layout);
        if (open == '{' ? accel_tree_set (tree, key, item, NULL) : accel_tree_append (tree, item, NULL))
            return NULL;
    }
    ++*text;
    return tree;
}

__attribute__ ((unused)) static struct accel_tree *
tree_of (const char *text, enum layout layout)
{
    return read_tree (&text, layout);
}

static void
write_tree (struct strbuf *text, const struct accel_tree *tree)
{
    const DLTensor *tensor = accel_tree_tensor (tree);
    enum accel_dtype dtype = tensor ? accel_dtype_from_dl (tensor->dtype) : ACCEL_DTYPE_COUNT;
    if (tensor) {
        for (size_t i = 0; i <= ACCEL_BOOL; i++)
            if (letter_types[i] == dtype)
                strbuf_add_char (text, type_letters[i]);
        for (int i = 0; i < tensor->ndim; i++)
            strbuf_printf (text, "%s%lld", i ? "x" : "", (long long) tensor->shape[i]);
        for (size_t i = 0, count = accel_tensor_count (tensor); i < count; i++)
            strbuf_printf (text, "%c%g", i ? ',' : '=', get_element (dtype, element_at (tensor, i)));
        strbuf_add (text, accel_tensor_count (tensor) ? ";" : "=;");
        return;
    }
    if (accel_tree_kind (tree) == ACCEL_TREE_BYTES) {
        strbuf_printf (text, "'%s'", (const char *) accel_tree_bytes (tree, NULL));
        return;
    }
    bool dict = accel_tree_kind (tree) == ACCEL_TREE_DICT;
    strbuf_add_char (text, dict ? '{' : '[');
    for (size_t i = 0; i < accel_tree_length (tree); i++) {
        if (dict)
            strbuf_printf (text, "%s:", accel_tree_key (tree, i));
        write_tree (text, accel_tree_item (tree, i));
    }
    strbuf_add_char (text, dict ? '}' : ']');
}

/* The text of @tree, which is destroyed; "error" for NULL.  The caller frees it. */
__attribute__ ((unused)) static char *
text_of (struct accel_tree *tree)
{
    struct strbuf text = { 0 };
    if (tree)
        write_tree (&text, tree);
    else
        strbuf_add (&text, "error");
    accel_tree_destroy (tree);
    return strbuf_take (&text);
}

/* ---- random trees ---- */

static uint64_t random_state = 20260;

static size_t
any (size_t end)
{
    random_state = random_state * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
    return (size_t) (random_state >> 33) % end;
}

/* A tree of tensors with this many rows each, of text that read_tree() reads. */
static void
random_text (struct strbuf *text, size_t rows, int depth)
{
    size_t kind = depth == 5 ? 0 : depth ? any (3) : 1 + any (2), items = 1 + any (3);
    if (kind) {
        strbuf_add_char (text, kind == 1 ? '[' : '{');
        for (size_t i = 0; i < items; i++) {
            if (kind == 2)
                strbuf_printf (text, "key%zu:", i);
            random_text (text, rows, depth + 1);
        }
        strbuf_add_char (text, kind == 1 ? ']' : '}');
        return;
    }
    size_t columns = any (4), planes = 1 + any (3), ndim = 1 + any (3);
    char letter = type_letters[any (sizeof type_letters - 1)];
    strbuf_printf (text, "%c%zu", letter, rows);
    if (ndim > 1)
        strbuf_printf (text, "x%zu", columns);
    if (ndim > 2)
        strbuf_printf (text, "x%zu", planes);
    size_t count = rows * (ndim > 1 ? columns : 1) * (ndim > 2 ? planes : 1);
    for (size_t i = 0; i < count; i++)
        strbuf_printf (text, "%c%zu", i ? ',' : '=', any (letter == '?' ? 2 : 100));
    strbuf_add (text, count ? ";" : "=;");
}

#endif
