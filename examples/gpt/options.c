/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the GPT example, and config.json as `transformers` reads and writes it. */
#include "gpt.h"

#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { TEXT, COUNT, NUMBER, MODEL /* a count of config.json */ };

#define AT(field) offsetof (struct options, field)
static const struct row {
    const char *name;
    enum kind kind;
    size_t at;
    const char *value; /* by default */
    double min, max;
    const char *help;
} rows[] = {
    { "data", TEXT, AT (data), EXAMPLE_DATA "/shakespeare.txt", 0, 0, "a text, or tokens; many: 'train_*.bin'" },
    { "eval_data", TEXT, AT (eval_data), NULL, 0, 0, "the same to evaluate with; none: the last tenth of --data" },
    { "format", TEXT, AT (format), "bytes", 0, 0, "of both: bytes, uint16 (nanoGPT), uint32 or llmc" },
    { "model", TEXT, AT (model), NULL, 0, 0, "folder with config.json and model.safetensors to begin with" },
    { "save", TEXT, AT (save), NULL, 0, 0, "folder for the model at the end" },
    { "project_dir", TEXT, AT (project_dir), "gpt", 0, 0, "folder for checkpoints and logs; a run continues from it" },
    { "vocab_size", MODEL, AT (config.vocab_size), "256", 2, 1e7, "tokens" },
    { "n_positions", MODEL, AT (config.n_positions), "256", 1, 1e6, "longest sequence" },
    { "n_embd", MODEL, AT (config.n_embd), "128", 1, 1e5, "width" },
    { "n_layer", MODEL, AT (config.n_layer), "4", 1, 1000, "blocks" },
    { "n_head", MODEL, AT (config.n_head), "4", 1, 1000, "heads of attention" },
    { "length", COUNT, AT (length), "128", 1, 1e6, "tokens of a training sequence" },
    { "batch_size", COUNT, AT (batch_size), "4", 1, 1e6, "sequences per pass and process" },
    { "total_batch_size", COUNT, AT (total_batch_size), "16", 1, 1e6, "sequences per step" },
    { "tokens_per_step", COUNT, AT (tokens_per_step), "0", 0, 2e9, "tokens per step, in place of total_batch_size" },
    { "steps", COUNT, AT (steps), "1000", 0, 1e9, "steps in all" },
    { "warmup_steps", COUNT, AT (warmup_steps), "100", 0, 1e9, "steps until the full rate" },
    { "lr", NUMBER, AT (lr), "1e-3", 0, 100, "learning rate" },
    { "weight_decay", NUMBER, AT (weight_decay), "0.1", 0, 100, "of matrices" },
    { "max_grad_norm", NUMBER, AT (max_grad_norm), "1", 0, 1e9, "larger gradients are clipped" },
    { "shard", COUNT, AT (shard), "0", 0, 1, "1: divide AdamW's states, and share the parameters on a host" },
    { "seed", COUNT, AT (seed), "1", 0, INT_MAX, "of weights, data and samples" },
    { "evaluate_every", COUNT, AT (evaluate_every), "100", 1, 1e9, "steps" },
    { "evaluation_batches", COUNT, AT (evaluation_batches), "16", 1, 1e9, "of each process" },
    { "patience", COUNT, AT (patience), "0", 0, 1e9, "evaluations without a better loss until the end; 0: any" },
    { "save_every", COUNT, AT (save_every), "100", 1, 1e9, "steps" },
    { "peak_tflops", NUMBER, AT (peak_tflops), "0", 0, 1e6, "of a process's processors, for MFU; 0: not known" },
    { "sample", COUNT, AT (sample), "200", 0, 1e9, "tokens to write at the end" },
    { "prompt", TEXT, AT (prompt), "", 0, 0, "what they continue: a text; numbers, unless tokens are bytes" },
    { "temperature", NUMBER, AT (temperature), "0.8", 0, 100, "0: always the most likely token" },
    { "top_k", COUNT, AT (top_k), "40", 0, 1e9, "only so many likely tokens; 0: all" },
    { "top_p", NUMBER, AT (top_p), "0.95", 0, 1, "only so much probability; 0: all" },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* @param where  for messages: what stands before the name */
static void
set (struct options *options, const struct row *row, const char *where, const char *text)
{
    char *end, *at = (char *) options + row->at;
    if (row->kind == TEXT) {
        memcpy (at, &text, sizeof text);
        return;
    }
    errno = 0;
    double value = row->kind == NUMBER ? strtod (text, &end) : (double) strtol (text, &end, 10);
    int count = (int) (value >= row->min && value <= row->max ? value : 0);
    if (end == text || *end || errno || !(value >= row->min && value <= row->max))
        errx (EXIT_FAILURE, "%s%s: expected a %snumber from %g to %g, got '%s'", where, row->name, row->kind == NUMBER ? "" : "whole ",
             row->min, row->max, text);
    if (row->kind == NUMBER)
        memcpy (at, &value, sizeof value);
    else
        memcpy (at, &count, sizeof count);
}

static FILE *
open_config (char path[PATH_MAX], const char *folder, const char *mode)
{
    snprintf (path, PATH_MAX, "%s/config.json", folder);
    FILE *file = fopen (path, mode);
    return file ? file : (errx (EXIT_FAILURE, "%s: cannot be opened", path), NULL);
}

/* @return whether the text of a config.json has this key; with a value that is one word */
static bool
find_word (char word[40], const char *text, const char *name)
{
    char key[40];
    snprintf (key, sizeof key, "\"%s\"", name);
    const char *found = strstr (text, key);
    return found && sscanf (found + strlen (key), " : %39[^],} \t\r\n]", word) == 1;
}

static void
read_config (struct options *options)
{
    char path[PATH_MAX], where[PATH_MAX + 2], text[16384], word[40];
    FILE *file = open_config (path, options->model, "r");
    text[fread (text, 1, sizeof text - 1, file)] = 0;
    fclose (file);
    snprintf (where, sizeof where, "%s: ", path);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].kind == MODEL && !find_word (word, text, rows[i].name))
            errx (EXIT_FAILURE, "%sexpected a number \"%s\"", where, rows[i].name);
        else if (rows[i].kind == MODEL)
            set (options, &rows[i], where, word);
    if (find_word (word, text, "activation_function") && strcmp (word, "\"gelu_new\""))
        errx (EXIT_FAILURE, "%sactivation_function: expected \"gelu_new\", got %s", where, word);
    if (find_word (word, text, "tie_word_embeddings") && strcmp (word, "true"))
        errx (EXIT_FAILURE, "%stie_word_embeddings: expected true, got %s", where, word);
}

void
write_config (const struct gpt_config *config, const char *folder)
{
    char path[PATH_MAX];
    FILE *file = open_config (path, folder, "w");
    fputs ("{\n  \"model_type\": \"gpt2\",\n  \"architectures\": [\"GPT2LMHeadModel\"],\n"
           "  \"activation_function\": \"gelu_new\",\n", file);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].kind == MODEL)
            fprintf (file, "  \"%s\": %d,\n", rows[i].name,
                     *(const int *) ((const void *) ((const char *) config + rows[i].at)));
    fputs ("  \"bos_token_id\": null,\n  \"eos_token_id\": null\n}\n", file);
    if (ferror (file) || fclose (file))
        errx (EXIT_FAILURE, "%s: cannot be written", path);
}

static void
check (struct options *o)
{
    const struct gpt_config *c = &o->config;
    double width = c->n_embd, block = (12 * width + 13) * width;
    double parameters = (c->vocab_size + c->n_positions + 2) * width + c->n_layer * block;
    double memory = (double) sysconf (_SC_PHYS_PAGES) * (double) sysconf (_SC_PAGESIZE);
    if (c->n_embd % c->n_head)
        errx (EXIT_FAILURE, "n_embd: %d is not a multiple of n_head %d", c->n_embd, c->n_head);
    if (16 * parameters > memory) /* with gradients and the states of AdamW */
        errx (EXIT_FAILURE, "%.3g parameters need %.0f GiB, but there are %.0f", parameters, 16 * parameters / (1 << 30),
             memory / (1 << 30));
    if (o->length > c->n_positions)
        errx (EXIT_FAILURE, "--length: %d is longer than the model's n_positions %d", o->length, c->n_positions);
    if (o->batch_size > INT_MAX / o->length)
        errx (EXIT_FAILURE, "--batch_size: %d sequences of %d tokens are too many for a pass", o->batch_size, o->length);
    if (o->tokens_per_step % o->length)
        errx (EXIT_FAILURE, "--tokens_per_step: %d is not a multiple of --length %d", o->tokens_per_step, o->length);
    if (o->tokens_per_step)
        o->total_batch_size = o->tokens_per_step / o->length;
}

struct options
parse_options (int argc, char **argv)
{
    struct options options;
    for (size_t i = 0; i < ROWS; i++)
        set (&options, &rows[i], "", rows[i].value);
    for (int i = 1; i < argc; i += 2) {
        size_t row = 0;
        for (; !strcmp (argv[i], "--help") && row < ROWS; row++)
            printf ("  --%-20s %s [%s]\n", rows[row].name, rows[row].help, rows[row].value ? rows[row].value : "none");
        if (row)
            exit (EXIT_SUCCESS);
        while (row < ROWS && (strncmp (argv[i], "--", 2) || strcmp (argv[i] + 2, rows[row].name)))
            row++;
        if (row == ROWS)
            errx (EXIT_FAILURE, "unknown option '%s'; see --help", argv[i]);
        if (i + 1 == argc)
            errx (EXIT_FAILURE, "%s: missing value", argv[i]);
        set (&options, &rows[row], "--", argv[i + 1]);
    }
    if (options.model)
        read_config (&options);
    check (&options);
    return options;
}
