/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution: checks and hyperparameters; see distribution.h. */
#include <config.h>

#include "sagemaker/distribution.h"

#include "sagemaker/estimator.h"
#include "sagemaker/images.h"
#include "sagemaker/python_json.h"
#include "util/text.h"

#include <stdbool.h>
#include <string.h>

/* With which Amazon's library of this name works in the standard images. */
static const char *const data_parallel_versions[] = {
    "1.6", "1.6.0", "1.7", "1.7.1", "1.8", "1.8.0", "1.8.1", "1.9", "1.9.0", "1.9.1", "1.10", "1.10.0", "1.10.2",
    "1.11", "1.11.0", "1.12", "1.12.0", "1.12.1", "1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.1.2", "2.2.0", NULL,
};
static const char *const torch_versions[] = {
    "1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.1.2", "2.2.0", "2.3.0", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1",
    "2.8.0", NULL,
};
static const char *const trainium_versions[] = {
    "1.11", "1.11.0", "1.12", "1.12.0", "1.12.1", "1.13.1", "2.0.0", NULL,
};

/* In which Amazon's data-parallel library does not work. */
#define UNSUITED_IMAGE "2.0.1-gpu-py310-cu121"

static bool
is_enabled (const json_t *strategy)
{
    return json_is_true (json_object_get (strategy, "enabled"));
}

/* Nothing is sent if it cannot be sent: JSON of a new @value is added. */
static int
put (json_t *added, const char *name, json_t *value, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (value)
        python_json_add (&text, value);
    json_decref (value);
    if (text.failed || !text.length
        || json_object_set_new (added, name, json_string (text.text)))
        return fail_nomem (fail);
    return 0;
}

/* @return the value of @key, or the default, as a new reference */
static json_t *
get (const json_t *map, const char *key, json_t *otherwise)
{
    json_t *value = json_object_get (map, key);
    if (!value)
        return otherwise;
    json_decref (otherwise);
    return json_incref (value);
}

static int
check_shapes (const json_t *distribution, struct fail *fail)
{
    static const char *const names[] = { "mpi", "parameter_server", "pytorchddp", "smdistributed", "torch_distributed",
                                         NULL };
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *) distribution, key, value) {
        if (!text_is_one_of (key, names))
            return fail_set (fail, FAIL_GENERAL, "distribution: unknown strategy '%s'; expected mpi, "
                             "parameter_server, pytorchddp, smdistributed or torch_distributed", key);
        if (!json_is_object (value))
            return fail_set (fail, FAIL_GENERAL, "distribution: %s: expected a mapping", key);
    }
    const json_t *own = json_object_get (distribution, "smdistributed");
    if (json_object_size (own) > 1)
        return fail_set (fail, FAIL_GENERAL, "distribution: smdistributed can have only one strategy");
    json_object_foreach ((json_t *) own, key, value) {
        if (strcmp (key, "dataparallel"))
            return fail_set (fail, FAIL_GENERAL, "distribution: smdistributed: '%s' is not supported, only "
                             "dataparallel", key);
        if (!json_is_object (value))
            return fail_set (fail, FAIL_GENERAL, "distribution: smdistributed: %s: expected a mapping", key);
    }
    return 0;
}

static int
check_torch (const json_t *arguments, const char *instance, struct fail *fail)
{
    const char *version = estimator_text (arguments, "pytorch_version");
    if (estimator_text (arguments, "image_uri"))
        return 0;
    const char *const *versions = instance_is (instance, "trn") ? trainium_versions : torch_versions;
    if (!version || !text_is_one_of (version, versions))
        return fail_set (fail, FAIL_GENERAL, "distribution: torch_distributed does not work with PyTorch %s on %s; it "
                         "needs %s or later", version ? version : "?", instance, versions[0]);
    return 0;
}

static int
check_data_parallel (const json_t *arguments, const char *instance, struct fail *fail)
{
    const char *version = estimator_text (arguments, "pytorch_version");
    const char *image = estimator_text (arguments, "image_uri");
    if (strstr (instance, "p5.48xlarge"))
        return fail_set (fail, FAIL_GENERAL, "DATA_PARALLEL: Amazon's data-parallel library does not work on %s; use "
                         "'distribution: {torch_distributed: {enabled: true}}' in additional_args", instance);
    if (image && strstr (image, UNSUITED_IMAGE))
        return fail_set (fail, FAIL_GENERAL, "DATA_PARALLEL: Amazon's data-parallel library does not work in %s",
                         image);
    if (!image && (!version || !text_is_one_of (version, data_parallel_versions)))
        return fail_set (fail, FAIL_GENERAL, "DATA_PARALLEL: Amazon's data-parallel library does not work with PyTorch "
                         "%s, only with 1.6 to 2.2.0", version ? version : "?");
    return 0;
}

static int
check (const json_t *arguments, const json_t *distribution, const char *instance, struct fail *fail)
{
    bool is_torch = is_enabled (json_object_get (distribution, "torch_distributed"));
    const json_t *own = json_object_get (distribution, "smdistributed");
    if (check_shapes (distribution, fail))
        return -1;
    if (instance_is (instance, "trn") && json_object_size (distribution)
        && (json_object_size (distribution) > 1 || !json_object_get (distribution, "torch_distributed")))
        return fail_set (fail, FAIL_GENERAL, "distribution: only torch_distributed works on %s", instance);
    if (is_torch && check_torch (arguments, instance, fail))
        return -1;
    return own && !is_torch && is_enabled (json_object_get (own, "dataparallel"))
               ? check_data_parallel (arguments, instance, fail) : 0;
}

static int
add_mpi (json_t *added, const json_t *mpi, struct fail *fail)
{
    const json_t *processes = json_object_get (mpi, "processes_per_host");
    if (put (added, "sagemaker_mpi_enabled", get (mpi, "enabled", json_false ()), fail))
        return -1;
    if (json_integer_value (processes)
        && put (added, "sagemaker_mpi_num_of_processes_per_host", get (mpi, "processes_per_host", NULL), fail))
        return -1;
    return put (added, "sagemaker_mpi_custom_mpi_options", get (mpi, "custom_mpi_options", json_string ("")), fail);
}

static int
add_own (json_t *added, const json_t *own, const char *instance, struct fail *fail)
{
    const json_t *parallel = json_object_get (own, "dataparallel");
    if (put (added, "sagemaker_distributed_dataparallel_enabled", json_boolean (is_enabled (parallel)), fail)
        || put (added, "sagemaker_instance_type", json_string (instance), fail))
        return -1;
    return is_enabled (parallel) ? put (added, "sagemaker_distributed_dataparallel_custom_mpi_options",
                                        get (parallel, "custom_mpi_options", json_string ("")), fail)
                                 : 0;
}

int
distribution_add (const json_t *arguments, json_t *added, struct fail *fail)
{
    const json_t *distribution = estimator_value (arguments, "distribution");
    const char *instance = estimator_text (arguments, "instance_type");
    if (!distribution)
        return 0;
    if (check (arguments, distribution, instance, fail))
        return -1;
    const json_t *ddp = json_object_get (distribution, "pytorchddp");
    bool is_torch = !ddp && is_enabled (json_object_get (distribution, "torch_distributed"));
    if (is_torch || is_enabled (ddp))
        return put (added, is_torch ? "sagemaker_torch_distributed_enabled" : "sagemaker_pytorch_ddp_enabled",
                    json_true (), fail)
               || put (added, "sagemaker_instance_type", json_string (instance), fail) ? -1 : 0;
    const json_t *servers = json_object_get (distribution, "parameter_server");
    if (servers && put (added, "sagemaker_parameter_server_enabled", get (servers, "enabled", json_false ()), fail))
        return -1;
    const json_t *mpi = json_object_get (distribution, "mpi"), *own = json_object_get (distribution, "smdistributed");
    if ((mpi && add_mpi (added, mpi, fail)) || (own && add_own (added, own, instance, fail)))
        return -1;
    return 0;
}
