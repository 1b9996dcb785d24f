/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one request and prints what came: request [OPTION...] URL
 *
 * Options: -H HEADER, -b BEARER, -r FIRST,LENGTH, -m MOST, -t TOTAL_MS, -a ATTEMPTS, -d BODY, -f FILE, -X METHOD,
 * -s REGION,SERVICE,KEY,SECRET[,TOKEN], -n: no redirects, -p: no proxy, -R: repeatable, -c COUNT: COUNT requests at
 * once, -e: with the deadline's file descriptor 0 as stop_fd.
 *
 * Prints "status N", "attempts N", "total N" (or "unknown"), "url URL", "trouble N" and "error TEXT" if it failed,
 * headers, and the body. */
#include <config.h>

#include "http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct http_request request;
static struct http_aws aws;
static const char *headers[16];
static size_t count = 1;
static struct http_options options = { .stop_fd = -1 };

static void
read_aws (char *text)
{
    char *rest;
    aws.region = strtok_r (text, ",", &rest);
    aws.service = strtok_r (NULL, ",", &rest);
    aws.access_key = strtok_r (NULL, ",", &rest);
    aws.secret_key = strtok_r (NULL, ",", &rest);
    aws.session_token = strtok_r (NULL, ",", &rest);
    request.aws = &aws;
}

static void
read_option (int option)
{
    char *end;
    switch (option) {
    case 'H': headers[request.header_count++] = optarg; break;
    case 'b': request.bearer = optarg; break;
    case 'r':
        request.range_first = strtoull (optarg, &end, 10);
        request.range_length = strtoull (end + 1, NULL, 10);
        break;
    case 'm': request.most = (size_t) atol (optarg); break;
    case 't': request.total_ms = atol (optarg); break;
    case 'a': request.attempts = (unsigned) atoi (optarg); break;
    case 'd': request.body = optarg; request.body_length = strlen (optarg); break;
    case 'f': request.body_path = optarg; break;
    case 'X': request.method = optarg; break;
    case 's': read_aws (optarg); break;
    case 'n': request.no_redirects = true; break;
    case 'p': request.no_proxy = true; break;
    case 'R': request.is_repeatable = true; break;
    case 'c': count = (size_t) atol (optarg); break;
    case 'e': options.stop_fd = 0; break;
    default: exit (2);
    }
}

static void
print (const struct http_response *response)
{
    printf ("status %d\nattempts %u\n", response->status, response->attempts);
    if (response->total == UINT64_MAX)
        puts ("total unknown");
    else
        printf ("total %llu\n", (unsigned long long) response->total);
    printf ("url %s\n", response->url ? response->url : "");
    if (response->trouble)
        printf ("trouble %d\nerror %s\n", (int) response->trouble, response->fail.text);
    for (size_t i = 0; i < response->headers.count; i++)
        printf ("< %s\n", response->headers.items[i]);
    puts ("body");
    if (response->body.length)
        fwrite (response->body.text, 1, response->body.length, stdout);
    putchar ('\n');
}

int
main (int argc, char **argv)
{
    struct http *http;
    struct fail fail = { 0 };
    int option;
    while ((option = getopt (argc, argv, "H:b:r:m:t:a:d:f:X:s:npRc:e")) != -1)
        read_option (option);
    request.headers = headers;
    request.url = argv[optind];
    if (http_open (&http, &options, &fail)) {
        fprintf (stderr, "%s\n", fail.text);
        return 3;
    }
    struct http_request *all = calloc (count, sizeof *all);
    struct http_response *responses = calloc (count, sizeof *responses);
    for (size_t i = 0; i < count; i++)
        all[i] = request;
    int result = http_perform (http, all, responses, count, &fail);
    for (size_t i = 0; i < count; i++) {
        print (&responses[i]);
        http_response_release (&responses[i]);
    }
    if (result)
        fprintf (stderr, "%s\n", fail.text);
    free (all);
    free (responses);
    http_close (http);
    return result ? 1 : 0;
}
