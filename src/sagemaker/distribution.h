/* SPDX-License-Identifier: Apache-2.0 */
/* The estimator's argument `distribution`: how the job's container starts the script on each machine. */
#ifndef SAGEMAKER_DISTRIBUTION_H
#define SAGEMAKER_DISTRIBUTION_H

#include "util/fail.h"

#include <jansson.h>

struct training;

/** Check it, and add the hyperparameters it means to those of @p training. */
int distribution_add (struct training *training, struct fail *fail);

#endif
