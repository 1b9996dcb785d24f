/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate tpu-config: run startup commands on all machines of a TPU pod, through gcloud. */
#include <config.h>

#include "cli/command.h"
#include "config/load.h"
#include "config/pep440.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/printable.h"

#include <stdio.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 20 }; /* bytes: an argument that execve() takes is smaller still */

#define DEVELOPMENT "git+https://github.com/huggingface/accelerate.git"

/* Of the file, one per line.  A comment would hide the commands after it, because they are joined to one line. */
static int
add_lines (struct strbuf *text, const char *path, struct fail *fail)
{
    AUTO_FREE char *lines = NULL;
    size_t length = 0, count = 0;
    if (io_read_input (path, LARGEST_FILE, &lines, &length, fail))
        return fail_prefix (fail, "command file");
    if (strlen (lines) != length)
        return fail_set (fail, FAIL_GENERAL, "command file: %s: contains a null byte", path);
    for (char *state = NULL, *line = strtok_r (lines, "\r\n", &state); line; line = strtok_r (NULL, "\r\n", &state)) {
        const char *begin = line + strspn (line, " \t");
        if (!*begin || *begin == '#')
            continue;
        strbuf_printf (text, "; %s", line);
        count++;
    }
    return count ? 0 : fail_set (fail, FAIL_GENERAL, "command file: %s: contains no commands", path);
}

static int
add_install (struct strbuf *text, const struct settings *settings, struct fail *fail)
{
    const char *version = settings->accelerate_version;
    bool is_latest = !strcmp (version, "latest"), is_dev = !strcmp (version, "dev");
    if (!is_latest && !is_dev && !pep440_is_version (version))
        return fail_set (fail, FAIL_USAGE, "--accelerate_version: '%s' is not a version: expected latest, dev or a "
                         "number like 1.2.0", version);
    if (settings->install_accelerate && is_dev)
        strbuf_add (text, "; pip install " DEVELOPMENT);
    else if (settings->install_accelerate)
        strbuf_printf (text, "; pip install accelerate%s%s", is_latest ? " -U" : "==", is_latest ? "" : version);
    return 0;
}

/* Commands of the command line come before a file that only the configuration names; else a file comes before
 * commands. */
static int
add_commands (struct strbuf *text, const struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    bool has_flag_file = config_origin (config, "command_file").kind == ORIGIN_FLAG;
    const struct strlist *commands = settings->command.count ? &settings->command : &settings->commands;
    if (settings->command_file && (has_flag_file || !settings->command.count))
        return add_lines (text, settings->command_file, fail);
    if (!commands->count)
        return fail_set (fail, FAIL_USAGE, "nothing to run on the pod: give --command or --command_file, or put "
                         "commands or command_file into the configuration file");
    for (size_t i = 0; i < commands->count; i++)
        strbuf_printf (text, "; %s", commands->items[i]);
    return 0;
}

static int
check_names (const struct settings *settings, struct fail *fail)
{
    const char *missing = !settings->tpu_name ? "tpu_name" : !settings->tpu_zone ? "tpu_zone" : NULL;
    if (missing)
        return fail_set (fail, FAIL_USAGE, "missing %s: give --%s, or put it into the configuration file", missing,
                         missing);
    if (*settings->tpu_name == '-')
        return fail_set (fail, FAIL_USAGE, "'%s' is not a valid tpu_name", settings->tpu_name);
    return 0;
}

/* The commands are one argument, which gcloud gives to the shell of each machine of the pod; no shell here sees it. */
static int
add_command (const struct config *config, struct strlist *argv, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_add (&text, "cd /usr/share");
    if (add_install (&text, settings, fail) || add_commands (&text, config, fail) || check_names (settings, fail))
        return -1;
    if (text.failed)
        return fail_nomem (fail);
    const char *const words[] = { "gcloud", settings->use_alpha ? "alpha" : NULL, "compute", "tpus", "tpu-vm", "ssh",
                                  settings->tpu_name, "--zone", settings->tpu_zone, "--command", text.text, "--worker",
                                  "all" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i])
            strlist_add (argv, words[i]);
    return argv->failed ? fail_nomem (fail) : 0;
}

static void
print_command (const struct strlist *argv)
{
    fputs ("Running", stdout);
    for (size_t i = 0; i < argv->count; i++) {
        putchar (' ');
        printable_put (stdout, argv->items[i]);
    }
    putchar ('\n');
}

/* @return the exit status, or -1 with @fail set */
static int
run_command (const struct strlist *argv, struct fail *fail)
{
    int status = foreground_run (argv->items, fail);
    if (status < 0 && fail->status == FAIL_NOT_FOUND)
        return fail_set (fail, FAIL_NOT_FOUND, "gcloud not found: install the Google Cloud CLI, or add its folder to "
                         "PATH");
    if (status > 0)
        return fail_set (fail, status, "gcloud failed with exit status %d; the pod may be only partly set up", status);
    if (status == 0)
        puts ("Successfully setup pod.");
    return status;
}

int
cmd_tpu_config (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    AUTO_STRLIST struct strlist command = { 0 };
    if (config_load_command (&config, COMMAND_TPU_CONFIG, argc, argv, 0, fail) || config_load_file (&config, fail)
        || add_command (&config, &command, fail))
        return -1;
    if (!config.settings.print_command)
        return run_command (&command, fail);
    print_command (&command);
    return 0;
}
