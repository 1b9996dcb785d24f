/* SPDX-License-Identifier: Apache-2.0 */
/* Where GPUs are, by the files of NVIDIA's driver and the kernel: no library is loaded, and no GPU is woken. */
#ifndef LAUNCH_MACHINE_GPU_LOCATIONS_H
#define LAUNCH_MACHINE_GPU_LOCATIONS_H

#include <stddef.h>

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

#endif
