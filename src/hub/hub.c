/* SPDX-License-Identifier: Apache-2.0 */
/* Repositories of models; see hub.h. */
#include <config.h>

#include "hub/hub.h"

#include "util/cleanup.h"
#include "util/text.h"
#include "util/io.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

enum {
    MOST_TOKEN = 4096,
    MOST_NAME = 96,
    MOST_REVISION = 256,
};

static const char *
variable (const char *name)
{
    const char *value = getenv (name);
    return value && *value ? value : NULL;
}

static bool
is_on (const char *name)
{
    static const char *const words[] = { "1", "ON", "YES", "TRUE" };
    const char *value = variable (name);
    for (size_t i = 0; i < 4 && value; i++)
        if (!strcasecmp (value, words[i]))
            return true;
    return false;
}

/* @p path with $NAME and ${NAME} replaced, which no shell has done for variables of containers and services.  As in
 * Python, names that are not set stay. */
static void
add_expanded (struct strbuf *out, const char *path)
{
    while (*path) {
        bool has_braces = path[0] == '$' && path[1] == '{';
        const char *name = path + 1 + has_braces, *end = name;
        while (*path == '$' && (has_braces ? *end && *end != '}' : isalnum ((unsigned char) *end) || *end == '_'))
            end++;
        AUTO_FREE char *copy = *path == '$' && (!has_braces || *end) ? strndup (name, (size_t) (end - name)) : NULL;
        const char *value = copy ? getenv (copy) : NULL;
        if (value) {
            strbuf_add (out, value);
            path = end + has_braces;
        } else
            strbuf_add_char (out, *path++);
    }
}

static void
add_path (struct strbuf *out, const char *path)
{
    AUTO_STRBUF struct strbuf whole = { 0 };
    home_add (&whole, path);
    add_expanded (out, whole.text ? whole.text : "");
    out->failed |= whole.failed;
}

/* $HF_HOME, or the cache of this user. */
static void
add_home (struct strbuf *path)
{
    const char *home = variable ("HF_HOME"), *cache = variable ("XDG_CACHE_HOME");
    add_path (path, home ? home : cache ? cache : "~/.cache");
    if (!home)
        strbuf_add (path, "/huggingface");
}

static int
find_token (struct hub *hub, struct fail *fail)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *text = NULL;
    const char *token = variable ("HF_TOKEN") ? variable ("HF_TOKEN") : variable ("HUGGING_FACE_HUB_TOKEN");
    if (is_on ("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return 0;
    if (!token) {
        if (variable ("HF_TOKEN_PATH"))
            add_path (&path, variable ("HF_TOKEN_PATH"));
        else {
            add_home (&path);
            strbuf_add (&path, "/token");
        }
        if (path.failed)
            return fail_nomem (fail);
        if (io_read_file (path.text, MOST_TOKEN, &text, NULL, NULL))
            return 0; /* not logged in */
        token = text;
    }
    while (isspace ((unsigned char) *token))
        token++;
    size_t length = strlen (token);
    while (length && isspace ((unsigned char) token[length - 1]))
        length--;
    if (length && !(hub->token = strndup (token, length)))
        return fail_nomem (fail);
    return 0;
}

static int
find_places (struct hub *hub, struct fail *fail)
{
    AUTO_STRBUF struct strbuf cache = { 0 };
    const char *endpoint = variable ("HF_ENDPOINT") ? variable ("HF_ENDPOINT") : "https://huggingface.co";
    size_t length = strlen (endpoint);
    while (length && endpoint[length - 1] == '/')
        length--;
    hub->endpoint = strndup (endpoint, length);
    if (variable ("HF_HUB_CACHE"))
        add_path (&cache, variable ("HF_HUB_CACHE"));
    else if (variable ("HUGGINGFACE_HUB_CACHE"))
        add_path (&cache, variable ("HUGGINGFACE_HUB_CACHE"));
    else {
        add_home (&cache);
        strbuf_add (&cache, "/hub");
    }
    hub->cache = strbuf_take (&cache);
    hub->is_offline = is_on ("HF_HUB_OFFLINE") || is_on ("TRANSFORMERS_OFFLINE");
    return hub->endpoint && hub->cache ? 0 : fail_nomem (fail);
}

int
hub_open (struct hub *hub, const struct http_options *options, struct fail *fail)
{
    *hub = (struct hub){ 0 };
    if (find_places (hub, fail) || find_token (hub, fail))
        return -1;
    return hub->is_offline ? 0 : http_open (&hub->http, options, fail);
}

void
hub_close (struct hub *hub)
{
    http_close (hub->http);
    free (hub->endpoint);
    free (hub->token);
    free (hub->cache);
    *hub = (struct hub){ 0 };
}

bool
hub_is_name (const char *name)
{
    size_t slashes = 0;
    if (strlen (name) > MOST_NAME || strstr (name, "..") || strstr (name, "--"))
        return false;
    for (const char *c = name; *c; c++) {
        bool at_end = c == name || !c[1] || c[-1] == '/' || c[1] == '/';
        if (*c == '/' ? at_end : !isalnum ((unsigned char) *c) && (!strchr ("-._", *c) || (at_end && *c != '_')))
            return false;
        slashes += *c == '/';
    }
    return *name && slashes < 2;
}

static char *
take_text (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text ? strdup (text) : NULL;
}

int
hub_model_parse (struct hub_model *model, const struct http_response *response, struct fail *fail)
{
    size_t i;
    json_t *file, *json = http_json (response, fail);
    if (!json)
        return -1;
    if (!json_is_object (json)) {
        json_decref (json);
        return fail_set (fail, FAIL_GENERAL, "the hub's answer is not a JSON object");
    }
    model->library = take_text (json, "library_name");
    json_array_foreach (json_object_get (json, "siblings"), i, file)
        if (json_is_string (json_object_get (file, "rfilename")))
            strlist_add (&model->files, json_string_value (json_object_get (file, "rfilename")));
    json_decref (json);
    return model->files.failed ? fail_nomem (fail) : 0;
}

void
hub_model_release (struct hub_model *model)
{
    free (model->library);
    strlist_release (&model->files);
    *model = (struct hub_model){ 0 };
}

char *
hub_file_url (const struct hub *hub, const char *name, const char *file)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    strbuf_printf (&url, "%s/%s/resolve/main/", hub->endpoint, name);
    http_encode (&url, file, true);
    return strbuf_take (&url);
}

/* The hub says in a header what is wrong; mirrors say it with the status only. */
int
hub_refuse (const struct hub *hub, const char *name, const char *file, const struct http_response *response,
            struct fail *fail)
{
    const char *code = http_header (response, "x-error-code");
    AUTO_STRBUF struct strbuf endpoint = { 0 };
    bool knows_us = hub->token != NULL;
    int status = response->status;
    http_show_url (&endpoint, hub->endpoint);
    if (endpoint.failed)
        return fail_nomem (fail);
    if (code && !strcmp (code, "GatedRepo") && !knows_us)
        return fail_set (fail, FAIL_GENERAL,
                         "model '%s' is gated: accept its conditions at %s/%s, and set HF_TOKEN or run hf auth login",
                         name, endpoint.text, name);
    if (code && !strcmp (code, "GatedRepo"))
        return fail_set (fail, FAIL_GENERAL,
                         "model '%s' is gated, and your token has no access to it: accept its conditions at %s/%s",
                         name, endpoint.text, name);
    if (code && !strcmp (code, "DisabledRepo"))
        return fail_set (fail, FAIL_GENERAL, "model '%s' has been disabled on the hub", name);
    if (status == 404 && file)
        return fail_set (fail, FAIL_GENERAL, "model '%s' has no file %s", name, file);
    if (status == 401 && knows_us && (!code || strcmp (code, "RepoNotFound") != 0))
        return fail_set (fail, FAIL_GENERAL,
                         "the hub does not accept your token (HF_TOKEN, or run hf auth login again)");
    if (status == 404 || status == 401)
        return fail_set (fail, FAIL_GENERAL, "model '%s' does not exist on the hub%s", name,
                         knows_us ? ", or your token has no access to it"
                                  : "; if it is private, set HF_TOKEN or run hf auth login");
    if (status == 403)
        return fail_set (fail, FAIL_GENERAL, "model '%s': the hub refuses access%s", name,
                         knows_us ? " with your token" : "; set HF_TOKEN or run hf auth login");
    if (status == 429)
        return fail_set (fail, FAIL_GENERAL, "the hub has had too many requests from here%s: try again later",
                         knows_us ? "" : " (it allows more with a token, HF_TOKEN)");
    return fail_set (fail, FAIL_GENERAL, "model '%s': the hub answered with status %d%s%s", name, status,
                     file ? " for " : "", file ? file : "");
}

int
hub_model (struct hub *hub, const char *name, struct hub_model *model, enum http_trouble *trouble, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    struct http_response response = { 0 };
    strbuf_printf (&url, "%s/api/models/%s", hub->endpoint, name);
    if (url.failed)
        return fail_nomem (fail);
    const struct http_request request = { .url = url.text, .bearer = hub->token };
    int result = http_get (hub->http, &request, &response, fail);
    *trouble = response.trouble;
    if (!result && response.status == 200)
        result = hub_model_parse (model, &response, fail);
    else if (!result)
        result = hub_refuse (hub, name, NULL, &response, fail);
    http_response_release (&response);
    return result;
}

char *
hub_cached (const struct hub *hub, const char *name)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *revision = NULL;
    strbuf_printf (&path, "%s/models--", hub->cache);
    for (; *name; name++)
        strbuf_add (&path, *name == '/' ? "--" : (char[]){ *name, '\0' });
    size_t length = path.length;
    strbuf_add (&path, "/refs/main");
    if (path.failed || io_read_file (path.text, MOST_REVISION, &revision, NULL, NULL)
        || revision[strspn (revision, "0123456789abcdef")])
        return NULL;
    strbuf_truncate (&path, length);
    strbuf_printf (&path, "/snapshots/%s", revision);
    if (path.failed || access (path.text, R_OK | X_OK))
        return NULL;
    return strbuf_take (&path);
}
