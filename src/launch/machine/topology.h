/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine has, and what of the caller's environment bears on a plan. */
#ifndef LAUNCH_MACHINE_TOPOLOGY_H
#define LAUNCH_MACHINE_TOPOLOGY_H

#include "util/fail.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

enum { TOPOLOGY_CPU_LIST = 1024 };

/** The part of a job that this machine has, where a launch on several hosts has decided it. */
struct topology_share {
    int machines, machine;
    int world_size;
    int first_rank, ranks; /* of this machine */
};

/** A logical CPU that the launcher may use. */
struct topology_place {
    int cpu;
    int core; /* the lowest CPU of its core, whether the launcher may use that or not */
    int node; /* NUMA node; 0 if the kernel knows none */
};

/** Filled by topology_probe(); by hand in tests.  Texts are not owned. */
struct topology {
    char host[256];
    int cpus;           /* logical CPUs this process may use, by affinity and by the cgroup's quota; >= 1 */
    int physical_cores; /* of those; >= 1 */
    int quota;          /* how many CPUs' worth of time the control group allows, rounded up; 0: no limit is known */
    struct topology_place *places; /* owned: by node, core and CPU, by topology_probe_places() */
    int place_count;
    char cpu_list[TOPOLOGY_CPU_LIST]; /* those that the affinity allows, "0-3,8"; "" if unknown; may end in ",..." */
    int gpus;           /* NVIDIA devices that a process sees, CUDA_VISIBLE_DEVICES respected */
    int gpus_present;   /* the same, without CUDA_VISIBLE_DEVICES */
    const char *visible;    /* CUDA_VISIBLE_DEVICES, or NULL */
    const char *cuda_order; /* CUDA_DEVICE_ORDER, or NULL */
    const char *ds_accelerator; /* DS_ACCELERATOR, on which DeepSpeed computes, or NULL */
    bool names_other_makers; /* the environment names accelerators of other makers, and none of NVIDIA's */
    struct gpu_location *gpu_locations; /* owned: where they are, by topology_probe_gpu_locations() */
    int gpu_location_count;
    int free_port;      /* for MASTER_PORT if none is given and the usual one is in use, or any will do; 0: none */
    bool port_taken;    /* a process listens at the port that the job has to use */
    char port_note[512]; /* what else the user should know about the port; may be "" */
    int mpi_local_size; /* ranks on this host by a surrounding mpirun; 0: none */
    const char *omp_num_threads;           /* OMP_NUM_THREADS, or NULL */
    const char *python_path;     /* PYTHONPATH, or NULL */
    const char *tmp_folder;      /* TMPDIR if it is absolute, or NULL */
    char folder[4096];           /* the current one, "" if it has no name */
    char mpi_program[4096];      /* mpirun or mpiexec, by topology_probe_mpi(); "": none */
    char deepspeed_program[4096]; /* by topology_probe_deepspeed() */
    char torch_package[4096];     /* that Python finds accel_torch in, by topology_probe_torch(); "": none */
    bool lacks_p2p; /* several GPUs that an old driver does not let reach each other */
    bool nccl_p2p_is_chosen; /* NCCL_P2P_DISABLE is in the environment */
    bool nccl_ib_is_chosen;  /* NCCL_IB_DISABLE is */
    bool mpi_is_open;            /* it is Open MPI's */
    const struct topology_share *share; /* not owned; NULL: ranks are divided evenly among --num_machines */
    const char *nccl_async_error_handling; /* TORCH_NCCL_ASYNC_ERROR_HANDLING, or NULL */
};

/**
 * Look around.  What cannot be found out counts as the least: 1 CPU, no GPU.
 *
 * @param wants_cores  count physical cores too, which costs a file of /sys per core
 */
void topology_probe (struct topology *topology, bool wants_cores);

/** Find mpirun or mpiexec in PATH, and ask it (5 s at most) whose it is.  @return 0, -1 if it could not be asked */
int topology_probe_mpi (struct topology *topology, struct fail *fail);

/** Find DeepSpeed's own launcher in PATH. */
void topology_probe_deepspeed (struct topology *topology);

/** Find the Python package accel_torch that belongs to this command. */
void topology_probe_torch (struct topology *topology);

/** Find out where the GPUs are, which costs a few files of /proc and /sys for each.  @return 0, or -1 without memory */
int topology_probe_gpu_locations (struct topology *topology);

/** Find out which of the CPUs in `cpu_list` share a core and a NUMA node, which costs a file of /sys per core and node.
 * @param root  what the paths begin with: "" but in tests
 * @return 0, or -1 without memory */
int topology_probe_places (const char *root, struct topology *topology);

void topology_release (struct topology *topology);

/** How many devices a CUDA_VISIBLE_DEVICES of @p text leaves of @p present ones. */
int topology_visible_gpus (const char *text, int present);

/* Lists of CPUs as the kernel writes them: "0-3,8". */

/** Mark the CPUs of @p list in @p set of @p bytes; what is not a list is left out. */
void cpu_list_mark (const char *list, cpu_set_t *set, size_t bytes);

/** Write @p set as a list.  One that is too long ends in "...". */
void cpu_list_write (const cpu_set_t *set, size_t bytes, char *text, size_t size);

#endif
