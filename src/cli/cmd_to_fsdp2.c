/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate to-fsdp2: a configuration file for FSDP 1 becomes one for FSDP 2. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "config/fsdp2.h"
#include "config/load.h"
#include "config/paths.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <string.h>
#include <sys/stat.h>

/* In Accelerate's order, so that the same one of two mistakes is reported. */
static int
check_flags (const struct settings *settings, struct fail *fail)
{
    if (!settings->config_file)
        return fail_set (fail, FAIL_USAGE, "missing option: accelerate to-fsdp2 --config_file FILE");
    if (access (settings->config_file, F_OK))
        return fail_set (fail, FAIL_GENERAL, "%s: %s", settings->config_file, strerror (errno));
    if (!settings->overwrite && !settings->output_file)
        return fail_set (fail, FAIL_USAGE, "give --output_file FILE or --overwrite");
    if (!settings->overwrite && !access (settings->output_file, F_OK))
        return fail_set (fail, FAIL_GENERAL, "%s exists; replace it with --overwrite", settings->output_file);
    return 0;
}

int
cmd_to_fsdp2 (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    AUTO_STRLIST struct strlist notes = { 0 };
    const struct settings *settings = &config.settings;
    struct stat info;
    if (config_load_command (&config, COMMAND_TO_FSDP2, argc, argv, 0, fail) || check_flags (settings, fail))
        return -1;
    const char *target = settings->output_file ? settings->output_file : settings->config_file;
    if (fsdp2_convert (settings->config_file, path_is_json (target), &text, &notes, fail))
        return -1;
    for (size_t i = 0; i < notes.count; i++)
        print_note ("", notes.items[i], "");
    mode_t mode = stat (target, &info) ? 0644 : info.st_mode & 0777;
    if (io_write_file (target, text.text ? text.text : "", text.length, mode, fail))
        return -1;
    print_line ("saved in ", target, "");
    return 0;
}
