/* SPDX-License-Identifier: Apache-2.0 */
/* The logits of a model of examples/gpt after each of some tokens: for gpt.sh, which compares them with transformers'.
 *
 *   gpt_logits --model FOLDER --format uint16 --prompt "TOKEN ..." */
#include "examples/gpt/options.h"

#include <stdio.h>
#include <stdlib.h>

int
main (int argc, char **argv)
{
    struct accel_error err;
    struct accel *acc;
    static struct gpt gpt;
    struct options options = parse_options (argc, argv);
    accel_check (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err), &err);
    gpt_create (&gpt, &options.config, acc, accel_default_generator ());
    accel_check (accel_load_model (acc, gpt.model, options.model, NULL, NULL, &err), &err);
    for (int token = 0; token < options.token_count; token++) {
        const float *logits = gpt_next (&gpt, options.tokens[token]);
        for (int i = 0; i < options.config.vocab_size; i++)
            printf ("%.6f%c", (double) logits[i], i + 1 < options.config.vocab_size ? ' ' : '\n');
    }
    accel_close (acc);
    free (options.tokens);
    return 0;
}
