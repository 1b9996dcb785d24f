/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate top` shows of made-up jobs, line by line, and what keys do to it. */
#include <config.h>

#include "cli/watch/watched.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 3, JOBS = 2 };

static struct watched jobs[JOBS];
static struct watched_list list = { .items = jobs, .count = JOBS };

static void
make_jobs (void)
{
    static struct sample_rank ranks[JOBS][RANKS];
    static struct history_rates rates[JOBS][RANKS];
    static int awaits[JOBS][RANKS];
    static bool awaited[JOBS][RANKS];
    for (int j = 0; j < JOBS; j++) {
        jobs[j] = (struct watched){
            .job = { .inode = (uint64_t) j + 1, .launcher = 700 + j, .rank_count = RANKS, .first_rank = 3 * j,
                     .world_size = j ? 6 : 3, .restarts = (uint32_t) j, .started_s = time (NULL) - 3723 },
            .sample = { .ranks = ranks[j], .count = RANKS }, .rates = rates[j], .awaits = awaits[j],
            .awaited = awaited[j],
        };
        snprintf (jobs[j].job.id, sizeof jobs[j].job.id, "job%d", j);
        snprintf (jobs[j].job.program, sizeof jobs[j].job.program, "train\n--lr 1");
        for (int i = 0; i < RANKS; i++) {
            ranks[j][i] = (struct sample_rank){ .rank = 3 * j + i, .pid = 800 + i, .state = JOBSEG_READY };
            rates[j][i] = (struct history_rates){ NAN, NAN, NAN, NAN };
            awaits[j][i] = AWAITS_NONE;
            snprintf (ranks[j][i].doing, JOBSEG_DOING, "computing");
        }
    }
}

/* The lines of the view, joined. */
static char *
show (struct view *view)
{
    struct view_lines lines = { 0 };
    struct strbuf text = { 0 };
    view_show (view, &list, &lines);
    for (size_t i = 0; i < lines.count; i++)
        strbuf_printf (&text, "%s\n", lines.items[i].text);
    ok (!lines.failed && (!view->lines || lines.count == (size_t) view->lines), "%zu lines", lines.count);
    view_lines_release (&lines);
    return strbuf_take (&text);
}

static void
check (struct view *view, const char *wanted, const char *what)
{
    char *got = show (view);
    is_text (got, wanted, what);
    free (got);
}

static void
test_list (void)
{
    struct view view = { .columns = 80 };
    make_jobs ();
    struct sample_rank *ranks = jobs[0].sample.ranks;
    list.count = 1;
    ranks[0].step = 12, ranks[0].step_ns = 1;
    jobs[0].rates[0] = (struct history_rates){ 12.345, 0.5, 0.031, 1.5 };
    ranks[0].call = 1, jobs[0].awaits[0] = 2;
    snprintf (ranks[0].doing, JOBSEG_DOING, "in a\033[31mb");
    ranks[0].value_count = 1, ranks[0].values[0].value = 0.25;
    snprintf (ranks[0].values[0].name, JOBSEG_VALUE_NAME, "lo\tss");
    ranks[1].process_state = 'T';
    ranks[2].has_ended = true, ranks[2].wait_status = 9;
    check (&view, "job0  train\\n--lr 1\n"
                  "  2 of 3 ranks  step 12  12.3 steps/s  1:02:03  launcher 700\n"
                  "  lo\\tss 0.25 \n"
                  " RANK STATE         STEP  STEP/S  COMM  LATE   CPU  DOING\n"
                  "    0 waiting         12    12.3   50%    3% 150%  in a\\x1b[31mb, waits for rank\n"
                  "    1 stopped          -       -     -     -    -  computing\n"
                  "    2 killed           -       -     -     -    -  computing\n", "a list");
    view.columns = 5;
    check (&view, "job0 \n  2 o\n  lo\\\n RANK\n    0\n    1\n    2\n", "a narrow one");
    view.columns = 120;
    ranks[0].memory = 1500000;
    char *text = show (&view);
    ok (strstr (text, "    0     800 waiting         12    12.3   50%    3% 150%    1.5 MB  in a"), "a wide one");
    free (text);
    list.gpus.count = 2;
    list.gpus.loads[0] = (struct gpu_load){ .use = 93, .temperature = 61, .memory = 80000000000,
                                            .memory_used = 1500000000, .process_count = 1 };
    list.gpus.loads[0].processes[0].pid = 801;
    list.gpus.loads[1] = (struct gpu_load){ .use = -1, .temperature = -1, .process_count = 500 };
    text = show (&view);
    ok (!strncmp (text, "GPU 0 93% 61 C 1.5 GB  GPU 1\njob0 ", 34) && strstr (text, "150%    1.5 MB   -  in a")
        && strstr (text, "MEM GPU  DOING") && strstr (text, " -   0  computing"), "with GPUs");
    free (text);
    list.gpus.count = 0;
    for (int i = 0; i < RANKS; i++) {
        snprintf (ranks[i].host, sizeof ranks[i].host, i ? "b" : "a");
        ranks[i].is_remote = i;
    }
    ranks[1].gpu = (struct jobseg_gpu){ .number = 2, .use = 97, .temperature = 64, .memory_used = 84500000000 };
    ranks[2].gpu = ranks[1].gpu;
    jobs[0].job.hosts = 2;
    text = show (&view);
    ok (strstr (text, "ss 0.25 \n  b  GPU 1 97% 64 C 84.5 GB\n RANK") && strstr (text, "1.5 MB   -  a ")
        && strstr (text, " -   1  b"), "with GPUs of another host");
    free (text);
    list.count = JOBS;
}

/* The line of a job about checkpoints. */
static void
test_saves (void)
{
    static uint32_t before[RANKS];
    static const struct {
        uint64_t saved_step, memory_step;
        uint32_t *saves;
        const char *text;
    } cases[] = {
        { 0, 0, NULL, "3 ranks  1:" },
        { 1, 0, NULL, "3 ranks  saved step 0  1:" },
        { 0, 0, before, "3 ranks  checkpoint asked  1:" },
        { 13, 0, before, "3 ranks  checkpoint asked  1:" },
        { 13, 21, NULL, "3 ranks  saved step 12  in memory 20  1:" },
        { 0, 21, before, "3 ranks  checkpoint asked  in memory 20  1:" },
    };
    struct view view = { .columns = 80 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_jobs ();
        jobs[0].sample.saved_step = cases[i].saved_step;
        jobs[0].sample.memory_step = cases[i].memory_step;
        jobs[0].saves = cases[i].saves;
        char *text = show (&view);
        ok (strstr (text, cases[i].text) != NULL, "%s", cases[i].text);
        free (text);
    }
}

/* Which keys scroll stacks, how far, and which lead back. */
static void
test_stacks (void)
{
    static const struct {
        int key, first;
        enum view_screen screen;
    } cases[] = {
        { VIEW_KEY_UP, 0, SCREEN_STACKS }, { VIEW_KEY_DOWN, 1, SCREEN_STACKS }, { 'j', 2, SCREEN_STACKS },
        { 'k', 1, SCREEN_STACKS }, { VIEW_KEY_PAGE_DOWN, 3, SCREEN_STACKS }, { VIEW_KEY_PAGE_DOWN, 4, SCREEN_STACKS },
        { VIEW_KEY_DOWN, 4, SCREEN_STACKS }, { VIEW_KEY_PAGE_UP, 2, SCREEN_STACKS }, { 'q', 0, SCREEN_RANK },
    };
    static const char *const texts[]
        = { "rank 0: one", "two", "three", "four", "five", "six", "seven", "eight", "nine" };
    AUTO_STRLIST struct strlist stacks = { 0 };
    struct view view = { .columns = 8, .lines = 7, .stacks = &stacks };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        strlist_add (&stacks, texts[i]);
    make_jobs ();
    ok (view_key (&view, 'd', &list) == VIEW_DUMPS && view.before == SCREEN_LIST && view.chosen.inode == 1,
        "of the job");
    view.screen = SCREEN_RANK;
    ok (view_key (&view, 'd', &list) == VIEW_DUMPS && view.before == SCREEN_RANK, "of the rank");
    view.screen = SCREEN_STACKS;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ok (view_key (&view, cases[i].key, &list) == VIEW_STAYS && view.screen == cases[i].screen, "key %d",
            cases[i].key);
        char *text = show (&view);
        if (view.screen == SCREEN_STACKS)
            ok (view.first == cases[i].first && strstr (text, view.first ? texts[view.first] : "\nrank 0: \ntwo"),
                "line %d", view.first);
        free (text);
    }
    ok (view_key (&view, 'c', &list) == VIEW_SAVES && view.chosen.inode == 1, "a checkpoint");
    list.count = 0;
    ok (view_key (&view, 'c', &list) == VIEW_STAYS && view_key (&view, 'd', &list) == VIEW_STAYS, "of no job");
    list.count = JOBS;
}

static void
test_states (void)
{
    static const struct {
        struct sample_rank rank;
        int awaits;
        const char *state;
    } cases[] = {
        { { .state = JOBSEG_READY }, AWAITS_NONE, "computing" },
        { { .state = JOBSEG_READY, .call = 3 }, AWAITS_NONE, "in call" },
        { { .state = JOBSEG_READY, .call = 3 }, AWAITS_OTHER_HOSTS, "in call" },
        { { .state = JOBSEG_READY, .call = 3 }, 0, "waiting" },
        { { .state = JOBSEG_READY, .process_state = 't' }, AWAITS_NONE, "debugged" },
        { { .state = JOBSEG_EMPTY, .process_state = 'S' }, AWAITS_NONE, "not open" },
        { { .state = JOBSEG_JOINING }, AWAITS_NONE, "opening" },
        { { .state = JOBSEG_LEFT }, AWAITS_NONE, "left" },
        { { .state = JOBSEG_FAILED }, AWAITS_NONE, "gave up" },
        { { .state = 77 }, AWAITS_NONE, "?" },
        { { .has_ended = true, .wait_status = 0 }, AWAITS_NONE, "ended" },
        { { .has_ended = true, .wait_status = -1 }, AWAITS_NONE, "ended" },
        { { .has_ended = true, .wait_status = 256 }, AWAITS_NONE, "failed" },
    };
    make_jobs ();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jobs[0].sample.ranks[0] = cases[i].rank;
        jobs[0].awaits[0] = cases[i].awaits;
        is_text (watched_state (&jobs[0], 0), cases[i].state, cases[i].state);
    }
}

static void
test_sort (void)
{
    static const struct {
        enum view_sort sort;
        int order[RANKS];
    } cases[] = { { SORT_RANK, { 0, 1, 2 } }, { SORT_STEP, { 2, 0, 1 } }, { SORT_WAITING, { 1, 0, 2 } },
                  { SORT_AWAITED, { 0, 1, 2 } }, { SORT_CPU, { 2, 1, 0 } }, { SORT_MEMORY, { 1, 2, 0 } },
                  { SORT_PACE, { 2, 0, 1 } } };
    make_jobs ();
    for (int i = 0; i < RANKS; i++) {
        jobs[0].sample.ranks[i].step = (uint64_t[]){ 5, 5, 1 }[i];
        jobs[0].sample.ranks[i].memory = (uint64_t[]){ 1, 3, 2 }[i];
        jobs[0].rates[i] = (struct history_rates){ .steps_per_second = (double[]){ 1, 1, NAN }[i],
                                                   .waiting = (double[]){ 0, 0.5, NAN }[i], .awaited = 0.1,
                                                   .cpu = (double[]){ 0.1, 0.2, 3 }[i] };
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct view view = { .sort = cases[c].sort };
        struct view_row *rows;
        bool same = view_rows (&view, &list, &rows) == RANKS * JOBS && rows[RANKS].watched == &jobs[1];
        for (int i = 0; same && i < RANKS; i++)
            same = rows[i].i == cases[c].order[i];
        ok (same, "sorted by column %d", (int) cases[c].sort);
        free (rows);
    }
}

static void
test_keys (void)
{
    struct view view = { .columns = 80, .lines = 24 };
    make_jobs ();
    view_key (&view, VIEW_KEY_DOWN, &list);
    ok (view.chosen.inode == 1 && view.chosen.i == 1, "down");
    view_key (&view, VIEW_KEY_PAGE_DOWN, &list);
    ok (view.chosen.inode == 2 && view.chosen.i == 2, "the end is the end");
    view_key (&view, 'k', &list);
    ok (view.chosen.inode == 2 && view.chosen.i == 1, "up");
    view_key (&view, '\r', &list);
    char *text = show (&view);
    ok (view.screen == SCREEN_RANK && strstr (text, "rank 4, process 801: computing") && strstr (text, "no values"),
        "one rank");
    free (text);
    view_key (&view, VIEW_KEY_ESCAPE, &list);
    view_key (&view, 's', &list);
    ok (view.screen == SCREEN_LIST && view.sort == SORT_STEP, "back, and sorted");
    view_key (&view, '?', &list);
    text = show (&view);
    ok (view.screen == SCREEN_HELP && strstr (text, "share of the last minute"), "help");
    free (text);
    ok (view_key (&view, 'q', &list) == VIEW_QUITS, "quit");
}

/* The answer is about the job that the question named, even if another one has taken its place meanwhile. */
static void
test_question (void)
{
    struct view view = { .columns = 80, .lines = 24 };
    make_jobs ();
    view_key (&view, VIEW_KEY_PAGE_DOWN, &list);
    ok (view_key (&view, 'x', &list) == VIEW_STAYS && view.asked == 2, "asked about the second job");
    char *text = show (&view);
    ok (strstr (text, "Stop job job1 (3 ranks)? y: yes"), "the question");
    free (text);
    ok (view_key (&view, 'q', &list) == VIEW_STAYS && !view.asked, "no");
    view_key (&view, 'x', &list);
    list.count = 1;
    text = show (&view);
    ok (strstr (text, "The job has ended."), "it ends meanwhile");
    free (text);
    ok (view_key (&view, 'y', &list) == VIEW_STOPS && view.asked == 2 && !watched_find (&list, view.asked),
        "yes: nothing is left to stop");
    list.count = 0;
    view.asked = 0;
    view_key (&view, 'x', &list);
    ok (!view.asked, "no job, no question");
    text = show (&view);
    ok (strstr (text, "No job of this user"), "no job");
    free (text);
    list.count = JOBS;
}

static void
test_scrolling (void)
{
    struct view view = { .columns = 80, .lines = 7 };
    make_jobs ();
    for (int i = 0; i < 2 * RANKS * JOBS - 1; i++) {
        char mark[16];
        char *text = show (&view);
        int row = i < RANKS * JOBS ? i : 2 * RANKS * JOBS - 2 - i;
        snprintf (mark, sizeof mark, "\n>%4d ", row);
        ok (strstr (text, mark) != NULL, "row %d is in 7 lines", row);
        free (text);
        view_key (&view, row == i && i < RANKS * JOBS - 1 ? 'j' : 'k', &list);
    }
    for (view.lines = 1; view.lines < 4; view.lines++)
        free (show (&view));
}

static void
test_numbers (void)
{
    static const struct {
        double number;
        const char *text;
    } numbers[] = { { 0, "0" }, { 1.0 / 3, "0.333" }, { 12.345, "12.3" }, { 99.96, "100" }, { 12345.6, "12346" },
                    { 12345678, "1.23e+07" }, { NAN, "-" }, { INFINITY, "inf" } };
    static const struct {
        int64_t seconds;
        const char *text;
    } ages[] = { { 0, "0:00:00" }, { 3599, "0:59:59" }, { 86399, "23:59:59" }, { 90061, "1d 01:01:01" }, { -1, "-" } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        view_add_number (&text, numbers[i].number);
        is_text (text.text, numbers[i].text, numbers[i].text);
    }
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        view_add_age (&text, ages[i].seconds);
        is_text (text.text, ages[i].text, ages[i].text);
    }
}

static void
test_sparkline (void)
{
    struct view view = { .columns = 80, .lines = 24, .screen = SCREEN_RANK };
    static const double values[] = { 0, 7, 3, 7, NAN, INFINITY, 0 };
    make_jobs ();
    struct sample_rank *rank = jobs[0].sample.ranks;
    rank->value_count = 1;
    if (history_begin (&jobs[0].history, &jobs[0].job, NULL))
        exit (1);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        rank->values[0].value = values[i];
        history_add (&jobs[0].history, &jobs[0].sample);
    }
    char *text = show (&view);
    ok (strstr (text, " 0            ▁█▄█ █▁\n"), "in blocks");
    free (text);
    view.is_ascii = true;
    text = show (&view);
    ok (strstr (text, " 0            _#~# #_\n"), "in ASCII");
    free (text);
    history_release (&jobs[0].history);
}

int
main (void)
{
    test_list ();
    test_saves ();
    test_stacks ();
    test_states ();
    test_sort ();
    test_keys ();
    test_question ();
    test_scrolling ();
    test_numbers ();
    test_sparkline ();
    return done_testing ();
}
