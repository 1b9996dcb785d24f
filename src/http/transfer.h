/* SPDX-License-Identifier: Apache-2.0 */
/* One request on its way: its attempts, its redirects, and what comes back.  http.c runs many. */
#ifndef HTTP_TRANSFER_H
#define HTTP_TRANSFER_H

#include "http/curl.h"
#include "http/http.h"

enum transfer_state { TRANSFER_WAITS, TRANSFER_RUNS, TRANSFER_ENDED };

/** All zero but the first four. */
struct transfer {
    const struct curl *curl;
    const struct http_options *options;
    const struct http_request *request;
    struct http_response *response;
    enum transfer_state state;
    CURL *easy;
    struct curl_slist *headers;
    char *url;             /* asked for now */
    unsigned hops;         /* redirects followed */
    bool is_abroad;        /* a redirect has left the origin of the request: nothing secret from then on */
    int file;              /* of body_path, while state is TRANSFER_RUNS; else -1 */
    int64_t deadline;      /* ms of clock_ms(); 0: not yet started */
    int64_t not_before;    /* ms: the pause before the next attempt */
    bool is_cut;           /* the receiver stopped, having enough */
    bool is_checked;       /* that the answer to a range is one */
    size_t header_bytes;
    char error[CURL_ERROR_SIZE];
};

/** Set up the next attempt on an easy handle.  @return 0; -1: it has ended without an answer */
int transfer_start (struct transfer *transfer);

/** An attempt is over: sets the state, and the pause if there is another one. */
void transfer_stop (struct transfer *transfer, CURLcode code);

/** End it without an answer. */
void transfer_fail (struct transfer *transfer, enum http_trouble trouble, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

void transfer_release (struct transfer *transfer);

/** The bytes and headers of an answer, as libcurl calls them; `data` is the transfer. @{ */
size_t receive_body (char *bytes, size_t size, size_t count, void *data);
size_t receive_header (char *bytes, size_t size, size_t count, void *data);
/** @} */

#endif
