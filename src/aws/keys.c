/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials; see keys.h. */
#include <config.h>

#include "aws/keys.h"

#include "aws/when.h"
#include "util/cleanup.h"

#include <jansson.h>
#include <string.h>

const struct keys_names keys_names_process = { "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration" };
const struct keys_names keys_names_metadata = { "AccessKeyId", "SecretAccessKey", "Token", "Expiration" };
const struct keys_names keys_names_sso = { "accessKeyId", "secretAccessKey", "sessionToken", "expiration" };

void
keys_wipe (char *text)
{
    if (text)
        explicit_bzero (text, strlen (text));
    free (text);
}

void
keys_release (struct keys *keys)
{
    keys_wipe (keys->access_key);
    keys_wipe (keys->secret_key);
    keys_wipe (keys->session_token);
    *keys = (struct keys) { 0 };
}

/* They become parts of headers. */
static bool
can_be_key (const char *text)
{
    size_t length = 0;
    for (; text[length]; length++)
        if (text[length] <= ' ' || text[length] > '~')
            return false;
    return length > 0;
}

int
keys_set (struct keys *keys, const char *access_key, const char *secret_key, const char *session_token,
          struct fail *fail)
{
    const char *wrong = !can_be_key (access_key)                      ? "access key"
                        : !can_be_key (secret_key)                    ? "secret key"
                        : session_token && !can_be_key (session_token) ? "session token"
                                                                       : NULL;
    if (wrong)
        return fail_set (fail, FAIL_GENERAL, "not a valid %s: it is empty, or has blanks or special characters", wrong);
    keys->access_key = strdup (access_key);
    keys->secret_key = strdup (secret_key);
    keys->session_token = session_token ? strdup (session_token) : NULL;
    if (keys->access_key && keys->secret_key && (keys->session_token || !session_token))
        return 0;
    keys_release (keys);
    return fail_nomem (fail);
}

json_t *
keys_parse (const char *text, size_t length, const char *what, struct fail *fail)
{
    errno = 0;
    json_t *json = json_loadb (text ? text : "", length, 0, NULL);
    if (json_is_object (json))
        return json;
    bool no_memory = !json && errno == ENOMEM; /* jansson itself says that the text is wrong */
    json_decref (json);
    if (no_memory)
        fail_nomem (fail);
    else
        fail_set (fail, FAIL_GENERAL, "%s is not a JSON object", what);
    return NULL;
}

static int
read_expiry (struct keys *keys, const json_t *value, const char *name, struct fail *fail)
{
    int64_t when = -1;
    if (!value || json_is_null (value))
        return 0;
    if (json_is_string (value))
        when = when_iso (json_string_value (value));
    else if (json_is_integer (value))
        when = json_integer_value (value) / 1000;
    if (when <= 0)
        return fail_set (fail, FAIL_GENERAL, "'%s' is not a valid time", name);
    keys->expires = when;
    return 0;
}

int
keys_from_json (struct keys *keys, const json_t *json, const struct keys_names *names, struct fail *fail)
{
    const json_t *access = json_object_get (json, names->access_key);
    const json_t *secret = json_object_get (json, names->secret_key);
    const json_t *token = json_object_get (json, names->session_token);
    if (!json_is_string (access) || !json_is_string (secret))
        return fail_set (fail, FAIL_GENERAL, "'%s' is missing",
                         json_is_string (access) ? names->secret_key : names->access_key);
    if (keys_set (keys, json_string_value (access), json_string_value (secret), json_string_value (token), fail))
        return -1;
    if (read_expiry (keys, json_object_get (json, names->expires), names->expires, fail)) {
        keys_release (keys);
        return -1;
    }
    return 0;
}
