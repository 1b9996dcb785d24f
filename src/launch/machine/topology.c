/* SPDX-License-Identifier: Apache-2.0 */
/* Counts CPUs, cores and GPUs without any library of theirs; see topology.h. */
#include <config.h>

#include "launch/machine/topology.h"

#include "launch/machine/cgroup.h"
#include "launch/machine/gpus.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/parse.h"
#include "util/procfs.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each core is counted at its first allowed thread; so one file is read per core, not per thread. */
static int
count_cores (const cpu_set_t *allowed, size_t bytes, int cpus)
{
    char text[256];
    if (procfs_read_line ("/sys/devices/system/cpu/smt/active", text, sizeof text) && !strcmp (text, "0"))
        return cpus;
    cpu_set_t *seen = calloc (1, bytes);
    if (!seen)
        return cpus;
    int cores = 0;
    for (size_t cpu = 0; cpu < bytes * 8; cpu++) {
        if (!CPU_ISSET_S (cpu, bytes, allowed) || CPU_ISSET_S (cpu, bytes, seen))
            continue;
        char path[96];
        snprintf (path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
        if (procfs_read_line (path, text, sizeof text))
            cpu_list_mark (text, seen, bytes);
        cores++;
    }
    free (seen);
    return cores;
}

static void
probe_cpus (struct topology *topology, bool wants_cores)
{
    topology->cpus = topology->physical_cores = 1;
    size_t bytes = 128; /* 1024 CPUs; the kernel says EINVAL while that is too few */
    cpu_set_t *allowed = NULL;
    for (;; bytes *= 2) {
        free (allowed);
        allowed = calloc (1, bytes);
        if (!allowed)
            return;
        if (!sched_getaffinity (0, bytes, allowed))
            break;
        if (errno != EINVAL || bytes > 1 << 16) {
            free (allowed);
            return;
        }
    }
    int cpus = CPU_COUNT_S (bytes, allowed);
    cpu_list_write (allowed, bytes, topology->cpu_list, sizeof topology->cpu_list);
    int cores = wants_cores ? count_cores (allowed, bytes, cpus) : cpus;
    free (allowed);
    int quota = wants_cores ? cgroup_cpu_quota () : 0;
    topology->quota = quota;
    if (quota && quota < cpus)
        cpus = quota;
    topology->cpus = cpus > 1 ? cpus : 1;
    topology->physical_cores = cores < topology->cpus ? (cores > 1 ? cores : 1) : topology->cpus;
}

/* What CUDA takes for a GPU: it ignores the first other word of a list, by custom -1, and all that follow. */
static bool
is_gpu (const char *word)
{
    return isdigit ((unsigned char) *word) || !strncmp (word, "GPU-", 4) || !strncmp (word, "MIG-", 4);
}

int
topology_visible_gpus (const char *text, int present)
{
    if (!text)
        return present;
    int count = 0, parts = 0;
    for (;;) {
        text += strspn (text, " ");
        if (!is_gpu (text))
            break;
        size_t length = strcspn (text, ",");
        bool is_part = !strncmp (text, "MIG-", 4); /* a GPU may have several */
        count += !is_part;
        parts += is_part;
        text += length + (text[length] == ',');
    }
    return (count < present ? count : present) + (present ? parts : 0);
}

/* Variables that Slurm sets beside CUDA_VISIBLE_DEVICES say nothing. */
static bool
names_other_makers (void)
{
    static const char *const names[]
        = { "ZE_AFFINITY_MASK", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES",
            "HABANA_VISIBLE_MODULES", "MLU_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", "SDAA_VISIBLE_DEVICES",
            "NEURON_RT_VISIBLE_CORES" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv (names[i]))
            return !getenv (ENV_CUDA_VISIBLE_DEVICES);
    return false;
}

static int
mpi_local_size (void)
{
    static const char *const names[] = { "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv (names[i]);
        int64_t value;
        if (text && parse_int64 (text, 1, 1000000, &value) == PARSE_OK)
            return (int) value;
    }
    return 0;
}

void
topology_probe (struct topology *topology, bool wants_cores)
{
    *topology = (struct topology){ 0 };
    if (gethostname (topology->host, sizeof topology->host - 1))
        snprintf (topology->host, sizeof topology->host, "localhost");
    probe_cpus (topology, wants_cores);
    topology->gpus_present = gpu_locations_count ("");
    topology->visible = getenv (ENV_CUDA_VISIBLE_DEVICES);
    topology->cuda_order = getenv ("CUDA_DEVICE_ORDER");
    topology->ds_accelerator = getenv ("DS_ACCELERATOR");
    topology->names_other_makers = names_other_makers ();
    topology->gpus = topology_visible_gpus (topology->visible, topology->gpus_present);
    topology->lacks_p2p = topology->gpus_present > 1 && gpus_lack_p2p ("");
    topology->nccl_p2p_is_chosen = getenv (ENV_NCCL_P2P_DISABLE);
    topology->nccl_ib_is_chosen = getenv (ENV_NCCL_IB_DISABLE);
    topology->mpi_local_size = mpi_local_size ();
    topology->omp_num_threads = getenv (ENV_OMP_NUM_THREADS);
    topology->nccl_async_error_handling = getenv (ENV_NCCL_ASYNC_ERROR_HANDLING);
    topology->python_path = getenv (ENV_PYTHONPATH);
    topology->tmp_folder = getenv ("TMPDIR");
    if (topology->tmp_folder && *topology->tmp_folder != '/')
        topology->tmp_folder = NULL;
    if (!getcwd (topology->folder, sizeof topology->folder))
        topology->folder[0] = '\0';
}

int
topology_probe_gpu_locations (struct topology *topology)
{
    struct gpu_location *locations = calloc (GPU_LOCATIONS_MOST, sizeof *locations);
    topology->gpu_locations = locations;
    topology->gpu_location_count = locations ? gpu_locations_list ("", locations) : 0;
    return locations ? 0 : -1;
}

void
topology_release (struct topology *topology)
{
    free (topology->gpu_locations);
    topology->gpu_locations = NULL;
    topology->gpu_location_count = 0;
    free (topology->places);
    topology->places = NULL;
    topology->place_count = 0;
}

void
cpu_list_mark (const char *list, cpu_set_t *set, size_t bytes)
{
    while (isdigit ((unsigned char) *list)) {
        char *end;
        unsigned long first = strtoul (list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul (end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < bytes * 8; cpu++)
            CPU_SET_S (cpu, bytes, set);
        list = *end == ',' ? end + 1 : end;
    }
}

void
cpu_list_write (const cpu_set_t *set, size_t bytes, char *text, size_t size)
{
    size_t at = 0;
    *text = '\0';
    for (size_t cpu = 0; cpu < bytes * 8; cpu++) {
        size_t last = cpu;
        if (!CPU_ISSET_S (cpu, bytes, set))
            continue;
        while (last + 1 < bytes * 8 && CPU_ISSET_S (last + 1, bytes, set))
            last++;
        if (at + 48 > size) {
            snprintf (text + at, size - at, ",...");
            return;
        }
        at += (size_t) snprintf (text + at, size - at, "%s%zu", at ? "," : "", cpu);
        if (last > cpu)
            at += (size_t) snprintf (text + at, size - at, "-%zu", last);
        cpu = last;
    }
}
