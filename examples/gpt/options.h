/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the GPT example. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "gpt.h"

/** What it says; the table in options.c explains each. */
struct options {
    struct gpt_config config;
    const char *data, *eval_data, *model, *save, *project_dir, *prompt;
    int bos_token_id, eos_token_id, model_type, activation_function, tie_word_embeddings; /* 0: the only word */
    int scale_attn_weights, scale_attn_by_inverse_layer_idx;                              /* 0: the same */
    int format, length, batch_size, total_batch_size, tokens_per_step, steps, warmup_steps, shard, tp, recompute, seed;
    int evaluate_every, evaluation_batches, patience, save_every, sample, top_k;
    double lr, weight_decay, max_grad_norm, temperature, top_p, peak_tflops, layer_norm_epsilon;
    /* What follows from these. */
    enum accel_token_format token_format;
    enum accel_sharding sharding;
    int32_t *tokens; /* [token_count], of the prompt, or the one that texts begin after */
    int token_count;
};

/** A mistake ends the process with a sentence.  @{ */
struct options parse_options (int argc, char **argv);
void write_config (const struct options *options);
/** @} */

#endif
