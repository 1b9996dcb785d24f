/* SPDX-License-Identifier: Apache-2.0 */
/* What operations cost on the clocks of streams and threads: STANDIN_COSTS, words NAME=VALUE with blanks between them.
 * It is read anew for each operation, so that a test can change it when all streams are idle. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__ ((visibility ("default")))

static const char *const names[COST_COUNT] = {
    [COST_LAUNCH] = "launch", [COST_KERNEL] = "kernel", [COST_MEMORY] = "memory",         [COST_COPY] = "copy",
    [COST_HOST] = "host",     [COST_PEER] = "peer",     [COST_COLLECTIVE] = "collective", [COST_NETWORK] = "network",
};

struct word {
    char name[16], kernel[64]; /* kernel: "" is any */
    long long value;
};

/* @return what follows the word; NULL: there was none */
static const char *
read_word (const char *at, struct word *word)
{
    int length = 0;
    word->kernel[0] = '\0';
    at += strspn (at, " ");
    if (!*at)
        return NULL;
    if (sscanf (at, "%15[a-z]=%lld%n", word->name, &word->value, &length) < 2)
        sscanf (at, "%15[a-z]:%63[^= ]=%lld%n", word->name, word->kernel, &word->value, &length);
    if (!length || word->value < 0 || (at[length] && at[length] != ' '))
        report (NULL, NULL, "STANDIN_COSTS: expected NAME=VALUE or kernel:PART=VALUE, got '%s'", at);
    for (int i = 0; i < COST_COUNT; i++)
        if (!strcmp (word->name, names[i]) && (i == COST_KERNEL || !word->kernel[0]))
            return at + length;
    report (NULL, NULL, "STANDIN_COSTS: there is no '%.*s'", length, at);
}

/* The last word that fits counts. */
static int64_t
find (enum cost cost, const char *kernel)
{
    const char *at = getenv ("STANDIN_COSTS");
    struct word word;
    int64_t found = 0;
    while (at && (at = read_word (at, &word)))
        if (!strcmp (word.name, names[cost]) && (!word.kernel[0] || (kernel && strstr (kernel, word.kernel))))
            found = word.value;
    return found;
}

/* @param rate  0: bytes take no time */
static int64_t
sum (enum cost fixed, enum cost rate, size_t bytes, const char *kernel)
{
    int64_t each = find (rate, NULL);
    return find (fixed, kernel) + (each ? (int64_t) bytes / each : 0);
}

API void
standin_launch (void)
{
    host_ns += find (COST_LAUNCH, NULL);
}

API int64_t
standin_kernel_ns (const char *kernel, size_t bytes)
{
    return sum (COST_KERNEL, COST_MEMORY, bytes, kernel);
}

API int64_t
standin_collective_ns (size_t bytes)
{
    return sum (COST_COLLECTIVE, COST_NETWORK, bytes, NULL);
}

int64_t
copy_ns (enum cost rate, size_t bytes)
{
    return sum (COST_COPY, rate, bytes, NULL);
}
