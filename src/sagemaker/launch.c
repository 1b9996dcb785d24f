/* SPDX-License-Identifier: Apache-2.0 */
/* A launch on SageMaker, step by step; see launch.h. */
#include <config.h>

#include "sagemaker/launch.h"

#include "config/explain.h"
#include "config/mode.h"
#include "config/text/json_text.h"
#include "sagemaker/follow.h"
#include "sagemaker/pack.h"
#include "sagemaker/source.h"
#include "util/printable.h"
#include "util/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define UNKNOWN "<account>" /* without credentials */
#define NOTHING_DONE "no job was created"

enum { MARK_LENGTH = 5 };

struct launch {
    const struct config *config;
    const struct sagemaker_view *view;
    struct training training;
    struct training_place place;
    struct source source;
    struct session session;
    json_t *request;
    const char *account; /* belongs to session.aws */
};

bool
sagemaker_is_wanted (const struct settings *settings)
{
    return mode_path (settings, false) == PATH_SAGEMAKER;
}

/* ---- --dry_run ---- */

static json_t *
upload_json (const struct launch *launch)
{
    if (!launch->training.is_uploaded)
        return json_null ();
    json_t *files = json_array ();
    for (size_t i = 0; i < launch->source.count; i++)
        json_array_append_new (files, json_text (launch->source.files[i].name));
    return json_pack ("{s:s, s:s, s:o}", "bucket", launch->place.bucket, "key", launch->place.key, "files", files);
}

static int
print_json (json_t *value, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (json_add (&text, value, JSON_INDENT (2) | JSON_SORT_KEYS))
        return fail_nomem (fail);
    fputs (text.text, stdout);
    return 0;
}

static int
print_text (const struct launch *launch, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    if (launch->config->settings.explain) {
        explain_text (launch->config, false, &out);
        strbuf_add_char (&out, '\n');
    }
    strbuf_printf (&out, "SageMaker job in %s", launch->training.region);
    if (launch->training.is_uploaded) {
        strbuf_printf (&out, "; %zu %s (", launch->source.count, launch->source.count == 1 ? "file" : "files");
        bytes_add (&out, launch->source.bytes);
        strbuf_printf (&out, "), packed into s3://%s/%s", launch->place.bucket, launch->place.key);
    }
    if (out.failed)
        return fail_nomem (fail);
    puts (out.text);
    return print_json (json_incref (launch->request), fail);
}

/* No credentials are looked for. */
static int
print_request (struct launch *launch, struct fail *fail)
{
    const char *role = training_text (&launch->training, "role");
    AUTO_STRBUF struct strbuf arn = { 0 };
    if (strchr (role, '/'))
        strbuf_add (&arn, role);
    else
        strbuf_printf (&arn, "arn:%s:iam::" UNKNOWN ":role/%s", aws_partition (launch->training.region), role);
    if (arn.failed)
        return fail_nomem (fail);
    if (training_place (&launch->training, UNKNOWN, &launch->place, fail))
        return -1;
    launch->request = training_request (&launch->training, &launch->place, arn.text, fail);
    if (!launch->request)
        return -1;
    if (!launch->config->settings.json)
        return print_text (launch, fail);
    return print_json (json_pack ("{s:O, s:o}", "request", launch->request, "upload", upload_json (launch)), fail);
}

/* ---- the steps of a launch ---- */

/* The role's ARN, as Amazon's library finds it. */
static int
find_role (struct launch *launch, struct strbuf *arn, struct fail *fail)
{
    const char *role = training_text (&launch->training, "role");
    const char *const parameters[][2] = { { "RoleName", role } };
    struct aws_xml *reply = NULL;
    struct aws_error error = { 0 };
    if (strchr (role, '/')) {
        strbuf_add (arn, role);
        return arn->failed ? fail_nomem (fail) : 0;
    }
    if (aws_query_call (launch->session.aws, AWS_IAM, "GetRole", parameters, 1, &reply, &error, fail))
        return aws_error_is (&error, "NoSuchEntity")
                   ? fail_set (fail, FAIL_GENERAL, "iam_role_name: there is no role '%s' in account %s; 'accelerate "
                               "config' can create one", role, launch->account)
                   : -1;
    const char *text = aws_xml_get (reply, "GetRoleResult/Role/Arn");
    strbuf_add (arn, text ? text : "");
    aws_xml_free (reply);
    return arn->failed ? fail_nomem (fail)
           : arn->length ? 0 : fail_set (fail, FAIL_GENERAL, "IAM answered without the ARN of role '%s'", role);
}

/* All that can be found out without leaving a trace. */
static int
prepare (struct launch *launch, struct fail *fail)
{
    AUTO_STRBUF struct strbuf role = { 0 };
    if (aws_find_credentials (launch->session.aws, fail)
        || aws_identity (launch->session.aws, &launch->account, NULL, fail))
        return -1;
    session_say (&launch->session, "account %s, by %s", launch->account, aws_source (launch->session.aws));
    if (find_role (launch, &role, fail)
        || training_place (&launch->training, launch->account, &launch->place, fail))
        return -1;
    launch->request = training_request (&launch->training, &launch->place, role.text, fail);
    return launch->request ? 0 : -1;
}

/* A file without a name, which is gone when this process is, however it ends. */
static int
open_archive (struct fail *fail)
{
    const char *folder = getenv ("TMPDIR");
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/accelerate.XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = path.failed ? -1 : mkostemp (path.text, O_CLOEXEC);
    if (fd < 0)
        return fail_set (fail, FAIL_GENERAL, "%s: cannot create a file: %s", path.text ? path.text : "TMPDIR",
                         strerror (errno));
    unlink (path.text);
    return fd;
}

static int
send_archive (struct launch *launch, int fd, struct fail *fail)
{
    const struct training_place *place = &launch->place;
    struct aws_s3_object object = { .bucket = place->bucket, .key = place->key, .encryption = "aws:kms",
                                    .kms_key = place->kms_key, .content_type = "application/gzip",
                                    .account = place->is_default ? launch->account : NULL };
    AUTO_STRBUF struct strbuf size = { 0 };
    char path[40];
    struct stat info;
    if (fstat (fd, &info))
        return fail_set (fail, FAIL_GENERAL, "cannot read the archive: %s", strerror (errno));
    bytes_add (&size, (uint64_t) info.st_size);
    session_say (&launch->session, "uploading %zu %s (%s) to s3://%s/%s", launch->source.count,
                 launch->source.count == 1 ? "file" : "files", size.text ? size.text : "", place->bucket, place->key);
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    launch->view->start (launch->view->data, (uint64_t) info.st_size);
    int result = aws_s3_put_file (launch->session.aws, &object, path, fail);
    launch->view->end (launch->view->data);
    return result;
}

static int
upload (struct launch *launch, struct fail *fail)
{
    bool is_new = false;
    if (launch->place.needed
        && aws_s3_need_bucket (launch->session.aws, launch->place.needed, launch->account, &is_new, fail))
        return -1;
    if (is_new)
        session_say (&launch->session, "created bucket %s", launch->place.needed);
    if (!launch->training.is_uploaded)
        return 0;
    AUTO_CLOSE int fd = open_archive (fail);
    if (fd < 0 || pack_write (fd, &launch->source, launch->session.signal_fd, fail))
        return -1;
    return send_archive (launch, fd, fail);
}

/* What a call that may have had its effect has done. */
enum effect { NO_JOB, OUR_JOB, OTHER_JOB, NOT_KNOWN };

static enum effect
find_effect (struct launch *launch)
{
    struct aws_error error = { 0 };
    struct fail fail = { 0 };
    json_t *job = follow_describe (&launch->session, &error, &fail);
    const json_t *theirs = json_object_get (job, "HyperParameters");
    bool is_ours = !theirs || json_equal (theirs, json_object_get (launch->request, "HyperParameters"));
    bool is_absent = error.status == 400 && aws_error_is (&error, "ValidationException");
    json_decref (job);
    return job ? (is_ours ? OUR_JOB : OTHER_JOB) : is_absent ? NO_JOB : NOT_KNOWN;
}

static int
fail_uncertain (const struct launch *launch, int number, struct fail *fail)
{
    const char *name = launch->training.name;
    AUTO_STRBUF struct strbuf hint = { 0 };
    session_add_hint (&launch->session, &hint);
    const char *shown = hint.text ? hint.text : "";
    return number ? fail_set (fail, FAIL_BY_SIGNAL + number,
                              "interrupted; job %s may have been created (look with: %s)", name, shown)
                  : fail_prefix (fail, "job %s may have been created (look with: %s)", name, shown);
}

static int
create (struct launch *launch, struct fail *fail)
{
    struct aws_error error = { 0 };
    struct session *session = &launch->session;
    if (!aws_json_call (session->aws, AWS_SAGEMAKER, "CreateTrainingJob", launch->request, NULL, &error, fail))
        return 0;
    int number = session_take_signal (session);
    bool is_on_its_way = error.trouble == HTTP_STOPPED || error.trouble == HTTP_TIMED_OUT;
    bool is_uncertain = is_on_its_way || error.trouble == HTTP_BROKEN || error.status >= 500
                        || aws_error_is (&error, "ResourceInUse"); /* as after a request that was sent twice */
    enum effect effect = is_uncertain ? find_effect (launch) : NO_JOB;
    if (effect == NOT_KNOWN || (effect == NO_JOB && is_on_its_way))
        return fail_uncertain (launch, number, fail);
    if (effect == OTHER_JOB)
        return fail_set (fail, FAIL_GENERAL, NOTHING_DONE ": another launch has just created a job of this name, %s; "
                         "launch again", launch->training.name);
    if (effect == NO_JOB)
        return number ? fail_set (fail, FAIL_BY_SIGNAL + number, "interrupted; " NOTHING_DONE) : -1;
    if (number)
        raise (number); /* it is pending again, for the one who follows the job */
    return 0;
}

static int
detach (const struct launch *launch, struct fail *fail)
{
    AUTO_STRBUF struct strbuf hint = { 0 };
    session_add_hint (&launch->session, &hint);
    if (hint.failed)
        return fail_nomem (fail);
    session_say (&launch->session, "left running; to look at it: %s", hint.text);
    puts (launch->training.name);
    return 0;
}

static int
print_notes (const struct launch *launch, struct fail *fail)
{
    AUTO_STRBUF struct strbuf notes = { 0 };
    source_add_notes (&launch->source, &notes);
    if (notes.failed)
        return fail_nomem (fail);
    fputs (notes.text ? notes.text : "", stderr);
    return 0;
}

static int
run (struct launch *launch, struct fail *fail)
{
    const struct settings *settings = &launch->config->settings;
    struct aws_options wanted = {
        .region = launch->training.region, .profile = settings->profile, .access_key = settings->aws_access_key_id,
        .secret_key = settings->aws_secret_access_key,
        .http = { .stop_fd = -1, .data = launch->view->data, .moved = launch->view->moved },
    };
    launch->session.is_quiet = settings->quiet;
    if (!settings->aws_access_key_id != !settings->aws_secret_access_key)
        return fail_set (fail, FAIL_USAGE, "--aws_access_key_id and --aws_secret_access_key need each other");
    if (session_open (&launch->session, &launch->training, &wanted, fail))
        return -1;
    if (prepare (launch, fail) || upload (launch, fail))
        return session_fail (&launch->session, NOTHING_DONE, fail);
    if (create (launch, fail))
        return -1;
    session_say (&launch->session, "created job %s in %s", launch->training.name, aws_region (launch->session.aws));
    return settings->detach ? detach (launch, fail) : follow_job (&launch->session, fail);
}

/* So that launches in the same millisecond have names, and keys of their archives, of their own. */
static void
make_mark (char mark[MARK_LENGTH + 1], const struct timespec *now)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t random = 0;
    if (getrandom (&random, sizeof random, GRND_NONBLOCK) != (ssize_t) sizeof random)
        random = (uint64_t) now->tv_nsec * (uint64_t) getpid ();
    for (int i = 0; i < MARK_LENGTH; i++, random /= 36)
        mark[i] = digits[random % 36];
    mark[MARK_LENGTH] = '\0';
}

int
sagemaker_launch (const struct config *config, const struct sagemaker_view *view, struct fail *fail)
{
    struct launch launch = { .config = config, .view = view, .session = { .signal_fd = -1 } };
    struct timespec now;
    char mark[MARK_LENGTH + 1];
    clock_gettime (CLOCK_REALTIME, &now);
    make_mark (mark, &now);
    int result = -1;
    if (training_make (&launch.training, config, &now, mark, fail)
        || source_find (&launch.source, &launch.training, fail) || print_notes (&launch, fail))
        goto done;
    result = config->settings.dry_run ? print_request (&launch, fail) : run (&launch, fail);
done:
    session_close (&launch.session);
    json_decref (launch.request);
    training_place_release (&launch.place);
    source_release (&launch.source);
    training_release (&launch.training);
    return result;
}
