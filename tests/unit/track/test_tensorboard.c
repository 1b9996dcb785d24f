/* SPDX-License-Identifier: Apache-2.0 */
/* Event files, compared with what TensorBoard's own writer makes of the same values: tests/golden/tracker.txt. */
#include <config.h>

#include "lib/track/crc32c.h"
#include "lib/track/kinds.h"
#include "tests/golden/golden.h"
#include "tests/unit/track/tracked.h"

#include <dirent.h>
#include <math.h>

enum { GOLDENS = 8, FIRST_PARAMETER = 4, IMAGE_FILE = 7, HEAD = 12, CRC = 4, MOST = 1 << 16 };

static unsigned char golden[GOLDENS][MOST];
static size_t golden_bytes[GOLDENS];

static void
read_goldens (void)
{
    struct golden lines;
    int line = 0;
    for (golden_find (&lines, "tracker.txt"); golden_next (&lines);) {
        const char *digits = golden_word (&lines);
        for (size_t at = 0; digits[2 * at]; golden_bytes[line] = ++at) {
            char pair[] = { digits[2 * at], digits[2 * at + 1], '\0' };
            golden[line][at] = (unsigned char) strtoul (pair, NULL, 16);
        }
        line++;
    }
}

/* The bytes of the newest event file in a folder of the scratch folder. */
static size_t
read_events (const char *folder, char *bytes, size_t room)
{
    char path[SCRATCH_SIZE + 600], newest[260] = "";
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), folder);
    DIR *dir = opendir (path);
    for (struct dirent *entry; dir && (entry = readdir (dir));) {
        const char *old = strrchr (newest, '.'), *new = strrchr (entry->d_name, '.');
        if (!strncmp (entry->d_name, "events.out.tfevents.", 20) && (!old || atoi (new + 1) > atoi (old + 1)))
            snprintf (newest, sizeof newest, "%s", entry->d_name);
    }
    if (dir)
        closedir (dir);
    snprintf (path, sizeof path, "%s/%s/%s", scratch_folder (), folder, newest);
    return scratch_read (path, bytes, room);
}

static struct accel_tracker_calls
start (const char *project)
{
    struct accel_tracker_calls calls = { 0 };
    const struct accel_tracker_run run = { .project_name = project, .logging_dir = scratch_folder () };
    must (tracker_tensorboard.create (&calls, &err));
    must (calls.start (calls.user, &run, &err));
    return calls;
}

static void
test_checksum (void)
{
    ok (crc32c ("123456789", 9) == 0xe3069283, "the check value of CRC-32C");
    ok (crc32c ("", 0) == 0, "of nothing");
    unsigned char zeros[32] = { 0 }, ones[32];
    memset (ones, 255, sizeof ones);
    ok (crc32c (zeros, 32) == 0x8a9136aa && crc32c (ones, 32) == 0x62a8ab43, "the examples of RFC 3720");
}

static void
test_records (void)
{
    static char bytes[MOST];
    char key[151];
    memset (key, 'x', 150);
    key[150] = '\0';
    float samples[] = { -32, 32, 0, 0, INFINITY };
    struct accel_value first[] = { { .key = "train/loss", .number = 0.25 }, { .key = "zero" } };
    struct accel_value second[] = {
        { .key = "note", .kind = ACCEL_TEXT, .text = "hello" },
        { .key = "picture", .kind = ACCEL_IMAGE, .width = 1, .height = 2, .channels = 3, .data = "abcdef" },
        { .key = "weights", .kind = ACCEL_HISTOGRAM, .data = samples, .count = 5 },
    };
    struct accel_tracker_calls calls = start ("records");
    must (calls.log (calls.user, first, 2, 0, 1764345600.25, &err));
    must (calls.log (calls.user, second, 3, 300, 1764345601.5, &err));
    must (calls.log (calls.user, &(struct accel_value){ .key = key, .number = INFINITY }, 1, (INT64_C (1) << 62) - 1,
                     1764345602, &err));
    must (calls.flush (calls.user, &err));
    calls.finish (calls.user);
    size_t length = read_events ("records", bytes, sizeof bytes), at = HEAD + (unsigned char) bytes[0] + CRC;
    ok (length > at && !memcmp (bytes + at - CRC - 15, "\x1a\x0d" "brain.Event:2", 15),
        "the first record: the version");
    static const char *const names[] = { "numbers", "a text, an image and a histogram", "a long key and a large step" };
    for (int i = 0; i < 3; i++) {
        ok (at + golden_bytes[i] <= length && !memcmp (bytes + at, golden[i], golden_bytes[i]), "%s", names[i]);
        at += golden_bytes[i];
    }
    ok (at == length, "nothing else");
}

/* The next run begins with a record that makes TensorBoard forget what comes from this step on. */
static void
test_continued (void)
{
    static char bytes[MOST];
    struct accel_tracker_calls calls = start ("records");
    must (calls.log (calls.user, &(struct accel_value){ .key = "x" }, 1, 7, 1764345603, &err));
    must (calls.log (calls.user, &(struct accel_value){ .key = "x" }, 1, 8, 1764345603, &err));
    must (calls.flush (calls.user, &err));
    calls.finish (calls.user);
    size_t length = read_events ("records", bytes, sizeof bytes), at = HEAD + (unsigned char) bytes[0] + CRC;
    ok (length > at + golden_bytes[3] && !memcmp (bytes + at, golden[3], golden_bytes[3])
            && !memmem (bytes + at + 1, length - at - 1, golden[3], 8),
        "a run that continues has one such record, with its step");
}

/* Width and height are read from the file, which is kept as it is. */
static void
test_image_file (void)
{
    static const unsigned char file[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00,
        0x00, 0x05, 0x00, 0x00, 0x00, 0x03, 0x08, 0x02, 0x00, 0x00, 0x00, 0xd4, 0x54, 0x52, 0xaf, 0x00, 0x00, 0x00,
        0x18, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x64, 0x60, 0xf8, 0x6f, 0xc4, 0x70, 0x03, 0x8e, 0x58, 0x18,
        0xa2, 0x18, 0x90, 0x01, 0x3a, 0x1f, 0x00, 0xda, 0xd7, 0x05, 0xe5, 0xfb, 0x3f, 0x8c, 0x43, 0x00, 0x00, 0x00,
        0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
    };
    static char bytes[MOST];
    struct accel_value value = { .key = "file", .kind = ACCEL_IMAGE, .data = file, .count = sizeof file };
    struct accel_tracker_calls calls = start ("files");
    must (calls.log (calls.user, &value, 1, 9, 1764345605, &err));
    must (calls.flush (calls.user, &err));
    calls.finish (calls.user);
    size_t length = read_events ("files", bytes, sizeof bytes), size = golden_bytes[IMAGE_FILE];
    ok (length > size && !memcmp (bytes + length - size, golden[IMAGE_FILE], size), "a file in PNG");
}

static void
test_config (void)
{
    static char bytes[MOST];
    struct accel_value config[] = {
        { .key = "lr", .number = 0.001 }, { .key = "zero" }, { .key = "model", .kind = ACCEL_TEXT, .text = "mlp" },
        { .key = "tiny", .number = 1e-5 }, { .key = "odd", .kind = ACCEL_TEXT, .text = "a: \"b\"" },
        { .key = "no", .kind = ACCEL_TEXT, .text = "Yes" }, { .key = "all", .number = INFINITY },
    };
    struct accel_tracker_calls calls = start ("config");
    must (calls.store_init_configuration (calls.user, config, sizeof config / sizeof *config, &err));
    must (calls.flush (calls.user, &err));
    calls.finish (calls.user);
    size_t length = read_events ("config", bytes, sizeof bytes);
    for (int i = FIRST_PARAMETER; i < IMAGE_FILE; i++)
        ok (memmem (bytes, length, golden[i], golden_bytes[i]) != NULL, "hyper-parameter %d of the page HParams",
            i - FIRST_PARAMETER);
    char path[SCRATCH_SIZE + 600];
    snprintf (path, sizeof path, "%s/config", scratch_folder ());
    DIR *dir = opendir (path);
    for (struct dirent *entry; dir && (entry = readdir (dir));)
        if (*entry->d_name >= '0' && *entry->d_name <= '9')
            snprintf (path, sizeof path, "config/%s/hparams.yml", entry->d_name);
    closedir (dir);
    is_text (content (path),
             "lr: 0.001\nzero: 0\nmodel: mlp\ntiny: 1.0e-05\nodd: \"a: \\\"b\\\"\"\n\"no\": \"Yes\"\nall: .inf\n",
             "hparams.yml");
}

int
main (void)
{
    read_goldens ();
    test_checksum ();
    test_records ();
    test_continued ();
    test_image_file ();
    test_config ();
    return done_testing ();
}
