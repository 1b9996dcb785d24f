/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of answers to HTTP requests: three bytes for the status, the request and the pieces of the body, header lines,
 * an empty line, and the body. */
#include <config.h>

#include "http/attempt.h"
#include "tests/fuzz/target.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>

enum { MOST = 64 };

static long status;

/* libcurl's, for the only thing that is asked. */
static CURLcode
tell_status (CURL *easy, CURLINFO info, ...)
{
    va_list args;
    (void) easy;
    va_start (args, info);
    *va_arg (args, long *) = status;
    va_end (args);
    return CURLE_OK;
}

/* @return whether more of the answer follows */
static bool
send_headers (struct transfer *transfer, char **at, char *end)
{
    while (*at < end) {
        char *next = memchr (*at, '\n', (size_t) (end - *at));
        next = next ? next + 1 : end;
        size_t length = (size_t) (next - *at);
        char *line = malloc (length); /* so that a read past its end is noticed */
        if (!line)
            return false;
        memcpy (line, *at, length);
        bool is_last = length == 1, goes_on = receive_header (line, 1, length, transfer) == length;
        free (line);
        *at = next;
        if (is_last || !goes_on)
            return goes_on;
    }
    return true;
}

static void
check (const struct http_response *response)
{
    if (response->trouble)
        assert (*response->fail.text && !strchr (response->fail.text, '\n'));
    assert (response->body.length <= MOST || response->status >= 300);
    for (size_t i = 0; i < response->headers.count; i++) {
        const char *line = response->headers.items[i], *colon = strchr (line, ':');
        assert (colon && colon[1] == ' ' && !strchr (line, '\n'));
        for (const char *c = line; c < colon; c++)
            assert (!isupper ((unsigned char) *c));
    }
    const char *type = http_header (response, "content-type");
    assert (!type || !isspace ((unsigned char) *type));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static const long statuses[] = { 200, 206, 304, 404, 416, 503, 0, 999 };
    if (size < 3)
        return 0;
    const struct curl curl = { .easy_getinfo = tell_status };
    const struct http_options usual = { .stop_fd = -1 };
    struct http_request request = { .url = "http://hub/x", .most = MOST };
    struct http_response response = { .total = UINT64_MAX };
    struct transfer transfer
        = { .curl = &curl, .options = &usual, .request = &request, .response = &response, .file = -1 };
    status = statuses[data[0] % 8];
    request.range_first = data[1] & 1 ? 7 : 0;
    request.range_length = data[1] & 2 ? MOST : 0;
    char *text = malloc (size), *at = text, *end = text + size - 3;
    if (!text)
        return 0;
    memcpy (text, data + 3, size - 3);
    bool goes_on = send_headers (&transfer, &at, end);
    while (goes_on && at < end) {
        size_t length = data[2] ? data[2] : 1;
        length = length < (size_t) (end - at) ? length : (size_t) (end - at);
        goes_on = receive_body (at, 1, length, &transfer) == length;
        at += length;
    }
    check (&response);
    http_response_release (&response);
    free (text);
    return 0;
}
