/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the GPT example, and config.json as `transformers` reads and writes it. */
#include "options.h"

#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(field, value, help) { #field, ACCEL_ARGUMENT_TEXT, false, AT (field), value, help, 0, 0, NULL }
#define WORD(field, words, help) { #field, ACCEL_ARGUMENT_WORD, false, AT (field), NULL, help, 0, 0, words }
#define COUNT(field, value, min, max, help) \
    { #field, ACCEL_ARGUMENT_INT, false, AT (field), value, help, min, max, NULL }
#define NUMBER(field, value, max, help) { #field, ACCEL_ARGUMENT_DOUBLE, false, AT (field), value, help, 0, max, NULL }
#define MODEL(field, value, max, help) \
    { #field, ACCEL_ARGUMENT_INT, true, AT (config.field), value, help, 1, max, NULL }
#define AT(field) offsetof (struct options, field)
static const struct accel_argument rows[] = {
    WORD (bos_token_id, "null", "only written to config.json, like the next one"),
    WORD (eos_token_id, "null", ""),
    WORD (model_type, "gpt2", "only in config.json, like the next ones: what is computed"),
    WORD (activation_function, "gelu_new", ""),
    WORD (tie_word_embeddings, "true", ""),
    WORD (scale_attn_weights, "true", ""),
    WORD (scale_attn_by_inverse_layer_idx, "false", ""),
    { "layer_norm_epsilon", ACCEL_ARGUMENT_DOUBLE, false, AT (layer_norm_epsilon), "1e-5", "", 1e-5, 1e-5, NULL },
    MODEL (vocab_size, "256", 1e7, "tokens"),
    MODEL (n_positions, "256", 1e6, "longest sequence"),
    MODEL (n_embd, "128", 1e5, "width"),
    MODEL (n_layer, "4", 1000, "blocks"),
    MODEL (n_head, "4", 1000, "heads of attention"),
    TEXT (data, EXAMPLE_DATA "/shakespeare.txt", "a text, or tokens; many: 'train_*.bin'"),
    TEXT (eval_data, NULL, "the same to evaluate with; none: the last tenth of --data"),
    WORD (format, "bytes uint16 uint32 llmc", "of both; uint16 is nanoGPT's"),
    TEXT (model, NULL, "folder with config.json and model.safetensors to begin with"),
    TEXT (save, NULL, "folder for the model at the end"),
    TEXT (project_dir, "gpt", "folder for checkpoints and logs; a run continues from it"),
    COUNT (length, "128", 1, 1e6, "tokens of a training sequence"),
    COUNT (batch_size, "4", 1, 2000, "sequences per pass and process"),
    COUNT (total_batch_size, "16", 1, 1e6, "sequences per step"),
    COUNT (tokens_per_step, "0", 0, 2e9, "tokens per step, in place of total_batch_size"),
    COUNT (steps, "1000", 0, 1e9, "steps in all"),
    COUNT (warmup_steps, "100", 0, 1e9, "steps until the full rate"),
    NUMBER (lr, "1e-3", 100, "learning rate"),
    NUMBER (weight_decay, "0.1", 100, "of matrices"),
    NUMBER (max_grad_norm, "1", 1e9, "larger gradients are clipped"),
    COUNT (shard, "0", 0, 3, "stage of ZeRO; 0: what accelerate launch was asked for"),
    COUNT (tp, "0", 0, 1000, "processes that divide layers; 0: what accelerate launch was asked for"),
    COUNT (recompute, "0", 0, 1, "1: layers keep only their input; 0: what accelerate launch was asked for"),
    COUNT (seed, "1", 0, INT_MAX, "of weights, data and samples"),
    COUNT (evaluate_every, "100", 1, 1e9, "steps"),
    COUNT (evaluation_batches, "16", 1, 1e9, "of each process"),
    COUNT (patience, "0", 0, 1e9, "evaluations without a better loss until the end; 0: any"),
    COUNT (save_every, "100", 1, 1e9, "steps"),
    NUMBER (peak_tflops, "0", 1e6, "of a process's processors, for MFU; 0: not known"),
    COUNT (sample, "200", 0, 1e9, "tokens to write at the end"),
    TEXT (prompt, "", "what they continue: a text; numbers, unless tokens are bytes"),
    NUMBER (temperature, "0.8", 100, "0: always the most likely token"),
    COUNT (top_k, "40", 0, 1e9, "only so many likely tokens; 0: all"),
    NUMBER (top_p, "0.95", 1, "only so much probability; 0: all"),
};
enum { ROWS = sizeof rows / sizeof *rows, WRITTEN = 2, FILE_ONLY = 8, MODEL_ROWS = 13 };

static void
check (struct options *o)
{
    const struct gpt_config *c = &o->config;
    double width = c->n_embd, block = (12 * width + 13) * width;
    double parameters = (c->vocab_size + c->n_positions + 2) * width + c->n_layer * block;
    double memory = (double) sysconf (_SC_PHYS_PAGES) * (double) sysconf (_SC_PAGESIZE);
    if (c->n_embd % c->n_head)
        errx (1, "n_embd: %d is not a multiple of n_head %d", c->n_embd, c->n_head);
    if (16 * parameters > memory) /* with gradients and the states of AdamW */
        errx (1, "%.3g parameters need %.0f GiB, but there are %.0f", parameters, 16 * parameters / (1 << 30),
              memory / (1 << 30));
    if (o->length > c->n_positions)
        errx (1, "--length: %d is longer than the model's n_positions %d", o->length, c->n_positions);
    if (o->tokens_per_step % o->length)
        errx (1, "--tokens_per_step: %d is not a multiple of --length %d", o->tokens_per_step, o->length);
    if (o->tokens_per_step)
        o->total_batch_size = o->tokens_per_step / o->length;
}

/* Without a prompt, texts follow a line's end, or the last token, which ends GPT-2's texts. */
static void
read_prompt (struct options *o)
{
    bool is_text = o->format == 0;
    char *next = (char *) o->prompt, *end;
    o->tokens = calloc (strlen (next) + 1, sizeof *o->tokens);
    if (!o->tokens)
        errx (1, "out of memory");
    while (*next) {
        long token = is_text ? (unsigned char) *next : strtol (next, &end, 10);
        if (!is_text && end == next)
            errx (1, "--prompt: expected numbers of tokens, got '%s'", next);
        if (token < 0 || token >= o->config.vocab_size)
            errx (1, "--prompt: token %ld, but the model has %d", token, o->config.vocab_size);
        next = is_text ? next + 1 : end + strspn (end, " ");
        o->tokens[o->token_count++] = (int32_t) token;
    }
    if (!o->token_count)
        o->tokens[o->token_count++] = is_text && o->config.vocab_size > '\n' ? '\n' : o->config.vocab_size - 1;
}

struct options
parse_options (int argc, char **argv)
{
    static const enum accel_token_format formats[]
        = { ACCEL_TOKENS_UINT8, ACCEL_TOKENS_UINT16, ACCEL_TOKENS_UINT32, ACCEL_TOKENS_LLMC };
    struct options options = { .layer_norm_epsilon = 1e-5 }; /* what is written if no file is read */
    struct accel_error error;
    char *help, path[PATH_MAX];
    accel_check (accel_arguments_parse (&help, &options, rows + FILE_ONLY, ROWS - FILE_ONLY, argc, argv, &error),
                 &error);
    if (help) {
        fputs (help, stdout);
        exit (EXIT_SUCCESS);
    }
    snprintf (path, sizeof path, "%s/config.json", options.model ? options.model : "");
    if (options.model)
        accel_check (accel_arguments_read_json (&options, rows + WRITTEN, MODEL_ROWS - WRITTEN, path, &error), &error);
    check (&options);
    options.token_format = formats[options.format];
    options.sharding = (enum accel_sharding) (options.shard ? ACCEL_SHARDING_NONE + options.shard : 0);
    read_prompt (&options);
    return options;
}

/* What transformers has to know besides the tensors. */
void
write_config (const struct options *options)
{
    struct accel_error error;
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s/config.json", options->save);
    accel_check (accel_arguments_write_json (options, rows, MODEL_ROWS, path, &error), &error);
}
