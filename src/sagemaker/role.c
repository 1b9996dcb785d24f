/* SPDX-License-Identifier: Apache-2.0 */
/* Creating the role of training jobs; see role.h. */
#include <config.h>

#include "sagemaker/role.h"

#include "aws/aws.h"
#include "util/cleanup.h"

#include <jansson.h>
#include <stdlib.h>

static const char trust[] =
    "{\n  \"Version\": \"2012-10-17\",\n  \"Statement\": [\n    {\n      \"Effect\": \"Allow\",\n"
    "      \"Principal\": {\n        \"Service\": \"sagemaker.amazonaws.com\"\n      },\n"
    "      \"Action\": \"sts:AssumeRole\"\n    }\n  ]\n}";

/* What jobs may do. */
static const char *const actions[] = {
    "sagemaker:*",
    "ecr:GetDownloadUrlForLayer",
    "ecr:BatchGetImage",
    "ecr:BatchCheckLayerAvailability",
    "ecr:GetAuthorizationToken",
    "cloudwatch:PutMetricData",
    "cloudwatch:GetMetricData",
    "cloudwatch:GetMetricStatistics",
    "cloudwatch:ListMetrics",
    "logs:CreateLogGroup",
    "logs:CreateLogStream",
    "logs:DescribeLogStreams",
    "logs:PutLogEvents",
    "logs:GetLogEvents",
    "s3:CreateBucket",
    "s3:ListBucket",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:PutObject",
};

/* The document of the policy; the caller frees it. NULL: there is no memory */
static char *
permissions (void)
{
    json_t *list = json_array ();
    bool failed = false;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        failed = json_array_append_new (list, json_string (actions[i])) || failed;
    json_t *policy = json_pack ("{s:s, s:[{s:s, s:o, s:s}]}", "Version", "2012-10-17", "Statement", "Effect", "Allow",
                                "Action", list, "Resource", "*");
    char *text = policy && !failed ? json_dumps (policy, JSON_INDENT (2)) : NULL;
    json_decref (policy);
    return text;
}

static int
add_permissions (struct aws *aws, const char *name, struct fail *fail)
{
    AUTO_STRBUF struct strbuf policy = { 0 };
    AUTO_FREE char *document = permissions ();
    strbuf_printf (&policy, "%s_policy_permission", name);
    if (policy.failed || !document)
        return fail_nomem (fail);
    const char *const parameters[][2] = { { "RoleName", name }, { "PolicyName", policy.text },
                                          { "PolicyDocument", document } };
    if (aws_query_call (aws, AWS_IAM, "PutRolePolicy", parameters, 3, NULL, NULL, fail))
        return fail_prefix (fail, "role %s was created, but without permissions", name);
    return 0;
}

/* Whether a list of a role's policies is empty. */
static bool
has_none (struct aws *aws, const char *name, const char *action, const char *list)
{
    const char *const parameters[][2] = { { "RoleName", name } };
    struct aws_xml *reply = NULL;
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf member = { 0 };
    strbuf_printf (&member, "%sResult/%s", action, list);
    if (member.failed || aws_query_call (aws, AWS_IAM, action, parameters, 1, &reply, NULL, &fail))
        return false;
    bool has_list = aws_xml_get (reply, member.text);
    strbuf_add (&member, "/member");
    bool result = has_list && !member.failed && !aws_xml_get (reply, member.text);
    aws_xml_free (reply);
    return result;
}

/* Whether a role is what an earlier attempt left that could create it, but not add permissions. */
static bool
is_half_made (struct aws *aws, const char *name)
{
    return has_none (aws, name, "ListRolePolicies", "PolicyNames")
           && has_none (aws, name, "ListAttachedRolePolicies", "AttachedPolicies");
}

static int
create (struct aws *aws, const char *name, bool *is_new, struct fail *fail)
{
    const char *const parameters[][2] = { { "RoleName", name }, { "AssumeRolePolicyDocument", trust } };
    struct aws_error error = { 0 };
    *is_new = !aws_query_call (aws, AWS_IAM, "CreateRole", parameters, 2, NULL, &error, fail);
    if (*is_new)
        return add_permissions (aws, name, fail);
    if (!aws_error_is (&error, "EntityAlreadyExists"))
        return fail_prefix (fail, "cannot create role %s", name);
    *is_new = is_half_made (aws, name);
    return *is_new ? add_permissions (aws, name, fail) : 0;
}

int
role_create (const char *name, const char *profile, const char *region, bool *is_new, struct fail *fail)
{
    struct aws_options wanted = { .region = region, .profile = profile, .http = { .stop_fd = -1 } };
    struct aws *aws;
    *is_new = false;
    if (aws_open (&aws, &wanted, fail))
        return fail_prefix (fail, "cannot create role %s", name);
    int result = create (aws, name, is_new, fail);
    aws_close (aws);
    return result;
}
