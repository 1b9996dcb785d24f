/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the client in a build without libcurl (--with-curl=no): every request is refused. */
#include <config.h>

#include "http/http.h"

static const char reason[] = "this build makes no HTTP requests: it was configured without libcurl (--with-curl)";

int
http_open (struct http **http, const struct http_options *options, struct fail *fail)
{
    (void) options;
    *http = NULL;
    return fail_set (fail, FAIL_GENERAL, "%s", reason);
}

void
http_close (struct http *http)
{
    (void) http;
}

int
http_perform (struct http *http, const struct http_request *requests, struct http_response *responses, size_t count,
              struct fail *fail)
{
    (void) http, (void) requests, (void) responses, (void) count;
    return fail_set (fail, FAIL_GENERAL, "%s", reason);
}

const char *
http_version (void)
{
    return reason;
}
