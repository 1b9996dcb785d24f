/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of GPUs as in CUDA_VISIBLE_DEVICES, on a machine: which exist, which one a rank uses, which CPUs are near. */
#ifndef LAUNCH_PLAN_GPU_CHOICE_H
#define LAUNCH_PLAN_GPU_CHOICE_H

#include "launch/machine/topology.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>

enum { GPU_CHOICE_CPUS = 1024 };

/** Refuse a list with GPUs that this machine does not have, as far as it says. */
int gpu_choice_check (const char *list, const struct topology *topology, struct fail *fail);

/** Whether there are parts of GPUs in it (MIG-...), of which CUDA shows a process only the first. */
bool gpu_choice_has_mig (const char *list);

/** Append the entry that a rank uses: they take turns. */
void gpu_choice_add_entry (const char *list, int local_rank, struct strbuf *out);

/**
 * Find the CPUs near the GPU that a rank uses, of those that the launcher may use.
 *
 * @param list        NULL: all GPUs
 * @param[out] cpus   [GPU_CHOICE_CPUS] "0-3,8"
 * @return NULL, or why they are not known
 */
const char *gpu_choice_find_cpus (const char *list, int local_rank, const struct topology *topology, char *cpus);

#endif
