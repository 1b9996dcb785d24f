/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs a launch may use, what each rank gets of them, and which CPUs are near: on machines that the test makes
 * up, as files of /proc, /sys and /dev, or as a table. */
#include <config.h>

#include "config/load.h"
#include "launch/machine/topology.h"
#include "launch/plan/gpu_choice.h"
#include "launch/machine/gpus.h"
#include "launch/plan/plan.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a machine of files ---- */

static void
put (const char *path, const char *text)
{
    char folder[256];
    for (size_t i = 0; path[i]; i++)
        if (path[i] == '/') {
            snprintf (folder, sizeof folder, "%.*s", (int) i, path);
            mkdir (folder, 0777);
        }
    AUTO_FILE FILE *file = fopen (path, "we");
    if (!file || fputs (text, file) < 0)
        exit (99);
}

static void
put_gpu (const char *bus, const char *model, const char *uuid, const char *minor)
{
    char path[256], text[256];
    snprintf (path, sizeof path, "proc/driver/nvidia/gpus/%s/information", bus);
    snprintf (text, sizeof text, "Model: \t\t %s  \nIRQ:   \t\t 112\nGPU UUID: \t %s\nDevice Minor: \t %s\n", model,
              uuid, minor);
    put (path, text);
}

static void
put_near (const char *bus, const char *node, const char *cpus)
{
    char path[256];
    snprintf (path, sizeof path, "sys/bus/pci/devices/%s/numa_node", bus);
    put (path, node);
    snprintf (path, sizeof path, "sys/bus/pci/devices/%s/local_cpulist", bus);
    put (path, cpus);
}

/* Folders and what they hold; a node that begins with ! cannot be opened for writing, by any user. */
static void
make_machine (const char *folder, const char *names)
{
    char path[256], copy[256], *rest = NULL;
    snprintf (copy, sizeof copy, "%s", names);
    for (char *name = strtok_r (copy, " ", &rest); name; name = strtok_r (NULL, " ", &rest)) {
        snprintf (path, sizeof path, "%s/%s", folder, name + (*name == '!'));
        if (*name != '!')
            put (path, "");
        else if (symlink ("/proc/sys/kernel/osrelease", path))
            exit (99);
    }
}

static void
test_count (void)
{
    static const char kernels[] = "devtmpfs /dev devtmpfs rw 0 0\n",
                      containers[] = "devtmpfs /dev devtmpfs rw 0 0\ntmpfs /dev tmpfs rw 0 0\n";
    static const struct {
        const char *what, *nodes, *listed, *mounts; /* listed NULL: no /proc/driver/nvidia */
        bool modprobe;
        int count;
    } cases[] = {
        { "a container with some", "nvidia0 nvidia1 nvidiactl nvidia-uvm null", "a b c", containers, false, 2 },
        { "with the program that makes nodes", "nvidia0 nvidia1 nvidiactl null", "a b c", containers, true, 2 },
        { "nodes that are made on demand", "nvidia0 nvidia1 nvidiactl null", "a b c", kernels, true, 3 },
        { "no node, in a container, too", "nvidiactl null", "a b c", containers, false, 3 },
        { "no list", "nvidia0 nvidia1 nvidia10", "", kernels, true, 3 },
        { "a node that may not be opened", "nvidia0 !nvidia1 nvidiactl", "a b", kernels, false, 1 },
        { "one, and one that is not made yet", "nvidia0 !nvidia1 nvidiactl", "a b c", kernels, true, 2 },
        { "only such nodes", "!nvidia0 !nvidia1 nvidiactl", "a b", kernels, true, 0 },
        { "no files of the driver", "nvidia0 !nvidia1 nvidia2 nvidiactl", NULL, kernels, false, 2 },
        { "nor a driver", "nvidia0 !nvidiactl", NULL, kernels, false, 0 },
        { "nodes of a driver that is gone", "nvidia0", NULL, kernels, false, 0 },
        { "nothing", "null", NULL, kernels, false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char root[16], path[64];
        snprintf (root, sizeof root, "box%zu", i);
        snprintf (path, sizeof path, "%s/proc/self/mounts", root);
        put (path, cases[i].mounts);
        snprintf (path, sizeof path, "%s/dev/x", root);
        put (path, "");
        snprintf (path, sizeof path, "%s/dev", root);
        make_machine (path, cases[i].nodes);
        snprintf (path, sizeof path, "%s/proc/driver/nvidia/gpus", root);
        if (cases[i].listed) {
            put (strcat (path, "/.x"), "");
            *strrchr (path, '/') = '\0';
            make_machine (path, cases[i].listed);
        }
        snprintf (path, sizeof path, "%s/usr/bin/nvidia-modprobe", root);
        put (path, "");
        if (cases[i].modprobe)
            chmod (path, 0755);
        int count = gpu_locations_count (root);
        ok (count == cases[i].count, "%s: %d", cases[i].what, count);
    }
}

static void
test_places (void)
{
    static struct gpu_location locations[GPU_LOCATIONS_MOST];
    char long_list[2048];
    ok (gpu_locations_list ("./nothing", locations) == 0, "a machine without a driver has none");
    put_gpu ("0000:81:00.0", "NVIDIA L4", "GPU-22", "2");
    put_gpu ("0000:01:00.0", "NVIDIA H200", "GPU-00", "1");
    put_gpu ("0000:02:00.0", "NVIDIA H200", "GPU-11", "0");
    put_near ("0000:01:00.0", "0\n", "0-3,8-11\n");
    put_near ("0000:81:00.0", "-1\n", "0-15\n");
    int count = gpu_locations_list (".", locations);
    ok (count == 3, "three: %d", count);
    is_text (locations[0].bus, "0000:01:00.0", "in the order of the bus");
    is_text (locations[2].bus, "0000:81:00.0", "to the last");
    is_text (locations[0].uuid, "GPU-00", "UUID");
    is_text (locations[0].model, "NVIDIA H200", "model, without blanks");
    ok (locations[0].node == 0 && locations[1].node == -1 && locations[2].node == -1, "NUMA nodes");
    is_text (locations[0].cpus, "0-3,8-11", "CPUs");
    is_text (locations[1].cpus, "", "none where the kernel has no file");
    put ("dev/nvidiactl", "");
    ok (gpu_locations_list (".", locations) == 3, "nodes that are not made yet prove nothing");
    put ("dev/nvidia2", "");
    count = gpu_locations_list (".", locations);
    ok (count == 1 && !strcmp (locations[0].uuid, "GPU-22"), "a container has those whose nodes it has");
    put ("usr/bin/nvidia-modprobe", "");
    ok (gpu_locations_list (".", locations) == 1, "a program that cannot run makes no nodes");
    chmod ("usr/bin/nvidia-modprobe", 0755);
    ok (gpu_locations_list (".", locations) == 1, "in a container, a node that is made cannot be opened");
    put ("proc/self/mounts", "devtmpfs /dev devtmpfs rw 0 0\n");
    ok (gpu_locations_list (".", locations) == 3,
        "where nodes are made when they are needed, missing ones prove nothing");
    make_machine ("dev", "!nvidia1");
    ok (gpu_locations_list (".", locations) == 2, "but not nodes that may not be opened");
    unlink ("usr/bin/nvidia-modprobe");
    memset (long_list, '1', sizeof long_list - 1);
    long_list[sizeof long_list - 1] = '\0';
    put_near ("0000:81:00.0", "1\n", long_list);
    ok (gpu_locations_list (".", locations) == 1, "one again");
    is_text (locations[0].cpus, "", "a list that is too long is ignored");
    ok (locations[0].node == 1, "but its node is known");
}

/* ---- a machine in a table ---- */

static struct gpu_location table[] = {
    { "0000:01:00.0", "GPU-aa11-1", "NVIDIA H200", 0, "0-3,8-11" },
    { "0000:02:00.0", "GPU-aa22-2", "NVIDIA H200", 0, "0-3,8-11" },
    { "0000:81:00.0", "GPU-bb33-3", "NVIDIA H200", 1, "4-7,12-15" },
    { "0000:82:00.0", "GPU-cc44-4", "NVIDIA H200", 1, "4-7,12-15" },
};

static struct topology
make_topology (const char *allowed)
{
    struct topology topology = { .host = "box", .cpus = 16, .physical_cores = 8, .gpus = 4, .gpus_present = 4,
                                 .gpu_locations = table, .gpu_location_count = 4 };
    snprintf (topology.cpu_list, sizeof topology.cpu_list, "%s", allowed);
    return topology;
}

static void
test_check (void)
{
    static const struct {
        const char *list, *wrong; /* NULL: nothing */
    } cases[] = {
        { "0,3", NULL }, { "GPU-aa1,GPU-BB", NULL }, { "MIG-unknown", NULL }, { "GPU-bb33-3,1", NULL },
        { "0,4", "gpu_ids: GPU 4 does not exist: box has 4 GPUs, numbered from 0" },
        { "GPU-dd", "gpu_ids: no GPU of box has the UUID GPU-dd; 'accelerate env' lists them" },
        { "GPU-aa", "gpu_ids: the UUIDs of several GPUs of box begin with GPU-aa: give more of it" },
        { "1,GPU-bb33-33", "gpu_ids: no GPU of box has the UUID GPU-bb33-33; 'accelerate env' lists them" },
    };
    struct topology topology = make_topology ("0-15");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fail fail = { 0 };
        int result = gpu_choice_check (cases[i].list, &topology, &fail);
        ok (!result == !cases[i].wrong && (!result || fail.status == FAIL_USAGE), "the list %s", cases[i].list);
        is_text (fail.text, cases[i].wrong ? cases[i].wrong : "", "what is said of it");
    }
    table[1].uuid[4] = '?';
    ok (!gpu_choice_check ("GPU-dd", &topology, NULL), "where the driver does not know all UUIDs, any may exist");
    table[1].uuid[4] = 'a';
    topology.gpu_location_count = topology.gpus_present = 0;
    ok (!gpu_choice_check ("GPU-dd,9", &topology, NULL), "where no GPU is to be seen, too");
}

static void
test_near (void)
{
    static const char unknown[]
        = "which GPU it uses is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or give UUIDs (GPU-...) in --gpu_ids";
    static const struct {
        const char *what, *list;
        int local_rank;
        const char *allowed, *order, *other_model, *cpus, *why;
    } cases[] = {
        { "all GPUs, rank 0", NULL, 0, "0-15", NULL, NULL, "0-3,8-11", NULL },
        { "rank 2", NULL, 2, "0-15", NULL, NULL, "4-7,12-15", NULL },
        { "ranks take turns", NULL, 5, "0-15", NULL, NULL, "0-3,8-11", NULL },
        { "of a list by number", "3,0", 0, "0-15", NULL, NULL, "4-7,12-15", NULL },
        { "its second", "3,0", 1, "0-15", NULL, NULL, "0-3,8-11", NULL },
        { "its first again", "3,0", 2, "0-15", NULL, NULL, "4-7,12-15", NULL },
        { "by UUID", "GPU-bb33,0", 0, "0-15", NULL, NULL, "4-7,12-15", NULL },
        { "a part, as old drivers call it", "MIG-GPU-cc44-4/1/0", 0, "0-15", NULL, NULL, "4-7,12-15", NULL },
        { "a part of an unknown GPU", "MIG-1234", 0, "0-15", NULL, NULL, "", unknown },
        { "some CPUs belong to others", NULL, 0, "2-9", NULL, NULL, "2-3,8-9", NULL },
        { "all CPUs near it belong to others", NULL, 2, "0-3", NULL, NULL, "", "the launcher may not use any of them" },
        { "other models: numbers mean nothing", NULL, 0, "0-15", NULL, "NVIDIA L4", "", unknown },
        { "but UUIDs do", "GPU-bb33", 0, "0-15", NULL, "NVIDIA L4", "4-7,12-15", NULL },
        { "the fastest first, as it is without", NULL, 0, "0-15", "FASTEST_FIRST", "NVIDIA L4", "", unknown },
        { "in the order of the bus", NULL, 3, "0-15", "PCI_BUS_ID", "NVIDIA L4", "4-7,12-15", NULL },
        { "a number that does not exist", "7", 0, "0-15", NULL, NULL, "", unknown },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char cpus[GPU_CHOICE_CPUS] = "", model[sizeof table->model];
        struct topology topology = make_topology (cases[i].allowed);
        topology.cuda_order = cases[i].order;
        memcpy (model, table[3].model, sizeof model);
        if (cases[i].other_model)
            snprintf (table[3].model, sizeof table[3].model, "%s", cases[i].other_model);
        is_text (gpu_choice_find_cpus (cases[i].list, cases[i].local_rank, &topology, cpus), cases[i].why,
                 cases[i].what);
        if (!cases[i].why)
            is_text (cpus, cases[i].cpus, "its CPUs");
        memcpy (table[3].model, model, sizeof model);
    }
    char cpus[GPU_CHOICE_CPUS] = "";
    struct topology topology = make_topology ("0,2,...");
    is_text (gpu_choice_find_cpus (NULL, 0, &topology, cpus),
             "the list of CPUs that the launcher may use is too long", "a list that is cut does not count");
    topology = make_topology ("0-15");
    topology.gpu_location_count = 2;
    ok (!gpu_choice_find_cpus ("MIG-1234", 0, &topology, cpus) && !strcmp (cpus, "0-3,8-11"),
        "where all GPUs are in one place, it does not matter which it is");
    topology.gpu_location_count = 0;
    is_text (gpu_choice_find_cpus (NULL, 0, &topology, cpus), "the driver does not list its GPUs", "no list");
    topology.gpu_location_count = 1;
    table[0].cpus[0] = '\0';
    is_text (gpu_choice_find_cpus (NULL, 0, &topology, cpus), "the kernel does not list them", "no CPUs");
    table[0].cpus[0] = '0';
}

/* ---- plans ---- */

static int
make_plan (struct plan *plan, const char *flags, const struct topology *topology, struct fail *fail)
{
    char text[256], *words[32], *rest = NULL;
    int count = 0;
    struct config config;
    struct program program = { 0 };
    strlist_add (&program.argv, "/bin/prog");
    snprintf (text, sizeof text, "%s prog", flags);
    for (char *word = strtok_r (text, " ", &rest); word; word = strtok_r (NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    int result = config_load_launch (&config, count, words, fail);
    if (result == 0)
        result = plan_make (plan, &config, topology, &program, fail);
    config_release (&config);
    program_release (&program);
    return result;
}

static const char *
visible_of (const struct plan_process *process)
{
    for (size_t i = 0; i < process->env.count; i++)
        if (!strncmp (process->env.items[i], "CUDA_VISIBLE_DEVICES=", 21))
            return process->env.items[i] + 21;
    return "-";
}

/* What is made of flags: of each rank "device visible cpus; ", then the notes; or the refusal. */
static void
test_plans (void)
{
    static const struct {
        const char *flags, *visible;
        int gpus;
        const char *wanted, *allowed, *ds_accelerator; /* allowed NULL: 2-15 */
        bool others;
    } cases[] = {
        { "--num_processes 2", NULL, 4, "cuda:0 - -; cuda:1 - -; " },
        { "--multi_gpu --num_processes 3 --gpu_ids 1,3", NULL, 4,
          "3 processes on box, but gpu_ids lists 2 GPUs: start one process for each GPU (--num_processes), or give "
          "--share_gpus to let several use one" },
        { "--multi_gpu --num_processes 2", "2", 1,
          "2 processes on box, but it has 1 GPU: start one process for each GPU (--num_processes), or give "
          "--share_gpus to let several use one" },
        { "--use_fsdp --num_processes 5", NULL, 4,
          "5 processes on box, but it has 4 GPUs: start one process for each GPU (--num_processes), or give "
          "--share_gpus to let several use one" },
        { "--multi_gpu --share_gpus --num_processes 2", "2", 1, "cuda:0 - -; cuda:0 - -; 2 processes share 1 GPU" },
        { "--num_processes 2", "2", 1,
          "cuda:0 - -; cuda:0 - -; 2 processes share 1 GPU, which NCCL refuses: for a program on CPUs, give --cpu" },
        { "--cpu --num_processes 9", NULL, 4, "cpu - -; cpu - -; cpu - -; cpu - -; cpu - -; cpu - -; cpu - -; cpu - -; "
                                              "cpu - -; " },
        { "--num_processes 2 --gpu_ids 1,4", NULL, 4,
          "gpu_ids: GPU 4 does not exist: box has 4 GPUs, numbered from 0" },
        { "--num_processes 2 --gpu_ids MIG-1,MIG-2", NULL, 4, "cuda:0 MIG-1 -; cuda:0 MIG-2 -; " },
        { "--num_processes 3 --share_gpus --gpu_ids MIG-1,MIG-2", NULL, 4,
          "cuda:0 MIG-1 -; cuda:0 MIG-2 -; cuda:0 MIG-1 -; 3 processes share 2 GPUs" },
        { "--num_processes 2", "MIG-1,MIG-2", 2, "cuda:0 MIG-1 -; cuda:0 MIG-2 -; " },
        { "--cpu --num_processes 2", "MIG-1,MIG-2", 2, "cpu - -; cpu - -; " },
        { "--gpu_ids MIG-1", NULL, 4, "cuda:0 MIG-1 -; " },
        { "--enable_cpu_affinity --num_processes 3", NULL, 4,
          "cuda:0 - 2-3,8-11; cuda:1 - 2-3,8-11; cuda:2 - 4-7,12-15; " },
        { "--enable_cpu_affinity --num_processes 2 --gpu_ids GPU-cc,0", NULL, 4,
          "cuda:0 GPU-cc,0 4-7,12-15; cuda:1 GPU-cc,0 2-3,8-11; " },
        { "--enable_cpu_affinity --num_processes 2", "3,0", 2, "cuda:0 - 4-7,12-15; cuda:1 - 2-3,8-11; " },
        { "--enable_cpu_affinity --num_processes 2", "MIG-1,MIG-2", 2,
          "cuda:0 MIG-1 -; cuda:0 MIG-2 -; rank 0 is not bound to the CPUs near its GPU: which GPU it uses is not "
          "known: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or give UUIDs (GPU-...) in --gpu_ids" },
        { "--enable_cpu_affinity --cpu --num_processes 2", NULL, 4, "cpu - -; cpu - -; " },
        { "--enable_cpu_affinity --num_processes 4", NULL, 4,
          "cuda:0 - 0-3; cuda:1 - 0-3; cuda:2 - -; cuda:3 - -; rank 2 is not bound to the CPUs near its GPU: the "
          "launcher may not use any of them", "0-3" },
        { "--use_deepspeed --num_processes 2", NULL, 1, "2 processes on box, but it has 1 GPU: start one process for "
          "each GPU (--num_processes), or give --share_gpus to let several use one" },
        { "--use_deepspeed --num_processes 2", NULL, 1, "2 processes on box, but it has 1 GPU: start one process for "
          "each GPU (--num_processes), or give --share_gpus to let several use one", NULL, "cuda", true },
        { "--use_deepspeed --num_processes 2", NULL, 1, "cuda:0 - -; cuda:0 - -; ", NULL, "cpu" },
        { "--use_fsdp --num_processes 2", NULL, 1, "2 processes on box, but it has 1 GPU: start one process for "
          "each GPU (--num_processes), or give --share_gpus to let several use one", NULL, "cpu" },
        { "--use_fsdp --num_processes 2", NULL, 1, "cuda:0 - -; cuda:0 - -; ", NULL, NULL, true },
        { "--config_file xpu.yaml --num_processes 2", NULL, 1, "xpu:0 - -; xpu:1 - -; " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology topology = make_topology (cases[i].allowed ? cases[i].allowed : "2-15");
        struct fail fail = { 0 };
        struct plan plan = { 0 };
        AUTO_STRBUF struct strbuf got = { 0 };
        topology.visible = cases[i].visible;
        topology.gpus = cases[i].gpus;
        topology.ds_accelerator = cases[i].ds_accelerator;
        topology.names_other_makers = cases[i].others;
        topology.omp_num_threads = "1"; /* or there is a note */
        setenv ("OMP_NUM_THREADS", "1", 1);
        if (make_plan (&plan, cases[i].flags, &topology, &fail))
            strbuf_add (&got, fail.text);
        for (int j = 0; j < plan.process_count; j++)
            strbuf_printf (&got, "%s %s %s; ", plan.processes[j].device, visible_of (&plan.processes[j]),
                           plan.processes[j].cpus ? plan.processes[j].cpus : "-");
        for (size_t j = 0; j < plan.notes.count; j++)
            strbuf_add (&got, plan.notes.items[j]);
        is_text (got.text, cases[i].wanted, cases[i].flags);
        plan_release (&plan);
    }
}

static void
test_lists (void)
{
    static const char *const lists[] = { "0", "0-3", "1,3,5-6", "8191", "" };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        cpu_set_t set[8];
        char text[64];
        CPU_ZERO_S (sizeof set, set);
        cpu_list_mark (lists[i], set, sizeof set);
        cpu_list_write (set, sizeof set, text, sizeof text);
        is_text (text, lists[i], "there and back");
    }
    cpu_set_t set[8];
    CPU_ZERO_S (sizeof set, set);
    cpu_list_mark ("8190-9000,x", set, sizeof set);
    ok (CPU_COUNT_S (sizeof set, set) == 2, "CPUs that have no room are left out, and what is not a list");
}

int
main (void)
{
    scratch_enter ();
    setenv ("HOME", ".", 1);
    unsetenv ("CUDA_VISIBLE_DEVICES");
    test_places ();
    test_count ();
    test_lists ();
    test_check ();
    test_near ();
    FILE *file = fopen ("xpu.yaml", "w");
    if (!file || fputs ("distributed_type: MULTI_XPU\n", file) < 0 || fclose (file))
        return 99;
    test_plans ();
    return done_testing ();
}
