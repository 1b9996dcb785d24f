/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a job is launched: what the file's distributed_type means, and which launch path follows. */
#ifndef CONFIG_MODE_H
#define CONFIG_MODE_H

#include "config/options.h"

/** Whether a launcher of another kind (mpirun, deepspeed) starts the ranks of @p settings. */
bool mode_is_mpirun (const struct settings *settings);
bool mode_is_deepspeed_launcher (const struct settings *settings);

/**
 * The launch path; see enum option_path.
 *
 * @param several_on_gpus  there are GPUs, and the job has several processes
 */
enum option_path mode_path (const struct settings *settings, bool several_on_gpus);

#endif
