/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as lines of text: a list of all ranks, one rank, or the keys.  Reads and writes nothing. */
#include <config.h>

#include "cli/watch/watched.h"

#include "util/printable.h"
#include "util/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDE = 110,      /* columns from which a process's number and memory are shown */
    SPARK_LIST = 12, /* characters of a sparkline, each a second */
    SPARK_RANK = 60,
    HOST = 10,       /* columns of a host's name */
    MARGIN = 2,      /* lines above and below the list: title and footer */
};

static const char *const sort_names[SORTS] = { "rank", "step", "pace", "waiting", "awaited", "CPU", "memory" };

/* ---- numbers ---- */

void
view_add_age (struct strbuf *out, int64_t seconds)
{
    long long s = seconds;
    if (s < 0) {
        strbuf_add_char (out, '-');
        return;
    }
    if (s >= 86400)
        strbuf_printf (out, "%lldd ", s / 86400);
    strbuf_printf (out, s >= 86400 ? "%02lld:%02lld:%02lld" : "%lld:%02lld:%02lld", s / 3600 % 24, s / 60 % 60, s % 60);
}

void
view_add_number (struct strbuf *out, double number)
{
    if (isnan (number))
        strbuf_add (out, "-");
    else if (fabs (number) >= 99.95 && fabs (number) < 1e6)
        strbuf_printf (out, "%.0f", number);
    else
        strbuf_printf (out, "%.3g", number);
}

static void
add_share (struct strbuf *out, double share)
{
    if (isnan (share))
        strbuf_add (out, "    -");
    else
        strbuf_printf (out, " %3.0f%%", share * 100);
}

/* From the lowest of @numbers to the highest; those that are not finite are a blank and a full block. */
static void
add_sparkline (struct strbuf *out, const float *numbers, int count, bool is_ascii)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const letters[] = { "_", ".", "-", "~", "=", "+", "*", "#" };
    enum { LEVELS = 8 };
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < count; i++)
        if (isfinite (numbers[i])) {
            low = fminf (low, numbers[i]);
            high = fmaxf (high, numbers[i]);
        }
    for (int i = 0; i < count; i++) {
        float place = high > low ? (numbers[i] - low) / (high - low) : 0;
        int level = isinf (numbers[i]) ? LEVELS - 1 : (int) (place * (LEVELS - 1) + 0.5F);
        strbuf_add (out, isnan (numbers[i]) ? " " : (is_ascii ? letters : blocks)[level]);
    }
}

/* ---- lines ---- */

struct page {
    const struct view *view;
    const struct watched_gpus *gpus;
    bool has_gpus; /* of the job that is shown: it has the column */
    struct view_lines *lines;
};

void
view_lines_release (struct view_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free (lines->items[i].text);
    free (lines->items);
    *lines = (struct view_lines){ 0 };
}

/* @param text  is freed with the list, NULL: there was no memory for it */
static void
take_line (struct view_lines *lines, enum view_style style, char *text)
{
    struct view_line *items = text ? realloc (lines->items, (lines->count + 1) * sizeof *items) : NULL;
    if (items) {
        lines->items = items;
        items[lines->count++] = (struct view_line){ style, text };
        return;
    }
    free (text);
    lines->failed = true;
}

/* Cut @text to the width of the screen; characters that a terminal would obey have been replaced. */
static void
add_line (struct page *page, enum view_style style, const struct strbuf *text)
{
    const char *at = text->text ? text->text : "";
    const char *begin = at;
    for (int column = 0; *at && column < page->view->columns; column++)
        utf8_next (&at);
    take_line (page->lines, style, strndup (begin, (size_t) (at - begin)));
    page->lines->failed |= text->failed;
}

__attribute__ ((format (printf, 3, 4))) static void
add_text (struct page *page, enum view_style style, const char *format, ...)
{
    char text[512];
    AUTO_STRBUF struct strbuf line = { 0 };
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    printable_add (&line, text);
    add_line (page, style, &line);
}

static void
add_values (struct strbuf *out, const struct page *page, const struct watched *watched)
{
    float numbers[SPARK_LIST];
    for (int i = 0; i < watched->sample.count; i++) {
        const struct sample_rank *rank = &watched->sample.ranks[i];
        for (uint32_t j = 0; j < rank->value_count; j++) {
            strbuf_add (out, "  ");
            printable_add (out, rank->values[j].name);
            strbuf_printf (out, " %.6g ", rank->values[j].value);
            int count = history_values (&watched->history, i, j, numbers, SPARK_LIST);
            if (count > 1)
                add_sparkline (out, numbers, count, page->view->is_ascii);
        }
        if (rank->value_count)
            break; /* the first rank that has any speaks for all */
    }
}

static void
add_gpu (struct strbuf *line, int index, int use, int temperature, uint64_t memory_used, bool has_memory)
{
    strbuf_printf (line, "%sGPU %d", line->length ? "  " : "", index);
    if (use >= 0)
        strbuf_printf (line, " %d%%", use);
    if (temperature >= 0)
        strbuf_printf (line, " %d C", temperature);
    if (has_memory) {
        strbuf_add_char (line, ' ');
        bytes_add (line, memory_used);
    }
}

/* All of the machine, if there are any. */
static void
add_gpus (struct page *page, const struct watched_gpus *gpus)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    for (int i = 0; i < gpus->count; i++) {
        const struct gpu_load *load = &gpus->loads[i];
        add_gpu (&line, i, load->use, load->temperature, load->memory_used, load->memory);
    }
    if (line.text)
        add_line (page, VIEW_PLAIN, &line);
}

/* Those that ranks on other hosts use: a line for each host, whose ranks follow each other. */
static void
add_gpus_of_hosts (struct page *page, const struct sample *sample)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    for (int i = 0; i < sample->count; i++) {
        const struct sample_rank *rank = &sample->ranks[i];
        bool is_shown = !rank->is_remote || !rank->gpu.number;
        for (int j = i; !is_shown && j > 0 && !strcmp (sample->ranks[j - 1].host, rank->host); j--)
            is_shown = sample->ranks[j - 1].gpu.number == rank->gpu.number;
        if (!is_shown && !line.length) {
            strbuf_add (&line, "  ");
            printable_add (&line, rank->host);
        }
        if (!is_shown)
            add_gpu (&line, rank->gpu.number - 1, rank->gpu.use, rank->gpu.temperature, rank->gpu.memory_used,
                     rank->gpu.memory_used);
        if (line.length && (i + 1 == sample->count || strcmp (sample->ranks[i + 1].host, rank->host) != 0)) {
            add_line (page, VIEW_PLAIN, &line);
            strbuf_truncate (&line, 0);
        }
    }
}

/* Three or four lines about a job. */
static void
add_job (struct page *page, const struct watched *watched)
{
    const struct watch_job *job = &watched->job;
    AUTO_STRBUF struct strbuf name = { 0 }, facts = { 0 }, values = { 0 };
    int leader = watched_leader (watched), alive = sample_count_alive (&watched->sample);
    printable_add (&name, job->id);
    strbuf_add (&name, "  ");
    printable_add (&name, job->program);
    add_line (page, VIEW_STRONG, &name);
    strbuf_printf (&facts, "  %d of %d ranks", alive, job->rank_count);
    if (leader >= 0) {
        strbuf_printf (&facts, "  step %llu  ", (unsigned long long) watched->sample.ranks[leader].step);
        view_add_number (&facts, watched_pace (watched));
        strbuf_add (&facts, " steps/s");
    }
    if (watched->saves)
        strbuf_add (&facts, "  checkpoint asked");
    else if (watched->sample.saved_step)
        strbuf_printf (&facts, "  saved step %llu", (unsigned long long) watched->sample.saved_step - 1);
    if (watched->sample.memory_step)
        strbuf_printf (&facts, "  in memory %llu", (unsigned long long) watched->sample.memory_step - 1);
    strbuf_add (&facts, "  ");
    view_add_age (&facts, watched_age (watched));
    if (job->launcher)
        strbuf_printf (&facts, "  launcher %d", (int) job->launcher);
    if (job->restarts)
        strbuf_printf (&facts, "  restarts %u", job->restarts);
    if (job->hosts)
        strbuf_printf (&facts, "  %d host%s", job->hosts, job->hosts > 1 ? "s" : "");
    if (job->world_size > job->rank_count)
        strbuf_printf (&facts, "  (of %d ranks on all hosts, those of this one)", job->world_size);
    add_line (page, VIEW_PLAIN, &facts);
    add_values (&values, page, watched);
    if (values.text)
        add_line (page, VIEW_PLAIN, &values);
    add_gpus_of_hosts (page, &watched->sample);
}

static bool
shows_gpus (const struct page *page, const struct sample *sample)
{
    bool any = page->gpus->count;
    for (int i = 0; i < sample->count && !any; i++)
        any = watched_rank_gpu (page->gpus, &sample->ranks[i]).number;
    return any;
}

static void
add_heading (struct page *page, const struct watched *watched)
{
    const struct watch_job *job = &watched->job;
    AUTO_STRBUF struct strbuf line = { 0 };
    bool is_wide = page->view->columns >= WIDE;
    page->has_gpus = shows_gpus (page, &watched->sample);
    strbuf_printf (&line, " %4s%s %-9s %8s %7s %5s %5s %5s%s%s%s  %s", "RANK", is_wide ? "     PID" : "", "STATE",
                   "STEP", "STEP/S", "COMM", "LATE", "CPU", is_wide ? "       MEM" : "",
                   page->has_gpus ? " GPU" : "", job->hosts ? "  HOST      " : "", "DOING");
    add_line (page, VIEW_FAINT, &line);
}

static void
add_doing (struct strbuf *out, const struct watched *watched, int i)
{
    printable_add (out, watched->sample.ranks[i].doing);
    if (watched->awaits[i] >= 0)
        strbuf_printf (out, ", waits for rank %d", watched->awaits[i]);
    else if (watched->awaits[i] == AWAITS_OTHER_HOSTS)
        strbuf_add (out, ", waits for another host");
}

/* As many characters of its name as the column has. */
static void
add_host (struct strbuf *out, const char *host)
{
    AUTO_STRBUF struct strbuf name = { 0 };
    printable_add (&name, host);
    const char *begin = name.text ? name.text : "", *at = begin;
    int column = 0;
    for (; *at && column < HOST; column++)
        utf8_next (&at);
    strbuf_printf (out, "  %.*s%*s", (int) (at - begin), begin, HOST - column, "");
}

static void
add_rank (struct page *page, const struct watched *watched, int i, bool is_chosen)
{
    const struct sample_rank *rank = &watched->sample.ranks[i];
    const struct history_rates *rates = &watched->rates[i];
    AUTO_STRBUF struct strbuf line = { 0 }, pace = { 0 }, memory = { 0 }, step = { 0 };
    strbuf_printf (&line, "%s%4d", is_chosen && page->view->lines ? ">" : " ", rank->rank);
    if (page->view->columns >= WIDE)
        strbuf_printf (&line, " %7d", (int) rank->pid);
    view_add_number (&pace, rates->steps_per_second);
    strbuf_printf (&step, rank->step_ns ? "%llu" : "-", (unsigned long long) rank->step);
    strbuf_printf (&line, " %-9s %8s %7s", watched_state (watched, i), step.text ? step.text : "",
                   pace.text ? pace.text : "");
    strbuf_add_char (&line, ' ');
    add_share (&line, rates->waiting);
    strbuf_add_char (&line, ' ');
    add_share (&line, rates->awaited);
    add_share (&line, rates->cpu);
    if (page->view->columns >= WIDE) {
        if (rank->memory)
            bytes_add (&memory, rank->memory);
        strbuf_printf (&line, " %9s", memory.text ? memory.text : "-");
    }
    int gpu = watched_rank_gpu (page->gpus, rank).number;
    if (page->has_gpus)
        strbuf_printf (&line, gpu ? " %3d" : "   -", gpu - 1);
    if (watched->job.hosts)
        add_host (&line, rank->host);
    strbuf_add (&line, "  ");
    add_doing (&line, watched, i);
    add_line (page, is_chosen && page->view->lines ? VIEW_TITLE : VIEW_PLAIN, &line);
}

/* @return the line of the chosen row */
static int
add_list (struct page *page, const struct view_row *rows, int count)
{
    int chosen = view_find_chosen (page->view, rows, count), chosen_line = 0;
    for (int row = 0; row < count; row++) {
        if (row == 0)
            add_gpus (page, page->gpus);
        if (row == 0 || rows[row].watched != rows[row - 1].watched) {
            if (row)
                add_text (page, VIEW_PLAIN, "%s", "");
            add_job (page, rows[row].watched);
            add_heading (page, rows[row].watched);
        }
        if (row == chosen)
            chosen_line = (int) page->lines->count;
        add_rank (page, rows[row].watched, rows[row].i, row == chosen);
    }
    return chosen ? chosen_line : 0; /* the first one is shown with what is above it */
}

static void
add_one (struct page *page, const struct view_row *row)
{
    const struct watched *watched = row->watched;
    const struct sample_rank *rank = &watched->sample.ranks[row->i];
    float numbers[SPARK_RANK];
    AUTO_STRBUF struct strbuf doing = { 0 };
    add_gpus (page, page->gpus);
    add_job (page, watched);
    add_heading (page, watched);
    add_rank (page, watched, row->i, false);
    add_text (page, VIEW_PLAIN, "%s", "");
    strbuf_printf (&doing, "rank %d, process %d: ", rank->rank, (int) rank->pid);
    add_doing (&doing, watched, row->i);
    add_line (page, VIEW_PLAIN, &doing);
    for (uint32_t j = 0; j < rank->value_count; j++) {
        AUTO_STRBUF struct strbuf line = { 0 };
        printable_add (&line, rank->values[j].name);
        while (line.length < JOBSEG_VALUE_NAME && !line.failed)
            strbuf_add_char (&line, ' ');
        strbuf_printf (&line, " %-12.6g ", rank->values[j].value);
        add_sparkline (&line, numbers, history_values (&watched->history, row->i, j, numbers, SPARK_RANK),
                       page->view->is_ascii);
        add_line (page, VIEW_PLAIN, &line);
    }
    if (!rank->value_count)
        add_text (page, VIEW_PLAIN, "The program has logged no values (accel_log).");
}

static void
add_help (struct page *page)
{
    static const char *const help[] = {
        "Up, Down, j, k   choose a rank",
        "Page Up, Down    move by a screen",
        "Enter            show the chosen rank; Esc: back",
        "s                sort by the next column",
        "d                the stacks of the chosen job, or of the rank that is shown",
        "c                ask the chosen job for a checkpoint",
        "x                stop the job of the chosen rank (asks first)",
        "h, ?             these keys",
        "q                quit",
        "",
        "STEP   what the program logs as its step, or steps of the optimizer",
        "COMM   share of the last 10 s in calls that communicate",
        "LATE   share of the last minute in which others waited for this rank",
        "CPU    processors in use: 100% is one",
    };
    for (size_t i = 0; i < sizeof help / sizeof *help; i++)
        add_text (page, VIEW_PLAIN, "%s", help[i]);
}

static void
add_stacks (struct page *page)
{
    for (size_t i = 0; i < page->view->stacks->count; i++) {
        AUTO_STRBUF struct strbuf line = { 0 };
        strbuf_add (&line, page->view->stacks->items[i]);
        add_line (page, VIEW_PLAIN, &line);
    }
}

/* ---- the screen ---- */

static void
add_title (struct page *page, const struct watched_list *list)
{
    int ranks = 0;
    AUTO_STRBUF struct strbuf line = { 0 };
    for (size_t i = 0; i < list->count; i++)
        ranks += list->items[i].sample.count;
    strbuf_printf (&line, "accelerate top: %zu job%s, %d rank%s, by %s", list->count,
                   list->count == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", sort_names[page->view->sort]);
    while (!line.failed && line.length < (size_t) page->view->columns)
        strbuf_add_char (&line, ' ');
    add_line (page, VIEW_TITLE, &line);
}

static void
add_footer (struct page *page, const struct watched_list *list)
{
    const struct watched *asked = page->view->asked ? watched_find (list, page->view->asked) : NULL;
    if (asked)
        add_text (page, VIEW_STRONG, "Stop job %s (%d ranks)? y: yes, any other key: no", asked->job.id,
                  asked->job.rank_count);
    else if (page->view->asked)
        add_text (page, VIEW_STRONG, "The job has ended.");
    else if (*page->view->message)
        add_text (page, VIEW_STRONG, "%s", page->view->message);
    else
        add_text (page, VIEW_FAINT, page->view->screen == SCREEN_LIST
                                   ? "Enter: rank  s: sort  d: stacks  c: checkpoint  x: stop job  h: help  q: quit"
                               : page->view->screen == SCREEN_STACKS ? "Up, Down: scroll  any other key: back"
                                                                     : "d: stacks  c: checkpoint  Esc: back  q: quit");
}

/* @return the line that has to be seen */
static int
add_body (struct page *page, const struct watched_list *list)
{
    struct view_row *rows;
    int count = view_rows (page->view, list, &rows), line = 0;
    if (count < 0)
        page->lines->failed = true;
    else if (page->view->screen == SCREEN_HELP)
        add_help (page);
    else if (page->view->screen == SCREEN_STACKS)
        add_stacks (page);
    else if (!count)
        add_text (page, VIEW_PLAIN, "No job of this user is running on this machine.%s",
                  list->foreign ? "  Jobs from different releases of accelerate are not shown." : "");
    else if (page->view->screen == SCREEN_RANK)
        add_one (page, &rows[view_find_chosen (page->view, rows, count)]);
    else
        line = add_list (page, rows, count);
    free (rows);
    return line;
}

/* Stacks as the keys say, the list as far as it takes to see @line. */
static void
scroll (struct view *view, int line, int count, int room)
{
    int last = count > room ? count - room : 0;
    if (view->screen == SCREEN_STACKS)
        view->first = view->first < 0 ? 0 : view->first > last ? last : view->first;
    else if (line >= view->first + room)
        view->first = line - room + 1;
    if (view->screen != SCREEN_STACKS && line < view->first)
        view->first = line;
}

void
view_show (struct view *view, const struct watched_list *list, struct view_lines *lines)
{
    AUTO_VIEW_LINES struct view_lines body = { 0 };
    struct page page = { .view = view, .gpus = &list->gpus, .lines = &body };
    int line = add_body (&page, list), count = (int) body.count;
    int room = !view->lines ? count : view->lines > MARGIN ? view->lines - MARGIN : 0;
    lines->failed |= body.failed;
    scroll (view, line, count, room);
    page.lines = lines;
    if (view->lines)
        add_title (&page, list);
    for (int i = view->first; i < view->first + room; i++)
        if (i < count || view->lines)
            take_line (lines, i < count ? body.items[i].style : VIEW_PLAIN,
                       strdup (i < count ? body.items[i].text : ""));
    if (view->lines > 1)
        add_footer (&page, list);
}
