/* SPDX-License-Identifier: Apache-2.0 */
/* What the example digits was asked, and how it ends where something fails. */
#include "digits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
die (const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    fprintf (stderr, "digits: %s\n", text); /* in one piece: other processes may write too */
    exit (EXIT_FAILURE);
}

static long
parse_count (const char *name, const char *text, long min, long max)
{
    char *end;
    errno = 0;
    long value = strtol (text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        die ("%s: '%s' is not a whole number from %ld to %ld", name, text, min, max);
    return value;
}

static double
parse_positive (const char *name, const char *text, const char *what)
{
    char *end;
    double value = strtod (text, &end);
    if (end == text || *end || !(value > 0 && value < 1e6))
        die ("%s: '%s' is not a valid %s", name, text, what);
    return value;
}

/* data/digits.csv in the folder of the program, if there is one; otherwise that of the source tree. */
static void
find_data (char path[PATH_MAX])
{
    ssize_t length = readlink ("/proc/self/exe", path, PATH_MAX - 32);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr (path, '/');
    strcpy (slash ? slash + 1 : path, "data/digits.csv");
#ifdef EXAMPLE_DATA
    if (access (path, R_OK))
        snprintf (path, PATH_MAX, "%s/digits.csv", EXAMPLE_DATA);
#endif
}

static const char *
parse_schedule (const char *name, const char *text)
{
    if (strcmp (text, "constant") && strcmp (text, "linear") && strcmp (text, "cosine"))
        die ("%s: '%s' is not one of constant, linear, cosine", name, text);
    return text;
}

static const char *
parse_precision (const char *name, const char *text)
{
    if (strcmp (text, "no") && strcmp (text, "fp16") && strcmp (text, "bf16") && strcmp (text, "fp8"))
        die ("%s: '%s' is not one of no, fp16, bf16, fp8", name, text);
    return text;
}

/* @return steps between checkpoints; CHECKPOINT_EACH_EPOCH */
static long
parse_checkpointing (const char *name, const char *text)
{
    return strcmp (text, "epoch") ? parse_count (name, text, 1, 1000000000) : CHECKPOINT_EACH_EPOCH;
}

static const char help[] = "usage: digits [option value]...\n"
    "  --epochs N                       passes over the images (30)\n"
    "  --batch_size N                   images per step, of all processes together (64)\n"
    "  --gradient_accumulation_steps N  batches per step of the optimizer (the variable\n"
    "                                   ACCELERATE_GRADIENT_ACCUMULATION_STEPS, or 1)\n"
    "  --lr X                           highest learning rate (4e-3)\n"
    "  --lr_scheduler constant|linear|cosine  shape of the learning rate after the warm-up (cosine)\n"
    "  --warmup N                       warm-up steps of the optimizer (20)\n"
    "  --mixed_precision no|fp16|bf16|fp8  precision of the weights (the one given to launch)\n"
    "  --max_grad_norm X                norm to which gradients are clipped (1)\n"
    "  --output_dir DIR                 for model.safetensors at the end, and checkpoints\n"
    "  --checkpointing_steps N|epoch    save a checkpoint every N steps of the optimizer, or every epoch\n"
    "  --resume_from_checkpoint DIR|latest  continue from there; latest: the newest in output_dir, if\n"
    "                                   there is one.  By default, the one that launch --resume found\n"
    "  --patience N                     stop after N epochs without better accuracy; 0: never (12)\n"
    "  --seed N                         seed of the first parameters and the order of images (0)\n"
    "  --data FILE                      images (digits.csv)";

struct options
parse_options (int argc, char **argv)
{
    struct options options = { .epochs = 30, .batch_size = 64, .lr = 4e-3, .lr_scheduler = "cosine", .warmup = 20,
                               .max_grad_norm = 1, .patience = 12 };
    const struct {
        const char *name;
        long *value, min, max;
    } counts[] = {
        { "--epochs", &options.epochs, 0, 1000000 },
        { "--batch_size", &options.batch_size, 1, INT_MAX },
        { "--gradient_accumulation_steps", &options.gradient_accumulation_steps, 1, 1000000 },
        { "--warmup", &options.warmup, 0, 1000000 },
        { "--patience", &options.patience, 0, 1000000 },
        { "--seed", &options.seed, 0, LONG_MAX },
    };
    find_data (options.data);
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        size_t j = 0, known = sizeof counts / sizeof *counts;
        if (!strcmp (name, "--help")) {
            puts (help);
            exit (EXIT_SUCCESS);
        }
        if (!value)
            die ("%s: missing value", name);
        while (j < known && strcmp (name, counts[j].name))
            j++;
        if (j < known)
            *counts[j].value = parse_count (name, value, counts[j].min, counts[j].max);
        else if (!strcmp (name, "--lr"))
            options.lr = parse_positive (name, value, "learning rate");
        else if (!strcmp (name, "--max_grad_norm"))
            options.max_grad_norm = parse_positive (name, value, "norm");
        else if (!strcmp (name, "--lr_scheduler"))
            options.lr_scheduler = parse_schedule (name, value);
        else if (!strcmp (name, "--mixed_precision"))
            options.mixed_precision = parse_precision (name, value);
        else if (!strcmp (name, "--output_dir"))
            options.output_dir = value;
        else if (!strcmp (name, "--checkpointing_steps"))
            options.checkpointing_steps = parse_checkpointing (name, value);
        else if (!strcmp (name, "--resume_from_checkpoint"))
            options.resume_from_checkpoint = value;
        else if (!strcmp (name, "--data"))
            snprintf (options.data, sizeof options.data, "%s", value);
        else
            die ("unknown option '%s'; see --help", name);
    }
    bool latest = options.resume_from_checkpoint && !strcmp (options.resume_from_checkpoint, "latest");
    if ((options.checkpointing_steps || latest) && !options.output_dir)
        die ("%s needs --output_dir", latest ? "--resume_from_checkpoint latest" : "--checkpointing_steps");
    return options;
}
