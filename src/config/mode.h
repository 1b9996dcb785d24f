/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a job is launched: what the file's distributed_type means, and which launch path follows. */
#ifndef CONFIG_MODE_H
#define CONFIG_MODE_H

#include "config/values.h"
#include "util/fail.h"

/** Set what follows from other settings: the switches that the file's distributed_type means, and similar.
 * @return 0, or -1 with @p fail set */
int config_resolve (struct config *config, struct fail *fail);

/** Refuse flags that choose several modes. */
int config_check_modes (const struct config *config, struct fail *fail);

/** Whether this machine's number, or the main machine, has still to be found (hosts/list/machine_rank.c). */
bool mode_needs_place (const struct settings *settings);

/** Whether a different kind of launcher (mpirun, deepspeed) starts the ranks of @p settings. */
bool mode_is_mpirun (const struct settings *settings);
bool mode_is_deepspeed_launcher (const struct settings *settings);

/** Whether the switch @p key, such as "multi_gpu", goes together with distributed_type @p type. */
bool mode_fits (const char *key, const char *type);

/**
 * The launch path; see enum option_path.
 *
 * @param several_on_gpus  there are GPUs, and the job has several processes
 */
enum option_path mode_path (const struct settings *settings, bool several_on_gpus);

/**
 * For `config`: what the flags imply.  Options of a mode choose the mode, and distributed_type is the one that `launch`
 * would act on with these flags.  What a flag says directly stays; what an old file says gives way to a mode.
 *
 * @param several  the flags ask for several processes
 * @param on_gpus  this machine has GPUs
 */
int mode_infer (struct config *config, bool several, bool on_gpus, struct fail *fail);

#endif
