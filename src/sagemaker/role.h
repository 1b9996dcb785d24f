/* SPDX-License-Identifier: Apache-2.0 */
/* The IAM role that training jobs run as. */
#ifndef SAGEMAKER_ROLE_H
#define SAGEMAKER_ROLE_H

#include "util/fail.h"

#include <stdbool.h>

/**
 * Create a role that SageMaker can take, with the permissions that Accelerate gives it. A role of this name that exists
 * stays as it is, unless it has no permissions at all, as after an attempt that failed halfway.
 *
 * @param profile, region  whose credentials are used; either may be NULL
 * @param[out] is_new      whether it was created, or got its permissions
 */
int role_create (const char *name, const char *profile, const char *region, bool *is_new, struct fail *fail);

#endif
