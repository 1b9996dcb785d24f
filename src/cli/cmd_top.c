/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate top: what running jobs do, on a terminal again and again, elsewhere once. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "cli/watch/dump.h"
#include "cli/watch/screen.h"
#include "cli/watch/watched.h"
#include "config/load.h"
#include "config/text/json_text.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SAMPLE_MS = 1000, /* between two samples, and so between two pictures */
    LOOK_MS = 50,     /* between two looks at who waits for whom */
    NO_LIMIT = 1 << 20, /* columns of a file */
};

struct top {
    struct watched_list list;
    struct watched_filter filter;
    struct view view;
    struct dump dump;      /* what SCREEN_STACKS shows */
    sigset_t mask;         /* as it was given to us */
    int signals;           /* a signalfd */
    int ended_by;          /* a signal; 0: none */
};

/* ---- what is looked at ---- */

static int
choose (struct top *top, const char *word, struct fail *fail)
{
    struct watch_job job;
    if (!word)
        return 0;
    int result = watch_job_find (&job, word, fail);
    top->filter = (struct watched_filter){ .launcher = job.launcher, .inode = job.inode };
    watch_job_release (&job);
    return result;
}

static bool
shows_utf8 (void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv (names[i]);
        if (value && *value)
            return strcasestr (value, "utf-8") || strcasestr (value, "utf8");
    }
    return false;
}

/* ---- once ---- */

static bool
can_draw (void)
{
    const char *name = getenv ("TERM");
    return isatty (STDIN_FILENO) && isatty (STDOUT_FILENO) && name && *name && strcmp (name, "dumb") != 0;
}

static int
print_once (struct top *top, bool json, struct fail *fail)
{
    static const char *const styles[] = {
        [VIEW_TITLE] = "7", [VIEW_STRONG] = "1", [VIEW_FAINT] = "2", [VIEW_PLAIN] = "",
    };
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_VIEW_LINES struct view_lines lines = { 0 };
    if (json) {
        json_t *jobs = json_array ();
        for (size_t i = 0; i < top->list.count; i++)
            json_array_append_new (jobs, watched_json (&top->list.items[i], &top->list.gpus));
        json_t *root = json_pack ("{s:o, s:o, s:i}", "jobs", jobs, "gpus",
                                  watched_gpus_json (&top->list.gpus), "other_releases", top->list.foreign);
        return json_add (&out, root, JSON_INDENT (2)) ? fail_nomem (fail) : print_text (&out, fail);
    }
    bool is_styled = can_draw ();
    struct winsize size = { 0 };
    ioctl (STDOUT_FILENO, TIOCGWINSZ, &size);
    top->view.columns = size.ws_col ? size.ws_col : isatty (STDOUT_FILENO) ? 80 : NO_LIMIT;
    top->view.lines = 0; /* all of them */
    view_show (&top->view, &top->list, &lines);
    for (size_t i = 0; i < lines.count; i++) {
        const char *style = is_styled ? styles[lines.items[i].style] : "";
        strbuf_printf (&out, *style ? "\033[%sm%s\033[0m\n" : "%s%s\n", style, lines.items[i].text);
    }
    out.failed |= lines.failed;
    return print_text (&out, fail);
}

static int
run_once (struct top *top, bool json, struct fail *fail)
{
    watched_gpus_start ();
    top->list.is_patient = true;
    if (watched_refresh (&top->list, &top->filter, fail))
        return -1;
    for (int i = 0; top->list.count && i < SAMPLE_MS / LOOK_MS; i++) {
        nanosleep (&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
        watched_look (&top->list);
    }
    return watched_refresh (&top->list, &top->filter, fail) ? -1 : print_once (top, json, fail);
}

/* ---- the terminal ---- */

static int
draw (struct top *top, struct fail *fail)
{
    AUTO_VIEW_LINES struct view_lines lines = { 0 };
    view_show (&top->view, &top->list, &lines);
    if (lines.failed)
        return fail_nomem (fail);
    screen_draw (&lines);
    return 0;
}

static void
stop_job (struct top *top, const struct watched *watched)
{
    struct fail fail;
    int launcher = watch_job_signal (&watched->job, SIGTERM, &fail);
    snprintf (top->view.message, sizeof top->view.message, "%.190s",
              launcher < 0 ? fail.text : "The job's ranks were asked to end (SIGTERM).");
    if (launcher >= 0)
        close (launcher);
}

/* That it was asked, the lines of the job show. */
static void
ask_save (struct top *top, struct watched *watched)
{
    struct fail fail;
    if (watched_ask_save (watched, &fail))
        snprintf (top->view.message, sizeof top->view.message, "No checkpoint: %.170s", fail.text);
}

static void
dump_stacks (struct top *top, const struct watched *watched)
{
    struct fail fail;
    int only = top->view.before == SCREEN_RANK ? top->view.chosen.i : -1;
    if (dump_begin (&top->dump, &watched->job, only, &fail)) {
        snprintf (top->view.message, sizeof top->view.message, "%.190s", fail.text);
        return;
    }
    top->view.screen = SCREEN_STACKS;
    top->view.stacks = &top->dump.lines;
    top->view.first = 0;
}

/* @param inode  of the job that is meant; it may have ended since */
static void
act (struct top *top, enum view_action action, uint64_t inode)
{
    struct watched *watched = watched_find (&top->list, inode);
    top->view.asked = 0;
    if (!watched)
        snprintf (top->view.message, sizeof top->view.message, "The job has ended.");
    else if (action == VIEW_STOPS)
        stop_job (top, watched);
    else if (action == VIEW_SAVES)
        ask_save (top, watched);
    else
        dump_stacks (top, watched);
}

/* @return false to quit */
static bool
take_keys (struct top *top)
{
    for (int key; (key = screen_key ()) >= 0;)
        switch (view_key (&top->view, key, &top->list)) {
        case VIEW_QUITS: return false;
        case VIEW_STAYS: break;
        case VIEW_STOPS: act (top, VIEW_STOPS, top->view.asked); break;
        case VIEW_SAVES: act (top, VIEW_SAVES, top->view.chosen.inode); break;
        case VIEW_DUMPS: act (top, VIEW_DUMPS, top->view.chosen.inode); break;
        }
    return true;
}

/* @return 0 to quit, -1 with @fail */
static int
take_signals (struct top *top, struct fail *fail)
{
    struct signalfd_siginfo info;
    int status = 1;
    while (status > 0 && read (top->signals, &info, sizeof info) == (ssize_t) sizeof info)
        if (info.ssi_signo == SIGWINCH)
            status = screen_measure (&top->view, fail) ? -1 : 1;
        else if (info.ssi_signo == SIGTSTP)
            status = screen_suspend (&top->view, fail) ? -1 : 1;
        else {
            top->ended_by = (int) info.ssi_signo;
            status = 0;
        }
    return status;
}

/* Until the next sample is due, or something has changed.  @return 0 to quit, -1 with @fail */
static int
pause_until (struct top *top, int64_t due_ms, struct fail *fail)
{
    struct pollfd events[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = top->signals, .events = POLLIN },
                               { .fd = dump_fd (&top->dump), .events = POLLIN } };
    for (int64_t left; (left = due_ms - clock_ms ()) > 0;) {
        if (poll (events, 3, left < LOOK_MS ? (int) left : LOOK_MS) > 0) {
            bool is_gone = events[0].revents & (POLLHUP | POLLERR | POLLNVAL);
            int status = is_gone ? 0 : events[1].revents ? take_signals (top, fail) : 1;
            return status > 0 && events[0].revents ? take_keys (top) : status;
        }
        watched_look (&top->list);
    }
    return 1;
}

static int
serve (struct top *top, struct fail *fail)
{
    int64_t due_ms = clock_ms ();
    bool had_job = false;
    int status;
    do {
        if (clock_ms () >= due_ms) {
            due_ms = clock_ms () + SAMPLE_MS;
            if (watched_refresh (&top->list, &top->filter, fail))
                return -1;
            if (top->filter.inode && had_job && !top->list.count && top->view.screen != SCREEN_STACKS)
                return 1;
            had_job |= top->list.count > 0;
        }
        dump_turn (&top->dump);
        if (draw (top, fail))
            return -1;
        status = pause_until (top, due_ms, fail);
    } while (status > 0);
    return status;
}

static void
close_terminal (struct top *top)
{
    screen_close ();
    if (top->signals >= 0)
        close (top->signals);
    sigprocmask (SIG_SETMASK, &top->mask, NULL);
}

/* @return whether it can be drawn on; signals are blocked then */
static bool
open_terminal (struct top *top)
{
    struct fail fail;
    sigset_t wanted;
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
    sigemptyset (&wanted);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset (&wanted, numbers[i]);
    sigprocmask (SIG_BLOCK, &wanted, &top->mask);
    top->signals = signalfd (-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (top->signals < 0)
        fail_set (&fail, FAIL_GENERAL, "cannot use the terminal: %s", strerror (errno));
    if (top->signals >= 0 && !screen_open (&top->view, &fail))
        return true;
    close_terminal (top);
    print_note ("this is what one second showed, because ", fail.text, "");
    return false;
}

static int
run_on_terminal (struct top *top, struct fail *fail)
{
    watched_gpus_start ();
    int status = serve (top, fail);
    close_terminal (top);
    if (top->ended_by) {
        signal (top->ended_by, SIG_DFL);
        raise (top->ended_by);
    }
    if (status > 0)
        print_line ("the job has ended", "", "");
    return status < 0 ? -1 : 0;
}

int
cmd_top (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct top top = { .view.is_ascii = !shows_utf8 (), .dump = DUMP_NONE };
    int status = config_load_command (&config, COMMAND_TOP, argc, argv, 1, fail);
    if (!status)
        status = choose (&top, config.words.count ? config.words.items[0] : NULL, fail);
    bool is_once = config.settings.once || config.settings.json || !can_draw ();
    if (!status && !is_once && open_terminal (&top))
        status = run_on_terminal (&top, fail);
    else if (!status)
        status = run_once (&top, config.settings.json, fail);
    watched_release (&top.list);
    dump_release (&top.dump);
    return status;
}
