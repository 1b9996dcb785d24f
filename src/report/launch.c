/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ended, in sentences; see launch.h. */
#include <config.h>

#include "report/launch.h"

#include "util/fail.h"
#include "util/jobseg.h"

#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum launch_end
launch_end (const json_t *report)
{
    const json_t *status = json_object_get (report, "exit_status");
    if (json_is_object (json_object_get (report, "failure")) || json_is_string (json_object_get (report, "error")))
        return LAUNCH_FAILED;
    if (json_is_integer (json_object_get (report, "signal")))
        return LAUNCH_STOPPED;
    if (!json_is_integer (status))
        return LAUNCH_UNKNOWN;
    if (json_integer_value (status) == FAIL_STOPPED)
        return LAUNCH_STOPPED;
    return json_integer_value (status) ? LAUNCH_FAILED : LAUNCH_DONE;
}

static void
add_how (const json_t *failure, struct strbuf *out)
{
    const json_t *signal = json_object_get (failure, "signal"), *code = json_object_get (failure, "exit_code");
    char how[96];
    if (json_is_integer (signal))
        jobseg_describe_exit ((int) (json_integer_value (signal) & 0x7f), how, sizeof how);
    else
        jobseg_describe_exit (W_EXITCODE ((int) (json_integer_value (code) & 0xff), 0), how, sizeof how);
    strbuf_add (out, how);
}

static void
add_failure (const json_t *report, const json_t *failure, struct strbuf *out)
{
    const char *host = json_string_value (json_object_get (report, "host"));
    const char *doing = json_string_value (json_object_get (failure, "doing"));
    const char *error = json_string_value (json_object_get (failure, "error"));
    strbuf_printf (out, "rank %" JSON_INTEGER_FORMAT, json_integer_value (json_object_get (failure, "rank")));
    strbuf_printf (out, " (process %" JSON_INTEGER_FORMAT "%s%s) ",
                   json_integer_value (json_object_get (failure, "pid")), host && *host ? " on " : "",
                   host ? host : "");
    add_how (failure, out);
    if (json_is_true (json_object_get (failure, "out_of_memory")))
        strbuf_add (out, ": out of memory");
    if (doing)
        strbuf_printf (out, "; it was: %s", doing);
    if (error)
        strbuf_printf (out, "; its error file says: %s", error);
}

void
launch_sentence (const json_t *report, struct strbuf *out)
{
    const json_t *failure = json_object_get (report, "failure"), *signal = json_object_get (report, "signal");
    const char *error = json_string_value (json_object_get (report, "error"));
    const char *reason = json_string_value (json_object_get (report, "stop_reason"));
    const json_t *saved = json_object_get (report, "saved_step");
    json_int_t status = json_integer_value (json_object_get (report, "exit_status"));
    if (json_is_integer (saved) && launch_end (report) == LAUNCH_STOPPED)
        strbuf_printf (out, "saved step %" JSON_INTEGER_FORMAT " on all ranks, then ", json_integer_value (saved));
    if (json_is_object (failure))
        add_failure (report, failure, out);
    else if (error)
        strbuf_add (out, error);
    else if (json_is_integer (signal)) {
        const char *name = sigabbrev_np ((int) (json_integer_value (signal) & 0x7f));
        strbuf_printf (out, "ended by SIG%s", name ? name : "?");
    } else if (launch_end (report) == LAUNCH_STOPPED && reason)
        strbuf_printf (out, "ended %s", reason);
    else if (launch_end (report) == LAUNCH_STOPPED)
        strbuf_add (out, "ended as it was asked to");
    else if (launch_end (report) == LAUNCH_DONE)
        strbuf_add (out, "all ranks exited with 0");
    else
        strbuf_printf (out, "exit status %" JSON_INTEGER_FORMAT, status);
}

void
launch_duration (double seconds, struct strbuf *out)
{
    if (!(seconds < 1e9))
        return;
    long long whole = (long long) (seconds + 0.5);
    if (seconds < 10)
        strbuf_printf (out, "%.1f s", seconds);
    else if (whole < 60)
        strbuf_printf (out, "%lld s", whole);
    else if (whole < 3600)
        strbuf_printf (out, "%lld min %lld s", whole / 60, whole % 60);
    else if (whole < 48 * 3600)
        strbuf_printf (out, "%lld h %lld min", whole / 3600, whole / 60 % 60);
    else
        strbuf_printf (out, "%lld d %lld h", whole / 86400, whole / 3600 % 24);
}

void
launch_time (double seconds, struct strbuf *out)
{
    time_t whole = seconds > 0 && seconds < 1e11 ? (time_t) seconds : 0;
    struct tm parts;
    char text[40];
    if (gmtime_r (&whole, &parts) && strftime (text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts))
        strbuf_add (out, text);
}
