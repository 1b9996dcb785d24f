/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate top: what running jobs do, on a terminal again and again, elsewhere once.  The screen is drawn with the
 * few escapes that every terminal of today knows, as the menus of `config` are. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "cli/watch/dump.h"
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
#include <termios.h>
#include <unistd.h>

enum {
    SAMPLE_MS = 1000, /* between two samples, and so between two pictures */
    LOOK_MS = 50,     /* between two looks at who waits for whom */
    ESCAPE_MS = 50,   /* the rest of a key's escape comes at once; a lone Esc has none */
    NO_LIMIT = 1 << 20, /* columns of a file */
};

struct top {
    struct watched_list list;
    struct watched_filter filter;
    struct view view;
    struct dump dump;      /* what SCREEN_STACKS shows */
    struct termios before;
    sigset_t mask;         /* as it was given to us */
    int signals;           /* a signalfd */
    struct strlist drawn;  /* lines on the screen */
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

static void
measure (struct top *top)
{
    struct winsize size = { 0 };
    ioctl (STDOUT_FILENO, TIOCGWINSZ, &size);
    top->view.columns = size.ws_col ? size.ws_col : 80;
    top->view.lines = size.ws_row ? size.ws_row : 24;
    strlist_release (&top->drawn); /* what is on the screen is unknown now */
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
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_STRLIST struct strlist lines = { 0 };
    if (json) {
        json_t *jobs = json_array ();
        for (size_t i = 0; i < top->list.count; i++)
            json_array_append_new (jobs, watched_json (&top->list.items[i], &top->list.gpus));
        json_t *root = json_pack ("{s:o, s:o, s:i}", "jobs", jobs, "gpus",
                                  watched_gpus_json (&top->list.gpus), "other_releases", top->list.foreign);
        return json_add (&out, root, JSON_INDENT (2)) ? fail_nomem (fail) : print_text (&out, fail);
    }
    top->view.is_plain = !can_draw ();
    if (isatty (STDOUT_FILENO))
        measure (top);
    else
        top->view.columns = NO_LIMIT;
    top->view.lines = 0;
    view_show (&top->view, &top->list, &lines);
    for (size_t i = 0; i < lines.count; i++)
        strbuf_printf (&out, "%s\n", lines.items[i]);
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

static void
enter (struct top *top)
{
    struct termios raw = top->before;
    raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr (STDIN_FILENO, TCSADRAIN, &raw);
    fputs ("\033[?1049h\033[?25l\033[?7l\033[2J", stdout); /* another screen, no cursor, no wrapped lines */
    measure (top);
}

static void
leave (const struct top *top)
{
    fputs ("\033[?7h\033[?25h\033[?1049l", stdout);
    fflush (stdout);
    tcsetattr (STDIN_FILENO, TCSADRAIN, &top->before);
}

/* Only lines that have changed.  @return -1 with @fail: there is no memory, or no terminal any more */
static int
draw (struct top *top, struct fail *fail)
{
    AUTO_STRLIST struct strlist lines = { 0 };
    view_show (&top->view, &top->list, &lines);
    if (lines.failed)
        return fail_nomem (fail);
    for (size_t i = 0; i < lines.count; i++)
        if (i >= top->drawn.count || strcmp (lines.items[i], top->drawn.items[i]))
            printf ("\033[%zu;1H%s\033[K", i + 1, lines.items[i]);
    if (fflush (stdout))
        return fail_set (fail, FAIL_GENERAL, "cannot write to the terminal: %s", strerror (errno));
    strlist_release (&top->drawn);
    top->drawn = lines;
    lines = (struct strlist){ 0 };
    return 0;
}

/* @return the next byte that was typed, -1 if there is none in time */
static int
read_byte (int wait_ms)
{
    unsigned char byte;
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    return poll (&input, 1, wait_ms) == 1 && read (STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

/* ESC [ A and ESC O A are both the arrow up; ESC [ 5 ~ is Page Up. */
static int
read_key (void)
{
    int key = read_byte (0), number = 0;
    if (key != 033)
        return key;
    key = read_byte (ESCAPE_MS);
    if (key != '[' && key != 'O')
        return KEY_ESCAPE;
    while ((key = read_byte (ESCAPE_MS)) >= 0 && strchr ("0123456789;", key))
        number = key == ';' ? number : (number * 10 + key - '0') % 1000;
    return key == 'A'                    ? KEY_UP
           : key == 'B'                  ? KEY_DOWN
           : key == '~' && number == 5   ? KEY_PAGE_UP
           : key == '~' && number == 6   ? KEY_PAGE_DOWN
                                         : 0;
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
    for (int key; (key = read_key ()) >= 0;)
        switch (view_key (&top->view, key, &top->list)) {
        case VIEW_QUITS: return false;
        case VIEW_STAYS: break;
        case VIEW_STOPS: act (top, VIEW_STOPS, top->view.asked); break;
        case VIEW_SAVES: act (top, VIEW_SAVES, top->view.chosen.inode); break;
        case VIEW_DUMPS: act (top, VIEW_DUMPS, top->view.chosen.inode); break;
        }
    return true;
}

/* As the shell expects it: the terminal as it was while we are stopped. */
static void
suspend (struct top *top)
{
    leave (top);
    raise (SIGSTOP);
    tcgetattr (STDIN_FILENO, &top->before);
    enter (top);
}

/* @return false to quit */
static bool
take_signals (struct top *top)
{
    struct signalfd_siginfo info;
    while (read (top->signals, &info, sizeof info) == (ssize_t) sizeof info)
        if (info.ssi_signo == SIGWINCH)
            measure (top);
        else if (info.ssi_signo == SIGTSTP)
            suspend (top);
        else {
            top->ended_by = (int) info.ssi_signo;
            return false;
        }
    return true;
}

/* Until the next sample is due, or something has changed.  @return false to quit */
static bool
pause_until (struct top *top, int64_t due_ms)
{
    struct pollfd events[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = top->signals, .events = POLLIN },
                               { .fd = dump_fd (&top->dump), .events = POLLIN } };
    for (int64_t left; (left = due_ms - clock_ms ()) > 0;) {
        if (poll (events, 3, left < LOOK_MS ? (int) left : LOOK_MS) > 0) {
            bool is_gone = events[0].revents & (POLLHUP | POLLERR | POLLNVAL);
            return !is_gone && (!events[1].revents || take_signals (top)) && (!events[0].revents || take_keys (top));
        }
        watched_look (&top->list);
    }
    return true;
}

static int
serve (struct top *top, struct fail *fail)
{
    int64_t due_ms = clock_ms ();
    bool had_job = false;
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
    } while (pause_until (top, due_ms));
    return 0;
}

static int
run_on_terminal (struct top *top, struct fail *fail)
{
    sigset_t wanted;
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
    sigemptyset (&wanted);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset (&wanted, numbers[i]);
    sigprocmask (SIG_BLOCK, &wanted, &top->mask);
    top->signals = signalfd (-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (top->signals < 0 || tcgetattr (STDIN_FILENO, &top->before))
        return fail_set (fail, FAIL_GENERAL, "cannot use the terminal: %s", strerror (errno));
    watched_gpus_start ();
    enter (top);
    int status = serve (top, fail);
    leave (top);
    close (top->signals);
    sigprocmask (SIG_SETMASK, &top->mask, NULL);
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
    if (!status && (config.settings.once || config.settings.json || !can_draw ()))
        status = run_once (&top, config.settings.json, fail);
    else if (!status)
        status = run_on_terminal (&top, fail);
    watched_release (&top.list);
    strlist_release (&top.drawn);
    dump_release (&top.dump);
    return status;
}
