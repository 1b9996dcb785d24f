/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of the index of sharded sets: names of files stay in their directory; what is written can be read again. */
#include <config.h>

#include "files/index.h"
#include "tests/fuzz/target.h"

static void
compare (const struct index *index, const struct strbuf *text)
{
    struct index again;
    struct accel_error err;
    must (!text->failed && !index_parse (&again, text->text, text->length, &err));
    must (again.count == index->count && again.file_count == index->file_count);
    for (size_t i = 0; i < index->count; i++)
        must (!strcmp (again.entries[i].name, index->entries[i].name)
              && !strcmp (again.entries[i].file, index->entries[i].file)
              && again.entries[i].file_number == index->entries[i].file_number);
    index_release (&again);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct index index;
    struct accel_error err = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    enum accel_status status = index_parse (&index, (const char *) data, size, &err);
    if (status) {
        must (err.code == status && *err.text && !strchr (err.text, '\n') && !index.entries && !index.files);
        return 0;
    }
    for (size_t i = 0; i < index.count; i++)
        must (*index.entries[i].file && !strchr (index.entries[i].file, '/')
              && strcmp (index.entries[i].file, ".") && strcmp (index.entries[i].file, "..")
              && !strcmp (index.files[index.entries[i].file_number], index.entries[i].file));
    index_write (&text, index.entries, index.count, 0);
    compare (&index, &text);
    index_release (&index);
    return 0;
}
