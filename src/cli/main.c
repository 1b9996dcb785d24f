/* SPDX-License-Identifier: Apache-2.0 */
/* The command `accelerate`: find the subcommand, run it, print its error. */
#include <config.h>

#include "cli/command.h"
#include "cli/launch_run.h"
#include "config/table/foreign.h"
#include "config/table/opt_argv.h"
#include "hosts/agent/host_job.h"
#include "hosts/mpi/mpi.h"
#include "launch/machine/topology.h"
#include "util/parse.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const struct command commands[] = {
#define COMMAND(NAME, function, word, ...)                                                                             \
    { { .name = word, .options = COMMAND_##NAME, __VA_ARGS__ }, cmd_##function },
#include "config/table/rows_commands.h"
#undef COMMAND
};

/* COLUMNS, else what the terminal says, else the usual 80. */
static int
help_columns (void)
{
    const char *text = getenv ("COLUMNS");
    struct winsize size = { 0 };
    int64_t columns;
    if (text && parse_int64 (text, 1, INT_MAX, &columns) == PARSE_OK)
        return (int) columns;
    return ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static void
add_help (struct strbuf *out)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    int width = 0;
    for (int i = 0; i < COMMAND_COUNT; i++)
        if ((int) strlen (commands[i].info.name) > width)
            width = (int) strlen (commands[i].info.name);
    strbuf_add (&text, "usage: accelerate COMMAND [options] [arguments]\n\ncommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        strbuf_printf (&text, "  %-*s  %s\n", width, commands[i].info.name, commands[i].info.summary);
    strbuf_add (&text, "\noptions:\n"
                       "  -h, --help      print this help; after a command: the help of that command\n"
                       "      --help-all  print the help of every command, with the options of all modes\n"
                       "  -V, --version   print the version\n"
                       "\nTo begin: accelerate launch --num_processes 2 PROGRAM\n");
    out->failed |= text.failed;
    emit_folded (text.text ? text.text : "", help_columns (), out);
}

static void
add_all_help (struct strbuf *out)
{
    add_help (out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        strbuf_add_char (out, '\n');
        emit_command_help (&commands[i].info, ~0u, help_columns (), out);
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
    if (emit_completion (form, out))
        return 0;
    if (!strcmp (form, "man-keys"))
        emit_man_keys (out);
    else if (!strcmp (form, "man-environment"))
        emit_man_environment (out);
    else if (!strcmp (form, "man-commands"))
        emit_man_commands (infos, COMMAND_COUNT, out);
    else if (!strcmp (form, "man-command-pages"))
        emit_man_command_pages (infos, COMMAND_COUNT, out);
    else if (!strcmp (form, "gpu-ids"))
        add_gpu_ids (out);
    else if (!strcmp (form, "json"))
        return emit_json (out, fail);
    else
        return fail_set (fail, FAIL_USAGE,
                         "--emit: '%s' is not one of man-COMMAND, man-keys, man-environment, man-commands, "
                         "man-command-pages, bash, fish, zsh, gpu-ids, json",
                         form);
    return 0;
}

/* The option's command: the one that follows (accelerate --json env), else launch, which has most of them and is most
 * likely meant. */
static const struct command *
command_with_option (const char *word, int argc, char **argv)
{
    char name[64];
    snprintf (name, sizeof name, "%.*s", (int) strcspn (word, "="), word);
    const struct option *row = option_find (name);
    const struct command *found = NULL;
    for (int i = 0; row && i < COMMAND_COUNT; i++) {
        if (!emit_has_row (row, commands[i].info.options))
            continue;
        if (!found || !strcmp (commands[i].info.name, "launch"))
            found = &commands[i];
        for (int j = 0; j < argc; j++)
            if (!strcmp (argv[j], commands[i].info.name))
                return &commands[i];
    }
    return found;
}

#define AFTER_COMMAND "; options follow a command, as in accelerate launch [options] PROGRAM"

/* Advice about an option of another launcher; -np and -n2 are known, too. */
static const char *
find_advice (const char *name, const char *next, char space[FOREIGN_ADVICE_LENGTH])
{
    size_t dashes = strspn (name, "-"), length = strcspn (name + dashes, dashes > 1 ? "=" : "=0123456789");
    const char *rest = name + dashes + length;
    return foreign_advice (COMMAND_LAUNCH, name + dashes, length, *rest ? rest + (*rest == '=') : next, space);
}

static int
refuse_option (int argc, char **argv, struct fail *fail)
{
    const char *name = argv[0];
    struct suggest suggest = { .wanted = name };
    const struct command *command = command_with_option (name + strspn (name, "-"), argc, argv);
    char space[80], foreign[FOREIGN_ADVICE_LENGTH];
    const char *advice = find_advice (name, argc > 1 && *argv[1] != '-' ? argv[1] : NULL, foreign);
    suggest_consider (&suggest, "--help");
    suggest_consider (&suggest, "--help-all");
    suggest_consider (&suggest, "--version");
    if (command)
        return fail_set (fail, FAIL_USAGE, "options go after the command: accelerate %s %s", command->info.name, name);
    if (advice)
        return fail_set (fail, FAIL_USAGE, "unknown option '%s': %s%s", name, advice,
                         strncmp (advice, "use ", 4) ? "" : AFTER_COMMAND);
    if (suggest.best)
        return fail_set (fail, FAIL_USAGE, "unknown option '%s'%s", name,
                         suggest_text (&suggest, "", space, sizeof space));
    return fail_set (fail, FAIL_USAGE, "unknown option '%s'" AFTER_COMMAND, name);
}

static bool
looks_like_program (const char *name)
{
    size_t length = strlen (name);
    return strchr (name, '/') || !access (name, F_OK) || (length > 3 && !strcmp (name + length - 3, ".py"));
}

/* What other programs call it, between blanks. */
static const char *const synonyms[COMMAND_COUNT] = {
    [COMMAND_INDEX_CONFIG] = " setup init ",
    [COMMAND_INDEX_ENV] = " info doctor status report ",
    [COMMAND_INDEX_INSPECT] = " show ls dump ",
    [COMMAND_INDEX_LAUNCH] = " run start exec train mpirun mpiexec srun torchrun ",
    [COMMAND_INDEX_MERGE_WEIGHTS] = " consolidate ",
    [COMMAND_INDEX_TEST] = " check selftest self-test ",
    [COMMAND_INDEX_TO_FSDP2] = " fsdp2 ",
};

/* The command that @p name begins, continues (configure) or means, or NULL. */
static const char *
find_related (const char *name)
{
    char spaced[40];
    size_t length = strlen (name);
    snprintf (spaced, sizeof spaced, " %s ", name);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        size_t whole = strlen (commands[i].info.name);
        if ((length > 2 && !strncmp (commands[i].info.name, name, length < whole ? length : whole))
            || (synonyms[i] && strstr (synonyms[i], spaced)))
            return commands[i].info.name;
    }
    return NULL;
}

static int
refuse_command (const char *name, struct fail *fail)
{
    struct suggest suggest = { .wanted = name };
    const char *related = find_related (name);
    char space[80];
    for (int i = 0; i < COMMAND_COUNT; i++)
        suggest_consider (&suggest, commands[i].info.name);
    suggest_consider (&suggest, "--version");
    suggest_consider (&suggest, "help");
    if (related && !looks_like_program (name))
        suggest.best = related;
    if (!suggest.best && looks_like_program (name))
        return fail_set (fail, FAIL_USAGE, "unknown command '%s'; to start a program: accelerate launch %s", name,
                         name);
    return fail_set (fail, FAIL_USAGE, "unknown command '%s'%s", name,
                     suggest.best ? suggest_text (&suggest, "", space, sizeof space) : "; see accelerate --help");
}

static const struct command *
find_command (const char *name, int argc, char **argv, struct fail *fail)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp (commands[i].info.name, name))
            return &commands[i];
    if (*name == '-')
        refuse_option (argc + 1, argv - 1, fail);
    else
        refuse_command (name, fail);
    return NULL;
}

/* As a command with a different name: accelerate-launch is `accelerate launch`. */
static const char *
name_of_alias (const char *program)
{
    static const char prefix[] = "accelerate-";
    const char *slash = strrchr (program, '/');
    const char *base = slash ? slash + 1 : program;
    return strncmp (base, prefix, sizeof prefix - 1) ? NULL : base + sizeof prefix - 1;
}

/* @p is_help: accelerate help NAME, which is accelerate NAME --help. */
static int
run_command (const char *name, int argc, char **argv, bool is_help, struct strbuf *out, struct fail *fail)
{
    const struct command *command = find_command (name, argc, argv, fail);
    if (!command)
        return -1;
    enum argv_item help = argv_wants_help (command->info.options, argc, argv);
    if (help == ARGV_END && !is_help)
        return command->run (argc, argv, fail);
    emit_command_help (&command->info,
                       help == ARGV_HELP_ALL ? ~0u : emit_chosen_groups (command->info.options, argc, argv),
                       help_columns (), out);
    return 0;
}

static bool
add_general_help (const char *word, struct strbuf *out)
{
    if (!strcmp (word, "--help") || !strcmp (word, "-h"))
        add_help (out);
    else if (!strcmp (word, "--help-all") || !strcmp (word, "--help_all"))
        add_all_help (out);
    else
        return false;
    return true;
}

/* accelerate help [COMMAND] */
static int
run_help (int argc, char **argv, struct strbuf *out, struct fail *fail)
{
    if (argc && !strcmp (argv[0], "help"))
        return run_help (argc - 1, argv + 1, out, fail);
    if (!argc) {
        add_help (out);
        return 0;
    }
    return add_general_help (argv[0], out) ? 0 : run_command (argv[0], argc - 1, argv + 1, true, out, fail);
}

static int
run (int argc, char **argv, struct strbuf *out, struct fail *fail)
{
    const char *alias = argc > 0 ? name_of_alias (argv[0]) : NULL;
    if (alias)
        return run_command (alias, argc - 1, argv + 1, false, out, fail);
    if (argc < 2) {
        add_help (out);
        return FAIL_GENERAL;
    }
    const char *word = argv[1];
    if (add_general_help (word, out))
        return 0;
    if (!strcmp (word, "help"))
        return run_help (argc - 2, argv + 2, out, fail);
    if (!strcmp (word, "--version") || !strcmp (word, "-V"))
        strbuf_add (out, "accelerate " PACKAGE_VERSION "\n");
    else if (!strncmp (word, "--emit=", 7))
        return emit (word + 7, out, fail);
    else if (!strcmp (word, "--agent")) /* hidden: started by a launch on several hosts */
        return agent_serve (launch_run_part);
    else if (!strcmp (word, "--mpi-proxy") && argc == 4) /* hidden: started by its mpirun or srun */
        return mpi_proxy_run (argv[2], argv[3], fail);
    else
        return run_command (word, argc - 2, argv + 2, false, out, fail);
    return 0;
}

/* Whether all that was printed has been written: also what went out before, when the buffer was full. */
static int
finish_output (int status, struct fail *fail)
{
    int failed = fflush (stdout) ? errno : 0;
    if (status != 0 || (!failed && !ferror (stdout)))
        return status;
    return fail_set (fail, FAIL_GENERAL, "cannot write%s%s", failed ? ": " : " all of the output",
                     failed ? strerror (failed) : "");
}

/* A standard stream that the caller has closed (2>&-) would be the next file that we open: messages would go into it.
 * What takes its place fails, as it would. */
static void
keep_standard_streams (void)
{
    for (int fd = 0, opened = 0; fd <= 2 && opened >= 0; fd++)
        if (fcntl (fd, F_GETFD) < 0)
            opened = open ("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

int
main (int argc, char **argv)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct fail fail = { 0 };
    keep_standard_streams ();
    int status = run (argc, argv, &out, &fail);
    if (status >= 0 && out.failed)
        status = fail_nomem (&fail);
    if (status >= 0 && out.text)
        fputs (out.text, stdout);
    status = finish_output (status, &fail);
    if (status >= 0)
        return status;
    fprintf (stderr, "accelerate: %s\n", fail.text);
    return fail.status;
}
