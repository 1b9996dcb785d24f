/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: their parts, which have the same origin, how texts get into them, and what messages show.  Names of headers. */
#include <config.h>

#include "http/http.h"
#include "http/url.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <string.h>

/* "SCHEME HOST PORT PATH" */
static const struct {
    const char *url, *parts;
} splits[] = {
    { "http://host", "http host 80 " },
    { "https://host/a?b#c", "https host 443 /a?b#c" },
    { "HTTPS://host:8443?q", "HTTPS host 8443 ?q" },
    { "http://user:secret@host:81/p@q", "http host 81 /p@q" },
    { "http://[::1]:81/", "http [::1] 81 /" },
    { "http://host:/", "http host 80 /" },
    { "http:///path", NULL },
    { "ftp://host/", NULL },
};

static void
test_split (void)
{
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        struct url url;
        char got[128] = "";
        bool good = url_split (splits[i].url, &url);
        if (good)
            snprintf (got, sizeof got, "%.*s %.*s %.*s %s", (int) url.scheme_length, url.scheme, (int) url.host_length,
                      url.host, (int) url.port_length, url.port, url.path);
        ok (good == !!splits[i].parts && (!good || !strcmp (got, splits[i].parts)), "the parts of %s: %s",
            splits[i].url, got);
    }
}

static const struct {
    const char *one, *other;
    bool same;
} origins[] = {
    { "http://host/a", "HTTP://HOST:80/b?c", true },
    { "https://host/a", "https://host:443/", true },
    { "https://user:secret@host", "https://host", true },
    { "https://host", "http://host:443", false },
    { "https://host", "https://host:80", false },
    { "http://host", "http://host:8080", false },
    { "http://host:8080", "http://host:8081", false },
    { "http://host", "http://post", false },
    { "http://host", "http://host.example", false },
    { "http://host@other", "http://host", false },
    { "file:///a", "file:///a", false },
};

static void
test_origins (void)
{
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        ok (http_same_origin (origins[i].one, origins[i].other) == origins[i].same
                && http_same_origin (origins[i].other, origins[i].one) == origins[i].same,
            "%s and %s %s one origin", origins[i].one, origins[i].other, origins[i].same ? "are" : "are not");
}

static void
test_texts (void)
{
    static const struct {
        const char *url, *shown;
    } shown[] = {
        { "https://user:secret@host:81/path?token=1#part", "https://host:81/path" },
        { "https://host?token=1", "https://host" },
        { "not a URL", "not a URL" },
    };
    AUTO_STRBUF struct strbuf out = { 0 };
    http_encode (&out, "a/b c-._~%\xc3\xa4", true);
    is_text (out.text, "a/b%20c-._~%25%C3%A4", "slashes are kept");
    strbuf_truncate (&out, 0);
    http_encode (&out, "a/b", false);
    is_text (out.text, "a%2Fb", "or not");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        strbuf_truncate (&out, 0);
        http_show_url (&out, shown[i].url);
        is_text (out.text, shown[i].shown, "what messages show has no secrets");
    }
}

static void
test_headers (void)
{
    struct http_response response = { .status = 200 };
    strlist_add (&response.headers, "a: first");
    strlist_add (&response.headers, "a: second");
    strlist_add (&response.headers, "a-b: third");
    is_text (http_header (&response, "a"), "second", "the last header of a name counts");
    is_text (http_header (&response, "a-b"), "third", "names may begin alike");
    is_text (http_header (&response, "b"), NULL, "a missing header");
    http_response_release (&response);
}

int
main (void)
{
    test_split ();
    test_origins ();
    test_texts ();
    test_headers ();
    return done_testing ();
}
