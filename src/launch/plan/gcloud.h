/* SPDX-License-Identifier: Apache-2.0 */
/* The command line with which `accelerate tpu-config` has gcloud run commands on a TPU pod.  Pure but for reading the
 * file of commands. */
#ifndef LAUNCH_PLAN_GCLOUD_H
#define LAUNCH_PLAN_GCLOUD_H

#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

/**
 * Append gcloud's arguments, its name first.  The commands are one argument, which gcloud gives to the shell of each
 * machine of the pod; no shell here sees it.
 *
 * @param config  flags and, if there is one, the file
 * @return 0, or -1 with @p fail set
 */
int gcloud_command (const struct config *config, struct strlist *argv, struct fail *fail);

#endif
