/* SPDX-License-Identifier: Apache-2.0 */
/* Where the services are. */
#ifndef AWS_ENDPOINT_H
#define AWS_ENDPOINT_H

#include "aws/state.h"

/** As messages name it, and as signatures do. */
const char *endpoint_name (enum aws_service service);

/** @return the region that a call is signed for; NULL with @p fail set: none is known */
const char *endpoint_region (const struct aws *aws, enum aws_service service, struct fail *fail);

/** @return the URL that replaces Amazon's, or NULL. @param name  "SAGEMAKER", as in variables */
const char *endpoint_override (const struct aws *aws, const char *name);

/** Append such a URL, without '/' at its end. Fails if it is not valid. */
int endpoint_add_override (struct strbuf *url, const char *text, struct fail *fail);

/** Append the URL of a bucket, without '/' at its end. */
int endpoint_bucket (const struct aws *aws, const char *bucket, struct strbuf *url, struct fail *fail);

#endif
