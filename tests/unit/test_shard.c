/* SPDX-License-Identifier: Apache-2.0 */
/* The shards against the batches that the original's prepared loader gave to each process. */
#include <config.h>

#include "lib/data/shard.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"

/* As make_goldens.py writes them: "0,1|4,5", "-" for none. */
static void
print_share (const struct shard *shard, char *text, size_t size)
{
    size_t at = 0, length = shard_length (shard);
    snprintf (text, size, "-");
    for (size_t batch = 0; batch < length; batch++)
        for (size_t i = 0; i < shard_batch_size (shard, batch) && at + 24 < size; i++)
            at += (size_t) snprintf (text + at, size - at, "%s%zu", i ? "," : batch ? "|" : "",
                                     shard_position (shard, batch, i));
}

static void
test_case (struct golden *golden)
{
    struct shard shard = { .samples = golden_number (golden) };
    shard.batch_size = golden_number (golden);
    shard.processes = golden_number (golden);
    shard.drop_last = golden_number (golden);
    shard.even = golden_number (golden);
    /* The original's -1 is "unknown, cut nothing"; so is our 0. */
    long remainder = strtol (golden_word (golden), NULL, 10);
    bool good = shard_remainder (&shard) == (size_t) (remainder < 0 ? 0 : remainder);
    char name[128];
    snprintf (name, sizeof name, "%zu samples in batches of %zu, %zu processes%s%s", shard.samples, shard.batch_size,
              shard.processes, shard.drop_last ? ", drop_last" : "", shard.even ? ", even" : "");
    if (!good)
        diag ("remainder is %zu, wanted %ld", shard_remainder (&shard), remainder);
    for (; shard.process < shard.processes; shard.process++) {
        const char *wanted = golden_word (golden);
        char got[1024];
        print_share (&shard, got, sizeof got);
        if (strcmp (got, wanted)) {
            diag ("process %zu has %s, wanted %s", shard.process, got, wanted);
            good = false;
        }
    }
    ok (good, "%s", name);
}

int
main (void)
{
    struct golden golden;
    golden_find (&golden, "shard.txt");
    while (golden_next (&golden))
        test_case (&golden);
    return done_testing ();
}
