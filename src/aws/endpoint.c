/* SPDX-License-Identifier: Apache-2.0 */
/* Names of servers; see endpoint.h. */
#include <config.h>

#include "aws/endpoint.h"

#include "util/cleanup.h"


#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Groups of regions with accounts of their own. */
static const struct partition {
    const char *prefix, *name, *domain;
    const char *home; /* the region that calls of IAM are signed for */
    const char *iam;  /* in the name of IAM's host */
} partitions[] = {
    { "cn-", "aws-cn", "amazonaws.com.cn", "cn-north-1", ".cn-north-1" },
    { "us-gov-", "aws-us-gov", "amazonaws.com", "us-gov-west-1", ".us-gov" },
    { "us-iso-", "aws-iso", "c2s.ic.gov", "us-iso-east-1", ".us-iso-east-1" },
    { "us-isob-", "aws-iso-b", "sc2s.sgov.gov", "us-isob-east-1", ".us-isob-east-1" },
    { "eu-isoe-", "aws-iso-e", "cloud.adc-e.uk", "eu-isoe-west-1", ".eu-isoe-west-1" },
    { "us-isof-", "aws-iso-f", "csp.hci.ic.gov", "us-isof-south-1", ".us-isof-south-1" },
    { "eusc-", "aws-eusc", "amazonaws.eu", "eusc-de-east-1", ".eusc-de-east-1" },
    { "", "aws", "amazonaws.com", "us-east-1", "" },
};

static const struct service {
    const char *name;     /* in signatures */
    const char *variable; /* the end of AWS_ENDPOINT_URL_... */
    const char *host, *fips_host; /* before the region */
} services[AWS_SERVICES] = {
    [AWS_SAGEMAKER] = { "sagemaker", "SAGEMAKER", "api.sagemaker", "api-fips.sagemaker" },
    [AWS_LOGS] = { "logs", "CLOUDWATCH_LOGS", "logs", "logs-fips" },
    [AWS_STS] = { "sts", "STS", "sts", "sts-fips" },
    [AWS_IAM] = { "iam", "IAM", "iam", "iam-fips" },
    [AWS_S3] = { "s3", "S3", "s3", "s3-fips" },
};

static const struct partition *
partition_of (const char *region)
{
    const struct partition *partition = partitions;
    while (strncmp (region ? region : "", partition->prefix, strlen (partition->prefix)) != 0)
        partition++;
    return partition;
}

const char *
aws_partition (const char *region)
{
    return partition_of (region)->name;
}

const char *
aws_domain (const char *region)
{
    return partition_of (region)->domain;
}

const char *
endpoint_name (enum aws_service service)
{
    return services[service].name;
}

const char *
endpoint_region (const struct aws *aws, enum aws_service service, struct fail *fail)
{
    if (service == AWS_IAM || (service == AWS_STS && !aws->region))
        return partition_of (aws->region)->home;
    if (!aws->region)
        fail_set (fail, FAIL_GENERAL, "no AWS region: set AWS_REGION, or 'region' in the AWS profile '%.100s'",
                  aws->profile);
    return aws->region;
}

/* "is true" as botocore reads it; the variable comes first. */
static bool
is_on (const struct aws *aws, const char *variable, const char *name)
{
    const char *value = state_variable (variable);
    if (!value)
        value = state_profile_value (aws, aws->profile, name);
    return value && !strcasecmp (value, "true");
}

const char *
endpoint_override (const struct aws *aws, const char *name)
{
    char variable[64], row[64];
    if (is_on (aws, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls"))
        return NULL;
    snprintf (variable, sizeof variable, "AWS_ENDPOINT_URL_%s", name);
    snprintf (row, sizeof row, "%s.endpoint_url", name);
    for (char *c = row; *c; c++)
        *c = (char) tolower ((unsigned char) *c);
    const char *url = state_variable (variable);
    const char *section = state_profile_value (aws, aws->profile, "services");
    if (!url && section)
        url = profiles_get (&aws->config, PROFILES_SERVICES, section, row);
    if (!url || !*url)
        url = state_variable ("AWS_ENDPOINT_URL");
    return url ? url : state_profile_value (aws, aws->profile, "endpoint_url");
}

int
endpoint_add_override (struct strbuf *url, const char *text, struct fail *fail)
{
    size_t length = strlen (text);
    while (length && text[length - 1] == '/')
        length--;
    if (!http_same_origin (text, text) || text[strcspn (text, "?#@ ")])
        return fail_set (fail, FAIL_GENERAL, "AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_SERVICE or endpoint_url: "
                         "not a valid endpoint URL: expected http:// or https:// and a host");
    strbuf_add_bytes (url, text, length);
    return url->failed ? fail_nomem (fail) : 0;
}

static const char *
host_of (const struct aws *aws, enum aws_service service)
{
    return is_on (aws, "AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint") ? services[service].fips_host
                                                                    : services[service].host;
}

int
aws_endpoint (const struct aws *aws, enum aws_service service, struct strbuf *url, struct fail *fail)
{
    const char *override = endpoint_override (aws, services[service].variable);
    if (override)
        return endpoint_add_override (url, override, fail);
    const struct partition *partition = partition_of (aws->region);
    const char *region = endpoint_region (aws, service, fail);
    if (!region)
        return -1;
    strbuf_printf (url, "https://%s", host_of (aws, service));
    if (service == AWS_IAM)
        strbuf_add (url, partition->iam);
    else if (service != AWS_STS || aws->region)
        strbuf_printf (url, ".%s", region);
    strbuf_printf (url, ".%s", partition->domain);
    return url->failed ? fail_nomem (fail) : 0;
}

/* A certificate covers one name before ".s3", so a name with dots goes into the path, as it does on other servers. */
int
endpoint_bucket (const struct aws *aws, const char *bucket, struct strbuf *url, struct fail *fail)
{
    if (endpoint_override (aws, services[AWS_S3].variable) || strchr (bucket, '.')) {
        if (aws_endpoint (aws, AWS_S3, url, fail))
            return -1;
        strbuf_printf (url, "/%s", bucket);
    } else {
        const char *region = endpoint_region (aws, AWS_S3, fail);
        if (!region)
            return -1;
        strbuf_printf (url, "https://%s.%s.%s.%s", bucket, host_of (aws, AWS_S3), region, aws_domain (region));
    }
    return url->failed ? fail_nomem (fail) : 0;
}
