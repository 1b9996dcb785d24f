/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of command lines: words with zero bytes between them, for launch and for config. */
#include <config.h>

#include "tests/fuzz/target.h"

#include "util/utf8.h"

enum { MOST_WORDS = 64 };

/* Keys that only a file for SageMaker has; the questionnaire refuses them for other files. */
static bool
has_sagemaker_keys (const struct config *config)
{
    for (size_t i = 0; i < option_count; i++)
        if (options[i].group == GROUP_AWS && (options[i].properties & PROPERTY_NO_FLAG)
            && config->origins[i].kind == ORIGIN_FLAG)
            return true;
    return false;
}

static void
read_flags (enum option_command command, int argc, char **argv, bool is_text)
{
    struct config config;
    struct fail fail = { 0 };
    if (config_init (&config, &fail))
        abort ();
    if (config_load_flags (&config, command, argc, argv, &fail))
        fuzz_check_message (&fail);
    else if (is_text && !has_sagemaker_keys (&config)) /* a file cannot have other bytes */
        fuzz_write_settings (&config);
    config_release (&config);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = malloc (size + 1);
    char *argv[MOST_WORDS + 1];
    int argc = 0;
    if (!text)
        abort ();
    if (size)
        memcpy (text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && argc < MOST_WORDS; at += strlen (text + at) + 1)
        argv[argc++] = text + at;
    argv[argc] = NULL;
    bool is_text = utf8_is_valid (text, size);
    read_flags (COMMAND_LAUNCH, argc, argv, is_text);
    read_flags (COMMAND_CONFIG, argc, argv, is_text);
    return 0;
}
