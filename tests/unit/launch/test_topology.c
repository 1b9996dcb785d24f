/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs, cores and GPUs of machines that are not this one: the files and the affinity that the probe sees are the
 * test's. */
#include <config.h>

#include "launch/machine/cgroup.h"
#include "launch/machine/gpus.h" /* before its function has another name */
#include "launch/machine/topology.h"
#include "tests/tap.h"
#include "util/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A machine, and what is to be found out about it. */
static struct machine {
    const char *name;
    int cpus, step;        /* those whose number is a multiple of `step` may be used */
    const char *smt;       /* NULL: no such file */
    const char *siblings;  /* what is between the numbers of a core's threads, "": it has one; NULL: no such files */
    int threads, distance; /* of each core; between the numbers of two threads */
    int quota, error;
    int wanted_cpus, wanted_cores;
    const char *wanted_list; /* "" where it does not matter */
} machines[] = {
    { "4 cores of 2 threads, numbered one after the other", 8, 1, "1", "-", 2, 1, 0, 0, 8, 4, "0-7" },
    { "4 cores of 2 threads, the second ones last", 8, 1, "1", ",", 2, 4, 0, 0, 8, 4, "0-7" },
    { "no threads, as the kernel says", 8, 1, "0", "-", 2, 1, 0, 0, 8, 8, "0-7" },
    { "no files about threads", 8, 1, NULL, NULL, 1, 1, 0, 0, 8, 8, "0-7" },
    { "one thread of each core may be used", 8, 2, "1", "-", 2, 1, 0, 0, 4, 4, "0,2,4,6" },
    { "one CPU", 1, 1, "1", "", 1, 1, 0, 0, 1, 1, "0" },
    { "a quota of 3 CPUs", 8, 1, "1", "-", 2, 1, 3, 0, 3, 3, "0-7" },
    { "a quota of more CPUs than there are", 8, 1, "1", "-", 2, 1, 30, 0, 8, 4, "0-7" },
    { "3000 CPUs", 3000, 1, "1", ",", 2, 1500, 0, 0, 3000, 1500, "0-2999" },
    { "every second of 2000 CPUs", 2000, 2, "1", "-", 2, 1, 0, 0, 1000, 1000, "" },
    { "a kernel that does not tell", 8, 1, "1", "-", 2, 1, 0, EPERM, 1, 1, "" },
};
static const struct machine *machine;
static int files_read;
static int gpu_count; /* as gpu_locations_count() counts them; tests/nvml/test_gpus is about how */

static int
fake_affinity (size_t bytes, cpu_set_t *allowed)
{
    errno = machine->error ? machine->error : EINVAL;
    if (machine->error || bytes * 8 < (size_t) machine->cpus)
        return -1;
    for (int cpu = 0; cpu < machine->cpus; cpu += machine->step)
        CPU_SET_S ((size_t) cpu, bytes, allowed);
    return 0;
}

static bool
fake_line (const char *path, char *line, size_t size)
{
    int cpu;
    if (!strcmp (path, "/sys/devices/system/cpu/smt/active"))
        return machine->smt && snprintf (line, size, "%s", machine->smt) > 0;
    if (sscanf (path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", &cpu) != 1 || !machine->siblings)
        return false;
    files_read++;
    int core = machine->distance == 1 ? cpu / machine->threads * machine->threads : cpu % machine->distance;
    if (*machine->siblings)
        snprintf (line, size, "%d%s%d", core, machine->siblings, core + machine->distance);
    else
        snprintf (line, size, "%d", core);
    return true;
}

/* The module itself, on such a machine. */
#define sched_getaffinity(pid, bytes, allowed) fake_affinity (bytes, allowed)
#define procfs_read_line(path, line, size) fake_line (path, line, size)
#define cgroup_cpu_quota() (machine->quota)
#define gpu_locations_count(root) (gpu_count)
#include "launch/machine/topology.c"
#undef procfs_read_line
#undef gpu_locations_count

static void
test_cpus (void)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct topology topology;
        machine = &machines[i];
        files_read = 0;
        topology_probe (&topology, true);
        ok (topology.cpus == machine->wanted_cpus && topology.physical_cores == machine->wanted_cores,
            "%s: %d CPUs, %d cores", machine->name, topology.cpus, topology.physical_cores);
        if (*machine->wanted_list)
            is_text (topology.cpu_list, machine->wanted_list, "their list");
        ok (files_read <= machine->wanted_cores || machine->quota, "a file for each core and not for each thread: %d",
            files_read);
        topology_probe (&topology, false);
        ok (machine->error || topology.cpus == (machine->cpus + machine->step - 1) / machine->step,
            "no quota where cores do not matter");
    }
}

static void
test_long_list (void)
{
    struct topology topology;
    machine = &machines[9];
    topology_probe (&topology, true);
    size_t length = strlen (topology.cpu_list);
    ok (!strncmp (topology.cpu_list, "0,2,4,6,", 8) && !strcmp (topology.cpu_list + length - 4, ",..."),
        "a list that is too long has a note: %s", topology.cpu_list);
}

static void
test_gpus (void)
{
    static const struct {
        const char *visible;
        int present, gpus;
    } cases[] = { { NULL, 3, 3 }, { "1", 3, 1 }, { "0,1,2", 1, 1 }, { NULL, 0, 0 }, { "0", 0, 0 } };
    struct topology topology;
    machine = &machines[0];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_count = cases[i].present;
        if (cases[i].visible)
            setenv ("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        topology_probe (&topology, false);
        ok (topology.gpus_present == cases[i].present && topology.gpus == cases[i].gpus, "%d GPUs, %d of them visible",
            topology.gpus_present, topology.gpus);
        unsetenv ("CUDA_VISIBLE_DEVICES");
    }
    gpu_count = 0;
}

static void
test_other_makers (void)
{
    struct topology topology;
    topology_probe (&topology, false);
    ok (!topology.names_other_makers && !topology.ds_accelerator, "nothing of other makers");
    setenv ("DS_ACCELERATOR", "xpu", 1);
    setenv ("ZE_AFFINITY_MASK", "0", 1);
    topology_probe (&topology, false);
    ok (topology.names_other_makers, "Intel's GPUs");
    is_text (topology.ds_accelerator, "xpu", "in DeepSpeed's words");
    setenv ("CUDA_VISIBLE_DEVICES", "0", 1);
    topology_probe (&topology, false);
    ok (!topology.names_other_makers, "beside NVIDIA's, as Slurm names them, they say nothing");
    unsetenv ("CUDA_VISIBLE_DEVICES");
    unsetenv ("ZE_AFFINITY_MASK");
    unsetenv ("DS_ACCELERATOR");
}

/* One variable at a time, then the two that name folders. */
static void
test_environment (void)
{
    static const struct {
        const char *name, *value;
        int size;
    } cases[] = {
        { "MPI_LOCALNRANKS", "3", 3 },
        { "OMPI_COMM_WORLD_LOCAL_SIZE", "4", 4 },
        { "MV2_COMM_WORLD_LOCAL_SIZE", "5", 5 },
        { "MPI_LOCALNRANKS", "0", 0 },
        { "MPI_LOCALNRANKS", "x", 0 },
    };
    static const char *const temporary[][2] = { { "/var/tmp", "/var/tmp" }, { "tmp", NULL }, { "", NULL } };
    struct topology topology;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv (cases[i].name, cases[i].value, 1);
        topology_probe (&topology, false);
        ok (topology.mpi_local_size == cases[i].size, "%s=%s", cases[i].name, cases[i].value);
        unsetenv (cases[i].name);
    }
    for (size_t i = 0; i < sizeof temporary / sizeof *temporary; i++) {
        setenv ("TMPDIR", temporary[i][0], 1);
        topology_probe (&topology, false);
        is_text (topology.tmp_folder, temporary[i][1], "TMPDIR counts where it is absolute");
        unsetenv ("TMPDIR");
    }
}

int
main (void)
{
    static const char *const unwanted[]
        = { "DS_ACCELERATOR", "ZE_AFFINITY_MASK", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
            "ASCEND_RT_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "MLU_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES",
            "SDAA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES",
            "CUDA_VISIBLE_DEVICES", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE" };
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        unsetenv (unwanted[i]);
    test_cpus ();
    test_long_list ();
    test_gpus ();
    test_other_makers ();
    test_environment ();
    return done_testing ();
}
