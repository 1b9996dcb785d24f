/* SPDX-License-Identifier: Apache-2.0 */
/* One request on its way, as all files of this folder see it. */
#ifndef HTTP_ATTEMPT_H
#define HTTP_ATTEMPT_H

#include "http/curl.h"
#include "http/http.h"

enum transfer_state { TRANSFER_WAITS, TRANSFER_RUNS, TRANSFER_ENDED };

/** All zero but the first four and `file`, -1. */
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

/** Note why there is no answer; the first cause counts. */
void transfer_fail (struct transfer *transfer, enum http_trouble trouble, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/** setup.c: set all options of the next attempt.  @param left  ms until the deadline
 *  @return 0, or -1: transfer_fail() was called */
int setup (struct transfer *transfer, int64_t left);

/** receive.c: the bytes and headers of an answer, as libcurl calls them; `data` is the transfer.  @{ */
size_t receive_body (char *bytes, size_t size, size_t count, void *data);
size_t receive_header (char *bytes, size_t size, size_t count, void *data);
/** @} */

#endif
