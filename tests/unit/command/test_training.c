/* SPDX-License-Identifier: Apache-2.0 */
/* Training jobs on SageMaker, from settings to the archive: lack of memory, values that are not UTF-8, Amazon's limits,
 * and source code that changes, or cannot be written, while it is packed. Lack of memory between calls of Amazon's
 * services. */
#include <config.h>

#include "config/load.h"
#include "sagemaker/pack.h"
#include "sagemaker/python_json.h"
#include "sagemaker/role.h"
#include "sagemaker/streams.h"
#include "tests/balance.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define COMMON                                                                                               \
    "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: ml.p3.2xlarge\n"      \
    "iam_role_name: r\nregion: us-east-1\n"

#define FROM_S3                                                                                              \
    "additional_args:\n  source_dir: s3://b/code.tar.gz\n  output_path: s3://o/p\n  dependencies: [lib]\n"   \
    "  tags:\n    - {Key: a, Value: b}\n"

/* @param more  lines of the configuration file after the common ones */
static void
load (struct config *config, const char *more)
{
    static char *words[] = { (char *) "--config_file", (char *) "job.yaml", (char *) "job/train.py", (char *) "--lr",
                             (char *) "1e-3", (char *) "--name=x y", NULL };
    struct fail fail = { 0 };
    struct strbuf text = { 0 };
    strbuf_printf (&text, COMMON "%s", more);
    scratch_write ("job.yaml", text.text);
    strbuf_release (&text);
    if (config_load_launch (config, 6, words, &fail)) {
        diag ("%s", fail.text);
        exit (99);
    }
}

/* The allocators of these are the C library's own, and their results are freed elsewhere. */
int __real_scandir (const char *folder, struct dirent ***entries, int (*take) (const struct dirent *),
                    int (*compare) (const struct dirent **, const struct dirent **));
int __wrap_scandir (const char *folder, struct dirent ***entries, int (*take) (const struct dirent *),
                    int (*compare) (const struct dirent **, const struct dirent **));
int
__wrap_scandir (const char *folder, struct dirent ***entries, int (*take) (const struct dirent *),
                int (*compare) (const struct dirent **, const struct dirent **))
{
    if (fails_now ()) {
        errno = ENOMEM;
        return -1;
    }
    int count = __real_scandir (folder, entries, take, compare);
    blocks += count < 0 ? 0 : count + !!*entries;
    return count;
}

int __real_vasprintf (char **made, const char *format, va_list args);
int __wrap_vasprintf (char **made, const char *format, va_list args);
int
__wrap_vasprintf (char **made, const char *format, va_list args)
{
    int length = fails_now () ? -1 : __real_vasprintf (made, format, args);
    blocks += length >= 0;
    return length;
}

char *__real_realpath (const char *path, char *place);
char *__wrap_realpath (const char *path, char *place);
char *
__wrap_realpath (const char *path, char *place)
{
    return counted (__real_realpath (path, place), place);
}

/* All that is made of settings before anything is sent. @return as JSON, with the names of files */
static char *
make (const struct config *config, struct fail *fail)
{
    struct training training = { 0 };
    struct training_place place = { 0 };
    struct source source = { 0 };
    struct strbuf all = { 0 };
    json_t *request = NULL;
    char *text = NULL;
    if (!training_make (&training, config, &(struct timespec){ 1767323045, 0 }, "", fail)
        && !source_find (&source, &training, fail) && !training_place (&training, "111122223333", &place, fail))
        request = training_request (&training, &place, "arn:x", fail);
    if (request) {
        long left = calls_left;
        calls_left = -1; /* what follows is the test's own */
        for (size_t i = 0; i < source.count; i++)
            strbuf_printf (&all, "%s %d\n", source.files[i].name, source.files[i].is_folder);
        text = json_dumps (request, JSON_SORT_KEYS);
        strbuf_printf (&all, "%s %s %s %s %s", text, place.output, place.key ? place.key : "-",
                       place.kms_key ? place.kms_key : "-", place.needed ? place.needed : "-");
        free (text);
        text = strbuf_take (&all);
        calls_left = left;
    }
    json_decref (request);
    training_place_release (&place);
    source_release (&source);
    training_release (&training);
    return text;
}

/* ---- memory ---- */

static const struct {
    const char *name, *more;
    const char *text; /* of its failure; NULL: it succeeds */
} jobs[] = {
    { "a plain job", "", NULL },
    { "a job with all",
      "sagemaker_inputs_file: inputs.tsv\nsagemaker_metrics_file: metrics.tsv\nadditional_args:\n"
      "  hyperparameters: {a: [1, b, {c: 2.5}], d: null, e: true}\n  tags: {t: v, n: 7}\n  subnets: [s]\n"
      "  security_group_ids: [g]\n  environment: {a: b}\n  dependencies: [lib, more.py]\n  output_kms_key: k\n"
      "  model_uri: s3://b/m\n  max_wait: 90000\n  checkpoint_s3_uri: s3://b/c\n  enable_remote_debug: true\n"
      "  training_repository_access_mode: Vpc\n  training_repository_credentials_provider_arn: arn:y\n", NULL },
    { "a job from S3", FROM_S3, NULL },
    { "a job with MPI", "additional_args:\n  image_uri: i\n"
                        "  distribution: {mpi: {enabled: true, processes_per_host: 2}}\n"
                        "  code_location: s3://c/d\n  disable_output_compression: true\n", NULL },
    { "a key of another name", "additional_args:\n  base_jobname: x\n",
      "job.yaml:6: additional_args: unknown key 'base_jobname' (did you mean 'base_job_name'?)" },
    { "a number for a text", "additional_args:\n  environment: {a: 1}\n",
      "job.yaml:6: additional_args: environment: a: expected a string; put it in quotes" },
    { "a table with one column", "sagemaker_inputs_file: one.tsv\n",
      "sagemaker_inputs_file: one.tsv:2: expected two columns with a tab between them" },
    { "a version that there is not", "transformers_version: 4.17.0\npytorch_version: 1.9.1\n",
      "there is no standard image of transformers 4.17.0 with PyTorch 1.9.1 and py38; set image_uri, or choose: "
      "4.17.0 with PyTorch 1.10.2 and py38" },
};

/* Let each allocation of @call fail once: it fails with that reason, or does its work all the same, and leaves
 * no block. */
static void
each_allocation (char *(*call) (const struct config *config, struct fail *fail), const struct config *config,
                 const char *name, const char *text)
{
    struct fail fail = { 0 };
    long before = blocks, calls = 0, told = 0;
    bool was_met = true, good = true;
    char *whole = call (config, &fail);
    ok (!whole == !!text, "%s", name);
    is_text (fail.text, text ? text : "", "and what it says");
    for (; was_met; calls++) {
        fail = (struct fail){ 0 };
        calls_left = calls;
        char *now = call (config, &fail);
        was_met = calls_left < 0;
        calls_left = -1;
        bool is_told = !now && fail.status == FAIL_GENERAL
                       && (strstr (fail.text, "out of memory") || strstr (fail.text, "annot allocate memory"));
        bool is_same = now && whole ? !strcmp (now, whole) : !now && !whole && !strcmp (fail.text, text);
        if (!is_told && !is_same)
            diag ("allocation %ld: status %d: %s: %s", calls, fail.status, fail.text, now ? now : "");
        good = good && (is_told || is_same);
        told += is_told;
        free (now);
    }
    free (whole);
    ok (good && told > 5 && blocks == before, "if one of %ld allocations fails, it is an error; %ld blocks are left",
        calls - 1, blocks - before);
}

static void
test_memory (size_t index)
{
    struct config config = { 0 };
    load (&config, jobs[index].more);
    each_allocation (make, &config, jobs[index].name, jobs[index].text);
    config_release (&config);
}

/* ---- calls of Amazon's services ---- */

static struct strbuf requests; /* the calls since the last one of take_requests(), a line for each */

static char *
take_requests (int result)
{
    char *text = strbuf_take (&requests);
    if (!result)
        return text;
    free (text);
    return NULL;
}

/* Two pages of streams, and a page of lines of each; then its token stays the same. */
int __wrap_aws_json_call (struct aws *aws, enum aws_service service, const char *action, const json_t *request,
                          json_t **reply, struct aws_error *error, struct fail *fail);
int
__wrap_aws_json_call (struct aws *aws, enum aws_service service, const char *action, const json_t *request,
                      json_t **reply, struct aws_error *error, struct fail *fail)
{
    (void) aws, (void) fail;
    long left = calls_left;
    calls_left = -1; /* this is the test's own */
    const char *token = json_string_value (json_object_get (request, "nextToken"));
    const char *name = json_string_value (json_object_get (request, "logStreamName"));
    char *text = json_dumps (request, JSON_SORT_KEYS | JSON_COMPACT);
    strbuf_printf (&requests, "%d %s %s\n", (int) service, action, text);
    free (text);
    *error = (struct aws_error){ .status = 200 };
    if (!strcmp (action, "DescribeLogStreams"))
        *reply = json_pack ("{s:[{s:s}, {s:s}], s:s*}", "logStreams", "logStreamName",
                            token ? "j/algo-3-1700000000" : "j/algo-1-1700000000", "logStreamName",
                            "j/algo-2-1700000000", "nextToken", token ? NULL : "page2");
    else
        *reply = json_pack ("{s:[{s:s, s:i}], s:s}", "events", "message", token ? "not ok - twice" : "# a line",
                            "timestamp", name[7], "nextForwardToken", "f/1");
    calls_left = left;
    return 0;
}

static char *
follow (const struct config *config, struct fail *fail)
{
    const struct training training = { .name = (char *) "j" };
    struct session session = { .training = &training, .signal_fd = -1 };
    struct streams streams = { .machines = 3 };
    struct aws_error error = { 0 };
    (void) config;
    int result = streams_read (&streams, &session, &error, fail);
    if (!result && streams.count != 3)
        result = fail_set (fail, FAIL_GENERAL, "%zu streams", streams.count);
    streams_release (&streams);
    return take_requests (result);
}

int __wrap_aws_query_call (struct aws *aws, enum aws_service service, const char *action,
                           const char *const (*parameters)[2], size_t count, struct aws_xml **reply,
                           struct aws_error *error, struct fail *fail);
int
__wrap_aws_query_call (struct aws *aws, enum aws_service service, const char *action,
                       const char *const (*parameters)[2], size_t count, struct aws_xml **reply,
                       struct aws_error *error, struct fail *fail)
{
    (void) aws, (void) reply, (void) error;
    long left = calls_left;
    calls_left = -1;
    strbuf_printf (&requests, "%d %s", (int) service, action);
    for (size_t i = 0; i < count; i++)
        strbuf_printf (&requests, " %s=%s", parameters[i][0], parameters[i][1]);
    strbuf_add_char (&requests, '\n');
    json_t *document = json_loads (parameters[count - 1][1], 0, NULL);
    json_decref (document);
    calls_left = left;
    /* Amazon refuses what jansson's json_dumps() leaves of a document if it has no memory. */
    return document ? 0 : fail_set (fail, FAIL_GENERAL, "not a document: out of memory");
}

static char *
create_role (const struct config *config, struct fail *fail)
{
    bool is_new;
    (void) config;
    int result = role_create ("r", NULL, "us-east-1", &is_new, fail);
    return take_requests (result || !is_new);
}

/* ---- refusals ---- */

/* A folder or script that was there when the settings were read. */
static void
test_gone (void)
{
    static const struct { const char *source, *entry, *text; } rows[] = {
        { "gone", "x.py", "gone: cannot read: No such file or directory" },
        { "more.py", "x.py", "source_dir: more.py is not a folder" },
        { NULL, "gone/x.py", "gone/x.py: cannot read: No such file or directory" },
        { NULL, "job/..", "additional_args: dependencies: 'job/..' has no name" },
        { NULL, "/", "additional_args: dependencies: '/' has no name" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct training training = { .source = (char *) rows[i].source, .entry = (char *) rows[i].entry,
                                           .is_uploaded = true };
        struct source source;
        struct fail fail = { 0 };
        ok (source_find (&source, &training, &fail) == -1 && !source.count, "a missing source %zu", i);
        is_text (fail.text, rows[i].text, "for that reason");
    }
}

/* What the user reads: rules hold below the folder of their file; five names are shown of each kind. */
static void
test_notes (void)
{
    const struct training training = { .source = (char *) "named", .entry = (char *) "x.py", .is_uploaded = true };
    struct source source;
    struct strbuf notes = { 0 }, wanted = { 0 };
    struct fail fail = { 0 };
    if (mkdir ("named", 0777) || mkdir ("named/.git", 0777) || mkdir ("named/sub", 0777)
        || mkfifo ("named/pipe", 0666) || mkdir ("named/sub/low", 0777) || symlink ("../lib", "named/out")
        || symlink ("sub", "named/in"))
        exit (99);
    scratch_write ("named/.gitignore", "*.log\n");
    scratch_write ("named/sub/.gitignore", "*.tmp\n!b.log\n");
    for (const char *c = "ab"; *c; c++) {
        char path[40];
        static const char *const folders[] = { "", "sub/", "sub/low/" };
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
            snprintf (path, sizeof path, "named/%s%c.log", folders[i], *c);
            scratch_write (path, "x");
            snprintf (path, sizeof path, "named/%s%c.tmp", folders[i], *c);
            scratch_write (path, "x");
        }
    }
    ok (!source_find (&source, &training, &fail) && source.count == 25, "%zu files", source.count);
    source_add_notes (&source, &notes);
    strbuf_printf (&wanted,
                   "accelerate: note: uploaded although .gitignore names it, or git itself uses it: .git/, a.log, "
                   "b.log, in/a.log, in/a.tmp, and 10 more\n"
                   "accelerate: note: uploaded through a link that leads out of the folder: out -> %s/lib\n"
                   "accelerate: note: not uploaded, because it is neither a file nor a folder: pipe\n",
                   scratch_folder ());
    is_text (notes.text, wanted.text, "what is worth a note");
    strbuf_release (&notes);
    strbuf_release (&wanted);
    source_release (&source);
}

/* Words as Python reads them, and the first and last characters of each length. */
static void
test_words (void)
{
    static const struct { const char *word, *json; } rows[] = {
        { "\x7f", "\"\\u007f\"" }, { "\xc2\x80", "\"\\u0080\"" }, { "\xdf\xbf", "\"\\u07ff\"" },
        { "\xe0\xa0\x80", "\"\\u0800\"" }, { "\xef\xbf\xbf", "\"\\uffff\"" },
        { "\xf0\x90\x80\x80", "\"\\ud800\\udc00\"" }, { "\xf4\x8f\xbf\xbf", "\"\\udbff\\udfff\"" },
        { "~ \x1f\t\n\r\b\f\\\"", "\"~ \\u001f\\t\\n\\r\\b\\f\\\\\\\"\"" },
        { "7", "7" }, { "7.0", "7" }, { "-0.0", "0" }, { " 7\t", "7" }, { "1_000", "1000" }, { "1e3", "1000" },
        { "0.5", "0.5" }, { "_1", "\"_1\"" }, { "1_", "\"1_\"" }, { "1__0", "\"1__0\"" }, { "1 2", "\"1 2\"" },
        { "0x10", "\"0x10\"" }, { "0X10", "\"0X10\"" }, { "nan(1)", "\"nan(1)\"" }, { "", "\"\"" }, { " ", "\" \"" },
        { "inf", "Infinity" }, { "-Infinity", "-Infinity" }, { "NaN", "NaN" }, { "True", "true" }, { "False", "false" },
        { "true", "\"true\"" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct strbuf out = { 0 };
        struct fail fail = { 0 };
        ok (!python_json_of_word (&out, rows[i].word, &fail), "word %zu is read", i);
        is_text (out.text, rows[i].json, "as Python does");
        strbuf_release (&out);
    }
}

static void
test_encoding (void)
{
    struct config config = { 0 };
    struct settings *settings = &config.settings;
    char **const texts[] = { &settings->image_uri, &settings->iam_role_name, &settings->transformers_version,
                             &settings->pytorch_version, &settings->py_version, &settings->base_job_name,
                             &settings->ec2_instance_type };
    load (&config, "");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct fail fail = { 0 };
        char *good = *texts[i];
        *texts[i] = (char[]){ "b\xff" };
        ok (!make (&config, &fail) && fail.status == FAIL_GENERAL, "setting %zu that is not UTF-8 is refused", i);
        is_text (fail.text, "a value of the configuration is not valid UTF-8", "for that reason");
        *texts[i] = good;
    }
    config_release (&config);
}

/* Its dependencies are not packed, either: they are in S3, too. */
static void
test_from_s3 (void)
{
    struct config config = { 0 };
    struct fail fail = { 0 };
    load (&config, FROM_S3);
    char *made = make (&config, &fail);
    ok (made && *made == '{', "no files of a job from S3");
    ok (made && strstr (made, "\"lr\": \"0.001\", \"name\": \"\\\"x y\\\"\", "), "--lr 1e-3 --name='x y'");
    free (made);
    config_release (&config);
}

/* A table with this many rows. */
static void
write_table (const char *path, const char *value, int rows)
{
    struct strbuf text = { 0 };
    strbuf_add (&text, "name\tvalue\n");
    for (int i = 0; i < rows; i++)
        strbuf_printf (&text, "n%d\t%s\n", i, value);
    scratch_write (path, text.text);
    strbuf_release (&text);
}

static void
test_limits (void)
{
    static const struct {
        const char *more, *path, *value;
        int most;
        const char *text;
    } rows[] = {
        { "sagemaker_metrics_file: rows.tsv\n", "rows.tsv", "x", 40,
          "41 metrics, but a SageMaker job can have 40 at most" },
        { "sagemaker_inputs_file: rows.tsv\n", "rows.tsv", "s3://b/x", 20,
          "a SageMaker job can have 20 input channels at most" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = { 0 };
        struct fail fail = { 0 };
        load (&config, rows[i].more);
        write_table (rows[i].path, rows[i].value, rows[i].most);
        char *made = make (&config, &fail);
        ok (made && strstr (made, "\"n0\"") && strstr (made, rows[i].value), "%d rows of table %zu", rows[i].most, i);
        free (made);
        write_table (rows[i].path, rows[i].value, rows[i].most + 1);
        ok (!make (&config, &fail) && fail.status == FAIL_GENERAL, "one more is refused");
        is_text (fail.text, rows[i].text, "for that reason");
        config_release (&config);
    }
}

/* ---- the archive ---- */

static bool has_no_library;

void *__real_dlopen (const char *name, int flags);
void *__wrap_dlopen (const char *name, int flags);
void *
__wrap_dlopen (const char *name, int flags)
{
    return has_no_library ? NULL : __real_dlopen (name, flags);
}

static int read_errno = -1; /* of the next read(); 0: it reads nothing */

ssize_t __real_read (int fd, void *bytes, size_t size);
ssize_t __wrap_read (int fd, void *bytes, size_t size);
ssize_t
__wrap_read (int fd, void *bytes, size_t size)
{
    if (read_errno < 0)
        return __real_read (fd, bytes, size);
    errno = read_errno;
    read_errno = -1;
    return errno ? -1 : 0;
}

/* Pack one file. @return the size of the archive, or -1 with @fail set */
static long
pack (const char *path, uint64_t size, int stop_fd, int flags, struct fail *fail)
{
    struct source_file file = { .name = (char *) "x.py", .path = (char *) path, .size = size };
    struct source source = { .files = &file, .count = 1 };
    struct stat info = { 0 };
    int fd = open ("archive", flags | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int result = pack_write (fd, &source, stop_fd, fail);
    if (fstat (fd, &info) || close (fd))
        exit (99);
    return result ? -1 : (long) info.st_size;
}

static void
refuses (const char *path, uint64_t size, int stop_fd, int flags, int status, const char *text)
{
    struct fail fail = { 0 };
    ok (pack (path, size, stop_fd, flags, &fail) == -1 && fail.status == status, "status %d", status);
    is_text (fail.text, text, "for this reason");
}

static void
test_pack (void)
{
    struct fail fail = { 0 };
    int ends[2];
    uint64_t size = strlen ("print ()\n");
    const char *script = "job/train.py";
    has_no_library = true;
    long length = pack (script, size, -1, O_WRONLY, &fail);
    ok (length == -1 && strstr (fail.text, "libarchive"), "%s", fail.text);
    has_no_library = false;
    bool can_load = !strcmp (fail.text, "cannot load libarchive.so.13, which packs source code for SageMaker: install "
                             "libarchive13");
    ok (can_load || strstr (fail.text, "without libarchive"), "what is missing");
    length = pack (script, size, -1, O_WRONLY, &fail);
    if (length < 0 && strstr (fail.text, "libarchive")) {
        skip ("%s", fail.text);
        return;
    }
    if (pipe (ends))
        exit (99);
    ok (length > 50 && pack (script, size, ends[0], O_WRONLY, &fail) == length, "a file is packed: %ld bytes", length);
    read_errno = EINTR;
    ok (pack (script, size, -1, O_WRONLY, &fail) == length, "after an interrupted read, too");
    read_errno = EIO;
    refuses (script, size, -1, O_WRONLY, 1, "job/train.py: Input/output error");
    read_errno = 0;
    refuses (script, size, -1, O_WRONLY, 1, "job/train.py: changed while it was packed");
    refuses (script, size + 1, -1, O_WRONLY, 1, "job/train.py: changed while it was packed");
    refuses (script, size - 1, -1, O_WRONLY, 1, "job/train.py: changed while it was packed");
    refuses ("job", size, -1, O_WRONLY, 1, "job: changed while it was packed");
    refuses ("job/gone.py", size, -1, O_WRONLY, 1, "job/gone.py: cannot read: No such file or directory");
    refuses (script, size, -1, O_RDONLY, 1, "cannot pack the source code: Write error");
    ok (write (ends[1], "x", 1) == 1, "a signal");
    refuses (script, size, ends[0], O_WRONLY, 130, "interrupted; nothing was uploaded, and no job created");
    close (ends[0]);
    close (ends[1]);
}

int
main (void)
{
    scratch_enter ();
    clearenv ();
    if (mkdir ("job", 0777) || mkdir ("job/.git", 0777) || mkdir ("job/empty", 0777) || mkdir ("lib", 0777)
        || symlink ("../lib", "job/out"))
        exit (99);
    scratch_write ("job/train.py", "print ()\n");
    scratch_write ("job/.gitignore", "*.log\n");
    scratch_write ("job/x.log", "x");
    scratch_write ("lib/y.py", "y");
    scratch_write ("more.py", "z");
    scratch_write ("inputs.tsv", "channel_name\tdata\ntrain\ts3://b/t\n");
    scratch_write ("one.tsv", "channel_name\tdata\ntrain\n");
    scratch_write ("metrics.tsv", "metric_name\tregex\nloss\tx\n");
    json_set_alloc_funcs (malloc, free);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        test_memory (i);
    each_allocation (follow, NULL, "streams of lines", NULL);
    char *calls = follow (NULL, &(struct fail){ 0 });
    if (calls)
        calls[strcspn (calls, "\n")] = '\0';
    is_text (calls,
             "1 DescribeLogStreams {\"limit\":50,\"logGroupName\":\"/aws/sagemaker/TrainingJobs\","
             "\"logStreamNamePrefix\":\"j/\",\"orderBy\":\"LogStreamName\"}", "and the first call");
    free (calls);
    each_allocation (create_role, NULL, "a role", NULL);
    test_from_s3 ();
    test_gone ();
    test_notes ();
    test_words ();
    test_encoding ();
    test_limits ();
    test_pack ();
    return done_testing ();
}
