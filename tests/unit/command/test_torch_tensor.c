/* SPDX-License-Identifier: Apache-2.0 */
/* One tensor as torch.save writes it: parameters are tensors, and a tensor has the shape that was asked for. */
#include <config.h>

#include "files/zip.h"
#include "files/torch_tensor.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/strbuf.h"

static struct accel_error err;

#define BEGIN "\x80\2"
#define HOOKS "ccollections\nOrderedDict\n)R"
#define STORAGE "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\6tQ"
#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\0K\2K\3\x86K\3K\1\x86\x89" HOOKS "tR"
#define PARAMETER "ctorch._utils\n_rebuild_parameter\n(" TENSOR "\x88" HOOKS "tR"
#define TEXT(literal) (literal), sizeof (literal) - 1

static void
test_parse (void)
{
    static const struct {
        const char *what, *text;
        size_t length;
    } rows[] = {
        { "a tensor", TEXT (BEGIN TENSOR ".") },
        { "a parameter", TEXT (BEGIN PARAMETER ".") },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct torch_tensor tensor = { 0 };
        bool good = !torch_tensor_parse (&tensor, rows[i].text, rows[i].length, &err);
        if (!ok (good && tensor.dtype == SAFETENSORS_F32 && tensor.ndim == 2 && tensor.sizes[0] == 2
                     && tensor.sizes[1] == 3 && tensor.strides[0] == 3 && !strcmp (tensor.key, "0"), "%s",
                 rows[i].what))
            diag ("%s", good ? "another tensor" : err.text);
    }
    struct torch_tensor tensor;
    ok (torch_tensor_parse (&tensor, TEXT (BEGIN "K\1."), &err) && strstr (err.text, "it is something else"),
        "a number: %s", err.text);
}

/* ---- its archive ---- */

static void
put (struct strbuf *out, uint64_t number, int bytes)
{
    for (; bytes; bytes--, number >>= 8)
        strbuf_add_char (out, (char) (number & 0xff));
}

struct entry {
    const char *name, *bytes;
    size_t length;
};

/* The header before the bytes of an entry, or that in the directory, which says where the other one is. */
static void
put_header (struct strbuf *out, const struct entry *entry, bool directory, uint64_t begin)
{
    strbuf_add (out, directory ? "PK\1\2" : "PK\3\4");
    put (out, 45, directory ? 2 : 0);
    put (out, 45, 2);
    put (out, 0, 2 + 2 + 2 + 2);
    put (out, crc32_add (0, entry->bytes, entry->length), 4);
    put (out, entry->length, 4);
    put (out, entry->length, 4);
    put (out, strlen (entry->name), 2);
    put (out, 0, 2);
    if (directory) {
        put (out, 0, 2 + 2 + 2);
        put (out, 0, 4);
        put (out, begin, 4);
    }
    strbuf_add (out, entry->name);
}

static void
write_archive (const char *path, const struct entry *entries, int count)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_STRBUF struct strbuf directory = { 0 };
    for (int i = 0; i < count; i++) {
        put_header (&directory, &entries[i], true, out.length);
        put_header (&out, &entries[i], false, 0);
        strbuf_add_bytes (&out, entries[i].bytes, entries[i].length);
    }
    size_t begin = out.length;
    strbuf_add_bytes (&out, directory.text, directory.length);
    strbuf_add (&out, "PK\5\6");
    put (&out, 0, 4);
    put (&out, (uint64_t) count, 2);
    put (&out, (uint64_t) count, 2);
    put (&out, directory.length, 4);
    put (&out, begin, 4);
    put (&out, 0, 2);
    FILE *file = fopen (path, "w");
    if (!file || fwrite (out.text, 1, out.length, file) != out.length || fclose (file))
        abort ();
}

static void
test_read (void)
{
    static const float values[6] = { 1, 2, 3, 4, 5, 6 };
    const struct entry entries[] = {
        { "a/data.pkl", TEXT (BEGIN PARAMETER ".") },
        { "a/byteorder", TEXT ("little") },
        { "a/data/0", (const char *) values, sizeof values },
    };
    const uint64_t none[2] = { 0 }, right[2] = { 2, 3 }, wrong[2] = { 3, 2 };
    struct torch_place place = { .ndim = 2, .shape = right, .offsets = none, .sizes = right };
    struct source source;
    float array[6] = { 0 };
    write_archive ("tensor.pt", entries, 3);
    if (source_open (&source, "tensor.pt", &err))
        abort ();
    bool good = !torch_tensor_read (&source, 0, source.size, SAFETENSORS_F32, &place, array, &err);
    ok (good && !memcmp (array, values, sizeof values), "an archive: %s", good ? "read" : err.text);
    place.shape = place.sizes = wrong;
    ok (torch_tensor_read (&source, 0, source.size, SAFETENSORS_F32, &place, array, &err)
            && strstr (err.text, "another shape or type"), "with another shape: %s", err.text);
    place.shape = place.sizes = right;
    ok (torch_tensor_read (&source, 0, source.size, SAFETENSORS_F16, &place, array, &err)
            && strstr (err.text, "another shape or type"), "with another type: %s", err.text);
    source_close (&source);
}

int
main (void)
{
    scratch_enter ();
    test_parse ();
    test_read ();
    return done_testing ();
}
