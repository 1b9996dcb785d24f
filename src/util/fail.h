/* SPDX-License-Identifier: Apache-2.0 */
/* Why something failed: one line of text and the exit status that it leads to.  The first function that knows the cause
 * fills it; callers pass it on, or prefix it; only main.c prints it. */
#ifndef UTIL_FAIL_H
#define UTIL_FAIL_H

/** Exit statuses of the command; a failed rank's own status is passed on beside them. */
enum {
    FAIL_GENERAL = 1,
    FAIL_USAGE = 2,
    FAIL_STOPPED = 75, /* of a job that has ended before it was done, as it was asked to: EX_TEMPFAIL, "try again" */
    FAIL_CANNOT_EXECUTE = 126,
    FAIL_NOT_FOUND = 127,
    FAIL_BY_SIGNAL = 128, /* plus the signal's number */
};

struct fail {
    int status; /* exit status, never 0 after a failure */
    char text[1024];
};

/** Fill @p fail (nullable).  @return -1 always, so that `return fail_set (...)` is one line. */
int fail_set (struct fail *fail, int status, const char *format, ...) __attribute__ ((format (printf, 3, 4)));

/** Put "PREFIX: " before the text of @p fail.  @return -1 always. */
int fail_prefix (struct fail *fail, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/** "out of memory", as all callers say it.  @return -1 always. */
int fail_nomem (struct fail *fail);

#endif
