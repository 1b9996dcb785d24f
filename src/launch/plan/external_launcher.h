/* SPDX-License-Identifier: Apache-2.0 */
/* Launch paths on which another launcher starts the ranks: mpirun, deepspeed on several machines, torch_xla.  The plan
 * is then one process, which is that launcher. */
#ifndef LAUNCH_PLAN_EXTERNAL_LAUNCHER_H
#define LAUNCH_PLAN_EXTERNAL_LAUNCHER_H

#include "config/values.h"
#include "launch/machine/topology.h"
#include "launch/plan/program.h"
#include "util/strbuf.h"

/** Whether the ranks of @p path with @p settings are started by another launcher. */
bool external_launcher_is_wanted (enum option_path path, const struct settings *settings);

/**
 * Append the launcher's command, up to and including the program, without the program's own arguments.
 *
 * @param program  resolved
 * @return 0, or -1 with @p fail
 */
int external_launcher_add_argv (struct strlist *argv, enum option_path path, const struct config *config,
                                const struct topology *topology, const struct program *program, struct fail *fail);

/**
 * Write @p env, the "NAME=VALUE" of a plan's ranks, to the file from which DeepSpeed's launcher hands variables to
 * other machines: $DS_ENV_FILE, else .deepspeed_env here.  Unlike Accelerate's it is always new, contains nothing of
 * the caller's, and no other user may read it.
 */
int external_launcher_write_environment (const struct strlist *env, struct fail *fail);

#endif
