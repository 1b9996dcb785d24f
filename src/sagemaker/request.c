/* SPDX-License-Identifier: Apache-2.0 */
/* The request that creates a training job, and where its archive goes; see training.h. */
#include <config.h>

#include "sagemaker/images.h"
#include "sagemaker/python_json.h"
#include "sagemaker/training.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

enum { VOLUME_GB = 30, RUN_SECONDS = 86400, LOG_LEVEL = 20 };

/* Amazon's limits. */
enum { MOST_HYPERPARAMETERS = 100, MOST_HYPERPARAMETER_NAME = 256, MOST_HYPERPARAMETER = 2500, MOST_VARIABLES = 100,
       MOST_VARIABLE = 512, MOST_METRICS = 40, MOST_CHANNELS = 20 };

/* Where SageMaker has no profiler. */
static const char *const without_profiler[] = {
    "us-iso-east-1", "us-isob-east-1", "ap-southeast-3", "ap-southeast-4", "eu-south-2", "me-central-1", "ap-south-2",
    "eu-central-2", "us-gov-east-1", NULL,
};

static bool
has_profiler (const char *region)
{
    return !text_is_one_of (region, without_profiler);
}

/* ---- the archive's place ---- */

/* Append the parts of a key, with one '/' between. */
static void
add_key (struct strbuf *out, const char *part)
{
    for (; *part; part++) {
        bool is_second = *part == '/' && (!out->length || out->text[out->length - 1] == '/');
        if (!is_second)
            strbuf_add_char (out, *part);
    }
    if (out->length && out->text[out->length - 1] != '/')
        strbuf_add_char (out, '/');
}

/* "s3://bucket/prefix". @param[out] bucket  owned  @return the prefix, in @address; NULL with @fail set */
static const char *
split_address (const char *name, const char *address, char **bucket, struct fail *fail)
{
    size_t length = strncmp (address, "s3://", 5) ? 0 : strcspn (address + 5, "/");
    if (!length) {
        fail_set (fail, FAIL_GENERAL, "additional_args: %s: '%s' is not an S3 address: expected s3://BUCKET/...", name,
                  address);
        return NULL;
    }
    *bucket = strndup (address + 5, length);
    if (!*bucket) {
        fail_nomem (fail);
        return NULL;
    }
    const char *rest = address + 5 + length;
    return rest + strspn (rest, "/");
}

static int
place_archive (const struct training *training, struct training_place *place, const char *output_bucket,
               const char *default_bucket, struct fail *fail)
{
    const char *location = training_text (training, "code_location"), *kms = training_text (training, "output_kms_key");
    const char *prefix = "";
    AUTO_STRBUF struct strbuf key = { 0 };
    if (location && !(prefix = split_address ("code_location", location, &place->bucket, fail)))
        return -1;
    if (!location && !(place->bucket = strdup (output_bucket)))
        return fail_nomem (fail);
    add_key (&key, prefix);
    add_key (&key, training->name);
    strbuf_add (&key, "source/sourcedir.tar.gz");
    place->key = strbuf_take (&key);
    place->is_default = !strcmp (place->bucket, default_bucket);
    if (kms && !strcmp (place->bucket, output_bucket)) /* the key may not be valid for other buckets */
        place->kms_key = strdup (kms);
    return place->key && (!kms || strcmp (place->bucket, output_bucket) || place->kms_key) ? 0 : fail_nomem (fail);
}

int
training_place (const struct training *training, const char *account, struct training_place *place, struct fail *fail)
{
    const char *output = training_text (training, "output_path");
    AUTO_STRBUF struct strbuf name = { 0 }, address = { 0 };
    AUTO_FREE char *output_bucket = NULL;
    *place = (struct training_place){ 0 };
    strbuf_printf (&name, "sagemaker-%s-%s", training->region, account);
    strbuf_printf (&address, "s3://%s/", name.failed ? "" : name.text);
    if (name.failed || address.failed)
        return fail_nomem (fail);
    place->output = strdup (output ? output : address.text);
    if (!place->output)
        return fail_nomem (fail);
    if (!split_address ("output_path", place->output, &output_bucket, fail)
        || (training->is_uploaded && place_archive (training, place, output_bucket, name.text, fail))) {
        training_place_release (place);
        return -1;
    }
    if (!output || place->is_default)
        place->needed = strbuf_take (&name);
    return 0;
}

void
training_place_release (struct training_place *place)
{
    free (place->output);
    free (place->bucket);
    free (place->key);
    free (place->kms_key);
    free (place->needed);
    *place = (struct training_place){ 0 };
}

/* ---- the request ---- */

struct draft {
    const struct training *training;
    const struct training_place *place;
    json_t *request;
    bool failed;
};

/* Add @value, which the object then owns, to an object of the request. */
static void
set (struct draft *draft, json_t *object, const char *key, json_t *value)
{
    draft->failed = json_object_set_new (object, key, value) || draft->failed;
}

/* A text, if there is one. (json_pack() leaves out an optional text that it has no memory for.) */
static void
set_text (struct draft *draft, json_t *object, const char *key, const char *text)
{
    if (text)
        set (draft, object, key, json_string (text));
}

/* An argument of the estimator under Amazon's name, if there is one. */
static void
copy (struct draft *draft, json_t *object, const char *key, const char *argument)
{
    const json_t *value = training_argument (draft->training, argument);
    if (value)
        set (draft, object, key, json_deep_copy (value));
}

/* The same of a switch, if it is on. */
static void
copy_if_on (struct draft *draft, const char *key, const char *argument)
{
    if (json_is_true (training_argument (draft->training, argument)))
        set (draft, draft->request, key, json_true ());
}

/* An object with one field, if there is the argument. */
static void
wrap (struct draft *draft, const char *key, const char *inner, const char *argument)
{
    const json_t *value = training_argument (draft->training, argument);
    if (value)
        set (draft, draft->request, key, json_pack ("{s:o}", inner, json_deep_copy (value)));
}

static json_t *
integer_or (const struct draft *draft, const char *argument, int otherwise)
{
    const json_t *value = training_argument (draft->training, argument);
    return json_integer (value ? json_integer_value (value) : otherwise);
}

static json_t *
algorithm (struct draft *draft)
{
    const char *mode = training_text (draft->training, "input_mode");
    json_t *spec = json_pack ("{s:s, s:s}", "TrainingImage", draft->training->image, "TrainingInputMode",
                              mode ? mode : "File");
    const char *access = training_text (draft->training, "training_repository_access_mode");
    const char *provider = training_text (draft->training, "training_repository_credentials_provider_arn");
    copy (draft, spec, "ContainerEntrypoint", "container_entry_point");
    copy (draft, spec, "ContainerArguments", "container_arguments");
    copy (draft, spec, "MetricDefinitions", "metric_definitions");
    if (!json_object_get (draft->training->arguments, "enable_sagemaker_metrics"))
        set (draft, spec, "EnableSageMakerMetricsTimeSeries", json_true ());
    copy (draft, spec, "EnableSageMakerMetricsTimeSeries", "enable_sagemaker_metrics");
    if (access) {
        json_t *config = json_pack ("{s:s}", "TrainingRepositoryAccessMode", access);
        if (provider)
            set (draft, config, "TrainingRepositoryAuthConfig",
                 json_pack ("{s:s}", "TrainingRepositoryCredentialsProviderArn", provider));
        set (draft, spec, "TrainingImageConfig", config);
    }
    return spec;
}

static json_t *
resources (struct draft *draft)
{
    json_t *config = json_pack ("{s:o}", "VolumeSizeInGB", integer_or (draft, "volume_size", VOLUME_GB));
    copy (draft, config, "VolumeKmsKeyId", "volume_kms_key");
    copy (draft, config, "KeepAlivePeriodInSeconds", "keep_alive_period_in_seconds");
    copy (draft, config, "InstanceCount", "instance_count");
    copy (draft, config, "InstanceType", "instance_type");
    copy (draft, config, "TrainingPlanArn", "training_plan");
    copy (draft, config, "InstancePlacementConfig", "instance_placement_config");
    return config;
}

static void
add_output (struct draft *draft)
{
    json_t *output = json_pack ("{s:s}", "S3OutputPath", draft->place->output);
    copy (draft, output, "KmsKeyId", "output_kms_key");
    if (json_is_true (training_argument (draft->training, "disable_output_compression")))
        set (draft, output, "CompressionType", json_string ("NONE"));
    set (draft, draft->request, "OutputDataConfig", output);
    json_t *stop = json_pack ("{s:o}", "MaxRuntimeInSeconds", integer_or (draft, "max_run", RUN_SECONDS));
    if (json_integer_value (training_argument (draft->training, "max_wait")))
        copy (draft, stop, "MaxWaitTimeInSeconds", "max_wait");
    set (draft, draft->request, "StoppingCondition", stop);
    const char *checkpoints = training_text (draft->training, "checkpoint_s3_uri");
    if (checkpoints) {
        json_t *config = json_pack ("{s:s}", "S3Uri", checkpoints);
        set_text (draft, config, "LocalPath", training_text (draft->training, "checkpoint_local_path"));
        set (draft, draft->request, "CheckpointConfig", config);
    }
}

static void
add_channel (struct draft *draft, json_t *list, const char *name, const char *address, bool is_model)
{
    json_t *channel = json_pack ("{s:s, s:{s:{s:s, s:s, s:s}}}", "ChannelName", name, "DataSource", "S3DataSource",
                                 "S3DataType", "S3Prefix", "S3Uri", address, "S3DataDistributionType",
                                 "FullyReplicated");
    set_text (draft, channel, "ContentType", is_model ? "application/x-sagemaker-model" : NULL);
    set_text (draft, channel, "InputMode", is_model ? "File" : NULL);
    draft->failed = json_array_append_new (list, channel) || draft->failed;
}

static bool
isolated (const struct draft *draft)
{
    return json_is_true (training_argument (draft->training, "enable_network_isolation"));
}

/* @param archive  its address */
static int
add_channels (struct draft *draft, const char *archive, struct fail *fail)
{
    const struct training *training = draft->training;
    const char *model = training_text (training, "model_uri"), *name = training_text (training, "model_channel_name");
    const char *channel;
    json_t *address, *list = json_array ();
    json_object_foreach (training->channels, channel, address)
        add_channel (draft, list, channel, json_string_value (address), false);
    name = name ? name : "model";
    if ((model && json_object_get (training->channels, name))
        || (isolated (draft) && json_object_get (training->channels, "code"))) {
        json_decref (list);
        return fail_set (fail, FAIL_GENERAL, "duplicate channel '%s'; rename the one in sagemaker_inputs_file",
                         model && json_object_get (training->channels, name) ? name : "code");
    }
    if (model)
        add_channel (draft, list, name, model, true);
    if (isolated (draft))
        add_channel (draft, list, "code", archive, false);
    if (json_array_size (list) || training->channels)
        set (draft, draft->request, "InputDataConfig", list);
    else
        json_decref (list);
    return 0;
}

static void
add_profiler (struct draft *draft)
{
    const struct training *training = draft->training;
    bool is_off = !has_profiler (training->region) || instance_is (training_text (training, "instance_type"), "trn")
                  || json_is_true (training_argument (training, "disable_profiler"));
    json_t *config = json_pack ("{s:b}", "DisableProfiler", is_off);
    set_text (draft, config, "S3OutputPath", is_off ? NULL : draft->place->output);
    set (draft, draft->request, "ProfilerConfig", config);
    if (!json_is_false (json_object_get (training->arguments, "debugger_hook_config"))
        && has_profiler (training->region))
        set (draft, draft->request, "DebugHookConfig",
             json_pack ("{s:s, s:[]}", "S3OutputPath", draft->place->output, "CollectionConfigurations"));
}

static void
add_vpc_and_tags (struct draft *draft)
{
    const json_t *tags = training_argument (draft->training, "tags");
    const char *key;
    json_t *value;
    if (training_argument (draft->training, "subnets")) {
        json_t *vpc = json_object ();
        copy (draft, vpc, "Subnets", "subnets");
        copy (draft, vpc, "SecurityGroupIds", "security_group_ids");
        set (draft, draft->request, "VpcConfig", vpc);
    }
    if (!json_is_object (tags)) {
        copy (draft, draft->request, "Tags", "tags");
        return;
    }
    json_t *list = json_array ();
    json_object_foreach ((json_t *) tags, key, value) {
        AUTO_STRBUF struct strbuf text = { 0 };
        python_text_add (&text, value);
        json_t *tag = json_pack ("{s:s, s:s}", "Key", key, "Value", text.text ? text.text : "");
        draft->failed = json_array_append_new (list, tag) || text.failed || draft->failed;
    }
    set (draft, draft->request, "Tags", list);
}

/* Those that tell the container where the script is. */
static void
add_hyperparameters (struct draft *draft, const char *archive)
{
    const struct training *training = draft->training;
    const char *slash = training->source || !training->is_uploaded ? NULL : strrchr (training->entry, '/');
    json_t *all = json_deep_copy (training->hyperparameters);
    const struct {
        const char *name;
        json_t *value;
    } rows[] = {
        { "sagemaker_submit_directory",
          json_string (isolated (draft) ? "/opt/ml/input/data/code/sourcedir.tar.gz" : archive) },
        { "sagemaker_program", json_string (slash ? slash + 1 : training->entry) },
        { "sagemaker_container_log_level", integer_or (draft, "container_log_level", LOG_LEVEL) },
        { "sagemaker_job_name", json_string (training->name) },
        { "sagemaker_region", json_string (training->region) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        if (rows[i].value)
            python_json_add (&text, rows[i].value);
        json_decref (rows[i].value);
        set (draft, all, rows[i].name, text.length && !text.failed ? json_string (text.text) : NULL);
    }
    set (draft, draft->request, "HyperParameters", all);
}

static int
check_map (const json_t *map, const char *what, size_t most, size_t most_name, size_t most_value, struct fail *fail)
{
    const char *name;
    json_t *value;
    if (json_object_size (map) > most)
        return fail_set (fail, FAIL_GENERAL, "%zu %ss, but a SageMaker job can have %zu at most",
                         json_object_size (map), what, most);
    json_object_foreach ((json_t *) map, name, value) {
        if (!*name || strlen (name) > most_name)
            return fail_set (fail, FAIL_GENERAL, "%s '%.40s': the name must have 1 to %zu bytes", what, name,
                             most_name);
        if (json_string_length (value) > most_value)
            return fail_set (fail, FAIL_GENERAL, "%s '%s' has %zu bytes, but %zu are the maximum", what, name,
                             json_string_length (value), most_value);
    }
    return 0;
}

static int
check_limits (const json_t *request, struct fail *fail)
{
    const json_t *metrics = json_object_get (json_object_get (request, "AlgorithmSpecification"), "MetricDefinitions");
    if (json_array_size (metrics) > MOST_METRICS)
        return fail_set (fail, FAIL_GENERAL, "%zu metrics, but a SageMaker job can have %d at most",
                         json_array_size (metrics), (int) MOST_METRICS);
    if (json_array_size (json_object_get (request, "InputDataConfig")) > MOST_CHANNELS)
        return fail_set (fail, FAIL_GENERAL, "a SageMaker job can have %d input channels at most", (int) MOST_CHANNELS);
    return check_map (json_object_get (request, "HyperParameters"), "argument", MOST_HYPERPARAMETERS,
                      MOST_HYPERPARAMETER_NAME, MOST_HYPERPARAMETER, fail)
                   || check_map (json_object_get (request, "Environment"), "environment variable", MOST_VARIABLES,
                                 MOST_VARIABLE, MOST_VARIABLE, fail)
               ? -1 : 0;
}

json_t *
training_request (const struct training *training, const struct training_place *place, const char *role,
                  struct fail *fail)
{
    struct draft draft = { .training = training, .place = place };
    AUTO_STRBUF struct strbuf archive = { 0 };
    if (training->is_uploaded)
        strbuf_printf (&archive, "s3://%s/%s", place->bucket, place->key);
    else
        strbuf_add (&archive, training_text (training, "source_dir"));
    if (!archive.failed)
        draft.request = json_pack ("{s:s, s:s}", "TrainingJobName", training->name, "RoleArn", role);
    if (!draft.request) {
        fail_nomem (fail);
        return NULL;
    }
    set (&draft, draft.request, "AlgorithmSpecification", algorithm (&draft));
    set (&draft, draft.request, "ResourceConfig", resources (&draft));
    add_output (&draft);
    if (add_channels (&draft, archive.text, fail))
        goto error;
    add_hyperparameters (&draft, archive.text);
    copy (&draft, draft.request, "Environment", "environment");
    add_vpc_and_tags (&draft);
    add_profiler (&draft);
    copy_if_on (&draft, "EnableNetworkIsolation", "enable_network_isolation");
    copy_if_on (&draft, "EnableInterContainerTrafficEncryption", "encrypt_inter_container_traffic");
    copy_if_on (&draft, "EnableManagedSpotTraining", "use_spot_instances");
    wrap (&draft, "RetryStrategy", "MaximumRetryAttempts", "max_retry_attempts");
    wrap (&draft, "InfraCheckConfig", "EnableInfraCheck", "enable_infra_check");
    wrap (&draft, "RemoteDebugConfig", "EnableRemoteDebug", "enable_remote_debug");
    wrap (&draft, "SessionChainingConfig", "EnableSessionTagChaining", "enable_session_tag_chaining");
    if (draft.failed) {
        fail_nomem (fail);
        goto error;
    }
    if (check_limits (draft.request, fail))
        goto error;
    return draft.request;
error:
    json_decref (draft.request);
    return NULL;
}
