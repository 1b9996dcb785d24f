/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses a GPU, in words. */
#ifndef LAUNCH_MACHINE_GPU_USERS_H
#define LAUNCH_MACHINE_GPU_USERS_H

#include "util/nvml.h"
#include "util/strbuf.h"

#include <stdbool.h>

/** Whether the numbers of processes are this system's own: in a container, some are hidden. */
bool gpu_processes_are_known (void);

/**
 * Append "process 1234 of alice (python), 30.20 GB".  Outside the host's pid namespace, the number of a process says
 * nothing of who it is: then it is "process 1234 of the host, 30.20 GB".
 *
 * @param with_user  say whose it is
 */
void gpu_process_describe (const struct gpu_process *process, bool with_user, struct strbuf *out);

/** Append "GPU 1 (NVIDIA H200) has 2.00 of 141.00 GB free; used by process ...; process ...", with their users. */
void gpu_describe_use (const struct gpu *gpu, struct strbuf *out);

#endif
