/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what nvml_list() says, one GPU a line, or its verdict; probe.sh gives it libraries of all kinds. */
#include <config.h>

#include "util/nvml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int
main (int argc, char **argv)
{
    static struct gpu gpus[2000]; /* all of them are more than a pipe holds */
    struct fail fail = { 0 };
    int most = argc > 1 ? (int) strtol (argv[1], NULL, 10) : 8;
    int count = nvml_list (gpus, most, &fail);
    if (count < 0) {
        printf ("%d: %s\n", fail.status, fail.text);
        return 0;
    }
    printf ("%d GPUs\n", count);
    for (int i = 0; i < count && i < most; i++)
        printf ("%d: %s, %" PRIu64 " MiB, %s, driver %s, CUDA %d\n", gpus[i].index, gpus[i].name,
                gpus[i].memory >> 20, gpus[i].uuid, gpus[i].driver, gpus[i].cuda_driver);
    return 0;
}
