/* SPDX-License-Identifier: Apache-2.0 */
/* The estimator's argument `distribution`: how the job's container starts the script on each machine. */
#ifndef SAGEMAKER_DISTRIBUTION_H
#define SAGEMAKER_DISTRIBUTION_H

#include "util/fail.h"

#include <jansson.h>

/** Check it. @param arguments  of the estimator  @param added  gets the hyperparameters that it means */
int distribution_add (const json_t *arguments, json_t *added, struct fail *fail);

#endif
