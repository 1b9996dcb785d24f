/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a script become hyperparameters of a training job. */
#ifndef SAGEMAKER_ARGUMENTS_H
#define SAGEMAKER_ARGUMENTS_H

#include "util/fail.h"

#include <jansson.h>

/**
 * Read "--name value" and "--name=value". SageMaker starts the script with the same pairs, in any order; it can pass
 * neither switches without a value nor words without a name.
 *
 * @param words  NULL-terminated, or NULL
 * @param[out] hyperparameters  gets name: JSON of the value; dashes in names become underscores
 */
int arguments_read (char **words, json_t *hyperparameters, struct fail *fail);

#endif
