/* SPDX-License-Identifier: Apache-2.0 */
/* What the ready-made data sets have in common.  Most of them are tables: each field is rows of one size, one after the
 * other, in memory or in a file. */
#ifndef LIB_DATA_DATASETS_SET_H
#define LIB_DATA_DATASETS_SET_H

#include "files/source.h"

#include <accel/dataset.h>

/** How one file stores its tokens. */
struct token_layout {
    enum accel_token_format format; /* never ACCEL_TOKENS_LLMC */
    uint64_t first_token;           /* its offset in bytes */
    size_t token_bytes;
    uint64_t count;
};

/** What is done to the elements of a row on the way from the file. */
enum set_convert {
    SET_AS_IT_IS,
    SET_SWAP,           /* big-endian elements of the field's size */
    SET_SWAP_INT16,     /* big-endian int16 to int32 */
    SET_UINT8_TO_FLOAT, /* 0..255 to 0..1 */
};

/** The rows of one field. */
struct set_table {
    const unsigned char *memory; /* or NULL: */
    const struct source *source;
    uint64_t offset; /* of row 0 in the source */
    enum set_convert convert;
    size_t elements;      /* of a row */
    size_t row_bytes;     /* of a row as the data set gives it */
    size_t element_bytes; /* of one element in the memory or the source */
};

/** The object behind struct accel_dataset: what is public comes first. */
struct set {
    struct accel_dataset dataset;
    struct accel_field *fields; /* dataset.fields, with names of our own */
    struct set_table *tables;   /* [field_count]; not used by all */
    struct source sources[2];
    struct accel_dataset whole; /* of a subset: what its samples are read from, those from `first` on */
    size_t first;
    void **owned; /* [owned_count] memory to free */
    size_t owned_count;
    /* Of token files; see set_tokens.h. */
    struct accel_tokens_options tokens;
    struct token_layout layout; /* of the only file */
    struct token_files *files;  /* or several, with */
    void (*close_files) (struct token_files *files);
};

/** Make a set of @p field_count fields (all zero still) that reads from its tables. */
enum accel_status set_create (struct set **set, size_t field_count, struct accel_error *err);

/** Describe a field: checks it as a loader does, copies its name, and sets the table's sizes for SET_AS_IT_IS. */
enum accel_status set_describe (struct set *set, size_t index, const struct accel_field *field,
                                struct accel_error *err);

/** Accepts NULL and half-made sets, preserves errno. */
void set_destroy (struct set *set);

/** Close @p set and pass @p status on: the end of a constructor that failed. */
enum accel_status set_abandon (struct set *set, enum accel_status status);

/** Fail if @p index is not one of the set's samples. */
enum accel_status set_check_index (const struct set *set, uint64_t index, struct accel_error *err);

#endif
