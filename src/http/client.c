/* SPDX-License-Identifier: Apache-2.0 */
/* The client: runs several transfers at a time until all have ended. */
#include <config.h>

#include "http/http.h"

#include "http/transfer.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <stdlib.h>

struct http {
    const struct curl *curl;
    CURLM *multi;
    struct http_options options;
};

/* The requests of one call. */
struct batch {
    struct http *http;
    struct transfer *transfers; /* [count] */
    size_t count, ended, running;
    const struct transfer *failed; /* the first without an answer */
};

int
http_open (struct http **out, const struct http_options *options, struct fail *fail)
{
    *out = NULL;
    const struct curl *curl = curl_load (fail);
    if (!curl)
        return -1;
    struct http *http = calloc (1, sizeof *http);
    if (!http)
        return fail_nomem (fail);
    http->curl = curl;
    http->options = *options;
    http->multi = curl->multi_init ();
    if (!http->multi) {
        free (http);
        return fail_nomem (fail);
    }
    *out = http;
    return 0;
}

void
http_close (struct http *http)
{
    if (!http)
        return;
    http->curl->multi_cleanup (http->multi);
    free (http);
}

static void
note_end (struct batch *batch, struct transfer *transfer)
{
    const struct http_options *options = &batch->http->options;
    batch->ended++;
    if (transfer->response->trouble && !batch->failed)
        batch->failed = transfer;
    if (options->answered)
        options->answered (options->data, (size_t) (transfer - batch->transfers));
}

/* Start those whose time has come.  @return ms until the next one's time, at most a second */
static int
start_some (struct batch *batch)
{
    struct http *http = batch->http;
    size_t most = http->options.parallel ? http->options.parallel : HTTP_PARALLEL;
    int64_t now = clock_ms (), next = now + 1000;
    for (size_t i = 0; i < batch->count && batch->running < most && !batch->failed; i++) {
        struct transfer *transfer = &batch->transfers[i];
        if (transfer->state != TRANSFER_WAITS)
            continue;
        if (transfer->not_before > now) {
            next = transfer->not_before < next ? transfer->not_before : next;
            continue;
        }
        if (!transfer_start (transfer)) {
            CURLMcode code = http->curl->multi_add_handle (http->multi, transfer->easy);
            if (!code) {
                batch->running++;
                continue;
            }
            transfer_fail (transfer, HTTP_OTHER, "%s", http->curl->multi_strerror (code));
            transfer->state = TRANSFER_ENDED;
        }
        note_end (batch, transfer);
    }
    return (int) (next - now);
}

static void
take_ends (struct batch *batch)
{
    struct http *http = batch->http;
    CURLMsg *message;
    int left;
    while ((message = http->curl->multi_info_read (http->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        struct transfer *transfer = NULL;
        CURLcode code = message->data.result;
        http->curl->easy_getinfo (message->easy_handle, CURLINFO_PRIVATE, &transfer);
        http->curl->multi_remove_handle (http->multi, transfer->easy);
        batch->running--;
        transfer_stop (transfer, code);
        if (transfer->state == TRANSFER_ENDED)
            note_end (batch, transfer);
    }
}

/* @return 0; -1: the caller's stop_fd is readable, or libcurl failed */
static int
wait_for_news (struct batch *batch, int ms, struct fail *fail)
{
    struct http *http = batch->http;
    struct curl_waitfd stop = { .fd = http->options.stop_fd, .events = CURL_WAIT_POLLIN };
    CURLMcode code = http->curl->multi_poll (http->multi, &stop, stop.fd >= 0, ms, NULL);
    if (code)
        return fail_set (fail, FAIL_GENERAL, "libcurl: %s", http->curl->multi_strerror (code));
    struct pollfd look = { .fd = stop.fd, .events = POLLIN };
    if (stop.fd >= 0 && poll (&look, 1, 0) > 0)
        return fail_set (fail, FAIL_GENERAL, "interrupted");
    return 0;
}

static int
run (struct batch *batch, struct fail *fail)
{
    struct http *http = batch->http;
    int running;
    while (batch->ended < batch->count && !batch->failed) {
        int ms = start_some (batch);
        CURLMcode code = http->curl->multi_perform (http->multi, &running);
        if (code)
            return fail_set (fail, FAIL_GENERAL, "libcurl: %s", http->curl->multi_strerror (code));
        size_t ended = batch->ended, before = batch->running;
        take_ends (batch);
        if (ended == batch->ended && before == batch->running && !batch->failed && wait_for_news (batch, ms, fail))
            return -1;
    }
    if (!batch->failed)
        return 0;
    *fail = batch->failed->response->fail;
    return -1;
}

/* Those that have not ended say why. */
static void
cancel (struct batch *batch, const struct fail *fail)
{
    struct http *http = batch->http;
    for (size_t i = 0; i < batch->count; i++) {
        struct transfer *transfer = &batch->transfers[i];
        if (transfer->state == TRANSFER_RUNS)
            http->curl->multi_remove_handle (http->multi, transfer->easy);
        if (transfer->state != TRANSFER_ENDED) {
            transfer->response->status = 0;
            transfer->response->fail = *fail;
            transfer->response->trouble = HTTP_STOPPED;
        }
    }
}

int
http_perform (struct http *http, const struct http_request *requests, struct http_response *responses, size_t count,
              struct fail *fail)
{
    struct fail unused;
    struct batch batch = { .http = http, .count = count, .transfers = calloc (count + 1, sizeof *batch.transfers) };
    if (!fail)
        fail = &unused;
    if (!batch.transfers)
        return fail_nomem (fail);
    for (size_t i = 0; i < count; i++)
        batch.transfers[i] = (struct transfer) { .curl = http->curl, .options = &http->options,
                                                 .request = &requests[i], .response = &responses[i], .file = -1 };
    int result = run (&batch, fail);
    if (result)
        cancel (&batch, fail);
    for (size_t i = 0; i < count; i++)
        transfer_release (&batch.transfers[i]);
    free (batch.transfers);
    return result;
}
