/* SPDX-License-Identifier: Apache-2.0 */
/* What settings ask SageMaker to do: a training job, as the request that creates it and the archive of source code that
 * is uploaded before. Nothing here sends or uploads anything. */
#ifndef SAGEMAKER_TRAINING_H
#define SAGEMAKER_TRAINING_H

#include "config/values.h"
#include "util/fail.h"

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

/** All zero before training_make(). */
struct training {
    json_t *arguments;       /* of Amazon's estimator: what Accelerate gives it, with the file's additional_args */
    json_t *hyperparameters; /* name: JSON of the value */
    json_t *channels;        /* of input data, or NULL */
    char *region;
    char *image;
    char *name;              /* of the job, unique by its time and mark */
    char *source;            /* the folder that is packed; NULL: only `entry`, or nothing: see is_uploaded */
    char *entry;             /* the script, below `source` if there is one */
    bool is_uploaded;        /* false: source_dir is in S3 already */
};

/** Where the source code and the results go. All zero before training_place(). */
struct training_place {
    char *output;       /* "s3://BUCKET/" */
    char *bucket, *key; /* of the archive; NULL if it is not uploaded */
    char *kms_key;      /* that it is encrypted with, or NULL */
    bool is_default;    /* the bucket is the account's own for SageMaker, which is created when it is missing */
    char *needed;       /* the default bucket, if results or source code go there; or NULL */
};

/**
 * Read everything that settings say. All that is wrong with them is reported here.
 *
 * @param config  of a launch, with the path PATH_SAGEMAKER
 * @param now     becomes part of the job's name
 * @param mark    becomes its end: letters and digits; "": the name is that of Amazon's library
 */
int training_make (struct training *training, const struct config *config, const struct timespec *now,
                   const char *mark, struct fail *fail);
void training_release (struct training *training);

/** @param account  "123456789012" */
int training_place (const struct training *training, const char *account, struct training_place *place,
                    struct fail *fail);
void training_place_release (struct training_place *place);

/**
 * @param role  the ARN of the role that the job runs as
 * @return a CreateTrainingJob request, a new reference; NULL with @p fail set
 */
json_t *training_request (const struct training *training, const struct training_place *place, const char *role,
                          struct fail *fail);

/** An argument of the estimator. @return NULL if it is missing or null */
const json_t *training_argument (const struct training *training, const char *name);

/** The same of a text. @return NULL if it is missing, null or empty */
const char *training_text (const struct training *training, const char *name);

#endif
