/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of .gitignore: which paths they name, as git check-ignore says. */
#include <config.h>

#include "sagemaker/ignore.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *rules, *path;
    bool is_folder, is_ignored;
} cases[] = {
    { "*.log", "/w/a.log", false, true },
    { "*.log", "/w/s/a.log", false, true },
    { "*.log\n!a.log", "/w/a.log", false, false },
    { "!a.log\n*.log", "/w/a.log", false, true },
    { "*.log\n!keep.log", "/w/a.log", false, true },
    { "build/", "/w/build", true, true },
    { "build/", "/w/build", false, false },
    { "build/", "/w/s/build", true, true },
    { "/build", "/w/build", false, true },
    { "/build", "/w/s/build", false, false },
    { "s/build", "/w/s/build", false, true },
    { "s/build", "/w/t/s/build", false, false },
    { "**/build", "/w/t/s/build", false, true },
    { "s/**", "/w/s/t/u", false, true },
    { "s/**", "/w/s", true, false },
    { "s/**/u", "/w/s/u", false, true },
    { "s/**/u", "/w/s/t/t/u", false, true },
    { "s/**/u", "/w/s/t/v", false, false },
    { "s/*/u", "/w/s/t/u", false, true },
    { "s/*/u", "/w/s/t/t/u", false, false },
    { "# a", "/w/# a", false, false },
    { "\\# a", "/w/# a", false, true },
    { "\\!a", "/w/!a", false, true },
    { "a  ", "/w/a", false, true },
    { "a\\ ", "/w/a ", false, true },
    { "a\r", "/w/a", false, true },
    { "", "/w/a", false, false },
    { "[ab].c", "/w/b.c", false, true },
    { "[ab].c", "/w/c.c", false, false },
    { "a?c", "/w/abc", false, true },
    { "*", "/elsewhere/a", false, false },
};

int
main (void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ignore ignore = { 0 };
        char *rules = strdup (cases[i].rules);
        if (!rules || ignore_add (&ignore, "/w", rules))
            exit (99);
        ok (ignore_matches (&ignore, cases[i].path, cases[i].is_folder) == cases[i].is_ignored, "%s%s %s",
            cases[i].path, cases[i].is_folder ? "/" : "", cases[i].is_ignored ? "is ignored" : "is kept");
        ignore_truncate (&ignore, 0);
        free (rules);
    }
    return done_testing ();
}
