/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and extremes of tensors, and their differences; see inspect.h. */
#include <config.h>

#include "cli/inspect/elements.h"
#include "cli/inspect/inspect.h"
#include "util/cleanup.h"

#include <math.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 18 }; /* a multiple of all elements' sizes; as numbers at most 2 MiB, in the cache */

static void
add_number (struct stats *stats, double number)
{
    if (!isfinite (number)) {
        stats->not_finite++;
        return;
    }
    if (!stats->count || number < stats->min)
        stats->min = number;
    if (!stats->count || number > stats->max)
        stats->max = number;
    stats->count++;
    stats->squares += (long double) number * (long double) number;
}

int
stats_read (struct tensors *tensors, size_t number, struct stats *stats, struct progress *progress, struct fail *fail)
{
    const struct tensors_item *item = &tensors->items[number];
    AUTO_FREE unsigned char *piece = malloc (PIECE_BYTES);
    AUTO_FREE double *numbers = malloc (PIECE_BYTES * sizeof *numbers);
    if (!piece || !numbers)
        return fail_nomem (fail);
    for (uint64_t done = 0; done < item->bytes;) {
        size_t length = item->bytes - done < PIECE_BYTES ? (size_t) (item->bytes - done) : PIECE_BYTES;
        if (tensors_read (tensors, number, done, piece, length, fail))
            return -1;
        size_t count = elements_are_numbers (item->dtype) ? length * 8 / safetensors_dtype_bits (item->dtype) : 0;
        elements_read (item->dtype, piece, count, numbers);
        for (size_t i = 0; i < count * elements_width (item->dtype); i++)
            add_number (stats, numbers[i]);
        done += length;
        progress_add (progress, length);
    }
    return 0;
}

double
stats_norm (const struct stats *stats)
{
    return (double) sqrtl (stats->squares);
}

/* ---- differences ---- */

/* Buffers of both sides. */
struct pieces {
    unsigned char *bytes[2];
    double *numbers[2];
};

static bool
is_same_number (double a, double b)
{
    return a == b || (isnan (a) && isnan (b));
}

static void
compare_numbers (struct diff_row *row, const double *a, const double *b, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i++) {
        bool is_unequal = false;
        for (size_t j = i * width; j < (i + 1) * width; j++)
            if (!is_same_number (a[j], b[j])) {
                double distance = fabs (a[j] - b[j]);
                is_unequal = true;
                if (isnan (distance) || distance > row->max_abs)
                    row->max_abs = distance; /* once NaN, always NaN: no distance is larger */
            }
        row->unequal += is_unequal;
    }
}

/* Two tensors of one shape, in steps of the same elements. */
static int
compare_elements (struct tensors *const sides[2], const size_t numbers[2], struct pieces *pieces, struct diff_row *row,
                  struct progress *progress, struct fail *fail)
{
    const struct tensors_item *items[2] = { row->first, row->second };
    uint64_t step = PIECE_BYTES / 16, size[2];
    for (int side = 0; side < 2; side++)
        size[side] = safetensors_dtype_bits (items[side]->dtype);
    for (uint64_t done = 0; done < items[0]->elements; done += step) {
        size_t count = items[0]->elements - done < step ? (size_t) (items[0]->elements - done) : (size_t) step;
        for (int side = 0; side < 2; side++) {
            size_t length = (size_t) (count * size[side] / 8);
            if (tensors_read (sides[side], numbers[side], done * size[side] / 8, pieces->bytes[side], length, fail))
                return -1;
            progress_add (progress, length);
        }
        bool is_same_type = items[0]->dtype == items[1]->dtype;
        bool is_same = is_same_type && !memcmp (pieces->bytes[0], pieces->bytes[1], (size_t) (count * size[0] / 8));
        if (is_same)
            continue;
        if (!elements_are_numbers (items[0]->dtype) || !elements_are_numbers (items[1]->dtype)
            || elements_width (items[0]->dtype) != elements_width (items[1]->dtype)) {
            row->max_abs = NAN;
            row->unequal = items[0]->elements;
            return 0;
        }
        for (int side = 0; side < 2; side++)
            elements_read (items[side]->dtype, pieces->bytes[side], count, pieces->numbers[side]);
        compare_numbers (row, pieces->numbers[0], pieces->numbers[1], count, elements_width (items[0]->dtype));
    }
    return 0;
}

static bool
is_same_shape (const struct tensors_item *a, const struct tensors_item *b)
{
    return a->ndim == b->ndim && (!a->ndim || !memcmp (a->shape, b->shape, a->ndim * sizeof *a->shape));
}

static int
compare_row (struct tensors *const sides[2], const size_t numbers[2], struct pieces *pieces, struct diff_row *row,
             struct progress *progress, struct fail *fail)
{
    if (!is_same_shape (row->first, row->second)) {
        row->kind = OTHER_SHAPE;
        return 0;
    }
    row->is_compared = true;
    if (compare_elements (sides, numbers, pieces, row, progress, fail))
        return -1;
    row->kind = row->first->dtype != row->second->dtype ? OTHER_DTYPE : row->unequal ? OTHER_ELEMENTS : SAME;
    return 0;
}

/* Both lists are sorted by name; the same name in several files of a folder is paired in their order. */
static int
compare_all (struct tensors *const sides[2], struct pieces *pieces, struct diff *diff, struct fail *fail)
{
    struct progress progress = { .verb = "comparing", .total = sides[0]->bytes + sides[1]->bytes };
    size_t at[2] = { 0, 0 };
    int result = 0;
    while (!result && (at[0] < sides[0]->count || at[1] < sides[1]->count)) {
        const struct tensors_item *a = at[0] < sides[0]->count ? &sides[0]->items[at[0]] : NULL;
        const struct tensors_item *b = at[1] < sides[1]->count ? &sides[1]->items[at[1]] : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp (a->name, b->name);
        struct diff_row *row = &diff->rows[diff->count++];
        *row = (struct diff_row){ .first = order <= 0 ? a : NULL, .second = order >= 0 ? b : NULL };
        row->kind = order < 0 ? ONLY_IN_FIRST : ONLY_IN_SECOND;
        if (!order)
            result = compare_row (sides, at, pieces, row, &progress, fail);
        diff->different += row->kind != SAME;
        at[0] += order <= 0;
        at[1] += order >= 0;
    }
    progress_end (&progress);
    return result;
}

int
inspect_compare (struct tensors *first, struct tensors *second, struct diff *diff, struct fail *fail)
{
    struct tensors *const sides[2] = { first, second };
    AUTO_FREE unsigned char *bytes = malloc (2 * PIECE_BYTES);
    AUTO_FREE double *numbers = malloc (2 * PIECE_BYTES * sizeof *numbers);
    diff->rows = calloc (first->count + second->count + 1, sizeof *diff->rows);
    if (!bytes || !numbers || !diff->rows)
        return fail_nomem (fail);
    struct pieces pieces = { { bytes, bytes + PIECE_BYTES }, { numbers, numbers + PIECE_BYTES } };
    return compare_all (sides, &pieces, diff, fail);
}
