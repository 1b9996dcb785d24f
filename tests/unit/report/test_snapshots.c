/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of runs: which lines count, which of many histograms and images are kept, and what an image is. */
#include <config.h>

#include "report/metrics.h"
#include "report/png.h"
#include "report/snapshots.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/base64.h"
#include "util/io.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* RFC 4648, and bytes of all kinds. */
static const struct {
    const char *bytes, *text;
} codes[] = {
    { "", "" },         { "f", "Zg==" },        { "fo", "Zm8=" },           { "foo", "Zm9v" },
    { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\xff\xfe\xfb", "//77" },
};

static void
test_base64 (void)
{
    static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg===", "=Zg=", "Z===", "Zh==", "Zm9=", "Zm9v\n", "Zg==Zg==",
                                       "Zm9*", "Zm-_", "\xffmFy", "====" };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        AUTO_STRBUF struct strbuf text = { 0 }, bytes = { 0 };
        base64_add (&text, codes[i].bytes, strlen (codes[i].bytes));
        is_text (text.text ? text.text : "", codes[i].text, "base64");
        bool is_good = base64_decode (&bytes, codes[i].text, strlen (codes[i].text));
        ok (is_good && bytes.length == strlen (codes[i].bytes)
                && (!bytes.length || !memcmp (bytes.text, codes[i].bytes, bytes.length)), "and back");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        AUTO_STRBUF struct strbuf bytes = { 0 };
        ok (!base64_decode (&bytes, bad[i], strlen (bad[i])), "text %zu is not base64", i);
    }
}

/* Chunks without their checksums' meaning: those are the browser's. */
static const char image[] = "\x89PNG\r\n\x1a\n"
                            "\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x03\x08\0\0\0\0CRC_"
                            "\0\0\0\x02IDATxxCRC_"
                            "\0\0\0\0IENDCRC_";
enum { IMAGE = sizeof image - 1, AT_WIDTH = 19, AT_HEADER = 11, AT_NAME = 12, AT_DATA = 37 };

static bool
is_png (const char *bytes, size_t length)
{
    uint32_t width = 0, height = 0;
    AUTO_STRBUF struct strbuf text = { 0 };
    base64_add (&text, bytes, length);
    return png_is_valid (text.text ? text.text : "", text.length, &width, &height) && width && height;
}

/* The same image with so many pixels that it has @p length bytes. */
static bool
is_large_png (size_t length)
{
    uint32_t pixels = (uint32_t) (length - IMAGE + 2);
    char *bytes = calloc (1, length);
    memcpy (bytes, image, AT_DATA + 4);
    memcpy (bytes + length - 16, image + IMAGE - 16, 16);
    for (size_t i = 0; i < 4; i++)
        bytes[AT_DATA - 4 + i] = (char) (pixels >> (24 - 8 * i));
    bool is_good = is_png (bytes, length);
    free (bytes);
    return is_good;
}

static void
test_png (void)
{
    static const struct {
        size_t at;
        char value;
        const char *what;
    } damages[] = {
        { 0, 'P', "its signature" },           { AT_HEADER, 14, "its header's length" },
        { AT_NAME, 'i', "its header's name" }, { AT_WIDTH, 0, "a width of 0" },
        { AT_WIDTH - 2, 1, "a width of 65538" }, { AT_DATA, 'J', "no pixels" },
        { AT_DATA - 1, 3, "a longer chunk" },  { AT_DATA - 4, 127, "a very long chunk" },
        { IMAGE - 8, 'J', "no end" },
    };
    uint32_t width = 0, height = 0;
    AUTO_STRBUF struct strbuf text = { 0 };
    base64_add (&text, image, IMAGE);
    ok (png_is_valid (text.text, text.length, &width, &height) && width == 2 && height == 3, "an image of 2 x 3");
    size_t taken = 0;
    for (size_t length = 0; length < IMAGE; length++)
        taken += is_png (image, length);
    ok (taken == 0 && !is_png (image, sizeof image), "none that is shorter or longer");
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char copy[IMAGE];
        memcpy (copy, image, IMAGE);
        copy[damages[i].at] = damages[i].value;
        ok (!is_png (copy, IMAGE), "not with damage to it: %s", damages[i].what);
    }
    ok (is_large_png (4000000), "one of 4 MB, the largest that a tracker writes");
    ok (!is_large_png (PNG_BYTES + 3), "but not a larger one");
}

/* "+N" adds steps N times, each one higher; "-N" goes back to step N. */
static const struct {
    size_t kept;
    const char *added, *left;
} additions[] = {
    { 8, "+3", "0 1 2 | 3" },
    { 8, "+8", "0 1 2 3 4 5 6 7 | 8" },
    { 8, "+9", "0 2 4 6 8 | 9" },
    { 8, "+10", "0 2 4 6 8 9 | 10" },
    { 8, "+1000", "0 256 512 768 999 | 1000" },
    { 2, "+1000", "0 999 | 1000" },
    { 8, "+6 -3 +1", "0 1 2 3 | 4" },
    { 8, "+20 -0 +2", "0 1 | 2" },
    { 8, "+10 -9 +2", "0 2 4 6 8 10 | 11" },
    { 4, "+4 -0 +9 -0 +30", "0 16 29 | 30" },
};

static void
add_steps (struct snapshot_list *list, size_t kept, const char *text)
{
    int64_t step = 0;
    for (const char *at = text; *at; at += strcspn (at, " "), at += *at == ' ') {
        long number = strtol (at + 1, NULL, 10);
        if (*at == '-')
            step = number;
        for (long i = 0; *at == '+' && i < number; i++)
            snapshots_add (list, "key", kept, (struct snapshot){ .step = step++, .png = strdup ("12345678") });
    }
}

static void
test_snapshots (void)
{
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++) {
        struct snapshot_list list = { 0 };
        AUTO_STRBUF struct strbuf text = { 0 };
        add_steps (&list, additions[i].kept, additions[i].added);
        const struct snapshots *of = snapshots_find (&list, "key");
        for (size_t k = 0; k < of->count; k++)
            strbuf_printf (&text, "%" PRId64 " ", of->items[k].step);
        strbuf_printf (&text, "| %" PRIu64, of->seen);
        is_text (text.text, additions[i].left, additions[i].added);
        ok (of->count <= additions[i].kept && list.bytes == 8 * of->count && !list.left, "their bytes are counted");
        snapshots_release (&list);
    }
}

static void
test_limits (void)
{
    enum { LARGE = 1 << 20, COUNT = IMAGES_BYTES / LARGE };
    struct snapshot_list list = { 0 };
    char key[20];
    for (int i = 0; i < SNAPSHOT_KEYS + 3; i++) {
        snprintf (key, sizeof key, "key %d", i);
        snapshots_add (&list, key, 4, (struct snapshot){ .histogram = calloc (1, sizeof (struct histogram)) });
    }
    ok (list.count == SNAPSHOT_KEYS && list.left == 3, "only so many keys");
    snapshots_release (&list);
    for (int i = 0; i < COUNT + 2; i++) {
        char *png = malloc (LARGE + 1);
        memset (png, 'x', LARGE);
        png[LARGE] = '\0';
        snapshots_add (&list, "key", 1000, (struct snapshot){ .step = i, .png = png });
    }
    ok (list.bytes == IMAGES_BYTES && list.left == 2, "only so many bytes");
    snapshots_release (&list);
}

static void
test_lines (void)
{
    static const char text[] = "{\"step\": 1, \"values\": {\"loss\": 2}}\n\n{\"step\": 2, \"values\": {\"loss\": 1}}\n"
                               "{\"step\": 3, \"val\n";
    struct fail fail = { 0 };
    struct metrics metrics = { 0 };
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s/metrics.jsonl", scratch_folder ());
    ok (!io_write_file (path, text, strlen (text), 0600, &fail) && !metrics_read (&metrics, path, &fail), "a file");
    ok (metrics.count == 1, "its series");
    ok (metrics.skipped == 1 && metrics.first_skipped == 4, "a line that is cut off is skipped, and no other");
    metrics_release (&metrics);
}

int
main (void)
{
    test_lines ();
    test_base64 ();
    test_png ();
    test_snapshots ();
    test_limits ();
    return done_testing ();
}
