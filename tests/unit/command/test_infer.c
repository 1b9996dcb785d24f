/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate config default` takes for granted on machines with GPUs, which the machine of the tests may lack. */
#include <config.h>

#include "cli/config/infer.h"
#include "config/load.h"
#include "tests/tap.h"

#include <stdlib.h>

enum { MOST_WORDS = 8 };

static const struct {
    const char *flags;
    int gpus;
    const char *type;
    int processes;
    bool use_cpu;
} rows[] = {
    { "", 0, "NO", 1, true },
    { "", 1, "NO", 1, false },
    { "", 4, "MULTI_GPU", 4, false },
    { "--gpu_ids 0,2", 4, "MULTI_GPU", 2, false },
    { "--gpu_ids 1", 4, "NO", 1, false },
    { "--gpu_ids all", 4, "MULTI_GPU", 4, false },
    { "--use_cpu", 4, "NO", 1, true },
    { "--cpu", 4, "NO", 1, true },
    { "--use_fsdp --gpu_ids 0,2", 4, "FSDP", 2, false },
    { "--use_fsdp", 4, "FSDP", 4, false },
    { "--multi_gpu", 0, "MULTI_GPU", 2, false },
    { "--multi_gpu --gpu_ids 1,3", 8, "MULTI_GPU", 2, false },
    { "--num_processes 3", 8, "MULTI_GPU", 3, false },
    { "--distributed_type NO", 8, "NO", 1, false },
    { "--distributed_type MULTI_CPU", 8, "MULTI_CPU", 1, true },
    { "--num_machines 2 --main_process_ip h", 4, "MULTI_GPU", 8, false },
    { "--num_machines 2 --main_process_ip h --gpu_ids 0", 4, "MULTI_GPU", 2, false },
    { "--num_machines 2 --main_process_ip h --use_cpu", 4, "MULTI_CPU", 2, true },
};

int
main (void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config;
        struct fail fail = { 0 };
        char line[128], *words[MOST_WORDS + 1];
        int count = 0;
        snprintf (line, sizeof line, "%s", rows[i].flags);
        for (char *rest = line, *word; count < MOST_WORDS && (word = strtok_r (rest, " ", &rest));)
            words[count++] = word;
        bool done = !config_init (&config, &fail) && !config_load_flags (&config, COMMAND_CONFIG, count, words, &fail)
                    && !infer_mode (&config, rows[i].gpus, &fail) && !infer_distributed (&config, rows[i].gpus, &fail);
        const struct settings *got = &config.settings;
        if (!ok (done && !strcmp (got->distributed_type, rows[i].type) && got->num_processes == rows[i].processes
                     && got->use_cpu == rows[i].use_cpu,
                 "%d GPUs, flags '%s': %s", rows[i].gpus, rows[i].flags, rows[i].type))
            diag ("%s%s, %d processes, use_cpu %d", fail.text, got->distributed_type, (int) got->num_processes,
                  got->use_cpu);
        config_release (&config);
    }
    return done_testing ();
}
