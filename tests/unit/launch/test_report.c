/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of jobs that are made by hand: who failed, what the others were doing, what error files say; and the folders
 * and files that such a job writes. */
#include <config.h>

#include "launch/job/job.h"
#include "launch/report/report.h"
#include "launch/job/spawn.h"
#include "launch/job/supervisor.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

/* A start that fails: are the ranks that were started told to end? */
static int abandoned, supervised;
#define spawn_pool_start(spawn_pool, supervisor, fail) ((void) (spawn_pool), fail_set (fail, 1, "it cannot be started"))
#define spawn_pool_release(spawn_pool) ((void) (spawn_pool))
#define supervise_abandon(supervisor) ((void) (supervisor), abandoned++)
#define supervise(supervisor) ((void) (supervisor), supervised++)
#include "launch/job/run.c"

enum { MOST = 64 };
static struct plan_process processes[MOST];
static struct job_rank ranks[MOST];
static struct plan plan;
static struct job job;

/* Rank 1 of @count has failed; what it was doing is unknown. */
static void
make_job (int count, int wait_status)
{
    static char host[] = "box", program[] = "prog", role[] = "default";
    plan = (struct plan){ .host = host, .program = program, .world_size = count, .local_world_size = count,
                          .process_count = count, .grace_s = 5, .processes = processes, .role = role };
    job = (struct job){ .plan = &plan, .count = count, .ranks = ranks, .end = JOB_FAILED, .first_failed = 1,
                        .failed_status = wait_status, .segment = JOBSEG_NONE };
    for (int i = 0; i < JOB_STREAMS; i++)
        job.sink_of[i] = &job.sinks[i];
    for (int i = 0; i < count; i++) {
        processes[i] = (struct plan_process){ .rank = i, .local_rank = i };
        ranks[i] = (struct job_rank){ .process = &processes[i], .pid = 100 + i, .pidfd = -1 };
        for (int j = 0; j < JOB_STREAMS; j++)
            ranks[i].streams[j] = (struct output_stream){ .fd = -1, .log.fd = -1 };
    }
    ranks[1].wait_status = wait_status;
}

static void
release_job (void)
{
    for (int i = 0; i < job.count; i++)
        free (ranks[i].doing);
    free (plan.logs.run);
}

static void
check_text (const char *words, bool wanted, const char *name)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    report_text (&job, &out);
    if (!ok (out.text && !strstr (out.text, words) == !wanted, "%s", name))
        diag ("'%s' in: %s", words, out.text ? out.text : "");
}

static void
check_json (const char *words, const char *name)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct fail fail = { 0 };
    int result = report_json (&job, &out, &fail);
    if (!ok (result == 0 && out.text && strstr (out.text, words), "%s %s", name, fail.text))
        diag ("'%s' in: %s", words, out.text ? out.text : "");
}

static void
test_others (void)
{
    make_job (9, 256);
    static const char *const doings[] = { "a", "a", "a", "b", "a", "a", "a", NULL, "b" };
    for (int i = 0; i < job.count; i++)
        ranks[i].doing = doings[i] ? strdup (doings[i]) : NULL;
    check_text ("  it was: a\n", true, "what the failed rank was doing");
    check_text ("    ranks 0, 2, 4-6: a\n    ranks 3, 8: b\n", true,
                "what the others were doing, neighbours as ranges");
    release_job ();
    make_job (4, 256);
    ranks[1].doing = strdup ("a");
    ranks[3].doing = strdup ("a");
    check_text ("    rank 3: a\n", true, "another one that did the same as the failed rank");
    release_job ();
    make_job (30, 256);
    for (int i = 0; i < job.count; i++)
        if (asprintf (&ranks[i].doing, "thing %d", i) < 0)
            ranks[i].doing = NULL;
    check_text ("rank 16: thing 16\n    ...\n", true, "no more than 16 groups");
    check_text ("thing 17", false, "and no more");
    release_job ();
    make_job (17, 256);
    for (int i = 0; i < job.count; i++)
        if (asprintf (&ranks[i].doing, "thing %d", i) < 0)
            ranks[i].doing = NULL;
    check_text ("...", false, "16 groups are all of them");
    release_job ();
}

static void
test_kinds (void)
{
    make_job (2, 256 * 7);
    check_text ("accelerate: rank 1 (process 101 on box) exited with status 7\n", true, "who, and how");
    check_text ("out of memory", false, "no word of memory");
    check_json ("\"exit_code\":7,\"signal\":null,\"out_of_memory\":false", "the same as JSON");
    job.killed = 1;
    check_text ("  1 process was killed immediately\n", true, "killed at once");
    job.out_of_grace = true;
    check_text ("  1 process did not end within 5 s and had to be killed\n", true, "killed after its time");
    ranks[1].wait_status = job.failed_status = SIGKILL;
    job.out_of_memory = true;
    check_text ("  out of memory: the kernel killed it, or another process in its control group\n", true,
                "memory");
    check_json ("\"exit_code\":null,\"signal\":9,\"out_of_memory\":true", "a signal is not an exit code");
    ranks[0].doing = strdup ("caf\xe9 \"x\"");
    ranks[1].doing = strdup ("caf\xc3\xa9");
    check_json ("\"doing\":\"caf? \\\"x\\\"\"", "text that is not UTF-8");
    check_json ("\"doing\":\"caf\xc3\xa9\"", "and text that is");
    release_job ();
}

static void
write_error (const char *text)
{
    const char *path = "run/attempt_0/1/error.json";
    unlink (path);
    if (io_write_file (path, text, strlen (text), 0600, NULL))
        ok (false, "cannot write %s", path);
}

static void
test_error_files (void)
{
    char text[2000], wanted[1000];
    make_job (2, 256);
    plan.logs.run = strdup ("run");
    ok (!mkdir ("run", 0700) && !logs_make_attempt (&plan, NULL), "an attempt's folders");
    ok (!logs_make_attempt (&plan, NULL), "which may be there already");
    write_error ("{\"message\": \"plain \\u001b[31m words\"}");
    check_text ("its error file says: plain  [31m words\n", true, "a message, without control characters");
    write_error ("{\"message\": {\"message\": \"the inner one\", \"extraInfo\": {\"py_callstack\": "
                 "\"\\n1\\u001b\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\n11\\n12\\n13\\n14\\n15\\n16\\n17\\n18\\n19\\n20"
                 "\\n21\\n2\\u001b2\"}}}");
    check_text ("its error file says: the inner one\n  the end of its traceback:\n    3\n    4\n", true,
                "torch's, with the last 20 lines of a traceback");
    check_text ("    21\n    2 2\n", true, "without control characters");
    struct output_stream *stream = &ranks[1].streams[JOB_ERR];
    stream->tail = strdup ("its words\n");
    stream->total = stream->tail_capacity = strlen (stream->tail);
    check_text ("its last line on stderr:\n    its words\n  its files", true, "what stands on stderr comes alone");
    struct output_sink sink = { .written = stream->total };
    stream->on_terminal = true;
    stream->run_end = stream->total;
    job.sink_of[JOB_ERR] = &sink;
    check_text ("its last line on stderr is above\n", true, "not what is just above on a terminal");
    plan.is_merged = true;
    check_text ("its last line on stderr:\n    its words\n", true, "unless ranks of other hosts write there, too");
    plan.is_merged = false;
    free (stream->tail);
    stream->total = 0;
    memset (text, 'x', sizeof text);
    memcpy (text, "{\"message\": \"", 13);
    strcpy (text + sizeof text - 3, "\"}");
    write_error (text);
    snprintf (wanted, sizeof wanted, "says: %.500s\n", text + 100);
    check_text (wanted, true, "500 bytes of a long message");
    ok (!rename ("run/attempt_0/1/error.json", "secret") && !symlink ("../../../secret", "run/attempt_0/1/error.json"),
        "a link");
    check_text ("error file", false, "which is not followed");
    unlink ("run/attempt_0/1/error.json");
    unlink ("secret");
    release_job ();
}

/* Which streams come through us, and where they are kept. */
static void
test_streams (void)
{
    static const struct {
        int count;
        unsigned tee;
        bool out, err, is_named;
    } cases[] = { { 1, 0, false, false, false }, { 2, 0, true, true, false }, { 1, 3, true, true, true },
                  { 2, 1, true, true, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int ends[JOB_STREAMS];
        struct fail fail = { 0 };
        make_job (cases[i].count + 1, 0);
        plan.process_count = job.count = cases[i].count;
        processes[1].tee = cases[i].tee;
        plan.logs.run = strdup ("run");
        ok (!logs_open_streams (&job, &ranks[1], ends, &fail), "streams %s", fail.text);
        ok ((ends[JOB_OUT] >= 0) == cases[i].out && (ends[JOB_ERR] >= 0) == cases[i].err
                && !ranks[1].streams[JOB_ERR].prefix == !cases[i].is_named,
            "%d processes, --tee %u: which come through us", cases[i].count, cases[i].tee);
        if (cases[i].tee) {
            struct job_rank *again = &ranks[0];
            int none[JOB_STREAMS];
            *again = ranks[1];
            for (int j = 0; j < JOB_STREAMS; j++)
                again->streams[j] = (struct output_stream){ .fd = -1, .log.fd = -1 };
            ok (logs_open_streams (&job, again, none, &fail) && strstr (fail.text, "File exists"),
                "a file that is there is not written over: %s", fail.text);
        }
        for (int j = 0; j < JOB_STREAMS; j++)
            if (ends[j] >= 0)
                close (ends[j]);
        logs_close_streams (&ranks[1]);
        unlink ("run/attempt_0/1/stdout.log");
        unlink ("run/attempt_0/1/stderr.log");
        release_job ();
    }
}

static void
test_failed_start (void)
{
    int ends[2] = { -1, -1 };
    ok (!pipe2 (ends, O_CLOEXEC), "a pipe");
    struct guardian guardian = { .pidfd = ends[0] };
    struct fail fail = { 0 };
    struct job made;
    make_job (2, 0);
    ok (job_run (&made, &plan, &guardian, -1, NULL, &fail) && abandoned == 1 && !supervised,
        "a start that fails is abandoned: %s",
        fail.text);
    job_release (&made);
    close (ends[0]);
    close (ends[1]);
    job.end = JOB_STOPPED;
    job.signal = SIGTERM;
    ok (job_status (&job) == 143, "the status of a job that was told to end");
    job.signal = 0;
    ok (job_status (&job) == 137, "and of one whose launcher was killed");
}

int
main (void)
{
    const char *folder = scratch_enter ();
    test_others ();
    test_kinds ();
    test_error_files ();
    test_streams ();
    test_failed_start ();
    if (rmdir ("run/attempt_0/0") || rmdir ("run/attempt_0/1") || rmdir ("run/attempt_0") || rmdir ("run")
        || chdir ("/") || rmdir (folder))
        ok (false, "nothing is left behind");
    return done_testing ();
}
