/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a job, its file, and who holds the memory of GPUs; see report.h. */
#include <config.h>

#include "launch/report/report.h"

#include "config/text/json_text.h"
#include "launch/job/job.h"
#include "launch/machine/gpus.h"
#include "launch/process/process.h"
#include "launch/stacks/stacks.h"
#include "util/array.h"
#include "util/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    REPORT_GROUPS = 16, /* lines about other ranks */
    REPORT_ABORTED = 3, /* lines about ranks that may have failed first */
    NEAR_BYTES = 640,   /* of others after a rank's last line, which is still easy to find then */
};

/* ---- what ranks were doing ---- */

static void
add_rank (struct rank_activity *activity, struct rank_activity_rank rank)
{
    if (!array_room (&activity->ranks, activity->count, sizeof *activity->ranks))
        return;
    size_t place = activity->count++;
    for (; place > 0 && activity->ranks[place - 1].rank > rank.rank; place--)
        activity->ranks[place] = activity->ranks[place - 1];
    activity->ranks[place] = rank;
}

void
rank_activity_add (struct rank_activity *activity, const char *json, bool gave_up)
{
    static const char words[] = "gave up: ";
    size_t index;
    json_t *report = json ? json_loads (json, 0, NULL) : NULL, *item;
    if (!report)
        return;
    activity->reports = activity->reports ? activity->reports : json_array ();
    if (json_array_append_new (activity->reports, report))
        return;
    activity->killed += json_integer_value (json_object_get (report, "killed"));
    json_array_foreach (json_object_get (report, "ranks"), index, item) {
        const json_t *rank = json_object_get (item, "rank");
        const json_t *seconds = json_object_get (item, "seconds");
        const char *text = json_string_value (json_object_get (item, "doing"));
        if (json_is_integer (rank) && text && (gave_up || strncmp (text, words, sizeof words - 1) != 0))
            add_rank (activity, (struct rank_activity_rank){
                                    .rank = (int) json_integer_value (rank), .text = text,
                                    .seconds = json_is_real (seconds) ? json_real_value (seconds) : -1,
                                    .frame = json_string_value (json_object_get (item, "frame")) });
    }
}

static bool
is_alike (const struct rank_activity *activity, size_t a, size_t b)
{
    const char *frame = activity->ranks[a].frame, *other = activity->ranks[b].frame;
    return !strcmp (activity->ranks[a].text, activity->ranks[b].text)
           && !strcmp (frame ? frame : "", other ? other : "");
}

static bool
is_first (const struct rank_activity *activity, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_alike (activity, i, index))
            return false;
    return true;
}

/* "ranks 2, 4-7: computing after accel_backward at train.c:90 for 12 s, in load (data.c:33)".  The longest of their
 * times; short ones say nothing. */
static void
put_alike (const struct rank_activity *activity, size_t first, struct strbuf *out)
{
    AUTO_FREE int *ranks = calloc (activity->count, sizeof *ranks);
    double seconds = 0;
    size_t count = 0;
    for (size_t i = first; ranks && i < activity->count; i++) {
        if (!is_alike (activity, i, first))
            continue;
        ranks[count++] = activity->ranks[i].rank;
        seconds = activity->ranks[i].seconds > seconds ? activity->ranks[i].seconds : seconds;
    }
    out->failed = out->failed || !ranks;
    strbuf_printf (out, "    rank%s ", count > 1 ? "s" : "");
    stacks_put_ranks (ranks, count, out);
    strbuf_printf (out, ": %s", activity->ranks[first].text);
    if (seconds >= 1) {
        strbuf_add (out, " for ");
        stacks_put_seconds (seconds, out);
    }
    if (activity->ranks[first].frame)
        strbuf_printf (out, ", in %s", activity->ranks[first].frame);
    strbuf_add_char (out, '\n');
}

void
rank_activity_put (const struct rank_activity *activity, const char *title, struct strbuf *out)
{
    int lines = 0;
    for (size_t i = 0; i < activity->count; i++) {
        if (!is_first (activity, i))
            continue;
        if (lines == 0)
            strbuf_printf (out, "  %s:\n", title);
        if (lines++ == REPORT_GROUPS) {
            strbuf_add (out, "    ...\n");
            return;
        }
        put_alike (activity, i, out);
    }
}

static json_t *
make_activity (const struct rank_activity_rank *rank)
{
    return json_pack ("{si so so so}", "rank", rank->rank, "doing", json_text (rank->text), "seconds",
                      rank->seconds < 0 ? json_null () : json_real (rank->seconds), "frame",
                      rank->frame ? json_text (rank->frame) : json_null ());
}

json_t *
rank_activity_json (const struct rank_activity *activity)
{
    json_t *ranks = json_array ();
    for (size_t i = 0; i < activity->count; i++)
        json_array_append_new (ranks, make_activity (&activity->ranks[i]));
    return ranks;
}

void
rank_activity_release (struct rank_activity *activity)
{
    free (activity->ranks);
    json_decref (activity->reports);
    *activity = (struct rank_activity){ 0 };
}

/* ---- one rank ---- */

/* Another launcher, whose end need not be that of the program. */
static const char *
name_of_only (const struct job *job)
{
    const struct plan *plan = job->plan;
    bool is_launcher = plan->is_external && (plan->path == PATH_MPIRUN || plan->path == PATH_DEEPSPEED);
    const char *path = is_launcher ? plan->processes[0].argv.items[0] : plan->program;
    const char *slash = is_launcher ? strrchr (path, '/') : NULL;
    return slash ? slash + 1 : path;
}

/* "rank 3", or the program's name if there is but one process. */
static void
add_who (const struct job *job, const struct job_rank *rank, struct strbuf *out)
{
    if (job->plan->world_size == 1)
        strbuf_printf (out, "%s (process %d on %s)", name_of_only (job), (int) rank->pid, job->plan->host);
    else
        strbuf_printf (out, "rank %d (process %d on %s)", rank->process->rank, (int) rank->pid, job->plan->host);
}

/* Why the library gave up in @rank, or what has failed there; programs print that as a rule.  NULL: neither. */
static const char *
reason_of (const struct job_rank *rank)
{
    static const char *const words[] = { "gave up: ", "failed in " };
    for (size_t i = 0; rank->doing && i < sizeof words / sizeof *words; i++)
        if (!strncmp (rank->doing, words[i], strlen (words[i])))
            return rank->doing + strlen (words[i]);
    return NULL;
}

static struct rank_activity_rank
activity_of (const struct job_rank *rank, const char *text)
{
    return (struct rank_activity_rank){
        .rank = rank->process->rank,
        .text = text,
        .seconds = rank->doing_ns < 0 ? -1 : (double) (rank->doing_ns / 1000000) / 1000,
        .frame = rank->frame,
    };
}

static bool
is_timeout (const char *doing)
{
    return doing && strstr (doing, " timed out after ");
}

/* Whether it is of interest where exactly ranks were: one of them waited in vain. */
static bool
has_stacks (const struct job *job)
{
    return job->stacks && job->end == JOB_FAILED && is_timeout (job->ranks[job->first_failed].doing);
}

/* The stack of @rank, if it has shown one; NULL. */
static json_t *
stack_of (const struct job *job, const struct job_rank *rank)
{
    size_t index;
    json_t *stack;
    json_array_foreach (has_stacks (job) ? job->stacks : NULL, index, stack)
        if (json_integer_value (json_object_get (stack, "rank")) == rank->process->rank
            && json_array_size (json_object_get (stack, "stack")))
            return stack;
    return NULL;
}

/* What the ranks but the failed one were doing, those that did the same together. */
static void
add_others (const struct job *job, const char *title, struct strbuf *out)
{
    struct rank_activity activity = { 0 };
    json_t *stacks = json_array ();
    const struct job_rank *failed = job->first_failed >= 0 ? &job->ranks[job->first_failed] : NULL;
    bool has_reason = failed && reason_of (failed);
    for (int i = 0; i < job->count; i++) {
        const char *doing = i != job->first_failed ? job->ranks[i].doing : NULL;
        json_t *stack = doing ? stack_of (job, &job->ranks[i]) : NULL;
        bool is_told = doing && has_reason
                       && (!strcmp (doing, failed->doing) || (has_stacks (job) && is_timeout (doing)));
        if (stack)
            json_array_append (stacks, stack);
        else if (doing)
            add_rank (&activity, activity_of (&job->ranks[i], is_told ? "gave up for the same reason" : doing));
    }
    rank_activity_put (&activity, title, out);
    if (json_array_size (stacks) && !activity.count)
        strbuf_printf (out, "  %s:\n", title);
    stacks_put (stacks, "    ", out);
    json_decref (stacks);
    rank_activity_release (&activity);
}

/* Whether @lines, the last ones of @rank, are just above the report: together, with few lines after them.  In a file
 * they may be far from what a user looks at, and over hosts the output of others comes between. */
static bool
is_just_above (const struct job *job, const struct job_rank *rank, const struct strlist *lines)
{
    const struct output_stream *stream = &rank->streams[JOB_ERR];
    const struct output_sink *sink = job->sink_of[JOB_ERR];
    size_t label = stream->prefix ? strlen (stream->prefix) : 0;
    uint64_t length = 0;
    bool is_seen = !job->plan->is_merged && (stream->on_terminal || (sink && sink->may_block));
    for (size_t i = 0; i < lines->count; i++)
        length += label + strlen (lines->items[i]) + 1;
    return length && is_seen && stream->run_end - stream->run_begin + 1 >= length
           && output_sink_position (sink) - stream->run_end <= NEAR_BYTES;
}

/* What the rank has said about it: in the error file of torch's @record, and on stderr, where the same traceback is
 * as a rule. */
static void
add_words (const struct job *job, const struct job_rank *rank, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf message = { 0 };
    AUTO_STRLIST struct strlist lines = { 0 }, traceback = { 0 };
    logs_read_error (job->plan, rank, &message, &traceback);
    output_stream_tail (&rank->streams[JOB_ERR], &lines);
    if (lines.count == 1 && reason_of (rank) && strstr (lines.items[0], reason_of (rank)))
        strlist_release (&lines); /* it is in the report already */
    if (message.length)
        strbuf_printf (out, "  its error file says: %s\n", message.text);
    bool is_on_screen = is_just_above (job, rank, &lines);
    if (is_on_screen) {
        strbuf_printf (out, "  its last line%s on stderr %s above", lines.count > 1 ? "s" : "",
                       lines.count > 1 ? "are" : "is");
        if (rank->streams[JOB_ERR].prefix)
            strbuf_printf (out, ", after [%d]", rank->process->rank);
        strbuf_add_char (out, '\n');
    } else if (lines.count)
        strbuf_printf (out, "  its last line%s on stderr:\n", lines.count > 1 ? "s" : "");
    else if (traceback.count)
        strbuf_add (out, "  the end of its traceback:\n");
    const struct strlist *shown = lines.count ? &lines : &traceback;
    for (size_t i = 0; i < shown->count && !is_on_screen; i++)
        strbuf_printf (out, "    %s\n", shown->items[i]);
    if (job->plan->logs.run)
        strbuf_printf (out, "  its files are in %s/attempt_%lld/%d\n", job->plan->logs.run,
                       (long long) job->plan->restarts, rank->process->local_rank);
}

/* Ranks that were aborting when the first failure was seen: that may be due to it, or the other way round.  Those that
 * say whose end they have seen leave no doubt. */
static void
add_aborted (const struct job *job, struct strbuf *out)
{
    const struct job_rank *first = &job->ranks[job->first_failed];
    int left = REPORT_ABORTED;
    for (int i = 0; i < job->count && status_may_follow (first->wait_status); i++) {
        const struct job_rank *rank = &job->ranks[i];
        char how[96];
        if (rank == first || !rank->was_ending || !WIFSIGNALED (rank->wait_status)
            || (rank->doing && jobseg_lost_rank (rank->doing) == first->process->rank) || left-- <= 0)
            continue;
        jobseg_describe_exit (rank->wait_status, how, sizeof how);
        strbuf_add (out, REPORT_SIMULTANEOUS);
        add_who (job, rank, out);
        strbuf_printf (out, " %s\n", how);
    }
}

static void
add_failure (const struct job *job, struct strbuf *out)
{
    const struct job_rank *rank = &job->ranks[job->first_failed];
    char how[96];
    jobseg_describe_exit (rank->wait_status, how, sizeof how);
    /* It may have been told to end when another rank's end was seen, which named it; or its process went well. */
    bool says_more = rank->doing && (!rank->wait_status || rank->wait_status != job->failed_status);
    strbuf_add (out, "accelerate: ");
    add_who (job, rank, out);
    strbuf_printf (out, " %s\n", says_more ? rank->doing : how);
    if (job->out_of_memory)
        strbuf_add (out, "  out of memory: the kernel killed it, or another process in its control group\n");
    if (rank->doing && !says_more) {
        bool is_sentence = reason_of (rank) || !strncmp (rank->doing, "has ", 4);
        strbuf_printf (out, is_sentence ? "  it %s\n" : "  it was: %s\n", rank->doing);
    }
    add_words (job, rank, out);
    add_aborted (job, out);
    for (size_t i = 0; i < job->gpu_lines.count; i++)
        strbuf_printf (out, "  %s\n", job->gpu_lines.items[i]);
    add_others (job, "the other ranks at that moment", out);
}

void
report_stop (const uint64_t *step, int signal, const char *reason, struct strbuf *out)
{
    const char *name = sigabbrev_np (signal);
    strbuf_add (out, "accelerate: ");
    if (step)
        strbuf_printf (out, "saved step %llu on all ranks, then ", (unsigned long long) *step);
    if (reason)
        strbuf_printf (out, "ended %s\n", reason);
    else
        strbuf_printf (out, "ended by SIG%s\n", name ? name : "?");
}

static void
add_stop (const struct job *job, struct strbuf *out)
{
    uint64_t step;
    bool is_saved = job_saved_step (job, &step);
    if (job->sinks[JOB_ERR].is_terminal && (job->signal == SIGINT || job->signal == SIGQUIT))
        strbuf_add_char (out, '\n'); /* after the ^C that the terminal shows */
    report_stop (is_saved ? &step : NULL, job->signal, job->stop_reason, out);
    if (!is_saved)
        add_others (job, "the ranks at that moment", out);
}

void
report_text (const struct job *job, struct strbuf *out)
{
    if (job->end == JOB_FAILED)
        add_failure (job, out);
    else if (job->end == JOB_STOPPED && !job->signal && !job->stop_reason)
        strbuf_add (out, "accelerate: job ended because the launcher was killed\n");
    else if (job->end == JOB_STOPPED)
        add_stop (job, out);
    report_killed (job, out);
}

void
report_killed (const struct job *job, struct strbuf *out)
{
    if (job->end == JOB_DONE)
        return;
    if (job->killed && job->out_of_grace)
        strbuf_printf (out, "  %d process%s did not end within %lld s and had to be killed\n", job->killed,
                       job->killed > 1 ? "es" : "", (long long) job->plan->grace_s);
    else if (job->killed)
        strbuf_printf (out, "  %d process%s killed immediately\n", job->killed, job->killed > 1 ? "es were" : " was");
}

void
report_losses (const struct job *job, struct strbuf *out)
{
    for (int i = 0; i < JOB_STREAMS; i++)
        if (job->sinks[i].lost)
            strbuf_printf (out, "accelerate: %s: %s: %llu bytes of the ranks' output were lost\n", job->sinks[i].name,
                           strerror (job->sinks[i].error), (unsigned long long) job->sinks[i].lost);
    if (job->not_passed_on)
        strbuf_printf (out, "accelerate: %llu bytes of the ranks' output were not passed on%s\n",
                       (unsigned long long) job->not_passed_on,
                       job->plan->logs.run ? "; output that --tee captures is in the ranks' files" : "");
    if (job->has_leftovers)
        strbuf_add (out, "accelerate: could not kill processes that the ranks left behind\n");
}

static json_t *
make_texts (const struct strlist *lines)
{
    json_t *texts = json_array ();
    for (size_t i = 0; i < lines->count; i++)
        json_array_append_new (texts, json_text (lines->items[i]));
    return texts;
}

static void
add_error_file (const struct job *job, const struct job_rank *rank, json_t *failure)
{
    AUTO_STRBUF struct strbuf message = { 0 };
    AUTO_STRLIST struct strlist lines = { 0 };
    logs_read_error (job->plan, rank, &message, &lines);
    json_object_set_new (failure, "error", message.length ? json_text (message.text) : json_null ());
    json_object_set_new (failure, "traceback", make_texts (&lines));
}

/* What the ranks but the failed one were doing. */
static json_t *
make_others (const struct job *job)
{
    struct rank_activity activity = { 0 };
    for (int i = 0; i < job->count; i++)
        if (i != job->first_failed && job->ranks[i].doing)
            add_rank (&activity, activity_of (&job->ranks[i], job->ranks[i].doing));
    json_t *others = rank_activity_json (&activity);
    rank_activity_release (&activity);
    return others;
}

static json_t *
make_failure (const struct job *job)
{
    const struct job_rank *rank = &job->ranks[job->first_failed];
    bool by_signal = WIFSIGNALED (job->failed_status);
    int number = by_signal ? WTERMSIG (job->failed_status) : WEXITSTATUS (job->failed_status);
    AUTO_STRLIST struct strlist lines = { 0 };
    output_stream_tail (&rank->streams[JOB_ERR], &lines);
    json_t *failure = json_pack ("{si si si so so sb}", "rank", rank->process->rank, "local_rank",
                                 rank->process->local_rank, "pid", (int) rank->pid, "exit_code",
                                 by_signal ? json_null () : json_integer (number), "signal",
                                 by_signal ? json_integer (number) : json_null (), "out_of_memory", job->out_of_memory);
    if (rank->doing)
        json_object_set_new (failure, "doing", json_text (rank->doing));
    json_object_set_new (failure, "stderr", make_texts (&lines));
    json_object_set_new (failure, "gpus", make_texts (&job->gpu_lines));
    add_error_file (job, rank, failure);
    json_object_set_new (failure, "others", make_others (job));
    json_object_set (failure, "stacks", has_stacks (job) ? job->stacks : json_null ());
    return failure;
}

int
report_print_json (json_t *root, struct strbuf *out, struct fail *fail)
{
    AUTO_FREE char *text = json_dumps (root, JSON_COMPACT);
    json_decref (root);
    if (!text)
        return fail_nomem (fail); /* its texts are UTF-8, so nothing else can fail */
    strbuf_printf (out, "%s\n", text);
    return out->failed ? fail_nomem (fail) : 0;
}

void
report_attempts_add (struct report_attempts *attempts, const struct strbuf *json)
{
    struct strlist *reports = &attempts->reports;
    attempts->count++;
    if (!json->text || json->failed)
        return;
    if (reports->count == REPORT_RESTARTS) {
        free (reports->items[0]);
        memmove (reports->items, reports->items + 1, --reports->count * sizeof *reports->items);
    }
    strlist_add (reports, json->text);
}

void
report_attempts_release (struct report_attempts *attempts)
{
    strlist_release (&attempts->reports);
    *attempts = (struct report_attempts){ 0 };
}

/* What of a report says why an attempt failed. */
static json_t *
make_restart (const char *report, int64_t attempt)
{
    static const char *const keys[] = { "host", "exit_status", "output_bytes_lost", "failure", "error" };
    json_t *root = json_loads (report, 0, NULL), *made = json_object ();
    json_object_set_new (made, "attempt", json_integer (attempt));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get (root, keys[i]);
        json_object_set (made, keys[i], value ? value : json_null ());
    }
    json_decref (root);
    return made;
}

int
report_put_attempts (const struct report_attempts *attempts, struct strbuf *json, struct fail *fail)
{
    json_t *root = json->text ? json_loads (json->text, 0, NULL) : NULL;
    json_t *list = json_object_get (root, "restarts");
    if (!json_is_array (list)) {
        json_decref (root);
        return fail_nomem (fail); /* we have made it, so nothing else can be wrong with it */
    }
    for (size_t i = 0; i < attempts->reports.count; i++) {
        int64_t attempt = attempts->count - (int64_t) attempts->reports.count + (int64_t) i;
        json_array_append_new (list, make_restart (attempts->reports.items[i], attempt));
    }
    json_object_set_new (root, "restart_count", json_integer (attempts->count));
    strbuf_truncate (json, 0);
    return report_print_json (root, json, fail);
}

/* All that a report has, of a job that has come to nothing. */
static json_t *
begin_json (const char *host, const char *program, int world_size, int exit_status)
{
    json_t *root = json_object ();
    json_object_set_new (root, "host", json_text (host ? host : ""));
    json_object_set_new (root, "world_size", json_integer (world_size));
    json_object_set_new (root, "program", json_text (program ? program : ""));
    json_object_set_new (root, "exit_status", json_integer (exit_status));
    json_t *rest = json_pack ("{si s[] sn sn sn s[] si si sn sn}", "restart_count", 0, "restarts", "signal",
                              "saved_step", "stop_reason", "ranks", "killed", 0, "output_bytes_lost", 0, "failure",
                              "error");
    json_object_update (root, rest);
    json_decref (rest);
    return root;
}

/* What the ranks that have ended have used. */
static json_t *
make_processes (const struct job *job)
{
    json_t *processes = json_array ();
    for (int i = 0; i < job->count; i++)
        if (job->ranks[i].ended)
            json_array_append_new (processes, json_pack ("{si sI sf}", "rank", job->ranks[i].process->rank,
                                                         "peak_memory_bytes", (json_int_t) job->ranks[i].peak_bytes,
                                                         "cpu_s", (double) job->ranks[i].cpu_ms / 1e3));
    return processes;
}

int
report_json (const struct job *job, struct strbuf *out, struct fail *fail)
{
    const struct plan *plan = job->plan;
    uint64_t step;
    json_t *root = begin_json (plan->host, plan->program, plan->world_size, job_status (job));
    if (job->end == JOB_STOPPED && job->signal)
        json_object_set_new (root, "signal", json_integer (job->signal));
    if (job->end == JOB_STOPPED && job_saved_step (job, &step))
        json_object_set_new (root, "saved_step", json_integer ((json_int_t) step));
    if (job->end == JOB_STOPPED && job->stop_reason)
        json_object_set_new (root, "stop_reason", json_text (job->stop_reason));
    if (job->end == JOB_STOPPED)
        json_object_set_new (root, "ranks", make_others (job));
    json_object_set_new (root, "killed", json_integer (job->killed));
    json_object_set_new (root, "output_bytes_lost", json_integer ((json_int_t) job_lost_bytes (job)));
    json_object_set_new (root, "processes", make_processes (job));
    if (job->end == JOB_FAILED)
        json_object_set_new (root, "failure", make_failure (job));
    return report_print_json (root, out, fail);
}

int
report_json_error (const char *host, const char *program, int world_size, const struct fail *error, struct strbuf *out,
                   struct fail *fail)
{
    json_t *root = begin_json (host, program, world_size, error->status);
    json_object_set_new (root, "error", json_text (error->text));
    return report_print_json (root, out, fail);
}

/* ---- the file that --failure_report names ---- */

/* The report must not replace a file that our own output goes to. */
static int
check_apart (const char *file, const struct io_target *report, struct fail *fail)
{
    static const char *const names[] = { "standard output", "standard error" };
    struct stat info, ours;
    for (int i = 0; i < 2; i++)
        if (!stat (report->path, &info) && !fstat (i + 1, &ours) && info.st_dev == ours.st_dev
            && info.st_ino == ours.st_ino)
            return fail_set (fail, FAIL_GENERAL, "--failure_report: %s: %s goes there; name another file", file,
                             names[i]);
    return 0;
}

static bool
is_report (const char *path)
{
    static const char begin[] = REPORT_BEGIN;
    char bytes[sizeof begin - 1];
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd >= 0 && read (fd, bytes, sizeof bytes) == sizeof bytes && !memcmp (bytes, begin, sizeof bytes);
}

int
report_file_prepare (struct io_target *report, const char *file, bool is_certain, struct fail *fail)
{
    if (!file)
        return 0;
    if (io_check_writable (file, fail) || io_target_find (report, file, 0644, fail))
        return fail_prefix (fail, "--failure_report");
    if (check_apart (file, report, fail))
        return -1;
    return report->exists && (is_certain || is_report (report->path)) && unlink (report->path)
           ? fail_set (fail, FAIL_GENERAL, "--failure_report: %s: cannot remove the old one: %s", file,
                       strerror (errno)) : 0;
}

void
report_file_refuse (const struct io_target *report, const char *program, int64_t world_size, const struct fail *error)
{
    AUTO_STRBUF struct strbuf json = { 0 };
    struct fail unused = { 0 };
    char host[256] = "";
    gethostname (host, sizeof host - 1);
    if (report->path && access (report->path, F_OK)
        && !report_json_error (host, program, (int) world_size, error, &json, &unused))
        io_target_write (report, json.text, json.length, &unused);
}

/* ---- where ranks were ---- */

static struct job_rank *
find_rank (const struct job *job, const json_t *stack)
{
    json_int_t rank = json_integer_value (json_object_get (stack, "rank"));
    for (int i = 0; i < job->count; i++)
        if (job->ranks[i].process->rank == rank)
            return &job->ranks[i];
    return NULL;
}

void
report_find_stacks (struct job *job)
{
    size_t index;
    json_t *stack;
    if (!job->taken.count)
        return;
    json_decref (job->stacks);
    job->stacks = stacks_resolve (&job->taken);
    stacks_release (&job->taken);
    json_array_foreach (job->stacks, index, stack) {
        struct job_rank *rank = find_rank (job, stack);
        struct strbuf frame = { 0 };
        stacks_put_own_frame (stack, &frame);
        if (rank && frame.length && !rank->frame)
            rank->frame = strbuf_take (&frame);
        strbuf_release (&frame);
        if (rank && rank->frame && !rank->doing)
            rank->doing = strdup (json_string_value (json_object_get (stack, "doing")));
    }
}

/* ---- who holds the memory of GPUs ---- */

/* Words of CUDA, and of what is built on it. */
static bool
is_about_gpu_memory (const char *line)
{
    static const char *const words[] = {
        "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable",
        "CUDA-capable device(s) is/are busy or unavailable", "CUBLAS_STATUS_ALLOC_FAILED",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr (line, words[i]))
            return true;
    return strcasestr (line, "out of memory") && (strcasestr (line, "cuda") || strcasestr (line, "gpu"));
}

static bool
lacked_gpu_memory (const struct job *job)
{
    const struct job_rank *rank = &job->ranks[job->first_failed];
    AUTO_STRBUF struct strbuf message = { 0 };
    AUTO_STRLIST struct strlist lines = { 0 }, traceback = { 0 };
    logs_read_error (job->plan, rank, &message, &traceback);
    output_stream_tail (&rank->streams[JOB_ERR], &lines);
    bool found = message.text && is_about_gpu_memory (message.text);
    for (size_t i = 0; i < lines.count && !found; i++)
        found = is_about_gpu_memory (lines.items[i]);
    return found;
}

static void
add_gpu (struct job *job, const struct gpu *gpu)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    gpu_describe_use (gpu, &line);
    strlist_add (&job->gpu_lines, line.text ? line.text : "");
}

void
gpu_report_find (struct job *job)
{
    enum { MOST = 64 };
    if (job->end != JOB_FAILED || strncmp (job->ranks[job->first_failed].process->device, "cuda:", 5)
        || !lacked_gpu_memory (job))
        return;
    AUTO_FREE struct gpu *gpus = calloc (MOST, sizeof *gpus);
    int count = gpus ? nvml_list (gpus, MOST, NULL) : -1, used = 0;
    bool are_known = gpu_processes_are_known () && count <= MOST;
    for (int i = 0; i < count && i < MOST; i++) {
        are_known = are_known && gpus[i].process_count >= 0;
        if (gpus[i].process_count > 0) {
            add_gpu (job, &gpus[i]);
            used++;
        }
    }
    if (count > 0 && !used && are_known)
        strlist_add (&job->gpu_lines, "no other process uses a GPU now");
}
