/* SPDX-License-Identifier: Apache-2.0 */
/* Printing texts, lines and notes; see print.h. */
#include <config.h>

#include "cli/print.h"
#include "util/printable.h"

int
print_text (const struct strbuf *text, struct fail *fail)
{
    if (text->failed)
        return fail_nomem (fail);
    fputs (text->text ? text->text : "", stdout);
    return 0;
}

static void
put_line (FILE *file, const char *before, const char *name, const char *after)
{
    fputs (before, file);
    printable_put (file, name);
    fprintf (file, "%s\n", after);
}

void
print_line (const char *before, const char *name, const char *after)
{
    put_line (stdout, before, name, after);
    fflush (stdout);
}

void
print_note (const char *before, const char *name, const char *after)
{
    fputs ("accelerate: note: ", stderr);
    put_line (stderr, before, name, after);
}
