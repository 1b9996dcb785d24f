/* SPDX-License-Identifier: Apache-2.0 */
/* What callers do with URLs and answers, without libcurl: encoding, origins, what messages show; headers, JSON. */
#include <config.h>

#include "http/url.h"
#include "http/http.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

static bool
is_alphanumeric (char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void
http_encode (struct strbuf *out, const char *text, bool keep_slashes)
{
    for (; *text; text++) {
        if (is_alphanumeric (*text) || strchr ("-._~", *text) || (keep_slashes && *text == '/'))
            strbuf_add_char (out, *text);
        else
            strbuf_printf (out, "%%%02X", (unsigned char) *text);
    }
}

bool
url_split (const char *url, struct url *parts)
{
    *parts = (struct url) { .scheme = url };
    if (!strncasecmp (url, "https://", 8))
        parts->scheme_length = 5;
    else if (!strncasecmp (url, "http://", 7))
        parts->scheme_length = 4;
    else
        return false;
    const char *host = url + parts->scheme_length + 3;
    const char *end = host + strcspn (host, "/?#");
    for (const char *at = host; at < end; at++)
        if (*at == '@')
            host = at + 1;
    const char *port = end;
    while (port > host && port[-1] >= '0' && port[-1] <= '9')
        port--;
    bool has_port = port > host && port[-1] == ':';
    parts->host = host;
    parts->host_length = (size_t) ((has_port ? port - 1 : end) - host);
    parts->port = has_port ? port : "";
    parts->port_length = has_port ? (size_t) (end - port) : 0;
    if (!parts->port_length) {
        parts->port = parts->scheme_length == 5 ? "443" : "80";
        parts->port_length = strlen (parts->port);
    }
    parts->path = end;
    return parts->host_length > 0;
}

bool
http_same_origin (const char *a, const char *b)
{
    struct url left, right;
    return url_split (a, &left) && url_split (b, &right) && left.scheme_length == right.scheme_length
           && left.host_length == right.host_length && !strncasecmp (left.host, right.host, left.host_length)
           && left.port_length == right.port_length && !strncmp (left.port, right.port, left.port_length);
}

void
http_show_url (struct strbuf *out, const char *url)
{
    AUTO_STRBUF struct strbuf clean = { 0 };
    struct url parts;
    if (!url_split (url, &parts)) {
        printable_add (out, url);
        return;
    }
    strbuf_add_bytes (&clean, url, parts.scheme_length + 3);
    strbuf_add_bytes (&clean, parts.host, strcspn (parts.host, "?#"));
    if (clean.failed)
        out->failed = true;
    else
        printable_add (out, clean.text);
}

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
