/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials that are texts: in variables, in files, in answers. */
#include <config.h>

#include "aws/source.h"

#include "util/cleanup.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>

void
found_release (struct found *found)
{
    keys_release (&found->keys);
    strbuf_release (&found->source);
}

int
found_end (struct found *found, int result, struct fail *fail, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    if (result)
        return fail_prefix (fail, "%.500s", text);
    strbuf_truncate (&found->source, 0);
    strbuf_add (&found->source, text);
    return found->source.failed ? fail_nomem (fail) : SOURCE_FOUND;
}

int
source_variables (struct aws *aws, struct found *found, struct fail *fail)
{
    (void) aws;
    const char *access = state_variable ("AWS_ACCESS_KEY_ID"), *secret = state_variable ("AWS_SECRET_ACCESS_KEY");
    const char *token = state_variable ("AWS_SESSION_TOKEN");
    if (!access)
        return SOURCE_NONE;
    if (!secret)
        return fail_set (fail, FAIL_GENERAL, "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
    if (!token)
        token = state_variable ("AWS_SECURITY_TOKEN");
    return found_end (found, keys_set (&found->keys, access, secret, token, fail), fail, "AWS_ACCESS_KEY_ID");
}

int
source_file (struct aws *aws, const struct profiles *file, const char *profile, struct found *found, struct fail *fail)
{
    (void) aws;
    const char *access = profiles_get (file, PROFILES_PROFILE, profile, "aws_access_key_id");
    const char *secret = profiles_get (file, PROFILES_PROFILE, profile, "aws_secret_access_key");
    const char *token = profiles_get (file, PROFILES_PROFILE, profile, "aws_session_token");
    if (!access)
        return SOURCE_NONE;
    if (!secret)
        return fail_set (fail, FAIL_GENERAL, "%.400s: AWS profile '%.100s' has aws_access_key_id, but no "
                         "aws_secret_access_key", file->path, profile);
    if (!token)
        token = profiles_get (file, PROFILES_PROFILE, profile, "aws_security_token");
    int result = keys_set (&found->keys, access, secret, token && *token ? token : NULL, fail);
    return found_end (found, result, fail, "AWS profile '%.100s' (%.400s)", profile, file->path);
}

int
source_read_json (const struct http_response *response, const struct keys_names *names, const char *member,
                  const char *what, struct keys *keys, struct fail *fail)
{
    struct fail why = { 0 };
    json_t *json = keys_parse (response->body.text, response->body.length, "the answer", &why);
    if (!json)
        return fail_set (fail, FAIL_GENERAL, "%s: %.800s", what, why.text);
    const json_t *object = member ? json_object_get (json, member) : json;
    const char *code = json_string_value (json_object_get (object, "Code"));
    int result = 0;
    if (!json_is_object (object))
        result = fail_set (fail, FAIL_GENERAL, "%s: the answer has no object '%s'", what, member ? member : "");
    else if (code && strcmp (code, "Success") != 0)
        result = fail_set (fail, FAIL_GENERAL, "%s: the answer has the code '%.60s', not 'Success'", what, code);
    else if (keys_from_json (keys, object, names, &why))
        result = fail_set (fail, FAIL_GENERAL, "%s: %.800s", what, why.text);
    json_decref (json);
    return result;
}
