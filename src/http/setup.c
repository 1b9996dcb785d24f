/* SPDX-License-Identifier: Apache-2.0 */
/* The options of one attempt: where to, who is trusted, what is sent, and for how long. */
#include <config.h>

#include "http/attempt.h"

#include "util/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* An option that every libcurl since 7.75 has, and accepts. */
#define SET(option, value)                                                                              \
    do {                                                                                                \
        CURLcode code_ = transfer->curl->easy_setopt (transfer->easy, CURLOPT_##option, (value));       \
        if (code_) {                                                                                    \
            transfer_fail (transfer, HTTP_OTHER, "%s", transfer->curl->easy_strerror (code_));          \
            return -1;                                                                                  \
        }                                                                                               \
    } while (0)

/* One of proxies with TLS, which not every build of libcurl can use. */
#define SET_IF_KNOWN(option, value) transfer->curl->easy_setopt (transfer->easy, CURLOPT_##option, (value))

/* A header goes to the server byte by byte, so a line break in it would begin another one. */
static int
add_header (struct transfer *transfer, const char *line)
{
    if (line[strcspn (line, "\r\n")]) {
        transfer_fail (transfer, HTTP_OTHER, "a header or token must be one line");
        return -1;
    }
    struct curl_slist *list = transfer->curl->slist_append (transfer->headers, line);
    if (!list) {
        transfer_fail (transfer, HTTP_OTHER, "out of memory");
        return -1;
    }
    transfer->headers = list;
    return 0;
}

static int
add_pair (struct transfer *transfer, const char *before, const char *value)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    strbuf_printf (&line, "%s%s", before, value);
    return add_header (transfer, line.failed ? "\n" : line.text);
}

static int
set_headers (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    transfer->curl->slist_free_all (transfer->headers);
    transfer->headers = NULL;
    if (!transfer->is_abroad) {
        for (size_t i = 0; i < request->header_count; i++)
            if (add_header (transfer, request->headers[i]))
                return -1;
        if (request->bearer && add_pair (transfer, "Authorization: Bearer ", request->bearer))
            return -1;
        if (request->aws && request->aws->session_token
            && add_pair (transfer, "X-Amz-Security-Token: ", request->aws->session_token))
            return -1;
    }
    SET (HTTPHEADER, transfer->headers);
    return 0;
}

/* Before 8.10, libcurl sorts "name-more" before "name", and the signature is wrong. */
static int
check_order (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    const curl_version_info_data *info = transfer->curl->version_info (CURLVERSION_NOW);
    for (size_t i = 0; i < request->header_count && info->version_num < 0x080a00; i++)
        for (size_t k = 0; k < request->header_count; k++) {
            size_t length = strcspn (request->headers[i], ":");
            if (strncasecmp (request->headers[i], request->headers[k], length) || request->headers[k][length] != '-')
                continue;
            transfer_fail (transfer, HTTP_OTHER, "libcurl %s cannot sign the headers %.*s and %.*s for AWS: install "
                           "version 8.10 or later", info->version, (int) length, request->headers[i],
                           (int) strcspn (request->headers[k], ":"), request->headers[k]);
            return -1;
        }
    return 0;
}

static int
set_signature (struct transfer *transfer)
{
    const struct http_aws *aws = transfer->request->aws;
    if (!aws)
        return 0;
    if (check_order (transfer))
        return -1;
    AUTO_STRBUF struct strbuf provider = { 0 };
    strbuf_printf (&provider, "aws:amz:%s:%s", aws->region, aws->service);
    if (provider.failed) {
        transfer_fail (transfer, HTTP_OTHER, "out of memory");
        return -1;
    }
    SET (AWS_SIGV4, provider.text);
    SET (USERNAME, aws->access_key);
    SET (PASSWORD, aws->secret_key);
    return 0;
}

static const char *
first_set (const char *const *names)
{
    for (; *names; names++)
        if (getenv (*names) && *getenv (*names))
            return *names;
    return NULL;
}

static int
set_trust (struct transfer *transfer)
{
    static const char *const files[]
        = { "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", NULL };
    static const char *const folders[] = { "SSL_CERT_DIR", NULL };
    const char *name = first_set (files + !(transfer->request->aws || transfer->request->is_for_aws));
    struct stat status;
    SET (SSL_VERIFYPEER, 1L);
    SET (SSL_VERIFYHOST, 2L);
    SET (SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
    if (!name && first_set (folders)) {
        SET (CAPATH, getenv ("SSL_CERT_DIR"));
        SET_IF_KNOWN (PROXY_CAPATH, getenv ("SSL_CERT_DIR"));
    }
    if (!name || strncasecmp (transfer->url, "https:", 6))
        return 0;
    const char *path = getenv (name);
    if (stat (path, &status)) {
        transfer_fail (transfer, HTTP_NO_TRUST, "%s: cannot read %s: %s", name, path, strerror (errno));
        return -1;
    }
    if (S_ISDIR (status.st_mode)) {
        SET (CAPATH, path);
        SET_IF_KNOWN (PROXY_CAPATH, path);
    } else {
        SET (CAINFO, path);
        SET_IF_KNOWN (PROXY_CAINFO, path);
    }
    return 0;
}

/* libcurl reads all variables but HTTP_PROXY, which a web server sets to a header's value for its CGI programs. */
static int
set_proxy (struct transfer *transfer)
{
    const char *proxy = getenv ("HTTP_PROXY");
    if (transfer->request->no_proxy)
        SET (NOPROXY, "*");
    if (proxy && *proxy && !getenv ("http_proxy") && !getenv ("REQUEST_METHOD")
        && !strncasecmp (transfer->url, "http:", 5))
        SET (PROXY, proxy);
    return 0;
}

static size_t
send_file (char *into, size_t size, size_t count, void *data)
{
    struct transfer *transfer = data;
    ssize_t got;
    do
        got = read (transfer->file, into, size * count);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        transfer_fail (transfer, HTTP_OTHER, "cannot read %s: %s", transfer->request->body_path, strerror (errno));
        return CURL_READFUNC_ABORT;
    }
    if (transfer->options->moved)
        transfer->options->moved (transfer->options->data, (uint64_t) got);
    return (size_t) got;
}

static int
seek_file (void *data, curl_off_t offset, int origin)
{
    struct transfer *transfer = data;
    return lseek (transfer->file, offset, origin) < 0 ? CURL_SEEKFUNC_FAIL : CURL_SEEKFUNC_OK;
}

static int
set_file (struct transfer *transfer, const char *path)
{
    struct stat status;
    transfer->file = open (path, O_RDONLY | O_CLOEXEC);
    if (transfer->file < 0 || fstat (transfer->file, &status)) {
        transfer_fail (transfer, HTTP_OTHER, "cannot read %s: %s", path, strerror (errno));
        return -1;
    }
    SET (UPLOAD, 1L);
    SET (READFUNCTION, send_file);
    SET (READDATA, transfer);
    SET (SEEKFUNCTION, seek_file);
    SET (SEEKDATA, transfer);
    SET (INFILESIZE_LARGE, (curl_off_t) status.st_size);
    return 0;
}

static int
set_body (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    const char *method = request->method;
    if (request->body_path && set_file (transfer, request->body_path))
        return -1;
    if (request->body || (method && !strcmp (method, "POST") && !request->body_path)) {
        SET (POST, 1L);
        SET (POSTFIELDSIZE_LARGE, (curl_off_t) request->body_length);
        SET (POSTFIELDS, request->body ? request->body : "");
    }
    if (method && !strcmp (method, "HEAD"))
        SET (NOBODY, 1L);
    else if (method && strcmp (method, "GET"))
        SET (CUSTOMREQUEST, method);
    return 0;
}

static int
set_limits (struct transfer *transfer, int64_t left)
{
    const struct http_request *request = transfer->request;
    int64_t connect = request->connect_ms ? request->connect_ms : HTTP_CONNECT_MS;
    SET (CONNECTTIMEOUT_MS, (long) (connect < left ? connect : left));
    SET (TIMEOUT_MS, (long) left);
    SET (LOW_SPEED_LIMIT, 1L);
    SET (LOW_SPEED_TIME, (long) HTTP_SILENCE_MS / 1000);
    return 0;
}

static int
set_range (struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    char text[64];
    if (!request->range_length)
        return 0;
    snprintf (text, sizeof text, "%llu-%llu", (unsigned long long) request->range_first,
              (unsigned long long) (request->range_first + request->range_length - 1));
    SET (RANGE, text);
    return 0;
}

static int
set_receivers (struct transfer *transfer)
{
    SET (WRITEFUNCTION, receive_body);
    SET (WRITEDATA, transfer);
    SET (HEADERFUNCTION, receive_header);
    SET (HEADERDATA, transfer);
    SET (SUPPRESS_CONNECT_HEADERS, 1L);
    SET (ERRORBUFFER, transfer->error);
    SET (PRIVATE, transfer);
    return 0;
}

int
setup (struct transfer *transfer, int64_t left)
{
    *transfer->error = '\0';
    if (transfer->easy)
        transfer->curl->easy_reset (transfer->easy);
    else if (!(transfer->easy = transfer->curl->easy_init ())) {
        transfer_fail (transfer, HTTP_OTHER, "out of memory");
        return -1;
    }
    if (!http_same_origin (transfer->url, transfer->url)) {
        transfer_fail (transfer, HTTP_OTHER, "not an http:// or https:// URL");
        return -1;
    }
    SET (URL, transfer->url);
    SET (USERAGENT, "accelerate/" PACKAGE_VERSION);
    SET (NOSIGNAL, 1L);
    SET (FOLLOWLOCATION, 0L);
    SET (HTTP09_ALLOWED, 0L);
    return set_limits (transfer, left) || set_trust (transfer) || set_proxy (transfer) || set_body (transfer)
                   || set_headers (transfer) || set_signature (transfer) || set_range (transfer)
                   || set_receivers (transfer)
               ? -1
               : 0;
}
