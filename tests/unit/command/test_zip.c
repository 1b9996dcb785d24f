/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives: those that torch.save writes are read, and those that lie are refused. */
#include <config.h>

#include "files/zip.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/strbuf.h"

#include <limits.h>
#include <stdlib.h>

/* What is wrong with the archive that is written; all zero: nothing. */
struct plan {
    const char *what, *wanted; /* in the message; NULL: it can be read */
    bool is_long;              /* 64-bit sizes, as of archives above 4 GiB */
    bool no_extra, short_extra;
    uint64_t size[2];          /* of each entry, instead of its own */
    uint64_t begin[2];         /* of each entry's header, where that is not 0 */
    unsigned method, flags;
    unsigned local_method;
    const char *names[2], *local_name;
    unsigned count_more, parts;
    uint64_t directory_begin, directory_size, end64_at, end64_later;
    const char *comment, *before;
    unsigned cut;              /* bytes missing at the end */
    unsigned crc_xor;
};

static void
put (struct strbuf *out, uint64_t number, int bytes)
{
    for (; bytes; bytes--, number >>= 8)
        strbuf_add_char (out, (char) (number & 0xff));
}

static const char *const contents[2] = { "first entry", "second" };

static void
put_local (struct strbuf *out, const struct plan *plan, const char *name)
{
    strbuf_add (out, "PK\3\4");
    put (out, 45, 2);
    put (out, 0x0808, 2);
    put (out, plan->local_method, 2);
    put (out, 0, 4);
    put (out, 0, 4 * 3); /* CRC and sizes come after the bytes */
    put (out, strlen (name), 2);
    put (out, 6, 2);
    strbuf_add (out, name);
    strbuf_add_bytes (out, "FB\2\0ZZ", 6);
}

static void
put_central (struct strbuf *out, const struct plan *plan, int i, const char *name, uint64_t begin)
{
    uint64_t size = plan->size[i] ? plan->size[i] : strlen (contents[i]);
    size_t extra = plan->no_extra ? 0 : plan->short_extra ? 12 : 28;
    strbuf_add (out, "PK\1\2");
    put (out, 45, 2);
    put (out, 45, 2);
    put (out, 0x0808 | plan->flags, 2);
    put (out, plan->method, 2);
    put (out, 0, 4);
    put (out, crc32_add (0, contents[i], strlen (contents[i])) ^ plan->crc_xor, 4);
    put (out, plan->is_long ? UINT32_MAX : size, 4);
    put (out, plan->is_long ? UINT32_MAX : size, 4);
    put (out, strlen (name), 2);
    put (out, plan->is_long ? 4 + extra : 0, 2);
    put (out, 0, 2 + 2 + 2 + 4);
    put (out, plan->is_long ? UINT32_MAX : plan->begin[i] ? plan->begin[i] : begin, 4);
    strbuf_add (out, name);
    if (!plan->is_long)
        return;
    put (out, 0x7777, 2); /* another extra field before it */
    put (out, 0, 2);
    if (!extra)
        return;
    put (out, 1, 2);
    put (out, extra - 4, 2);
    put (out, size, 8);
    if (plan->short_extra)
        return;
    put (out, size, 8);
    put (out, plan->begin[i] ? plan->begin[i] : begin, 8);
}

static void
put_end (struct strbuf *out, const struct plan *plan, uint64_t archive, uint64_t directory)
{
    uint64_t begin = plan->directory_begin ? plan->directory_begin : directory - archive;
    uint64_t size = plan->directory_size ? plan->directory_size : out->length - directory;
    uint64_t end64 = out->length - archive;
    uint64_t count = 2 + plan->count_more;
    if (plan->is_long) {
        strbuf_add (out, "PK\6\6");
        put (out, 44, 8);
        put (out, 45 | 45 << 16, 4);
        put (out, plan->parts, 4);
        put (out, 0, 4);
        put (out, count, 8);
        put (out, count, 8);
        put (out, size, 8);
        put (out, begin, 8);
        strbuf_add (out, "PK\6\7");
        put (out, 0, 4);
        put (out, plan->end64_at ? plan->end64_at : end64 + plan->end64_later, 8);
        put (out, 1, 4);
        count = UINT16_MAX;
        begin = size = UINT32_MAX;
    }
    strbuf_add (out, "PK\5\6");
    put (out, plan->is_long ? 0 : plan->parts, 4);
    put (out, count, 2);
    put (out, count, 2);
    put (out, size, 4);
    put (out, begin, 4);
    put (out, plan->comment ? strlen (plan->comment) : 0, 2);
    strbuf_add (out, plan->comment ? plan->comment : "");
}

/* @return where the archive begins */
static uint64_t
put_archive (struct strbuf *out, const struct plan *plan)
{
    uint64_t begins[2];
    strbuf_add (out, plan->before ? plan->before : "");
    uint64_t archive = out->length;
    for (int i = 0; i < 2; i++) {
        const char *name = plan->names[i] ? plan->names[i] : i ? "a/two" : "a/one";
        begins[i] = out->length - archive;
        put_local (out, plan, plan->local_name ? plan->local_name : name);
        strbuf_add (out, contents[i]);
    }
    uint64_t directory = out->length;
    for (int i = 0; i < 2; i++)
        put_central (out, plan, i, plan->names[i] ? plan->names[i] : i ? "a/two" : "a/one", begins[i]);
    put_end (out, plan, archive, directory);
    strbuf_truncate (out, out->length - plan->cut);
    return archive;
}

static const struct plan plans[] = {
    { "an archive", NULL },
    { "an archive in a file", NULL, .before = "another archive" },
    { "64-bit sizes", NULL, .is_long = true, .before = "x" },
    { "a comment", NULL, .comment = "a comment" },
    { "a comment that looks like an end", NULL, .comment = "PK\5\6 and so on, for more than 22 bytes" },
    { "another size of an entry", "overlap", .size = { 55 } },
    { "an entry up to the directory's end", "reaches into the directory", .size = { 0, 100 } },
    { "a size of 2^64-1", "reaches into the directory", .is_long = true, .size = { UINT64_MAX } },
    { "a size of 2^63", "reaches into the directory", .is_long = true, .size = { 0, UINT64_C (1) << 63 } },
    { "a header far away", "outside", .is_long = true, .begin = { UINT64_C (1) << 62 } },
    { "an invalid header", "no matching header", .begin = { 3 } },
    { "a wrong CRC", "is damaged: its CRC", .crc_xor = 1 },
    { "compressed", "is compressed", .method = 8 },
    { "compressed by its header", "no matching header", .local_method = 8 },
    { "encrypted", "is encrypted", .flags = 1 },
    { "another name in the header", "one name in the directory and another", .local_name = "a/six" },
    { "a longer name in the header", "no matching header", .local_name = "a/seven" },
    { "the same name twice", "the same name", .names = { "a/x", "a/x" } },
    { "an empty name", "is empty", .names = { "" } },
    { "a name in Latin-1", "not UTF-8", .names = { "\xe9" } },
    { "a name with an escape", "control characters", .names = { "\33[2J" } },
    { "more entries than there are", "an entry of its directory is missing", .count_more = 1, .is_long = true },
    { "an entry too many", "too many entries", .count_more = 50 },
    { "2^16 entries too many", "too many entries", .is_long = true, .count_more = 1 << 30 },
    { "several parts", "several parts", .parts = 1 },
    { "several parts, 64 bits", "several parts", .parts = 1, .is_long = true },
    { "a directory elsewhere", "is missing", .directory_begin = 1 },
    { "a directory outside", "outside", .directory_begin = 100000 },
    { "a directory of 2^63 bytes", "outside", .is_long = true, .directory_size = UINT64_C (1) << 63 },
    { "a directory at 2^63", "outside", .is_long = true, .directory_begin = UINT64_C (1) << 63 },
    { "a small directory", "cut off", .directory_size = 98 },
    { "the 64-bit end is missing", "no 64-bit end", .is_long = true, .end64_at = 1 },
    { "the 64-bit end is outside", "outside", .is_long = true, .end64_at = UINT64_MAX },
    { "the 64-bit end overlaps its locator", "64-bit end of the directory is outside", .is_long = true,
      .end64_later = 1 },
    { "an entry that is not counted", "bytes after the last entry", .count_more = UINT_MAX },
    { "no 64-bit sizes", "lacks its 64-bit sizes", .is_long = true, .no_extra = true },
    { "too few 64-bit sizes", "lacks its 64-bit sizes", .is_long = true, .short_extra = true },
    { "truncated by a byte", "no end of its directory", .cut = 1 },
    { "truncated in its comment", "no end of its directory", .cut = 1, .comment = "a comment" },
};

static void
write_file (const char *bytes, size_t length)
{
    FILE *file = fopen ("zip.bin", "w");
    if (!file || fwrite (bytes, 1, length, file) != length || fclose (file))
        abort ();
}

static bool
read_plan (const struct plan *plan, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct source source;
    struct zip zip = { 0 };
    uint64_t begin = put_archive (&out, plan);
    char text[64] = "";
    write_file (out.text, out.length);
    if (source_open (&source, "zip.bin", err))
        return false;
    bool good = !zip_read (&zip, &source, begin, out.length, err);
    for (int i = 0; good && i < 2; i++) {
        const struct zip_entry *entry = zip_find (&zip, i ? "a/two" : "a/one");
        good = entry && entry->size == strlen (contents[i]) && !zip_read_entry (entry, &source, text, err)
               && !memcmp (text, contents[i], entry->size);
    }
    zip_release (&zip);
    source_close (&source);
    return good;
}

static void
test_plans (void)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct accel_error err = { 0 };
        bool good = read_plan (&plans[i], &err);
        if (!ok (plans[i].wanted ? !good && strstr (err.text, plans[i].wanted) : good, "%s", plans[i].what))
            diag ("'%s', expected '%s'", err.text, plans[i].wanted ? plans[i].wanted : "success");
    }
}

/* Each byte of an archive damaged, and each length: no crash, and never other contents. */
static void
test_damage (void)
{
    for (int is_long = 0; is_long < 2; is_long++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        struct plan plan = { .is_long = is_long };
        put_archive (&out, &plan);
        int wrong = 0;
        for (size_t at = 0; at < 2 * out.length; at++) {
            struct source source;
            struct zip zip;
            char text[4096];
            bool cut = at >= out.length;
            if (!cut)
                out.text[at] ^= 0x41;
            write_file (out.text, cut ? at - out.length : out.length);
            if (!cut)
                out.text[at] ^= 0x41;
            if (source_open (&source, "zip.bin", NULL))
                continue;
            const struct zip_entry *one
                = zip_read (&zip, &source, 0, source.size, NULL) ? NULL : zip_find (&zip, "a/one");
            if (one && one->size < sizeof text && !zip_read_entry (one, &source, text, NULL))
                wrong += cut || one->size != strlen (contents[0]) || memcmp (text, contents[0], one->size) != 0;
            zip_release (&zip);
            source_close (&source);
        }
        ok (!wrong, "damaged archives%s: an error, or the entry as it was", is_long ? " with 64-bit sizes" : "");
    }
}

static void
test_crc (void)
{
    ok (crc32_add (0, "123456789", 9) == 0xcbf43926, "the check value of CRC-32");
    ok (crc32_add (crc32_add (0, "12345678901", 11), "2345678", 7) == crc32_add (0, "123456789012345678", 18),
        "in pieces");
}

int
main (void)
{
    scratch_enter ();
    test_plans ();
    test_damage ();
    test_crc ();
    return done_testing ();
}
