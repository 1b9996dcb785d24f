/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses, as the shells have them; see process.h. */
#include <config.h>

#include "launch/process/process.h"

#include "util/fail.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

/* What is not named here is 126: the program exists and cannot be executed. */
static const struct {
    int error, status;
    const char *hint;
} exec_errors[] = {
    { ENOENT, FAIL_NOT_FOUND, "; the program, or the interpreter it names, does not exist" },
    { ENOTDIR, FAIL_NOT_FOUND, "" },
    { EACCES, FAIL_CANNOT_EXECUTE, "; try chmod +x, or check whether its file system is mounted noexec" },
    { ENOEXEC, FAIL_CANNOT_EXECUTE, "; it is built for another architecture, or is damaged" },
    { E2BIG, FAIL_CANNOT_EXECUTE, "; its arguments and environment together are too long" },
    { ETXTBSY, FAIL_CANNOT_EXECUTE, "; another process has it open for writing" },
    { EAGAIN, FAIL_GENERAL, "; too many processes: raise the limit (ulimit -u)" },
    { EMFILE, FAIL_GENERAL, "; raise the limit (ulimit -n)" },
    { ENFILE, FAIL_GENERAL, "; raise the system's limit (sysctl fs.file-max)" },
    { ENOMEM, FAIL_GENERAL, "" },
};

int
status_of_wait (int wait_status)
{
    return WIFSIGNALED (wait_status) ? status_of_signal (WTERMSIG (wait_status)) : WEXITSTATUS (wait_status);
}

int
status_of_exec (int error)
{
    for (size_t i = 0; i < sizeof exec_errors / sizeof *exec_errors; i++)
        if (exec_errors[i].error == error)
            return exec_errors[i].status;
    return FAIL_CANNOT_EXECUTE;
}

int
status_of_signal (int signal)
{
    return FAIL_BY_SIGNAL + signal;
}

bool
status_may_follow (int wait_status)
{
    return WIFEXITED (wait_status) || WTERMSIG (wait_status) == SIGABRT || WTERMSIG (wait_status) == SIGPIPE;
}

const char *
status_exec_hint (int error)
{
    for (size_t i = 0; i < sizeof exec_errors / sizeof *exec_errors; i++)
        if (exec_errors[i].error == error)
            return exec_errors[i].hint;
    return "";
}

int
status_fail_start (int error, struct fail *fail)
{
    return fail_set (fail, FAIL_GENERAL, "cannot start a process: %s%s", strerror (error), status_exec_hint (error));
}
