/* SPDX-License-Identifier: Apache-2.0 */
/* `accelerate launch` with a file for SageMaker. */
#ifndef SAGEMAKER_LAUNCH_H
#define SAGEMAKER_LAUNCH_H

#include "config/values.h"
#include "util/fail.h"

#include <stdbool.h>
#include <stdint.h>

/** How the upload is shown. */
struct sagemaker_view {
    void *data;
    void (*start) (void *data, uint64_t bytes); /* of the archive */
    void (*moved) (void *data, uint64_t bytes); /* so many more were sent */
    void (*end) (void *data);
};

/** Whether @p settings are for SageMaker. */
bool sagemaker_is_wanted (const struct settings *settings);

/**
 * Pack and upload the script, create the job, and follow it to its end; with --detach leave it running, with --dry_run
 * print its request only.
 *
 * @return the exit status, or -1 with @p fail set; see follow_job()
 */
int sagemaker_launch (const struct config *config, const struct sagemaker_view *view, struct fail *fail);

#endif
