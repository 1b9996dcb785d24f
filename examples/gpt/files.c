/* SPDX-License-Identifier: Apache-2.0 */
/* Models in folders as `transformers` reads and writes them: config.json and model.safetensors. */
#include "gpt.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    { "vocab_size", offsetof (struct gpt_config, vocab_size) },
    { "n_positions", offsetof (struct gpt_config, n_positions) },
    { "n_embd", offsetof (struct gpt_config, n_embd) },
    { "n_layer", offsetof (struct gpt_config, n_layer) },
    { "n_head", offsetof (struct gpt_config, n_head) },
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static char *
join (const char *folder, const char *name)
{
    size_t size = strlen (folder) + strlen (name) + 2;
    char *path = malloc (size);
    if (!path)
        die ("out of memory");
    snprintf (path, size, "%s/%s", folder, name);
    return path;
}

void
gpt_read_config (struct gpt_config *config, const char *folder)
{
    char text[16384], *path = join (folder, "config.json");
    FILE *file = fopen (path, "r");
    size_t length = file ? fread (text, 1, sizeof text - 1, file) : 0;
    if (!length)
        die ("%s: cannot read it", path);
    text[length] = 0;
    for (size_t i = 0; i < NUMBERS; i++) {
        char key[32];
        int *number = (int *) (void *) ((char *) config + numbers[i].offset);
        snprintf (key, sizeof key, "\"%s\"", numbers[i].name);
        const char *found = strstr (text, key);
        if (!found || sscanf (found + strlen (key), " : %d", number) != 1 || *number < 1)
            die ("%s: expected a positive \"%s\"", path, numbers[i].name);
    }
    fclose (file);
    free (path);
}

void
gpt_write_config (const struct gpt_config *config, const char *folder)
{
    char *path = join (folder, "config.json");
    FILE *file = fopen (path, "w");
    if (!file)
        die ("%s: cannot create it", path);
    fputs ("{\n  \"model_type\": \"gpt2\",\n  \"architectures\": [\"GPT2LMHeadModel\"],\n"
           "  \"activation_function\": \"gelu_new\",\n  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n", file);
    for (size_t i = 0; i < NUMBERS; i++)
        fprintf (file, "  \"%s\": %d%s\n", numbers[i].name,
                 *(const int *) (const void *) ((const char *) config + numbers[i].offset), i + 1 < NUMBERS ? "," : "");
    fputs ("}\n", file);
    if (ferror (file) || fclose (file))
        die ("%s: cannot write it", path);
    free (path);
}
