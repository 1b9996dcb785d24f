/* SPDX-License-Identifier: Apache-2.0 */
/* What flags and this machine's GPUs say about a file that is yet to be written. */
#ifndef CLI_CONFIG_INFER_H
#define CLI_CONFIG_INFER_H

#include "config/values.h"
#include "util/fail.h"

/** What the flags imply; see mode_infer().  @p gpus: of this machine. */
int infer_mode (struct config *config, int gpus, struct fail *fail);

/**
 * After infer_mode(): distributed_type, use_cpu and num_processes, if no flag says them.  One process for each GPU
 * that the job may use, else one on the CPU: what Accelerate's `config default` writes.
 */
int infer_distributed (struct config *config, int gpus, struct fail *fail);

#endif
