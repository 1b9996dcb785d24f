/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a person or a program; see prompt.h.  The only user of readline, or libedit.
 *
 * Signals only leave a note; they are blocked except while we wait in ppoll(), so that none is missed between looking
 * at the note and waiting. */
#include <config.h>

#include "cli/prompt.h"

#include "util/cleanup.h"
#include "util/strbuf.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#if defined HAVE_READLINE
#include <readline/readline.h>
#elif defined HAVE_LIBEDIT
#include <editline/readline.h>
#endif

static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
enum { SIGNALS = sizeof signals / sizeof *signals };

static struct {
    bool is_open;
    sigset_t mask; /* of before, which ppoll() waits with */
    struct sigaction old[SIGNALS];
    volatile sig_atomic_t noted[SIGNALS];
} state;

static void
note_signal (int number)
{
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            state.noted[i] = 1;
}

void
prompt_open (void)
{
    struct sigaction action = { .sa_handler = note_signal };
    sigset_t ours;
    sigemptyset (&ours);
    for (int i = 0; i < SIGNALS; i++) {
        state.noted[i] = 0;
        sigaddset (&ours, signals[i]);
        sigaction (signals[i], NULL, &state.old[i]);
        if (state.old[i].sa_handler != SIG_IGN) /* as nohup, and a shell's `&`, want it */
            sigaction (signals[i], &action, NULL);
    }
    sigprocmask (SIG_BLOCK, &ours, &state.mask);
    state.is_open = true;
}

void
prompt_close (void)
{
    if (!state.is_open)
        return;
    for (int i = 0; i < SIGNALS; i++)
        sigaction (signals[i], &state.old[i], NULL);
    sigprocmask (SIG_SETMASK, &state.mask, NULL);
    state.is_open = false;
}

bool
prompt_has_person (void)
{
    return isatty (STDIN_FILENO);
}

bool
prompt_can_draw (void)
{
    const char *term = getenv ("TERM");
    return isatty (STDIN_FILENO) && isatty (STDOUT_FILENO) && term && *term && strcmp (term, "dumb");
}

static bool
take_note (int number)
{
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number && state.noted[i]) {
            state.noted[i] = 0;
            return true;
        }
    return false;
}

static int
look_at_notes (void)
{
    if (take_note (SIGINT))
        return PROMPT_KEY_INTERRUPT;
    if (take_note (SIGTSTP))
        return PROMPT_KEY_STOP;
    if (take_note (SIGWINCH))
        return PROMPT_KEY_RESIZE;
    for (int i = 0; i < SIGNALS; i++)
        if (state.noted[i])
            return PROMPT_KEY_KILLED;
    return 0;
}

/* @return 1: there is something to read, or one of enum prompt_key */
static int
wait_for_input (int timeout_ms)
{
    struct pollfd wanted = { .fd = STDIN_FILENO, .events = POLLIN };
    struct timespec timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
    for (;;) {
        int noted = look_at_notes ();
        if (noted)
            return noted;
        int ready = ppoll (&wanted, 1, timeout_ms < 0 ? NULL : &timeout, &state.mask);
        if (ready > 0)
            return 1;
        if (!ready)
            return PROMPT_KEY_TIMEOUT;
        if (errno != EINTR)
            return PROMPT_KEY_END;
    }
}

int
prompt_key (int timeout_ms)
{
    unsigned char byte;
    int ready = wait_for_input (timeout_ms);
    if (ready != 1)
        return ready;
    return read (STDIN_FILENO, &byte, 1) == 1 ? byte : PROMPT_KEY_END;
}

void
prompt_stop (void)
{
    raise (SIGSTOP);
}

void
prompt_die (void)
{
    for (int i = 0; i < SIGNALS; i++)
        if (state.noted[i]) {
            prompt_close ();
            raise (signals[i]);
        }
}

int
prompt_columns (void)
{
    struct winsize size = { 0 };
    return ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20 ? 80 : size.ws_col;
}

/* A word that is longer than the line is left to the terminal.  Bytes count as columns: the questions are ASCII. */
void
prompt_wrap (const char *text, size_t indent, struct strbuf *out)
{
    size_t column = 0, width = (size_t) prompt_columns () - 1;
    if (indent > width / 2)
        indent = 0;
    if (!prompt_can_draw ()) {
        strbuf_add (out, text);
        return;
    }
    while (*text) {
        size_t blanks = strspn (text, " "), word = strcspn (text + blanks, " \n");
        if (column && word && column + blanks + word > width) {
            strbuf_printf (out, "\n%*s", (int) indent, "");
            column = indent;
            blanks = 0;
            text += strspn (text, " ");
        }
        strbuf_add_bytes (out, text, blanks + word);
        column += blanks + word;
        text += blanks + word;
        if (*text == '\n') {
            strbuf_add_char (out, *text++);
            column = 0;
        }
    }
}

void
prompt_say_indented (const char *text, size_t indent)
{
    AUTO_STRBUF struct strbuf wrapped = { 0 };
    prompt_wrap (text, indent, &wrapped);
    printf ("%s\n", wrapped.text && !wrapped.failed ? wrapped.text : text);
    fflush (stdout);
}

void
prompt_say (const char *text)
{
    prompt_say_indented (text, 0);
}

static enum prompt_result
finish (char *line, char **result)
{
    if (!line)
        return PROMPT_END;
    size_t length = strlen (line);
    while (length && strchr (" \t\r\n", line[length - 1]))
        line[--length] = '\0';
    size_t blanks = strspn (line, " \t");
    memmove (line, line + blanks, length - blanks + 1);
    if (!strcmp (line, "<") || !strcmp (line, "?")) {
        enum prompt_result said = *line == '<' ? PROMPT_BACK : PROMPT_HELP;
        free (line);
        return said;
    }
    *result = line;
    return PROMPT_ANSWER;
}

/* Byte by byte, so that nothing is read that the next question, or a later program at the same pipe, should get. */
static enum prompt_result
read_plain (const char *question, char **line)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    fputs (question, stdout);
    fflush (stdout);
    for (;;) {
        int key = prompt_key (-1);
        switch (key) {
        case PROMPT_KEY_RESIZE:
            continue;
        case PROMPT_KEY_STOP:
            prompt_stop ();
            fputs (question, stdout); /* the shell has written below */
            fflush (stdout);
            continue;
        case PROMPT_KEY_KILLED:
            prompt_die ();
            continue;
        case PROMPT_KEY_INTERRUPT:
            return PROMPT_INTERRUPT;
        default:
            break;
        }
        if (key == PROMPT_KEY_END && !text.length)
            return PROMPT_END;
        if (key != PROMPT_KEY_END && key != '\n') {
            strbuf_add_char (&text, (char) key);
            continue;
        }
        char *taken = strbuf_take (&text);
        return taken ? finish (taken, line) : PROMPT_ANSWER; /* without a line: no memory */
    }
}

#if defined HAVE_READLINE || defined HAVE_LIBEDIT

static struct {
    char *line;
    bool is_done, is_path;
} typed;

static void
take_line (char *line)
{
    typed.line = line;
    typed.is_done = true;
    rl_callback_handler_remove ();
}

/* For the Tab key: names of files or nothing. */
static char **
complete (const char *text, int start, int end)
{
    (void) start;
    (void) end;
    rl_attempted_completion_over = 1;
    if (!typed.is_path)
        return NULL;
    char **matches = rl_completion_matches (text, rl_filename_completion_function);
#ifdef HAVE_LIBEDIT
    /* GNU readline sees itself that a single match is a folder. */
    struct stat info;
    if (matches && (!matches[1] || !matches[2]) && !stat (matches[0], &info) && S_ISDIR (info.st_mode)) {
        size_t length = strlen (matches[0]);
        char *longer = realloc (matches[0], length + 2);
        matches[0] = longer ? strcpy (longer + length, "/") - length : matches[0];
    }
#endif
    return matches;
}

static void
begin (const char *question)
{
    static char no_breaks[] = ""; /* the whole line is one path, blanks and all */
    rl_catch_signals = 0;
    rl_attempted_completion_function = complete;
    rl_completer_word_break_characters = no_breaks;
    rl_completion_append_character = '\0';
    rl_callback_handler_install (question, take_line);
}

static enum prompt_result
read_edited (const char *question, bool is_path, char **line)
{
    typed.is_done = false;
    typed.line = NULL;
    typed.is_path = is_path;
    begin (question);
    while (!typed.is_done) {
        int ready = wait_for_input (-1);
        if (ready == 1) {
            rl_callback_read_char ();
            continue;
        }
        if (ready == PROMPT_KEY_RESIZE) {
            rl_resize_terminal ();
            continue;
        }
        rl_callback_handler_remove ();
        if (ready == PROMPT_KEY_INTERRUPT)
            return PROMPT_INTERRUPT;
        if (ready == PROMPT_KEY_END)
            return PROMPT_END;
        if (ready == PROMPT_KEY_KILLED)
            prompt_die ();
        prompt_stop ();
        begin (question);
    }
    return finish (typed.line, line);
}

#endif

/* Print a question but for its last line, which the line editor gets: it cannot count the others.
 * @return the last line, in @wrapped */
static const char *
begin_question (const char *question, struct strbuf *wrapped)
{
    prompt_wrap (question, 0, wrapped);
    const char *last = wrapped->text && !wrapped->failed ? strrchr (wrapped->text, '\n') : NULL;
    if (!last)
        return question;
    printf ("%.*s", (int) (last + 1 - wrapped->text), wrapped->text);
    fflush (stdout);
    return last + 1;
}

enum prompt_result
prompt_line (const char *question, bool is_path, char **line)
{
    AUTO_STRBUF struct strbuf wrapped = { 0 };
    *line = NULL;
    if (prompt_can_draw ())
        question = begin_question (question, &wrapped);
#if defined HAVE_READLINE || defined HAVE_LIBEDIT
    if (prompt_can_draw ())
        return read_edited (question, is_path, line);
#endif
    (void) is_path;
    return read_plain (question, line);
}
