/* SPDX-License-Identifier: Apache-2.0 */
/* How fast are the products of a GPT, without the rest?  Those of examples/gpt/matmul.c, with the shapes of one step.
 *
 *   bench_products VOCAB LAYERS WIDTH ROWS no|bf16
 *
 * Prints GFLOP/s, the median of some steps, then the type of the products and who computes them. */
#include "../../examples/gpt/matmul.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 5, LOGIT_ROWS = 256 };

static double
now (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

static int
compare (const void *a, const void *b)
{
    return (*(const double *) a > *(const double *) b) - (*(const double *) a < *(const double *) b);
}

/* Forward, and both products of the way back; no factor has to be converted.  @return operations */
static double
layer (void **memory, long rows, long in, long out)
{
    struct matrix x = weights (memory[0], rows, in), weight = weights (memory[1], in, out);
    struct matrix grad = weights (memory[2], rows, out);
#pragma omp parallel
    {
        matmul (memory[3], x, weight, 0);
        matmul (memory[3], grad, transposed (weight), 0);
        matmul (memory[3], transposed (x), grad, 1);
    }
    return 6.0 * (double) rows * (double) in * (double) out;
}

int
main (int argc, char **argv)
{
    if (argc != 6)
        errx (EXIT_FAILURE, "usage: bench_products VOCAB LAYERS WIDTH ROWS no|bf16");
    int vocab = atoi (argv[1]), layers = atoi (argv[2]), width = atoi (argv[3]), rows = atoi (argv[4]);
    const char *name = matmul_set_dtype (strcmp (argv[5], "bf16") ? ACCEL_FLOAT32 : ACCEL_BFLOAT16);
    size_t columns = (size_t) (4 * width > LOGIT_ROWS ? 4 * width : LOGIT_ROWS);
    size_t largest = columns * (size_t) (vocab > rows ? vocab : rows);
    double speeds[STEPS];
    void *memory[4];
    for (int i = 0; i < 4; i++)
        if (!(memory[i] = calloc (largest, sizeof (float))))
            errx (EXIT_FAILURE, "out of memory");
    for (int step = -1; step < STEPS; step++) {
        double begin = now (), operations = 0;
        for (int i = 0; i < layers; i++)
            operations += layer (memory, rows, width, 3 * width) + layer (memory, rows, width, width)
                          + layer (memory, rows, width, 4 * width) + layer (memory, rows, 4 * width, width);
        for (int i = 0; i < rows; i += LOGIT_ROWS)
            operations += layer (memory, rows < LOGIT_ROWS ? rows : LOGIT_ROWS, width, vocab);
        if (step >= 0)
            speeds[step] = operations / (now () - begin) * 1e-9;
    }
    qsort (speeds, STEPS, sizeof *speeds, compare);
    printf ("%.0f %s\n", speeds[STEPS / 2], name);
    for (int i = 0; i < 4; i++)
        free (memory[i]);
    return 0;
}
