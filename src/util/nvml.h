/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library (NVML), if the machine has it: which GPUs there are, how they are connected and who uses
 * them.  It is opened by name in a child process (util/probe.h), so that the command neither depends on it nor hangs
 * with a broken driver. */
#ifndef UTIL_NVML_H
#define UTIL_NVML_H

#include "util/fail.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NVML_MOST_LINKED = 64,    /* GPUs whose links are asked for */
    NVML_MOST_PROCESSES = 16, /* of each GPU */
    NVML_MOST_MIG = 8,        /* parts of each GPU */
};

#define NVML_UNKNOWN UINT64_MAX /* of a process's memory: the driver does not say, as in a container */

/** A part of a GPU in MIG mode. */
struct gpu_mig {
    char name[96]; /* "NVIDIA A100-SXM4-40GB MIG 1g.5gb" */
    char uuid[96]; /* "MIG-..." */
    uint64_t memory;
};

struct gpu_process {
    int pid; /* in the driver's namespace, which is the host's */
    uint64_t memory; /* bytes on this GPU, or NVML_UNKNOWN */
};

/** The way from one GPU to another; the words are those of `nvidia-smi topo -m`. */
enum gpu_way {
    GPU_WAY_UNKNOWN,
    GPU_WAY_BOARD, /* on one board */
    GPU_WAY_PIX,   /* one PCIe switch */
    GPU_WAY_PXB,   /* several PCIe switches */
    GPU_WAY_PHB,   /* a PCIe host bridge */
    GPU_WAY_NODE,  /* several host bridges of one NUMA node */
    GPU_WAY_SYS,   /* the link between NUMA nodes */
};

/** NVML's reasons for which two GPUs cannot read each other's memory. */
enum gpu_peer {
    GPU_PEER_OK,
    GPU_PEER_CHIPSET,
    GPU_PEER_GPU,
    GPU_PEER_TOPOLOGY,
    GPU_PEER_DISABLED,
    GPU_PEER_UNSUPPORTED,
    GPU_PEER_UNKNOWN,
};

struct gpu_link {
    uint8_t way;     /* enum gpu_way */
    uint8_t nvlinks; /* how many NVLinks connect the two, through switches or not */
    uint8_t peer;    /* enum gpu_peer */
};

struct gpu {
    int index;         /* NVML's, in the order of the bus: CUDA's too if CUDA_DEVICE_ORDER=PCI_BUS_ID */
    char name[96];     /* "NVIDIA H200" */
    char uuid[96];     /* "GPU-..." */
    char bus[32];      /* "0000:1b:00.0", as in /sys; "" if unknown */
    uint64_t memory;   /* bytes; 0 if unknown */
    uint64_t memory_free;
    int major, minor;  /* compute capability; 0.0 if unknown */
    char driver[80];   /* driver version, "535.104.05" */
    int cuda_driver;   /* newest CUDA of this driver, 1000 * major + 10 * minor; 0 if unknown */
    bool is_mig;       /* divided into parts, which are what programs use */
    int mig_count;
    struct gpu_mig migs[NVML_MOST_MIG];
    int process_count; /* which may exceed NVML_MOST_PROCESSES; -1: unknown */
    struct gpu_process processes[NVML_MOST_PROCESSES];
    struct gpu_link links[NVML_MOST_LINKED]; /* to the GPU of that index */
};

/**
 * List all GPUs of the machine; CUDA_VISIBLE_DEVICES is not looked at.  Takes what NVML takes (tens of ms, or a second
 * for each GPU if no process uses it and persistence mode is off), at most PROBE_DEADLINE_MS and a second for each GPU.
 *
 * @param gpus  [most], filled from the front
 * @return the number of GPUs on the machine, which may exceed @p most (0 is possible), or -1 with @p fail (nullable):
 *         status FAIL_NOT_FOUND if there is no NVML, else an error in one line
 */
int nvml_list (struct gpu *gpus, int most, struct fail *fail);

/** What a GPU does. */
struct gpu_load {
    int use;         /* percent of the last moments in which a kernel ran; -1: unknown */
    int temperature; /* degrees Celsius; -1: unknown */
    uint64_t memory; /* bytes; 0: unknown */
    uint64_t memory_used;
    int process_count; /* -1: unknown, as in a container */
    struct gpu_process processes[NVML_MOST_PROCESSES];
};

struct nvml;

/**
 * Open NVML in this process, for nvml_measure() again and again.  A broken driver may never return, so this is for a
 * thread that no other one waits for.  It is never closed.
 *
 * @return NULL with @p fail
 */
struct nvml *nvml_open (struct fail *fail);

/** What all GPUs do now, in the order of nvml_list().  One thread at a time.
 *  @return how many @p loads were filled in, at most @p most; 0 if NVML answers with an error */
int nvml_measure (const struct nvml *nvml, struct gpu_load *loads, int most);

#endif
