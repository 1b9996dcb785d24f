/* SPDX-License-Identifier: Apache-2.0 */
/* The session of a launch on SageMaker; see session.h. */
#include <config.h>

#include "sagemaker/session.h"

#include "util/cleanup.h"
#include "util/parse.h"
#include "util/printable.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/signalfd.h>

#define POLL_VARIABLE "ACCELERATE_SAGEMAKER_POLL" /* seconds */

enum { POLL_MS = 10000 };

/* Those that are not ignored, as below nohup: a signalfd would have them all the same. */
static void
fill_signals (sigset_t *signals)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action;
    sigemptyset (signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigaction (numbers[i], NULL, &action) && action.sa_handler != SIG_IGN)
            sigaddset (signals, numbers[i]);
}

static int
read_poll (struct session *session, struct fail *fail)
{
    const char *text = getenv (POLL_VARIABLE);
    double seconds;
    session->poll_ms = POLL_MS;
    if (!text || !*text)
        return 0;
    if (parse_double (text, 0.01, 3600, &seconds) != PARSE_OK)
        return fail_set (fail, FAIL_USAGE, POLL_VARIABLE ": '%s' is not a number of seconds from 0.01 to 3600", text);
    session->poll_ms = (int64_t) (seconds * 1000);
    return 0;
}

int
session_open (struct session *session, const struct training *training, struct aws_options *wanted, struct fail *fail)
{
    sigset_t signals;
    session->training = training;
    session->profile = wanted->access_key ? NULL : wanted->profile;
    session->has_terminal = isatty (STDIN_FILENO) && isatty (STDERR_FILENO);
    if (read_poll (session, fail))
        return -1;
    fill_signals (&signals);
    sigprocmask (SIG_BLOCK, &signals, NULL);
    session->signal_fd = signalfd (-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (session->signal_fd < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot wait for signals: %s", strerror (errno));
    wanted->http.stop_fd = session->signal_fd;
    return aws_open (&session->aws, wanted, fail);
}

void
session_close (struct session *session)
{
    sigset_t signals;
    aws_close (session->aws);
    session->aws = NULL;
    if (session->signal_fd < 0)
        return;
    while (session_take_signal (session)) /* further ones would end the process before its last message */
        ;
    close (session->signal_fd);
    session->signal_fd = -1;
    fill_signals (&signals);
    sigprocmask (SIG_UNBLOCK, &signals, NULL);
}

bool
session_wait (const struct session *session, int64_t ms)
{
    struct pollfd signals = { .fd = session->signal_fd, .events = POLLIN };
    return poll (&signals, 1, (int) ms) > 0;
}

int
session_take_signal (struct session *session)
{
    struct signalfd_siginfo info;
    if (read (session->signal_fd, &info, sizeof info) != (ssize_t) sizeof info)
        return 0;
    session->signal = (int) info.ssi_signo;
    return session->signal;
}

void
session_say (const struct session *session, const char *format, ...)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    char line[2000];
    va_list args;
    if (session->is_quiet)
        return;
    va_start (args, format);
    vsnprintf (line, sizeof line, format, args);
    va_end (args);
    printable_add (&text, line);
    fprintf (stderr, "accelerate: %s\n", text.failed || !text.text ? "" : text.text);
}

int
session_fail (struct session *session, const char *what, struct fail *fail)
{
    int number = session_take_signal (session);
    return number ? fail_set (fail, FAIL_BY_SIGNAL + number, "interrupted; %s", what) : -1;
}

void
session_add_hint (const struct session *session, struct strbuf *out)
{
    const char *profile = session->profile;
    strbuf_add (out, "aws sagemaker describe-training-job");
    if (profile) {
        strbuf_add (out, " --profile ");
        shell_word_add (out, profile);
    }
    strbuf_printf (out, " --region %s --training-job-name %s", session->training->region, session->training->name);
}
