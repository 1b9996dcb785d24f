/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library (NVML), if the machine has it: which GPUs there are.  It is opened by name in a child
 * process (util/probe.h), so that the command neither depends on it nor hangs with a broken driver. */
#ifndef UTIL_NVML_H
#define UTIL_NVML_H

#include "util/fail.h"

#include <stdint.h>

struct gpu {
    int index;         /* NVML's, in the order of the bus: CUDA's too where CUDA_DEVICE_ORDER=PCI_BUS_ID */
    char name[96];     /* "NVIDIA H200" */
    char uuid[96];     /* "GPU-..." */
    uint64_t memory;   /* bytes; 0 where unknown */
    char driver[80];   /* driver version, "535.104.05" */
    int cuda_driver;   /* newest CUDA of this driver, 1000 * major + 10 * minor; 0 where unknown */
};

/**
 * List all GPUs of the machine; CUDA_VISIBLE_DEVICES is not looked at.  Takes what NVML takes (tens of ms to seconds),
 * at most PROBE_DEADLINE_MS.
 *
 * @param gpus  [most], filled from the front
 * @return the number of GPUs on the machine, which may exceed @p most (0 is possible), or -1 with @p fail (nullable):
 *         status FAIL_NOT_FOUND where there is no NVML, else a verdict in one line
 */
int nvml_list (struct gpu *gpus, int most, struct fail *fail);

#endif
