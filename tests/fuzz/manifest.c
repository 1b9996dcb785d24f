/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of the manifests of checkpoints: names of files stay in their folder, nothing is duplicate, and what is
 * written can be read again.  No fuzzer finds a checksum, so each input is also read with the right one at its end. */
#include <config.h>

#include "files/checksum.h"
#include "files/manifest.h"
#include "tests/fuzz/target.h"
#include "util/utf8.h"

#include <inttypes.h>

static void
check_file (const struct manifest *manifest, size_t index)
{
    const struct manifest_file *file = &manifest->files[index];
    const char *name = file->name;
    must (*name && *name != '/' && !strstr (name, "//") && utf8_is_valid (name, strlen (name)));
    for (const char *at = name; *at; at += strcspn (at, "/"), at += *at == '/')
        must (strcspn (at, "/") > 2 || strncmp (at, "..", strcspn (at, "/")) != 0);
    must (strcmp (name, "manifest.json") != 0 && manifest_find_file (manifest, name) == file);
    for (size_t i = 0; i < file->count; i++)
        must (utf8_is_valid (file->tensors[i].name, strlen (file->tensors[i].name))
              && (!i || strcmp (file->tensors[i - 1].name, file->tensors[i].name) < 0));
}

static void
compare (const struct manifest *a, const struct manifest *b)
{
    must (a->count == b->count && a->processes == b->processes && a->saved_ns == b->saved_ns);
    for (size_t i = 0; i < a->count; i++) {
        const struct manifest_file *x = &a->files[i], *y = &b->files[i];
        must (!strcmp (x->name, y->name) && x->bytes == y->bytes && x->checksum == y->checksum && x->count == y->count
              && x->has_tensors == y->has_tensors);
        for (size_t t = 0; t < x->count; t++)
            must (!strcmp (x->tensors[t].name, y->tensors[t].name)
                  && x->tensors[t].checksum == y->tensors[t].checksum);
    }
}

static void
read_text (const char *text, size_t length)
{
    struct manifest manifest, again;
    struct accel_error err = { 0 };
    AUTO_STRBUF struct strbuf written = { 0 };
    enum accel_status status = manifest_parse (&manifest, text, length, &err);
    if (status)
        must (err.code == status && *err.text && !strchr (err.text, '\n'));
    else {
        for (size_t i = 0; i < manifest.count; i++)
            check_file (&manifest, i);
        manifest_write (&manifest, &written);
        must (!written.failed && !manifest_parse (&again, written.text, written.length, &err));
        compare (&manifest, &again);
        manifest_release (&again);
    }
    manifest_release (&manifest);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_add_bytes (&text, (const char *) data, size);
    read_text (size ? text.text : "", size);
    strbuf_printf (&text, "\"xxh3\": \"%016" PRIx64 "\"\n}\n", checksum_bytes (data, size));
    must (!text.failed);
    read_text (text.text, text.length);
    return 0;
}
