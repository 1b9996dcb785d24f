/* SPDX-License-Identifier: Apache-2.0 */
/* For llmc.sh: the batches of llm.c's DataLoader, as it is (-DBEFORE) or as the edits have it, on the processor.
 * usage: tokens write FILE COUNT SEED      a token file
 *        tokens PATTERN SHUFFLE [RANK PROCESSES]      prints the batches of some epochs; with -DBEFORE, of any rank */
#include "llmc/dataloader.h"

#include <vector>

enum { B = 2, T = 8, BATCHES = 70, RESET_AFTER = 5, AFTER_RESET = 20 };

static int
write_file (const char *path, int count, unsigned seed)
{
    std::vector<int> header (HEADER_SIZE);
    std::vector<uint16_t> tokens (count);
    header[0] = 20240520;
    header[1] = 1;
    header[2] = count;
    for (uint16_t &token : tokens)
        token = uint16_t ((seed = seed * 1664525U + 1013904223U) >> 16);
    FILE *file = fopenCheck (path, "wb");
    fwriteCheck (header.data (), sizeof (int), HEADER_SIZE, file);
    fwriteCheck (tokens.data (), sizeof (uint16_t), tokens.size (), file);
    fcloseCheck (file);
    return 0;
}

static void
print_batches (DataLoader *loader, int count)
{
    for (int batch = 0; batch < count; batch++) {
        dataloader_next_batch (loader);
        for (int i = 0; i < B * T; i++)
            printf ("%d:%d%c", loader->inputs[i], loader->targets[i], i + 1 < B * T ? ' ' : '\n');
    }
}

int
main (int argc, char **argv)
{
    if (argc == 5 && !strcmp (argv[1], "write"))
        return write_file (argv[2], atoi (argv[3]), unsigned (atoi (argv[4])));
    if (argc < 3)
        return 2;
    DataLoader loader;
    int shuffle = atoi (argv[2]);
#ifdef BEFORE
    dataloader_init (&loader, argv[1], B, T, atoi (argv[3]), atoi (argv[4]), shuffle);
#else
    accel *job;
    accelCheck (accel_open (&job, NULL, &accel_err));
    dataloader_init (&loader, job, argv[1], B, T, shuffle);
#endif
    print_batches (&loader, BATCHES);
    if (!shuffle) { /* as after each validation, and in each step on a single batch */
        dataloader_reset (&loader);
        print_batches (&loader, RESET_AFTER);
        dataloader_reset (&loader);
        print_batches (&loader, AFTER_RESET);
    }
    dataloader_free (&loader);
#ifndef BEFORE
    accel_close (job);
#endif
    return 0;
}
