/* SPDX-License-Identifier: Apache-2.0 */
/* What callers do with answers; needs no libcurl. */
#include <config.h>

#include "http/http.h"
#include "http/url.h"

#include <jansson.h>
#include <string.h>

const char *
http_header (const struct http_response *response, const char *name)
{
    size_t length = strlen (name);
    for (size_t i = response->headers.count; i-- > 0;) {
        const char *line = response->headers.items[i];
        if (!strncmp (line, name, length) && line[length] == ':')
            return line + length + 2;
    }
    return NULL;
}

void
http_response_release (struct http_response *response)
{
    strbuf_release (&response->body);
    strlist_release (&response->headers);
    free (response->url);
    *response = (struct http_response) { 0 };
}

json_t *
http_json (const struct http_response *response, struct fail *fail)
{
    json_error_t error;
    json_t *json = json_loadb (response->body.text ? response->body.text : "", response->body.length, 0, &error);
    if (!json && (json_error_code (&error) == json_error_out_of_memory || !*error.text))
        fail_nomem (fail);
    else if (!json) {
        AUTO_STRBUF struct strbuf shown = { 0 };
        http_show_url (&shown, response->url ? response->url : "");
        fail_set (fail, FAIL_GENERAL, "%s: the answer is not valid JSON: line %d: %s", shown.text ? shown.text : "",
                  error.line, error.text);
    }
    return json;
}
