/* SPDX-License-Identifier: Apache-2.0 */
/* Reading golden data: one case a line, words between blanks, '#' begins a comment. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <accel/train.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct golden {
    FILE *file;
    char *line;
    size_t size;
    char *rest; /* of the line, after the words that were read */
};

__attribute__ ((unused)) static void
golden_open (struct golden *golden, const char *path)
{
    *golden = (struct golden){ .file = fopen (path, "r") };
    if (!golden->file) {
        printf ("Bail out! cannot open %s\n", path);
        exit (99);
    }
}

/* File NAME of the source folder's tests/golden. */
__attribute__ ((unused)) static void
golden_find (struct golden *golden, const char *name)
{
    char path[4096];
    const char *srcdir = getenv ("srcdir");
    snprintf (path, sizeof path, "%s/tests/golden/%s", srcdir ? srcdir : ".", name);
    golden_open (golden, path);
}

/* Advance to the next case; false and everything freed at the end. */
__attribute__ ((unused)) static int
golden_next (struct golden *golden)
{
    while (getline (&golden->line, &golden->size, golden->file) > 0) {
        golden->line[strcspn (golden->line, "\n")] = '\0';
        golden->rest = golden->line;
        if (*golden->line && *golden->line != '#')
            return 1;
    }
    free (golden->line);
    fclose (golden->file);
    *golden = (struct golden){ 0 };
    return 0;
}

/* The next word of the line; "" at its end. */
__attribute__ ((unused)) static const char *
golden_word (struct golden *golden)
{
    char *word = golden->rest + strspn (golden->rest, " ");
    char *end = word + strcspn (word, " ");
    golden->rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

/* The kind of optimizer that the goldens call @name, with words after it such as "adamw-nearest". */
__attribute__ ((unused)) static enum accel_optimizer_kind
golden_kind (const char *name)
{
    static const struct {
        const char *name;
        enum accel_optimizer_kind kind;
    } kinds[] = { { "sgd", ACCEL_SGD }, { "adamw", ACCEL_ADAMW }, { "adam", ACCEL_ADAM }, { "lion", ACCEL_LION },
                  { "adagrad", ACCEL_ADAGRAD }, { "rmsprop", ACCEL_RMSPROP } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp (name, kinds[i].name, strlen (kinds[i].name)))
            return kinds[i].kind;
    printf ("Bail out! an unknown optimizer: %s\n", name);
    exit (99);
}

__attribute__ ((unused)) static uint64_t
golden_number (struct golden *golden)
{
    return strtoull (golden_word (golden), NULL, 10);
}

__attribute__ ((unused)) static double
golden_double (struct golden *golden)
{
    return strtod (golden_word (golden), NULL);
}

/* A float32 as its hexadecimal bits. */
__attribute__ ((unused)) static uint32_t
golden_bits (struct golden *golden)
{
    return (uint32_t) strtoul (golden_word (golden), NULL, 16);
}

/* The same for 64-bit numbers, or a checksum. */
__attribute__ ((unused)) static uint64_t
golden_bits_64 (struct golden *golden)
{
    return strtoull (golden_word (golden), NULL, 16);
}

/* One step of make_goldens.py's checksum(). */
__attribute__ ((unused)) static uint64_t
golden_checksum (uint64_t total, uint64_t value)
{
    return total * UINT64_C (1099511628211) + value + 1;
}

/* Of a text, with the 0 at its end. */
__attribute__ ((unused)) static uint64_t
golden_text_checksum (uint64_t total, const char *text)
{
    do
        total = golden_checksum (total, (unsigned char) *text);
    while (*text++);
    return total;
}

/* The next word: the bits of a float. */
__attribute__ ((unused)) static float
golden_float (struct golden *golden)
{
    uint32_t bits = golden_bits (golden);
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

/* How far @p got is from @p wanted, in units of its last place. */
static inline double
ulps (float got, float wanted)
{
    float most = fabsf (wanted);
    if ((isnan (got) && isnan (wanted)) || !memcmp (&got, &wanted, sizeof got))
        return 0;
    if (!isfinite (got) || !isfinite (wanted))
        return INFINITY;
    return fabs ((double) got - (double) wanted) / ((double) nextafterf (most, INFINITY) - (double) most);
}

#endif
