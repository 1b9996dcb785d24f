/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that Accelerate passes to the estimator of Amazon's Python library, and those that additional_args of
 * the file can add. */
#ifndef SAGEMAKER_ESTIMATOR_H
#define SAGEMAKER_ESTIMATOR_H

#include "config/values.h"
#include "util/fail.h"

#include <jansson.h>

/** @return the arguments by name, checked; a new reference; NULL with @p fail set */
json_t *estimator_arguments (const struct config *config, struct fail *fail);

/** An argument of @p arguments. @return NULL if it is missing or null */
const json_t *estimator_value (const json_t *arguments, const char *name);

/** The same of a text. @return NULL if it is missing, null or empty */
const char *estimator_text (const json_t *arguments, const char *name);

#endif
