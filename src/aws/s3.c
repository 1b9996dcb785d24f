/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets and objects of S3. */
#include <config.h>

#include "aws/call.h"
#include "aws/endpoint.h"
#include "util/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SLOWEST = 50000,      /* bytes per second that an upload may take without being given up */
    START_MS = 120000,    /* besides */
};

/* Which S3 wants in each signature, and some versions of libcurl do not add. TLS protects the bytes. */
#define PAYLOAD "x-amz-content-sha256: UNSIGNED-PAYLOAD"

/* It becomes part of a host's name. */
static int
check_bucket (const char *bucket, struct fail *fail)
{
    size_t length = strlen (bucket);
    if (length >= 3 && length <= 63 && !bucket[strspn (bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-")]
        && isalnum ((unsigned char) *bucket) && isalnum ((unsigned char) bucket[length - 1]) && !strstr (bucket, ".."))
        return 0;
    return fail_set (fail, FAIL_GENERAL, "not a valid name of an S3 bucket: '%.100s'", bucket);
}

/* A bucket of a different region sends elsewhere, or refuses the signature. */
static bool
is_elsewhere (struct aws *aws, const char *bucket, const struct http_response *response, struct fail *fail)
{
    const char *place = http_header (response, "x-amz-bucket-region");
    const char *region = endpoint_region (aws, AWS_S3, NULL);
    if (!place || !region || !strcmp (place, region) || response->status < 300)
        return false;
    fail_set (fail, FAIL_GENERAL, "S3 bucket %.100s is in region %.60s, not in %s", bucket, place, region);
    return true;
}

static int
create_bucket (struct aws *aws, const char *bucket, const char *url, struct aws_error *error, struct fail *fail)
{
    static const char *const headers[] = { PAYLOAD, "Content-Type: application/xml" };
    AUTO_STRBUF struct strbuf body = { 0 };
    struct http_response response = { 0 };
    if (strcmp (aws->region, "us-east-1") != 0)
        strbuf_printf (&body, "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                       "<LocationConstraint>%s</LocationConstraint></CreateBucketConfiguration>", aws->region);
    if (body.failed)
        return fail_nomem (fail);
    struct request request = { .service = AWS_S3, .action = "CreateBucket",
                               .http = { .url = url, .method = "PUT", .headers = headers, .header_count = 2,
                                         .body = body.text ? body.text : "", .body_length = body.length,
                                         .is_repeatable = true } };
    int result = call_send (aws, &request, &response, error, fail);
    http_response_release (&response);
    if (result && aws_error_is (error, "BucketAlreadyOwnedByYou")) /* by another launch, just now */
        return 0;
    if (result && aws_error_is (error, "BucketAlreadyExists"))
        return fail_set (fail, FAIL_GENERAL, "S3 bucket %.100s belongs to another account", bucket);
    return result;
}

int
aws_s3_need_bucket (struct aws *aws, const char *bucket, const char *account, bool *is_new, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    struct http_response response = { 0 };
    struct aws_error error = { 0 };
    char owner[96];
    const char *headers[] = { PAYLOAD, owner };
    if (is_new)
        *is_new = false;
    if (check_bucket (bucket, fail) || endpoint_bucket (aws, bucket, &url, fail))
        return -1;
    strbuf_add_char (&url, '/');
    if (url.failed)
        return fail_nomem (fail);
    snprintf (owner, sizeof owner, "x-amz-expected-bucket-owner: %.60s", account);
    struct request request = { .service = AWS_S3, .action = "HeadBucket", .permission = "ListBucket",
                               .http = { .url = url.text, .method = "HEAD", .headers = headers, .header_count = 2 } };
    int result = call_send (aws, &request, &response, &error, fail);
    if (result && is_elsewhere (aws, bucket, &response, fail))
        error.status = 0;
    http_response_release (&response);
    if (result && error.status == 403)
        return fail_set (fail, FAIL_GENERAL, "S3 bucket %.100s belongs to another account than %.60s, or %.300s needs "
                         "the permission s3:ListBucket", bucket, account, aws_source (aws));
    if (!result || error.status != 404)
        return result;
    if (!aws->region && !endpoint_region (aws, AWS_S3, fail))
        return -1;
    if (create_bucket (aws, bucket, url.text, &error, fail))
        return -1;
    if (is_new)
        *is_new = true;
    return 0;
}

/* Appends "NAME: VALUE" unless there is no value. */
static void
add_header (struct strlist *headers, const char *name, const char *value)
{
    if (value)
        strlist_printf (headers, "%s: %s", name, value);
}

static int
send_file (struct aws *aws, const struct aws_s3_object *object, const char *path, int64_t size, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    AUTO_STRLIST struct strlist headers = { 0 };
    struct http_response response = { 0 };
    struct aws_error error;
    if (endpoint_bucket (aws, object->bucket, &url, fail))
        return -1;
    strbuf_add_char (&url, '/');
    http_encode (&url, object->key, true);
    strlist_add (&headers, PAYLOAD);
    add_header (&headers, "Content-Type", object->content_type ? object->content_type : "application/octet-stream");
    add_header (&headers, "x-amz-expected-bucket-owner", object->account);
    add_header (&headers, "x-amz-server-side-encryption", object->encryption);
    add_header (&headers, "x-amz-server-side-encryption-aws-kms-key-id", object->kms_key);
    if (url.failed || headers.failed)
        return fail_nomem (fail);
    struct request request = { .service = AWS_S3, .action = "PutObject",
                               .http = { .url = url.text, .headers = (const char *const *) headers.items,
                                         .header_count = headers.count, .body_path = path,
                                         .total_ms = START_MS + size / (SLOWEST / 1000) } };
    int result = call_send (aws, &request, &response, &error, fail);
    if (result)
        is_elsewhere (aws, object->bucket, &response, fail);
    http_response_release (&response);
    return result;
}

int
aws_s3_put_file (struct aws *aws, const struct aws_s3_object *object, const char *path, struct fail *fail)
{
    struct stat status;
    if (check_bucket (object->bucket, fail))
        return -1;
    if (stat (path, &status))
        return fail_set (fail, FAIL_GENERAL, "cannot read %.600s: %s", path, strerror (errno));
    if (!S_ISREG (status.st_mode))
        return fail_set (fail, FAIL_GENERAL, "cannot upload %.600s: not a regular file", path);
    if (status.st_size > (int64_t) AWS_S3_MOST_GIB << 30)
        return fail_set (fail, FAIL_GENERAL, "%.600s has %.1f GiB, but S3 takes at most %d GiB in one piece", path,
                         (double) status.st_size / (1 << 30), AWS_S3_MOST_GIB);
    return send_file (aws, object, path, status.st_size, fail);
}
