/* SPDX-License-Identifier: Apache-2.0 */
/* A training job from settings; see training.h.  The request itself is made in request.c. */
#include <config.h>

#include "sagemaker/training.h"

#include "aws/aws.h"
#include "sagemaker/arguments.h"
#include "sagemaker/distribution.h"
#include "sagemaker/estimator.h"
#include "sagemaker/images.h"
#include "sagemaker/python_json.h"
#include "sagemaker/tables.h"
#include "util/cleanup.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_MOST = 63, TIME_LENGTH = 23 }; /* of a job's name; of the time in it */

const json_t *
training_argument (const struct training *training, const char *name)
{
    return estimator_value (training->arguments, name);
}

const char *
training_text (const struct training *training, const char *name)
{
    return estimator_text (training->arguments, name);
}

/* ---- what is started ---- */

/* Whether a path contains "..". */
static bool
leads_up (const char *path)
{
    for (const char *name = path; name; name = strchr (name, '/'), name = name ? name + 1 : NULL)
        if (!strncmp (name, "..", 2) && (name[2] == '/' || !name[2]))
            return true;
    return false;
}

static int
find_script (struct training *training, struct fail *fail)
{
    const char *folder = training_text (training, "source_dir"), *entry = training_text (training, "entry_point");
    AUTO_STRBUF struct strbuf path = { 0 };
    struct stat info;
    if (!entry)
        return fail_set (fail, FAIL_GENERAL, "additional_args: entry_point is empty");
    training->entry = strdup (entry);
    training->is_uploaded = !folder || strncmp (folder, "s3://", 5) != 0;
    if (folder && training->is_uploaded && !(training->source = strdup (folder)))
        return fail_nomem (fail);
    strbuf_printf (&path, "%s%s%s", folder ? folder : "", folder ? "/" : "", entry);
    if (path.failed || !training->entry)
        return fail_nomem (fail);
    if (!training->is_uploaded)
        return 0;
    if (folder && (entry[0] == '/' || leads_up (entry)))
        return fail_set (fail, FAIL_GENERAL, "entry_point %s must be a path below source_dir", entry);
    if (stat (path.text, &info))
        return fail_set (fail, FAIL_NOT_FOUND, "%s: cannot read the script: %s", path.text, strerror (errno));
    if (!S_ISREG (info.st_mode))
        return fail_set (fail, FAIL_USAGE, "%s: not a script, because it is not a file", path.text);
    return 0;
}

static int
add_hyperparameters (struct training *training, char **words, struct fail *fail)
{
    const char *name;
    json_t *value;
    training->hyperparameters = json_object ();
    if (!training->hyperparameters)
        return fail_nomem (fail);
    if (arguments_read (words, training->hyperparameters, fail))
        return -1;
    json_object_foreach ((json_t *) training_argument (training, "hyperparameters"), name, value) {
        AUTO_STRBUF struct strbuf text = { 0 };
        python_json_add (&text, value);
        if (text.failed || json_object_set_new (training->hyperparameters, name, json_string (text.text)))
            return fail_nomem (fail);
    }
    return 0;
}

/* ---- where ---- */

static int
find_image (struct training *training, struct fail *fail)
{
    const char *image = training_text (training, "image_uri");
    AUTO_STRBUF struct strbuf uri = { 0 };
    const char *missing = !training_text (training, "transformers_version") ? "transformers_version"
                          : !training_text (training, "pytorch_version")    ? "pytorch_version"
                          : !training_text (training, "py_version")         ? "py_version"
                                                                            : NULL;
    if (!image && missing)
        return fail_set (fail, FAIL_GENERAL, "%s is required if there is no image_uri", missing);
    struct image_request wanted = {
        .region = training->region, .domain = aws_domain (training->region),
        .instance = training_text (training, "instance_type"), .pytorch = training_text (training, "pytorch_version"),
        .transformers = training_text (training, "transformers_version"),
        .python = training_text (training, "py_version"),
    };
    if (image)
        strbuf_add (&uri, image);
    else if (image_find (&wanted, &uri, fail))
        return -1;
    training->image = strbuf_take (&uri);
    return training->image ? 0 : fail_nomem (fail);
}

static int
check_required (const struct training *training, const struct config *config, struct fail *fail)
{
    const char *missing = !training_text (training, "instance_type") ? "ec2_instance_type"
                          : !training_text (training, "role")        ? "iam_role_name"
                                                                     : NULL;
    const char *family;
    if (missing)
        return fail_set (fail, FAIL_GENERAL, "%s: %s is required", config->file ? config->file : "SageMaker", missing);
    if (!instance_family (training_text (training, "instance_type"), &family))
        return fail_set (fail, FAIL_GENERAL, "ec2_instance_type: '%s' is not an instance type such as ml.p3.2xlarge",
                         training_text (training, "instance_type"));
    if (json_integer_value (training_argument (training, "instance_count")) < 1)
        return fail_set (fail, FAIL_GENERAL, "num_machines must be at least 1");
    if (!training_argument (training, "subnets") != !training_argument (training, "security_group_ids"))
        return fail_set (fail, FAIL_GENERAL, "additional_args: subnets and security_group_ids need each other");
    for (const char *at = training->region; *at; at++)
        if (!islower ((unsigned char) *at) && !isdigit ((unsigned char) *at) && *at != '-')
            return fail_set (fail, FAIL_GENERAL, "region: '%s' is not a region such as us-east-1", training->region);
    return 0;
}

/* ---- its name ---- */

/* "train" of "1.dkr.ecr.us-east-1.amazonaws.com/my/train:7" */
static void
add_image_name (struct strbuf *out, const char *image)
{
    const char *slash = strrchr (image, '/');
    const char *start = slash ? slash + 1 : image;
    strbuf_add_bytes (out, start, strcspn (start, ":@"));
}

/* [a-zA-Z0-9](-*[a-zA-Z0-9])* */
static bool
is_name (const char *name)
{
    size_t length = strlen (name);
    for (const char *at = name; *at; at++)
        if (!isalnum ((unsigned char) *at) && *at != '-')
            return false;
    return length && name[0] != '-';
}

static int
make_name (struct training *training, const struct timespec *now, const char *mark, struct fail *fail)
{
    size_t end = 1 + TIME_LENGTH + (*mark ? 1 + strlen (mark) : 0);
    const char *base = training_text (training, "base_job_name");
    AUTO_STRBUF struct strbuf name = { 0 };
    char time[40];
    struct tm parts;
    if (!gmtime_r (&now->tv_sec, &parts) || !strftime (time, sizeof time, "%Y-%m-%d-%H-%M-%S", &parts))
        return fail_set (fail, FAIL_GENERAL, "this machine's clock is wrong");
    if (base)
        strbuf_add (&name, base);
    else
        add_image_name (&name, training->image);
    if (name.failed || !name.text)
        return fail_nomem (fail);
    if (!is_name (name.text))
        return fail_set (fail, FAIL_GENERAL, "base_job_name: '%s' is not a valid name: use letters, digits and '-'",
                         name.text);
    if (name.length > NAME_MOST - end)
        strbuf_truncate (&name, NAME_MOST - end);
    strbuf_printf (&name, "-%s-%03d%s%s", time, (int) (now->tv_nsec / 1000000), *mark ? "-" : "", mark);
    training->name = strbuf_take (&name);
    return training->name ? 0 : fail_nomem (fail);
}

int
training_make (struct training *training, const struct config *config, const struct timespec *now, const char *mark,
               struct fail *fail)
{
    const struct settings *settings = &config->settings;
    *training = (struct training){ 0 };
    training->region = strdup (settings->region ? settings->region : "us-east-1");
    if (!training->region)
        return fail_nomem (fail);
    training->arguments = estimator_arguments (config, fail);
    if (!training->arguments || check_required (training, config, fail)
        || add_hyperparameters (training, config->program_args, fail)
        || distribution_add (training->arguments, training->hyperparameters, fail)
        || find_image (training, fail) || make_name (training, now, mark, fail) || find_script (training, fail))
        goto error;
    if (settings->sagemaker_inputs_file
        && tables_read_inputs (settings->sagemaker_inputs_file, &training->channels, fail))
        goto error;
    return 0;
error:
    training_release (training);
    return -1;
}

void
training_release (struct training *training)
{
    json_decref (training->arguments);
    json_decref (training->hyperparameters);
    json_decref (training->channels);
    free (training->region);
    free (training->image);
    free (training->name);
    free (training->source);
    free (training->entry);
    *training = (struct training){ 0 };
}
