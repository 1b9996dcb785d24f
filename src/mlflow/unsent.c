/* SPDX-License-Identifier: Apache-2.0 */
/* Files of what a server has not got; see unsent.h. */
#include <config.h>

#include "mlflow/unsent.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define BEGINNING "mlflow-"
#define ENDING ".unsent"

enum { MOST_BYTES = 1 << 30 };

static void
add_member (struct strbuf *out, const char *key, const char *text)
{
    strbuf_printf (out, ",\"%s\":", key);
    if (text)
        mlflow_add_string (out, text);
    else
        strbuf_add (out, "null");
}

static void
add_run (struct strbuf *lines, const struct mlflow_run *run)
{
    strbuf_printf (lines, "r{\"start_time\":%" PRId64, run->start_ms);
    add_member (lines, "experiment", run->experiment);
    add_member (lines, "run_name", run->name);
    add_member (lines, "run_id", run->id);
    strbuf_printf (lines, ",\"tags\":%s}\n", run->tags);
}

static char *
copy_member (const json_t *json, const char *key)
{
    const char *text = json_string_value (json_object_get (json, key));
    return text ? strdup (text) : NULL;
}

/* @return whether it is a run. */
static bool
read_run (struct mlflow_run *run, const char *line, size_t length)
{
    json_t *json = length && *line == 'r' ? json_loadb (line + 1, length - 1, 0, NULL) : NULL;
    if (!json)
        return false;
    mlflow_run_release (run);
    run->start_ms = json_integer_value (json_object_get (json, "start_time"));
    run->experiment = copy_member (json, "experiment");
    run->name = copy_member (json, "run_name");
    run->id = copy_member (json, "run_id");
    run->tags = json_dumps (json_object_get (json, "tags"), JSON_COMPACT);
    json_decref (json);
    return run->experiment && run->tags;
}

/* @return 0, or -1 with @p why */
static int
create (struct mlflow_unsent *unsent, const char *folder, const struct mlflow_run *run, struct fail *why)
{
    unsent->path = text_printf ("%s/" BEGINNING "%" PRId64 "-%d" ENDING, folder, run->start_ms, (int) getpid ());
    if (!unsent->path)
        return fail_nomem (why);
    if (io_make_parents (unsent->path, why))
        return -1;
    unsent->fd = open (unsent->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (unsent->fd < 0 || flock (unsent->fd, LOCK_EX | LOCK_NB))
        return fail_set (why, FAIL_GENERAL, "cannot create %s: %s", unsent->path, strerror (errno));
    return 0;
}

int
mlflow_unsent_add (struct mlflow_unsent *unsent, const char *folder, const struct mlflow_run *run,
                   const struct strbuf *lines, struct fail *why)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (unsent->fd < 0) {
        add_run (&text, run);
        if (create (unsent, folder, run, why)) {
            mlflow_unsent_close (unsent);
            return -1;
        }
    }
    strbuf_add_bytes (&text, lines->text, lines->length);
    if (text.failed)
        return fail_nomem (why);
    off_t before = lseek (unsent->fd, 0, SEEK_END);
    if (!io_write_all (unsent->fd, text.text, text.length))
        return 0;
    int number = errno;
    bool undone = before >= 0 && !ftruncate (unsent->fd, before); /* all or nothing */
    return fail_set (why, FAIL_GENERAL, "cannot write %s: %s%s", unsent->path, strerror (number),
                     undone ? "" : ", and its end is damaged");
}

void
mlflow_unsent_close (struct mlflow_unsent *unsent)
{
    if (unsent->fd >= 0)
        close (unsent->fd);
    free (unsent->path);
    *unsent = (struct mlflow_unsent){ .fd = -1 };
}

static void
remove_it (struct mlflow_unsent *unsent)
{
    unlink (unsent->path);
    mlflow_unsent_close (unsent);
}

enum mlflow_answer
mlflow_unsent_send (struct mlflow_unsent *unsent, const struct mlflow_server *server, struct mlflow_run *run,
                    int64_t end_ms, struct fail *refused, struct fail *why)
{
    AUTO_FREE char *text = NULL;
    AUTO_STRBUF struct strbuf line = { 0 };
    size_t length, sent;
    bool is_new = !run->id;
    if (io_read_file (unsent->path, MOST_BYTES, &text, &length, why))
        return MLFLOW_LATER;
    enum mlflow_answer answer = mlflow_begin (server, run, why);
    if (is_new && run->id) { /* whoever sends it must not create the run again, also if this process ends meanwhile */
        struct fail ignored;
        add_run (&line, run);
        mlflow_unsent_add (unsent, NULL, run, &line, &ignored);
    }
    if (!answer)
        answer = mlflow_send (server, run, text, length, &sent, refused, why);
    if (!answer && end_ms && mlflow_end (server, run, "FINISHED", end_ms, why) == MLFLOW_LATER)
        answer = MLFLOW_LATER;
    if (!answer)
        remove_it (unsent);
    return answer;
}

/* The run of a former file, and when it ended; 0: it was killed. */
static bool
read_former (struct mlflow_run *run, int64_t *end_ms, const char *text, size_t length)
{
    bool found = false;
    *end_ms = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr (text + at, '\n', length - at);
        if (!end)
            break;
        size_t whole = (size_t) (end - text) - at;
        if (text[at] == 'r')
            found = read_run (run, text + at, whole) || found;
        else if (text[at] == 'e')
            *end_ms = strtoll (text + at + 1, NULL, 10);
        at += whole + 1;
    }
    return found;
}

static enum mlflow_answer
send_former (struct mlflow_unsent *unsent, const struct mlflow_server *server, struct fail *refused, struct fail *why)
{
    AUTO_FREE char *text = NULL;
    struct mlflow_run run = { 0 };
    size_t length, sent;
    int64_t end_ms;
    enum mlflow_answer answer = MLFLOW_DONE;
    if (io_read_file (unsent->path, MOST_BYTES, &text, &length, why))
        return MLFLOW_LATER;
    if (read_former (&run, &end_ms, text, length)) {
        answer = mlflow_send (server, &run, text, length, &sent, refused, why);
        if (!answer)
            answer = mlflow_end (server, &run, end_ms ? "FINISHED" : "FAILED", end_ms, why);
    }
    if (answer != MLFLOW_LATER)
        remove_it (unsent);
    mlflow_run_release (&run);
    return answer;
}

enum mlflow_answer
mlflow_unsent_send_former (const char *folder, const struct mlflow_server *server, struct fail *refused,
                           struct fail *why)
{
    DIR *dir = opendir (folder);
    enum mlflow_answer answer = MLFLOW_DONE;
    for (const struct dirent *entry; answer != MLFLOW_LATER && dir && (entry = readdir (dir));) {
        if (strncmp (entry->d_name, BEGINNING, strlen (BEGINNING)) != 0 || !text_ends_in (entry->d_name, ENDING))
            continue;
        struct mlflow_unsent unsent = { .fd = -1, .path = text_printf ("%s/%s", folder, entry->d_name) };
        unsent.fd = unsent.path ? open (unsent.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (unsent.fd >= 0 && !flock (unsent.fd, LOCK_EX | LOCK_NB)) /* its process has ended */
            answer = send_former (&unsent, server, refused, why);
        mlflow_unsent_close (&unsent);
    }
    if (dir)
        closedir (dir);
    return answer;
}
