/* SPDX-License-Identifier: Apache-2.0 */
/* The questionnaire for Amazon SageMaker: Hugging Face Accelerate's questions in its order.  Accelerate also asks for
 * an access key, creates the role with it and forgets it; here the role is created after the last answer, with the
 * keys that Amazon's tools would use, so there is no such question. */
#include <config.h>

#include "cli/questions/questions.h"
#include "util/precisions.h"

#include "cli/questions/dynamo.h"

#define ROLE "accelerate_sagemaker_execution_role" /* that Accelerate makes */

static const struct choice authorizations[] = {
    { "profile", "AWS profile" },
    { "credentials", "Credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) in the environment of each launch" },
    { NULL },
};

static const struct choice roles[] = {
    { "name", "An existing IAM role, by name" },
    { "create", "A new IAM role, accelerate_sagemaker_execution_role, which is created now" },
    { NULL },
};

static const struct choice modes[] = {
    { "NO", "No distributed training" }, { "DATA_PARALLEL", "Data parallelism" }, { NULL },
};

static const struct choice parallel_instances[] = {
    { "ml.p3.16xlarge" }, { "ml.p3dn.24xlarge" }, { "ml.p4dn.24xlarge" }, { NULL },
};

static const char *
recall_authorization (const struct config *old)
{
    if (old->settings.profile)
        return "profile";
    return config_origin (old, "iam_role_name").kind == ORIGIN_FILE ? "credentials" : NULL;
}

static const char *
recall_role (const struct config *old)
{
    return old->settings.iam_role_name ? "name" : NULL;
}

static const struct question rows[] = {
    { .id = "authorization", .kind = ASK_MENU, .choices = authorizations, .dflt = "profile",
      .recall = recall_authorization, .told_by = "profile",
      .text = "How do you want to authenticate with AWS?" },
    { .id = "profile", .kind = ASK_VALUE, .dflt = "default", .if_answer = { "authorization", "profile" },
      .text = "What is the name of your AWS profile?" },
    { .id = "region", .kind = ASK_VALUE, .dflt = "us-east-1",
      .text = "What is your AWS region?" },
    { .id = "role", .kind = ASK_MENU, .choices = roles, .dflt = "name", .recall = recall_role,
      .told_by = "iam_role_name",
      .text = "Which IAM role should run the Amazon SageMaker jobs?" },
    { .id = "iam_role_name", .kind = ASK_VALUE, .dflt = ROLE, .if_answer = { "role", "name" },
      .text = "What is the name of the IAM role?" },
    { .id = "use_image", .kind = ASK_YES_NO, .dflt = "no", .told_by = "image_uri",
      .text = "Do you want to use a custom Docker image?" },
    { .id = "image_uri", .kind = ASK_VALUE, .if_answer = { "use_image", "yes" },
      .text = "What is the URI of your Docker image?" },
    { .id = "use_inputs", .kind = ASK_YES_NO, .dflt = "no", .told_by = "sagemaker_inputs_file",
      .text = "Do you want to use SageMaker input channels?" },
    { .id = "sagemaker_inputs_file", .kind = ASK_PATH, .if_answer = { "use_inputs", "yes" },
      .text = "What is the path to the TSV file of inputs (columns channel_name and data_location)?" },
    { .id = "use_metrics", .kind = ASK_YES_NO, .dflt = "no", .told_by = "sagemaker_metrics_file",
      .text = "Do you want to enable SageMaker metrics?" },
    { .id = "sagemaker_metrics_file", .kind = ASK_PATH, .if_answer = { "use_metrics", "yes" },
      .text = "What is the path to the TSV file of metrics (columns metric_name and metric_regex)?" },
    { .id = "distributed_type", .kind = ASK_MENU, .choices = modes, .dflt = "NO",
      .text = "Which distributed mode do you want to use?" },

#define QUESTIONS_DYNAMO_ROWS
#include "cli/questions/dynamo.h"
#include "config/values.h"
#undef QUESTIONS_DYNAMO_ROWS

    { .id = "ec2_instance_type", .kind = ASK_MENU, .choices = parallel_instances, .dflt = "ml.p3.16xlarge",
      .if_answer = { "distributed_type", "DATA_PARALLEL" },
      .text = "Which EC2 instance type do you want to use?" },
    { .id = "ec2_instance_type", .kind = ASK_LOWER, .dflt = "ml.p3.2xlarge", .if_answer = { "distributed_type", "NO" },
      .text = "Which EC2 instance type do you want to use?" },
    { .id = "debug", .kind = ASK_YES_NO, .dflt = "no", .if_answer = { "distributed_type", "DATA_PARALLEL" },
      .text = "Do you want to check distributed operations for errors at run time (slower)?" },
    { .id = "num_machines", .kind = ASK_VALUE, .dflt = "1", .if_answer = { "distributed_type", "DATA_PARALLEL" },
      .text = "How many machines do you want to use?" },
    { .id = "mixed_precision", .kind = ASK_MENU, .choices = precisions, .dflt = "no",
      .text = "Which mixed precision do you want to use?" },
};

static const struct fixed_value fixed[] = {
    { .key = "debug", .text = "false" },
    { .key = "use_cpu", .text = "false" },
    { .key = "num_machines", .text = "1" },
    { .key = "gpu_ids", .text = "all", .keep = true },
    { .key = "enable_cpu_affinity", .text = "false", .keep = true },
    { .key = "iam_role_name", .text = ROLE },
    { .key = "base_job_name", .text = "accelerate-sagemaker-1", .keep = true },
    { .key = "py_version", .text = "py38", .keep = true },
    { .key = "pytorch_version", .text = "1.10.2", .keep = true },
    { .key = "transformers_version", .text = "4.17.0", .keep = true },
};

const struct question_list questions_sagemaker = {
    "AMAZON_SAGEMAKER", rows, sizeof rows / sizeof *rows, fixed, sizeof fixed / sizeof *fixed,
};
