/* SPDX-License-Identifier: Apache-2.0 */
/* Words of keys; see groups.h. */
#include <config.h>

#include "report/groups.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *const group_titles[GROUP_COUNT] = {
    [GROUP_LOSS] = "Loss", [GROUP_RATE] = "Learning rate",    [GROUP_THROUGHPUT] = "Throughput",
    [GROUP_TIME] = "Time", [GROUP_SCALE] = "Scaling of loss", [GROUP_GRADIENT] = "Gradients",
    [GROUP_MEMORY] = "Memory", [GROUP_OTHER] = "Other values",
};

/* The first row that fits counts.  A short word must be a whole one: "lr" is not in "alright". */
static const struct {
    const char *word;
    bool is_whole;
    enum group group;
} words[] = {
    { "loss_scale", false, GROUP_SCALE },    { "grad_scale", false, GROUP_SCALE },
    { "scaler", false, GROUP_SCALE },        { "scale", true, GROUP_SCALE },
    { "per_second", false, GROUP_THROUGHPUT }, { "per_sec", false, GROUP_THROUGHPUT },
    { "throughput", false, GROUP_THROUGHPUT }, { "mfu", true, GROUP_THROUGHPUT },
    { "tflops", false, GROUP_THROUGHPUT },   { "time", true, GROUP_TIME },
    { "learning_rate", false, GROUP_RATE },  { "lr", true, GROUP_RATE },
    { "grad", false, GROUP_GRADIENT },       { "memory", false, GROUP_MEMORY },
    { "mem", true, GROUP_MEMORY },           { "rss", true, GROUP_MEMORY },
    { "vram", true, GROUP_MEMORY },          { "loss", false, GROUP_LOSS },
    { "perplexity", false, GROUP_LOSS },     { "ppl", true, GROUP_LOSS },
};

static bool
has_word (const char *key, const char *word, bool is_whole)
{
    size_t length = strlen (word);
    for (const char *at = key; (at = strcasestr (at, word)); at++)
        if (!is_whole || ((at == key || !isalpha ((unsigned char) at[-1])) && !isalpha ((unsigned char) at[length])))
            return true;
    return false;
}

enum group
group_of (const char *key)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word (key, words[i].word, words[i].is_whole))
            return words[i].group;
    return GROUP_OTHER;
}
