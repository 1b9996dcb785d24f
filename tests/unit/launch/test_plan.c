/* SPDX-License-Identifier: Apache-2.0 */
/* liblaunch without effects: plans for settings and machines, programs, exit statuses, control groups, output. */
#include <config.h>

#include "config/load.h"
#include "config/mode.h"
#include "config/tee.h"
#include "launch/machine/cgroup.h"
#include "launch/plan/external_launcher.h"
#include "launch/output/output.h"
#include "launch/machine/gpus.h"
#include "launch/plan/plan.h"
#include "launch/process/process.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The value of NAME in an environment, NULL where it is not set. */
static const char *
value_of (const struct strlist *env, const char *name)
{
    size_t length = strlen (name);
    for (size_t i = 0; i < env->count; i++)
        if (!strncmp (env->items[i], name, length) && env->items[i][length] == '=')
            return env->items[i] + length + 1;
    return NULL;
}

static const char *type_of_file; /* distributed_type of the file; NULL: there is no file */

/* Without the loader's own checks, so that the plan's are seen.  Words of @flags are kept until the next call. */
static int
load (struct config *config, const char *flags, struct fail *fail)
{
    static char text[512];
    static char *argv[32];
    int argc = 0;
    snprintf (text, sizeof text, "%s prog a", flags);
    for (char *word = text + strspn (text, " "); word && argc < 31;) {
        argv[argc++] = word;
        word = strchr (word, ' ');
        if (word)
            *word++ = '\0';
    }
    argv[argc] = NULL;
    int result = config_init (config, fail);
    if (result == 0)
        result = config_load_flags (config, COMMAND_LAUNCH, argc, argv, fail);
    if (result == 0 && type_of_file)
        result = config_set (config, option_find ("distributed_type"), type_of_file,
                             (struct origin){ .kind = ORIGIN_FILE, .line = 1 }, fail);
    if (result == 0) {
        config_load_environment (config);
        result = config_resolve (config, fail);
    }
    return result;
}

/* Flags and machine in, plan out. */
static int
plan_for (struct plan *plan, const char *flags, const struct topology *topology, bool python, struct fail *fail)
{
    struct config config;
    struct program program = { .python = python };
    strlist_add (&program.argv, python ? "/usr/bin/python3" : "/bin/prog");
    if (python)
        strlist_add (&program.argv, "prog.py");
    int result = load (&config, flags, fail);
    if (result == 0)
        result = plan_make (plan, &config, topology, &program, fail);
    config_release (&config);
    program_release (&program);
    return result;
}

/* What must be in the environment of one rank: NAME=VALUE words, or !NAME for "not set". */
static const struct {
    const char *name, *flags;
    int gpus, cores;
    const char *omp;
    int count;      /* processes of this machine */
    int local_rank; /* whose environment */
    const char *wanted;
} plans[] = {
    { "nothing given, no GPU: one process", "", 0, 8, NULL, 1, 0,
      "!RANK !LOCAL_RANK !WORLD_SIZE !MASTER_ADDR !TORCHELASTIC_RUN_ID ACCELERATE_USE_CPU=False "
      "ACCELERATE_MIXED_PRECISION=no OMP_NUM_THREADS=1" },
    { "nothing given, 4 GPUs: one each", "", 4, 8, NULL, 4, 3,
      "RANK=3 LOCAL_RANK=3 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 !ACCELERATE_USE_CPU TORCH_NCCL_ASYNC_ERROR_HANDLING=1 "
      "OMP_NUM_THREADS=1" },
    { "--cpu is really as many ranks", "--cpu --num_processes 4", 0, 2, NULL, 4, 2,
      "RANK=2 LOCAL_RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 GROUP_RANK=0 "
      "GROUP_WORLD_SIZE=1 ROLE_NAME=default ROLE_RANK=2 ROLE_WORLD_SIZE=4 ACCELERATE_USE_CPU=True "
      "TORCHELASTIC_USE_AGENT_STORE=False TORCHELASTIC_RUN_ID=none OMP_NUM_THREADS=1 KMP_BLOCKTIME=1" },
    { "--cpu in spite of GPUs", "--cpu --num_processes 2", 8, 2, NULL, 2, 0,
      "RANK=0 ACCELERATE_USE_CPU=True !TORCH_NCCL_ASYNC_ERROR_HANDLING" },
    { "--cpu alone is one", "--cpu", 8, 8, NULL, 1, 0, "!RANK ACCELERATE_USE_CPU=True OMP_NUM_THREADS=8" },
    { "no GPU and no --cpu: on CPUs", "--num_processes 2", 0, 8, NULL, 2, 1,
      "RANK=1 ACCELERATE_USE_CPU=True OMP_NUM_THREADS=4" },
    { "one GPU, two processes", "--num_processes 2", 1, 8, NULL, 2, 1, "RANK=1 !ACCELERATE_USE_CPU OMP_NUM_THREADS=1" },
    { "--multi_gpu with one process is still a group", "--multi_gpu --num_processes 1", 1, 8, NULL, 1, 0,
      "RANK=0 WORLD_SIZE=1" },
    { "chosen GPUs are counted", "--gpu_ids 1,3", 8, 8, NULL, 2, 1, "WORLD_SIZE=2 CUDA_VISIBLE_DEVICES=1,3" },
    { "cores are divided", "--cpu --num_processes 2", 0, 16, NULL, 2, 0, "OMP_NUM_THREADS=8" },
    { "but not the caller's threads", "--cpu --num_processes 2", 0, 16, "3", 2, 0, "OMP_NUM_THREADS=3" },
    { "which may be a list", "--cpu --num_processes 2", 0, 16, "4,2", 2, 0, "OMP_NUM_THREADS=4,2" },
    { "the flag wins", "--cpu --num_processes 2 --num_cpu_threads_per_process 5", 0, 16, "3", 2, 0,
      "OMP_NUM_THREADS=5" },
    { "two machines, the first has one more",
      "--cpu --num_processes 5 --num_machines 2 --machine_rank 0 --main_process_ip h --main_process_port 7", 0, 4, NULL,
      3, 2, "RANK=2 WORLD_SIZE=5 LOCAL_WORLD_SIZE=3 MASTER_ADDR=h MASTER_PORT=7 GROUP_RANK=0 GROUP_WORLD_SIZE=2" },
    { "two machines, the second",
      "--cpu --num_processes 5 --num_machines 2 --machine_rank 1 --main_process_ip h --main_process_port 7", 0, 4, NULL,
      2, 0, "RANK=3 LOCAL_RANK=0 WORLD_SIZE=5 LOCAL_WORLD_SIZE=2 GROUP_RANK=1" },
    { "one GPU process on each of two machines",
      "--num_machines 2 --machine_rank 1 --main_process_ip h --main_process_port 7", 1, 4, NULL, 1, 0,
      "RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1" },
    { "two machines, the usual port", "--num_processes 2 --num_machines 2 --main_process_ip h", 0, 4, NULL, 1, 0,
      "RANK=0 MASTER_ADDR=h MASTER_PORT=29500" },
    { "brackets around an address are removed, as by torchrun",
      "--num_processes 2 --num_machines 2 --main_process_ip [::1]", 0, 4, NULL, 1, 0, "RANK=0 MASTER_ADDR=::1" },
    { "FSDP", "--use_fsdp --fsdp_version 2 --num_processes 2", 2, 4, NULL, 2, 1,
      "RANK=1 ACCELERATE_USE_FSDP=true FSDP_VERSION=2 FSDP_OFFLOAD_PARAMS=false !FSDP_STATE_DICT_TYPE" },
    { "DeepSpeed", "--use_deepspeed --num_processes 2 --zero_stage 3 --zero3_init_flag True", 2, 4, NULL, 2, 0,
      "RANK=0 ACCELERATE_USE_DEEPSPEED=true ACCELERATE_DEEPSPEED_ZERO_STAGE=3 ACCELERATE_DEEPSPEED_ZERO3_INIT=true "
      "!ACCELERATE_DYNAMO_BACKEND" },
    { "Megatron-LM", "--use_megatron_lm --megatron_lm_tp_degree 2 --num_processes 2", 2, 4, NULL, 2, 0,
      "MEGATRON_LM_TP_DEGREE=2 MEGATRON_LM_GRADIENT_CLIPPING=1.0 MEGATRON_LM_NO_LOAD_OPTIM=False" },
    { "fp8", "--mixed_precision fp8 --fp8_backend te --fp8_override_linear_precision true,false,true", 0, 1, NULL, 1, 0,
      "ACCELERATE_FP8_BACKEND=TE ACCELERATE_FP8_OVERRIDE_FPROP=1 ACCELERATE_FP8_OVERRIDE_DGRAD=0 "
      "ACCELERATE_FP8_OVERRIDE_WGRAD=1 ACCELERATE_FP8_PAD_INNER_DIM=1" },
    { "a role, and restarts", "--cpu --num_processes 2 --role trainer --max_restarts 0", 0, 2, NULL, 2, 0,
      "ROLE_NAME=trainer TORCHELASTIC_MAX_RESTARTS=0" },
    { "--debug", "--debug", 0, 1, NULL, 1, 0, "ACCELERATE_DEBUG_MODE=true" },
    { "bf16", "--mixed_precision bf16", 0, 1, NULL, 1, 0, "ACCELERATE_MIXED_PRECISION=bf16" },
};

static void
check_environment (const struct strlist *env, const char *wanted, const char *name)
{
    char text[512];
    snprintf (text, sizeof text, "%s", wanted);
    bool good = true;
    for (char *word = strtok (text, " "); word; word = strtok (NULL, " ")) {
        char *equals = strchr (word, '=');
        if (equals)
            *equals = '\0';
        const char *got = value_of (env, *word == '!' ? word + 1 : word);
        if (*word == '!' ? got != NULL : !got || strcmp (got, equals + 1)) {
            diag ("%s: %s is %s, wanted %s", name, word, got ? got : "not set", equals ? equals + 1 : "nothing");
            good = false;
        }
    }
    ok (good, "%s", name);
}

static void
test_plans (void)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct topology topology = { .host = "box", .cpus = plans[i].cores, .physical_cores = plans[i].cores,
                                     .gpus = plans[i].gpus, .omp_num_threads = plans[i].omp };
        struct fail fail = { 0 };
        struct plan plan;
        /* OMP_NUM_THREADS is a row's variable too, so the loader must see what the topology says. */
        if (plans[i].omp)
            setenv ("OMP_NUM_THREADS", plans[i].omp, 1);
        else
            unsetenv ("OMP_NUM_THREADS");
        unsetenv ("VIRTUAL_ENV");
        unsetenv ("CONDA_PREFIX");
        if (plan_for (&plan, plans[i].flags, &topology, false, &fail)) {
            ok (false, "%s: %s", plans[i].name, fail.text);
            continue;
        }
        if (plan.process_count != plans[i].count)
            ok (false, "%s: %d processes", plans[i].name, plan.process_count);
        else
            check_environment (&plan.processes[plans[i].local_rank].env, plans[i].wanted, plans[i].name);
        plan_release (&plan);
    }
    unsetenv ("OMP_NUM_THREADS");
}

static void
test_refusals (void)
{
    static const struct {
        const char *flags, *word;
    } cases[] = {
        { "--num_processes 4 --num_machines 2 --machine_rank 2 --main_process_ip h --main_process_port 7", "0 to 1" },
        { "--num_processes 1 --num_machines 2 --main_process_ip h --main_process_port 7", "less than" },
        { "--cpu --num_processes 100000", "too many" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology topology = { .host = "box", .cpus = 2, .physical_cores = 2 };
        struct fail fail = { 0 };
        struct plan plan = { 0 };
        int result = plan_for (&plan, cases[i].flags, &topology, false, &fail);
        ok (result && fail.status == 2 && strstr (fail.text, cases[i].word), "refused: %s: %s", cases[i].flags,
            fail.text);
        plan_release (&plan);
    }
}

static void
test_ports (void)
{
    struct topology topology = { .host = "box", .cpus = 1, .physical_cores = 1, .free_port = 4711 };
    struct fail fail = { 0 };
    struct plan plan;
    if (ok (!plan_for (&plan, "--cpu --num_processes 2", &topology, false, &fail), "a plan")) {
        is_text (value_of (&plan.processes[0].env, "MASTER_PORT"), "4711", "another port if the usual one is in use");
        ok (!plan.notes.count && plan.choices.count == 1 && strstr (plan.choices.items[0], "29500"),
            "said in a dry run only");
        plan_release (&plan);
    }
    topology = (struct topology){ .host = "box", .cpus = 1, .physical_cores = 1, .port_taken = true,
                                  .port_note = "what is to be said" };
    if (ok (!plan_for (&plan, "--cpu --num_processes 2 --num_machines 2 --main_process_ip h", &topology, false, &fail),
            "a plan")) {
        is_text (value_of (&plan.processes[0].env, "MASTER_PORT"), "29500", "the port that other machines use too");
        ok (plan.notes.count == 2 && strstr (plan.notes.items[0], "port 29500 is in use: rank 0"), "taken: a note");
        is_text (plan.notes.items[1], "what is to be said", "and one more");
        plan_release (&plan);
    }
    if (ok (!plan_for (&plan, "--cpu --num_processes 2 --main_process_port 0", &topology, false, &fail), "a plan")) {
        is_text (value_of (&plan.processes[0].env, "MASTER_PORT"), "0", "port 0 in a plan that is not started");
        plan_release (&plan);
    }
}

/* Devices are numbered on each machine from 0, whatever the ranks. */
static void
test_devices (void)
{
#define SECOND " --num_machines 2 --machine_rank 1 --main_process_ip h --main_process_port 7"
    static const struct {
        const char *flags;
        int gpus, present;
        const char *wanted;
        const char *type; /* of the file */
        size_t notes;     /* on GPUs */
    } cases[] = {
        { "--num_processes 6" SECOND, 4, 4, "3 cuda:0, 4 cuda:1, 5 cuda:2, " },
        { "--num_processes 6" SECOND, 2, 2, "3 cuda:0, 4 cuda:1, 5 cuda:0, ", NULL, 1 },
        { "--share_gpus --gpu_ids 1,3 --num_processes 3", 8, 8, "0 cuda:0, 1 cuda:1, 2 cuda:0, ", NULL, 1 },
        { "--share_gpus --multi_gpu --num_processes 2", 1, 4, "0 cuda:0, 1 cuda:0, ", NULL, 1 },
        { "--num_processes 2", 1, 4, "0 cuda:0, 1 cuda:0, ", NULL, 1 },
        { "--cpu --num_processes 2", 4, 4, "0 cpu, 1 cpu, " },
        { "--num_processes 2", 0, 0, "0 cpu, 1 cpu, ", NULL, 1 },
        { "", 0, 0, "0 cpu, " },
        { "--num_processes 2", 0, 0, "0 cuda:0, 1 cuda:1, ", "MULTI_GPU", 1 },
        /* accelerators of other makers, of which we know no number, beside GPUs of NVIDIA's or not */
        { "--num_processes 2", 0, 0, "0 xpu:0, 1 xpu:1, ", "MULTI_XPU", 0 },
        { "--num_processes 2", 1, 1, "0 npu:0, 1 npu:1, ", "MULTI_NPU", 0 },
        { "--num_processes 3 --gpu_ids 0,1", 2, 2, "0 neuron:0, 1 neuron:1, 2 neuron:2, ", "MULTI_NEURON", 0 },
        { "--cpu --num_processes 2", 0, 0, "0 cpu, 1 cpu, ", "MULTI_XPU", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        type_of_file = cases[i].type;
        struct topology topology = { .host = "box", .cpus = 4, .physical_cores = 4, .gpus = cases[i].gpus,
                                     .gpus_present = cases[i].present };
        struct fail fail = { 0 };
        struct plan plan;
        AUTO_STRBUF struct strbuf got = { 0 };
        if (!ok (!plan_for (&plan, cases[i].flags, &topology, false, &fail), "a plan %s", fail.text))
            continue;
        for (int j = 0; j < plan.process_count; j++)
            strbuf_printf (&got, "%d %s, ", plan.processes[j].rank, plan.processes[j].device);
        is_text (got.text, cases[i].wanted, "ranks and devices");
        size_t notes = 0;
        for (size_t j = 0; j < plan.notes.count; j++)
            notes += strstr (plan.notes.items[j], "GPU") != NULL;
        ok (notes == cases[i].notes, "%zu notes on GPUs", notes);
        plan_release (&plan);
    }
    type_of_file = NULL;
}

static void
test_tee (void)
{
    static const struct {
        const char *text;
        int greatest;
        unsigned of_0, of_1, of_9;
    } cases[] = {
        { "0", -1, 0, 0, 0 }, { "1", -1, 1, 1, 1 }, { "3", -1, 3, 3, 3 }, { "0:1", 0, 1, 0, 0 },
        { "0:1,1:2", 1, 1, 2, 0 }, { "9:3,0:1", 9, 1, 0, 3 }, { "0:1,9:3,1:2", 9, 1, 2, 3 }, { "0:1,0:2", 0, 2, 0, 0 },
        { "4", -1, 0, 0, 0 }, { "0:4", -1, 0, 0, 0 }, { "0:1,", -1, 0, 0, 0 }, { "", -1, 0, 0, 0 },
        { "10:1", -1, 0, 0, 0 }, { "0:1;1:1", -1, 0, 0, 0 }, { "5:1,x", -1, 0, 0, 0 },
    };
    static const struct {
        const char *flags;
        bool is_noted;
    } noted[] = { { "--tee 2:1", true }, { "--tee 1:1", false }, { "--tee 9:1,0:1", true }, { "--tee 3", false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (tee_greatest_rank (cases[i].text) == cases[i].greatest && tee_of_rank (cases[i].text, 0) == cases[i].of_0
            && tee_of_rank (cases[i].text, 1) == cases[i].of_1 && tee_of_rank (cases[i].text, 9) == cases[i].of_9,
            "--tee '%s'", cases[i].text);
    for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
        struct topology topology = { .host = "box", .cpus = 2, .physical_cores = 2 };
        struct plan plan;
        char flags[128];
        snprintf (flags, sizeof flags, "--cpu --num_processes 2 --log_dir /dev/null %s", noted[i].flags);
        if (ok (!plan_for (&plan, flags, &topology, false, NULL), "a plan"))
            ok ((plan.notes.count && strstr (plan.notes.items[0], "--tee names")) == noted[i].is_noted,
                "%s with two ranks", noted[i].flags);
        plan_release (&plan);
    }
}

/* What DeepSpeed's launcher reads for other machines: a line for each variable, without quotes. */
static void
test_environment_file (void)
{
    static const char *const names[] = { NULL, "", "other" };
    static const char *const words[] = { "A=1", "B=", "C=a b", "D=a;b", "E=<x", "F=>x", "G=x\ny", "H=a=b" };
    struct plan_process process = { 0 };
    struct plan plan = { .processes = &process, .process_count = 1 };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        strlist_add (&process.env, words[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = i == 2 ? "other" : ".deepspeed_env";
        struct stat info = { 0 };
        AUTO_FREE char *text = NULL;
        size_t length;
        unsetenv ("DS_ENV_FILE");
        if (names[i])
            setenv ("DS_ENV_FILE", names[i], 1);
        ok (!external_launcher_write_environment (&plan.processes[0].env, NULL)
                && !io_read_file (path, 1000, &text, &length, NULL), "a file");
        is_text (text, "A=1\nH=a=b\n", "with what it can hold");
        ok (!stat (path, &info) && (info.st_mode & 0777) == 0600, "readable by its owner only");
        unlink (path);
    }
    unsetenv ("DS_ENV_FILE");
    strlist_release (&process.env);
}

/* Whose port a launch has to lock. */
static void
test_port_scopes (void)
{
    static const struct {
        const char *args;
        int gpus;
        enum plan_port_scope scope;
    } cases[] = {
        { "--cpu", 0, PLAN_PORT_NONE },
        { "--cpu --num_processes 2", 0, PLAN_PORT_LOCAL },
        { "--num_processes 1", 2, PLAN_PORT_NONE },
        { "--multi_gpu", 2, PLAN_PORT_LOCAL },
        { "--use_fsdp --num_processes 1", 0, PLAN_PORT_LOCAL },
        { "--cpu --num_processes 2 --num_machines 2 --machine_rank 0 --main_process_ip h", 0, PLAN_PORT_SHARED },
        { "--cpu --num_processes 2 --num_machines 2 --machine_rank 1 --main_process_ip h", 0, PLAN_PORT_NONE },
        { "--cpu --num_processes 2 --mpirun_hostfile f", 0, PLAN_PORT_LOCAL },
        { "--cpu --num_processes 2 --num_machines 2 --main_process_ip h --mpirun_hostfile f", 0, PLAN_PORT_EXTERNAL },
        { "--use_deepspeed --num_processes 2", 2, PLAN_PORT_LOCAL },
        { "--use_deepspeed --num_processes 4 --num_machines 2 --main_process_ip h", 2, PLAN_PORT_EXTERNAL },
        { "--tpu --num_processes 8", 0, PLAN_PORT_NONE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct fail fail = { 0 };
        bool loaded = !load (&config, cases[i].args, &fail);
        ok (loaded && plan_port_scope (&config.settings, cases[i].gpus) == cases[i].scope, "the port of %s %s",
            cases[i].args, fail.text);
        config_release (&config);
    }
}

/* A variable without a value, and notes: that on Python is the first. */
static void
check_notes (struct plan *plan, struct strbuf *out)
{
    static const char wanted_end[] = "\nnotes\n  on Python\n  on something else\n";
    struct fail fail = { 0 };
    plan->python_note = strdup ("on Python");
    bool good = plan->python_note && !plan_set_variable (plan, "EMPTY", "", &fail);
    strlist_add (&plan->notes, "on something else");
    strbuf_truncate (out, 0);
    plan_print_text (plan, out);
    size_t end = sizeof wanted_end - 1;
    ok (good && strstr (out->text, "\n  EMPTY=\n"), "a variable without a value has no quotes");
    ok (good && out->length > end && !strcmp (out->text + out->length - end, wanted_end), "notes");
    strbuf_truncate (out, 0);
    good = good && !plan_print_json (plan, out, &fail);
    const char *first = strstr (out->text, "on Python"), *second = strstr (out->text, "on something else");
    ok (good && first && second && first < second, "notes as JSON");
}

static void
test_text (void)
{
    static const char wanted[] = "host\n  box\n\nprocesses\n  2 of 2, ranks 0 to 1; 30 s between TERM and KILL\n\n"
                                 "ranks\n  0  on box, device cpu, CPUs 0-1,4\n  1  on box, device cpu, CPUs 0-1,4\n\n"
                                 "command\n  /usr/bin/python3 -u prog.py a\n\nenvironment\n";
    static const char wanted_end[] = "  WORLD_SIZE=2\n\n"
                                     "environment of rank 0\n  LOCAL_RANK=0\n  RANK=0\n  ROLE_RANK=0\n"
                                     "\nenvironment of rank 1\n  LOCAL_RANK=1\n  RANK=1\n  ROLE_RANK=1\n";
    struct topology topology = { .host = "box", .cpus = 1, .physical_cores = 1, .cpu_list = "0-1,4" };
    AUTO_STRBUF struct strbuf out = { 0 };
    struct fail fail = { 0 };
    struct plan plan;
    if (!ok (!plan_for (&plan, "--cpu --num_processes 2 --grace 30", &topology, true, &fail), "a plan %s", fail.text))
        return;
    plan_print_text (&plan, &out);
    ok (out.text && !strncmp (out.text, wanted, sizeof wanted - 1), "its text begins as it should");
    size_t end = sizeof wanted_end - 1;
    ok (out.length > end && !strcmp (out.text + out.length - end, wanted_end), "and ends so");
    bool sorted = true;
    for (size_t i = 1; i < plan.processes[0].env.count; i++)
        sorted = sorted && strcmp (plan.processes[0].env.items[i - 1], plan.processes[0].env.items[i]) < 0;
    ok (sorted, "the environment is sorted");
    strbuf_truncate (&out, 0);
    ok (!plan_print_json (&plan, &out, &fail) && strstr (out.text, "\"world_size\": 2"), "JSON");
    check_notes (&plan, &out);
    free (plan.processes[0].argv.items[0]);
    plan.processes[0].argv.items[0] = strdup ("\xff");
    ok (plan_print_json (&plan, &out, &fail) == -1 && strstr (fail.text, "UTF-8"), "not without UTF-8: %s", fail.text);
    plan_release (&plan);
}

static void
test_statuses (void)
{
    static const struct {
        int wait_status, status;
    } ends[] = {
        { 0, 0 }, { 1 << 8, 1 }, { 7 << 8, 7 }, { 255 << 8, 255 }, { SIGKILL, 137 }, { SIGABRT, 134 },
        { SIGSEGV | 0x80, 139 }, { SIGTERM, 143 },
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        ok (status_of_wait (ends[i].wait_status) == ends[i].status, "wait status %#x is %d",
            (unsigned) ends[i].wait_status, ends[i].status);
    static const struct {
        int error, status;
    } errors[] = {
        { ENOENT, 127 }, { ENOTDIR, 127 }, { EACCES, 126 }, { ENOEXEC, 126 }, { E2BIG, 126 }, { ETXTBSY, 126 },
        { EISDIR, 126 }, { ELOOP, 126 },   { EAGAIN, 1 },   { EMFILE, 1 },    { ENFILE, 1 },  { ENOMEM, 1 },
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        ok (status_of_exec (errors[i].error) == errors[i].status, "exec: %s is %d", strerror (errors[i].error),
            errors[i].status);
    ok (status_of_signal (SIGINT) == 130 && status_of_signal (SIGTERM) == 143, "signals to the launcher");
}

static void
test_gpus (void)
{
    static const struct {
        const char *text;
        int present, visible;
    } cases[] = {
        { NULL, 4, 4 }, { "", 4, 0 }, { "0", 4, 1 }, { "0,1,3", 4, 3 }, { "-1", 4, 0 }, { "1,-1,2", 4, 1 },
        { "GPU-1a,GPU-2b", 4, 2 }, { "0,1", 1, 1 }, { "0", 0, 0 }, { "MIG-1,MIG-2,MIG-3", 1, 3 }, { "MIG-1", 0, 0 },
        { "NoDevFiles", 4, 0 }, { "none", 4, 0 }, { "0,,1", 4, 1 }, { "void,0", 4, 0 }, { "MIG-1,x,MIG-2", 1, 1 },
        { " 0, 1", 4, 2 }, { ",", 4, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (topology_visible_gpus (cases[i].text, cases[i].present) == cases[i].visible,
            "CUDA_VISIBLE_DEVICES '%s' of %d", cases[i].text ? cases[i].text : "unset", cases[i].present);
}

/* Trees of groups as folders: what is in which file, and what follows. */
static void
test_cgroup_limits (void)
{
    static const struct {
        const char *what, *lines, *files[8][2];
        int64_t memory;
        double cpus;
        const char *cpuset;
    } cases[] = {
        { "version 2: a parent is tighter", "0::/a/b\n",
          { { "a/b/memory.max", "4096000\n" }, { "a/memory.max", "1024000\n" }, { "a/b/cpu.max", "max 100000\n" },
            { "a/cpu.max", "150000 100000\n" }, { "a/b/cpuset.cpus.effective", "0-3,8\n" },
            { "cpuset.cpus.effective", "0-15\n" } }, 1024000, 1.5, "0-3,8" },
        { "version 2: the group itself is tighter", "0::/a\n",
          { { "a/memory.max", "5\n" }, { "memory.max", "6\n" }, { "a/cpu.max", "50000 100000\n" },
            { "cpu.max", "100000 100000\n" } }, 5, 0.5, "" },
        { "version 2: nothing", "0::/\n", { { "memory.max", "max\n" }, { "cpu.max", "max 100000\n" } }, 0, 0, "" },
        { "version 2: memory.high slows down before memory.max kills", "0::/\n",
          { { "memory.max", "9000\n" }, { "memory.high", "8000\n" } }, 8000, 0, "" },
        { "in a container the path is the host's", "0::/host/only\n", { { "memory.max", "77\n" } }, 77, 0, "" },
        { "version 1", "5:memory:/m\n4:cpu:/c\n3:cpuset:/\n",
          { { "memory/m/memory.limit_in_bytes", "9223372036854771712\n" },
            { "memory/memory.limit_in_bytes", "3000000\n" }, { "cpu/c/cpu.cfs_quota_us", "250000\n" },
            { "cpu/c/cpu.cfs_period_us", "100000\n" }, { "cpu/cpu.cfs_quota_us", "-1\n" },
            { "cpu/cpu.cfs_period_us", "100000\n" }, { "cpuset/cpuset.cpus", "1\n" } }, 3000000, 2.5, "1" },
        { "version 1 without a limit", "5:memory:/\n",
          { { "memory/memory.limit_in_bytes", "9223372036854771712\n" } }, 0, 0, "" },
        { "both versions, and text that is not a number", "1:memory:/\n0::/\n",
          { { "memory/memory.limit_in_bytes", "20\n" }, { "memory.max", "30\n" }, { "cpu.max", "x y\n" } }, 20, 0, "" },
        { "no groups", "", { { "memory.max", "30\n" } }, 0, 0, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf mount = { 0 };
        struct cgroup_limits limits;
        strbuf_printf (&mount, "%s/groups-%zu", scratch_folder (), i);
        for (const char *const (*file)[2] = cases[i].files; (*file)[0]; file++) {
            AUTO_STRBUF struct strbuf path = { 0 };
            strbuf_printf (&path, "%s/%s", mount.text, (*file)[0]);
            if (io_make_parents (path.text, NULL)
                || io_write_file (path.text, (*file)[1], strlen ((*file)[1]), 0600, NULL))
                ok (false, "cannot write %s", path.text);
        }
        cgroup_read_limits (cases[i].lines, mount.text, &limits);
        ok (limits.memory == cases[i].memory && limits.cpus == cases[i].cpus
                && !strcmp (limits.cpuset, cases[i].cpuset), "limits, %s", cases[i].what);
        ok (!limits.memory == !*limits.memory_file && !(limits.cpus > 0) == !*limits.cpus_file, "and where they stand");
    }
}

static void
put_text (const char *path, const char *text)
{
    AUTO_FILE FILE *file = fopen (path, "w");
    if (!file || fputs (text, file) < 0)
        ok (false, "%s: %s", path, strerror (errno));
}

/* Drivers and cards as they appear in /proc. */
static void
test_p2p (void)
{
    static const char closed[] = "x86_64 Kernel Module", open[] = "Open Kernel Module for x86_64";
    static const struct {
        const char *kind, *driver, *models[2];
        bool lacks;
    } cases[] = {
        { closed, "535.104.05", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090" }, true },
        { open, "535.104.05", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3090" }, true },
        { open, "550.40.06", { "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4070 Ti" }, true },
        { closed, "550.40", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090" }, true },
        { closed, "550.40.07", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090" }, false },
        { open, "550.54", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090" }, false },
        { open, "560.28.03", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090" }, false },
        { closed, "535.104.05", { "NVIDIA GeForce RTX 4090", NULL }, false },
        { closed, "535.104.05", { "NVIDIA GeForce RTX 3090", "NVIDIA H200" }, false },
        { closed, "none", { "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090" }, false },
    };
    static const char *const folders[]
        = { "proc", "proc/driver", "proc/driver/nvidia", "proc/driver/nvidia/gpus",
            "proc/driver/nvidia/gpus/0000:01:00.0", "proc/driver/nvidia/gpus/0000:02:00.0" };
    char text[256], path[128];
    ok (!gpus_lack_p2p ("./nothing"), "no driver");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int j = 0; j < (cases[i].models[1] ? 6 : 5); j++)
            mkdir (folders[j], 0777);
        snprintf (text, sizeof text, "NVRM version: NVIDIA UNIX %s  %s  Sat Aug 19 01:15:15 UTC 2023\nGCC version:\n",
                  cases[i].kind, cases[i].driver);
        put_text ("proc/driver/nvidia/version", text);
        for (int j = 0; j < 2 && cases[i].models[j]; j++) {
            snprintf (path, sizeof path, "%s/information", folders[4 + j]);
            snprintf (text, sizeof text, "Model: \t\t %s\nIRQ:   \t\t 112\n", cases[i].models[j]);
            put_text (path, text);
        }
        ok (gpus_lack_p2p (".") == cases[i].lacks, "driver %s, %s, %s", cases[i].driver, cases[i].models[0],
            cases[i].models[1] ? cases[i].models[1] : "no other");
        unlink ("proc/driver/nvidia/version");
        for (int j = 5; j >= 0; j--) {
            snprintf (path, sizeof path, "%s/information", folders[j]);
            unlink (path);
            rmdir (folders[j]);
        }
    }
}

static void
test_groups (void)
{
    static const char lines[] = "5:cpu,cpuacct:/c\n4:memory:/m/x\n0::/u/y\n";
    char path[64];
    ok (cgroup_path (lines, "memory", path, sizeof path) && !strcmp (path, "/m/x"), "a controller alone");
    ok (cgroup_path (lines, "cpuacct", path, sizeof path) && !strcmp (path, "/c"), "one of two");
    ok (cgroup_path (lines, "", path, sizeof path) && !strcmp (path, "/u/y"), "version 2");
    ok (!cgroup_path (lines, "cpus", path, sizeof path), "another");
    ok (!cgroup_path ("no colon\n", "cpu", path, sizeof path), "no such line");
    ok (cgroup_field ("low 0\noom 3\noom_kill 2\n", "oom_kill") == 2, "a field");
    ok (cgroup_field ("low 0\n", "oom_kill") == -1, "no field");
    ok (cgroup_path ("5:cpuset:/x\n4:cpuacct,cpu:/c\n", "cpu", path, sizeof path) && !strcmp (path, "/c"),
        "not one whose name begins so");
    ok (cgroup_field ("oom_kill_all 5\noom_kill 2\n", "oom_kill") == 2, "nor such a field");
}

static void
make_file (const char *name, const char *bytes, size_t length, mode_t mode)
{
    AUTO_CLOSE int fd = open (name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (fd < 0 || write (fd, bytes, length) != (ssize_t) length || fchmod (fd, mode))
        ok (false, "cannot make %s", name);
}

static void
test_programs (void)
{
    static const char other_elf[64] = "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\xf3\xff";
    static const struct {
        const char *name, *bytes;
        size_t length;
        mode_t mode;
        const char *given;
        int status;        /* of the failure, 0 for none */
        const char *words; /* of the failure; or of argv, joined */
        bool no_python;
    } cases[] = {
        { "run.sh", "#!/bin/sh\n", 10, 0755, "run.sh", 0, "./run.sh" },
        { "run.sh", "#!/bin/sh\n", 10, 0755, "./run.sh", 0, "./run.sh" },
        { "run.sh", "#!/bin/sh\n", 10, 0644, "run.sh", 126, "chmod +x ./run.sh" },
        { "run.sh", "#!/no/such/sh\n", 14, 0755, "run.sh", 126, "/no/such/sh, which does not exist" },
        { "run.sh", "#!/bin/sh\r\n", 11, 0755, "run.sh", 126, "carriage return" },
        { "run.sh", "#!\n", 3, 0755, "run.sh", 126, "no interpreter" },
        { "run.sh", "#!/bin/sh\n", 10, 0755, "run.sh", 127,
          "no such program in PATH; to run the one in the current folder, use ./run.sh", true },
        { "run.sh", "#!/bin/sh\n", 10, 0755, "./run.sh", 0, "./run.sh", true },
        { "data", "hello", 5, 0755, "./data", 126, "neither an ELF program nor a script", true },
        { "data", "", 0, 0755, "./data", 126, "neither an ELF program nor a script", true },
        { "data", "hello", 5, 0644, "data", 0, "python3 data" },
        { "data", "hello", 5, 0755, "./data", 0, "python3 ./data" },
        { "data", "", 0, 0755, "data", 0, "python3 data" },
        { "-data", "", 0, 0755, "-data", 0, "python3 ./-data" },
        { "data", "a\0b", 3, 0755, "data", 126, "neither an ELF program nor a script" },
        { "data", "PK\3\4\0\0", 6, 0644, "data", 0, "python3 data" },
        { "data", "\xa7\r\r\n\0\0", 6, 0644, "data", 0, "python3 data" },
        { "run", "#!/usr/bin/env python3\nx", 24, 0644, "run", 0, "python3 run" },
        { "run", "#!/usr/bin/env python3\nx", 24, 0755, "run", 0, "./run" },
        { "run", "#!/bin/cat -python\nx", 20, 0644, "run", 126, "chmod +x ./run" },
        { "run", "#!/bin/mypython\nx", 17, 0644, "run", 126, "chmod +x ./run" },
        { "run", "#!/bin/sh\npython\n", 17, 0644, "run", 126, "chmod +x ./run" },
        { "true", "print ()", 8, 0644, "true", 0, "python3 true" },
        { "true", "print ()", 8, 0755, "true", 0, "/true", true },
        { "elf", other_elf, sizeof other_elf, 0755, "elf", 126, "another architecture" },
        { "train.py", "", 0, 0644, "train.py", 0, "python3 train.py" },
        { NULL, NULL, 0, 0, "nothere", 127, "no such program" },
        { NULL, NULL, 0, 0, "./nothere", 127, "No such file" },
        { NULL, NULL, 0, 0, "/", 126, "directory" },
        { NULL, NULL, 0, 0, "/dev/null", 126, "not a regular file" },
        { NULL, NULL, 0, 0, "true", 0, "/true" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = { .program = (char *) cases[i].given, .settings.no_python = cases[i].no_python };
        struct program program;
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf said = { 0 };
        if (cases[i].name)
            make_file (cases[i].name, cases[i].bytes, cases[i].length, cases[i].mode);
        if (program_resolve (&program, &config, &fail))
            strbuf_add (&said, fail.text);
        else
            for (size_t j = 0; j < program.argv.count; j++)
                strbuf_printf (&said, "%s%s", j ? " " : "", program.argv.items[j]);
        const char *from = strstr (said.text, cases[i].words);
        bool to_end = from && (fail.status || !from[strlen (cases[i].words)]);
        ok (fail.status == cases[i].status && to_end, "%s: %s", cases[i].given, said.text);
        program_release (&program);
        if (cases[i].name)
            unlink (cases[i].name);
    }
    struct config both = { .program = (char *) "x", .settings = { .module = true, .no_python = true } };
    struct program program;
    struct fail fail = { 0 };
    ok (program_resolve (&program, &both, &fail) && fail.status == 2, "-m and --no_python: %s", fail.text);
}

/* Files that say that they are programs for this machine, by their type. */
static void
test_elf_types (void)
{
    static const struct {
        char type;
        const char *words; /* of the failure, "": none */
    } cases[] = { { 1, "an object file" }, { 2, "" }, { 3, "" }, { 4, "an object file" } };
    char head[64] = "";
    AUTO_CLOSE int own = open ("/proc/self/exe", O_RDONLY);
    ok (read (own, head, sizeof head) == sizeof head, "our own file");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = { .program = (char *) "./elf" };
        struct program program;
        struct fail fail = { 0 };
        head[16] = cases[i].type;
        head[17] = 0;
        make_file ("elf", head, sizeof head, 0755);
        int result = program_resolve (&program, &config, &fail);
        ok (!result == !*cases[i].words && strstr (fail.text, cases[i].words), "type %d: %s", cases[i].type, fail.text);
        program_release (&program);
        unlink ("elf");
    }
}

/* A program that may be executed and not read, for a user who is not root; a folder of the name of a program. */
static void
test_unreadable (void)
{
    struct config config = { .program = (char *) "./secret" };
    struct program program = { 0 };
    int status = -1;
    make_file ("secret", "hello", 5, 0111);
    chmod (".", 0755);
    pid_t pid = fork ();
    if (pid == 0)
        _exit ((getuid () == 0 && setuid (65534)) || program_resolve (&program, &config, NULL) || program.python);
    ok (pid > 0 && waitpid (pid, &status, 0) == pid && status == 0, "what may be executed and not read is executed");
    unlink ("secret");
    config.program = (char *) "true";
    ok (!mkdir ("true", 0777) && !program_resolve (&program, &config, NULL) && *program.argv.items[0] == '/',
        "a folder does not hide a program in PATH");
    rmdir ("true");
    program_release (&program);
}

static void
test_output (void)
{
    int in[2], out[2];
    char got[256] = "";
    if (pipe (in) || pipe (out) || fcntl (in[0], F_SETFL, O_NONBLOCK)) {
        ok (false, "pipes");
        return;
    }
    struct output_sink sink;
    struct output_pool pool;
    output_pool_init (&pool, 1);
    struct output_stream stream = { .has_tail = true, .log.fd = -1 };
    ok (!output_sink_init (&sink, out[1], "pipe", NULL) && !output_stream_init (&stream, in[0], &pool, NULL),
        "a stream");
    ok (write (in[1], "one\ntwo\nthr", 11) == 11 && output_stream_read (&stream, &sink, 0), "a read");
    output_sink_drain (&sink);
    ok (read (out[0], got, sizeof got) == 8 && !strncmp (got, "one\ntwo\n", 8), "whole lines go through");
    ok (write (in[1], "ee\n", 3) == 3 && output_stream_read (&stream, &sink, 0), "the rest of the line");
    output_sink_drain (&sink);
    ok (read (out[0], got, sizeof got) == 6 && !strncmp (got, "three\n", 6), "in one piece");
    for (int i = 0; i < 2000; i++)
        if (dprintf (in[1], "line %d\n", i) > 0 && i % 100 == 99) {
            output_stream_read (&stream, &sink, 0);
            output_sink_drain (&sink);
            while (!output_sink_is_empty (&sink) && read (out[0], got, sizeof got) > 0)
                output_sink_drain (&sink);
            while (read (out[0], got, sizeof got) == sizeof got)
                ;
        }
    AUTO_STRLIST struct strlist lines = { 0 };
    output_stream_tail (&stream, &lines);
    ok (lines.count == OUTPUT_TAIL_LINES, "the last lines are kept: %zu", lines.count);
    is_text (lines.count ? lines.items[0] : NULL, "line 1980", "from here");
    is_text (lines.count ? lines.items[lines.count - 1] : NULL, "line 1999", "to here");
    close (in[1]);
    ok (!output_stream_read (&stream, &sink, 0), "the end is seen");
    close (out[0]);
    close (out[1]);
    output_stream_release (&stream);
    output_sink_release (&sink);
}

int
main (void)
{
    unsetenv ("OMP_NUM_THREADS");
    test_cgroup_limits ();
    scratch_enter ();
    test_plans ();
    test_refusals ();
    test_ports ();
    test_devices ();
    test_tee ();
    test_environment_file ();
    test_port_scopes ();
    test_text ();
    test_statuses ();
    test_gpus ();
    test_p2p ();
    test_groups ();
    test_programs ();
    test_elf_types ();
    test_unreadable ();
    test_output ();
    return done_testing ();
}
