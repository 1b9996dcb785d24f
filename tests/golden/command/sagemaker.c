/* SPDX-License-Identifier: Apache-2.0 */
/* Training jobs as Hugging Face Accelerate and Amazon's Python library make them (sagemaker.json) against ours: the
 * request, the place of the archive, and the files in it.  Where we differ on purpose, sagemaker_differences.tsv has
 * the reason: CASES<tab>WHAT<tab>REASON, where WHAT is the path of a value in the request, "upload/NAME",
 * "fails" (we fail and the original does not) or "works" (the reverse). */
#include <config.h>

#include "config/load.h"
#include "sagemaker/source.h"
#include "sagemaker/training.h"
#include "tests/golden/command/differences.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WORDS = 60 };

#define ACCOUNT "111122223333"
#define NOW 1767323045 /* 2026-01-02 03:04:05 */

static const char *folder;
static json_t *tree;

struct check {
    const char *name;
    struct strbuf wrong; /* what differs without a reason */
};

static void
differ (struct check *check, const char *what, const char *ours, const char *theirs)
{
    if (!has_reason (check->name, what))
        strbuf_printf (&check->wrong, "%s  %s: ours is %.400s, theirs is %.400s", check->wrong.length ? "\n# " : "",
                       what, ours, theirs);
}

/* Path by path. */
static void
compare (struct check *check, const char *path, json_t *ours, json_t *theirs)
{
    const char *key;
    json_t *value;
    char below[300];
    if (json_is_object (ours) && json_is_object (theirs)) {
        json_object_foreach (ours, key, value) {
            snprintf (below, sizeof below, "%s%s%s", path, *path ? "/" : "", key);
            compare (check, below, value, json_object_get (theirs, key));
        }
        json_object_foreach (theirs, key, value) {
            snprintf (below, sizeof below, "%s%s%s", path, *path ? "/" : "", key);
            if (!json_object_get (ours, key))
                compare (check, below, NULL, value);
        }
        return;
    }
    if (ours && theirs && json_equal (ours, theirs))
        return;
    AUTO_FREE char *a = ours ? json_dumps (ours, JSON_ENCODE_ANY) : strdup ("missing");
    AUTO_FREE char *b = theirs ? json_dumps (theirs, JSON_ENCODE_ANY) : strdup ("missing");
    differ (check, path, a, b);
}

/* What we would upload, in the words of the golden data. */
static json_t *
upload_of (const struct training *training, const struct training_place *place, struct fail *fail)
{
    struct source source;
    if (!training->is_uploaded)
        return json_null ();
    if (source_find (&source, training, fail))
        return NULL;
    json_t *members = json_array ();
    for (size_t i = 0; i < source.count; i++)
        if (!source.files[i].is_folder)
            json_array_append_new (members, json_string (source.files[i].name));
    source_release (&source);
    return json_pack ("{s:s, s:s, s:o, s:{s:s, s:s*, s:s*}}", "bucket", place->bucket, "key", place->key, "members",
                      members, "extra", "ServerSideEncryption", "aws:kms", "ExpectedBucketOwner",
                      place->is_default ? ACCOUNT : (const char *) NULL, "SSEKMSKeyId", place->kms_key);
}

static int
make (struct config *config, json_t *words, json_t **request, json_t **upload, struct fail *fail)
{
    char *argv[MOST_WORDS + 1] = { (char *) "--config_file", (char *) "job.yaml" };
    int count = 2, result = -1;
    struct training training = { 0 };
    struct training_place place = { 0 };
    AUTO_STRBUF struct strbuf role = { 0 };
    for (size_t i = 0; i < json_array_size (words); i++)
        argv[count++] = (char *) json_string_value (json_array_get (words, i));
    if (config_load_launch (config, count, argv, fail)
        || training_make (&training, config, &(struct timespec){ NOW, 678000000 }, "", fail)
        || training_place (&training, ACCOUNT, &place, fail))
        goto done;
    const char *name = training_text (&training, "role");
    strbuf_printf (&role, "%s%s", strchr (name, '/') ? "" : "arn:aws:iam::" ACCOUNT ":role/", name);
    *request = training_request (&training, &place, role.text, fail);
    *upload = *request ? upload_of (&training, &place, fail) : NULL;
    result = *upload ? 0 : -1;
done:
    training_place_release (&place);
    training_release (&training);
    return result;
}

static int
remove_one (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info;
    (void) kind;
    return ftw->level ? remove (path) : 0;
}

static void
set_files (json_t *files)
{
    const char *name;
    json_t *text;
    struct fail fail = { 0 };
    json_object_foreach (files, name, text) {
        io_make_parents (name, &fail);
        if (io_write_file (name, json_string_value (text), json_string_length (text), 0644, &fail))
            diag ("%s", fail.text);
    }
}

static void
run_case (json_t *row)
{
    struct check check = { .name = json_string_value (json_object_get (row, "name")) };
    struct config config = { 0 };
    struct fail fail = { 0 };
    json_t *request = NULL, *upload = NULL;
    const char *error = json_string_value (json_object_get (row, "error"));
    nftw (folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    set_files (tree);
    set_files (json_object_get (row, "files"));
    json_t *own = json_pack ("{s:O}", "job.yaml", json_object_get (row, "config"));
    set_files (own);
    json_decref (own);
    bool failed = make (&config, json_object_get (row, "argv"), &request, &upload, &fail);
    if (failed && !error)
        differ (&check, "fails", fail.text, "a request");
    else if (!failed && error)
        differ (&check, "works", "a request", error);
    else if (!failed) {
        compare (&check, "", request, json_object_get (row, "request"));
        compare (&check, "upload", upload, json_object_get (row, "upload"));
    }
    ok (!check.wrong.length, "%s", check.name);
    if (check.wrong.length)
        diag ("%s", check.wrong.text);
    if (failed && error && getenv ("TEST_SHOW"))
        diag ("%s: %s (%s)", check.name, fail.text, error);
    strbuf_release (&check.wrong);
    json_decref (request);
    json_decref (upload);
    config_release (&config);
}

/* The first row, which has no name, is the files of all. */
static void
run_row (json_t *row)
{
    if (*json_string_value (json_object_get (row, "name"))) {
        run_case (row);
        return;
    }
    tree = json_incref (json_object_get (row, "files"));
    clearenv ();
}

int
main (int argc, char **argv)
{
    folder = scratch_folder ();
    int status = compare_goldens ("sagemaker.json", "sagemaker_differences.tsv", 0, argc > 1 ? argv[1] : NULL, run_row);
    json_decref (tree);
    return status;
}
