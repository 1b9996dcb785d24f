/* SPDX-License-Identifier: Apache-2.0 */
/* Tracebacks of Python programs, which they show through Python's own faulthandler; see stacks.h.
 *
 * The launcher gives each rank a file in memory and the number of a signal (ENV_STACK_FD, ENV_STACK_SIGNAL), and a
 * program that calls faulthandler.register() with them writes its tracebacks there, whatever Python is at: the handler
 * needs neither the interpreter's lock nor memory. */
#include <config.h>

#include "launch/stacks/stacks.h"

#include "config/text/json_text.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/parse.h"
#include "util/procfs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { MOST_ANSWER = 1024 * 1024, MOST_FD = 1 << 20 };

/* The descriptor that the launcher has given to @pid, of which it may have made another one since; -1: none. */
static int
find_file (pid_t pid)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    char path[64], target[64];
    int64_t number = -1;
    procfs_read_whole (pid, "environ", &text);
    for (size_t at = 0; at < text.length; at += strlen (text.text + at) + 1)
        if (!strncmp (text.text + at, ENV_STACK_FD "=", sizeof ENV_STACK_FD)
            && parse_int64 (text.text + at + sizeof ENV_STACK_FD, 0, MOST_FD, &number) != PARSE_OK)
            return -1;
    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int) pid, (int) number);
    ssize_t length = readlink (path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    return !strncmp (target, "/memfd:" STACKS_FILE, sizeof "/memfd:" STACKS_FILE - 1)
               ? open (path, O_RDWR | O_CLOEXEC) : -1;
}

bool
stacks_has_python (pid_t pid)
{
    return procfs_has_signal (pid, "status", "SigCgt:", STACKS_SIGNAL);
}

static bool
blocks (const struct stack_rank *rank)
{
    char status[64];
    snprintf (status, sizeof status, "task/%d/status", (int) rank->pid);
    return procfs_has_signal (rank->pid, status, "SigBlk:", STACKS_SIGNAL);
}

bool
stack_python_find (struct stack_rank *rank)
{
    if (stacks_has_python (rank->pid) && !blocks (rank))
        rank->file = find_file (rank->pid);
    return rank->file >= 0;
}

void
stack_python_end (struct stack_rank *rank)
{
    if (rank->file >= 0)
        close (rank->file);
    rank->file = -1;
}

/* What one asks for, another must not take, or cut off: the file is locked until the answer is there.  The thread has
 * the signal blocked from before the first byte until the handler has returned. */
bool
stack_python_copy (struct stack_rank *rank)
{
    struct stat info;
    if (!rank->has_file) {
        rank->has_file = !flock (rank->file, LOCK_EX | LOCK_NB);
        /* It may have ended, or unregistered the handler, while another was asking. */
        if (rank->has_file && stacks_has_python (rank->pid) && !ftruncate (rank->file, 0))
            syscall (SYS_tgkill, rank->pid, rank->pid, STACKS_SIGNAL);
        return false;
    }
    if (fstat (rank->file, &info) || !info.st_size || blocks (rank))
        return false;
    AUTO_FREE char *text = calloc (1, MOST_ANSWER);
    if (!text || pread (rank->file, text, MOST_ANSWER - 1, 0) <= 0)
        return false;
    rank->traceback = strdup (text);
    stack_python_end (rank); /* now: others may wait for it, and we for what they have locked */
    return rank->traceback;
}

/* ---- what faulthandler writes ---- */

/* Of the thread that was asked, which is the main one; of a program that shows one thread only, that one. */
static const char *
find_thread (const char *text)
{
    static const char *const begins[] = { "Current thread 0x", "Stack (most recent call first)", "Thread 0x" };
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        for (const char *line = text; line; line = strchr (line, '\n'), line = line ? line + 1 : NULL)
            if (!strncmp (line, begins[i], strlen (begins[i])))
                return line;
    return NULL;
}

/* '  File "train.py", line 12 in step'; a name that Python has lost is ???, as is a line. */
static json_t *
make_frame (const char *line, size_t length)
{
    static const char between[] = ", line ", before_name[] = " in ";
    AUTO_FREE char *text = strndup (line, length);
    char *number = text;
    for (char *next; number && (next = strstr (number + (number != text), between));) /* the last: a path may have it */
        number = next;
    char *name = number && number != text ? strstr (number, before_name) : NULL;
    if (!name)
        return NULL;
    int64_t at = 0;
    *number = *name = '\0';
    char *file = text + (*text == '"');
    file[strcspn (file, "\"")] = '\0';
    bool has_line = parse_int64 (number + sizeof between - 1, 1, INT32_MAX, &at) == PARSE_OK;
    return json_pack ("{so so so sn sn}", "function", json_text (name + sizeof before_name - 1), "file",
                      json_text (file), "line", has_line ? json_integer (at) : json_null (), "module", "address");
}

json_t *
stack_python_parse (const char *text)
{
    static const char begin[] = "  File ";
    json_t *stack = json_array ();
    const char *line = find_thread (text);
    while (line && (line = strchr (line, '\n')) && !strncmp (++line, "  ", 2))
        if (!strncmp (line, begin, sizeof begin - 1)) {
            const char *frame = line + sizeof begin - 1;
            json_array_append_new (stack, make_frame (frame, strcspn (frame, "\n")));
        }
    return stack;
}
