/* SPDX-License-Identifier: Apache-2.0 */
/* The process that watches for spot notices; see spot.h.  What each cloud says is at one address of the machine's
 * link, without credentials of the user. */
#include <config.h>

#include "cli/spot.h"

#include "aws/aws.h"
#include "http/http.h"
#include "launch/plan/plan.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
    INTERVAL_MS = 5000,        /* what AWS recommends; GCP takes the machine 30 s after its notice */
    ANSWER_MS = 2000,          /* these services are on the same host */
    MOST_ANSWER = 256 * 1024,
    AZURE_START_MS = 150000,   /* Azure's first answer may take two minutes */
};

#define AUTO_RESPONSE __attribute__ ((cleanup (http_response_release)))

struct watcher {
    const struct cloud *cloud;
    const char *host; /* NULL: "this machine" */
    struct http *http;
    enum http_trouble trouble; /* of the last request */
    struct strbuf token;       /* of AWS: the header of a session; empty: none */
    int out;                   /* to the supervisor */
};

struct cloud {
    const char *name, *shown;
    int64_t start_ms; /* for so long, a service that does not answer in time may be starting */
    /* @return 1 with a notice, and what it says added to @when; 0: there is none; -1 with @fail */
    int (*ask) (struct watcher *watcher, struct strbuf *when, struct fail *fail);
};

/* @return the answer's status, or -1 with @fail */
static int
ask (struct watcher *watcher, const char *base, const char *path, const char *header, const char *method,
     struct http_response *response, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    size_t length = strlen (base);
    while (length && base[length - 1] == '/')
        length--;
    strbuf_add_bytes (&url, base, length);
    strbuf_add (&url, path);
    if (url.failed)
        return fail_nomem (fail);
    const struct http_request request
        = { .url = url.text, .method = method, .body = method ? "" : NULL, .headers = &header, .header_count = 1,
            .most = MOST_ANSWER, .connect_ms = ANSWER_MS, .total_ms = ANSWER_MS, .attempts = 1, .no_redirects = true,
            .no_proxy = true };
    http_response_release (response);
    int result = http_get (watcher->http, &request, response, fail);
    watcher->trouble = response->trouble;
    return result ? -1 : response->status;
}

static int
fail_status (int status, struct fail *fail)
{
    return status < 0 ? -1 : fail_set (fail, FAIL_GENERAL, "the answer has status %d", status);
}

/* A part of the answer, for people. */
static void
add_text (struct strbuf *out, const char *before, const json_t *value)
{
    const char *text = json_string_value (value);
    if (!text || !*text)
        return;
    strbuf_add (out, before);
    printable_add (out, text);
}

/* ---- AWS: status 404 while there is no notice ---- */

static int
ask_aws_for_action (struct watcher *watcher, struct http_response *response, struct fail *fail)
{
    return ask (watcher, aws_instance_endpoint (), "/latest/meta-data/spot/instance-action", watcher->token.text, NULL,
                response, fail);
}

/* A session (IMDSv2) lasts six hours. */
static int
begin_session (struct watcher *watcher, struct http_response *response, struct fail *fail)
{
    int status = ask (watcher, aws_instance_endpoint (), "/latest/api/token",
                      "X-aws-ec2-metadata-token-ttl-seconds: 21600", "PUT", response, fail);
    if (status != 200)
        return fail_status (status, fail);
    strbuf_truncate (&watcher->token, 0);
    strbuf_printf (&watcher->token, "X-aws-ec2-metadata-token: %s", response->body.text ? response->body.text : "");
    return watcher->token.failed ? fail_nomem (fail) : 0;
}

static int
ask_aws (struct watcher *watcher, struct strbuf *when, struct fail *fail)
{
    AUTO_RESPONSE struct http_response response = { 0 };
    int status = watcher->token.length ? ask_aws_for_action (watcher, &response, fail) : 401;
    if (status == 401) {
        if (begin_session (watcher, &response, fail))
            return -1;
        status = ask_aws_for_action (watcher, &response, fail);
    }
    if (status == 404)
        return 0;
    if (status != 200)
        return fail_status (status, fail);
    json_t *json = http_json (&response, fail);
    if (!json)
        return -1;
    const json_t *action = json_object_get (json, "action");
    int result = json_is_string (action) ? 1 : fail_set (fail, FAIL_GENERAL, "the answer has no action");
    add_text (when, ": ", action);
    add_text (when, " at ", json_object_get (json, "time"));
    json_decref (json);
    return result;
}

/* ---- GCP: TRUE or FALSE ---- */

static int
ask_gcp (struct watcher *watcher, struct strbuf *when, struct fail *fail)
{
    AUTO_RESPONSE struct http_response response = { 0 };
    AUTO_STRBUF struct strbuf base = { 0 };
    const char *host = getenv ("GCE_METADATA_HOST");
    (void) when;
    strbuf_printf (&base, "http://%s", host && *host ? host : "169.254.169.254");
    if (base.failed)
        return fail_nomem (fail);
    int status = ask (watcher, base.text, "/computeMetadata/v1/instance/preempted", "Metadata-Flavor: Google", NULL,
                      &response, fail);
    if (status != 200)
        return fail_status (status, fail);
    const char *text = response.body.text ? response.body.text : "";
    size_t length = strcspn (text, " \t\r\n");
    if (length == 4 && !strncmp (text, "TRUE", length))
        return 1;
    if (length == 5 && !strncmp (text, "FALSE", length))
        return 0;
    return fail_set (fail, FAIL_GENERAL, "the answer is neither TRUE nor FALSE");
}

/* ---- Azure: a list of events, also of other machines of the same group ---- */

static const char *
azure_base (void)
{
    const char *base = getenv ("ACCELERATE_AZURE_METADATA_ENDPOINT");
    return base && *base ? base : "http://169.254.169.254";
}

/* A machine that cannot find out its name takes the event for its own: a save too many costs less than one that is
 * missing. */
static bool
is_ours (struct watcher *watcher, const json_t *event)
{
    AUTO_RESPONSE struct http_response response = { 0 };
    const json_t *resources = json_object_get (event, "Resources"), *resource;
    size_t i;
    struct fail unused;
    int status = ask (watcher, azure_base (), "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
                      "Metadata: true", NULL, &response, &unused);
    if (status != 200 || !response.body.text || !json_is_array (resources))
        return true;
    json_array_foreach (resources, i, resource)
        if (json_is_string (resource) && !strcasecmp (json_string_value (resource), response.body.text))
            return true;
    return false;
}

static int
find_azure_event (struct watcher *watcher, const json_t *json, struct strbuf *when, struct fail *fail)
{
    const json_t *events = json_object_get (json, "Events"), *event;
    size_t i;
    if (!json_is_array (events))
        return fail_set (fail, FAIL_GENERAL, "the answer has no list of events");
    json_array_foreach (events, i, event) {
        const json_t *type = json_object_get (event, "EventType");
        const char *text = json_string_value (type);
        if (!text || (strcmp (text, "Preempt") != 0 && strcmp (text, "Terminate") != 0) || !is_ours (watcher, event))
            continue;
        add_text (when, ": ", type);
        add_text (when, " not before ", json_object_get (event, "NotBefore"));
        return 1;
    }
    return 0;
}

static int
ask_azure (struct watcher *watcher, struct strbuf *when, struct fail *fail)
{
    AUTO_RESPONSE struct http_response response = { 0 };
    int status = ask (watcher, azure_base (), "/metadata/scheduledevents?api-version=2020-07-01", "Metadata: true",
                      NULL, &response, fail);
    if (status != 200)
        return fail_status (status, fail);
    json_t *json = http_json (&response, fail);
    if (!json)
        return -1;
    int result = find_azure_event (watcher, json, when, fail);
    json_decref (json);
    return result;
}

static const struct cloud clouds[] = {
    { .name = "aws", .shown = "AWS", .ask = ask_aws },
    { .name = "gcp", .shown = "GCP", .ask = ask_gcp },
    { .name = "azure", .shown = "Azure", .ask = ask_azure, .start_ms = AZURE_START_MS },
};

/* ---- the process ---- */

/* If the supervisor does not read, it is told again later. */
static void
tell (const struct watcher *watcher, char what, const char *text)
{
    char packet[PLAN_NOTICE_BYTES - 1];
    int length = snprintf (packet, sizeof packet, "%c%s", what, text);
    if (length > 0)
        send (watcher->out, packet, (size_t) length < sizeof packet ? (size_t) length : sizeof packet - 1,
              MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
warn (const struct watcher *watcher, const struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (watcher->host)
        strbuf_printf (&text, "host %s: ", watcher->host);
    strbuf_printf (&text, "cannot ask %s for spot notices (asked again every %d s): ", watcher->cloud->shown,
                   INTERVAL_MS / 1000);
    printable_add (&text, fail->text);
    if (text.text)
        tell (watcher, PLAN_NOTICE_WARNING, text.text);
}

/* Until the supervisor has ended. */
static void
watch (struct watcher *watcher)
{
    struct fail fail = { 0 };
    struct pollfd end = { .fd = watcher->out };
    const struct http_options http = { .stop_fd = -1 };
    int64_t began_ms = clock_ms ();
    bool has_warned = false;
    do {
        AUTO_STRBUF struct strbuf text = { 0 };
        strbuf_printf (&text, "because %s will be taken away (%s spot notice",
                       watcher->host ? watcher->host : "this machine", watcher->cloud->shown);
        watcher->trouble = HTTP_FINE;
        int result = !watcher->http && http_open (&watcher->http, &http, &fail)
                         ? -1 : watcher->cloud->ask (watcher, &text, &fail);
        bool may_start = watcher->trouble == HTTP_TIMED_OUT && clock_ms () - began_ms < watcher->cloud->start_ms;
        strbuf_add_char (&text, ')');
        if (result > 0 && text.text)
            tell (watcher, PLAN_NOTICE_STOP, text.text);
        else if (result < 0 && !may_start && !has_warned) {
            warn (watcher, &fail);
            has_warned = true;
        }
    } while (poll (&end, 1, INTERVAL_MS) == 0);
}

/* With none of the descriptors of the launcher: its output has ended, and its port is free, when it has ended. */
static _Noreturn void
be_watcher (struct watcher *watcher, pid_t parent)
{
    enum { OUT = 3 };
    int null = open ("/dev/null", O_RDWR);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    prctl (PR_SET_NAME, "accel-spot");
    setpgid (0, 0); /* a ^C is for the job */
    if (getppid () != parent || null < 0)
        _exit (FAIL_GENERAL);
    for (int i = 0; i < OUT; i++)
        dup2 (null, i);
    if (watcher->out != OUT)
        dup2 (watcher->out, OUT);
    watcher->out = OUT;
    close_range (OUT + 1, ~0U, 0);
    watch (watcher);
    _exit (0);
}

int
spot_watch_start (struct spot_watch *watch, const char *cloud, const char *host, struct fail *fail)
{
    struct watcher watcher = { .cloud = clouds, .host = host };
    int sockets[2];
    while (strcmp (watcher.cloud->name, cloud) != 0)
        watcher.cloud++;
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
        return fail_set (fail, FAIL_GENERAL, "cannot watch for spot notices: socketpair: %s", strerror (errno));
    pid_t owner = getpid (), pid = fork ();
    if (pid == 0) {
        watcher.out = sockets[1];
        be_watcher (&watcher, owner);
    }
    int error = errno;
    close (sockets[1]);
    *watch = (struct spot_watch){ .owner = owner, .pid = pid, .notices = sockets[0] };
    if (pid > 0)
        return 0;
    close (sockets[0]);
    *watch = (struct spot_watch){ 0 };
    return fail_set (fail, FAIL_GENERAL, "cannot watch for spot notices: fork: %s", strerror (error));
}

void
spot_watch_end (struct spot_watch *watch)
{
    if (watch->pid && watch->owner == getpid () && !waitpid (watch->pid, NULL, WNOHANG)) {
        kill (watch->pid, SIGKILL);
        while (waitpid (watch->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (watch->pid)
        close (watch->notices);
    *watch = (struct spot_watch){ 0 };
}
