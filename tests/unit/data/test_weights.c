/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded sets of safetensors files: what an index may say, hostile sets, and sets that are replaced while they are
 * read. */
#include <config.h>

#include "files/safetensors_writer.h"
#include "files/weights.h"
#include "tests/unit/data/datasets.h"
#include "util/cleanup.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define MAP(pairs) "{\"weight_map\":{" pairs "}}"

static const struct {
    const char *text;
    const char *words; /* NULL: valid */
} indices[] = {
    { MAP (""), NULL },
    { MAP ("\"a\":\"x\""), NULL },
    { "{\"metadata\":{\"total_size\":12.5e3,\"x\":[null]},\"weight_map\":{\"b\":\"y\",\"a\":\"x\"},\"z\":1}\n", NULL },
    { MAP ("\"a\":\"...\",\"b\":\".x\",\"c\":\"\\u00e4\""), NULL },
    { "", "byte 0: unexpected end: expected '{'" },
    { "[]", "byte 0: expected '{'" },
    { "{}", "byte 2: missing weight_map" },
    { "{\"weight_map\":[]}", "expected '{' of weight_map" },
    { "{\"weight_map\":{},\"weight_map\":{}}", "duplicate weight_map" },
    { MAP ("\"a\":1"), "expected the name of a file" },
    { MAP ("\"a\":\"x\",\"a\":\"y\""), "duplicate tensor 'a'" },
    { MAP ("\"a\":\"\""), "'' is not the name of a file in the same directory" },
    { MAP ("\"a\":\".\""), "'.' is not the name" },
    { MAP ("\"a\":\"..\""), "'..' is not the name" },
    { MAP ("\"a\":\"../x\""), "'../x' is not the name" },
    { MAP ("\"a\":\"/etc/passwd\""), "'/etc/passwd' is not the name" },
    { MAP ("\"a\":\"b/x\""), "'b/x' is not the name" },
    { MAP ("\"a\":\"x\\u002f..\\u002fy\""), "'x/../y' is not the name" },
    { MAP ("\"a\":\"x\\u0000\""), "a NUL character" },
    { MAP ("\"a\":\"\xff\""), "byte 20: not valid UTF-8" },
    { MAP ("\"a\":\"x\",") , "',' before '}'" },
    { MAP ("") "{}", "text after the end" },
};

static void
test_indices (void)
{
    struct index index;
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
        enum accel_status status = index_parse (&index, indices[i].text, strlen (indices[i].text), &err);
        bool good = indices[i].words ? status == ACCEL_ERR_FORMAT && strstr (err.text, indices[i].words) : !status;
        if (!ok (good, "index %zu: %s", i + 1, indices[i].words ? indices[i].words : "valid"))
            diag ("%s", status ? err.text : "accepted");
        index_release (&index);
    }
    static const char text[] = MAP ("\"b\":\"y\",\"c\":\"x\",\"a\":\"y\"");
    bool good = !index_parse (&index, text, sizeof text - 1, &err) && index.count == 3 && index.file_count == 2;
    ok (good && !strcmp (index.files[0], "x") && !strcmp (index.files[1], "y") && !strcmp (index.entries[0].name, "a")
            && index.entries[0].file_number == 1 && index.entries[2].file_number == 0,
        "names and files are sorted");
    index_release (&index);
}

/* What Python's json.dumps (..., indent=2, sort_keys=True) and a newline make of it. */
static void
test_index_text (void)
{
    struct index_entry entries[] = { { (char *) "b\"\x7f\n", (char *) "y", 0 },
                                     { (char *) "\xc3\xa4\xf0\x9f\x98\x80", (char *) "x", 0 },
                                     { (char *) "a", (char *) "x", 0 } };
    AUTO_STRBUF struct strbuf text = { 0 };
    index_write (&text, entries, 3, 1234567890123);
    is_text (text.text,
             "{\n  \"metadata\": {\n    \"total_size\": 1234567890123\n  },\n  \"weight_map\": {\n"
             "    \"a\": \"x\",\n    \"b\\\"\\u007f\\n\": \"y\",\n    \"\\u00e4\\ud83d\\ude00\": \"x\"\n  }\n}\n",
             "the text of an index");
    struct index index;
    ok (!index_parse (&index, text.text, text.length, &err) && index.count == 3, "and it can be read");
    index_release (&index);
}

/* A file in the folder @folder of the scratch folder, with one tensor of 4 bytes. */
static const char *
make_file (const char *folder, const char *file, const char *tensor, unsigned value)
{
    static char path[SCRATCH_SIZE + 128];
    struct safetensors_writer *writer;
    struct safetensors_entry entry = { .name = tensor, .dtype = SAFETENSORS_U32 };
    struct safetensors_plan plan = { .entries = &entry, .count = 1 };
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), folder);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/%s/%s", scratch_folder (), folder, file);
    if (safetensors_writer_create (&writer, path, &plan, &err)
        || safetensors_writer_write (writer, 0, &value, sizeof value, &err)
        || safetensors_writer_commit (writer, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    safetensors_writer_destroy (writer);
    return path;
}

static const char *
make_index (const char *folder, const char *name, const char *text)
{
    char file[128];
    snprintf (file, sizeof file, "%s/%s", folder, name);
    return write_file (file, text, strlen (text));
}

static const char *
folder_path (const char *folder)
{
    static char path[SCRATCH_SIZE + 128];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), folder);
    return path;
}

static unsigned
value_of (const struct weights *weights, const char *name)
{
    unsigned value = 0;
    size_t index = weights_find (weights, name);
    return index == SIZE_MAX || weights_read (&weights->tensors[index], 0, &value, sizeof value, &err) ? 0 : value;
}

/* Whether the directory has tensors a and b with these values. */
static bool
has_values (const char *path, unsigned a, unsigned b)
{
    struct weights weights;
    bool good = !weights_open (&weights, path, false, &err);
    good = good && value_of (&weights, "a") == a && value_of (&weights, "b") == b;
    weights_close (&weights);
    return good;
}

static void
is_bad (const char *path, const char *words)
{
    struct weights weights;
    enum accel_status status = weights_open (&weights, path, false, &err);
    if (!ok (status && err.code == status && strstr (err.text, words) && !weights.files, "refused: %s", words))
        diag ("%s", status ? err.text : "accepted");
    weights_close (&weights);
}

static const char both[] = MAP ("\"a\":\"x\",\"b\":\"y\"");

static void
test_sets (void)
{
    char link[SCRATCH_SIZE + 64];
    make_file ("set", "x", "a", 1);
    make_file ("set", "y", "b", 2);
    ok (has_values (make_index ("set", "any.index.json", both), 1, 2), "a set by its index");
    ok (has_values (folder_path ("set"), 1, 2), "by its directory");
    make_index ("set", "other.index.json", both);
    is_bad (folder_path ("set"), "has more than one index: ");
    make_file ("set", "model.safetensors", "a", 3);
    ok (has_values (folder_path ("set"), 3, 0), "model.safetensors comes before an index");
    ok (has_values (make_file ("set", "model.safetensors", "a", 4), 4, 0), "one file");
    is_bad (make_index ("set", "c.json", MAP ("\"a\":\"x\",\"c\":\"y\"")), "c.json: tensor 'c' is not in y");
    is_bad (make_index ("set", "d.json", MAP ("\"a\":\"x\",\"b\":\"z\"")), "set/z: No such file");
    is_bad (make_index ("set", "e.json", MAP ("\"a\":\"x\",\"b\":\"..\"")), "e.json: byte 31: tensor 'b': '..' is not");
    make_file ("set", "w", "a", 5);
    is_bad (make_index ("set", "f.json", MAP ("\"b\":\"y\",\"a\":\"x\"") " x"), "f.json: byte");
    make_file ("both", "x", "a", 1);
    make_file ("both", "y", "a", 1);
    is_bad (make_index ("both", "g.json", MAP ("\"a\":\"x\",\"b\":\"y\"")), "tensor 'b' is not in y");
    struct safetensors_entry entries[] = { { .name = "a", .dtype = SAFETENSORS_U8 },
                                           { .name = "b", .dtype = SAFETENSORS_U8 } };
    struct safetensors_writer *writer;
    snprintf (link, sizeof link, "%s/both/y", scratch_folder ());
    if (!safetensors_writer_create (&writer, link, &(struct safetensors_plan){ .entries = entries, .count = 2 }, &err)
        && !safetensors_writer_write (writer, 0, "1", 1, &err) && !safetensors_writer_write (writer, 1, "2", 1, &err)
        && safetensors_writer_commit (writer, &err))
        diag ("%s", err.text);
    safetensors_writer_destroy (writer);
    is_bad (make_index ("both", "g.json", both), "duplicate tensor 'a', also in ");
    mkdir (folder_path ("empty"), 0700);
    is_bad (folder_path ("empty"), "has neither model.safetensors nor an index");
    is_bad (folder_path ("nowhere"), "nowhere: No such file");
    is_bad ("nowhere/x.json", "nowhere/x.json: No such file");
    is_bad ("", "path is NULL or empty");
}

static void
test_hostile (void)
{
    struct weights weights;
    char path[SCRATCH_SIZE + 64];
    make_file ("outside", "x", "a", 1);
    make_file ("hostile", "y", "b", 2);
    snprintf (path, sizeof path, "%s/hostile/x", scratch_folder ());
    const char *index = make_index ("hostile", "model.safetensors.index.json", both);
    bool good = !symlink ("../outside/x", path);
    ok (good, "a link");
    is_bad (index, "hostile/x: is a symbolic link, which may lead out of its directory");
    is_bad (folder_path ("hostile"), "hostile/x: is a symbolic link");
    ok (!weights_open (&weights, index, true, &err) && value_of (&weights, "a") == 1, "links can be allowed");
    weights_close (&weights);
    unlink (path);
    good = !mkdir (path, 0700);
    ok (good, "a directory");
    is_bad (index, "hostile/x: is not a regular file");
    rmdir (path);
    good = !mkfifo (path, 0600);
    ok (good, "a pipe");
    is_bad (index, "hostile/x: is not a regular file");
    unlink (path);
    is_bad (index, "hostile/x: No such file");
    write_file ("hostile/x", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    is_bad (index, "its header would have 9223372036854775807 bytes");
    ok (!weights_open (&weights, make_file ("hostile", "x", "a", 1), false, &err) && !truncate (path, 20)
            && weights_read (&weights.tensors[0], 0, &(unsigned){ 0 }, 4, &err) == ACCEL_ERR_FORMAT
            && strstr (err.text, "has only 20 bytes now"),
        "a file that is truncated while it is read");
    weights_close (&weights);
}

/* ---- a set that is replaced ---- */

static void
move (const char *folder, const char *from, const char *to)
{
    char a[SCRATCH_SIZE + 128], b[SCRATCH_SIZE + 128];
    snprintf (a, sizeof a, "%s/%s/%s", scratch_folder (), folder, from);
    snprintf (b, sizeof b, "%s/%s/%s", scratch_folder (), folder, to);
    if (to ? rename (a, b) : unlink (a))
        diag ("%s: not moved", a);
}

static void
test_journal (void)
{
    const char *set = "replaced", *path;
    make_file (set, "x", "a", 1);
    make_file (set, "y", "b", 1);
    make_index (set, "model.safetensors.index.json", both);
    make_file (set, ".x.new", "a", 2);
    make_file (set, ".y.new", "b", 2);
    path = folder_path (set);
    ok (has_values (path, 1, 1), "new files do not count before the new index");
    make_index (set, ".model.safetensors.index.json.new", both);
    ok (has_values (path, 2, 2), "from the new index on, they do");
    move (set, "model.safetensors.index.json", NULL);
    ok (has_values (path, 2, 2), "also without the former index");
    move (set, ".x.new", "x");
    ok (has_values (path, 2, 2), "and when one has got its name");
    make_file (set, "model.safetensors", "a", 9);
    ok (has_values (path, 2, 2), "a former model.safetensors does not count then");
    move (set, "model.safetensors", NULL);
    move (set, ".y.new", "y");
    move (set, ".model.safetensors.index.json.new", "model.safetensors.index.json");
    ok (has_values (path, 2, 2), "all have their names");
}

static const char *save_at; /* opening this file, a reader is overtaken by two saves */

int __real_openat (int folder, const char *name, int flags, ...);
int __wrap_openat (int folder, const char *name, int flags, ...);
int
__wrap_openat (int folder, const char *name, int flags, ...)
{
    if (save_at && !strcmp (name, save_at)) {
        save_at = NULL;
        move ("overtaken", ".x.new", "x");
        move ("overtaken", ".y.new", "y");
        move ("overtaken", ".model.safetensors.index.json.new", "model.safetensors.index.json");
        make_file ("overtaken", ".y.new", "b", 3);
    }
    va_list rest;
    va_start (rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg (rest, mode_t) : 0;
    va_end (rest);
    return __real_openat (folder, name, flags, mode);
}

/* The reader has the index and the first file of a save that ends then; the other file is of the next save. */
static void
test_overtaken (void)
{
    make_file ("overtaken", "x", "a", 1);
    make_file ("overtaken", "y", "b", 1);
    make_file ("overtaken", ".x.new", "a", 2);
    make_file ("overtaken", ".y.new", "b", 2);
    make_index ("overtaken", ".model.safetensors.index.json.new", both);
    save_at = ".y.new";
    ok (has_values (folder_path ("overtaken"), 2, 2) && !save_at, "a reader that is overtaken by a save begins anew");
}

static atomic_bool stop_replacing;

/* As a save does, but without the waits for the disk. */
static void *
replace_again_and_again (void *unused)
{
    (void) unused;
    for (unsigned i = 2; !atomic_load (&stop_replacing); i++) {
        make_file ("busy", ".x.new", "a", i);
        make_file ("busy", ".y.new", "b", i);
        make_index ("busy", "complete", both);
        move ("busy", "complete", ".model.safetensors.index.json.new");
        move ("busy", "model.safetensors.index.json", NULL);
        move ("busy", ".x.new", "x");
        move ("busy", ".y.new", "y");
        move ("busy", ".model.safetensors.index.json.new", "model.safetensors.index.json");
    }
    return NULL;
}

static void
test_busy (void)
{
    pthread_t thread;
    size_t mixed = 0, failed = 0, changes = 0;
    unsigned last = 0;
    char path[SCRATCH_SIZE + 64];
    snprintf (path, sizeof path, "%s/busy", scratch_folder ());
    make_file ("busy", "x", "a", 1);
    make_file ("busy", "y", "b", 1);
    make_index ("busy", "model.safetensors.index.json", both);
    if (pthread_create (&thread, NULL, replace_again_and_again, NULL))
        return;
    for (int i = 0; i < 3000 || (changes < 3 && i < 100000); i++) {
        struct weights weights;
        struct accel_error why;
        enum accel_status status = weights_open (&weights, path, false, &why);
        unsigned a = status ? 0 : value_of (&weights, "a"), b = status ? 0 : value_of (&weights, "b");
        failed += status != ACCEL_OK;
        mixed += a != b;
        changes += a != last;
        last = a;
        if (status && failed == 1)
            diag ("%s", why.text);
        weights_close (&weights);
    }
    atomic_store (&stop_replacing, true);
    pthread_join (thread, NULL);
    ok (!failed && !mixed && changes > 2, "read while it is replaced: never a mixture (%zu failures, %zu mixtures)",
        failed, mixed);
}

int
main (void)
{
    test_indices ();
    test_index_text ();
    test_sets ();
    test_hostile ();
    test_journal ();
    test_overtaken ();
    test_busy ();
    return done_testing ();
}
