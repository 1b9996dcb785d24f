/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate top` declares of ncurses is what its header declares, which the compiler compares; a machine without
 * the library; a library of another kind. */
#include <config.h>

#include "cli/watch/ncurses.h"
#include "cli/watch/screen.h"
#include "tests/tap.h"

#include <dlfcn.h>

#if __has_include (<curses.h>)
#define NCURSES_NOMACROS
#include <curses.h>

#define X(result, name, parameters)                                                     \
    _Static_assert (__builtin_types_compatible_p (__typeof__ (name), result parameters), \
                    #name " is declared in another way by curses.h");
NCURSES_FUNCTION_MAP (X)
#undef X
_Static_assert (NCURSES_ERR == ERR, "ERR");
_Static_assert (NCURSES_REVERSE == (int) A_REVERSE && NCURSES_DIM == (int) A_DIM && NCURSES_BOLD == (int) A_BOLD,
                "attributes");
_Static_assert (NCURSES_KEY_DOWN == KEY_DOWN && NCURSES_KEY_UP == KEY_UP && NCURSES_KEY_NPAGE == KEY_NPAGE
                    && NCURSES_KEY_PPAGE == KEY_PPAGE && NCURSES_KEY_ENTER == KEY_ENTER,
                "keys");
#endif

static const char *instead; /* the library that is opened; NULL: there is none */

void *__real_dlopen (const char *name, int flags);
void *__wrap_dlopen (const char *name, int flags);

void *
__wrap_dlopen (const char *name, int flags)
{
    (void) name;
    return instead ? __real_dlopen (instead, flags) : NULL;
}

int
main (void)
{
    static const struct {
        const char *library, *reason, *name;
    } cases[] = {
        { NULL, "install libncursesw6", "no library" },
        { "libc.so.6", "libncursesw.so.6 has no newterm()", "a library of another kind" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct view view = { 0 };
        struct fail fail = { 0 };
        instead = cases[i].library;
        ok (screen_open (&view, &fail) && strstr (fail.text, cases[i].reason), "%s: %s", cases[i].name, fail.text);
        screen_close ();
    }
    return done_testing ();
}
