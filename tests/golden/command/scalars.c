/* SPDX-License-Identifier: Apache-2.0 */
/* Words in YAML: what PyYAML makes of them (yaml_scalars.tsv), and how it writes texts (yaml_strings.tsv). */
#include <config.h>

#include "config/text/scalar.h"
#include "config/text/tree.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A cell with its escapes undone, in place. */
static char *
unescape (char *cell)
{
    char *to = cell;
    for (char *from = cell; *from; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from == 'r' ? '\r' : *from;
        } else
            *to++ = *from;
    }
    *to = '\0';
    return cell;
}

static const char *
kind_name (enum scalar_kind kind)
{
    static const char *const names[] = { "str", "null", "bool", "int", "float", "date" };
    return names[kind];
}

/* Bare words only: what begins with a quote, a bracket or the like is syntax, which libyaml reads. */
static void
test_scalar (char *text, const char *type, const char *value)
{
    AUTO_STRBUF struct strbuf python = { 0 };
    if (strchr ("\"'[{|>&*!%@`#", *text) || strstr (text, ": ") || strchr (text, '\n') || strstr (text, " #")
        || !strcmp (type, "error") || !strcmp (type, "map") || !strcmp (type, "list"))
        return;
    enum scalar_kind kind = scalar_read (text, &python);
    const char *wanted = !strcmp (type, "datetime") ? "date" : type;
    bool good = !strcmp (kind_name (kind), wanted);
    if (good && (kind == SCALAR_INT || kind == SCALAR_FLOAT || kind == SCALAR_BOOL))
        good = !(kind == SCALAR_BOOL ? strcasecmp : strcmp) (python.text, value);
    ok (good, "'%s' is %s %s", text, type, value);
    if (!good)
        diag ("it came out as %s %s", kind_name (kind), python.text ? python.text : "");
}

static void
test_string (const char *text, const char *written)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct node map = { .kind = NODE_MAP };
    if (strchr (written, '\n'))
        return; /* folded lines: ours stay whole, which reads the same */
    AUTO_STRBUF struct strbuf line = { 0 };
    strbuf_printf (&line, "k: %s\n", written);
    bool good = !node_set (node_add (&map, "k"), NODE_TEXT, text) && !node_write_lines (&map, &out);
    good = ok (good && !strcmp (out.text, line.text), "'%s' is written as PyYAML does", text);
    if (!good)
        diag ("%s, not %s", out.text ? out.text : "", line.text);
    node_release (&map);
}

static void
read_table (const char *name, bool scalars)
{
    const char *srcdir = getenv ("srcdir");
    char path[4096], *line = NULL;
    size_t size = 0;
    snprintf (path, sizeof path, "%s/tests/golden/command/%s", srcdir ? srcdir : ".", name);
    AUTO_FILE FILE *file = fopen (path, "r");
    if (!ok (file && getline (&line, &size, file) > 0, "%s", name))
        return;
    while (getline (&line, &size, file) > 0) {
        char *rest = line;
        line[strcspn (line, "\n")] = '\0';
        char *first = unescape (strsep (&rest, "\t")), *second = strsep (&rest, "\t");
        if (scalars && second)
            test_scalar (first, second, unescape (strsep (&rest, "\t")));
        else if (second)
            test_string (first, unescape (second));
    }
    free (line);
}

int
main (void)
{
    read_table ("yaml_scalars.tsv", true);
    read_table ("yaml_strings.tsv", false);
    return done_testing ();
}
