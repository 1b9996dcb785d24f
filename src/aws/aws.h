/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of Amazon's web services, as far as a SageMaker job needs them: SageMaker, CloudWatch Logs, STS, IAM and S3.
 *
 * Credentials are found as Amazon's own tools find them, in this order:
 *   1. the caller's keys (aws_options.access_key)
 *   2. the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, unless the caller names a profile
 *   3. the profile (the caller's, AWS_PROFILE, AWS_DEFAULT_PROFILE, or "default") in ~/.aws/config and
 *      ~/.aws/credentials: role_arn with source_profile or credential_source
 *   4. a role for an identity token: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, unless the caller names a profile;
 *      or the profile's web_identity_token_file and role_arn
 *   5. what else the profile has: sso_session or sso_start_url; keys; credential_process
 *   6. the container's (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or ..._FULL_URI)
 *   7. the role of the EC2 instance
 * Credentials that expire are renewed. They appear in no message and no log.
 *
 * Every call has a deadline; throttled and failed requests are repeated after growing random pauses. The servers of
 * AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SAGEMAKER (..._CLOUDWATCH_LOGS, ..._STS, ..._IAM, ..._S3), and of the profile's
 * endpoint_url, are asked instead of Amazon's.
 *
 * Not for use by several threads. */
#ifndef AWS_AWS_H
#define AWS_AWS_H

#include "http/http.h"

struct json_t;

enum aws_service { AWS_SAGEMAKER, AWS_LOGS, AWS_STS, AWS_IAM, AWS_S3, AWS_SERVICES };

/** All texts may be NULL; they are copied. */
struct aws_options {
    const char *region;        /* NULL: AWS_REGION, AWS_DEFAULT_REGION, the profile's */
    const char *profile;       /* NULL: AWS_PROFILE, AWS_DEFAULT_PROFILE, "default" */
    const char *access_key;    /* with secret_key: used instead of all other sources */
    const char *secret_key;
    const char *session_token;
    struct http_options http;  /* stop_fd is -1 or a descriptor */
};

struct aws;

/** Read the variables and files. Makes no request, and does not need libcurl: the first call loads it.
 *  Fails if a file is not valid, or if there is no profile of the name that was asked for. */
int aws_open (struct aws **aws, const struct aws_options *options, struct fail *fail);

/** Accepts NULL. Credentials are overwritten. */
void aws_close (struct aws *aws);

/** @return "us-east-1"; NULL: none is set anywhere. Calls of all services but IAM and STS then fail. */
const char *aws_region (const struct aws *aws);

/** Find the credentials now instead of at the first call. */
int aws_find_credentials (struct aws *aws, struct fail *fail);

/** @return where the credentials are from, in words for messages: "profile 'work' (/root/.aws/credentials)"; "" before
 *          they were found. */
const char *aws_source (const struct aws *aws);

/** @return the URL of the metadata service of EC2 instances, as Amazon's tools find it; a slash may end it */
const char *aws_instance_endpoint (void);

/** @return "aws", "aws-cn", "aws-us-gov", ...: the second part of an ARN in this region */
const char *aws_partition (const char *region);

/** @return "amazonaws.com", "amazonaws.com.cn", ... */
const char *aws_domain (const char *region);

/** Append the URL that calls of @p service go to, without '/' at its end. */
int aws_endpoint (const struct aws *aws, enum aws_service service, struct strbuf *url, struct fail *fail);

/** Why a call failed, for callers that continue after some errors. */
struct aws_error {
    int status;                /* of HTTP; 0: no answer, see `trouble` */
    char code[96];             /* "ResourceInUse", without namespace; "" if the answer has none */
    char message[512];         /* Amazon's words; printable */
    char request[80];          /* the request's id; "" if unknown */
    enum http_trouble trouble; /* HTTP_STOPPED: stop_fd; HTTP_BROKEN and HTTP_TIMED_OUT: the call may have had effect */
    unsigned attempts;         /* more than 1: an earlier one, answered by 5xx, may have had effect, too */
};

/** @return whether @p error has this code */
bool aws_error_is (const struct aws_error *error, const char *code);

/** @return whether @p error asks for patience: throttling comes with status 400, too */
bool aws_error_is_throttled (const struct aws_error *error);

/**
 * Call SageMaker or CloudWatch Logs.
 *
 * Calls whose names begin with Describe, Get, List, Put, Filter or Stop are repeated after a broken connection, others
 * are not, because they could have had effect.
 *
 * @param action      "DescribeTrainingJob"
 * @param request     an object; stays the caller's
 * @param[out] reply  an object, for json_decref(); {} if the answer is empty; NULL after a failure. May be NULL.
 * @param[out] error  may be NULL
 * @return 0; -1 with @p fail set, in one line: action, code, Amazon's words, what to do
 */
int aws_json_call (struct aws *aws, enum aws_service service, const char *action, const struct json_t *request,
                   struct json_t **reply, struct aws_error *error, struct fail *fail);

/** An answer of IAM or STS. */
struct aws_xml;

/**
 * Call IAM or STS.
 *
 * @param parameters  [count] pairs, name and value: { { "RoleName", "x" } }; Action and Version are added
 * @param[out] reply  for aws_xml_free(); NULL after a failure. May be NULL.
 * @param[out] error  may be NULL
 */
int aws_query_call (struct aws *aws, enum aws_service service, const char *action, const char *const (*parameters)[2],
                    size_t count, struct aws_xml **reply, struct aws_error *error, struct fail *fail);

/** @param path  below the root element: "GetRoleResult/Role/Arn"; the first of several elements of a name
 *  @return the text of the element, without blanks around it; NULL if there is none */
const char *aws_xml_get (const struct aws_xml *xml, const char *path);

/** Accepts NULL. */
void aws_xml_free (struct aws_xml *xml);

/** Ask STS whose credentials these are; the answer is kept.
 *  @param[out] account  "123456789012"; belongs to @p aws  @param[out] arn  the same; may be NULL */
int aws_identity (struct aws *aws, const char **account, const char **arn, struct fail *fail);

/**
 * Make sure that a bucket exists and belongs to @p account; create it, in aws_region(), if there is none.
 *
 * @param[out] is_new  whether it was created; may be NULL
 */
int aws_s3_need_bucket (struct aws *aws, const char *bucket, const char *account, bool *is_new, struct fail *fail);

/** How an object is stored. */
struct aws_s3_object {
    const char *bucket, *key;
    const char *account;      /* the bucket must belong to; NULL: to anyone */
    const char *encryption;   /* "aws:kms", "AES256"; NULL: the bucket's default */
    const char *kms_key;      /* NULL: the account's default */
    const char *content_type; /* NULL: application/octet-stream */
};

enum { AWS_S3_MOST_GIB = 5 }; /* Amazon's limit for an object that is sent in one piece */

/** Upload a file in one piece. http.moved gets the bytes sent. */
int aws_s3_put_file (struct aws *aws, const struct aws_s3_object *object, const char *path, struct fail *fail);

#endif
