/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request has no answer. */
#include <config.h>

#include "http/attempt.h"

#include <stdarg.h>
#include <stdio.h>

void
transfer_fail (struct transfer *transfer, enum http_trouble trouble, const char *format, ...)
{
    AUTO_STRBUF struct strbuf shown = { 0 };
    struct http_response *response = transfer->response;
    char text[sizeof response->fail.text];
    va_list args;
    if (response->trouble) /* the first cause counts */
        return;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    http_show_url (&shown, transfer->url ? transfer->url : transfer->request->url);
    fail_set (&response->fail, FAIL_GENERAL, "%.400s: %s", shown.text ? shown.text : "", text);
    response->trouble = trouble;
}
