/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPT example was asked on its command line. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "gpt.h"

struct options {
    struct gpt_config config;
    const char *data, *format; /* of the data: "bytes", "uint16", "uint32" or "llmc" */
    const char *model;         /* a folder to begin with; NULL: random weights */
    const char *project_dir, *save, *prompt;
    int length, batch_size, total_batch_size, steps, warmup_steps, seed, evaluate_every, evaluation_batches, patience;
    int save_every, sample, top_k;
    double lr, weight_decay, max_grad_norm, temperature, top_p;
};

/** Ends the process with a sentence if @p argv is not understood. */
struct options parse_options (int argc, char **argv);

void die (const char *format, ...) __attribute__ ((format (printf, 1, 2), noreturn));

#endif
