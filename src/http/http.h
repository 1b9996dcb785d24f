/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests through libcurl, which is loaded when the first client is opened: commands that make no request pay
 * nothing for it.
 *
 * What holds for every request:
 * - TLS certificates are verified. Proxies come from http_proxy, HTTPS_PROXY, ALL_PROXY and NO_PROXY, and also from
 *   HTTP_PROXY, as Python's stack reads it; certificates from REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE and
 *   SSL_CERT_DIR (for requests to AWS, AWS_CA_BUNDLE comes first).
 * - It has deadlines: for connecting, for silence in between, and for everything, retries and pauses included.
 * - Statuses 408, 429, 500, 502, 503 and 504, and broken connections, are retried with growing random pauses, or after
 *   the server's Retry-After. If that is beyond the deadline, the caller gets the answer at once.
 * - At most `redirects` redirects of a GET or HEAD are followed, never from https to http. `headers`, `bearer` and
 *   `aws` are sent to the origin (scheme, host and port) of `url` only.
 * - An answer with a larger body than `most` fails.
 * - Messages and logs name a URL without its query, user and password, and never a header.
 *
 * Not for use by several threads. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_CONNECT_MS = 10000,   /* default of connect_ms */
    HTTP_SILENCE_MS = 20000,   /* without a byte in either direction */
    HTTP_TOTAL_MS = 60000,     /* default of total_ms */
    HTTP_ATTEMPTS = 5,         /* default of attempts */
    HTTP_REDIRECTS = 5,        /* default of redirects */
    HTTP_MOST = 16777216,      /* default of most */
    HTTP_PARALLEL = 8,         /* requests at a time */
};

/** Sign a request for AWS (Signature Version 4). All texts belong to the caller. */
struct http_aws {
    const char *region;        /* "us-east-1" */
    const char *service;       /* "sagemaker", "s3", "sts", "iam", "logs" */
    const char *access_key;
    const char *secret_key;
    const char *session_token; /* or NULL; sent as X-Amz-Security-Token */
};

struct http_response;

/** All zero but `url` is a GET with the defaults. What it points to must stay until http_perform() returns. */
struct http_request {
    const char *url;            /* https:// or http:// */
    const char *method;         /* NULL: GET, POST if there is a body, PUT if it is in a file */
    const char *const *headers; /* [header_count] "Name: value" */
    size_t header_count;
    const void *body;           /* [body_length] bytes */
    size_t body_length;
    const char *body_path;      /* or: send this file; it is read while it is sent */
    const char *bearer;         /* a token, or NULL */
    const struct http_aws *aws; /* or NULL */
    bool is_for_aws;            /* AWS_CA_BUNDLE counts though it is not signed */
    uint64_t range_first;       /* with range_length: ask for these bytes only */
    uint64_t range_length;      /* 0: everything */
    size_t most;                /* bytes of the answer's body; 0: HTTP_MOST; with a range, its length */
    int64_t connect_ms;         /* 0: HTTP_CONNECT_MS */
    int64_t total_ms;           /* 0: HTTP_TOTAL_MS */
    unsigned attempts;          /* 0: HTTP_ATTEMPTS; 1: no retries */
    unsigned redirects;         /* 0: HTTP_REDIRECTS; see no_redirects */
    bool no_redirects;          /* the caller gets the answer 3xx; always so with `aws` */
    bool no_proxy;              /* for addresses of this machine or link, such as 169.254.169.254 */
    bool is_repeatable;         /* send it again after a connection broke, though it is a POST or PATCH */
    /* Also retry this answer, such as AWS's status 400 with ThrottlingException. NULL: no. */
    bool (*is_throttled) (const struct http_response *response);
};

/** Why there was no answer, for callers that say more about it. */
enum http_trouble {
    HTTP_FINE,
    HTTP_NO_HOST,     /* the name of the host is unknown: offline? */
    HTTP_NO_CONNECTION,
    HTTP_TIMED_OUT,
    HTTP_BROKEN,      /* the connection broke, or the data is not HTTP */
    HTTP_NO_TRUST,    /* TLS: the certificate is not accepted */
    HTTP_TOO_LARGE,
    HTTP_REDIRECTED,  /* too often, or to a place that is refused */
    HTTP_NO_RANGES,   /* the server does not serve parts of this resource */
    HTTP_STOPPED,     /* stop_fd became readable */
    HTTP_OTHER,
};

/** The last answer to a request. All zero before; for http_response_release(). */
struct http_response {
    int status;             /* 200 ...; 0: there was no answer, see `fail` */
    struct strbuf body;     /* `text` is NULL if empty; may contain zero bytes */
    struct strlist headers; /* "name: value", names in lower case, without blanks around the value */
    char *url;              /* that answered, after redirects */
    uint64_t total;         /* bytes of the whole resource, UINT64_MAX: unknown; from Content-Range or Content-Length */
    unsigned attempts;
    struct fail fail;       /* why there was no answer: one line, which names the host */
    enum http_trouble trouble; /* the kind of it */
};

/** How a client works; all zero but stop_fd is fine. */
struct http_options {
    int stop_fd;        /* end when this becomes readable (a signalfd, an eventfd); -1: never */
    unsigned parallel;  /* 0: HTTP_PARALLEL */
    void *data;         /* for the functions */
    void (*answered) (void *data, size_t number); /* request `number` has its last answer, or failed; or NULL */
    void (*moved) (void *data, uint64_t bytes);   /* so many bytes of bodies more were sent or received; or NULL */
};

/** Connections are kept open between calls with one client. */
struct http;

/** Load libcurl and make a client.  Fails if there is no libcurl, or this build has no use for it (--with-curl=no). */
int http_open (struct http **http, const struct http_options *options, struct fail *fail);

/** Accepts NULL. */
void http_close (struct http *http);

/**
 * Make requests, several at a time, and wait for all of them.
 *
 * @param[out] responses  [count], all zero before; for http_response_release(), also after a failure
 * @return 0: each has an answer, of whatever status; -1 with @p fail set: at least one has none (status 0), and
 *         @p fail is what the first of them says.  The others are then not made, or cancelled.
 */
int http_perform (struct http *http, const struct http_request *requests, struct http_response *responses, size_t count,
                  struct fail *fail);

/** One request. */
static inline int
http_get (struct http *http, const struct http_request *request, struct http_response *response, struct fail *fail)
{
    return http_perform (http, request, response, 1, fail);
}

void http_response_release (struct http_response *response);

/** @param name  in lower case  @return the value of the last header of this name, or NULL */
const char *http_header (const struct http_response *response, const char *name);

/** Append @p text with everything percent-encoded but letters, digits, "-._~", and "/" if @p keep_slashes. */
void http_encode (struct strbuf *out, const char *text, bool keep_slashes);

/** Append @p url as messages show it: without query, fragment, user and password; control characters escaped. */
void http_show_url (struct strbuf *out, const char *url);

/** @return whether both are of the same scheme, host and port; false if either is not an http or https URL. */
bool http_same_origin (const char *a, const char *b);

/**
 * The answer's body as JSON (jansson's json_t, for json_decref()).  Of duplicate keys, the last counts.
 *
 * @return NULL with @p fail set: "HOST answered with invalid JSON: ..."
 */
struct json_t *http_json (const struct http_response *response, struct fail *fail);

/** @return libcurl's version with its TLS library ("7.88.1, OpenSSL/3.0.16"), or why there is none; static storage. */
const char *http_version (void);

#endif
