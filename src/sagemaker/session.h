/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a launch on SageMaker share: Amazon's services, signals, and how to wait. */
#ifndef SAGEMAKER_SESSION_H
#define SAGEMAKER_SESSION_H

#include "aws/aws.h"
#include "sagemaker/training.h"

/** All zero but signal_fd, -1, before session_open(). */
struct session {
    struct aws *aws;
    const struct training *training;
    const char *profile; /* that was asked for, or NULL; belongs to the caller of session_open() */
    int signal_fd;      /* SIGINT, SIGTERM and SIGHUP, which are blocked unless they are ignored */
    int signal;         /* the last one that session_take_signal() took */
    int64_t poll_ms;    /* between two looks at the job */
    bool is_quiet;      /* print the job's own output only */
    bool has_terminal;  /* someone can answer */
};

/**
 * Block signals and prepare for calls; makes none.
 *
 * @param wanted  region, profile, keys and callbacks; stop_fd is set here
 */
int session_open (struct session *session, const struct training *training, struct aws_options *options,
                  struct fail *fail);

/** Signals have their effect again. */
void session_close (struct session *session);

/** Wait for @p ms, or for a signal. @return whether a signal is there to be taken */
bool session_wait (const struct session *session, int64_t ms);

/** @return the number of the signal, 0: there was none */
int session_take_signal (struct session *session);

/** Print a line on standard error, after "accelerate: ", unless the session is quiet. Control characters are
 *  escaped. */
void session_say (const struct session *session, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/** If a signal is why the last call failed, say with its status that @p what. @return -1 */
int session_fail (struct session *session, const char *what, struct fail *fail);

/** Append how to look at the job with Amazon's own tool. */
void session_add_hint (const struct session *session, struct strbuf *out);

#endif
