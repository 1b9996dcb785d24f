/* SPDX-License-Identifier: Apache-2.0 */
/* The command `accelerate`: find the subcommand, run it, print its error. */
#include <config.h>

#include "cli/command.h"
#include "config/opt_argv.h"
#include "launch/topology.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command commands[] = {
    { { "config", COMMAND_CONFIG, "[default|update|show|lint FILE...]", "default update show lint",
        "answer questions, and write the configuration file",
        "Each key of accelerate-config(5) is an option too, and answers its question;\n"
        "--KEY=no says no. With --yes nothing is asked.\n\n"
        "default       write a file for this machine without asking, unless there is one\n"
        "update        write the file anew: old keys under their new names, defaults filled in\n"
        "show          print the values that count, and where each comes from\n"
        "lint FILE...  print what is wrong in the files, or has no effect; exit status 1 then" },
      cmd_config },
    { { "env", COMMAND_ENV, NULL, NULL, "show what this installation and this machine have",
        "Meant to be copied into a report of a problem." },
      cmd_env },
    { { "launch", COMMAND_LAUNCH, "PROGRAM [arguments]", NULL, "start a program as several processes",
        "What follows PROGRAM is the program's, options included." },
      cmd_launch },
    { { "test", COMMAND_TEST, NULL, NULL, "check libaccel on this machine, started as your configuration says",
        "Runs every collective and more on all processes, compared with one process's results." },
      cmd_test },
    { { "to-fsdp2", COMMAND_TO_FSDP2, NULL, NULL, "convert a configuration file from FSDP 1 to FSDP 2", NULL },
      cmd_to_fsdp2 },
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void
add_help (struct strbuf *out)
{
    strbuf_add (out, "usage: accelerate COMMAND [options] [arguments]\n\ncommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        strbuf_printf (out, "  %-10s %s\n", commands[i].info.name, commands[i].info.summary);
    strbuf_add (out, "\n  --help      this text; after a command: its own, for the mode that is chosen there\n"
                     "  --help-all  this text and those of all commands; after a command: its own, for all modes\n"
                     "  --version   the version\n");
}

static void
add_all_help (struct strbuf *out)
{
    add_help (out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        strbuf_add_char (out, '\n');
        emit_command_help (&commands[i].info, ~0u, out);
    }
}

/* For completion: --gpu_ids counts all of this machine's, whatever CUDA_VISIBLE_DEVICES says. */
static void
add_gpu_ids (struct strbuf *out)
{
    struct topology topology;
    topology_probe (&topology, false);
    for (int i = 0; i < topology.gpus_present; i++)
        strbuf_printf (out, "%d\n", i);
}

static const struct {
    const char *shell;
    void (*emit) (const struct command_info *const *commands, size_t count, struct strbuf *out);
} completions[] = { { "bash", emit_bash }, { "fish", emit_fish }, { "zsh", emit_zsh } };

/* Hidden: the forms from which `make regen` makes the manual and the completion, and what completion asks for. */
static int
emit (const char *form, struct strbuf *out, struct fail *fail)
{
    const struct command_info *infos[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) {
        infos[i] = &commands[i].info;
        if (!strncmp (form, "man-", 4) && !strcmp (form + 4, infos[i]->name)) {
            emit_man_options (infos[i]->options, out);
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof completions / sizeof *completions; i++)
        if (!strcmp (form, completions[i].shell)) {
            completions[i].emit (infos, COMMAND_COUNT, out);
            return 0;
        }
    if (!strcmp (form, "man-keys"))
        emit_man_keys (out);
    else if (!strcmp (form, "man-environment"))
        emit_man_environment (out);
    else if (!strcmp (form, "gpu-ids"))
        add_gpu_ids (out);
    else if (!strcmp (form, "json"))
        return emit_json (out, fail);
    else
        return fail_set (fail, FAIL_USAGE,
                         "--emit: '%s' is none of man-COMMAND, man-keys, man-environment, bash, fish, zsh, gpu-ids, "
                         "json",
                         form);
    return 0;
}

static const struct command *
find_command (const char *name, struct fail *fail)
{
    struct suggest suggest = { .wanted = name };
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (!strcmp (commands[i].info.name, name))
            return &commands[i];
        suggest_consider (&suggest, commands[i].info.name);
    }
    suggest_consider (&suggest, "--help");
    suggest_consider (&suggest, "--help-all");
    suggest_consider (&suggest, "--version");
    char space[80];
    fail_set (fail, FAIL_USAGE, "unknown %s '%s'%s", *name == '-' ? "option" : "command", name,
              suggest_text (&suggest, "", space, sizeof space));
    return NULL;
}

/* As a command of another name: accelerate-launch is `accelerate launch`. */
static const char *
name_of_alias (const char *program)
{
    static const char prefix[] = "accelerate-";
    const char *slash = strrchr (program, '/');
    const char *base = slash ? slash + 1 : program;
    return strncmp (base, prefix, sizeof prefix - 1) ? NULL : base + sizeof prefix - 1;
}

static int
run_command (const char *name, int argc, char **argv, struct strbuf *out, struct fail *fail)
{
    const struct command *command = find_command (name, fail);
    if (!command)
        return -1;
    enum argv_item help = argv_wants_help (command->info.options, argc, argv);
    if (help == ARGV_END)
        return command->run (argc, argv, fail);
    emit_command_help (&command->info,
                       help == ARGV_HELP_ALL ? ~0u : emit_chosen_groups (command->info.options, argc, argv), out);
    return 0;
}

static int
run (int argc, char **argv, struct strbuf *out, struct fail *fail)
{
    const char *alias = argc > 0 ? name_of_alias (argv[0]) : NULL;
    if (alias)
        return run_command (alias, argc - 1, argv + 1, out, fail);
    if (argc < 2) {
        add_help (out);
        return FAIL_GENERAL;
    }
    const char *word = argv[1];
    if (!strcmp (word, "--help") || !strcmp (word, "-h"))
        add_help (out);
    else if (!strcmp (word, "--help-all") || !strcmp (word, "--help_all"))
        add_all_help (out);
    else if (!strcmp (word, "--version"))
        strbuf_add (out, "accelerate " PACKAGE_VERSION "\n");
    else if (!strncmp (word, "--emit=", 7))
        return emit (word + 7, out, fail);
    else
        return run_command (word, argc - 2, argv + 2, out, fail);
    return 0;
}

int
main (int argc, char **argv)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct fail fail = { 0 };
    int status = run (argc, argv, &out, &fail);
    if (status >= 0 && out.failed)
        status = fail_nomem (&fail);
    if (status >= 0 && out.text)
        fputs (out.text, stdout);
    if (fflush (stdout) && status == 0)
        status = fail_set (&fail, FAIL_GENERAL, "cannot write: %s", strerror (errno));
    if (status >= 0)
        return status;
    fprintf (stderr, "accelerate: %s\n", fail.text);
    return fail.status;
}
