/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives of stored entries; see zip.h. */
#include <config.h>

#include "files/zip.h"

#include "files/error.h"
#include "util/cleanup.h"
#include "util/printable.h"
#include "util/text.h"
#include "util/utf8.h"

#include <pthread.h>
#include <string.h>

enum {
    END_BYTES = 22,          /* of the end of the directory, without the comment */
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,      /* of one entry of the directory, without name, extra fields and comment */
    LOCAL_BYTES = 30,
    MAX_COMMENT = 65535,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1,
    PIECE_BYTES = 1 << 20, /* read and checked at a time, while they are in the processor's cache */
};

static uint16_t
get16 (const unsigned char *at)
{
    return (uint16_t) (at[0] | at[1] << 8);
}

static uint32_t
get32 (const unsigned char *at)
{
    return get16 (at) | (uint32_t) get16 (at + 2) << 16;
}

static uint64_t
get64 (const unsigned char *at)
{
    return get32 (at) | (uint64_t) get32 (at + 4) << 32;
}

struct archive {
    const struct source *source;
    uint64_t begin, end; /* of the archive in the file */
    struct accel_error *err;
};

/* Where the directory is, relative to the beginning of the archive. */
struct directory {
    uint64_t begin, size, count;
    uint64_t limit; /* where the records after it begin */
};

static enum accel_status
fail_archive (const struct archive *archive, const char *what)
{
    return accel_fail (archive->err, ACCEL_ERR_FORMAT, "%s: not a valid zip archive at byte %llu: %s",
                       archive->source->path, (unsigned long long) archive->begin, what);
}

/* @p at and @p length are relative to the archive. */
static enum accel_status
read_part (const struct archive *archive, uint64_t at, void *into, size_t length)
{
    uint64_t size = archive->end - archive->begin;
    if (at > size || length > size - at)
        return fail_archive (archive, "a record is outside of it");
    return source_read (archive->source, archive->begin + at, into, length, archive->err);
}

/* The 64-bit record replaces what the short one says. */
static enum accel_status
find_directory64 (const struct archive *archive, uint64_t locator_at, struct directory *directory)
{
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    enum accel_status status = read_part (archive, locator_at, locator, sizeof locator);
    if (status)
        return status;
    uint64_t at = get64 (locator + 8);
    if (at > locator_at || locator_at - at < sizeof end)
        return fail_archive (archive, "the 64-bit end of the directory is outside of it");
    if ((status = read_part (archive, at, end, sizeof end)))
        return status;
    if (memcmp (end, "PK\6\6", 4) != 0)
        return fail_archive (archive, "no 64-bit end of the directory where its locator points to");
    if (get32 (end + 16) || get32 (end + 20) || get64 (end + 24) != get64 (end + 32))
        return fail_archive (archive, "it has several parts");
    *directory = (struct directory){ get64 (end + 48), get64 (end + 40), get64 (end + 32), at };
    return ACCEL_OK;
}

/* From the end backwards: the record can be followed by a comment.  A comment that contains such a record does not
 * count: the length of the comment must fit. */
static enum accel_status
find_directory (const struct archive *archive, struct directory *directory)
{
    uint64_t size = archive->end - archive->begin;
    if (size < END_BYTES)
        return fail_archive (archive, "too short");
    size_t tail = size < END_BYTES + MAX_COMMENT ? (size_t) size : END_BYTES + MAX_COMMENT;
    AUTO_FREE unsigned char *bytes = malloc (tail);
    if (!bytes)
        return accel_fail (archive->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a zip archive");
    /* Without a comment, as PyTorch writes it, there is no need to read much. */
    size_t part = END_BYTES;
    for (;; part = tail) {
        enum accel_status status = read_part (archive, size - part, bytes, part);
        if (status)
            return status;
        for (size_t at = part - END_BYTES + 1; at--;) {
            const unsigned char *end = bytes + at;
            uint64_t place = size - part + at;
            if (memcmp (end, "PK\5\6", 4) != 0 || get16 (end + 20) != part - at - END_BYTES)
                continue;
            unsigned char magic[4] = { 0 };
            if (place >= LOCATOR_BYTES && (status = read_part (archive, place - LOCATOR_BYTES, magic, sizeof magic)))
                return status;
            if (!memcmp (magic, "PK\6\7", 4))
                return find_directory64 (archive, place - LOCATOR_BYTES, directory);
            if (get16 (end + 4) || get16 (end + 6) || get16 (end + 8) != get16 (end + 10))
                return fail_archive (archive, "it has several parts");
            *directory = (struct directory){ get32 (end + 16), get32 (end + 12), get16 (end + 10), place };
            return ACCEL_OK;
        }
        if (part == tail)
            return fail_archive (archive, "no end of its directory; was it truncated?");
    }
}

/* The 64-bit numbers of the extra fields replace those that are all ones in the entry, in this order. */
static bool
apply_zip64 (const unsigned char *extra, size_t length, uint64_t *const numbers[], const bool is_long[], size_t count)
{
    bool missing = false;
    for (size_t i = 0; i < count; i++)
        missing = missing || is_long[i];
    while (missing && length >= 4) {
        size_t size = get16 (extra + 2);
        if (size > length - 4)
            return false;
        if (get16 (extra) == EXTRA_ZIP64) {
            const unsigned char *at = extra + 4, *end = at + size;
            for (size_t i = 0; i < count; i++)
                if (is_long[i]) {
                    if (end - at < 8)
                        return false;
                    *numbers[i] = get64 (at);
                    at += 8;
                }
            return true;
        }
        extra += 4 + size;
        length -= 4 + size;
    }
    return !missing;
}

static bool
is_good_name (const char *name, size_t length)
{
    return length && strlen (name) == length && utf8_is_valid (name, length) && printable_is_clean (name);
}

/* One entry of the directory at @p at, of which @p left bytes are left. @param[out] used  its bytes */
static enum accel_status
parse_entry (const struct archive *archive, const unsigned char *at, size_t left, struct zip_entry *entry,
             size_t *used)
{
    if (left < CENTRAL_BYTES || memcmp (at, "PK\1\2", 4) != 0)
        return fail_archive (archive, "an entry of its directory is missing");
    size_t name = get16 (at + 28), extra = get16 (at + 30), comment = get16 (at + 32);
    *used = CENTRAL_BYTES + name + extra + comment;
    if (*used > left)
        return fail_archive (archive, "an entry of its directory is cut off");
    uint64_t compressed = get32 (at + 20);
    entry->crc = get32 (at + 16);
    entry->size = get32 (at + 24);
    entry->begin = get32 (at + 42); /* of its header, until that is read */
    uint64_t *const numbers[] = { &entry->size, &compressed, &entry->begin };
    const bool is_long[] = { entry->size == UINT32_MAX, compressed == UINT32_MAX, entry->begin == UINT32_MAX };
    if (!apply_zip64 (at + CENTRAL_BYTES + name, extra, numbers, is_long, 3))
        return fail_archive (archive, "an entry lacks its 64-bit sizes");
    entry->name = strndup ((const char *) at + CENTRAL_BYTES, name);
    if (!entry->name)
        return accel_fail (archive->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a zip archive");
    if (!is_good_name (entry->name, name))
        return fail_archive (archive, "the name of an entry is empty, not UTF-8 or has control characters");
    if (get16 (at + 8) & FLAG_ENCRYPTED)
        return fail_archive (archive, "an entry is encrypted");
    if (get16 (at + 10) || compressed != entry->size)
        return fail_archive (archive, "an entry is compressed; expected stored entries, as torch.save writes them");
    return ACCEL_OK;
}

/* The header before the entry's bytes, whose length only it knows. */
static enum accel_status
check_local (const struct archive *archive, const struct directory *directory, struct zip_entry *entry)
{
    unsigned char header[LOCAL_BYTES];
    size_t name = strlen (entry->name);
    AUTO_FREE char *local = malloc (name + 1);
    if (!local)
        return accel_fail (archive->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a zip archive");
    enum accel_status status = read_part (archive, entry->begin, header, sizeof header);
    if (status)
        return status;
    if (memcmp (header, "PK\3\4", 4) != 0 || get16 (header + 8) || get16 (header + 26) != name)
        return fail_archive (archive, "an entry has no matching header");
    if ((status = read_part (archive, entry->begin + LOCAL_BYTES, local, name)))
        return status;
    if (memcmp (local, entry->name, name) != 0)
        return fail_archive (archive, "an entry has one name in the directory and another before its bytes");
    uint64_t begin = entry->begin + LOCAL_BYTES + name + get16 (header + 28);
    if (begin > directory->begin || entry->size > directory->begin - begin)
        return fail_archive (archive, "an entry reaches into the directory");
    entry->begin = archive->begin + begin;
    return ACCEL_OK;
}

static int
compare_places (const void *a, const void *b)
{
    const struct zip_entry *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x->size > y->size) - (x->size < y->size);
}

/* Sort, and look for overlaps and for duplicate names. */
static enum accel_status
arrange (const struct archive *archive, struct zip *zip)
{
    AUTO_FREE char **names = malloc ((zip->count + 1) * sizeof *names);
    if (!names)
        return accel_fail (archive->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a zip archive");
    if (zip->count)
        qsort (zip->entries, zip->count, sizeof *zip->entries, compare_places);
    for (size_t i = 0; i < zip->count; i++) {
        names[i] = zip->entries[i].name;
        if (i && zip->entries[i].begin - zip->entries[i - 1].begin < zip->entries[i - 1].size)
            return fail_archive (archive, "its entries overlap");
    }
    if (zip->count)
        qsort (names, zip->count, sizeof *names, text_compare);
    for (size_t i = 1; i < zip->count; i++)
        if (!strcmp (names[i - 1], names[i]))
            return fail_archive (archive, "two entries have the same name");
    return ACCEL_OK;
}

static enum accel_status
read_entries (struct zip *zip, const struct archive *archive, const struct directory *directory)
{
    AUTO_FREE unsigned char *bytes = malloc ((size_t) directory->size + 1);
    zip->entries = calloc ((size_t) directory->count + 1, sizeof *zip->entries);
    if (!bytes || !zip->entries)
        return accel_fail (archive->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a zip archive");
    enum accel_status status = read_part (archive, directory->begin, bytes, (size_t) directory->size);
    size_t at = 0, used = 0;
    for (uint64_t i = 0; !status && i < directory->count; i++, at += used) {
        struct zip_entry *entry = &zip->entries[zip->count++];
        status = parse_entry (archive, bytes + at, (size_t) directory->size - at, entry, &used);
        if (!status)
            status = check_local (archive, directory, entry);
    }
    if (!status && at != directory->size)
        status = fail_archive (archive, "bytes after the last entry of its directory");
    return status;
}

enum accel_status
zip_read (struct zip *zip, const struct source *source, uint64_t begin, uint64_t end, struct accel_error *err)
{
    struct archive archive = { source, begin, end, err };
    struct directory directory = { 0 };
    *zip = (struct zip){ 0 };
    if (begin > end || end > source->size)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %llu bytes, but should contain a zip archive up to byte "
                           "%llu", source->path, (unsigned long long) source->size, (unsigned long long) end);
    enum accel_status status = find_directory (&archive, &directory);
    if (status)
        return status;
    if (directory.begin > directory.limit || directory.size > directory.limit - directory.begin)
        return fail_archive (&archive, "its directory is outside of it");
    if (directory.size > ZIP_MAX_DIRECTORY || directory.count > ZIP_MAX_ENTRIES
        || directory.count > directory.size / CENTRAL_BYTES)
        return fail_archive (&archive, "it claims too many entries");
    status = read_entries (zip, &archive, &directory);
    if (!status)
        status = arrange (&archive, zip);
    if (status)
        zip_release (zip);
    return status;
}

const struct zip_entry *
zip_find (const struct zip *zip, const char *name)
{
    for (size_t i = 0; i < zip->count; i++)
        if (!strcmp (zip->entries[i].name, name))
            return &zip->entries[i];
    return NULL;
}

enum accel_status
zip_read_entry (const struct zip_entry *entry, const struct source *source, void *into, struct accel_error *err)
{
    unsigned char *at = into;
    uint32_t crc = 0;
    for (uint64_t done = 0; done < entry->size;) {
        size_t piece = entry->size - done < PIECE_BYTES ? (size_t) (entry->size - done) : PIECE_BYTES;
        enum accel_status status = source_read (source, entry->begin + done, at + done, piece, err);
        if (status)
            return status;
        crc = crc32_add (crc, at + done, piece);
        done += piece;
    }
    if (crc == entry->crc)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%.80s' at byte %llu is damaged: its CRC is %08x, but should be "
                       "%08x", source->path, entry->name, (unsigned long long) entry->begin, crc, entry->crc);
}

void
zip_release (struct zip *zip)
{
    int saved = errno;
    for (size_t i = 0; i < zip->count; i++)
        free (zip->entries[i].name);
    free (zip->entries);
    *zip = (struct zip){ 0 };
    errno = saved;
}

/* ---- CRC-32, eight bytes at a time ----
 * Source: M. E. Kounavis, F. L. Berry: A Systematic Approach to Building High Performance Software-Based CRC
 * Generators, 2005 ("slicing by 8").  zlib has one, but linking it would make each start of the command slower. */

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
fill_tables (void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C (0xedb88320) : 0);
        tables[0][byte] = crc;
    }
    for (int i = 1; i < 8; i++)
        for (int byte = 0; byte < 256; byte++)
            tables[i][byte] = tables[i - 1][byte] >> 8 ^ tables[0][tables[i - 1][byte] & 0xff];
}

uint32_t
crc32_add (uint32_t crc, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    pthread_once (&once, fill_tables);
    crc = ~crc;
    for (; length >= 8; at += 8, length -= 8) {
        crc ^= at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
        crc = tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^ tables[5][crc >> 16 & 0xff] ^ tables[4][crc >> 24]
              ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    }
    for (; length; at++, length--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}
