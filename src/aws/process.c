/* SPDX-License-Identifier: Apache-2.0 */
/* credential_process: a program that prints credentials as JSON. */
#include <config.h>

#include "aws/source.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

enum {
    MOST_OUTPUT = 65536,
    DEADLINE_MS = 120000, /* it may ask a person for a code */
    SLICE_MS = 50,
};

extern char **environ;

/* Words as a shell splits them: quotes and backslashes, but no variables. */
static int
split (const char *line, struct strlist *words, struct fail *fail)
{
    AUTO_STRBUF struct strbuf word = { 0 };
    bool is_word = false;
    char quote = 0;
    for (const char *at = line;; at++) {
        bool is_end = !*at || (!quote && strchr (" \t\r\n", *at));
        if (!*at && quote)
            return fail_set (fail, FAIL_GENERAL, "credential_process has an opening quote without a closing one");
        if (is_end && is_word) {
            strlist_add (words, word.text ? word.text : "");
            strbuf_truncate (&word, 0);
            is_word = false;
        }
        if (!*at)
            break;
        if (is_end)
            continue;
        is_word = true;
        if (!quote && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (quote && *at == quote)
            quote = 0;
        else {
            bool is_escape = *at == '\\' && quote != '\'' && at[1] && (!quote || strchr ("\"\\", at[1]));
            at += is_escape;
            strbuf_add_char (&word, *at);
        }
    }
    if (word.failed || words->failed)
        return fail_nomem (fail);
    return words->count ? 0 : fail_set (fail, FAIL_GENERAL, "credential_process is empty");
}

static int
start (const struct strlist *words, int out, pid_t *pid, struct fail *fail)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset (&none);
    if (posix_spawn_file_actions_init (&actions))
        return fail_nomem (fail);
    posix_spawnattr_init (&attributes);
    int error = posix_spawn_file_actions_adddup2 (&actions, out, STDOUT_FILENO);
    if (!error)
        error = posix_spawnattr_setsigmask (&attributes, &none);
    if (!error)
        error = posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK);
    if (!error)
        error = posix_spawnp (pid, words->items[0], &actions, &attributes, words->items, environ);
    posix_spawnattr_destroy (&attributes);
    posix_spawn_file_actions_destroy (&actions);
    if (error)
        return fail_set (fail, FAIL_GENERAL, "cannot execute credential_process %.200s: %s", words->items[0],
                         strerror (error));
    return 0;
}

/* Read until the end of its output. */
static int
collect (const struct aws *aws, int in, struct strbuf *output, struct fail *fail)
{
    int64_t deadline = clock_ms () + DEADLINE_MS;
    struct pollfd fds[2] = { { .fd = in, .events = POLLIN }, { .fd = aws->options.stop_fd, .events = POLLIN } };
    char bytes[4096];
    for (;;) {
        int64_t left = deadline - clock_ms ();
        if (left <= 0)
            return fail_set (fail, FAIL_GENERAL, "credential_process has not ended within %d s", DEADLINE_MS / 1000);
        if (poll (fds, 2, (int) left) < 0 && errno != EINTR)
            return fail_set (fail, FAIL_GENERAL, "poll: %s", strerror (errno));
        if (fds[1].revents)
            return fail_set (fail, FAIL_GENERAL, "interrupted");
        if (!fds[0].revents)
            continue;
        ssize_t got = read (in, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        strbuf_add_bytes (output, bytes, (size_t) got);
        explicit_bzero (bytes, sizeof bytes);
        if (output->failed)
            return fail_nomem (fail);
        if (output->length > MOST_OUTPUT)
            return fail_set (fail, FAIL_GENERAL, "credential_process prints more than %d bytes", MOST_OUTPUT);
    }
}

/* @return its status; after the deadline, or when the caller is to stop, it is killed */
static int
reap (const struct aws *aws, pid_t pid, bool is_killed)
{
    struct pollfd stop = { .fd = is_killed ? -1 : aws->options.stop_fd, .events = POLLIN };
    int status = 0;
    if (is_killed)
        kill (pid, SIGKILL);
    for (int64_t end = clock_ms () + DEADLINE_MS;;) {
        pid_t ended = waitpid (pid, &status, clock_ms () < end ? WNOHANG : 0);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return status;
        if (clock_ms () >= end)
            kill (pid, SIGKILL);
        if (poll (&stop, 1, SLICE_MS) > 0) {
            kill (pid, SIGKILL);
            stop.fd = -1;
        }
    }
}

static int
take_output (const struct strbuf *output, struct keys *keys, struct fail *fail)
{
    json_t *json = keys_parse (output->text, output->length, "the output of credential_process", fail);
    int result = -1;
    if (!json)
        return -1;
    if (json_integer_value (json_object_get (json, "Version")) != 1)
        fail_set (fail, FAIL_GENERAL, "the output of credential_process has no 'Version' 1");
    else
        result = keys_from_json (keys, json, &keys_names_process, fail);
    json_decref (json);
    return result;
}

static int
run (struct aws *aws, const struct strlist *words, struct keys *keys, struct fail *fail)
{
    AUTO_STRBUF struct strbuf output = { 0 };
    int ends[2];
    pid_t pid;
    if (pipe2 (ends, O_CLOEXEC))
        return fail_set (fail, FAIL_GENERAL, "pipe: %s", strerror (errno));
    int result = start (words, ends[1], &pid, fail);
    close (ends[1]);
    if (!result) {
        result = collect (aws, ends[0], &output, fail);
        int status = reap (aws, pid, result != 0);
        if (!result && (!WIFEXITED (status) || WEXITSTATUS (status)))
            result = fail_set (fail, FAIL_GENERAL, "credential_process %.200s failed with %s %d", words->items[0],
                               WIFEXITED (status) ? "status" : "signal",
                               WIFEXITED (status) ? WEXITSTATUS (status) : WTERMSIG (status));
        if (!result)
            result = take_output (&output, keys, fail);
    }
    close (ends[0]);
    if (output.text)
        explicit_bzero (output.text, output.capacity);
    return result;
}

int
source_process (struct aws *aws, const char *profile, struct found *found, struct fail *fail)
{
    AUTO_STRLIST struct strlist words = { 0 };
    const char *line = state_profile_value (aws, profile, "credential_process");
    if (!line)
        return SOURCE_NONE;
    int result = split (line, &words, fail) || run (aws, &words, &found->keys, fail) ? -1 : 0;
    return found_end (found, result, fail, "AWS profile '%.100s' (credential_process)", profile);
}
