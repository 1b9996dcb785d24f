/* SPDX-License-Identifier: Apache-2.0 */
/* A menu at a terminal; see menu.h.  Drawn with the few escapes that every terminal of today knows. */
#include <config.h>

#include "cli/menu.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    KEY_UP = 0x100,
    KEY_DOWN,
    KEY_LEFT,
    KEY_FIRST,
    KEY_LAST,
    KEY_NONE,
    ESCAPE_MS = 50, /* the rest of a key's escape comes at once; a lone Esc has none */
};

struct menu {
    const char *const *labels;
    const int *numbers;
    size_t count, chosen;
    size_t top, rows;  /* the part that is shown, if not all fits */
    size_t drawn;      /* lines on the screen below the question */
    int columns;
    int digits;        /* number typed so far, -1: none */
    struct termios before;
};

bool
menu_is_number (const char *label)
{
    return *label && strspn (label, "0123456789") == strlen (label);
}

static void
measure (struct menu *menu)
{
    struct winsize size = { 0 };
    ioctl (STDOUT_FILENO, TIOCGWINSZ, &size);
    size_t lines = size.ws_row > 5 ? size.ws_row - 4U : 20; /* less the question and the hint */
    menu->columns = prompt_columns ();
    menu->rows = menu->count < lines ? menu->count : lines;
}

static void
erase (struct menu *menu)
{
    if (menu->drawn)
        printf ("\033[%zuA", menu->drawn);
    fputs ("\r\033[J", stdout);
    menu->drawn = 0;
}

/* The longest hint that fits into a line. */
static const char *
find_hint (int columns)
{
    static const char *const hints[] = {
        "Up and Down or a number: move, Enter: choose, <: back, ?: help",
        "Arrows, Enter, <: back, ?: help",
        "Enter, <, ?",
    };
    size_t i = 0;
    while (i + 1 < sizeof hints / sizeof *hints && (int) strlen (hints[i]) > columns)
        i++;
    return hints[i];
}

/* A line that wraps would spoil the count of lines. */
static void
draw (struct menu *menu)
{
    erase (menu);
    if (menu->chosen < menu->top)
        menu->top = menu->chosen;
    if (menu->chosen >= menu->top + menu->rows)
        menu->top = menu->chosen - menu->rows + 1;
    for (size_t i = menu->top; i < menu->top + menu->rows && i < menu->count; i++) {
        bool is_chosen = i == menu->chosen;
        printf ("%s%3d  %.*s%s\n", is_chosen ? "\033[7m>" : " ", menu->numbers[i], menu->columns - 8,
                menu_is_number (menu->labels[i]) ? "" : menu->labels[i], is_chosen ? "\033[0m" : "");
        menu->drawn++;
    }
    /* Without a newline at its end, it does not count as a line. */
    printf ("\033[2m%.*s\033[0m", menu->columns - 1, find_hint (menu->columns - 1));
    fflush (stdout);
}

/* Signals stay on, the line editor goes off. */
static void
enter_raw (struct menu *menu)
{
    tcgetattr (STDIN_FILENO, &menu->before);
    struct termios raw = menu->before;
    raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr (STDIN_FILENO, TCSADRAIN, &raw);
    fputs ("\033[?25l", stdout);
}

static void
leave_raw (struct menu *menu)
{
    fputs ("\033[?25h", stdout);
    fflush (stdout);
    tcsetattr (STDIN_FILENO, TCSADRAIN, &menu->before);
}

/* ESC [ A and ESC O A are both the arrow up, and so on. */
static int
read_key (void)
{
    static const struct {
        int last, key;
    } keys[] = { { 'A', KEY_UP }, { 'B', KEY_DOWN }, { 'D', KEY_LEFT }, { 'H', KEY_FIRST }, { 'F', KEY_LAST } };
    int key = prompt_key (-1);
    if (key != 033)
        return key;
    key = prompt_key (ESCAPE_MS);
    if (key != '[' && key != 'O')
        return key == PROMPT_KEY_TIMEOUT || key >= 0 ? KEY_NONE : key;
    do
        key = prompt_key (ESCAPE_MS);
    while (key >= 0 && (isdigit (key) || key == ';'));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].last == key)
            return keys[i].key;
    return key == PROMPT_KEY_TIMEOUT || key >= 0 ? KEY_NONE : key;
}

/* Two digits that come one after the other are a number of two digits, if the menu has it. */
static void
take_digit (struct menu *menu, int digit)
{
    int wanted[2] = { menu->digits >= 0 ? menu->digits * 10 + digit : digit, digit };
    menu->digits = -1;
    for (int j = 0; j < 2 && menu->digits < 0; j++)
        for (size_t i = 0; i < menu->count; i++)
            if (menu->numbers[i] == wanted[j]) {
                menu->chosen = i;
                menu->digits = wanted[j];
            }
}

static void
move (struct menu *menu, int key)
{
    if (key >= '0' && key <= '9') {
        take_digit (menu, key - '0');
        return;
    }
    menu->digits = -1;
    if ((key == KEY_UP || key == 'k') && menu->chosen)
        menu->chosen--;
    else if ((key == KEY_DOWN || key == 'j') && menu->chosen + 1 < menu->count)
        menu->chosen++;
    else if (key == KEY_FIRST)
        menu->chosen = 0;
    else if (key == KEY_LAST)
        menu->chosen = menu->count - 1;
}

/* Signals that do not end the menu.  @return whether the key was one */
static bool
handle_signal (struct menu *menu, int key)
{
    if (key != PROMPT_KEY_RESIZE && key != PROMPT_KEY_STOP && key != PROMPT_KEY_KILLED)
        return false;
    if (key != PROMPT_KEY_RESIZE) {
        leave_raw (menu);
        key == PROMPT_KEY_STOP ? prompt_stop () : prompt_die ();
        enter_raw (menu);
        menu->drawn = 0; /* the shell has written below */
    }
    measure (menu);
    return true;
}

static enum prompt_result
choose (struct menu *menu)
{
    for (;;) {
        draw (menu);
        int key = read_key ();
        if (handle_signal (menu, key))
            continue;
        switch (key) {
        case '\r':
        case '\n':
            return PROMPT_ANSWER;
        case '<':
        case KEY_LEFT:
        case 'B' & 0x1f:
        case '\b':
        case 0177:
            return PROMPT_BACK;
        case '?':
            return PROMPT_HELP;
        case PROMPT_KEY_INTERRUPT:
            return PROMPT_INTERRUPT;
        case PROMPT_KEY_END:
        case 'D' & 0x1f:
            return PROMPT_END;
        default:
            move (menu, key);
        }
    }
}

enum prompt_result
menu_choose (const char *question, const char *const *labels, const int *numbers, size_t count, size_t *chosen)
{
    struct menu menu = { .labels = labels, .numbers = numbers, .count = count, .chosen = *chosen, .digits = -1 };
    measure (&menu);
    prompt_say (question);
    enter_raw (&menu);
    enum prompt_result result = choose (&menu);
    erase (&menu);
    leave_raw (&menu);
    if (result == PROMPT_ANSWER)
        printf ("  %s\n", labels[menu.chosen]);
    fflush (stdout);
    *chosen = menu.chosen;
    return result;
}
