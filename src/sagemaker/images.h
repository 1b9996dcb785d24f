/* SPDX-License-Identifier: Apache-2.0 */
/* The standard Docker images in which SageMaker trains with PyTorch and transformers. */
#ifndef SAGEMAKER_IMAGES_H
#define SAGEMAKER_IMAGES_H

#include "util/fail.h"
#include "util/strbuf.h"

/** What decides on an image. */
struct image_request {
    const char *region;       /* "us-east-1" */
    const char *domain;       /* of Amazon's servers in that region: "amazonaws.com" */
    const char *instance;     /* "ml.p3.2xlarge" */
    const char *transformers; /* "4.17.0" or "4.17" */
    const char *pytorch;      /* the same number of parts */
    const char *python;       /* "py38" */
};

/** Append the URI of the image. Fails if there is no such image, and names those there are. */
int image_find (const struct image_request *wanted, struct strbuf *uri, struct fail *fail);

/** The family of an instance type, "p3" of "ml.p3.2xlarge". @return its length, 0 if @p instance is not a type */
size_t instance_family (const char *instance, const char **family);

/** Whether the family of an instance type begins with @p start: "p", "trn". */
int instance_is (const char *instance, const char *start);

#endif
