/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate config: ask (questionnaire.c), and write the configuration file.  Nothing is written before the last
 * answer, so a user who gives up half way keeps the old file. */
#include <config.h>

#include "cli/command.h"
#include "cli/config/files.h"
#include "cli/config/infer.h"
#include "cli/config/verify.h"
#include "cli/print.h"
#include "cli/questions/questionnaire.h"
#include "config/file.h"
#include "config/load.h"
#include "config/paths.h"
#include "config/update.h"
#include "config/write.h"
#include "launch/machine/topology.h"
#include "sagemaker/role.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/suggest.h"

#include <string.h>
#include <sys/stat.h>

static int
count_gpus (void)
{
    struct topology topology;
    topology_probe (&topology, false);
    return topology.gpus;
}

/* The folder of @p path: "" for the current one. */
static char *
folder_of (const char *path)
{
    const char *slash = strrchr (path, '/');
    return strndup (path, !slash ? 0 : slash == path ? 1 : (size_t) (slash - path));
}

static int
save (const char *path, const struct strbuf *text, struct fail *fail)
{
    AUTO_FREE char *folder = folder_of (path);
    if (!folder)
        return fail_nomem (fail);
    bool is_new = *folder && access (folder, F_OK);
    if (io_make_parents (path, fail) || io_write_file (path, text->text, text->length, 0644, fail))
        return -1;
    if (is_new)
        print_line ("created folder ", folder, "");
    print_line ("saved in ", path, "");
    return 0;
}

static int
write_config (const struct config *config, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    return config_write_text (config, path_is_json (path), &text, fail) ? -1 : save (path, &text, fail);
}

static int
run_default (struct config *config, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    int gpus = count_gpus ();
    if (access (path, F_OK)) {
        bool is_json = path_is_json (path);
        return infer_mode (config, gpus, fail) || infer_distributed (config, gpus, fail)
                       || verify_kind (config, &config->settings, fail)
                       || config_default_text (config, is_json, &text, fail)
                       || verify_text (config, &text, is_json, fail)
                   ? -1
                   : save (path, &text, fail);
    }
    print_line ("", path, " exists; left unchanged");
    return 0;
}

/* The file is written in any case: the answers would be lost. */
static int
create_role (const struct settings *settings, struct fail *fail)
{
    const char *name = settings->iam_role_name;
    bool is_new;
    if (role_create (name, settings->profile, settings->region, &is_new, fail))
        return fail_prefix (fail, "the configuration is saved, but");
    print_line ("role ", name, is_new ? " created" : " exists; left unchanged");
    return 0;
}

/* The answers of last time are the defaults of this time.  A broken file is an error: it may hold what the user
 * needs. */
static int
run_questions (struct config *config, const char *path, struct fail *fail)
{
    AUTO_CONFIG struct config file = { 0 };
    struct stat info;
    bool exists = !stat (path, &info);
    if (exists && !S_ISREG (info.st_mode) && !S_ISDIR (info.st_mode)) /* of what use are answers that cannot be kept? */
        return fail_set (fail, FAIL_GENERAL, "%s: not a regular file", path);
    AUTO_FREE char *folder = folder_of (path);
    if (!folder)
        return fail_nomem (fail);
    /* As in Accelerate, but before the questions. */
    if (config->settings.config_file && *folder && access (folder, F_OK))
        return fail_set (fail, FAIL_GENERAL, "%s: the folder does not exist; create it with mkdir -p", folder);
    int gpus = count_gpus ();
    bool wants_role = false;
    int result = exists ? config_read_file (config, path, fail) : 0;
    if (!result)
        result = infer_mode (config, gpus, fail) || questionnaire_run (config, gpus, &file, &wants_role, fail)
                     ? -1 : write_config (&file, path, fail);
    return result ? result : wants_role ? create_role (&file.settings, fail) : 0;
}

static int
run_lint (struct config *config, const char *path, struct fail *fail)
{
    (void) path;
    return config_files_lint (config->words.items + 1, (int) config->words.count - 1, fail);
}

static const struct {
    const char *word;
    const char *usage; /* of its arguments, NULL: it has none */
    size_t most;       /* arguments */
    const char *synonyms; /* words for which it is suggested */
    int (*run) (struct config *config, const char *path, struct fail *fail);
} words[] = {
    { "default", NULL, 0, " create init new ", run_default },
    { "update", NULL, 0, " upgrade migrate convert ", config_files_update },
    { "show", NULL, 0, " print list ls cat view display dump ", config_files_show },
    { "schema", NULL, 0, "", config_files_schema },
    { "lint", "FILE...", SIZE_MAX, " validate check verify test ", run_lint },
    { "get", "KEY", 1, " read ", config_files_get },
    { "set", "KEY VALUE", SIZE_MAX, " write change add put ", config_files_set },
};

static int
refuse_word (const char *word, struct fail *fail)
{
    struct suggest suggest = { .wanted = word };
    char space[80], spaced[40];
    snprintf (spaced, sizeof spaced, " %s ", word);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        suggest_consider (&suggest, words[i].word);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr (words[i].synonyms, spaced))
            suggest.best = words[i].word;
    return fail_set (fail, FAIL_USAGE, "unexpected argument '%s'; expected default, update, show, schema, lint, get or "
                     "set%s", word, suggest_text (&suggest, "", space, sizeof space));
}

static int
run (struct config *config, const char *path, struct fail *fail)
{
    size_t i = 0, count = config->words.count;
    const char *word = count ? config->words.items[0] : NULL;
    if (config->settings.json && (!word || strcmp (word, "show") != 0))
        return fail_set (fail, FAIL_USAGE, "--json needs show; a file whose name ends in .json is written as JSON");
    if (!word)
        return run_questions (config, path, fail);
    while (i < sizeof words / sizeof *words && strcmp (words[i].word, word) != 0)
        i++;
    if (i == sizeof words / sizeof *words)
        return refuse_word (word, fail);
    if (count - 1 > words[i].most)
        return fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", config->words.items[words[i].most + 1]);
    if (count == 1 && words[i].usage && words[i].run != run_lint)
        return fail_set (fail, FAIL_USAGE, "no key given: accelerate config %s %s", words[i].word, words[i].usage);
    return words[i].run (config, path, fail);
}

int
cmd_config (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    AUTO_FREE char *path = NULL;
    if (argc && !strcmp (argv[0], "lint"))
        return config_files_lint (argv + 1, argc - 1, fail);
    if (config_load_command (&config, COMMAND_CONFIG, argc, argv, SIZE_MAX, fail))
        return -1;
    const char *given = config.settings.config_file;
    path = given ? strdup (given) : NULL;
    if (given && !path)
        return fail_nomem (fail);
    return given || !path_of_default_file (&path, fail) ? run (&config, path, fail) : -1;
}
