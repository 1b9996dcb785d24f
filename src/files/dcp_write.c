/* SPDX-License-Identifier: Apache-2.0 */
/* Archives and metadata of torch.distributed.checkpoint; see dcp_write.h.  Pickles are of protocol 2, the newest that
 * torch.load reads with weights_only. */
#include <config.h>

#include "files/dcp_write.h"

#include "files/torch_tensor.h"

#include <stdio.h>
#include <string.h>

/* ---- boxes ---- */

/* Elements of one index of dimension @d. */
static uint64_t
stride_of (const struct dcp_box *box, int d)
{
    uint64_t stride = 1;
    for (int i = d + 1; i < box->ndim; i++)
        stride *= (uint64_t) box->shape[i];
    return stride;
}

static uint64_t
least (uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The elements that follow each other from @from on are cut at the first dimension of which they have whole indices. */
static uint64_t
cut (struct dcp_box *box, uint64_t from, uint64_t elements)
{
    uint64_t count = 1;
    bool is_cut = false;
    for (int d = 0; d < box->ndim; d++) {
        uint64_t extent = (uint64_t) box->shape[d], stride = stride_of (box, d), index = from / stride % extent;
        bool is_here = !is_cut && from % stride == 0 && elements >= stride;
        box->offsets[d] = is_cut ? 0 : index;
        box->sizes[d] = is_cut ? extent : is_here ? least (extent - index, elements / stride) : 1;
        is_cut = is_cut || is_here;
        count *= box->sizes[d];
    }
    return count;
}

uint64_t
dcp_next_box (struct dcp_box *box, uint64_t from, uint64_t end)
{
    if (from < end)
        return cut (box, from, least (end - from, DCP_MOST_BYTES / torch_dtype_bytes (box->dtype)));
    for (int d = 0; d < box->ndim; d++) {
        box->offsets[d] = 0;
        box->sizes[d] = (uint64_t) box->shape[d];
    }
    return 0;
}

/* ---- pickles ---- */

static void
put_byte (struct strbuf *out, unsigned byte)
{
    strbuf_add_char (out, (char) byte);
}

/* Little-endian. */
static void
put_bytes (struct strbuf *out, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put_byte (out, (unsigned) (number >> 8 * i & 0xff));
}

static void
put_number (struct strbuf *out, uint64_t number)
{
    bool is_small = number < 0x100, is_int = number <= INT32_MAX;
    if (is_small || is_int)
        put_byte (out, is_small ? 'K' : 'J');
    else
        strbuf_add_bytes (out, "\x8a\x08", 2);
    put_bytes (out, number, is_small ? 1 : is_int ? 4 : 8);
}

static void
put_text (struct strbuf *out, const char *prefix, const char *text)
{
    size_t first = strlen (prefix), length = first + strlen (text);
    put_byte (out, 'X');
    put_bytes (out, length, 4);
    strbuf_add_bytes (out, prefix, first);
    strbuf_add_bytes (out, text, length - first);
}

static void
put_name (struct strbuf *out, const char *module, const char *name)
{
    strbuf_printf (out, "c%s\n%s\n", module, name);
}

static void
put_tuple (struct strbuf *out, const uint64_t *numbers, int count)
{
    put_byte (out, '(');
    for (int i = 0; i < count; i++)
        put_number (out, numbers[i]);
    put_byte (out, 't');
}

/* ---- archives ---- */

static uint64_t
bytes_of (const struct dcp_box *box)
{
    uint64_t bytes = torch_dtype_bytes (box->dtype);
    for (int i = 0; i < box->ndim; i++)
        bytes *= box->sizes[i];
    return bytes;
}

/* _rebuild_tensor_v3 (storage, offset, sizes, strides, requires_grad, hooks, dtype), which has one form for all types
 * of elements. */
static void
put_tensor (struct strbuf *out, const struct dcp_box *box)
{
    uint64_t strides[ACCEL_MAX_DIMS], stride = 1;
    for (int i = box->ndim; i--; stride *= box->sizes[i] ? box->sizes[i] : 1)
        strides[i] = stride;
    strbuf_add_bytes (out, "\x80\x02", 2);
    put_name (out, "torch._utils", "_rebuild_tensor_v3");
    strbuf_add (out, "((");
    put_text (out, "", "storage");
    put_name (out, "torch.storage", "UntypedStorage");
    put_text (out, "", "0");
    put_text (out, "", "cpu");
    put_number (out, bytes_of (box));
    strbuf_add (out, "tQ");
    put_number (out, 0);
    put_tuple (out, box->sizes, box->ndim);
    put_tuple (out, strides, box->ndim);
    put_byte (out, 0x89);
    put_name (out, "collections", "OrderedDict");
    strbuf_add (out, ")R");
    put_name (out, "torch", torch_dtype_name (box->dtype));
    strbuf_add (out, "tR.");
}

/* The entries of an archive; the last one is the elements. */
enum { ENTRIES = 4 };

struct entry {
    const char *name;
    const char *text; /* NULL: not here */
    uint64_t size;
    uint32_t crc;
};

static void
list_entries (struct entry entries[ENTRIES], const struct strbuf *pickle, const struct dcp_box *box, uint32_t crc)
{
    static const char order[] = "little", version[] = "3\n";
    const struct entry all[ENTRIES]
        = { { "archive/data.pkl", pickle->text, pickle->length, crc32_add (0, pickle->text, pickle->length) },
            { "archive/byteorder", order, sizeof order - 1, crc32_add (0, order, sizeof order - 1) },
            { "archive/version", version, sizeof version - 1, crc32_add (0, version, sizeof version - 1) },
            { "archive/data/0", NULL, bytes_of (box), crc } };
    memcpy (entries, all, sizeof all);
}

/* What a local header and a row of the directory have in common: stored, of January 1, 1980. */
static void
put_entry (struct strbuf *out, const struct entry *entry)
{
    put_bytes (out, 20, 2); /* version of the format */
    put_bytes (out, 0, 4);  /* flags, method */
    put_bytes (out, 0x21 << 16, 4);
    put_bytes (out, entry->crc, 4);
    put_bytes (out, entry->size, 4);
    put_bytes (out, entry->size, 4);
    put_bytes (out, strlen (entry->name), 2);
    put_bytes (out, 0, 2); /* extra fields */
}

/* @param[out] places  of the local headers */
static void
put_head (struct strbuf *out, const struct entry entries[ENTRIES], size_t places[ENTRIES])
{
    size_t begin = out->length;
    for (int i = 0; i < ENTRIES; i++) {
        places[i] = out->length - begin;
        strbuf_add_bytes (out, "PK\3\4", 4);
        put_entry (out, &entries[i]);
        strbuf_add (out, entries[i].name);
        if (entries[i].text)
            strbuf_add_bytes (out, entries[i].text, (size_t) entries[i].size);
    }
}

void
dcp_archive_head (struct strbuf *out, const struct dcp_box *box, uint32_t crc)
{
    AUTO_STRBUF struct strbuf pickle = { 0 };
    struct entry entries[ENTRIES];
    size_t places[ENTRIES];
    put_tensor (&pickle, box);
    out->failed |= pickle.failed;
    if (out->failed)
        return;
    list_entries (entries, &pickle, box, crc);
    put_head (out, entries, places);
}

void
dcp_archive_tail (struct strbuf *out, const struct dcp_box *box, uint32_t crc)
{
    AUTO_STRBUF struct strbuf pickle = { 0 };
    AUTO_STRBUF struct strbuf head = { 0 };
    struct entry entries[ENTRIES];
    size_t places[ENTRIES], begin = out->length;
    put_tensor (&pickle, box);
    if (!pickle.failed) {
        list_entries (entries, &pickle, box, crc);
        put_head (&head, entries, places);
    }
    out->failed |= pickle.failed || head.failed;
    if (out->failed)
        return;
    for (int i = 0; i < ENTRIES; i++) {
        strbuf_add_bytes (out, "PK\1\2\x14\0", 6); /* of the version of the format, too */
        put_entry (out, &entries[i]);
        put_bytes (out, 0, 6); /* comment, disk, kind */
        put_bytes (out, 0, 4);
        put_bytes (out, places[i], 4);
        strbuf_add (out, entries[i].name);
    }
    size_t length = out->length - begin;
    strbuf_add_bytes (out, "PK\5\6\0\0\0\0", 8);
    put_bytes (out, ENTRIES, 2);
    put_bytes (out, ENTRIES, 2);
    put_bytes (out, length, 4);
    put_bytes (out, head.length + bytes_of (box), 4);
    put_bytes (out, 0, 2);
}

/* ---- metadata ---- */

/* Values that are there often: each is made once, in this order, and put into the pickle's memo. */
enum constant {
    METADATA,
    TENSOR,
    CHUNK,
    PROPERTIES,
    INDEX,
    INFO,
    SIZE,
    STRIDED,
    CONTIGUOUS,
    KEY_PROPERTIES,
    KEY_SIZE,
    KEY_CHUNKS,
    KEY_OFFSETS,
    KEY_SIZES,
    KEY_FQN,
    KEY_OFFSET,
    KEY_PATH,
    KEY_LENGTH,
    CONSTANTS
};

static const struct {
    const char *module; /* NULL: a text */
    const char *name;
} constants[CONSTANTS] = {
    [METADATA] = { "torch.distributed.checkpoint.metadata", "Metadata" },
    [TENSOR] = { "torch.distributed.checkpoint.metadata", "TensorStorageMetadata" },
    [CHUNK] = { "torch.distributed.checkpoint.metadata", "ChunkStorageMetadata" },
    [PROPERTIES] = { "torch.distributed.checkpoint.metadata", "TensorProperties" },
    [INDEX] = { "torch.distributed.checkpoint.metadata", "MetadataIndex" },
    [INFO] = { "torch.distributed.checkpoint.filesystem", "_StorageInfo" },
    [SIZE] = { "torch", "Size" },
    [STRIDED] = { "torch.serialization", "_get_layout" },
    [CONTIGUOUS] = { "torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING" },
    [KEY_PROPERTIES] = { NULL, "properties" },
    [KEY_SIZE] = { NULL, "size" },
    [KEY_CHUNKS] = { NULL, "chunks" },
    [KEY_OFFSETS] = { NULL, "offsets" },
    [KEY_SIZES] = { NULL, "sizes" },
    [KEY_FQN] = { NULL, "fqn" },
    [KEY_OFFSET] = { NULL, "offset" },
    [KEY_PATH] = { NULL, "relative_path" },
    [KEY_LENGTH] = { NULL, "length" },
};

static void
put_constants (struct strbuf *out)
{
    for (int i = 0; i < CONSTANTS; i++) {
        if (constants[i].module)
            put_name (out, constants[i].module, constants[i].name);
        else
            put_text (out, "", constants[i].name);
        if (i == STRIDED) { /* what the function returns */
            put_text (out, "", "torch.strided");
            strbuf_add (out, "\x85R");
        } else if (i == CONTIGUOUS) {
            put_number (out, 0);
            strbuf_add (out, "\x85R");
        }
        put_byte (out, 'q');
        put_byte (out, (unsigned) i);
        put_byte (out, '0');
    }
}

static void
get (struct strbuf *out, enum constant constant)
{
    put_byte (out, 'h');
    put_byte (out, constant);
}

/* An object of this class, up to the dictionary of its members; end_object() ends it. */
static void
begin_object (struct strbuf *out, enum constant class)
{
    get (out, class);
    strbuf_add (out, ")\x81}(");
}

static void
end_object (struct strbuf *out)
{
    strbuf_add (out, "ub");
}

static void
put_size (struct strbuf *out, const uint64_t *numbers, int count)
{
    get (out, SIZE);
    put_tuple (out, numbers, count);
    strbuf_add (out, "\x85R");
}

static void
put_chunk (struct strbuf *out, const struct dcp_box *box)
{
    begin_object (out, CHUNK);
    get (out, KEY_OFFSETS);
    put_size (out, box->offsets, box->ndim);
    get (out, KEY_SIZES);
    put_size (out, box->sizes, box->ndim);
    end_object (out);
}

/* The state of the properties has five members, as before PyTorch 2.8, and as later ones accept it. */
static void
put_tensor_metadata (struct strbuf *out, const struct dcp_box *boxes, size_t count)
{
    uint64_t shape[ACCEL_MAX_DIMS];
    for (int i = 0; i < boxes->ndim; i++)
        shape[i] = (uint64_t) boxes->shape[i];
    begin_object (out, TENSOR);
    get (out, KEY_PROPERTIES);
    get (out, PROPERTIES);
    strbuf_add (out, ")\x81(");
    put_name (out, "torch", torch_dtype_name (boxes->dtype));
    get (out, STRIDED);
    put_byte (out, 0x89);
    get (out, CONTIGUOUS);
    strbuf_add (out, "\x89tb");
    get (out, KEY_SIZE);
    put_size (out, shape, boxes->ndim);
    get (out, KEY_CHUNKS);
    strbuf_add (out, "](");
    for (size_t i = 0; i < count; i++)
        put_chunk (out, &boxes[i]);
    put_byte (out, 'e');
    end_object (out);
}

static void
put_stored (struct strbuf *out, const char *prefix, const struct dcp_box *box)
{
    char path[32];
    snprintf (path, sizeof path, "__%d_0.distcp", box->file);
    begin_object (out, INDEX);
    get (out, KEY_FQN);
    put_text (out, prefix, box->name);
    get (out, KEY_OFFSET);
    put_size (out, box->offsets, box->ndim);
    end_object (out);
    begin_object (out, INFO);
    get (out, KEY_PATH);
    put_text (out, "", path);
    get (out, KEY_OFFSET);
    put_number (out, box->begin);
    get (out, KEY_LENGTH);
    put_number (out, box->length);
    end_object (out);
}

/* @return how many boxes from the first on are of its tensor */
static size_t
count_boxes (const struct dcp_box *boxes, size_t count)
{
    size_t same = 1;
    while (same < count && !strcmp (boxes[same].name, boxes->name))
        same++;
    return same;
}

void
dcp_write_metadata (struct strbuf *out, const char *key, const struct dcp_box *boxes, size_t count)
{
    AUTO_STRBUF struct strbuf prefix = { 0 };
    strbuf_printf (&prefix, "%s.", key);
    out->failed |= prefix.failed;
    if (out->failed)
        return;
    strbuf_add_bytes (out, "\x80\x02", 2);
    put_constants (out);
    begin_object (out, METADATA);
    put_text (out, "", "state_dict_metadata");
    strbuf_add (out, "}(");
    for (size_t i = 0, same; i < count; i += same) {
        same = count_boxes (&boxes[i], count - i);
        put_text (out, prefix.text, boxes[i].name);
        put_tensor_metadata (out, &boxes[i], same);
    }
    put_byte (out, 'u');
    put_text (out, "", "planner_data");
    strbuf_add (out, "}(");
    for (size_t i = 0; i < count; i += count_boxes (&boxes[i], count - i)) {
        put_text (out, prefix.text, boxes[i].name);
        put_text (out, "", key);
        put_text (out, "", boxes[i].name);
        put_byte (out, 0x86);
    }
    put_byte (out, 'u');
    put_text (out, "", "storage_data");
    strbuf_add (out, "}(");
    for (size_t i = 0; i < count; i++)
        put_stored (out, prefix.text, &boxes[i]);
    put_byte (out, 'u');
    end_object (out);
    put_byte (out, '.');
}
