/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of torch.distributed.checkpoint: those that PyTorch wrote give the tensors that Accelerate merged. */
#include <config.h>

#include "cli/inspect/tensors.h"
#include "files/dcp.h"
#include "files/safetensors.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <stdlib.h>

static char srcdir[4096] = ".";

static const char *
golden (const char *name, const char *suffix)
{
    static char path[8192];
    snprintf (path, sizeof path, "%s/tests/golden/dcp/%s%s", srcdir, name, suffix);
    return path;
}

/* @return whether it is the same as that of the merged file */
static bool
same_tensor (struct dcp_folder *folder, size_t index, const struct safetensors *merged, const struct source *source,
             uint64_t data)
{
    const struct dcp_tensor *tensor = &folder->dcp.tensors[index];
    const struct safetensors_tensor *wanted = safetensors_find (merged, tensor->name);
    struct accel_error err = { 0 };
    if (!wanted || wanted->dtype != tensor->dtype || wanted->ndim != (size_t) tensor->ndim
        || wanted->end - wanted->begin != tensor->bytes)
        return false;
    for (int i = 0; i < tensor->ndim; i++)
        if ((uint64_t) wanted->shape[i] != tensor->shape[i])
            return false;
    char *got = malloc (tensor->bytes + 1), *bytes = malloc (tensor->bytes + 1);
    memset (got, 0x55, tensor->bytes + 1);
    bool same = !dcp_read_tensor (folder, index, got, &err)
                && !source_read (source, data + wanted->begin, bytes, tensor->bytes, &err)
                && !memcmp (got, bytes, tensor->bytes) && got[tensor->bytes] == 0x55;
    if (err.code)
        diag ("%s", err.text);
    free (got);
    free (bytes);
    return same;
}

static void
test_golden (const char *name)
{
    struct dcp_folder folder;
    struct source source;
    struct safetensors merged;
    struct accel_error err = { 0 };
    uint64_t data;
    if (!ok (!source_open (&source, golden (name, ".safetensors"), &err)
             && !safetensors_read (&merged, &source, &data, &err), "%s: what Accelerate made", name)) {
        diag ("%s", err.text);
        return;
    }
    if (ok (!dcp_open (&folder, golden (name, ""), &err), "%s: metadata", name)) {
        ok (folder.dcp.count == merged.count && !folder.dcp.objects.count, "%s: %zu tensors", name, merged.count);
        for (size_t i = 0; i < folder.dcp.count; i++)
            ok (same_tensor (&folder, i, &merged, &source, data), "%s: %s", name, folder.dcp.tensors[i].name);
    } else
        diag ("%s", err.text);
    ok (dcp_is_folder (golden (name, "")) && !dcp_is_folder (golden (name, ".safetensors")), "%s: a folder", name);
    dcp_close (&folder);
    safetensors_release (&merged);
    source_close (&source);
}

/* The command reads a tensor in pieces, each from the right place. */
static void
test_pieces (void)
{
    struct tensors tensors = { 0 };
    struct fail fail = { 0 };
    enum { PIECE = 3 };
    bool same = true;
    size_t pieces = 0;
    if (!ok (!tensors_open (&tensors, golden ("fsdp1", ""), TENSORS_OF_ALL, false, &fail), "the command opens it"))
        return;
    for (size_t i = 0; i < tensors.count; i++) {
        size_t bytes = (size_t) tensors.items[i].bytes;
        unsigned char *whole = malloc (bytes + 1), *piece = malloc (PIECE);
        same = same && !tensors_read (&tensors, i, 0, whole, bytes, &fail);
        for (size_t at = 0; at + PIECE <= bytes; at += PIECE, pieces++)
            same = same && !tensors_read (&tensors, i, at, piece, PIECE, &fail) && !memcmp (piece, whole + at, PIECE);
        free (whole);
        free (piece);
    }
    ok (same && pieces > 100, "%zu pieces are what the whole tensors are", pieces);
    tensors_close (&tensors);
}

/* ---- metadata that lie ---- */

/* A pickle of the metadata of one or two tensors, in protocol 2, with what is wrong with it. */
struct plan {
    const char *what, *wanted; /* in the message; NULL: it can be read */
    int ndim;
    int64_t shape[2];
    int chunks;
    int64_t boxes[4][4];       /* offsets, sizes */
    int rows;                  /* of storage_data; 0: as many as chunks */
    const char *file;
    int64_t begin, length;
    const char *transforms, *layout;
    const char *key, *second_key; /* of tensors; a second tensor has one chunk, the first box */
    const char *path[2];       /* of planner_data */
    bool no_paths;
    bool is_twice;             /* the first row of storage_data */
    bool has_object;
};

static void
put_text (struct strbuf *out, const char *text)
{
    size_t length = strlen (text);
    strbuf_add_char (out, 'X');
    for (int i = 0; i < 4; i++, length >>= 8)
        strbuf_add_char (out, (char) (length & 0xff));
    strbuf_add (out, text);
}

static void
put_number (struct strbuf *out, int64_t number)
{
    strbuf_add_bytes (out, "\x8a\x8", 2);
    for (int i = 0; i < 8; i++)
        strbuf_add_char (out, (char) ((uint64_t) number >> 8 * i & 0xff));
}

static void
put_class (struct strbuf *out, const char *module, const char *name)
{
    strbuf_printf (out, "c%s\n%s\n)\x81", module, name);
}

#define METADATA "torch.distributed.checkpoint.metadata"

static void
put_size (struct strbuf *out, const int64_t *sizes, int ndim)
{
    strbuf_add (out, "ctorch\nSize\n(");
    for (int i = 0; i < ndim; i++)
        put_number (out, sizes[i]);
    strbuf_add (out, "t\x85R");
}

static void
put_tensor (struct strbuf *out, const struct plan *plan, const char *key, int chunks)
{
    put_text (out, key);
    put_class (out, METADATA, "TensorStorageMetadata");
    strbuf_add (out, "}(");
    put_text (out, "properties");
    put_class (out, METADATA, "TensorProperties");
    strbuf_add (out, "(ctorch\nfloat32\nctorch.serialization\n_get_layout\n");
    put_text (out, plan->layout ? plan->layout : "torch.strided");
    strbuf_add (out, "\x85R\x89N\x89tb");
    put_text (out, "size");
    put_size (out, plan->shape, plan->ndim);
    put_text (out, "chunks");
    strbuf_add (out, "](");
    for (int i = 0; i < chunks; i++) {
        put_class (out, METADATA, "ChunkStorageMetadata");
        strbuf_add (out, "}(");
        put_text (out, "offsets");
        put_size (out, plan->boxes[i], plan->ndim);
        put_text (out, "sizes");
        put_size (out, plan->boxes[i] + plan->ndim, plan->ndim);
        strbuf_add (out, "ub");
    }
    strbuf_add (out, "eub");
}

static void
put_stored (struct strbuf *out, const struct plan *plan, const char *key, int chunk)
{
    put_class (out, METADATA, "MetadataIndex");
    strbuf_add (out, "}(");
    put_text (out, "fqn");
    put_text (out, key);
    put_text (out, "offset");
    put_size (out, plan->boxes[chunk], plan->ndim);
    strbuf_add (out, "ub");
    put_class (out, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    strbuf_add (out, "}(");
    put_text (out, "relative_path");
    put_text (out, plan->file ? plan->file : "__0_0.distcp");
    put_text (out, "offset");
    put_number (out, plan->begin);
    put_text (out, "length");
    put_number (out, plan->length ? plan->length : 100);
    if (plan->transforms) {
        put_text (out, "transform_descriptors");
        strbuf_add (out, "(");
        put_text (out, plan->transforms);
        strbuf_add (out, "t");
    }
    strbuf_add (out, "ub");
}

static void
put_metadata (struct strbuf *out, const struct plan *plan)
{
    const char *key = plan->key ? plan->key : "model.w";
    strbuf_add_bytes (out, "\x80\2", 2);
    put_class (out, METADATA, "Metadata");
    strbuf_add (out, "}(");
    put_text (out, "state_dict_metadata");
    strbuf_add (out, "}(");
    put_tensor (out, plan, key, plan->chunks);
    if (plan->second_key)
        put_tensor (out, plan, plan->second_key, plan->chunks);
    if (plan->has_object) {
        put_text (out, "model.o");
        put_class (out, METADATA, "BytesStorageMetadata");
    }
    strbuf_add (out, "u");
    put_text (out, "planner_data");
    strbuf_add (out, plan->no_paths ? "N" : "}(");
    for (int i = 0; !plan->no_paths && i < (plan->second_key ? 2 : 1); i++) {
        put_text (out, i ? plan->second_key : key);
        strbuf_add (out, "(");
        put_text (out, "model");
        put_text (out, plan->path[i] ? plan->path[i] : i ? "v" : "w");
        strbuf_add (out, "t");
    }
    strbuf_add (out, plan->no_paths ? "" : "u");
    put_text (out, "storage_data");
    strbuf_add (out, "}(");
    for (int i = 0; i < (plan->rows ? plan->rows : plan->chunks); i++) {
        put_stored (out, plan, key, i);
        if (plan->second_key)
            put_stored (out, plan, plan->second_key, i);
    }
    if (plan->is_twice)
        put_stored (out, plan, key, 0);
    strbuf_add (out, "uub.");
}

#define TWO_BY_THREE .ndim = 2, .shape = { 2, 3 }

static const struct plan plans[] = {
    { "one chunk", NULL, TWO_BY_THREE, 1, { { 0, 0, 2, 3 } } },
    { "two rows", NULL, TWO_BY_THREE, 2, { { 0, 0, 1, 3 }, { 1, 0, 1, 3 } } },
    { "columns in another order", NULL, TWO_BY_THREE, 2, { { 0, 2, 2, 1 }, { 0, 0, 2, 2 } } },
    { "an empty chunk, which is not stored", NULL, TWO_BY_THREE, 2, { { 0, 0, 2, 3 }, { 2, 0, 0, 3 } }, .rows = 1 },
    { "a scalar", NULL, .ndim = 0, .chunks = 1 },
    { "no elements, no chunks", NULL, .ndim = 2, .shape = { 0, 3 } },
    { "no paths", NULL, TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .no_paths = true },
    { "an object besides", NULL, TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .has_object = true, .no_paths = true },
    { "overlapping chunks", "chunks overlap", TWO_BY_THREE, 3, { { 0, 0, 1, 3 }, { 0, 1, 1, 1 }, { 1, 0, 1, 2 } } },
    { "the same elements twice", "storage_data twice", TWO_BY_THREE, 2, { { 0, 0, 1, 3 }, { 0, 0, 1, 3 } } },
    { "too many elements", "not the whole tensor", TWO_BY_THREE, 2, { { 0, 0, 2, 3 }, { 0, 1, 2, 2 } } },
    { "a missing chunk", "not the whole tensor", TWO_BY_THREE, 1, { { 0, 0, 1, 3 } } },
    { "a chunk that reaches out", "outside of its tensor", TWO_BY_THREE, 1, { { 0, 0, 3, 2 } } },
    { "a chunk that begins outside", "outside of its tensor", TWO_BY_THREE, 2, { { 0, 0, 2, 3 }, { 3, 0, 1, 1 } } },
    { "a chunk whose end overflows", "outside of its tensor", TWO_BY_THREE, 1, { { 1, 0, INT64_MAX, 1 } } },
    { "a negative offset", "is invalid", TWO_BY_THREE, 1, { { -1, 0, 2, 3 } } },
    { "a size that overflows", "size is invalid", .ndim = 2, .shape = { INT64_MAX, 3 }, .chunks = 1 },
    { "2^63 bytes", "size is invalid", .ndim = 1, .shape = { INT64_C (1) << 61 }, .chunks = 1 },
    { "a chunk that is not stored", "lacks a chunk", TWO_BY_THREE, 2, { { 0, 0, 1, 3 }, { 1, 0, 1, 3 } }, .rows = 1 },
    { "a row twice", "storage_data twice", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .is_twice = true },
    { "a path", "not the name of a file", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .file = "../x" },
    { "an absolute path", "not the name of a file", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .file = "/x" },
    { "the folder", "not the name of a file", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .file = "." },
    { "the folder above", "not the name of a file", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .file = ".." },
    { "a name of two lines", "not the name of a file", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .file = "a\nb" },
    { "a sparse tensor", "only dense tensors", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .layout = "torch.sparse_coo" },
    { "no name", "not the name of a file", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .file = "" },
    { "a place before the file", "place of a chunk is invalid", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .begin = -1 },
    { "a negative length", "place of a chunk is invalid", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .length = -1 },
    { "a place that overflows", "place of a chunk is invalid", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } },
      .begin = 2, .length = INT64_MAX - 1 },
    { "compressed chunks", "written by an extension", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .transforms = "zstd" },
    { "two tensors", NULL, TWO_BY_THREE, 1, { { 0, 0, 2, 3 } }, .second_key = "model.v" },
    { "two tensors of one path", "duplicate tensor 'w'", TWO_BY_THREE, 1, { { 0, 0, 2, 3 } },
      .second_key = "model.v", .path = { "w", "w" } },
};

static void
test_plans (void)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        struct accel_error err = { 0 };
        struct dcp dcp;
        put_metadata (&out, &plans[i]);
        bool good = !dcp_parse (&dcp, out.text, out.length, &err);
        if (!ok (plans[i].wanted ? !good && strstr (err.text, plans[i].wanted) : good, "%s", plans[i].what))
            diag ("'%s', expected '%s'", err.text, plans[i].wanted ? plans[i].wanted : "success");
        if (good && !plans[i].no_paths)
            is_text (dcp.tensors[0].name, "w", "its name");
        dcp_release (&dcp);
    }
}

/* ---- a file that becomes shorter while it is read ---- */

static bool
copy_file (const char *from, const char *to)
{
    char bytes[65536];
    FILE *in = fopen (from, "r"), *out = fopen (to, "w");
    size_t length = in ? fread (bytes, 1, sizeof bytes, in) : 0;
    bool good = out && length && length < sizeof bytes && fwrite (bytes, 1, length, out) == length;
    good = !(in && fclose (in)) && good;
    return !(out && fclose (out)) && good;
}

static void
test_truncated (void)
{
    struct dcp_folder folder;
    struct accel_error err = { 0 };
    char array[4096], from[16384];
    static const char *const names[] = { ".metadata", "__0_0.distcp", "__1_0.distcp" };
    for (int i = 0; i < 3; i++) {
        snprintf (from, sizeof from, "%s/%s", golden ("fsdp2", ""), names[i]);
        ok (copy_file (from, names[i]), "a copy of %s", names[i]);
    }
    ok (!dcp_open (&folder, ".", &err) && !dcp_read_tensor (&folder, 0, array, &err), "the first tensor is read");
    dcp_close (&folder);
    ok (!rename (".metadata", "elsewhere") && !symlink ("elsewhere", ".metadata") && dcp_open (&folder, ".", &err)
            && strstr (err.text, "is a symbolic link"),
        "a file that is a symbolic link is refused: %s", err.text);
    dcp_close (&folder);
    ok (!rename ("elsewhere", ".metadata") && !dcp_open (&folder, ".", &err)
            && !dcp_read_tensor (&folder, 0, array, &err),
        "and its own file is not");
    ok (!truncate ("__0_0.distcp", 0) && !truncate ("__1_0.distcp", 0), "the files become empty");
    for (size_t i = 0; i < folder.dcp.count; i++)
        ok (dcp_read_tensor (&folder, i, array, &err) && strstr (err.text, "has only 0 bytes now"), "%s: an error",
            folder.dcp.tensors[i].name);
    dcp_close (&folder);
}

int
main (void)
{
    if (!realpath (getenv ("srcdir") ? getenv ("srcdir") : ".", srcdir))
        return 99;
    static const char *const names[] = { "fsdp1", "fsdp2", "dtypes", "layouts", "grid" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        test_golden (names[i]);
    test_pieces ();
    test_plans ();
    scratch_enter ();
    test_truncated ();
    return done_testing ();
}
