/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: DeepSpeed; options.c includes them. */
#define DEEPSPEED_ROW .section = "deepspeed_config", .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, \
    .properties = PROPERTY_FILE

    { .key = "deepspeed_config_file", OPT_PATH (deepspeed_config_file), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_CONFIG_FILE", .paths = D, .metavar = "FILE",
      .help = "DeepSpeed's own JSON configuration",
      .doc = "DeepSpeed's own JSON configuration file. Settings in that file cannot be repeated here." },

    { .key = "zero_stage", OPT_INT (zero_stage, 0, 3), .section = "deepspeed_config", .group = GROUP_DEEPSPEED,
      .commands = COMMAND_LAUNCH | COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_ZERO_STAGE", .paths = D, .metavar = "N",
      .help = "ZeRO stage",
      .doc = "What ZeRO partitions across processes: 0 nothing, 1 the optimizer state, 2 also the gradients, 3 also "
             "the parameters." },

    { .key = "offload_optimizer_device", OPT_TEXT (offload_optimizer_device), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", .spelling = SPELL_LOWER, .paths = D,
      .words = WORDS ("none", "cpu", "nvme"), .metavar = "WORD",
      .help = "device that holds the optimizer state",
      .doc = "The device that holds the optimizer state, with stage 2 or 3." },

    { .key = "offload_param_device", OPT_TEXT (offload_param_device), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", .spelling = SPELL_LOWER, .paths = D,
      .words = WORDS ("none", "cpu", "nvme"), .metavar = "WORD",
      .help = "device that holds the parameters",
      .doc = "The device that holds the parameters, with stage 3." },

    { .key = "offload_optimizer_nvme_path", OPT_PATH (offload_optimizer_nvme_path), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", .paths = D, .metavar = "FOLDER",
      .help = "NVMe directory for the optimizer state",
      .doc = "The NVMe directory for the optimizer state, if offload_optimizer_device is nvme." },

    { .key = "offload_param_nvme_path", OPT_PATH (offload_param_nvme_path), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", .paths = D, .metavar = "FOLDER",
      .help = "NVMe directory for parameters",
      .doc = "The NVMe directory for the parameters, if offload_param_device is nvme." },

    { .key = "gradient_accumulation_steps", OPT_NUMBER (gradient_accumulation_steps), DEEPSPEED_ROW,
      .env = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", .paths = D, .min = 1, .words = WORDS ("auto"), .metavar = "N",
      .help = "batches to accumulate before each optimizer step",
      .doc = "The number of batches whose gradients are accumulated before each optimizer step, or auto." },

    { .key = "gradient_clipping", OPT_NUMBER (gradient_clipping), DEEPSPEED_ROW, .env = "ACCELERATE_GRADIENT_CLIPPING",
      .spelling = SPELL_LOWER, .paths = D, .decimals = true, .words = WORDS ("auto"), .metavar = "X",
      .help = "maximum gradient norm",
      .doc = "The maximum gradient norm, or auto. Larger gradients are scaled down to it." },

    { .key = "zero3_init_flag", OPT_TRUTH (zero3_init_flag), DEEPSPEED_ROW, .env = "ACCELERATE_DEEPSPEED_ZERO3_INIT",
      .spelling = SPELL_LOWER, .paths = D, .metavar = "true|false",
      .help = "stage 3: construct models in pieces, on all devices",
      .doc = "With stage 3: partition large models while they are constructed, with deepspeed.zero.Init." },

    { .key = "zero3_save_16bit_model", OPT_TRUTH (zero3_save_16bit_model), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", .spelling = SPELL_LOWER, .paths = D,
      .metavar = "true|false",
      .help = "stage 3: save weights in 16 bits",
      .doc = "With stage 3: save the weights as one model, in 16 bits." },

    { .key = "deepspeed_hostfile", OPT_PATH (deepspeed_hostfile), DEEPSPEED_ROW, .metavar = "FILE",
      .help = "hosts and their GPU counts",
      .doc = "DeepSpeed's hostfile, which lists the machines and the number of GPUs of each." },

    { .key = "deepspeed_exclusion_filter", OPT_TEXT (deepspeed_exclusion_filter), DEEPSPEED_ROW, .metavar = "FILTER",
      .help = "hosts and GPUs to exclude",
      .doc = "Hosts and GPUs of the hostfile to exclude, in DeepSpeed's notation. Overrides the inclusion filter." },

    { .key = "deepspeed_inclusion_filter", OPT_TEXT (deepspeed_inclusion_filter), DEEPSPEED_ROW, .metavar = "FILTER",
      .help = "hosts and GPUs to include",
      .doc = "Hosts and GPUs of the hostfile to include, in DeepSpeed's notation." },

    { .key = "deepspeed_multinode_launcher", OPT_TEXT (deepspeed_multinode_launcher), DEEPSPEED_ROW,
      .words = WORDS ("pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"), .metavar = "WORD",
      .help = "how DeepSpeed starts the other machines",
      .doc = "How DeepSpeed starts processes on the other machines; standard means that you run this command on each. "
             "The default is pdsh." },

    { .key = "deepspeed_moe_layer_cls_names", OPT_TEXT (deepspeed_moe_layer_cls_names), DEEPSPEED_ROW,
      .env = "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", .paths = D, .metavar = "LIST",
      .help = "comma-separated mixture-of-experts layer classes",
      .doc = "The class names of mixture-of-experts layers, separated by commas." },
