/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a training job; see follow.h. */
#include <config.h>

#include "sagemaker/follow.h"

#include "sagemaker/streams.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    DESCRIBE_EVERY = 3, /* polls of the logs, as Amazon's library */
    MOST_FAILURES = 20, /* polls in a row; each was repeated itself */
};

enum { OF_JOB, OF_LOGS, CALLS };

enum outcome { GO_ON, LEAVE, FAILED };

struct follow {
    struct session *session;
    struct streams streams;
    json_t *job;         /* the last description */
    size_t reported;     /* transitions whose status was printed */
    char *message;       /* of the last one */
    int failures[CALLS]; /* in a row */
    bool is_lost;        /* as was printed */
    bool is_stopping;    /* as the user wanted */
};

/* A call whose only argument is the job. */
static int
call_for_job (struct session *session, const char *action, json_t **reply, struct aws_error *error, struct fail *fail)
{
    json_auto_t *request = json_pack ("{s:s}", "TrainingJobName", session->training->name);
    return request ? aws_json_call (session->aws, AWS_SAGEMAKER, action, request, reply, error, fail)
                   : fail_nomem (fail);
}

json_t *
follow_describe (struct session *session, struct aws_error *error, struct fail *fail)
{
    json_t *reply = NULL;
    return call_for_job (session, "DescribeTrainingJob", &reply, error, fail) ? NULL : reply;
}

static const char *
text_of (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text ? text : "";
}

/* ---- what the job does ---- */

/* Each status once, and the last one again when its message changes. */
static void
print_status (struct follow *follow)
{
    const json_t *all = json_object_get (follow->job, "SecondaryStatusTransitions"), *one;
    size_t count = json_array_size (all);
    for (size_t i = follow->reported ? follow->reported - 1 : 0; i < count; i++) {
        one = json_array_get (all, i);
        const char *message = text_of (one, "StatusMessage");
        if (i + 1 == follow->reported && follow->message && !strcmp (follow->message, message))
            continue;
        session_say (follow->session, "%s%s%s", text_of (one, "Status"), *message ? ": " : "", message);
        free (follow->message);
        follow->message = strdup (message);
    }
    if (count > follow->reported)
        follow->reported = count;
}

static bool
has_ended (const struct follow *follow)
{
    const char *status = text_of (follow->job, "TrainingJobStatus");
    return !strcmp (status, "Completed") || !strcmp (status, "Failed") || !strcmp (status, "Stopped");
}

/* "... exit code: 7" or "ExitCode 7". */
static int
status_in (const char *reason)
{
    static const char *const words[] = { "exit code:", "exit code", "ExitCode" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strcasestr (reason, words[i]);
        long number = at ? strtol (at + strlen (words[i]), NULL, 10) : 0;
        if (number > 0 && number < 256)
            return (int) number;
    }
    return FAIL_GENERAL;
}

/* A text of Amazon's in one line. */
static void
add_line (struct strbuf *out, const char *text)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    for (; *text; text++)
        if (*text != '\n' && *text != '\r')
            strbuf_add_char (&line, *text);
        else if (line.length && line.text[line.length - 1] != ' ')
            strbuf_add_char (&line, ' ');
    if (line.text)
        printable_add (out, line.text);
}

static int
fail_job (const struct follow *follow, struct fail *fail)
{
    AUTO_STRBUF struct strbuf reason = { 0 };
    const char *text = text_of (follow->job, "FailureReason");
    add_line (&reason, *text ? text : "Amazon gives no reason");
    bool is_capacity = strstr (text, "CapacityError");
    return fail_set (fail, status_in (text), "job %s failed: %s%s", follow->session->training->name,
                     reason.text ? reason.text : "", is_capacity ? " (try another instance type, or later)" : "");
}

static int
fail_stopped (const struct follow *follow, struct fail *fail)
{
    static const struct {
        const char *status, *reason;
    } reasons[] = {
        { "MaxRuntimeExceeded", ": it ran longer than max_run of additional_args" },
        { "MaxWaitTimeExceeded", ": it took longer than max_wait of additional_args" },
        { "Interrupted", ": Amazon needed its spot instances" },
    };
    const char *secondary = text_of (follow->job, "SecondaryStatus"), *reason = "";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (!strcmp (secondary, reasons[i].status))
            reason = reasons[i].reason;
    return fail_set (fail, follow->is_stopping ? FAIL_BY_SIGNAL + SIGINT : FAIL_GENERAL, "job %s was stopped%s",
                     follow->session->training->name, reason);
}

static int
report_end (const struct follow *follow, struct fail *fail)
{
    const json_t *job = follow->job;
    const char *status = text_of (job, "TrainingJobStatus");
    const char *model = text_of (json_object_get (job, "ModelArtifacts"), "S3ModelArtifacts");
    const json_t *seconds = json_object_get (job, "TrainingTimeInSeconds");
    const json_t *billable = json_object_get (job, "BillableTimeInSeconds");
    long long machines = follow->streams.machines ? (long long) follow->streams.machines : 1;
    if (json_is_integer (seconds) && json_is_integer (billable))
        session_say (follow->session, "%lld training seconds, %lld billable seconds",
                     (long long) json_integer_value (seconds) * machines,
                     (long long) json_integer_value (billable) * machines);
    if (!strcmp (status, "Failed"))
        return fail_job (follow, fail);
    if (*model) {
        AUTO_STRBUF struct strbuf shown = { 0 };
        printable_add (&shown, model);
        printf ("You can find your model data at: %s\n", shown.text ? shown.text : "");
    }
    return strcmp (status, "Completed") ? fail_stopped (follow, fail) : 0;
}

/* ---- what the user wants ---- */

static int
leave (struct follow *follow, int number, struct fail *fail)
{
    AUTO_STRBUF struct strbuf hint = { 0 };
    session_add_hint (follow->session, &hint);
    return fail_set (fail, FAIL_BY_SIGNAL + number, "job %s %s; to look at it: %s", follow->session->training->name,
                     follow->is_stopping ? "is stopping" : "continues", hint.text ? hint.text : "");
}

/* Read a line of the terminal, whose own descriptor does not block: a signal key discards what poll() has seen.
   @return its first letter, 0 for an empty line, -1 after a signal or the end of input */
static int
read_answer (const struct session *session)
{
    AUTO_CLOSE int terminal = open ("/dev/tty", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct pollfd inputs[] = { { .fd = session->signal_fd, .events = POLLIN }, { .fd = terminal, .events = POLLIN } };
    char answer[64];
    ssize_t length = -1;
    if (terminal < 0)
        return -1;
    do {
        int count = poll (inputs, 2, -1);
        if (count < 0 ? errno != EINTR : inputs[0].revents)
            return -1;
        length = count < 0 ? -1 : read (terminal, answer, sizeof answer);
    } while (length < 0 && (errno == EINTR || errno == EAGAIN));
    return length <= 0 ? -1 : answer[0] == '\n' ? 0 : answer[0];
}

static enum outcome
stop_job (struct follow *follow, struct fail *fail)
{
    struct session *session = follow->session;
    struct aws_error error = { 0 };
    if (call_for_job (session, "StopTrainingJob", NULL, &error, fail)) {
        session_say (session, "cannot stop the job: %s", fail->text);
        return GO_ON;
    }
    follow->is_stopping = true;
    session_say (session, "stopping; this can take two minutes, or another Ctrl-C leaves");
    return GO_ON;
}

/* After a signal: whether to continue. */
static enum outcome
ask (struct follow *follow, struct fail *fail)
{
    struct session *session = follow->session;
    int number = session_take_signal (session);
    if (!number)
        return GO_ON;
    if (number != SIGINT || !session->has_terminal || follow->is_stopping) {
        leave (follow, number, fail);
        return LEAVE;
    }
    fprintf (stderr, "\naccelerate: stop job %s? [y]es, [n]o, go on following, [l]eave it running: ",
             session->training->name);
    int answer = read_answer (session);
    if (answer == 'y' || answer == 'Y')
        return stop_job (follow, fail);
    if (answer == -1)
        fputc ('\n', stderr);
    if (answer != -1 && answer != 'l' && answer != 'L')
        return GO_ON;
    session_take_signal (session); /* the second one */
    leave (follow, SIGINT, fail);
    return LEAVE;
}

/* After a failed call. */
static enum outcome
retry_or_fail (struct follow *follow, int call, const struct aws_error *error, struct fail *fail)
{
    struct session *session = follow->session;
    bool may_pass = error->trouble != HTTP_FINE || error->status >= 500 || error->status == 429
                    || aws_error_is_throttled (error);
    AUTO_STRBUF struct strbuf hint = { 0 };
    if (session_wait (session, 0))
        return ask (follow, fail);
    if (may_pass && error->trouble != HTTP_NO_TRUST && ++follow->failures[call] < MOST_FAILURES) {
        if (!follow->is_lost)
            session_say (session, "lost contact, trying again; the job continues: %s", fail->text);
        follow->is_lost = true;
        return GO_ON;
    }
    session_add_hint (session, &hint);
    fail_prefix (fail, "lost contact with job %s, which continues (look with: %s)", session->training->name,
                 hint.text ? hint.text : "");
    return FAILED;
}

/* After one that did not fail. */
static void
note_contact (struct follow *follow, int call)
{
    follow->failures[call] = 0;
    if (!follow->is_lost || follow->failures[OF_JOB] || follow->failures[OF_LOGS])
        return;
    follow->is_lost = false;
    session_say (follow->session, "in contact again");
}

/* ---- looking again and again ---- */

static enum outcome
poll_job (struct follow *follow, struct fail *fail)
{
    struct aws_error error = { 0 };
    json_t *job = follow_describe (follow->session, &error, fail);
    if (!job)
        return retry_or_fail (follow, OF_JOB, &error, fail);
    note_contact (follow, OF_JOB);
    json_decref (follow->job);
    follow->job = job;
    follow->streams.machines = (size_t) json_integer_value (json_object_get (json_object_get (job, "ResourceConfig"),
                                                                             "InstanceCount"));
    print_status (follow);
    return GO_ON;
}

static enum outcome
poll_streams (struct follow *follow, struct fail *fail)
{
    struct aws_error error = { 0 };
    if (streams_read (&follow->streams, follow->session, &error, fail))
        return retry_or_fail (follow, OF_LOGS, &error, fail);
    note_contact (follow, OF_LOGS);
    return GO_ON;
}

/* Until there are no more lines after the end: CloudWatch has the last ones some seconds later. */
static enum outcome
run (struct follow *follow, struct fail *fail)
{
    enum outcome outcome = poll_job (follow, fail);
    for (int poll_count = 1, after = 0; outcome == GO_ON; poll_count++) {
        outcome = follow->job ? poll_streams (follow, fail) : GO_ON;
        if (outcome != GO_ON || (after && !follow->failures[OF_LOGS]))
            break;
        if (session_wait (follow->session, follow->session->poll_ms))
            outcome = ask (follow, fail);
        after = follow->job && has_ended (follow);
        if (outcome == GO_ON && !after && poll_count % DESCRIBE_EVERY == 0)
            outcome = poll_job (follow, fail);
    }
    return outcome;
}

int
follow_job (struct session *session, struct fail *fail)
{
    struct follow follow = { .session = session };
    enum outcome outcome = run (&follow, fail);
    int result = outcome == GO_ON ? report_end (&follow, fail) : -1;
    streams_release (&follow.streams);
    json_decref (follow.job);
    free (follow.message);
    return result;
}
