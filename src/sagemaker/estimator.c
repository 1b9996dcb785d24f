/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and additional_args as the estimator's arguments; see estimator.h. */
#include <config.h>

#include "sagemaker/estimator.h"

#include "config/envmap.h"
#include "sagemaker/python_json.h"
#include "sagemaker/tables.h"
#include "util/cleanup.h"
#include "util/suggest.h"
#include "util/text.h"
#include "util/utf8.h"

#include <string.h>

enum kind { TEXT, INTEGER, TRUTH, TEXTS, MAP, LIST, LIST_OR_MAP, ANY };

static const char *const kind_names[] = { "a text", "an integer", "true or false", "a list of texts", "a mapping",
                                          "a list", "a list or a mapping", "anything" };

/* Those of the class HuggingFace and its bases that a file can express. */
static const struct argument {
    const char *name;
    enum kind kind;
    const char *old; /* a name of older releases, still accepted */
} known[] = {
    { "base_job_name", TEXT, NULL },
    { "checkpoint_local_path", TEXT, NULL },
    { "checkpoint_s3_uri", TEXT, NULL },
    { "code_location", TEXT, NULL },
    { "container_arguments", TEXTS, NULL },
    { "container_entry_point", TEXTS, NULL },
    { "container_log_level", INTEGER, NULL },
    { "debugger_hook_config", TRUTH, NULL },
    { "dependencies", TEXTS, NULL },
    { "disable_output_compression", TRUTH, NULL },
    { "disable_profiler", TRUTH, NULL },
    { "distribution", MAP, NULL },
    { "enable_infra_check", TRUTH, NULL },
    { "enable_network_isolation", TRUTH, NULL },
    { "enable_remote_debug", TRUTH, NULL },
    { "enable_sagemaker_metrics", TRUTH, NULL },
    { "enable_session_tag_chaining", TRUTH, NULL },
    { "encrypt_inter_container_traffic", TRUTH, NULL },
    { "entry_point", TEXT, NULL },
    { "environment", MAP, NULL },
    { "hyperparameters", MAP, NULL },
    { "image_uri", TEXT, "image_name" },
    { "input_mode", TEXT, NULL },
    { "instance_count", INTEGER, "train_instance_count" },
    { "instance_placement_config", MAP, NULL },
    { "instance_type", TEXT, "train_instance_type" },
    { "keep_alive_period_in_seconds", INTEGER, NULL },
    { "max_retry_attempts", INTEGER, NULL },
    { "max_run", INTEGER, "train_max_run" },
    { "max_wait", INTEGER, "train_max_wait" },
    { "metric_definitions", LIST, NULL },
    { "model_channel_name", TEXT, NULL },
    { "model_uri", TEXT, NULL },
    { "output_kms_key", TEXT, NULL },
    { "output_path", TEXT, NULL },
    { "py_version", TEXT, NULL },
    { "pytorch_version", TEXT, NULL },
    { "role", TEXT, NULL },
    { "security_group_ids", TEXTS, NULL },
    { "source_dir", TEXT, NULL },
    { "subnets", TEXTS, NULL },
    { "tags", LIST_OR_MAP, NULL },
    { "training_plan", TEXT, NULL },
    { "training_repository_access_mode", TEXT, NULL },
    { "training_repository_credentials_provider_arn", TEXT, NULL },
    { "transformers_version", TEXT, NULL },
    { "use_spot_instances", TRUTH, "train_use_spot_instances" },
    { "volume_kms_key", TEXT, "train_volume_kms_key" },
    { "volume_size", INTEGER, "train_volume_size" },
};

/* Those whose values are objects of Python, or that make no sense here. */
static const char *const impossible[] = { "compiler_config", "git_config", "instance_groups", "is_nova_job",
                                          "profiler_config", "rules", "sagemaker_session", "tensorboard_output_config",
                                          "tensorflow_version", NULL };

static bool
all_texts (const json_t *list)
{
    for (size_t i = 0; i < json_array_size (list); i++)
        if (!json_is_string (json_array_get (list, i)))
            return false;
    return json_is_array (list);
}

static bool
is_kind (const json_t *value, enum kind kind)
{
    switch (kind) {
    case TEXT: return json_is_string (value);
    case INTEGER: return json_is_integer (value);
    case TRUTH: return json_is_boolean (value);
    case TEXTS: return all_texts (value);
    case MAP: return json_is_object (value);
    case LIST: return json_is_array (value);
    case LIST_OR_MAP: return json_is_array (value) || json_is_object (value);
    case ANY: break;
    }
    return true;
}

static const struct argument *
find_argument (const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp (known[i].name, name) || (known[i].old && !strcmp (known[i].old, name)))
            return &known[i];
    return NULL;
}

static int
refuse_name (const char *name, struct fail *fail)
{
    char space[96];
    struct suggest suggest = { .wanted = name };
    if (text_is_one_of (name, impossible))
        return fail_set (fail, FAIL_GENERAL, "'%s' is for Python programs only; see accelerate-sagemaker(7)", name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        suggest_consider (&suggest, known[i].name);
    return fail_set (fail, FAIL_GENERAL, "unknown key '%s'%s", name, suggest_text (&suggest, "", space, sizeof space));
}

/* Values of mappings are merged one by one, all others replaced. */
/* NOLINTNEXTLINE(misc-no-recursion): values are at most NODE_DEEPEST deep */
static int
merge (json_t *into, const json_t *from)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *) from, key, value) {
        json_t *old = json_object_get (into, key);
        if (json_is_object (value) && json_is_object (old)) {
            if (merge (old, value))
                return -1;
        } else if (json_object_set (into, key, value))
            return -1;
    }
    return 0;
}

/* Environment variables and tags. */
static int
check_texts (const char *name, const json_t *map, struct fail *fail)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *) map, key, value)
        if (!json_is_string (value))
            return fail_set (fail, FAIL_GENERAL, "%s: %s: expected a string; put it in quotes", name, key);
    return 0;
}

static int
add_more (json_t *arguments, const struct node *more, struct fail *fail)
{
    if (more->kind != NODE_MAP)
        return more->kind == NODE_NULL ? 0 : fail_set (fail, FAIL_GENERAL, "expected a mapping");
    json_t *values = python_json_of_node (more, fail);
    json_t *renamed = values ? json_object () : NULL;
    const char *name;
    json_t *value;
    int result = renamed ? 0 : values ? fail_nomem (fail) : -1;
    json_object_foreach (values, name, value) {
        const struct argument *argument = find_argument (name);
        if (!result && !argument)
            result = refuse_name (name, fail);
        if (!result && !json_is_null (value) && !is_kind (value, argument->kind))
            result = fail_set (fail, FAIL_GENERAL, "%s: expected %s%s", name, kind_names[argument->kind],
                               argument->kind == TEXT && json_is_number (value) ? "; put it in quotes" : "");
        if (!result && !strcmp (name, "environment") && json_is_object (value))
            result = check_texts (name, value, fail);
        if (!result && json_object_set (renamed, argument->name, value))
            result = fail_nomem (fail);
    }
    if (!result && merge (arguments, renamed))
        result = fail_nomem (fail);
    json_decref (renamed);
    json_decref (values);
    return result;
}

static json_t *
text_or_null (const char *text)
{
    return text && *text ? json_string (text) : json_null ();
}

/* What ranks get here, and two variables that say where they run. */
static json_t *
environment_of (const struct config *config, struct fail *fail)
{
    AUTO_STRLIST struct strlist list = { 0 };
    json_t *environment = json_object ();
    if (envmap_emit (config, PATH_SAGEMAKER, &list, fail))
        goto error;
    strlist_add (&list, "ACCELERATE_USE_SAGEMAKER=true");
    strlist_printf (&list, "ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE=%s", config->settings.distributed_type);
    if (list.failed || !environment) {
        fail_nomem (fail);
        goto error;
    }
    for (size_t i = 0; i < list.count; i++) {
        char *equals = strchr (list.items[i], '=');
        *equals = '\0';
        if (json_object_set_new (environment, list.items[i], json_string (equals + 1))) {
            python_json_refuse (equals + 1, fail, FAIL_GENERAL, "the value for %s is not valid UTF-8", list.items[i]);
            goto error;
        }
    }
    return environment;
error:
    json_decref (environment);
    return NULL;
}

/* The script's folder and its name in it. */
static int
add_script (json_t *arguments, const char *program, struct fail *fail)
{
    const char *slash = strrchr (program, '/');
    const char *name = slash ? slash + 1 : program;
    size_t length = strlen (name);
    if (length > 6 && !strcmp (name + length - 6, ".ipynb"))
        return fail_set (fail, FAIL_USAGE, "%s: is a notebook: convert it with 'jupyter nbconvert --to script', "
                         "and launch the result", program);
    if (length < 4 || strcmp (name + length - 3, ".py"))
        return fail_set (fail, FAIL_USAGE, "%s: SageMaker starts Python scripts only, and this is not the name of one",
                         program);
    json_t *folder = !slash ? json_string (".") : slash == program ? json_string ("/")
                     : json_stringn (program, (size_t) (slash - program));
    if (json_object_set_new (arguments, "source_dir", folder)
        || json_object_set_new (arguments, "entry_point", json_string (name)))
        return python_json_refuse (program, fail, FAIL_USAGE, "the path of the script is not valid UTF-8");
    return 0;
}

/* After jansson has not taken one of them. */
static int
refuse_settings (const struct settings *settings, struct fail *fail)
{
    const char *const texts[] = { settings->image_uri, settings->iam_role_name, settings->transformers_version,
                                  settings->pytorch_version, settings->py_version, settings->base_job_name,
                                  settings->ec2_instance_type };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && !utf8_is_valid (texts[i], strlen (texts[i])))
            return fail_set (fail, FAIL_GENERAL, "a value of the configuration is not valid UTF-8");
    return fail_nomem (fail);
}

static int
add_settings (json_t *arguments, const struct config *config, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    json_t *environment = environment_of (config, fail);
    json_t *metrics = NULL, *distribution = NULL;
    if (!environment)
        return -1;
    if (settings->sagemaker_metrics_file && tables_read_metrics (settings->sagemaker_metrics_file, &metrics, fail)) {
        json_decref (environment);
        return -1;
    }
    if (!strcmp (settings->distributed_type, "DATA_PARALLEL"))
        distribution = json_pack ("{s:{s:{s:b}}}", "smdistributed", "dataparallel", "enabled", 1);
    const struct {
        const char *name;
        json_t *value;
    } values[] = {
        { "image_uri", text_or_null (settings->image_uri) },
        { "role", text_or_null (settings->iam_role_name) },
        { "transformers_version", json_string (settings->transformers_version ? settings->transformers_version
                                                                              : "4.17.0") },
        { "pytorch_version", json_string (settings->pytorch_version ? settings->pytorch_version : "1.10.2") },
        { "py_version", json_string (settings->py_version ? settings->py_version : "py38") },
        { "base_job_name", json_string (settings->base_job_name ? settings->base_job_name
                                                                : "accelerate-sagemaker-1") },
        { "instance_count", json_integer (settings->num_machines > 0 ? settings->num_machines : 1) },
        { "instance_type", text_or_null (settings->ec2_instance_type) },
        { "debugger_hook_config", json_false () },
        { "distribution", distribution ? distribution : json_null () },
        { "environment", environment },
        { "metric_definitions", metrics ? metrics : json_null () },
    };
    bool failed = false;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        failed = json_object_set_new (arguments, values[i].name, values[i].value) || failed;
    return failed ? refuse_settings (settings, fail) : 0;
}

const json_t *
estimator_value (const json_t *arguments, const char *name)
{
    const json_t *value = json_object_get (arguments, name);
    return json_is_null (value) ? NULL : value;
}

const char *
estimator_text (const json_t *arguments, const char *name)
{
    const char *text = json_string_value (estimator_value (arguments, name));
    return text && *text ? text : NULL;
}

json_t *
estimator_arguments (const struct config *config, struct fail *fail)
{
    json_t *arguments = json_object ();
    if (!arguments) {
        fail_nomem (fail);
        return NULL;
    }
    if (config->settings.module || config->settings.no_python) {
        fail_set (fail, FAIL_USAGE, "SageMaker starts a script: --%s is not possible",
                  config->settings.module ? "module" : "no_python");
        goto error;
    }
    if (add_script (arguments, config->program, fail) || add_settings (arguments, config, fail))
        goto error;
    if (add_more (arguments, &config->additional_args, fail)) {
        fail_prefix (fail, "%s:%d: additional_args", config->file ? config->file : "", config->additional_args.line);
        goto error;
    }
    return arguments;
error:
    json_decref (arguments);
    return NULL;
}
