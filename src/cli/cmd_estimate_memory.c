/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate estimate-memory: how much memory a model needs. */
#include <config.h>

#include "cli/command.h"
#include "cli/estimate/estimate.h"
#include "cli/print.h"
#include "config/load.h"
#include "util/cleanup.h"
#include "util/printable.h"
#include "util/text.h"

#include <string.h>

static const char *const all_dtypes[] = { "float32", "float16", "int8", "int4", NULL };

/* All types if none is given. */
static int
check (struct settings *settings, const struct strlist *words, struct fail *fail)
{
    if (!words->count)
        return fail_set (fail, FAIL_USAGE, "no model given: accelerate estimate-memory MODEL%s",
                         settings->dtypes.count ? " --dtypes ..., in this order" : "");
    for (size_t i = 0; i < settings->dtypes.count; i++)
        if (!text_is_one_of (settings->dtypes.items[i], all_dtypes))
            return fail_set (fail, FAIL_USAGE,
                             "invalid value for --dtypes: '%s'; expected float32, float16, int8 or int4",
                             settings->dtypes.items[i]);
    if (settings->sharding && !settings->num_processes)
        return fail_set (fail, FAIL_USAGE, "--sharding needs --num_processes");
    if (settings->sharding && !strcmp (settings->mixed_precision, "fp8"))
        return fail_set (fail, FAIL_USAGE, "--sharding: 8-bit parameters cannot be divided: expected no, fp16 or bf16 "
                         "for --mixed_precision");
    if (settings->share_parameters && !settings->sharding)
        return fail_set (fail, FAIL_USAGE, "--share_parameters needs --sharding");
    if (settings->float32_gradients && !settings->sharding)
        return fail_set (fail, FAIL_USAGE, "--float32_gradients needs --sharding");
    bool is_given = settings->dtypes.count > 0;
    for (size_t i = 0; all_dtypes[i] && !is_given; i++)
        strlist_add (&settings->dtypes, all_dtypes[i]);
    return settings->dtypes.failed ? fail_nomem (fail) : 0;
}

/* A local folder does not say which library made it, but its configuration does. */
static int
find_library (struct estimate_model *model, const struct settings *settings, struct fail *fail)
{
    const char *library = settings->library_name;
    if (model->library)
        return 0;
    if (!library && estimate_text (model, "model_type"))
        library = "transformers";
    else if (!library && estimate_text (model, "architecture"))
        library = "timm";
    if (library && !(model->library = strdup (library)))
        return fail_nomem (fail);
    return 0;
}

/* Whether config.json names code for the model, not only for its tokenizer. */
static bool
has_code (const struct estimate_model *model)
{
    const struct node *map = node_find (&model->config.root, "auto_map");
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const char *key = map->items[i].key;
        if (key && (!strcmp (key, "AutoConfig") || !strncmp (key, "AutoModel", 9)))
            return true;
    }
    return false;
}

/* Accelerate runs the model's own code if it must: not if transformers has code for this type of model, too.  Nothing
 * is run here, but which sizes follow from the type of another model is not known. */
static int
check_code (const struct estimate_model *model, const struct settings *settings, const char *name, struct fail *fail)
{
    if (settings->trust_remote_code || estimate_knows_type (model) || !has_code (model))
        return 0;
    return fail_set (fail, FAIL_GENERAL, "model '%s' comes with code of its own, which decides what it needs: add "
                     "--trust_remote_code to count the tensors of its files (no code is run)", name);
}

static int
estimate (const struct settings *settings, bool wants_training, const char *name, struct fail *fail)
{
    struct estimate_model model = { 0 };
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_STRBUF struct strbuf shown = { 0 };
    home_add (&path, name);
    printable_add (&shown, name);
    if (path.failed || shown.failed)
        return fail_nomem (fail);
    int result = access (path.text, F_OK) ? estimate_read_hub (&model, settings, name, fail)
                                          : estimate_read_local (&model, path.text, settings->follow_links, fail);
    if (!result)
        result = find_library (&model, settings, fail) || check_code (&model, settings, name, fail)
                         || estimate_unpack (&model, shown.text, fail) || estimate_arrange (&model, fail)
                     ? -1
                     : 0;
    if (!result) {
        struct estimate_report report = { .name = shown.text, .settings = settings, .model = &model,
                                          .wants_training = wants_training };
        estimate_measure (&model, &report.sizes);
        result = settings->json ? estimate_show_json (&report, &out, fail) : estimate_show (&report, &out, fail);
    }
    if (!result)
        result = print_text (&out, fail);
    fflush (stdout);
    if (!result && model.is_total && !settings->json)
        fputs ("accelerate: note: the files are pickled: their index has the size of all tensors together, a head's "
               "and buffers included\n", stderr);
    estimate_model_release (&model);
    return result;
}

static bool
is_given (const struct config *config, const char *key)
{
    return config_origin (config, key).kind == ORIGIN_FLAG;
}

int
cmd_estimate_memory (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    int status = config_load_command (&config, COMMAND_ESTIMATE_MEMORY, argc, argv, 1, fail);
    if (!status)
        status = check (&config.settings, &config.words, fail);
    if (!status)
        status = estimate (&config.settings,
                           is_given (&config, "training") || is_given (&config, "zero_stage")
                               || (is_given (&config, "num_processes") && !config.settings.sharding),
                           config.words.items[0], fail);
    return status;
}
