/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs by the files of NVIDIA's driver and the kernel: no library is loaded, and no GPU is woken.  And who uses
 * them. */
#ifndef LAUNCH_MACHINE_GPUS_H
#define LAUNCH_MACHINE_GPUS_H

#include "util/nvml.h"
#include "util/strbuf.h"

#include <stdbool.h>

enum { GPU_LOCATIONS_MOST = 64 };

/** Where CUDA looks for the program that makes missing nodes in /dev. */
#define GPU_LOCATIONS_MODPROBE "/usr/bin/nvidia-modprobe"

struct gpu_location {
    char bus[32];    /* "0000:1b:00.0" */
    char uuid[96];   /* "GPU-...", "" if unknown */
    char model[96];  /* "NVIDIA H200", "" if unknown */
    int node;        /* NUMA node; -1: unknown, or there is only one */
    char cpus[1024]; /* near it, "0-31,64-95"; "" if unknown */
};

/**
 * List the GPUs that this process may open, in the order of the bus.
 *
 * @param root    what the paths begin with: "" but in tests
 * @param locations  [GPU_LOCATIONS_MOST], filled from the front
 * @return how many there are
 */
int gpu_locations_list (const char *root, struct gpu_location *locations);

/**
 * Count those GPUs, without reading a file for each: also if there is no /proc/driver/nvidia (gVisor), if
 * /dev/nvidiactl can be opened.
 */
int gpu_locations_count (const char *root);

/** Fill `node` and `cpus` of the GPU at `bus`. */
void gpu_location_find (const char *root, struct gpu_location *location);

/** Whether there are several GPUs, cards of the RTX 40 series among them, with a driver before 550.40.07: NCCL hangs
 *  there unless it is told to leave P2P and InfiniBand alone.
 *  @param root  what the paths begin with: "" but in tests */
bool gpus_lack_p2p (const char *root);

/* Who uses a GPU, in words. */

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
