/* SPDX-License-Identifier: Apache-2.0 */
/* The words that other launchers get, and what ranks under DeepSpeed or with old drivers get, on made-up machines. */
#include <config.h>

#include "config/load.h"
#include "launch/plan/plan.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"

/* A plan for @flags and the lines of a configuration file. */
static int
plan_for (struct plan *plan, const char *flags, const char *lines, const struct topology *topology, struct fail *fail)
{
    struct config config;
    struct program program = { .python = true };
    char text[512], *argv[32], *rest = NULL;
    int argc = 0;
    AUTO_FILE FILE *file = fopen ("config.yaml", "w");
    const char *number = strstr (lines, "num_processes") ? "" : "num_processes: 4\n";
    if (!file || fprintf (file, "%s%s", number, lines) < 0 || fflush (file))
        return fail_set (fail, 1, "config.yaml cannot be written");
    snprintf (text, sizeof text, "--config_file config.yaml %s t.py x", flags);
    for (char *word = strtok_r (text, " ", &rest); word && argc < 31; word = strtok_r (NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    strlist_add (&program.argv, "/usr/bin/python3");
    strlist_add (&program.argv, "t.py");
    int result = config_load_launch (&config, argc, argv, fail);
    if (result == 0)
        result = plan_make (plan, &config, topology, &program, fail);
    config_release (&config);
    program_release (&program);
    return result;
}

static void
test_words (void)
{
#define TWO "--num_machines 2 --machine_rank 0 --main_process_ip h "
#define DEEPSPEED "--use_deepspeed " TWO
    static const struct {
        const char *flags, *lines;
        bool is_open;
        const char *wanted; /* some words that are next to each other */
    } cases[] = {
        { "--cpu --mpirun_hostfile f", "", true, "/bin/mpirun --hostfile f --npernode 4 -n 4 --bind-to socket " },
        { "--cpu --mpirun_hostfile f", "", false, "/bin/mpirun -f f -ppn 4 -n 4 /usr/bin/python3 t.py x" },
        { "--cpu --mpirun_hostfile f " TWO, "", true, "--npernode 2 -n 4 " },
        { "--cpu --mpirun_hostfile f", "debug: false # no num_processes\n", true, "--npernode 1 --bind-to" },
        { DEEPSPEED, "", false, "deepspeed --no_local_rank --launcher pdsh --num_gpus 2 --master_addr h --master_port "
          "29500 t.py x" },
        { DEEPSPEED "--deepspeed_exclusion_filter a@b", "", false, "--launcher pdsh --exclude a@b --master_addr" },
        { DEEPSPEED "--deepspeed_inclusion_filter a@b", "", false, "--launcher pdsh --include a@b --master_addr" },
        { DEEPSPEED "--deepspeed_multinode_launcher nossh", "", false,
          "deepspeed --node_rank 0 --no_ssh --num_gpus 2" },
        { "--vm a", "distributed_type: XLA\ntpu_use_cluster: true\ntpu_name: pod\ntpu_vm: [b, c]\n", false,
          "--tpu pod --vm a --vm b --vm c --env ACCELERATE_IN_TPU_POD=1 --restart-tpuvm-pod-server -- "
          "accelerate-launch" },
        { "--env A=1", "distributed_type: XLA\ntpu_use_cluster: true\ntpu_name: pod\ntpu_env: [B=2]\n", false,
          "--tpu pod --env A=1 --env B=2 --env" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology topology = { .host = "box", .cpus = 4, .physical_cores = 4, .mpi_program = "/bin/mpirun",
                                     .mpi_is_open = cases[i].is_open };
        struct fail fail = { 0 };
        struct plan plan;
        AUTO_STRBUF struct strbuf words = { 0 };
        if (!ok (!plan_for (&plan, cases[i].flags, cases[i].lines, &topology, &fail), "%s %s", cases[i].flags,
                 fail.text))
            continue;
        for (size_t j = 0; j < plan.processes[0].argv.count; j++)
            strbuf_printf (&words, "%s%s", j ? " " : "", plan.processes[0].argv.items[j]);
        if (!ok (strstr (words.text, cases[i].wanted), "the words of another launcher"))
            diag ("'%s' in '%s'", cases[i].wanted, words.text);
        plan_release (&plan);
    }
    struct topology topology = { .host = "box", .cpus = 4, .physical_cores = 4 };
    struct fail fail = { 0 };
    struct plan plan;
    ok (plan_for (&plan, "--cpu --mpirun_hostfile f", "", &topology, &fail) && strstr (fail.text, "neither is in PATH"),
        "no mpirun: %s", fail.text);
}

static void
test_environment (void)
{
    static const struct {
        const char *flags, *lines, *python_path;
        bool lacks_p2p, has_p2p, has_ib;
        const char *wanted; /* a variable, or !NAME */
        const char *package; /* where accel_torch is; NULL: nowhere */
    } cases[] = {
        { "--use_deepspeed", "", ":/a::/b:", false, false, false, "PYTHONPATH=/a:/b:/home" },
        { "--use_deepspeed", "", NULL, false, false, false, "PYTHONPATH=/home" },
        { "--use_deepspeed", "", NULL, false, false, false, "ACCELERATE_CONFIG_DS_FIELDS=" },
        { "", "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 2\n"
          "  gradient_accumulation_steps: 1\n", NULL, false, false, false,
          "ACCELERATE_CONFIG_DS_FIELDS=zero_stage,gradient_accumulation_steps,mixed_precision" },
        { "--mixed_precision fp16", "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n"
          "  zero_stage: 2\n", NULL, false, false, false, "ACCELERATE_CONFIG_DS_FIELDS=zero_stage" },
        { "--multi_gpu", "", NULL, true, false, false, "NCCL_P2P_DISABLE=1" },
        { "--multi_gpu", "", NULL, true, false, false, "NCCL_IB_DISABLE=1" },
        { "--multi_gpu", "", NULL, true, true, false, "!NCCL_P2P_DISABLE" },
        { "--multi_gpu", "", NULL, true, true, false, "NCCL_IB_DISABLE=1" },
        { "--multi_gpu", "", NULL, true, false, true, "NCCL_P2P_DISABLE=1" },
        { "--multi_gpu", "", NULL, true, false, true, "!NCCL_IB_DISABLE" },
        { "--multi_gpu", "", NULL, false, false, false, "!NCCL_IB_DISABLE" },
        { "--cpu", "", NULL, true, false, false, "!NCCL_P2P_DISABLE" },
        { "--multi_gpu --main_process_ip h", "", NULL, false, false, false, "MASTER_ADDR=127.0.0.1" },
        { "--cpu --main_process_ip h", "", NULL, false, false, false, "MASTER_ADDR=h" },
        { "--cpu", "", NULL, false, false, false, "!ACCEL_CPU_BACKEND" },
        { "--cpu --cpu_backend auto", "", NULL, false, false, false, "!ACCEL_CPU_BACKEND" },
        { "--cpu --cpu_backend gloo", "", NULL, false, false, false, "ACCEL_CPU_BACKEND=gloo" },
        { "--cpu", "cpu_backend: accel\n", NULL, false, false, false, "ACCEL_CPU_BACKEND=accel" },
        { "--cpu --cpu_backend accel", "", "/a", false, false, false, "!PYTHONPATH" },
        { "--cpu --cpu_backend accel", "", NULL, false, false, false, "PYTHONPATH=/p", "/p" },
        { "--cpu --cpu_backend accel", "", ":/a::/b:", false, false, false, "PYTHONPATH=/a:/b:/p", "/p" },
        { "--use_deepspeed --cpu_backend accel", "", "/a", false, false, false, "PYTHONPATH=/a:/p:/home", "/p" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology topology = { .host = "box", .cpus = 4, .physical_cores = 4, .gpus = 4, .gpus_present = 4,
                                     .folder = "/home", .python_path = cases[i].python_path,
                                     .lacks_p2p = cases[i].lacks_p2p, .nccl_p2p_is_chosen = cases[i].has_p2p,
                                     .nccl_ib_is_chosen = cases[i].has_ib };
        struct fail fail = { 0 };
        struct plan plan;
        if (cases[i].package)
            snprintf (topology.torch_package, sizeof topology.torch_package, "%s", cases[i].package);
        if (!ok (!plan_for (&plan, cases[i].flags, cases[i].lines, &topology, &fail), "%s %s", cases[i].flags,
                 fail.text))
            continue;
        const struct strlist *env = &plan.processes[0].env;
        bool is_unset = *cases[i].wanted == '!', found = false;
        const char *name = cases[i].wanted + is_unset;
        for (size_t j = 0; j < env->count; j++)
            found |= is_unset ? !strncmp (env->items[j], name, strlen (name)) : !strcmp (env->items[j], name);
        ok (found == !is_unset, "%s", cases[i].wanted);
        plan_release (&plan);
    }
}

static void
test_threads (void)
{
    static const struct {
        int mpi_local_size;
        const char *omp, *wanted;
    } cases[] = { { 0, NULL, "OMP_NUM_THREADS=4" }, { 8, NULL, "OMP_NUM_THREADS=2" }, { 2, NULL, "OMP_NUM_THREADS=4" },
                  { 0, "0", "OMP_NUM_THREADS=4" }, { 0, "3", "OMP_NUM_THREADS=3" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology topology = { .host = "box", .cpus = 16, .physical_cores = 16, .omp_num_threads = cases[i].omp,
                                     .mpi_local_size = cases[i].mpi_local_size };
        struct fail fail = { 0 };
        struct plan plan;
        if (!ok (!plan_for (&plan, "--cpu", "", &topology, &fail), "a plan %s", fail.text))
            continue;
        bool found = false;
        for (size_t j = 0; j < plan.processes[0].env.count; j++)
            found |= !strcmp (plan.processes[0].env.items[j], cases[i].wanted);
        ok (found, "16 cores, %d ranks of mpirun: %s", cases[i].mpi_local_size, cases[i].wanted);
        plan_release (&plan);
    }
}

/* Another launcher's ranks write no files of ours, and a note is printed. */
static void
test_no_files (void)
{
    struct topology topology = { .host = "box", .cpus = 4, .physical_cores = 4, .mpi_program = "/bin/mpirun" };
    struct fail fail = { 0 };
    struct plan plan;
    if (!ok (!plan_for (&plan, "--cpu --mpirun_hostfile f --tee 3 --log_dir d", "", &topology, &fail), "a plan %s",
             fail.text))
        return;
    bool noted = false;
    for (size_t i = 0; i < plan.notes.count; i++)
        noted |= strstr (plan.notes.items[i], "another launcher starts the ranks") != NULL;
    ok (!plan.logs.run && noted, "no files of another launcher's ranks");
    plan_release (&plan);
}

int
main (void)
{
    const char *folder = scratch_enter ();
    static const char *const unwanted[] = { "OMP_NUM_THREADS", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE",
                                           "ACCEL_CPU_BACKEND" };
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        unsetenv (unwanted[i]);
    test_words ();
    test_environment ();
    test_threads ();
    test_no_files ();
    unlink ("config.yaml");
    if (chdir ("/") || rmdir (folder))
        ok (false, "nothing is left behind");
    return done_testing ();
}
