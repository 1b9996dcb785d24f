/* SPDX-License-Identifier: Apache-2.0 */
/* What a server sends: bounded in size, and compared with what was asked for. */
#include <config.h>

#include "http/attempt.h"

#include "util/cleanup.h"
#include "util/parse.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
    MOST_HEADER_BYTES = 262144,
    MOST_ERROR_BYTES = 65536, /* of the body of an answer that is a refusal */
};

/* "bytes 0-7/123": the first number and the last; "*" for 123 is unknown. */
static bool
parse_content_range (const char *text, uint64_t *first, uint64_t *total)
{
    char *end;
    *total = UINT64_MAX;
    if (strncasecmp (text, "bytes ", 6) || !isdigit ((unsigned char) text[6]))
        return false;
    *first = strtoull (text + 6, &end, 10);
    const char *slash = strchr (end, '/');
    if (*end != '-' || !slash)
        return false;
    if (isdigit ((unsigned char) slash[1]))
        *total = strtoull (slash + 1, NULL, 10);
    return true;
}

static void
take_total (struct transfer *transfer)
{
    struct http_response *response = transfer->response;
    const char *length = http_header (response, "content-length");
    int64_t value;
    if (length && response->status != 206 && parse_int64 (length, 0, INT64_MAX, &value) == PARSE_OK)
        response->total = (uint64_t) value;
}

/* Before the first byte of a body. */
static bool
check_answer (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    struct http_response *response = transfer->response;
    long status = 0;
    transfer->curl->easy_getinfo (transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    response->status = (int) status;
    transfer->is_checked = true;
    take_total (transfer);
    const char *encoding = http_header (response, "content-encoding");
    if (encoding && status < 300 && *encoding && strcasecmp (encoding, "identity")) {
        transfer_fail (transfer, HTTP_BROKEN, "the answer has the content encoding %.40s, which was not asked for",
                       encoding);
        return false;
    }
    if (!request->range_length || status >= 300)
        return true;
    if (status == 206) {
        const char *range = http_header (response, "content-range");
        uint64_t first;
        if (range && parse_content_range (range, &first, &response->total) && first == request->range_first)
            return true;
        transfer_fail (transfer, HTTP_BROKEN, "the answer to a request for bytes %llu and following has %s%.60s",
                       (unsigned long long) request->range_first, range ? "the range " : "no range",
                       range ? range : "");
        return false;
    }
    if (!request->range_first)
        return true;
    transfer_fail (transfer, HTTP_NO_RANGES, "the server sends whole files only, not parts of them");
    return false;
}

size_t
receive_body (char *bytes, size_t size, size_t count, void *data)
{
    struct transfer *transfer = data;
    const struct http_request *request = transfer->request;
    struct http_response *response = transfer->response;
    size_t length = size * count;
    if (!transfer->is_checked && !check_answer (transfer))
        return 0;
    size_t most = request->range_length  ? (size_t) request->range_length
                  : request->most        ? request->most
                                         : HTTP_MOST;
    bool is_refusal = response->status >= 300;
    if (is_refusal)
        most = MOST_ERROR_BYTES;
    size_t taken = length < most - response->body.length ? length : most - response->body.length;
    strbuf_add_bytes (&response->body, bytes, taken);
    if (transfer->options->moved)
        transfer->options->moved (transfer->options->data, taken);
    if (response->body.failed) {
        transfer_fail (transfer, HTTP_OTHER, "out of memory");
        return 0;
    }
    if (taken == length)
        return length;
    /* Status 200 to a request for a range is the whole file: its beginning is enough. */
    if (is_refusal || (request->range_length && response->status == 200))
        transfer->is_cut = true;
    else
        transfer_fail (transfer, HTTP_TOO_LARGE, "the answer is larger than %zu bytes", most);
    return 0;
}

size_t
receive_header (char *bytes, size_t size, size_t count, void *data)
{
    struct transfer *transfer = data;
    struct strlist *headers = &transfer->response->headers;
    size_t length = size * count;
    if (length > 5 && !memcmp (bytes, "HTTP/", 5)) { /* another answer: after 100 Continue */
        strlist_release (headers);
        return length;
    }
    transfer->header_bytes += length;
    if (transfer->header_bytes > MOST_HEADER_BYTES) {
        transfer_fail (transfer, HTTP_TOO_LARGE, "the answer has more than %d bytes of headers", MOST_HEADER_BYTES);
        return 0;
    }
    const char *colon = memchr (bytes, ':', length);
    const char *value = colon ? colon + 1 : NULL;
    const char *end = bytes + length;
    if (!colon || memchr (bytes, '\0', length))
        return length;
    while (value < end && isspace ((unsigned char) *value))
        value++;
    while (end > value && isspace ((unsigned char) end[-1]))
        end--;
    strlist_printf (headers, "%.*s: %.*s", (int) (colon - bytes), bytes, (int) (end - value), value);
    if (headers->failed) {
        transfer_fail (transfer, HTTP_OTHER, "out of memory");
        return 0;
    }
    for (char *c = headers->items[headers->count - 1]; *c != ':'; c++)
        *c = (char) tolower ((unsigned char) *c);
    return length;
}
