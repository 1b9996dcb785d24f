/* SPDX-License-Identifier: Apache-2.0 */
/* THE OPTION TABLE.  Everything that is known about a setting is in its row, and nowhere else.  Within a group,
 * --help and the manual page list rows in this order.  After a change: `make regen`. */
#include <config.h>

#include "config/conditions.h"
#include "config/table/options.h"
#include "util/precisions.h"

#include <string.h>

/* The field's type must be the row's: comparing the pointers is a compiler warning otherwise. */
#define FIELD_AS(type_id, c_type, field)                                                                               \
    .type = (type_id),                                                                                                 \
    .offset = offsetof (struct settings, field)                                                                        \
              + 0 * sizeof ((c_type *) 0 == &((struct settings *) 0)->field), .field_size = sizeof (c_type)
#define OPT_FLAG(field) FIELD_AS (OPTION_FLAG, bool, field), .dflt = "false"
#define OPT_INT(field, least, most) FIELD_AS (OPTION_INT, int64_t, field), .min = (least), .max = (most)
#define OPT_TEXT(field) FIELD_AS (OPTION_TEXT, char *, field)
#define OPT_PATH(field) FIELD_AS (OPTION_PATH, char *, field)
#define OPT_NUMBER(field) FIELD_AS (OPTION_NUMBER, char *, field)
#define OPT_TRUTH(field) FIELD_AS (OPTION_TRUTH, char *, field)
#define OPT_PYTHON_BOOL(field) FIELD_AS (OPTION_PYTHON_BOOL, char *, field)
#define OPT_SWITCH(field) FIELD_AS (OPTION_SWITCH, char *, field)
#define OPT_TRIPLE(field) FIELD_AS (OPTION_TRIPLE, char *, field)
#define OPT_LIST(field) FIELD_AS (OPTION_LIST, struct strlist, field)
#define WORDS(...) (const char *const[]) { __VA_ARGS__, NULL }

/* Launch paths, as the contract abbreviates them. */
#define S PATH_SIMPLE
#define M PATH_MPIRUN
#define T PATH_ELASTIC
#define D PATH_DEEPSPEED
#define P PATH_TPU
#define PP PATH_TPU_POD
#define SM PATH_SAGEMAKER

/* What several rows have in common; files of rows begin with theirs. */
#define DYNAMO_ROW .section = "dynamo_config", .group = GROUP_RESOURCE, .commands = COMMAND_LAUNCH, \
    .properties = PROPERTY_FILE, .paths = S | M | T | SM

const struct option_group_info option_groups[GROUP_COUNT] = {
    [GROUP_GENERAL] = { .title = "General" },
    [GROUP_HARDWARE] = { .title = "Hardware" },
    [GROUP_RESOURCE] = { .title = "Resources" },
    [GROUP_PARADIGM] = { .title = "Training paradigm" },
    [GROUP_DISTRIBUTED] = { .title = "Several processes and machines" },
    [GROUP_HOSTS] = { .title = "Several hosts" },
    [GROUP_MPIRUN] = { "mpirun", when_on_cpu, "--cpu", "use_cpu", "distributed_type", "MULTI_CPU" },
    [GROUP_DEEPSPEED] = { "DeepSpeed", when_deepspeed, "--use_deepspeed", "distributed_type: DEEPSPEED",
                          "use_deepspeed", "true" },
    [GROUP_FSDP] = { "Fully sharded data parallelism (FSDP)", when_fsdp, "--use_fsdp", "distributed_type: FSDP",
                     "use_fsdp", "true" },
    [GROUP_MEGATRON] = { "Megatron-LM", when_megatron_lm, "--use_megatron_lm", "distributed_type: MEGATRON_LM",
                         "use_megatron_lm", "true" },
    [GROUP_FP8] = { "FP8", when_fp8, "--mixed_precision fp8", "mixed_precision: fp8", "mixed_precision",
                    "fp8" },
    [GROUP_PARALLELISM] = { "Several kinds of parallelism", when_parallelism_config, "--use_parallelism_config",
                            "parallelism_config", "use_parallelism_config", "true" },
    [GROUP_TPU] = { "TPU", when_tpu, "--tpu", "distributed_type: XLA", "tpu", "true" },
    [GROUP_AWS] = { "Amazon SageMaker", when_sagemaker, NULL, "compute_environment: AMAZON_SAGEMAKER",
                    "compute_environment", "AMAZON_SAGEMAKER" },
    [GROUP_OURS] = { .title = "Extensions" },
};

const struct option options[] = {
    { .key = "config_file", OPT_PATH (config_file), .group = GROUP_GENERAL,
      .commands = COMMAND_LAUNCH | COMMAND_ENV | COMMAND_CONFIG | COMMAND_TEST | COMMAND_TO_FSDP2
                  | COMMAND_TPU_CONFIG, .metavar = "FILE",
      .help = "configuration file (instead of the default one)",
      .doc = "Read this configuration file instead of the default one. A file whose name ends in .json is JSON, any "
             "other is YAML." },

    { .key = "quiet", .letter = 'q', OPT_FLAG (quiet), .group = GROUP_GENERAL, .commands = COMMAND_LAUNCH,
      .help = "print no notes and no failure report",
      .doc = "Print neither notes about assumed values nor the report on a failed rank. The warnings and notes of "
             "--stall_timeout remain. The exit status is unchanged." },

    { .key = "module", .letter = 'm', OPT_FLAG (module), .group = GROUP_GENERAL, .commands = COMMAND_LAUNCH,
      .help = "PROGRAM is a Python module, as with python3 -m",
      .doc = "Run the program as a Python module, like python3 -m. Cannot be combined with --no_python." },

    { .key = "no_python", OPT_FLAG (no_python), .group = GROUP_GENERAL, .commands = COMMAND_LAUNCH,
      .help = "execute PROGRAM directly, even if its name ends in .py",
      .doc = "Execute the program directly, even if its name ends in .py." },

    { .key = "compute_environment", OPT_TEXT (compute_environment), .dflt = "LOCAL_MACHINE",
      .choices = WORDS ("LOCAL_MACHINE", "AMAZON_SAGEMAKER"), .group = GROUP_GENERAL,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "WORD",
      .help = "where to run",
      .doc = "Where jobs run. LOCAL_MACHINE means your own machines." },

    { .key = "distributed_type", OPT_TEXT (distributed_type), .dflt = "NO",
      .choices = WORDS ("NO", "MULTI_CPU", "MULTI_XPU", "MULTI_HPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU",
                        "MULTI_SDAA", "MULTI_MUSA", "MULTI_NEURON", "XLA", "DEEPSPEED", "FSDP", "MEGATRON_LM",
                        "DATA_PARALLEL", "MODEL_PARALLEL"), .group = GROUP_HARDWARE,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "WORD",
      .help = "kind of distributed training",
      .doc = "The kind of distributed training: none (NO); processes on CPUs (MULTI_CPU), GPUs (MULTI_GPU), other "
             "accelerators or TPUs (XLA); or a training framework (DEEPSPEED, FSDP, MEGATRON_LM). With NO, the number "
             "of processes defaults to 1." },

    { .key = "num_machines", OPT_INT (num_machines, 1, 100000), .dflt = "1", .group = GROUP_RESOURCE,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "N",
      .help = "number of machines",
      .doc = "The number of machines that the job uses. Unless --hosts or --hostfile is given, run the "
             "command on each of them." },

    { .key = "machine_rank", OPT_INT (machine_rank, 0, 99999), .dflt = "0", .words = WORDS ("auto"),
      .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "N",
      .help = "rank of this machine, from 0",
      .doc = "The rank of this machine, from 0. Machine 0 is the main machine. With auto, if a scheduler or another "
             "launcher starts this command once on each machine: what Slurm or mpirun says, or the place of this host "
             "in --hosts, in --hostfile or in the allocation of PBS or LSF. num_machines then follows, too." },

    { .key = "main_process_ip", OPT_TEXT (main_process_ip), .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH | COMMAND_TEST,
      .properties = PROPERTY_FILE, .metavar = "HOST",
      .help = "name or address of the main machine",
      .doc = "The host name or IP address of the main machine, where rank 0 runs. Required with several machines; "
             "127.0.0.1 with one. With auto, the first host of the Slurm step, of --hosts, of --hostfile or of the "
             "allocation of PBS or LSF." },

    { .key = "main_process_port", OPT_INT (main_process_port, 0, 65535), .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH | COMMAND_TEST, .properties = PROPERTY_FILE, .metavar = "PORT",
      .help = "TCP port of rank 0 (0: any free port)",
      .doc = "The TCP port on which rank 0 can be reached. 0 picks a free port, on a single machine only. The default "
             "is 29500." },

    { .key = "debug", OPT_FLAG (debug), .group = GROUP_GENERAL, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE, .env = "ACCELERATE_DEBUG_MODE", .spelling = SPELL_TRUE_IF_ON,
      .paths = S | M | T | D | P | SM,
      .help = "check shapes before every collective",
      .doc = "Compare the shapes of tensors across ranks before every collective operation, and report a mismatch as "
             "an error that shows all shapes. Works in programs that use libaccel and in Python programs that use "
             "Hugging Face Accelerate. libaccel always records the calls themselves." },

    { .key = "overwrite", OPT_FLAG (overwrite), .group = GROUP_GENERAL, .commands = COMMAND_TO_FSDP2,
      .help = "replace an existing file",
      .doc = "Replace the output file if it exists. Without --output_file, replace the configuration file itself." },

    { .key = "output_file", OPT_PATH (output_file), .group = GROUP_GENERAL, .commands = COMMAND_TO_FSDP2,
      .metavar = "FILE",
      .help = "where to write the converted file",
      .doc = "Write the converted configuration to this file, as JSON if its name ends in .json." },

    { .key = "output", .letter = 'o', OPT_PATH (report_output), .group = GROUP_GENERAL, .commands = COMMAND_REPORT,
      .metavar = "FILE", .dflt = "report.html",
      .help = "where to write the page",
      .doc = "Write the page to this file. One that exists is replaced." },

    { .key = "cpu", OPT_FLAG (cpu), .group = GROUP_HARDWARE, .commands = COMMAND_LAUNCH | COMMAND_CONFIG | COMMAND_TEST,
      .help = "run on CPUs and ignore the default file",
      .doc = "Run on CPUs even if there are GPUs. The default configuration file is ignored, but one given with "
             "--config_file is not." },

    { .key = "use_cpu", OPT_FLAG (use_cpu), .group = GROUP_HARDWARE, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .env = "ACCELERATE_USE_CPU", .paths = S | M,
      .help = "run on CPUs",
      .doc = "Run on CPUs even if there are GPUs. --cpu sets this." },

    { .key = "multi_gpu", OPT_FLAG (multi_gpu), .group = GROUP_HARDWARE, .commands = COMMAND_LAUNCH | COMMAND_CONFIG,
      .help = "one process per GPU, on several GPUs",
      .doc = "Start one process for each of several GPUs. A file with distributed_type: MULTI_GPU sets this, unless "
             "the command line selects other hardware. Cannot be combined with --cpu." },

    { .key = "dynamo_backend", OPT_TEXT (dynamo_backend), .dflt = "no", DYNAMO_ROW,
      .choices = WORDS ("no", "eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser", "cudagraphs",
                        "ofi", "fx2trt", "onnxrt", "tensorrt", "aot_torchxla_trace_once", "torchxla_trace_once", "tvm",
                        "hpu_backend", "neuron"), .env = "ACCELERATE_DYNAMO_BACKEND", .spelling = SPELL_UPPER,
      .metavar = "WORD",
      .help = "torch.compile backend, for Python programs",
      .doc = "The torch.compile backend, for Python programs that use Hugging Face Accelerate. C programs ignore it." },

    { .key = "dynamo_mode", OPT_TEXT (dynamo_mode), .dflt = "default", DYNAMO_ROW,
      .choices = WORDS ("default", "reduce-overhead", "max-autotune"), .env = "ACCELERATE_DYNAMO_MODE",
      .metavar = "WORD",
      .help = "torch.compile mode, for Python programs",
      .doc = "What torch.compile optimizes for." },

    { .key = "dynamo_use_fullgraph", OPT_FLAG (dynamo_use_fullgraph), DYNAMO_ROW,
      .env = "ACCELERATE_DYNAMO_USE_FULLGRAPH",
      .help = "torch.compile: require a single graph",
      .doc = "Fail if torch.compile cannot compile the model into a single graph." },

    { .key = "dynamo_use_dynamic", OPT_FLAG (dynamo_use_dynamic), DYNAMO_ROW, .env = "ACCELERATE_DYNAMO_USE_DYNAMIC",
      .help = "torch.compile: allow dynamic shapes",
      .doc = "Let torch.compile support shapes that change from batch to batch." },

    { .key = "dynamo_use_regional_compilation", OPT_FLAG (dynamo_use_regional_compilation), DYNAMO_ROW,
      .env = "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION",
      .help = "torch.compile: compile repeated blocks once",
      .doc = "Let torch.compile compile a repeated block of the model only once." },

    { .key = "gpu_ids", OPT_TEXT (gpu_ids), .dflt = "all", .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE, .env = "CUDA_VISIBLE_DEVICES", .paths = S | M | T | D, .when = when_gpus_chosen,
      .metavar = "GPUS",
      .help = "comma-separated GPU numbers, or 'all'",
      .doc = "The GPUs visible to the ranks: comma-separated numbers or UUIDs (GPU-... or MIG-...), or all. Each rank "
             "sees all of them and uses the one with its local rank, except that each gets a MIG device of its own. "
             "See accelerate-gpus(7)." },

    { .key = "share_gpus", OPT_FLAG (share_gpus), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .help = "allow more processes than GPUs",
      .doc = "Start more processes on a machine than it has GPUs, or than gpu_ids lists: several use one GPU. NCCL "
             "refuses that; other ways of communication do not." },

    { .key = "num_processes", OPT_INT (num_processes, 1, 1000000), .group = GROUP_RESOURCE,
      .commands = COMMAND_LAUNCH | COMMAND_TEST | COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_FILE, .metavar = "N",
      .help = "total number of processes, across all machines",
      .doc = "The total number of processes, across all machines." },

    { .key = "num_cpu_threads_per_process", OPT_INT (num_cpu_threads_per_process, 1, 100000), .group = GROUP_RESOURCE,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FROM_ENV, .env = "OMP_NUM_THREADS", .paths = S | M | T,
      .metavar = "N",
      .help = "OpenMP (and similar) threads per process",
      .doc = "The number of threads that OpenMP, and libraries that respect its variable, start in each process. If "
             "not given, OMP_NUM_THREADS of the environment is kept. If that is not set either, the default is an "
             "equal share of the cores on CPUs, and 1 on GPUs." },

    { .key = "mixed_precision", OPT_TEXT (mixed_precision), .dflt = "no",
#define NAME(name, ...) name,
      .choices = (const char *const[]){ PRECISION_MAP (NAME) NULL },
#undef NAME
      .synonyms = WORDS ("fp32=no", "float32=no", "float=no", "32=no", "32-true=no", "full=no", "none=no", "tf32=no",
                         "float16=fp16", "half=fp16", "f16=fp16", "16-mixed=fp16", "bfloat16=bf16", "bf16-mixed=bf16",
                         "float8=fp8"),
      .group = GROUP_RESOURCE, .commands = COMMAND_LAUNCH | COMMAND_CONFIG | COMMAND_ESTIMATE_MEMORY,
      .properties = PROPERTY_FILE, .env = "ACCELERATE_MIXED_PRECISION", .spelling = SPELL_LOWER,
      .paths = S | M | T | D | SM, .metavar = "WORD",
      .help = "number format for computation",
      .doc = "Compute in 16-bit floating point where that is safe: fp16 (with loss scaling) or bf16. Or compute in "
             "8-bit floating point, fp8; see the --fp8_... options." },

#include "config/table/rows_deepspeed.h"
#include "config/table/rows_estimate.h"
#include "config/table/rows_distributed.h"
    { .key = "bind-to", OPT_TEXT (mpirun_bind_to), .dflt = "socket", .section = "mpirun_config",
      .group = GROUP_MPIRUN, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "WORD",
      .help = "what mpirun binds ranks to",
      .doc = "What mpirun binds each rank to, as in Open MPI's --bind-to." },
#include "config/table/rows_fp8.h"
#include "config/table/rows_fsdp.h"
#include "config/table/rows_hosts.h"
#include "config/table/rows_megatron.h"
#include "config/table/rows_paradigm.h"
#include "config/table/rows_parallelism.h"
#include "config/table/rows_sagemaker.h"
#include "config/table/rows_tpu.h"
#include "config/table/rows_watch.h"
#include "config/table/rows_weights.h"

    { .key = "dry_run", OPT_FLAG (dry_run), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_EXTENSION,
      .help = "print what would be started, but start nothing",
      .doc = "Print the processes that would be started, with their arguments and environment, but start nothing; for "
             "SageMaker, print the request." },

    { .key = "explain", OPT_FLAG (explain), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_EXTENSION,
      .help = "with --dry_run: show settings and their origins",
      .doc = "With --dry_run: before the plan, print each setting that has a value and where the value comes from: a "
             "flag, a line of the file, the environment, another setting, or the default." },

    { .key = "json", OPT_FLAG (json), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH | COMMAND_ENV | COMMAND_CONFIG | COMMAND_INSPECT | COMMAND_TEST
                  | COMMAND_ESTIMATE_MEMORY | COMMAND_PS | COMMAND_STACKS | COMMAND_TOP,
      .properties = PROPERTY_EXTENSION,
      .help = "print JSON",
      .doc = "Print JSON instead of text." },

    { .key = "yes", .letter = 'y', OPT_FLAG (yes), .group = GROUP_OURS, .commands = COMMAND_CONFIG,
      .properties = PROPERTY_EXTENSION,
      .help = "ask nothing; take defaults",
      .doc = "Ask nothing. Questions that no flag answers take the answer of the old file, or the default; if there is "
             "neither, that is an error." },

    { .key = "grace", OPT_INT (grace, 0, 86400), .dflt = "30", .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "SECONDS",
      .help = "seconds between SIGTERM and SIGKILL when ending ranks",
      .doc = "The number of seconds between SIGTERM and SIGKILL for the remaining ranks, after a rank has failed or "
             "the launcher was asked to stop." },

    { .key = "stall_timeout", OPT_INT (stall_timeout, 0, 604800), .dflt = "60", .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "SECONDS",
      .help = "seconds without progress until ranks' stacks are shown",
      .doc = "If ranks have been waiting in calls of libaccel for so many seconds, and those that they are waiting for "
             "have made no progress for as long, a warning names these ranks and shows the stacks of all ranks. Ranks "
             "that compute meanwhile, as in an evaluation, read files or wait for a GPU get a note with the function "
             "and line that each of them is in, and after ten times as long a note with their stacks. So does a host "
             "whose ranks wait for those of other hosts. Later ones come after twice the time each. The job continues; "
             "--timeout ends it. A rank that a signal has stopped, as SIGSTOP does, is named by a note after half a "
             "second. 0 turns warnings and notes off. See accelerate-stacks(1)." },

    { .key = "timeout", OPT_INT (timeout, 1, 4294967), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .env = "ACCEL_TIMEOUT_MS", .spelling = SPELL_MILLISECONDS,
      .paths = S | M | T | D | P, .metavar = "SECONDS",
      .help = "seconds that ranks wait for others before they fail",
      .doc = "The longest time for which a rank that uses libaccel waits for others, in accel_open() and in each call. "
             "Then it fails, which ends the job; the failure report names the rank that it waited for and has the "
             "stacks of all. A timeout in the program's accel_options, and that of PyTorch's init_process_group(), "
             "come first. Without this option, the ranks keep the variable ACCEL_TIMEOUT_MS (milliseconds); if it is "
             "not set, they wait for 30 minutes. Other programs ignore it. For a limit to the whole job, see "
             "--time_limit." },

    { .key = "time_limit", OPT_INT (time_limit, 0, 1000000000), .dflt = "0", .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "SECONDS",
      .help = "seconds after which ranks are asked to save and stop",
      .doc = "The number of seconds after which the ranks are asked to save a checkpoint and to stop, as by SIGTERM to "
             "the launcher; 0 means no limit. Restarts count, too. See STOPPING." },

    { .key = "checkpoint_file", OPT_PATH (checkpoint_file), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "FILE",
      .help = "file whose appearance asks ranks for a checkpoint",
      .doc = "When this file appears, the ranks are asked for a checkpoint, and the file is removed. See STOPPING." },

    { .key = "spot_notices", OPT_TEXT (spot_notices), .choices = WORDS ("aws", "gcp", "azure"), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "CLOUD",
      .help = "cloud whose notices ask ranks to save and stop",
      .doc = "The cloud whose metadata service is asked every 5 s whether this machine is about to be taken away, as "
             "spot and preemptible machines are: aws, gcp or azure. If it is, the ranks are asked to save a checkpoint "
             "and to stop, as by SIGTERM to the launcher. By default, no service is asked. On several "
             "machines, each asks about itself, and the ranks of all of them stop. See STOPPING." },

    { .key = "label", OPT_TEXT (label), .dflt = "auto", .choices = WORDS ("auto", "yes", "no"), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "WORD",
      .help = "whether each line begins with its rank",
      .doc = "Whether each line of the ranks' output begins with the number of its rank, such as [3]. auto means yes "
             "if several ranks write to a terminal, where equal lines of several ranks are shown once, and no in files "
             "and pipes. The lines of different ranks are kept apart in either case; see OUTPUT." },

    { .key = "only_rank", OPT_INT (only_rank, 0, 999999), .dflt = "all", .words = WORDS ("all"), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "RANK",
      .help = "show the output of this rank only",
      .doc = "Show the output of this rank only, or of all. The output of the others still goes into files "
             "(--tee, --log_dir), and their last lines into a failure report." },

    { .key = "stdin", OPT_TEXT (input), .dflt = "0", .choices = WORDS ("0", "none"), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "RANK",
      .help = "rank that reads standard input",
      .doc = "The rank that reads the launcher's standard input: 0 or none. All other ranks read /dev/null. Rank 0 may "
             "be on another host (--hosts)." },

    { .key = "bind", OPT_TEXT (bind), .dflt = "auto", .choices = WORDS ("auto", "none", "core", "numa", "gpu"),
      .group = GROUP_OURS, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION,
      .metavar = "WORD",
      .help = "which CPUs each rank may run on",
      .doc = "Which CPUs each rank may run on, of those that the launcher may use. core: its share of the cores, all "
             "in one NUMA node. numa: the CPUs of one NUMA node. gpu: those near its GPU, as with "
             "--enable_cpu_affinity. none: all. auto: gpu with --enable_cpu_affinity, otherwise none. See PLACEMENT." },

    { .key = "report_bindings", OPT_FLAG (report_bindings), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_EXTENSION,
      .help = "print CPUs, NUMA node, device and threads of each rank",
      .doc = "Before the ranks start, print for each of them on standard error the CPUs that it may run on, their "
             "NUMA node, its device and its number of threads. With --dry_run, the list of ranks has them." },

    { .key = "cpu_backend", OPT_TEXT (cpu_backend), .dflt = "auto", .choices = WORDS ("auto", "accel", "gloo"),
      .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION | PROPERTY_FROM_ENV, .env = "ACCEL_CPU_BACKEND",
      .paths = S | M | T | D, .when = when_cpu_backend_chosen, .metavar = "WORD",
      .help = "what PyTorch programs communicate with on CPUs",
      .doc = "What carries the collectives of PyTorch programs on CPUs: gloo, PyTorch's own, or accel, which is "
             "libaccel. With accel, programs that ask for gloo, or name no backend, get libaccel without a change. "
             "auto is gloo in this release; accelerate-torch(7) has the reasons. Other programs ignore it." },

    { .key = "total_batch_size", OPT_INT (total_batch_size, 1, INT64_MAX), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION,
      .env = "ACCELERATE_TOTAL_BATCH_SIZE", .paths = S | M | T | D | P, .metavar = "N",
      .help = "samples per optimizer step, over all processes",
      .doc = "The number of samples in each step of the optimizer, of all processes together. Programs that use "
             "libaccel accumulate gradients over as many passes as that takes, so that a job has the same steps on "
             "another number of processes: passes = N / (batch size * processes), which must be a whole number. See "
             "accel_accumulate(3). Other programs ignore it." },

    { .key = "share_parameters", OPT_FLAG (share_parameters), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH | COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_FILE | PROPERTY_EXTENSION,
      .env = "ACCELERATE_SHARE_PARAMETERS", .spelling = SPELL_TRUE_IF_ON, .paths = S | M | T | D | P,
      .help = "one copy of the parameters for all processes of a host",
      .doc = "The processes of a host have one copy of the parameters of a sharded model, in memory that all of them "
             "map. estimate-memory: with --sharding, all processes are on one host. launch: for programs that call "
             "accel_model_set_sharding(), and so follow addresses that change; see accel_sharding(3). Other programs "
             "ignore it." },

    { .key = "no_progress", OPT_FLAG (no_progress), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .env = "ACCEL_NO_PROGRESS", .spelling = SPELL_ONE_IF_ON,
      .paths = S | M | T | D | P,
      .help = "do not show the progress of long saves and loads",
      .doc = "Do not report the progress of saves and loads. By default, if saving or loading a model or a checkpoint "
             "takes more than a second, rank 0 of a program that uses libaccel writes to standard error how much is "
             "done, how fast it is and how long it still takes." },

    { .key = "failure_report", OPT_PATH (failure_report), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "FILE",
      .help = "write a JSON report of how the job ended",
      .doc = "When the job has ended, write a JSON object to this file: the exit status and, if a rank has failed, its "
             "number, its exit code or signal, its last lines on standard error, and what the other ranks were "
             "doing. A launch that is refused writes the reason there, and no report of an earlier one stays. Restarts "
             "are listed with their causes. See FAILURE REPORT." },

    { .key = "resume", OPT_PATH (resume), .group = GROUP_OURS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "DIR",
      .help = "continue from the newest complete checkpoint in this folder",
      .doc = "Before each start of the ranks, also after a failure (see --max_restarts), find the newest checkpoint in "
             "this folder, or in its folder checkpoints, that is complete and undamaged. The program gets its path in "
             "the variable ACCEL_RESUME_FROM, for accel_load_state(). If there is none, the variable is empty. "
             "Checkpoints that are incomplete or damaged, or whose parameters are not finite, are passed over with a "
             "note; a folder that does not exist gets a warning." },

    { .key = "memory_checkpoint_every", OPT_INT (memory_checkpoint_every, 1, INT64_MAX), .group = GROUP_OURS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION,
      .env = "ACCELERATE_MEMORY_CHECKPOINT_EVERY", .paths = S | M | T | D | P, .metavar = "N",
      .help = "steps between checkpoints in memory, for restarts",
      .doc = "Keep the state of the training in memory after every N steps of the optimizer, so ranks that are started "
             "again (--max_restarts) lose at most N steps. Programs that use libaccel need no other code than for "
             "checkpoints on disk: accel_load_state() finds the state. It takes twice its size, and is gone when the "
             "launcher ends; with --hosts, each host has models and optimizers, and a copy of the rest of the host "
             "before it, which takes more. See accel_checkpoint(3). Other programs ignore it." },
};

const size_t option_count = sizeof options / sizeof *options;

static bool
same_name (const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
            return false;
    return *a == *b;
}

const struct option *
option_find (const char *key)
{
    for (size_t i = 0; i < option_count; i++)
        if (same_name (options[i].key, key))
            return &options[i];
    return NULL;
}

static bool
is_in_section (const struct option *row, const char *section)
{
    return section && row->section ? !strcmp (row->section, section) : !section && !row->section;
}

/* Some sections' keys may leave out the section's name: `backend` in dynamo_config is dynamo_backend. */
static bool
is_short_key (const char *row_key, const char *section, const char *key)
{
    const char *end = strstr (section, "_config");
    size_t length = end ? (size_t) (end - section) : strlen (section);
    return !strncmp (row_key, section, length) && row_key[length] == '_' && !strcmp (row_key + length + 1, key);
}

/* A row's own name comes before the short name of another: mpirun_config has both hostfile and mpirun_hostfile. */
const struct option *
option_find_in_file (const char *section, const char *key)
{
    const struct option *row_with_short_key = NULL;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!(row->properties & PROPERTY_FILE) || !is_in_section (row, section))
            continue;
        if (!strcmp (row->key, key))
            return row;
        if (section && is_short_key (row->key, section, key))
            row_with_short_key = row;
    }
    return row_with_short_key;
}
