/* SPDX-License-Identifier: Apache-2.0 */
/* The order of sources, which is botocore's. */
#include <config.h>

#include "aws/chain.h"

#include "aws/source.h"
#include "util/cleanup.h"

#include <string.h>
#include <time.h>

enum {
    RENEW_S = 600, /* before they expire */
    MOST_ROLES = 8, /* one taken with another */
};

/* The roles that are being looked for, from the one that was asked for on. */
struct path {
    const char *profiles[MOST_ROLES];
    size_t count;
};

static int profile_keys (struct aws *aws, const char *profile, struct path *path, struct found *found,
                         struct fail *fail);

static int
source_keys (struct aws *aws, const char *name, struct found *found, struct fail *fail)
{
    if (!strcasecmp (name, "Environment"))
        return source_variables (aws, found, fail);
    if (!strcasecmp (name, "Ec2InstanceMetadata"))
        return source_instance (aws, found, fail);
    if (!strcasecmp (name, "EcsContainer"))
        return source_container (aws, found, fail);
    return fail_set (fail, FAIL_GENERAL, "invalid credential_source '%.60s': expected Environment, Ec2InstanceMetadata "
                     "or EcsContainer", name);
}

static int
static_keys (struct aws *aws, const char *profile, struct found *found, struct fail *fail)
{
    int result = source_file (aws, &aws->credentials, profile, found, fail);
    return result ? result : source_file (aws, &aws->config, profile, found, fail);
}

/* The credentials that a profile's role is assumed with. A profile that names itself has keys of its own. */
static int
keys_for_role (struct aws *aws, const char *profile, struct path *path, struct found *by, struct fail *fail)
{
    const char *other = state_profile_value (aws, profile, "source_profile");
    const char *source = state_profile_value (aws, profile, "credential_source");
    if (other && source)
        return fail_set (fail, FAIL_GENERAL, "source_profile cannot be combined with credential_source");
    if (source)
        return source_keys (aws, source, by, fail);
    if (!strcmp (other, profile))
        return static_keys (aws, profile, by, fail);
    for (size_t i = 0; i < path->count; i++)
        if (!strcmp (path->profiles[i], other))
            return fail_set (fail, FAIL_GENERAL, "source_profile leads back to '%.100s'", other);
    int result = static_keys (aws, other, by, fail); /* they come before its own role, if it has one */
    if (result)
        return result;
    if (path->count == MOST_ROLES)
        return fail_set (fail, FAIL_GENERAL, "more than %d roles in a row", MOST_ROLES);
    if (!profiles_get (&aws->config, PROFILES_PROFILE, other, "")
        && !profiles_get (&aws->credentials, PROFILES_PROFILE, other, ""))
        return fail_set (fail, FAIL_GENERAL, "no AWS profile '%.100s' (source_profile)", other);
    return profile_keys (aws, other, path, by, fail);
}

/* Variables are for the profile that was asked for, unless the caller did so. */
static bool
reads_variables (const struct aws *aws, const struct path *path)
{
    return path->count == 0 && !aws->names_profile;
}

static bool
has_token (const struct aws *aws, const char *profile, const struct path *path)
{
    return state_profile_value (aws, profile, "web_identity_token_file")
           || (reads_variables (aws, path) && state_variable ("AWS_WEB_IDENTITY_TOKEN_FILE"));
}

static int
role_keys (struct aws *aws, const char *profile, struct path *path, struct found *found, struct fail *fail)
{
    struct found by = { 0 };
    if (!state_profile_value (aws, profile, "role_arn"))
        return SOURCE_NONE;
    if (!state_profile_value (aws, profile, "source_profile")
        && !state_profile_value (aws, profile, "credential_source"))
        return has_token (aws, profile, path)
                   ? SOURCE_NONE
                   : fail_set (fail, FAIL_GENERAL, "AWS profile '%.100s' has role_arn, but neither source_profile nor "
                               "credential_source", profile);
    path->profiles[path->count++] = profile;
    int result = keys_for_role (aws, profile, path, &by, fail);
    if (result == SOURCE_NONE)
        result = fail_set (fail, FAIL_GENERAL, "there are no credentials to assume the role with");
    if (result < 0)
        fail_prefix (fail, "AWS profile '%.100s'", profile);
    else
        result = source_role (aws, profile, &by, found, fail);
    found_release (&by);
    return result;
}

/* Variables come before the profile's own. */
static int
web_keys (struct aws *aws, const char *profile, bool with_variables, struct found *found, struct fail *fail)
{
    const char *token = with_variables ? state_variable ("AWS_WEB_IDENTITY_TOKEN_FILE") : NULL;
    const char *role = with_variables ? state_variable ("AWS_ROLE_ARN") : NULL;
    const char *session = with_variables ? state_variable ("AWS_ROLE_SESSION_NAME") : NULL;
    if (!token)
        token = state_profile_value (aws, profile, "web_identity_token_file");
    if (!token)
        return SOURCE_NONE;
    if (!role)
        role = state_profile_value (aws, profile, "role_arn");
    if (!role)
        return fail_set (fail, FAIL_GENERAL, "a web identity token needs a role: set AWS_ROLE_ARN, or role_arn in the "
                         "AWS profile '%.100s'", profile);
    if (!session)
        session = state_profile_value (aws, profile, "role_session_name");
    return source_web_identity (aws, token, role, session, found, fail);
}

/* All that a profile can have. */
static int
profile_keys (struct aws *aws, const char *profile, struct path *path, struct found *found, struct fail *fail)
{
    int result = role_keys (aws, profile, path, found, fail);
    if (!result)
        result = web_keys (aws, profile, reads_variables (aws, path), found, fail);
    if (!result)
        result = source_sso (aws, profile, found, fail);
    if (!result)
        result = source_file (aws, &aws->credentials, profile, found, fail);
    if (!result)
        result = source_process (aws, profile, found, fail);
    if (!result)
        result = source_file (aws, &aws->config, profile, found, fail);
    return result;
}

static int
find (struct aws *aws, struct found *found, struct fail *fail)
{
    struct path path = { 0 };
    int result = SOURCE_NONE;
    if (aws->given.access_key) {
        result = keys_set (&found->keys, aws->given.access_key, aws->given.secret_key, aws->given.session_token, fail);
        return found_end (found, result, fail, "the access key %s", "on the command line");
    }
    if (!aws->names_profile)
        result = source_variables (aws, found, fail);
    if (!result)
        result = profile_keys (aws, aws->profile, &path, found, fail);
    if (!result)
        result = source_container (aws, found, fail);
    if (!result)
        result = source_instance (aws, found, fail);
    if (!result)
        result = fail_set (fail, FAIL_GENERAL, "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                           "or run 'aws configure' for the AWS profile '%.100s'", aws->profile);
    return result;
}

int
chain_find (struct aws *aws, struct fail *fail)
{
    struct found found = { 0 };
    int64_t left = aws->keys.expires - time (NULL);
    if (aws->keys.access_key && (!aws->keys.expires || left > RENEW_S))
        return 0;
    if (find (aws, &found, fail) < 0) {
        found_release (&found);
        return aws->keys.access_key && left > 0 ? 0 : -1; /* the old ones still last */
    }
    keys_release (&aws->keys);
    strbuf_release (&aws->source);
    aws->keys = found.keys;
    aws->source = found.source;
    return 0;
}

bool
chain_forget (struct aws *aws)
{
    if (!aws->keys.session_token || aws->given.access_key)
        return false;
    keys_release (&aws->keys);
    state_read_files (aws, NULL); /* another process may have renewed them there */
    return true;
}

int
aws_find_credentials (struct aws *aws, struct fail *fail)
{
    return chain_find (aws, fail);
}
