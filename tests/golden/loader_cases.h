/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of data.txt, which make_loader_goldens.py explains, and the cases that are picked for them. */
#ifndef TESTS_LOADER_CASES_H
#define TESTS_LOADER_CASES_H

#include "tests/golden/golden.h"
#include "tests/golden/picks.h"

#include <stdbool.h>

struct loader_line {
    char kind[16], order[16];
    size_t processes, cases;
    uint64_t failed; /* a bit for each case that the original cannot run */
};

/* One case; what its kind does not use is 0. */
struct loader_case {
    const char *order;
    size_t number, processes, samples, batch_size, epoch;
    bool split, drop_last, even, shuffle;
    uint64_t seed;
};

/* After it, the line has a checksum for each process. */
static inline struct loader_line
read_loader_line (struct golden *golden)
{
    struct loader_line line;
    snprintf (line.kind, sizeof line.kind, "%s", golden_word (golden));
    snprintf (line.order, sizeof line.order, "%s", golden_word (golden));
    line.processes = golden_number (golden);
    line.cases = golden_number (golden);
    line.failed = golden_bits_64 (golden);
    return line;
}

static inline bool
loader_case_failed (const struct loader_line *line, size_t number)
{
    return number < 64 && (line->failed >> number & 1);
}

static inline void
pick_split (struct loader_case *test, struct picks *picks, size_t most)
{
    test->batch_size = test->split ? test->processes * (1 + pick (picks, 3)) : 1 + pick (picks, most);
}

static inline void
pick_map_case (struct loader_case *test, struct picks *picks)
{
    static const uint64_t seeds[] = { 0, 1, 42, UINT64_C (1) << 31 };
    test->split = test->number & 1;
    test->drop_last = test->number >> 1 & 1;
    test->even = test->number >> 2 & 1;
    size_t most = pick (picks, 2) ? 60 : 12;
    test->samples = 1 + pick (picks, most);
    pick_split (test, picks, 7);
    test->seed = seeds[pick (picks, 4)];
}

static inline void
pick_stream_case (struct loader_case *test, struct picks *picks)
{
    size_t below = pick (picks, 2) ? 51 : 10;
    test->samples = pick (picks, below);
    test->split = pick (picks, 2);
    test->drop_last = pick (picks, 2);
    pick_split (test, picks, 6);
}

/* Not what the original fails at, or gives empty batches for. */
static inline void
pick_dispatch_case (struct loader_case *test, struct picks *picks)
{
    size_t rows;
    do {
        test->samples = 1 + pick (picks, 40);
        test->split = pick (picks, 2);
        test->drop_last = pick (picks, 2);
        pick_split (test, picks, 6);
        rows = test->batch_size * (test->split ? 1 : test->processes);
    } while ((test->drop_last && test->samples < rows) || 2 * test->samples < test->processes);
}

/* All small ones. */
static inline void
pick_shard_case (struct loader_case *test)
{
    test->samples = test->number % 40;
    test->batch_size = 1 + test->number / 40 % 7;
    test->drop_last = test->number / 280 & 1;
    test->even = test->number / 560 & 1;
}

static inline struct loader_case
pick_loader_case (const struct loader_line *line, size_t number)
{
    struct loader_case test = { .order = line->order, .processes = line->processes, .number = number };
    char name[80];
    snprintf (name, sizeof name, "%s %s %zu %zu", line->kind, line->order, line->processes, number);
    struct picks picks = picks_from (golden_text_checksum (0, name));
    if (!strcmp (line->kind, "map"))
        pick_map_case (&test, &picks);
    else if (!strcmp (line->kind, "shard"))
        pick_shard_case (&test);
    else if (!strcmp (line->kind, "stream"))
        pick_stream_case (&test, &picks);
    else if (!strcmp (line->kind, "dispatch"))
        pick_dispatch_case (&test, &picks);
    else if (!strcmp (line->kind, "varying")) {
        test.samples = number / 2;
        test.even = number & 1;
    } else { /* distributed */
        test.samples = 1 + number % 30;
        test.shuffle = number / 30 & 1;
        test.drop_last = number / 60 & 1;
        test.seed = 5 * (number / 120 & 1);
        test.epoch = number / 240;
    }
    return test;
}

/* As make_loader_goldens.py shows it, with the number of the process. */
static inline void
print_loader_case (FILE *report, const struct loader_case *test, size_t process, const char *text)
{
    fprintf (report, "# %zu %zu: %zu %zu %d %d %d %d %llu %zu: %s\n", process, test->number, test->samples,
             test->batch_size, test->split, test->drop_last, test->even, test->shuffle,
             (unsigned long long) test->seed, test->epoch, text);
}

#endif
