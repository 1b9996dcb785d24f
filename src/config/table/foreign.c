/* SPDX-License-Identifier: Apache-2.0 */
/* Other launchers' options; see foreign.h.  Sources: torch/distributed/run.py, mpirun(1) of Open MPI and MPICH,
 * srun(1), DeepSpeed's runner, transformers' TrainingArguments. */
#include <config.h>

#include "config/table/foreign.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_VALUE = 60 }; /* bytes; a longer one is left out of the advice */

/* Where '@' is, " VALUE" is written, if one was given and the option takes it. */
#define PROCESSES "use --num_processes@, the total across all machines"
#define PER_NODE "use --num_processes@ on one machine; on several, the total of all machines"
#define MACHINES "use --num_machines@"
#define GPUS "use --num_processes for how many, --gpu_ids for which ones"
#define ENVIRONMENT "leave it out; ranks inherit your environment (A=1 accelerate launch ...)"
#define VARIABLES "leave it out; each rank has RANK, LOCAL_RANK and WORLD_SIZE in its environment"
#define RENDEZVOUS "leave it out; ranks meet at --main_process_ip and --main_process_port"
#define THREADS "use --num_cpu_threads_per_process@"
#define LOGS "use --tee 3 --log_dir FOLDER"
#define OF_MPIRUN "leave it out; it is an option of mpirun, which --mpirun_hostfile starts with the options it needs"
#define OF_SLURM "give it to salloc, sbatch or srun, inside which accelerate launch uses what was allocated"

/* A row counts for commands that have the option it advises; without one, for launch. */
static const struct {
    const char *words; /* with blanks between, spelled with '_' */
    const char *key;   /* the option that the advice is about, or NULL */
    const char *advice;
} options_of_others[] = {
    { "n np nproc nprocs num_proc num_procs procs ntasks tasks world_size num_workers", "num_processes", PROCESSES },
    { "nproc_per_node nprocs_per_node ntasks_per_node tasks_per_node ppn npernode ranks_per_node", "num_processes",
      PER_NODE },
    { "c", "num_processes", "use --num_processes (mpirun's -c) or --num_cpu_threads_per_process (srun's -c)" },
    { "N", "num_machines", "use --num_machines (srun's -N), or --num_processes, the total across all machines "
      "(mpirun's -N)" },
    { "nnodes nodes num_nodes", "num_machines", MACHINES },
    { "node_rank rank", "machine_rank", "use --machine_rank@" },
    { "master_addr master_address main_ip ip", "main_process_ip", "use --main_process_ip@" },
    { "master_port port", "main_process_port", "use --main_process_port@" },
    { "rdzv_endpoint", "main_process_ip", "use --main_process_ip HOST and --main_process_port PORT" },
    { "num_gpus n_gpu ngpus gpus_per_node", "num_processes",
      "use --num_processes@ on one machine (on several, the total), and --gpu_ids for which ones" },
    { "gpu gpus devices device G gpus_per_task gres gpu_bind", "gpu_ids", GPUS },
    { "cuda_visible_devices include visible_devices", "gpu_ids", "use --gpu_ids" },
    { "cuda use_cuda use_gpu use_gpus", "multi_gpu", "use --multi_gpu" },
    { "no_cuda use_cpu cpu_only", "cpu", "use --cpu" },
    { "bf16", "mixed_precision", "use --mixed_precision bf16" },
    { "fp16 amp half", "mixed_precision", "use --mixed_precision fp16" },
    { "fp8", "mixed_precision", "use --mixed_precision fp8" },
    { "fp32 no_mixed_precision", "mixed_precision", "use --mixed_precision no" },
    { "precision dtype", "mixed_precision", "use --mixed_precision@" },
    { "config conf config_path configuration yaml", "config_file", "use --config_file@" },
    { "machinefile machine_file f default_hostfile", "hostfile", "use --hostfile@" },
    { "host H nodelist w hostlist", "hosts", "use --hosts@" },
    { "deepspeed ds", "use_deepspeed", "use --use_deepspeed" },
    { "deepspeed_config ds_config", "deepspeed_config_file", "use --use_deepspeed --deepspeed_config_file@" },
    { "zero stage", "zero_stage", "use --use_deepspeed --zero_stage@" },
    { "fsdp", "use_fsdp", "use --use_fsdp" },
    { "megatron megatron_lm", "use_megatron_lm", "use --use_megatron_lm" },
    { "torch_compile compile dynamo", "dynamo_backend", "use --dynamo_backend inductor" },
    { "omp_num_threads num_threads threads cpus cpus_per_task cpus_per_proc", "num_cpu_threads_per_process", THREADS },
    { "bind_to bind_to_core bind_to_socket cpu_bind numa_binding bind_cores_to_rank", "bind",
      "use --bind core, numa or gpu" },
    { "r redirects output_filename output o outfile_pattern enable_each_rank_log", "log_dir", LOGS },
    { "l tag_output prepend_rank", "label", "use --label yes" },
    { "no_label no_prefix", "label", "use --label no" },
    { "logs", "log_dir", "use --log_dir@" },
    { "simulate", "dry_run", "use --dry_run" },
    { "restarts", "max_restarts", "use --max_restarts@" },
    { "kill_wait stop_timeout", "grace", "use --grace@ (seconds)" },
    { "iface", "interface", "use --interface@" },
    { "launcher bootstrap rmk", "starter", "use --starter@" },
    { "standalone", NULL, "leave it out; a single machine is the default" },
    { "rdzv_id run_id rdzv_timeout start_method", NULL, RENDEZVOUS },
    { "local_rank local_ranks use_env no_local_rank", NULL, VARIABLES },
    { "x env genv genvall genvlist genvnone envall envlist envnone export", NULL, ENVIRONMENT },
    { "wdir wd chdir D", NULL, "leave it out; ranks start in the current folder, so change to it first (cd@)" },
    { "oversubscribe nooversubscribe map_by rank_by allow_run_as_root mca report_bindings display_map pernode "
      "npersocket use_hwthread_cpus", NULL, OF_MPIRUN },
    { "p partition A account J job_name time mem qos constraint exclusive distribution reservation", NULL, OF_SLURM },
    { "kill_on_bad_exit K", NULL, "leave it out; if one rank fails, all are ended" },
    { "u unbuffered", NULL, "leave it out; the ranks' output is passed on at once (Python: PYTHONUNBUFFERED=1)" },
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

/* Whether option @p row, or a word of a shell if it is NULL, can have this value. */
static bool
takes_value (const struct option *row, const char *value)
{
    union {
        bool flag;
        int64_t number;
        char *text;
    } field = { .text = NULL };
    if (!value || !*value || strlen (value) > LONGEST_VALUE)
        return false;
    if (!row)
        return true;
    bool is_taken = !option_types[row->type].parse (row, value, false, &field, NULL);
    if (is_taken)
        option_types[row->type].release (&field);
    return is_taken;
}

static const char *
write_advice (const char *advice, const char *value, char space[FOREIGN_ADVICE_LENGTH])
{
    const char *mark = strchr (advice, '@');
    if (!mark)
        return advice;
    snprintf (space, FOREIGN_ADVICE_LENGTH, "%.*s%s%s%s", (int) (mark - advice), advice, value ? " " : "",
              value ? value : "", mark + 1);
    return space;
}

const char *
foreign_advice (enum option_command command, const char *word, size_t length, const char *value,
              char space[FOREIGN_ADVICE_LENGTH])
{
    for (size_t i = 0; i < sizeof options_of_others / sizeof *options_of_others; i++) {
        const struct option *row = options_of_others[i].key ? option_find (options_of_others[i].key) : NULL;
        if (row ? option_is_flag_of (row, command) : command == COMMAND_LAUNCH && !options_of_others[i].key)
            if (has_word (options_of_others[i].words, word, length))
                return write_advice (options_of_others[i].advice, takes_value (row, value) ? value : NULL, space);
    }
    return NULL;
}
