/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs, cores and GPUs of machines that are not this one: the files and the affinity that the probe sees are the
 * test's. */
#include <config.h>

#include "launch/cgroup_limits.h"
#include "launch/gpu_places.h"
#include "launch/topology.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
    { "4 cores of 2 threads, numbered one after the other", 8, 1, "1\n", "-", 2, 1, 0, 0, 8, 4, "0-7" },
    { "4 cores of 2 threads, the second ones last", 8, 1, "1\n", ",", 2, 4, 0, 0, 8, 4, "0-7" },
    { "no threads, as the kernel says", 8, 1, "0\n", "-", 2, 1, 0, 0, 8, 8, "0-7" },
    { "no files about threads", 8, 1, NULL, NULL, 1, 1, 0, 0, 8, 8, "0-7" },
    { "one thread of each core may be used", 8, 2, "1\n", "-", 2, 1, 0, 0, 4, 4, "0,2,4,6" },
    { "one CPU", 1, 1, "1\n", "", 1, 1, 0, 0, 1, 1, "0" },
    { "a quota of 3 CPUs", 8, 1, "1\n", "-", 2, 1, 3, 0, 3, 3, "0-7" },
    { "a quota of more CPUs than there are", 8, 1, "1\n", "-", 2, 1, 30, 0, 8, 4, "0-7" },
    { "3000 CPUs", 3000, 1, "1\n", ",", 2, 1500, 0, 0, 3000, 1500, "0-2999" },
    { "every second of 2000 CPUs", 2000, 2, "1\n", "-", 2, 1, 0, 0, 1000, 1000, "" },
    { "a kernel that does not tell", 8, 1, "1\n", "-", 2, 1, 0, EPERM, 1, 1, "" },
};
static const struct machine *machine;
static int files_read;
static bool has_modprobe; /* the program that makes nodes in /dev */
static const char *folders[2]; /* in the place of /dev and of the driver's list */

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

static int
file_of (const char *text)
{
    int fd = memfd_create ("fake", MFD_CLOEXEC);
    if (fd >= 0 && (write (fd, text, strlen (text)) < 0 || lseek (fd, 0, SEEK_SET)))
        exit (99);
    return fd;
}

static int
fake_open (const char *path)
{
    int cpu;
    char text[64];
    errno = ENOENT;
    if (!strcmp (path, "/sys/devices/system/cpu/smt/active"))
        return machine->smt ? file_of (machine->smt) : -1;
    if (sscanf (path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", &cpu) != 1 || !machine->siblings)
        return -1;
    files_read++;
    int core = machine->distance == 1 ? cpu / machine->threads * machine->threads : cpu % machine->distance;
    if (*machine->siblings)
        snprintf (text, sizeof text, "%d%s%d\n", core, machine->siblings, core + machine->distance);
    else
        snprintf (text, sizeof text, "%d\n", core);
    return file_of (text);
}

static DIR *
fake_opendir (const char *path)
{
    return opendir (!strcmp (path, "/dev") ? folders[0] : folders[1]);
}

static int
fake_access (const char *path)
{
    if (!strcmp (path, GPU_PLACES_MODPROBE))
        return has_modprobe ? 0 : -1;
    return strcmp (path, "/proc/driver/nvidia") || !*folders[1] ? -1 : 0;
}

/* The module itself, on such a machine. */
#define sched_getaffinity(pid, bytes, allowed) fake_affinity (bytes, allowed)
#define open(path, flags) fake_open (path)
#define opendir(path) fake_opendir (path)
#define access(path, mode) fake_access (path)
#define cgroup_cpu_quota() (machine->quota)
#include "launch/topology.c"
#undef open
#undef opendir
#undef access

static void
test_cpus (void)
{
    folders[0] = folders[1] = "";
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
        "a list that is too long says so: %s", topology.cpu_list);
}

static void
make_files (const char *folder, const char *names)
{
    char path[128], *rest = NULL, copy[128];
    snprintf (copy, sizeof copy, "%s", names);
    if (mkdir (folder, 0777))
        exit (99);
    for (char *name = strtok_r (copy, " ", &rest); name; name = strtok_r (NULL, " ", &rest)) {
        snprintf (path, sizeof path, "%s/%s", folder, name);
        close (creat (path, 0666));
    }
}

static void
remove_files (const char *folder)
{
    char path[512];
    DIR *dir = opendir (folder);
    for (const struct dirent *entry; dir && (entry = readdir (dir));) {
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink (path);
    }
    closedir (dir);
    rmdir (folder);
}

static void
test_gpus (void)
{
    static const struct {
        const char *nodes, *listed; /* in /dev, in the driver's folder; "": none */
        bool modprobe;
        const char *visible;
        int present, gpus;
    } cases[] = {
        { "nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools null", "a b c", false, NULL, 2, 2 },
        { "nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools null", "a b c", true, NULL, 3, 3 },
        { "nvidiactl null", "0000:01:00.0 0000:02:00.0 0000:03:00.0", false, NULL, 3, 3 },
        { "nvidia0 nvidia1 nvidia10", "", true, "1", 3, 1 },
        { "nvidia0", "", false, "0,1,2", 1, 1 },
    };
    struct topology topology;
    machine = &machines[0];
    folders[0] = "dev";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folders[1] = "driver";
        has_modprobe = cases[i].modprobe;
        make_files ("dev", cases[i].nodes);
        make_files ("driver", cases[i].listed);
        if (cases[i].visible)
            setenv ("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        topology_probe (&topology, false);
        ok (topology.gpus_present == cases[i].present && topology.gpus == cases[i].gpus,
            "%s in /dev: %d GPUs, %d of them visible", cases[i].nodes, topology.gpus_present, topology.gpus);
        unsetenv ("CUDA_VISIBLE_DEVICES");
        folders[1] = "";
        topology_probe (&topology, false);
        ok (!topology.gpus_present, "and none without a driver");
        remove_files ("dev");
        remove_files ("driver");
    }
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
        = { "CUDA_VISIBLE_DEVICES", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE" };
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        unsetenv (unwanted[i]);
    scratch_enter ();
    test_cpus ();
    test_long_list ();
    test_gpus ();
    test_environment ();
    return done_testing ();
}
