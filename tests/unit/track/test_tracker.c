/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers of the program: what they are called with, and when; failures, and what is kept; rank 0 only; fork. */
#include <config.h>

#include "lib/track/step_line.h"
#include "lib/track/throughput.h"
#include "tests/ranks.h"
#include "tests/unit/track/tracked.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* What a tracker was called with, as text. */
struct seen {
    char text[1 << 16];
    atomic_int failures; /* so many calls of log fail from now on */
    atomic_int tries;
    atomic_int flush_failures, flushes;
    atomic_bool holds;   /* log does not return before this is false */
    atomic_bool holds_end; /* nor does finish, nor hold_flush */
    atomic_bool is_finished;
    pthread_t thread;
};

ACCEL_PRINTF (2, 3) static void
add (struct seen *seen, const char *format, ...)
{
    size_t length = strlen (seen->text);
    va_list args;
    va_start (args, format);
    vsnprintf (seen->text + length, sizeof seen->text - length, format, args);
    va_end (args);
}

static void
add_values (struct seen *seen, const struct accel_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].kind == ACCEL_NUMBER)
            add (seen, " %s=%g", values[i].key, values[i].number);
        else if (values[i].kind == ACCEL_TEXT)
            add (seen, " %s='%s'", values[i].key, values[i].text);
        else if (values[i].kind == ACCEL_HISTOGRAM)
            add (seen, " %s=[%zu %g]", values[i].key, values[i].count,
                 (double) ((const float *) values[i].data)[values[i].count - 1]);
        else
            add (seen, " %s=%ux%u%.*s", values[i].key, values[i].width, values[i].height,
                 (int) (values[i].width * values[i].height * values[i].channels), (const char *) values[i].data);
}

static enum accel_status
start (void *user, const struct accel_tracker_run *run, struct accel_error *why)
{
    (void) why;
    add (user, "start %s %s;", run->project_name, run->run_name ? run->run_name : "-");
    return ACCEL_OK;
}

static enum accel_status
refuse (void *user, const struct accel_tracker_run *run, struct accel_error *why)
{
    (void) user, (void) run;
    strcpy (why->text, "no such place");
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
store (void *user, const struct accel_value *values, size_t count, struct accel_error *why)
{
    (void) why;
    add (user, " config");
    add_values (user, values, count);
    add (user, ";");
    return ACCEL_OK;
}

static enum accel_status
keep (void *user, const struct accel_value *values, size_t count, int64_t step, double time, struct accel_error *why)
{
    struct seen *seen = user;
    seen->thread = pthread_self ();
    atomic_fetch_add (&seen->tries, 1);
    while (atomic_load (&seen->holds))
        sleep_ms (1);
    if (atomic_load (&seen->failures) > 0) {
        atomic_fetch_sub (&seen->failures, 1);
        strcpy (why->text, "the server is away");
        return ACCEL_ERR_SYSTEM;
    }
    add (seen, " %lld", (long long) step);
    add_values (seen, values, count);
    add (seen, time > 1.6e9 && time < 1e11 ? ";" : " at an odd time;");
    return ACCEL_OK;
}

static enum accel_status
flush (void *user, struct accel_error *why)
{
    struct seen *seen = user;
    if (atomic_load (&seen->flush_failures) <= 0)
        return ACCEL_OK;
    add (seen, " full;");
    atomic_fetch_sub (&seen->flush_failures, 1);
    strcpy (why->text, "the disk is full");
    return ACCEL_ERR_SYSTEM;
}

/* While the program logs more. */
static enum accel_status
hold_flush (void *user, struct accel_error *why)
{
    struct seen *seen = user;
    (void) why;
    atomic_fetch_add (&seen->flushes, 1);
    while (atomic_load (&seen->holds_end))
        sleep_ms (1);
    return ACCEL_OK;
}

static void
finish (void *user)
{
    while (atomic_load (&((struct seen *) user)->holds_end))
        sleep_ms (1);
    atomic_store (&((struct seen *) user)->is_finished, true);
}

static struct accel_tracker_calls
calls_for (const char *name, struct seen *seen)
{
    return (struct accel_tracker_calls){ .name = name, .user = seen, .start = start,
                                         .store_init_configuration = store, .log = keep, .finish = finish };
}

static struct accel *
open_with (const struct accel_tracker_calls *calls, size_t count, const struct accel_tracker_options *given)
{
    struct accel *acc = open_tracked (NULL);
    struct accel_tracker_options options = given ? *given : (struct accel_tracker_options){ 0 };
    options.trackers = calls;
    options.tracker_count = count;
    options.throughput = ACCEL_NO;
    must (accel_init_trackers (acc, "project", NULL, 0, &options, &err));
    return acc;
}

static void
test_values (void)
{
    static struct seen seen;
    char key[] = "loss", pixels[] = "abcdef";
    float samples[] = { 1, 2, 3.5f };
    struct accel_tracker_calls calls = calls_for ("mine", &seen);
    struct accel_value config[] = { { .key = "lr", .number = 0.5 },
                                    { .key = "model", .kind = ACCEL_TEXT, .text = "mlp" } };
    struct accel *acc = open_tracked (NULL);
    must (accel_log_number (acc, "early", 1, 0, &err));
    must (accel_init_trackers (acc, "project", config, 2,
                               &(struct accel_tracker_options){ .run_name = "first", .trackers = &calls,
                                                                .tracker_count = 1, .throughput = ACCEL_NO },
                               &err));
    struct accel_value values[] = {
        { .key = key, .number = 0.25 },
        { .key = "picture", .kind = ACCEL_IMAGE, .width = 1, .height = 2, .channels = 3, .data = pixels },
        { .key = "weights", .kind = ACCEL_HISTOGRAM, .data = samples, .count = 3 },
        { .key = "note", .kind = ACCEL_TEXT, .text = "hi" },
    };
    must (accel_log (acc, values, 4, 7, &err));
    strcpy (key, "gone");
    memset (pixels, 'x', sizeof pixels - 1);
    samples[2] = 9;
    must (accel_log_number (acc, "next", 2, -1, &err));
    must (accel_log_number (acc, "before", 3, 5, &err));
    must (accel_log_number (acc, "after", INFINITY, -1, &err));
    must (accel_end_training (acc, &err));
    is_text (seen.text,
             "start project first; config lr=0.5 model='mlp'; 7 loss=0.25 picture=1x2abcdef weights=[3 3.5] note='hi';"
             " 8 next=2; 5 before=3; 9 after=inf;",
             "values are copied, and passed on in their order, after the configuration");
    ok (!pthread_equal (seen.thread, pthread_self ()), "in a thread of its own");
    ok (seen.is_finished, "accel_end_training() finishes a tracker");
    must (accel_log_number (acc, "late", 1, 0, &err));
    accel_close (acc);
    ok (!strstr (seen.text, "late") && !strstr (seen.text, "early"), "before and after, nothing is logged");
}

static void
test_two (void)
{
    static struct seen one, two;
    struct accel_tracker_calls calls[] = { calls_for ("one", &one), calls_for ("two", &two) };
    struct accel *acc = open_with (calls, 2, NULL);
    struct accel_tracker *tracker;
    must (accel_log_number (acc, "both", 1, 0, &err));
    must (accel_get_tracker (&tracker, acc, "two", &err));
    must (accel_tracker_log (tracker, &(struct accel_value){ .key = "alone" }, 1, 1, &err));
    ok (accel_get_tracker (&tracker, acc, "tow", &err) == ACCEL_ERR_INVALID && strstr (err.text, "no tracker 'tow'")
            && strstr (err.text, "did you mean 'two'"), "an unknown tracker: %s", err.text);
    accel_close (acc);
    is_text (one.text, "start project -; 0 both=1;", "the first tracker got what was for both");
    is_text (two.text, "start project -; 0 both=1; 1 alone=0;", "the second one also got its own, up to accel_close()");
}

static void
test_failures (void)
{
    static struct seen bad, good;
    struct accel_tracker_calls calls[] = { calls_for ("bad", &bad), calls_for ("good", &good) };
    keep_errors ();
    bad.failures = 2;
    struct accel *acc = open_with (calls, 2, NULL);
    must (accel_log_number (acc, "a", 1, 1, &err));
    WAIT_UNTIL (atomic_load (&bad.tries));
    must (accel_log_number (acc, "b", 2, 2, &err));
    WAIT_UNTIL (!atomic_load (&bad.failures));
    must (accel_log_number (acc, "c", 3, 3, &err));
    accel_close (acc);
    is_text (bad.text, "start project -; 1 a=1; 2 b=2; 3 c=3;", "what a tracker could not take comes again, in order");
    is_text (good.text, "start project -; 1 a=1; 2 b=2; 3 c=3;", "the other one has all of it");
    is_text (content ("errors"),
             "WARNING: [RANK 0] tracker bad: the server is away; what is logged is kept, and written later\n",
             "two failures in a row are one warning");
}

/* What a tracker has taken, it keeps in its own memory: that must not grow while it cannot write. */
static void
test_flush (void)
{
    static struct seen seen;
    struct accel_tracker_calls calls = calls_for ("mine", &seen);
    keep_errors ();
    calls.flush = flush;
    seen.flush_failures = 2;
    struct accel *acc = open_with (&calls, 1, NULL);
    must (accel_log_number (acc, "a", 1, 1, &err));
    WAIT_UNTIL (atomic_load (&seen.flush_failures) == 1);
    must (accel_log_number (acc, "b", 2, 2, &err));
    WAIT_UNTIL (!atomic_load (&seen.flush_failures));
    accel_close (acc);
    is_text (seen.text, "start project -; 1 a=1; full; full; 2 b=2;", "a tracker gets no more before it has written");
    ok (count_of (content ("errors"), "\n") == 1, "one warning");
}

static void
log_text (struct accel *acc, int64_t step)
{
    char text[1001];
    memset (text, 'x', 1000);
    text[1000] = '\0';
    must (accel_log (acc, &(struct accel_value){ .key = "text", .kind = ACCEL_TEXT, .text = text }, 1, step, &err));
}

static void
test_memory (void)
{
    static struct seen bad, good;
    struct accel_tracker_calls calls[] = { calls_for ("bad", &bad), calls_for ("good", &good) };
    keep_errors ();
    bad.failures = 1 << 30;
    struct accel *acc = open_with (calls, 2, &(struct accel_tracker_options){ .queue_bytes = 20000 });
    for (int i = 0; i < 40; i++) {
        log_text (acc, i);
        WAIT_UNTIL (atomic_load (&good.tries) > i);
    }
    accel_close (acc);
    ok (count_of (good.text, "text=") == 40, "a tracker that works loses nothing to one that fails: %zu of 40",
        count_of (good.text, "text="));
    const char *said = content ("errors");
    ok (count_of (said, "tracker bad: there is no memory to keep more of what is logged: the server is away") == 1,
        "no memory is one warning");
    ok (strstr (said, "tracker bad: lost the values of 40 calls: the server is away"), "and what was lost is counted");
}

/* More than half of the memory, all of which is for trackers that work. */
static void
test_slow_flush (void)
{
    static struct seen slow;
    struct accel_tracker_calls calls = calls_for ("slow", &slow);
    keep_errors ();
    calls.flush = hold_flush;
    atomic_store (&slow.holds_end, true);
    struct accel *acc = open_with (&calls, 1, &(struct accel_tracker_options){ .queue_bytes = 20000 });
    log_text (acc, 0);
    WAIT_UNTIL (atomic_load (&slow.flushes));
    for (int i = 1; i < 13; i++)
        log_text (acc, i);
    atomic_store (&slow.holds_end, false);
    accel_close (acc);
    ok (count_of (slow.text, "text=") == 13 && !*content ("errors"),
        "a tracker that takes its time loses nothing: %zu of 13", count_of (slow.text, "text="));
}

static void
test_full (void)
{
    static struct seen slow;
    struct accel_tracker_calls calls = calls_for ("slow", &slow);
    keep_errors ();
    atomic_store (&slow.holds, true);
    struct accel *acc = open_with (&calls, 1, &(struct accel_tracker_options){ .queue_bytes = 2000 });
    for (int i = 0; i < 100; i++)
        must (accel_log_number (acc, "number", i, i, &err));
    atomic_store (&slow.holds, false);
    accel_close (acc);
    size_t taken = count_of (slow.text, "number=");
    char words[80];
    snprintf (words, sizeof words, "lost the values of %zu calls", 100 - taken);
    ok (taken > 2 && taken < 30 && strstr (content ("errors"), words),
        "a tracker that is too slow got %zu of 100, and the rest is counted", taken);
}

static void
test_deadline (void)
{
    static struct seen stuck;
    struct accel_tracker_calls calls = calls_for ("stuck", &stuck);
    keep_errors ();
    atomic_store (&stuck.holds, true);
    struct accel *acc = open_with (&calls, 1, &(struct accel_tracker_options){ .finish_timeout_ms = 100 });
    must (accel_log_number (acc, "number", 1, 1, &err));
    accel_close (acc);
    ok (!atomic_load (&stuck.is_finished)
            && strstr (content ("errors"), "trackers have not written all that was logged in 100 ms"),
        "a tracker that hangs does not keep the job");
    atomic_store (&stuck.holds, false);
    WAIT_UNTIL (atomic_load (&stuck.is_finished));
    ok (atomic_load (&stuck.is_finished), "and is finished if it returns");
    sleep_ms (50); /* its thread frees what it has */
}

static void
test_deadline_of_end (void)
{
    static struct seen stuck;
    struct accel_tracker_calls calls = calls_for ("stuck", &stuck);
    keep_errors ();
    atomic_store (&stuck.holds_end, true);
    struct accel *acc = open_with (&calls, 1, &(struct accel_tracker_options){ .finish_timeout_ms = 2000 });
    must (accel_log_number (acc, "number", 1, 1, &err));
    WAIT_UNTIL (atomic_load (&stuck.tries));
    accel_close (acc);
    const char *said = content ("errors");
    ok (strstr (said, "trackers have written all that was logged, but have not finished in 2000 ms")
            && !strstr (said, "lost"), "a tracker that hangs at its end has lost nothing: %s", said);
    atomic_store (&stuck.holds_end, false);
    WAIT_UNTIL (atomic_load (&stuck.is_finished));
    sleep_ms (50); /* its thread frees what it has */
}

static void
test_refusals (void)
{
    static struct seen seen;
    struct accel *acc;
    struct accel_tracker_calls twice[] = { calls_for ("same", &seen), calls_for ("same", &seen) };
    struct accel_tracker_calls nameless = calls_for ("", &seen), refusing = calls_for ("mine", &seen);
    refusing.start = refuse;
    ok (accel_open (&acc, &(struct accel_options){ .log_with = "csv, jsnl" }, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "unknown tracker 'jsnl' (did you mean 'jsonl'?)") && strstr (err.text, "or all"),
        "log_with: %s", err.text);
    must (accel_open (&acc, &(struct accel_options){ .log_with = "csv" }, &err));
    ok (accel_init_trackers (acc, "p", NULL, 0, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "tracker 'csv' needs a logging_dir"), "no folder: %s", err.text);
    ok (accel_init_trackers (acc, "", NULL, 0, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "accel_init_trackers: project_name"), "no name: %s", err.text);
    ok (accel_init_trackers (NULL, "p", NULL, 0, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "accel_init_trackers: acc"), "no job: %s", err.text);
    accel_close (acc);
    acc = open_tracked (NULL);
    const struct {
        const struct accel_tracker_calls *calls;
        size_t count;
        const char *words;
    } cases[] = {
        { twice, 2, "duplicate tracker 'same'" },
        { &nameless, 1, "tracker 0 has no name" },
        { &refusing, 1, "tracker 'mine': no such place" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_tracker_options options = { .trackers = cases[i].calls, .tracker_count = cases[i].count };
        ok (accel_init_trackers (acc, "p", NULL, 0, &options, &err) && strstr (err.text, cases[i].words), "%s",
            err.text);
    }
    float sample = 0;
    const struct {
        struct accel_value value;
        const char *words;
    } values[] = {
        { { .key = NULL }, "value 0 has no key" },
        { { .key = "k", .kind = (enum accel_value_kind) 9 }, "value 'k' has an invalid kind" },
        { { .key = "k", .kind = ACCEL_TEXT }, "value 'k' has no text" },
        { { .key = "k", .kind = ACCEL_IMAGE }, "value 'k' has no data" },
        { { .key = "k", .kind = ACCEL_IMAGE, .data = "", .channels = 2, .width = 1, .height = 1 },
          "1, 3 or 4 channels" },
        { { .key = "k", .kind = ACCEL_IMAGE, .data = "", .channels = 3, .width = 1 }, "has an invalid size" },
        { { .key = "k", .kind = ACCEL_IMAGE, .data = "" }, "is not a file in PNG" },
        { { .key = "k", .kind = ACCEL_HISTOGRAM, .count = 1 }, "has no data" },
        { { .key = "k", .kind = ACCEL_HISTOGRAM, .data = &sample, .count = SIZE_MAX }, "has too many samples" },
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        ok (accel_log (acc, &values[i].value, 1, 0, &err) == ACCEL_ERR_INVALID && strstr (err.text, values[i].words),
            "%s", err.text);
    accel_close (acc);
}

/* The child neither writes nor waits, and the parent's values are written once. */
static void
test_fork (void)
{
    static struct seen seen;
    struct accel_tracker_calls calls = calls_for ("mine", &seen);
    keep_errors ();
    struct accel *acc = open_with (&calls, 1, &(struct accel_tracker_options){ .finish_timeout_ms = 2000 });
    must (accel_log_number (acc, "parent", 1, 0, &err));
    pid_t child = fork ();
    if (!child) {
        must (accel_log_number (acc, "child", 1, 1, &err));
        accel_close (acc);
        _exit (strstr (seen.text, "child") != NULL);
    }
    int status = -1;
    waitpid (child, &status, 0);
    accel_close (acc);
    ok (!status && !*content ("errors"), "a child of fork() logs nothing, and has nothing to wait for");
    is_text (seen.text, "start project -; 0 parent=1;", "its parent does, once");
}

/* accel_check() and returns from main() lose nothing. */
static void
test_exit (void)
{
    fflush (stdout);
    pid_t child = fork ();
    if (!child) {
        struct accel *acc = open_tracked ("csv");
        must (accel_init_trackers (acc, "exits", NULL, 0, NULL, &err));
        must (accel_log_number (acc, "last", 1, 12, &err));
        exit (0);
    }
    int status = -1;
    waitpid (child, &status, 0);
    const char *text = content ("exits/metrics.csv");
    ok (!status && strstr (text, ",last,1\n"), "exit() writes what was logged");
}

static void
test_throughput (void)
{
    struct accel_value values[THROUGHPUT_VALUES];
    struct throughput plain = throughput_begin (&(struct accel_tracker_options){ 0 });
    struct throughput none = throughput_begin (&(struct accel_tracker_options){ .throughput = ACCEL_NO });
    struct throughput all = throughput_begin (
        &(struct accel_tracker_options){ .tokens_per_step = 100, .flops_per_step = 3e9, .peak_flops = 1e10 });
    const int64_t second = 1000000000;
    ok (!throughput_measure (&none, 0, 0, values) && !throughput_measure (&none, 9, 9 * second, values),
        "throughput can be turned off");
    ok (!throughput_measure (&plain, 10, 5 * second, values) && !throughput_measure (&plain, 11, 6 * second - 1, values)
            && throughput_measure (&plain, 14, 7 * second, values) == 1 && !strcmp (values[0].key, "steps_per_second")
            && values[0].number == 2,
        "steps per second, after at least a second");
    ok (!throughput_measure (&plain, 2, 9 * second, values) && throughput_measure (&plain, 18, 9 * second, values) == 1
            && values[0].number == 2,
        "a lower step is of another count");
    ok (!throughput_measure (&all, 0, 0, values) && throughput_measure (&all, 1, 2 * second, values) == 3
            && !strcmp (values[1].key, "tokens_per_second") && values[1].number == 50
            && !strcmp (values[2].key, "mfu") && fabs (values[2].number - 0.15) < 1e-12,
        "tokens per second, and the share of the peak");
}

/* Lines of a run of 100 steps, which begins at step 10. */
static void
test_lines (void)
{
    const struct accel_value values[] = { { .key = "loss", .number = 2.5 }, { .key = "lr", .number = 2e-5 },
                                          { .key = "note", .kind = ACCEL_TEXT, .text = "no number" } };
    const struct accel_tracker_options all = { .tokens_per_step = 100, .flops_per_step = 3e9, .peak_flops = 1e10,
                                               .print_steps = 100 };
    struct step_line line = step_line_begin (&all), none = step_line_begin (&(struct accel_tracker_options){ 0 });
    struct accel *acc = open_tracked (NULL);
    const int64_t second = 1000000000;
    int terminal = dup (STDOUT_FILENO);
    keep_output (STDOUT_FILENO, "lines");
    step_line_print (&none, NULL, values, 3, 1, second);
    step_line_print (&line, NULL, values, 3, 10, second);
    step_line_print (&line, NULL, values, 1, 10, 2 * second);
    step_line_print (&line, NULL, values, 1, 11, 2 * second);
    step_line_print (&line, NULL, values, 1, 12, 5 * second);
    step_line_print (&line, NULL, values, 1, 12, 5 * second);
    step_line_print (&line, NULL, values, 1, 100, 6 * second);
    step_line_print (&line, NULL, values, 1, 101, 7 * second);
    must (accel_init_trackers (acc, "p", NULL, 0, &(struct accel_tracker_options){ .print_steps = 3 }, &err));
    must (accel_log_number (acc, "a", 1, -1, &err));
    accel_close (acc);
    dup2 (terminal, STDOUT_FILENO);
    close (terminal);
    is_text (content ("lines"), "step    10 of 100  loss 2.500000  lr 2e-05\n"
                                "step    10 of 100  loss 2.500000\n"
                                "step    11 of 100  loss 2.500000  100 tokens/s  mfu 30.0%  1:29 left\n"
                                "step    12 of 100  loss 2.500000  50 tokens/s  mfu 15.0%  2:56 left\n"
                                "step    12 of 100  loss 2.500000\n"
                                "step   100 of 100  loss 2.500000  1800 tokens/s  mfu 540.0%  0:00 left\n"
                                "step   101 of 100  loss 2.500000  1517 tokens/s  mfu 455.0%  0:00 left\n"
                                "step     0 of 3  a 1.000000\n",
             "lines that are printed");
}

/* The numbers come by themselves, to all trackers. */
static void
test_measured (void)
{
    static struct seen seen;
    struct accel_tracker_calls calls = calls_for ("mine", &seen);
    struct accel *acc = open_tracked (NULL);
    must (accel_init_trackers (acc, "p", NULL, 0,
                               &(struct accel_tracker_options){ .trackers = &calls, .tracker_count = 1 }, &err));
    must (accel_log_number (acc, "a", 1, 0, &err));
    sleep_ms (1001);
    must (accel_log_number (acc, "b", 1, 1, &err));
    accel_close (acc);
    ok (strstr (seen.text, "1 b=1 steps_per_second=0."), "steps per second are added: %s", seen.text);
}

static void
track_rank (struct accel *acc)
{
    struct accel_error why;
    static struct seen seen;
    struct accel_tracker_calls calls = calls_for ("mine", &seen);
    struct accel_tracker *tracker;
    rank_must (accel_init_trackers (acc, "ranks", NULL, 0,
                                    &(struct accel_tracker_options){ .trackers = &calls, .tracker_count = 1 }, &why),
               &why);
    rank_must (accel_log_number (acc, "rank", accel_process_index (acc), 0, &why), &why);
    rank_must (accel_get_tracker (&tracker, acc, "mine", &why), &why);
    rank_must (accel_tracker_log (tracker, &(struct accel_value){ .key = "own" }, 1, 1, &why), &why);
    rank_must (accel_end_training (acc, &why), &why);
    if (accel_is_main_process (acc))
        right (!strcmp (seen.text, "start ranks -; 0 rank=0; 1 own=0;"), "rank 0 wrote '%s'", seen.text);
    else
        right (!*seen.text && !tracker, "another rank wrote '%s'", seen.text);
}

int
main (void)
{
    test_values ();
    test_two ();
    test_refusals ();
    test_fork ();
    test_exit ();
    as_ranks (2, "only rank 0 has trackers", track_rank);
    test_throughput ();
    test_lines ();
    test_measured ();
    test_failures ();
    test_flush ();
    test_memory ();
    test_slow_flush ();
    test_full ();
    test_deadline ();
    test_deadline_of_end ();
    return done_testing ();
}
