/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the GPT example; see options.h. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
die (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    fputs ("gpt: ", stderr);
    vfprintf (stderr, format, args);
    fputc ('\n', stderr);
    va_end (args);
    exit (EXIT_FAILURE);
}

/* One row for each option; exactly one of the three pointers is set. */
struct row {
    const char *name, *help;
    const char **text;
    int *count;
    double *number;
    double min, max;
};

static void
show_help (const struct row *rows, size_t count)
{
    puts ("usage: gpt [--OPTION VALUE] ...");
    for (size_t i = 0; i < count; i++)
        if (rows[i].text)
            printf ("  --%-20s %s [%s]\n", rows[i].name, rows[i].help, *rows[i].text ? *rows[i].text : "none");
        else if (rows[i].count)
            printf ("  --%-20s %s [%d]\n", rows[i].name, rows[i].help, *rows[i].count);
        else
            printf ("  --%-20s %s [%g]\n", rows[i].name, rows[i].help, *rows[i].number);
    exit (EXIT_SUCCESS);
}

static void
take (const struct row *row, const char *text)
{
    char *end;
    if (!text)
        die ("--%s: missing value", row->name);
    if (row->text) {
        *row->text = text;
        return;
    }
    errno = 0;
    double value = row->count ? (double) strtol (text, &end, 10) : strtod (text, &end);
    if (end == text || *end || errno || !(value >= row->min && value <= row->max))
        die ("--%s: expected a %snumber from %g to %g, got '%s'", row->name, row->count ? "whole " : "", row->min,
             row->max, text);
    if (row->count)
        *row->count = (int) value;
    else
        *row->number = value;
}

struct options
parse_options (int argc, char **argv)
{
    static struct options o = { .config = { 256, 256, 128, 4, 4 }, .data = EXAMPLE_DATA "/shakespeare.txt",
                                .format = "bytes", .project_dir = "gpt", .length = 128, .batch_size = 4,
                                .total_batch_size = 16, .steps = 1000, .warmup_steps = 100, .seed = 1,
                                .evaluate_every = 100, .evaluation_batches = 16, .save_every = 100, .sample = 200,
                                .lr = 1e-3, .weight_decay = 0.1, .max_grad_norm = 1, .temperature = 0.8, .top_k = 40,
                                .top_p = 0.95, .prompt = "\n" };
    const struct row rows[] = {
        { "data", "a text, or a file of tokens", .text = &o.data },
        { "format", "of the data: bytes, uint16, uint32 or llmc", .text = &o.format },
        { "model", "folder with config.json and model.safetensors to begin with", .text = &o.model },
        { "save", "folder for the model at the end", .text = &o.save },
        { "project_dir", "folder for checkpoints and logs, from which a run continues", .text = &o.project_dir },
        { "vocab_size", "tokens", .count = &o.config.vocab_size, .min = 2, .max = 1e7 },
        { "n_positions", "longest sequence", .count = &o.config.n_positions, .min = 1, .max = 1e6 },
        { "n_embd", "width", .count = &o.config.n_embd, .min = 1, .max = 1e5 },
        { "n_layer", "blocks", .count = &o.config.n_layer, .min = 1, .max = 1000 },
        { "n_head", "heads of attention", .count = &o.config.n_head, .min = 1, .max = 1000 },
        { "length", "tokens of a training sequence", .count = &o.length, .min = 1, .max = 1e6 },
        { "batch_size", "sequences per pass and process", .count = &o.batch_size, .min = 1, .max = 1e6 },
        { "total_batch_size", "sequences per step", .count = &o.total_batch_size, .min = 1, .max = 1e6 },
        { "steps", "steps in all", .count = &o.steps, .max = 1e9 },
        { "warmup_steps", "steps until the full rate", .count = &o.warmup_steps, .max = 1e9 },
        { "lr", "learning rate", .number = &o.lr, .min = 0, .max = 100 },
        { "weight_decay", "of matrices", .number = &o.weight_decay, .max = 100 },
        { "max_grad_norm", "larger gradients are clipped", .number = &o.max_grad_norm, .max = 1e9 },
        { "seed", "of weights, data and samples", .count = &o.seed, .max = 2147483647 },
        { "evaluate_every", "steps", .count = &o.evaluate_every, .min = 1, .max = 1e9 },
        { "evaluation_batches", "of each process", .count = &o.evaluation_batches, .min = 1, .max = 1e9 },
        { "patience", "evaluations without a better loss until the end; 0: any", .count = &o.patience, .max = 1e9 },
        { "save_every", "steps", .count = &o.save_every, .min = 1, .max = 1e9 },
        { "sample", "tokens to write at the end", .count = &o.sample, .max = 1e9 },
        { "prompt", "what they continue, if tokens are bytes", .text = &o.prompt },
        { "temperature", "0: always the most likely token", .number = &o.temperature, .max = 100 },
        { "top_k", "only so many likely tokens; 0: all", .count = &o.top_k, .max = 1e9 },
        { "top_p", "only so much probability", .number = &o.top_p, .max = 1 },
    };
    size_t count = sizeof rows / sizeof *rows;
    for (int i = 1; i < argc; i += 2) {
        size_t row = 0;
        if (!strcmp (argv[i], "--help"))
            show_help (rows, count);
        while (row < count && (strncmp (argv[i], "--", 2) || strcmp (argv[i] + 2, rows[row].name)))
            row++;
        if (row == count)
            die ("unknown option '%s'; see --help", argv[i]);
        take (&rows[row], argv[i + 1]);
    }
    if (o.model)
        gpt_read_config (&o.config, o.model);
    if (o.config.n_embd % o.config.n_head)
        die ("--n_embd: %d is not a multiple of --n_head %d", o.config.n_embd, o.config.n_head);
    if (o.length > o.config.n_positions)
        die ("--length: %d is longer than the model's --n_positions %d", o.length, o.config.n_positions);
    if (o.batch_size > INT_MAX / o.length)
        die ("--batch_size: %d sequences of %d tokens are too many for a pass", o.batch_size, o.length);
    if (!*o.prompt)
        die ("--prompt: expected at least one character");
    return o;
}
