/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: variables and files. */
#include <config.h>

#include "aws/state.h"

#include "util/cleanup.h"

#include <ctype.h>
#include <string.h>
#include <sys/prctl.h>

const char *
state_variable (const char *name)
{
    const char *value = getenv (name);
    return value && *value ? value : NULL;
}

const char *
state_profile_value (const struct aws *aws, const char *profile, const char *name)
{
    const char *value = profiles_get (&aws->credentials, PROFILES_PROFILE, profile, name);
    if (!value || !*value)
        value = profiles_get (&aws->config, PROFILES_PROFILE, profile, name);
    return value && *value ? value : NULL;
}

/* The file that a variable names, or one of the user's own. */
static int
read_file (struct profiles *profiles, const char *variable, const char *name, bool is_credentials, struct fail *fail)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    const char *home = state_variable ("HOME"), *named = state_variable (variable);
    if (named && (named[0] != '~' || named[1] != '/'))
        strbuf_add (&path, named);
    else
        strbuf_printf (&path, "%s/%s", home ? home : "", named ? named + 2 : name);
    if (path.failed)
        return fail_nomem (fail);
    return profiles_read (profiles, path.text, is_credentials, fail);
}

int
state_read_files (struct aws *aws, struct fail *fail)
{
    struct profiles config = { 0 }, credentials = { 0 };
    if (read_file (&config, "AWS_CONFIG_FILE", ".aws/config", false, fail))
        return -1;
    if (read_file (&credentials, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", true, fail)) {
        profiles_release (&config);
        return -1;
    }
    profiles_release (&aws->config);
    profiles_release (&aws->credentials);
    aws->config = config;
    aws->credentials = credentials;
    return 0;
}

static bool
has_profile (const struct aws *aws, const char *name)
{
    return profiles_get (&aws->config, PROFILES_PROFILE, name, "")
           || profiles_get (&aws->credentials, PROFILES_PROFILE, name, "");
}

static int
find_profile (struct aws *aws, const char *wanted, struct fail *fail)
{
    const char *variable = state_variable ("AWS_PROFILE") ? "AWS_PROFILE" : "AWS_DEFAULT_PROFILE";
    const char *name = wanted ? wanted : state_variable (variable);
    aws->names_profile = wanted != NULL;
    aws->profile = strdup (name ? name : "default");
    if (!aws->profile)
        return fail_nomem (fail);
    if (!name || has_profile (aws, name) || (!strcmp (name, "default") && !wanted))
        return 0;
    const char *from = wanted ? "" : variable, *colon = wanted ? "" : ": ";
    if (profiles_get (&aws->config, PROFILES_OTHER, name, ""))
        return fail_set (fail, FAIL_GENERAL, "%s%s%.400s: the section of AWS profile '%.100s' must begin with "
                         "[profile %.100s], not with its name only", from, colon, aws->config.path, name, name);
    return fail_set (fail, FAIL_GENERAL,
                     "%s%sno AWS profile '%.100s' in %.300s or %.300s: 'aws configure --profile NAME' adds one", from,
                     colon, name, aws->config.path, aws->credentials.path);
}

static int
find_region (struct aws *aws, const char *wanted, struct fail *fail)
{
    const char *name = wanted                               ? wanted
                       : state_variable ("AWS_REGION")      ? state_variable ("AWS_REGION")
                       : state_variable ("AWS_DEFAULT_REGION") ? state_variable ("AWS_DEFAULT_REGION")
                                                            : state_profile_value (aws, aws->profile, "region");
    if (!name)
        return 0;
    size_t length = 0; /* it becomes part of a host's name */
    while (isalnum ((unsigned char) name[length]) || (length && name[length] == '-'))
        length++;
    if (!length || name[length] || length > 63 || name[length - 1] == '-')
        return fail_set (fail, FAIL_GENERAL, "not a valid AWS region: '%.100s'; expected a name such as us-east-1",
                         name);
    aws->region = strdup (name);
    return aws->region ? 0 : fail_nomem (fail);
}

static int
take_given_keys (struct aws *aws, const struct aws_options *options, struct fail *fail)
{
    if (!options->access_key && !options->secret_key)
        return 0;
    if (!options->access_key || !options->secret_key)
        return fail_set (fail, FAIL_GENERAL, "an AWS access key needs its secret key, and vice versa");
    return keys_set (&aws->given, options->access_key, options->secret_key, options->session_token, fail);
}

int
aws_open (struct aws **out, const struct aws_options *options, struct fail *fail)
{
    struct aws *aws = calloc (1, sizeof *aws);
    *out = NULL;
    if (!aws)
        return fail_nomem (fail);
    aws->options = options->http;
    getrlimit (RLIMIT_CORE, &aws->core);
    aws->was_dumpable = prctl (PR_GET_DUMPABLE) == 1;
    prctl (PR_SET_DUMPABLE, 0L);
    setrlimit (RLIMIT_CORE, &(struct rlimit){ .rlim_cur = 0, .rlim_max = aws->core.rlim_max });
    if (take_given_keys (aws, options, fail) || state_read_files (aws, fail)
        || find_profile (aws, options->profile, fail) || find_region (aws, options->region, fail)) {
        aws_close (aws);
        return -1;
    }
    *out = aws;
    return 0;
}

void
aws_close (struct aws *aws)
{
    if (!aws)
        return;
    setrlimit (RLIMIT_CORE, &aws->core);
    if (aws->was_dumpable)
        prctl (PR_SET_DUMPABLE, 1L);
    http_close (aws->http);
    free (aws->region);
    free (aws->profile);
    keys_release (&aws->given);
    keys_release (&aws->keys);
    profiles_release (&aws->config);
    profiles_release (&aws->credentials);
    strbuf_release (&aws->source);
    free (aws->account);
    free (aws->arn);
    free (aws);
}

int
state_connect (struct aws *aws, struct fail *fail)
{
    return aws->http ? 0 : http_open (&aws->http, &aws->options, fail);
}

const char *
aws_region (const struct aws *aws)
{
    return aws->region;
}

const char *
aws_source (const struct aws *aws)
{
    return aws->source.text ? aws->source.text : "";
}
