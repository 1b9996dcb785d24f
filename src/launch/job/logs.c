/* SPDX-License-Identifier: Apache-2.0 */
/* Folders and files of the ranks' output; see job.h. */
#include <config.h>

#include "launch/job/job.h"

#include "config/tee.h"
#include "launch/output/terminal.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ERROR_FILE_BYTES = 1024 * 1024, /* a larger error.json is not from torch */
    MESSAGE_BYTES = 500,
};

static int
make_folder (const char *path, struct fail *fail)
{
    return mkdir (path, 0777) && errno != EEXIST
           ? fail_set (fail, FAIL_GENERAL, "cannot create folder %s: %s", path, strerror (errno)) : 0;
}

static int
make_named (char *template, struct fail *fail)
{
    return mkdtemp (template) ? 0
           : fail_set (fail, FAIL_GENERAL, "cannot create a folder for the ranks' output: %s: %s", template,
                       strerror (errno));
}

int
logs_make_run (struct plan *plan, struct fail *fail)
{
    if (!plan->logs.run)
        return 0;
    if (plan->logs.is_temporary) {
        if (make_named (plan->logs.base, fail))
            return -1;
        memcpy (plan->logs.run, plan->logs.base, strlen (plan->logs.base));
    } else if (io_make_parents (plan->logs.run, fail))
        return -1;
    if (make_named (plan->logs.run, fail))
        return -1;
    return plan_set_restarts (plan, 0, fail);
}

int
logs_make_attempt (const struct plan *plan, struct fail *fail)
{
    if (!plan->logs.run)
        return 0;
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/attempt_%lld", plan->logs.run, (long long) plan->restarts);
    size_t length = path.length;
    if (path.failed)
        return fail_nomem (fail);
    if (make_folder (path.text, fail))
        return -1;
    for (int i = 0; i < plan->process_count; i++) {
        strbuf_truncate (&path, length);
        strbuf_printf (&path, "/%d", plan->processes[i].local_rank);
        if (path.failed)
            return fail_nomem (fail);
        if (make_folder (path.text, fail))
            return -1;
    }
    return 0;
}

/* Where a stream of a rank comes from, and what comes before its lines. */
enum capture {
    CAPTURE_NONE,     /* the rank writes to what we write to */
    CAPTURE_PLAIN,    /* lines stay whole */
    CAPTURE_LABELLED, /* and bear the number of the rank */
    CAPTURE_NAMED,    /* --tee */
};

static enum capture
capture_of (const struct job *job, const struct job_rank *rank, int which)
{
    enum plan_label label = job->plan->label;
    bool is_alone = job->count == 1 && !job->plan->is_merged;
    if (rank->process->tee & (which == JOB_OUT ? TEE_OUT : TEE_ERR))
        return CAPTURE_NAMED;
    if (rank->process->is_hidden)
        return CAPTURE_PLAIN;
    if (label == PLAN_LABEL_YES
        || (label == PLAN_LABEL_AUTO && !is_alone && job->sink_of[which]->is_terminal))
        return CAPTURE_LABELLED;
    return is_alone || (which == JOB_OUT && job->sink_of[which]->broken) ? CAPTURE_NONE : CAPTURE_PLAIN;
}

/* Without pseudo-terminals, as in some containers, a pipe does: then programs write when their buffers are full. */
static int
open_ends (struct output_stream *stream, const struct output_sink *sink, int ends[2])
{
    stream->from_terminal = stream->on_terminal && terminal_open (ends) == 0;
    if (!stream->from_terminal)
        return pipe2 (ends, O_CLOEXEC);
    terminal_resize (ends[0], sink->fd, stream->prefix_columns);
    return 0;
}

static int
name_stream (const struct job *job, const struct job_rank *rank, enum capture capture, struct output_stream *stream,
             struct fail *fail)
{
    const struct plan *plan = job->plan;
    if (capture == CAPTURE_LABELLED && stream->on_terminal && plan->label == PLAN_LABEL_AUTO && plan->is_merged)
        stream->prefix = terminal_mark (rank->process->rank, plan->world_size, &stream->prefix_columns);
    else if (capture == CAPTURE_LABELLED)
        stream->prefix = terminal_prefix (rank->process->rank, plan->world_size, stream->on_terminal,
                                          &stream->prefix_columns);
    else if (capture == CAPTURE_NAMED
             && asprintf (&stream->prefix, "[%s%d]:", plan->role, rank->process->local_rank) < 0)
        stream->prefix = NULL;
    return stream->prefix || capture == CAPTURE_PLAIN ? 0 : fail_nomem (fail);
}

static int
open_stream (struct job *job, struct job_rank *rank, int which, int *end, struct fail *fail)
{
    const struct plan *plan = job->plan;
    struct output_stream *stream = &rank->streams[which];
    enum capture capture = capture_of (job, rank, which);
    int ends[2];
    stream->has_tail = which == JOB_ERR;
    stream->on_terminal = capture != CAPTURE_NAMED && job_sink (job, rank, which)->is_terminal;
    stream->keeps_returns = capture == CAPTURE_LABELLED;
    stream->needs_reader = which == JOB_OUT && capture != CAPTURE_NAMED && !rank->process->is_hidden;
    stream->may_ask = rank->may_ask;
    stream->local_rank = rank->process->local_rank;
    if (stream->on_terminal && capture == CAPTURE_LABELLED)
        stream->collapse = job->collapses[job->sink_of[which] - job->sinks];
    if (capture == CAPTURE_NONE)
        return 0;
    if (name_stream (job, rank, capture, stream, fail))
        return -1;
    if (open_ends (stream, job->sink_of[which], ends))
        return fail_set (fail, FAIL_GENERAL, "cannot start rank %d: %s%s", rank->process->rank, strerror (errno),
                         errno == EMFILE ? "; raise the limit (ulimit -n)" : "");
    fcntl (ends[0], F_SETFL, O_NONBLOCK);
    *end = ends[1];
    if (output_stream_init (stream, ends[0], &job->pool, fail))
        return -1;
    if (capture != CAPTURE_NAMED || !plan->logs.run)
        return 0;
    const char *name = which == JOB_OUT ? "stdout.log" : "stderr.log";
    return logfile_open (&stream->log, plan_log_path (plan, rank->process, name), fail);
}

int
logs_count_descriptors (const struct job *job)
{
    int count = 0;
    for (int i = 0; i < job->count; i++)
        for (int j = 0; j < JOB_STREAMS; j++) {
            enum capture capture = capture_of (job, &job->ranks[i], j);
            count += (capture != CAPTURE_NONE) + (capture == CAPTURE_NAMED && job->plan->logs.run);
        }
    return count;
}

int
logs_open_streams (struct job *job, struct job_rank *rank, int ends[JOB_STREAMS], struct fail *fail)
{
    for (int i = 0; i < JOB_STREAMS; i++)
        ends[i] = -1;
    for (int i = 0; i < JOB_STREAMS; i++)
        if (open_stream (job, rank, i, &ends[i], fail)) {
            for (int j = 0; j <= i; j++)
                if (ends[j] >= 0)
                    close (ends[j]);
            logs_close_streams (rank);
            return -1;
        }
    return 0;
}

void
logs_close_streams (struct job_rank *rank)
{
    for (int i = 0; i < JOB_STREAMS; i++)
        output_stream_release (&rank->streams[i]);
}

/* torch writes {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT}}}, others {"message": TEXT}. */
void
logs_read_error (const struct plan *plan, const struct job_rank *rank, struct strbuf *message, struct strlist *lines)
{
    AUTO_FREE char *path = plan->logs.run ? plan_log_path (plan, rank->process, "error.json") : NULL;
    AUTO_FREE char *text = NULL;
    struct stat info;
    size_t length;
    if (!path || lstat (path, &info) || !S_ISREG (info.st_mode)
        || io_read_file (path, ERROR_FILE_BYTES, &text, &length, NULL))
        return;
    json_t *root = json_loadb (text, length, 0, NULL);
    json_t *outer = json_object_get (root, "message");
    json_t *inner = json_is_object (outer) ? json_object_get (outer, "message") : outer;
    const char *stack = json_string_value (json_object_get (json_object_get (outer, "extraInfo"), "py_callstack"));
    const char *said = json_string_value (inner);
    for (size_t i = 0; said && said[i] && i < MESSAGE_BYTES; i++)
        strbuf_add_char (message, (unsigned char) said[i] < 32 ? ' ' : said[i]);
    if (stack)
        output_last_lines (stack, strlen (stack), false, lines);
    json_decref (root);
}
