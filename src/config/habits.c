/* SPDX-License-Identifier: Apache-2.0 */
/* Other launchers' options; see habits.h.  Sources: torch/distributed/run.py, mpirun(1) of Open MPI and MPICH, srun(1),
 * DeepSpeed's runner, transformers' TrainingArguments. */
#include <config.h>

#include "config/habits.h"

#include <string.h>

#define PROCESSES "use --num_processes, the total across all machines"
#define MACHINES "use --num_machines"
#define GPUS "use --num_processes for how many, --gpu_ids for which ones"
#define ENVIRONMENT "leave it out; ranks inherit your environment"
#define VARIABLES "leave it out; each rank has RANK, LOCAL_RANK and WORLD_SIZE in its environment"
#define RENDEZVOUS "leave it out; ranks meet at --main_process_ip and --main_process_port"
#define THREADS "use --num_cpu_threads_per_process"

/* A row counts for commands that have the option it advises; without one, for launch. */
static const struct {
    const char *words; /* with blanks between, spelled with '_' */
    const char *key;   /* the option that the advice is about, or NULL */
    const char *advice;
} habits[] = {
    { "n np c nproc nprocs num_proc num_procs nproc_per_node nprocs_per_node procs ntasks ntasks_per_node world_size "
      "ppn num_workers", "num_processes", PROCESSES },
    { "nnodes nodes num_nodes N", "num_machines", MACHINES },
    { "node_rank rank", "machine_rank", "use --machine_rank" },
    { "master_addr master_address main_ip ip", "main_process_ip", "use --main_process_ip" },
    { "master_port port", "main_process_port", "use --main_process_port" },
    { "rdzv_endpoint", "main_process_ip", "use --main_process_ip HOST and --main_process_port PORT" },
    { "gpu gpus num_gpus n_gpu ngpus devices device gpus_per_node G", "gpu_ids", GPUS },
    { "cuda_visible_devices include visible_devices", "gpu_ids", "use --gpu_ids" },
    { "cuda use_cuda use_gpu use_gpus", "multi_gpu", "use --multi_gpu" },
    { "no_cuda use_cpu cpu_only", "cpu", "use --cpu" },
    { "bf16", "mixed_precision", "use --mixed_precision bf16" },
    { "fp16 amp half", "mixed_precision", "use --mixed_precision fp16" },
    { "fp8", "mixed_precision", "use --mixed_precision fp8" },
    { "fp32 no_mixed_precision", "mixed_precision", "use --mixed_precision no" },
    { "precision dtype", "mixed_precision", "use --mixed_precision" },
    { "config conf config_path configuration yaml", "config_file", "use --config_file" },
    { "machinefile machine_file f", "hostfile", "use --hostfile" },
    { "host H nodelist", "hosts", "use --hosts" },
    { "deepspeed ds", "use_deepspeed", "use --use_deepspeed" },
    { "deepspeed_config ds_config", "deepspeed_config_file", "use --use_deepspeed --deepspeed_config_file" },
    { "zero stage", "zero_stage", "use --use_deepspeed --zero_stage" },
    { "fsdp", "use_fsdp", "use --use_fsdp" },
    { "megatron megatron_lm", "use_megatron_lm", "use --use_megatron_lm" },
    { "torch_compile compile dynamo", "dynamo_backend", "use --dynamo_backend inductor" },
    { "omp_num_threads num_threads threads cpus_per_task", "num_cpu_threads_per_process", THREADS },
    { "r redirects output_filename output", "log_dir", "use --tee 3 --log_dir FOLDER" },
    { "logs", "log_dir", "use --log_dir" },
    { "simulate", "dry_run", "use --dry_run" },
    { "restarts", "max_restarts", "use --max_restarts" },
    { "kill_wait stop_timeout", "grace", "use --grace SECONDS" },
    { "standalone", NULL, "leave it out; a single machine is the default" },
    { "rdzv_id run_id rdzv_timeout start_method", NULL, RENDEZVOUS },
    { "local_rank local_ranks use_env", NULL, VARIABLES },
    { "x genv genvall envall export", NULL, ENVIRONMENT },
    { "oversubscribe map_by bind_to allow_run_as_root mca report_bindings", NULL,
      "leave it out; it is an option of mpirun, which --mpirun_hostfile starts with the options it needs" },
    { "background daemon detach", NULL, "leave it out; run the command with nohup, in tmux or under systemd-run" },
    { "args", NULL, "leave it out; what follows the program's name goes to the program" },
    { "V v version", NULL, "the version is printed by accelerate --version" },
};

static bool
same_word (const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (a[i] != (b[i] == '-' ? '_' : b[i]))
            return false;
    return true;
}

static bool
has_word (const char *words, const char *word, size_t length)
{
    for (const char *at = words; *at; at += *at == ' ') {
        size_t here = strcspn (at, " ");
        if (here == length && same_word (at, word, length))
            return true;
        at += here;
    }
    return false;
}

const char *
habit_advice (enum option_command command, const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        const struct option *row = habits[i].key ? option_find (habits[i].key) : NULL;
        if (row ? option_is_flag_of (row, command) : command == COMMAND_LAUNCH && !habits[i].key)
            if (has_word (habits[i].words, word, length))
                return habits[i].advice;
    }
    return NULL;
}
