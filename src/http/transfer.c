/* SPDX-License-Identifier: Apache-2.0 */
/* The attempts of one request; see transfer.h. */
#include <config.h>

#include "http/transfer.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <string.h>
#include <strings.h>
#include <sys/random.h>

enum {
    FIRST_PAUSE_MS = 400, /* before the second attempt; doubled for each further one */
    LONGEST_PAUSE_MS = 20000,
    CONNECTION_ATTEMPTS = 3, /* if no server answers at all */
};

static void
end (struct transfer *transfer)
{
    struct http_response *response = transfer->response;
    transfer->state = TRANSFER_ENDED;
    if (response->trouble)
        response->status = 0;
    free (response->url);
    response->url = transfer->url;
    transfer->url = NULL;
    if (!response->url && !(response->url = strdup (transfer->request->url)))
        fail_nomem (&response->fail);
}

/* What an attempt has left behind. */
static void
forget_answer (struct http_response *response)
{
    strbuf_truncate (&response->body, 0);
    strlist_release (&response->headers);
    response->status = 0;
    response->total = UINT64_MAX;
    response->trouble = HTTP_FINE;
    response->fail = (struct fail) { 0 };
}

int
transfer_start (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    int64_t now = clock_ms ();
    forget_answer (transfer->response);
    transfer->is_cut = transfer->is_checked = false;
    transfer->header_bytes = 0;
    if (!transfer->deadline)
        transfer->deadline = now + (request->total_ms ? request->total_ms : HTTP_TOTAL_MS);
    if (!transfer->url && !(transfer->url = strdup (request->url)))
        transfer_fail (transfer, HTTP_OTHER, "out of memory");
    else if (now >= transfer->deadline)
        transfer_fail (transfer, HTTP_TIMED_OUT, "no answer within %lld s",
                       (long long) (request->total_ms ? request->total_ms : HTTP_TOTAL_MS) / 1000);
    else if (!setup (transfer, transfer->deadline - now)) {
        transfer->response->attempts++;
        transfer->state = TRANSFER_RUNS;
        return 0;
    }
    end (transfer);
    return -1;
}

/* Somewhere between half of it and all of it, so that many clients do not come back at the same moment. */
static int64_t
random_pause (int64_t pause)
{
    uint32_t random = 0;
    if (getrandom (&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t) clock_ns ();
    return pause / 2 + (int64_t) (random % (uint32_t) (pause / 2 + 1));
}

/* Plan another attempt if there may be one before the deadline.  @return whether there will be */
static bool
try_again (struct transfer *transfer, unsigned most)
{
    const struct http_response *response = transfer->response;
    unsigned attempts = transfer->request->attempts ? transfer->request->attempts : HTTP_ATTEMPTS;
    curl_off_t asked = 0;
    int64_t pause = FIRST_PAUSE_MS;
    if (response->attempts >= (attempts < most ? attempts : most))
        return false;
    for (unsigned i = 1; i < response->attempts && pause < LONGEST_PAUSE_MS; i++)
        pause *= 2;
    pause = random_pause (pause < LONGEST_PAUSE_MS ? pause : LONGEST_PAUSE_MS);
    transfer->curl->easy_getinfo (transfer->easy, CURLINFO_RETRY_AFTER, &asked);
    if (asked > INT32_MAX)
        return false;
    if (pause < asked * 1000)
        pause = asked * 1000;
    int64_t next = clock_ms () + pause;
    if (next >= transfer->deadline)
        return false;
    transfer->not_before = next;
    transfer->state = TRANSFER_WAITS;
    return true;
}

static bool
is_busy (const struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    int status = transfer->response->status;
    return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504)
           || (request->is_throttled && request->is_throttled (transfer->response));
}

static bool
is_read_only (const struct http_request *request)
{
    return request->method ? !strcmp (request->method, "GET") || !strcmp (request->method, "HEAD")
                           : !request->body && !request->body_path;
}

/* Follow a redirect.  @return whether the request continues, or has failed; false: this is the answer */
static bool
follow (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    int status = transfer->response->status;
    const char *next = NULL;
    bool is_redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    if (!is_redirect || request->no_redirects || request->aws || !is_read_only (request))
        return false;
    transfer->curl->easy_getinfo (transfer->easy, CURLINFO_REDIRECT_URL, &next);
    if (!next)
        return false;
    AUTO_STRBUF struct strbuf shown = { 0 };
    http_show_url (&shown, next);
    if (transfer->hops >= (request->redirects ? request->redirects : HTTP_REDIRECTS))
        transfer_fail (transfer, HTTP_REDIRECTED, "redirected more than %u times, at last to %.300s", transfer->hops,
                       shown.text ? shown.text : "");
    else if (!http_same_origin (next, next)
             || (!strncasecmp (transfer->url, "https:", 6) && strncasecmp (next, "https:", 6)))
        transfer_fail (transfer, HTTP_REDIRECTED, "refused a redirect to %.300s", shown.text ? shown.text : "");
    else {
        char *copy = strdup (next);
        if (!copy) {
            transfer_fail (transfer, HTTP_OTHER, "out of memory");
        } else {
            transfer->is_abroad |= !http_same_origin (request->url, next);
            free (transfer->url);
            transfer->url = copy;
            transfer->hops++;
            transfer->response->attempts--; /* the next request is part of this attempt */
            transfer->not_before = 0;
            transfer->state = TRANSFER_WAITS;
            return true;
        }
    }
    end (transfer);
    return true;
}

struct meaning {
    CURLcode code;
    enum http_trouble trouble;
    unsigned attempts; /* how often it is worth trying */
    const char *text;  /* NULL: libcurl's */
};

static const struct meaning meanings[] = {
    { CURLE_COULDNT_RESOLVE_HOST, HTTP_NO_HOST, 1, "the host is unknown: is this machine offline?" },
    { CURLE_COULDNT_RESOLVE_PROXY, HTTP_NO_CONNECTION, 1, "the proxy's host is unknown" },
    { CURLE_COULDNT_CONNECT, HTTP_NO_CONNECTION, CONNECTION_ATTEMPTS, NULL },
    { CURLE_OPERATION_TIMEDOUT, HTTP_TIMED_OUT, CONNECTION_ATTEMPTS, NULL },
    { CURLE_PEER_FAILED_VERIFICATION, HTTP_NO_TRUST, 1, NULL },
    { CURLE_SSL_CACERT_BADFILE, HTTP_NO_TRUST, 1, "cannot read the file of trusted certificates" },
    { CURLE_SSL_CONNECT_ERROR, HTTP_BROKEN, CONNECTION_ATTEMPTS, NULL },
    { CURLE_GOT_NOTHING, HTTP_BROKEN, UINT32_MAX, "the server closed the connection without an answer" },
    { CURLE_PARTIAL_FILE, HTTP_BROKEN, UINT32_MAX, "the connection broke before the end of the answer" },
    { CURLE_RECV_ERROR, HTTP_BROKEN, UINT32_MAX, NULL },
    { CURLE_SEND_ERROR, HTTP_BROKEN, UINT32_MAX, NULL },
    { CURLE_HTTP2, HTTP_BROKEN, UINT32_MAX, NULL },
    { CURLE_HTTP2_STREAM, HTTP_BROKEN, UINT32_MAX, NULL },
    { CURLE_WEIRD_SERVER_REPLY, HTTP_BROKEN, 1, NULL },
    /* libcurl's own limit for one header; since 8.6 it is CURLE_TOO_LARGE, which older headers of it lack */
    { CURLE_OUT_OF_MEMORY, HTTP_OTHER, 1, "out of memory, or a header of the answer is too long" },
    { (CURLcode) 100, HTTP_OTHER, 1, "a header of the answer is too long" },
    { CURLE_UNSUPPORTED_PROTOCOL, HTTP_BROKEN, 1, "the answer is not HTTP" },
};

/* Without a tunnel through the proxy, there was no server that could have answered.  @return whether that was it */
static bool
fail_by_proxy (struct transfer *transfer)
{
    long status = 0;
    transfer->curl->easy_getinfo (transfer->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    if (!status || status / 100 == 2 || transfer->response->trouble)
        return false;
    if (status >= 500 && try_again (transfer, CONNECTION_ATTEMPTS))
        return true;
    transfer_fail (transfer, HTTP_NO_CONNECTION, "the proxy refuses the connection: status %ld", status);
    end (transfer);
    return true;
}

/* An attempt without a whole answer. */
static void
fail_by_code (struct transfer *transfer, CURLcode code)
{
    static const struct meaning unknown = { .trouble = HTTP_OTHER, .attempts = 1 };
    const struct http_request *request = transfer->request;
    const struct meaning *meaning = &unknown;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].code == code)
            meaning = &meanings[i];
    if (fail_by_proxy (transfer))
        return;
    bool was_sent = meaning->trouble == HTTP_BROKEN || meaning->trouble == HTTP_TIMED_OUT;
    bool may_repeat = is_read_only (request) || request->is_repeatable || request->body_path || !was_sent;
    if (!transfer->response->trouble && may_repeat && try_again (transfer, meaning->attempts))
        return;
    transfer_fail (transfer, meaning->trouble, "%s",
                   meaning->text     ? meaning->text
                   : *transfer->error ? transfer->error
                                      : transfer->curl->easy_strerror (code));
    end (transfer);
}

void
transfer_stop (struct transfer *transfer, CURLcode code)
{
    long status = 0;
    if (transfer->file >= 0)
        close (transfer->file);
    transfer->file = -1;
    char nothing[1] = "";
    if (!code && !transfer->is_checked)
        receive_body (nothing, 1, 0, transfer); /* an answer without a body is checked here */
    transfer->curl->easy_getinfo (transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->response->status = (int) status;
    if (transfer->response->trouble || (code && !(code == CURLE_WRITE_ERROR && transfer->is_cut)))
        fail_by_code (transfer, code);
    else if (!follow (transfer) && (!is_busy (transfer) || !try_again (transfer, UINT32_MAX)))
        end (transfer);
}

void
transfer_release (struct transfer *transfer)
{
    if (transfer->easy)
        transfer->curl->easy_cleanup (transfer->easy);
    transfer->curl->slist_free_all (transfer->headers);
    if (transfer->file >= 0)
        close (transfer->file);
    free (transfer->url);
}
