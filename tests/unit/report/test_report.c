/* SPDX-License-Identifier: Apache-2.0 */
/* What reports are made of: series and their samples, axes, groups of keys, sentences, text and numbers in HTML. */
#include <config.h>

#include "report/chart.h"
#include "report/groups.h"
#include "report/html.h"
#include "report/launch.h"
#include "report/plot.h"
#include "report/profile.h"
#include "report/series.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- series: "STEP STEP ...", what is left, and where it was restarted ---- */

static const struct {
    const char *added, *kept;
} additions[] = {
    { "0 1 2 3", "0 1 2 3 |" },
    { "0 1 2 3 2 3 4", "0 1 2 3 4 | 2" },
    { "5 5 5", "5 |" },
    { "0 1 2 3 0 1", "0 1 | 0" },
    { "10 20 30 25 40 15", "10 15 | 25 15" },
    { "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
      "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 | 3" },
};

static void
test_additions (void)
{
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++) {
        struct series series = { 0 };
        AUTO_STRBUF struct strbuf text = { 0 };
        double value = 0;
        bool are_later = true;
        for (const char *at = additions[i].added; *at; at += strcspn (at, " "), at += *at == ' ')
            series_add (&series, (struct point){ atoll (at), value++ });
        for (size_t k = 0; k < series.count; k++) {
            strbuf_printf (&text, "%" PRId64 " ", series.points[k].step);
            are_later = are_later && (!k || series.points[k].value > series.points[k - 1].value);
        }
        strbuf_add (&text, "|");
        for (size_t k = 0; k < series.restart_count; k++)
            strbuf_printf (&text, " %" PRId64, series.restarts[k]);
        is_text (text.text, additions[i].kept, additions[i].added);
        ok (are_later, "the later values are kept");
        series_release (&series);
    }
}

/* Of many points, the highest and the lowest survive, and so does what is not finite. */
static void
test_sample (void)
{
    enum { COUNT = 100000, PARTS = 500 };
    static struct point sample[3 * (PARTS + 2)], means[PARTS + 2];
    struct series series = { 0 };
    bool has_high = false, has_low = false, has_nan = false, is_ascending = true;
    double worst = 0;
    for (int i = 0; i < COUNT; i++)
        series_add (&series, (struct point){ i, i == 77777 ? 1e6 : i == 3 ? -1e6 : i == 500 ? NAN : sin (i / 1e4) });
    size_t count = series_sample (&series, 0, COUNT - 1, PARTS, sample);
    ok (count > PARTS && count <= 3 * (PARTS + 2), "%zu of %d points are drawn", count, COUNT);
    for (size_t i = 0; i < count; i++) {
        has_high = has_high || (sample[i].step == 77777 && sample[i].value > 9e5);
        has_low = has_low || (sample[i].step == 3 && sample[i].value < -9e5);
        has_nan = has_nan || (sample[i].step == 500 && isnan (sample[i].value));
        is_ascending = is_ascending && (!i || sample[i].step > sample[i - 1].step);
    }
    ok (has_high && has_low && has_nan && is_ascending, "extremes and what is not finite are among them, in order");
    ok (sample[0].step == 0 && sample[count - 1].step == COUNT - 1, "so are the first and the last");
    count = series_means (&series, 0, COUNT - 1, PARTS, means);
    for (size_t i = 10; i < count; i++)
        if (llabs (means[i].step - 77777) > 1000)
            worst = fmax (worst, fabs (means[i].value - sin ((double) means[i].step / 1e4)));
    ok (count == PARTS && worst < 1e-3, "means of %zu parts", count);
    series_release (&series);
}

/* Steps at both ends of their type. */
static void
test_far_steps (void)
{
    struct point sample[3 * (4 + 2)];
    struct series series = { 0 };
    series_add (&series, (struct point){ INT64_MIN, 1 });
    series_add (&series, (struct point){ 0, 2 });
    series_add (&series, (struct point){ INT64_MAX - 1, 3 });
    series_add (&series, (struct point){ INT64_MAX, 4 });
    size_t count = series_sample (&series, INT64_MIN, INT64_MAX, 4, sample);
    ok (count == 4 && sample[3].value > 3.5, "steps at both ends of their type: %zu points", count);
    series_release (&series);
}

/* ---- axes ---- */

static const struct {
    double min, max;
    bool may_be_log, is_log;
    const char *ticks;
} axes[] = {
    { 0, 10, false, false, "0 2 4 6 8 10" },
    { 2.4, 11.5, true, false, "0 2 4 6 8 10" },
    { 0.01, 10, true, true, "0.01 0.1 1 10" },
    { 0.01, 10, false, false, "0 2 4 6 8 10" },
    { 1e-8, 1e4, true, true, "1e-08 1e-05 0.01 10 10000" },
    { 0, 10, true, false, "0 2 4 6 8 10" },
    { -3, 5, true, false, "-2 0 2 4" },
    { 7, 7, false, false, "6.4 6.6 6.8 7 7.2 7.4 7.6" },
    { 0, 0, false, false, "-1 -0.5 0 0.5 1" },
    { -1e308, 1e308, false, false, "-1e+308 -5e+307 0 5e+307 1e+308" },
    { 1e-300, 1e308, true, true, "1e-300 1e-178 1e-56 1e+66 1e+188" },
    { 5e-324, 5e-324, true, false, NULL },
};

static void
test_axes (void)
{
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        struct axis axis = axis_for (&(struct extent){ axes[i].min, axes[i].max, 2 }, axes[i].may_be_log);
        AUTO_STRBUF struct strbuf text = { 0 };
        double ticks[AXIS_TICKS];
        size_t count = axis_ticks (&axis, 5, ticks);
        double low = axis_place (&axis, axes[i].min), high = axis_place (&axis, axes[i].max);
        for (size_t k = 0; k < count; k++)
            strbuf_printf (&text, "%s%g", k ? " " : "", ticks[k]);
        ok (axis.is_log == axes[i].is_log && count <= AXIS_TICKS, "axis from %g to %g: %slogarithmic", axes[i].min,
            axes[i].max, axis.is_log ? "" : "not ");
        if (axes[i].ticks) {
            is_text (text.text, axes[i].ticks, "its ticks");
            ok (low >= 0 && high <= 1 && low <= high, "its values are within: %g %g", low, high);
        }
    }
}

/* ---- words ---- */

static const struct {
    const char *key;
    enum group group;
} keys[] = {
    { "train/loss", GROUP_LOSS },          { "eval_loss", GROUP_LOSS },
    { "Perplexity", GROUP_LOSS },          { "loss_scale", GROUP_SCALE },
    { "train/lr", GROUP_RATE },            { "lr-AdamW", GROUP_RATE },
    { "alright", GROUP_OTHER },            { "steps_per_second", GROUP_THROUGHPUT },
    { "tokens_per_second", GROUP_THROUGHPUT }, { "mfu", GROUP_THROUGHPUT },
    { "grad_norm", GROUP_GRADIENT },       { "gpu_memory", GROUP_MEMORY },
    { "member", GROUP_OTHER },             { "accuracy", GROUP_OTHER },
    { "time/step_ms", GROUP_TIME },        { "", GROUP_OTHER },
};

static const struct {
    double value;
    const char *text;
} numbers[] = {
    { 0, "0" },           { 0.5, "0.5" },        { -2.25, "−2.25" },    { 1234.5, "1234" },     { 12345, "12.35k" },
    { 2.5e6, "2.5M" },    { 1e-7, "1e-7" },     { 1e300, "1e+300" },   { INFINITY, "∞" },      { NAN, "NaN" },
};

static const struct {
    const char *text, *html;
} texts[] = {
    { "plain ü", "plain ü" },
    { "</script><img src=x onerror='a'>", "&lt;/script&gt;&lt;img src=x onerror=&#39;a&#39;&gt;" },
    { "a\"b`c&amp;", "a&quot;b&#96;c&amp;amp;" },
    { "tab\there\nline\033[1m", "tab\\there\\nline\\x1b[1m" },
    { "\xff\xe2\x80\xae", "\\xff\\xe2\\x80\\xae" },
};

static void
test_words (void)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ok (group_of (keys[i].key) == keys[i].group, "group of '%s'", keys[i].key);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        html_number (&text, numbers[i].value);
        is_text (text.text, numbers[i].text, "a number");
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        html_text (&text, texts[i].text);
        is_text (text.text, texts[i].html, "a text is nothing but text");
    }
    ok (profile_is_data ("load_batch") && profile_is_data ("Data") && !profile_is_data ("forward"),
        "spans that are about data");
}

/* ---- sentences ---- */

static const struct {
    const char *report;
    enum launch_end end;
    const char *sentence;
} ends[] = {
    { "{\"exit_status\":0}", LAUNCH_DONE, "all ranks exited with 0" },
    { "{\"exit_status\":7}", LAUNCH_FAILED, "exit status 7" },
    { "{\"exit_status\":75,\"signal\":null,\"saved_step\":null}", LAUNCH_STOPPED, "ended as it was asked to" },
    { "{\"exit_status\":75,\"signal\":null,\"saved_step\":0}", LAUNCH_STOPPED,
      "saved step 0 on all ranks, then ended as it was asked to" },
    { "{\"exit_status\":143,\"signal\":15,\"saved_step\":9}", LAUNCH_STOPPED,
      "saved step 9 on all ranks, then ended by SIGTERM" },
    { "{\"exit_status\":130,\"signal\":2}", LAUNCH_STOPPED, "ended by SIGINT" },
    { "{\"exit_status\":127,\"error\":\"no such program\"}", LAUNCH_FAILED, "no such program" },
    { "{\"host\":\"a\",\"failure\":{\"rank\":3,\"pid\":7,\"exit_code\":null,\"signal\":11,\"doing\":\"waiting\"}}",
      LAUNCH_FAILED, "rank 3 (process 7 on a) was killed by signal 11 (SIGSEGV); it was: waiting" },
    { "{\"failure\":{\"rank\":0,\"pid\":7,\"exit_code\":1,\"signal\":null,\"out_of_memory\":true}}", LAUNCH_FAILED,
      "rank 0 (process 7) exited with status 1: out of memory" },
    { "{\"exit_status\":\"0\",\"failure\":[]}", LAUNCH_UNKNOWN, "exit status 0" },
    { "{}", LAUNCH_UNKNOWN, "exit status 0" },
};

static const struct {
    double seconds;
    const char *text;
} durations[] = {
    { 0.25, "0.2 s" },        { 9.96, "10.0 s" },        { 42, "42 s" },           { 61, "1 min 1 s" },
    { 7380, "2 h 3 min" },    { 200000, "2 d 7 h" },
};

static void
test_sentences (void)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        json_t *report = json_loads (ends[i].report, 0, NULL);
        launch_sentence (report, &text);
        ok (report && launch_end (report) == ends[i].end, "%s", ends[i].report);
        is_text (text.text, ends[i].sentence, "its sentence");
        json_decref (report);
    }
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        launch_duration (durations[i].seconds, &text);
        is_text (text.text, durations[i].text, "a duration");
    }
    AUTO_STRBUF struct strbuf time = { 0 };
    launch_time (1764345600, &time);
    is_text (time.text, "2025-11-28 16:00 UTC", "a time");
}

int
main (void)
{
    test_additions ();
    test_sample ();
    test_far_steps ();
    test_axes ();
    test_words ();
    test_sentences ();
    return done_testing ();
}
