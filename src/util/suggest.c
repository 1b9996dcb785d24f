/* SPDX-License-Identifier: Apache-2.0 */
/* Nearest names by edit distance with transpositions (optimal string alignment); see suggest.h. */
#include <config.h>

#include "util/suggest.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 64 };

static char
fold (char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char) (c + 'a' - 'A') : c;
}

static unsigned
smaller (unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned
edit_distance (const char *a, const char *b)
{
    size_t rows = strlen (a), columns = strlen (b);
    if (rows > LONGEST || columns > LONGEST)
        return LONGEST;
    unsigned line[3][LONGEST + 1];
    for (size_t j = 0; j <= columns; j++)
        line[0][j] = (unsigned) j;
    for (size_t i = 1; i <= rows; i++) {
        unsigned *now = line[i % 3], *above = line[(i + 2) % 3], *two_above = line[(i + 1) % 3];
        now[0] = (unsigned) i;
        for (size_t j = 1; j <= columns; j++) {
            char ca = fold (a[i - 1]), cb = fold (b[j - 1]);
            now[j] = smaller (smaller (above[j] + 1, now[j - 1] + 1), above[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == fold (b[j - 2]) && fold (a[i - 2]) == cb)
                now[j] = smaller (now[j], two_above[j - 2] + 1);
        }
    }
    return line[rows % 3][columns];
}

void
suggest_consider (struct suggest *suggest, const char *name)
{
    /* A third of the letters may be wrong: enough for typing errors, too little for unrelated words. */
    size_t length = strlen (name), wanted = strlen (suggest->wanted), most = 1 + length / 4;
    if ((length > wanted ? length - wanted : wanted - length) > most) /* so is the distance at least */
        return;
    unsigned distance = edit_distance (suggest->wanted, name);
    if (distance > most || distance >= length)
        return;
    if (!suggest->best || distance < suggest->distance) {
        suggest->best = name;
        suggest->distance = distance;
    }
}

const char *
suggest_text (const struct suggest *suggest, const char *prefix, char *space, size_t size)
{
    if (!suggest->best || !size)
        return "";
    snprintf (space, size, " (did you mean '%s%s'?)", prefix, suggest->best);
    return space;
}
