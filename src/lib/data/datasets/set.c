/* SPDX-License-Identifier: Apache-2.0 */
/* What the ready-made data sets have in common; see set.h. */
#include <config.h>

#include "lib/data/datasets/set.h"

#include "lib/base/error.h"
#include "lib/data/batch.h"
#include "util/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rows are converted through this much stack: pread() of less costs more than the copying. */
enum { CHUNK_BYTES = 8192 };

enum accel_status
set_check_index (const struct set *set, uint64_t index, struct accel_error *err)
{
    if (index < set->dataset.size)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID, "sample %llu is out of range: the data set has %zu samples",
                       (unsigned long long) index, set->dataset.size);
}

/* Byte by byte, as rows need not be aligned; files with wider elements than bytes are rare. */
static void
swap_elements (unsigned char *bytes, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++, bytes += size)
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            unsigned char kept = bytes[low];
            bytes[low] = bytes[high];
            bytes[high] = kept;
        }
}

static void
convert (const struct set_table *table, const unsigned char *from, unsigned char *into, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (table->convert == SET_UINT8_TO_FLOAT) {
            float value = (float) from[i] / 255;
            memcpy (into + i * sizeof value, &value, sizeof value);
        } else {
            uint16_t bits = (uint16_t) (from[2 * i] << 8 | from[2 * i + 1]);
            int32_t value = bits < 0x8000 ? bits : bits - 0x10000;
            memcpy (into + i * sizeof value, &value, sizeof value);
        }
}

/* Elements that grow on the way. */
static enum accel_status
read_converted (const struct set_table *table, uint64_t offset, unsigned char *into, size_t count,
                struct accel_error *err)
{
    unsigned char chunk[CHUNK_BYTES];
    size_t most = sizeof chunk / table->element_bytes, grown = table->row_bytes / table->elements;
    while (count) {
        size_t now = count < most ? count : most, bytes = now * table->element_bytes;
        enum accel_status status = source_read (table->source, offset, chunk, bytes, err);
        if (status)
            return status;
        convert (table, chunk, into, now);
        into += now * grown;
        offset += bytes;
        count -= now;
    }
    return ACCEL_OK;
}

/* Rows @p first to first + count of one field.  Sizes were checked when the tables were made. */
static enum accel_status
read_rows (const struct set_table *table, size_t first, size_t count, unsigned char *into, struct accel_error *err)
{
    size_t stored = table->elements * table->element_bytes;
    if (!table->row_bytes)
        return ACCEL_OK;
    if (table->memory) {
        memory_copy (into, table->memory + first * stored, count * stored);
        return ACCEL_OK;
    }
    uint64_t offset = table->offset + (uint64_t) first * stored;
    if (table->convert == SET_SWAP_INT16 || table->convert == SET_UINT8_TO_FLOAT)
        return read_converted (table, offset, into, count * table->elements, err);
    enum accel_status status = source_read (table->source, offset, into, count * stored, err);
    if (!status && table->convert == SET_SWAP)
        swap_elements (into, count * table->elements, table->element_bytes);
    return status;
}

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    enum accel_status status = set_check_index (set, index, err);
    for (size_t i = 0; !status && i < set->dataset.field_count; i++)
        status = read_rows (&set->tables[i], index, 1, into[i], err);
    return status;
}

/* Neighbours in the file are read at once: a batch of a set that is not shuffled is one system call for each field. */
static enum accel_status
read_samples (void *user, const int64_t *indices, size_t count, void *const *into, struct accel_error *err)
{
    const struct set *set = user;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = set_check_index (set, (uint64_t) indices[i], err);
    for (size_t start = 0, end; start < count && !status; start = end) {
        for (end = start + 1; end < count && indices[end] == indices[end - 1] + 1; end++)
            ;
        for (size_t i = 0; !status && i < set->dataset.field_count; i++) {
            const struct set_table *table = &set->tables[i];
            if (table->row_bytes) /* otherwise there may be no memory to add to */
                status = read_rows (table, (size_t) indices[start], end - start,
                                    (unsigned char *) into[i] + start * table->row_bytes, err);
        }
    }
    return status;
}

enum accel_status
set_create (struct set **result, size_t field_count, struct accel_error *err)
{
    *result = NULL;
    struct set *set = calloc (1, sizeof *set);
    if (!set)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set");
    for (size_t i = 0; i < sizeof set->sources / sizeof *set->sources; i++)
        set->sources[i] = (struct source) SOURCE_CLOSED;
    set->fields = calloc (field_count, sizeof *set->fields);
    set->tables = calloc (field_count, sizeof *set->tables);
    if (!set->fields || !set->tables) {
        set_destroy (set);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set of %zu fields", field_count);
    }
    set->dataset = (struct accel_dataset){
        .fields = set->fields,
        .field_count = field_count,
        .read = read_sample,
        .read_many = read_samples,
        .user = set,
    };
    *result = set;
    return ACCEL_OK;
}

enum accel_status
set_describe (struct set *set, size_t index, const struct accel_field *field, struct accel_error *err)
{
    struct accel_tensor sample;
    enum accel_status status = batch_check_field (&sample, field, set->fields, index, err);
    if (status)
        return status;
    struct set_table *table = &set->tables[index];
    table->elements = accel_tensor_count (&sample.dl);
    table->element_bytes = accel_dtype_bytes (field->dtype);
    if (__builtin_mul_overflow (table->elements, table->element_bytes, &table->row_bytes))
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s': a sample is too large: size overflows", field->name);
    set->fields[index] = *field;
    set->fields[index].name = strdup (field->name);
    return set->fields[index].name ? ACCEL_OK
                                   : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set");
}

void
set_destroy (struct set *set)
{
    int saved = errno;
    if (!set)
        return;
    for (size_t i = 0; set->fields && i < set->dataset.field_count; i++)
        free ((char *) set->fields[i].name);
    for (size_t i = 0; i < set->owned_count; i++)
        free (set->owned[i]);
    for (size_t i = 0; i < sizeof set->sources / sizeof *set->sources; i++)
        source_close (&set->sources[i]);
    if (set->files)
        set->close_files (set->files);
    free (set->owned);
    free (set->fields);
    free (set->tables);
    free (set);
    errno = saved;
}

enum accel_status
set_abandon (struct set *set, enum accel_status status)
{
    set_destroy (set);
    return status;
}

void
accel_dataset_close (struct accel_dataset *dataset)
{
    if (dataset)
        set_destroy (dataset->user);
}
