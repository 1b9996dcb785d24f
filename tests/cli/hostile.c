/* SPDX-License-Identifier: Apache-2.0 */
/* The library's readers for hostile files, and what is needed to make such files.
 *
 *   hostile open|load_model|load_state PATH   read it; one line says why it is refused, with status 1
 *   hostile save FOLDER                       the checkpoint that load_state expects
 *   hostile manifest FOLDER NAME...           describe these files of the folder in a manifest.json that is right
 *   hostile seal FILE                         end a manifest with its own checksum
 *   hostile many FILE COUNT                   a file with COUNT empty tensors */
#include <config.h>

#include "files/checksum.h"
#include "files/manifest.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <accel/accel.h>
#include <accel/safetensors.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1 << 30, NUMBERS = 1 << 14 };
enum action { LOAD_MODEL, LOAD_STATE, SAVE_STATE };

static struct accel_error err;

static int
refused (enum accel_status status)
{
    if (!status)
        return puts ("read"), 0;
    printf ("%s\n", err.text);
    return 1;
}

/* Every tensor, as a view and into memory. */
static enum accel_status
open_file (const char *path)
{
    struct accel_safetensors *file = NULL;
    enum accel_status status = accel_safetensors_open (&file, path, NULL, &err);
    for (size_t i = 0; !status && i < accel_safetensors_count (file); i++) {
        DLTensor view, into;
        status = accel_safetensors_view (file, i, &view, &err);
        into = view;
        into.data = malloc ((size_t) accel_safetensors_get (file, i)->bytes + 1);
        if (!status)
            status = accel_safetensors_read (file, i, NULL, NULL, &into, &err);
        free (into.data);
    }
    accel_safetensors_close (file);
    return status;
}

/* A model of one tensor, "w". */
static enum accel_status
act (enum action action, const char *path)
{
    static float numbers[NUMBERS];
    struct accel *acc = NULL;
    struct accel_model *model = NULL;
    struct accel_tensor tensor;
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (!status)
        status = accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, (int64_t[]){ NUMBERS }, &err);
    tensor.dl.data = numbers;
    const struct accel_parameter parameter = { "w", &tensor.dl, NULL };
    if (!status)
        status = accel_model_create (&model, &parameter, 1, &err);
    if (!status && action != LOAD_MODEL)
        status = accel_prepare (acc, &err, model);
    if (status)
        exit (99);
    status = action == LOAD_MODEL   ? accel_load_model (acc, model, path, NULL, NULL, &err)
             : action == LOAD_STATE ? accel_load_state (acc, path, &err)
                                    : accel_save_state (acc, path, &err);
    accel_model_destroy (model);
    accel_close (acc);
    return status;
}

static int
write_text (const char *path, const struct strbuf *text)
{
    struct fail fail;
    return text->failed || io_write_file (path, text->text, text->length, 0600, &fail) ? 99 : 0;
}

static int
describe (const char *folder, char **names)
{
    char library[] = "0", path[4096];
    struct manifest manifest = { .processes = 1 };
    AUTO_STRBUF struct strbuf text = { 0 };
    for (; *names; names++) {
        AUTO_FREE char *bytes = NULL;
        size_t length = 0;
        struct fail fail;
        snprintf (path, sizeof path, "%s%s%s", **names == '/' ? "" : folder, **names == '/' ? "" : "/", *names);
        if (io_read_file (path, LIMIT, &bytes, &length, &fail)) /* nothing is there, or what must not be read */
            length = 0;
        if (!manifest_add_file (&manifest, *names, length, checksum_bytes (bytes ? bytes : "", length)))
            return 99;
    }
    manifest.library = library;
    manifest_write (&manifest, &text);
    manifest.library = NULL;
    manifest_release (&manifest);
    snprintf (path, sizeof path, "%s/manifest.json", folder);
    return write_text (path, &text);
}

static int
seal (const char *path)
{
    AUTO_FREE char *bytes = NULL;
    AUTO_STRBUF struct strbuf text = { 0 };
    size_t length;
    struct fail fail;
    if (io_read_file (path, LIMIT, &bytes, &length, &fail))
        return 99;
    strbuf_add_bytes (&text, bytes, length);
    strbuf_printf (&text, "\"xxh3\": \"%016" PRIx64 "\"\n}\n", checksum_bytes (bytes, length));
    return write_text (path, &text);
}

static int
make_many (const char *path, long count)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_add_bytes (&text, "\0\0\0\0\0\0\0\0", 8);
    for (long i = 0; i < count; i++)
        strbuf_printf (&text, "%s\"%ld\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{", i);
    strbuf_add_char (&text, '}');
    for (size_t i = 0; i < 8 && !text.failed; i++)
        text.text[i] = (char) ((text.length - 8) >> 8 * i & 0xff);
    return write_text (path, &text);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    if (!strcmp (what, "open"))
        return refused (open_file (argv[2]));
    if (!strcmp (what, "load_model"))
        return refused (act (LOAD_MODEL, argv[2]));
    if (!strcmp (what, "load_state"))
        return refused (act (LOAD_STATE, argv[2]));
    if (!strcmp (what, "save"))
        return refused (act (SAVE_STATE, argv[2]));
    if (!strcmp (what, "manifest"))
        return describe (argv[2], argv + 3);
    if (!strcmp (what, "seal"))
        return seal (argv[2]);
    if (!strcmp (what, "many") && argc > 3)
        return make_many (argv[2], strtol (argv[3], NULL, 10));
    return 99;
}
