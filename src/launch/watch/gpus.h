/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPUs of this machine do, for those who watch jobs. */
#ifndef LAUNCH_WATCH_GPUS_H
#define LAUNCH_WATCH_GPUS_H

#include "launch/watch/sample.h"
#include "util/nvml.h"

enum { WATCHED_GPUS = 64 };

/** What the GPUs of this machine do, in NVML's order. */
struct watched_gpus {
    int count; /* 0: there are none, or nothing is known of them yet */
    struct gpu_load loads[WATCHED_GPUS];
};

/** Begin to ask NVML each second, in a thread. */
void watched_gpus_start (void);

/** What it said last. */
void watched_gpus_read (struct watched_gpus *gpus);

/** @param rank  of this host
 *  @return the first GPU that its process uses; of number 0: none, or that is not known, as in a container */
struct jobseg_gpu watched_gpu_of (const struct watched_gpus *gpus, const struct sample_rank *rank);

#endif
