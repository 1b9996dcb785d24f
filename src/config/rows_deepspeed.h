/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: DeepSpeed; options.c includes them. */

    { .key = "deepspeed_config_file", OPT_PATH (deepspeed_config_file), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_CONFIG_FILE", .spelling = SPELL_PLAIN, .paths = D, .metavar = "FILE",
      .help = "DeepSpeed's own JSON configuration",
      .doc = "DeepSpeed's own configuration file, in JSON. The settings that it holds must not be given here too." },

    { .key = "zero_stage", OPT_INT (zero_stage, 0, 3), .section = "deepspeed_config", .group = GROUP_DEEPSPEED,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "ACCELERATE_DEEPSPEED_ZERO_STAGE",
      .spelling = SPELL_PLAIN, .paths = D, .metavar = "N",
      .help = "ZeRO stage",
      .doc = "What ZeRO spreads over the processes: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 "
             "parameters too." },

    { .key = "offload_optimizer_device", OPT_TEXT (offload_optimizer_device), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", .spelling = SPELL_LOWER, .paths = D,
      .words = WORDS ("none", "cpu", "nvme"), .metavar = "WORD",
      .help = "device that holds the optimizer state",
      .doc = "Where the optimizer's state is kept, from stage 2 on." },

    { .key = "offload_param_device", OPT_TEXT (offload_param_device), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", .spelling = SPELL_LOWER, .paths = D,
      .words = WORDS ("none", "cpu", "nvme"), .metavar = "WORD",
      .help = "device that holds the parameters",
      .doc = "Where parameters are kept, with stage 3." },

    { .key = "offload_optimizer_nvme_path", OPT_PATH (offload_optimizer_nvme_path), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", .spelling = SPELL_PLAIN, .paths = D,
      .metavar = "FOLDER",
      .help = "NVMe directory for the optimizer state",
      .doc = "The folder for the optimizer's state where its device is nvme." },

    { .key = "offload_param_nvme_path", OPT_PATH (offload_param_nvme_path), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", .spelling = SPELL_PLAIN, .paths = D, .metavar = "FOLDER",
      .help = "NVMe directory for parameters",
      .doc = "The folder for parameters where their device is nvme." },

    { .key = "gradient_accumulation_steps", OPT_NUMBER (gradient_accumulation_steps), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", .spelling = SPELL_PLAIN, .paths = D,
      .min = 1, .words = WORDS ("auto"), .metavar = "N",
      .help = "batches to accumulate before each optimizer step",
      .doc = "How many batches have their gradients added before the optimizer makes a step; or auto." },

    { .key = "gradient_clipping", OPT_NUMBER (gradient_clipping), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_GRADIENT_CLIPPING", .spelling = SPELL_LOWER, .paths = D,
      .decimals = true, .words = WORDS ("auto"), .metavar = "X",
      .help = "maximum gradient norm",
      .doc = "The largest norm of the gradients; larger ones are scaled down. Or auto." },

    { .key = "zero3_init_flag", OPT_TRUTH (zero3_init_flag), .section = "deepspeed_config", .group = GROUP_DEEPSPEED,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "ACCELERATE_DEEPSPEED_ZERO3_INIT",
      .spelling = SPELL_LOWER, .paths = D, .metavar = "true|false",
      .help = "stage 3: construct models in pieces, on all devices",
      .doc = "With stage 3: make large models in pieces on all devices, with deepspeed.zero.Init." },

    { .key = "zero3_save_16bit_model", OPT_TRUTH (zero3_save_16bit_model), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", .spelling = SPELL_LOWER, .paths = D,
      .metavar = "true|false",
      .help = "stage 3: save weights in 16 bits",
      .doc = "With stage 3: save the weights in 16 bits, as one model." },

    { .key = "deepspeed_hostfile", OPT_PATH (deepspeed_hostfile), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "FILE",
      .help = "hosts and their GPU counts",
      .doc = "DeepSpeed's file of hosts and how many GPUs each has, for several machines." },

    { .key = "deepspeed_exclusion_filter", OPT_TEXT (deepspeed_exclusion_filter), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "FILTER",
      .help = "hosts and GPUs to exclude",
      .doc = "Hosts and GPUs of the hostfile that are not used, as DeepSpeed writes them. Counts before the "
             "inclusion filter." },

    { .key = "deepspeed_inclusion_filter", OPT_TEXT (deepspeed_inclusion_filter), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "FILTER",
      .help = "hosts and GPUs to include",
      .doc = "Hosts and GPUs of the hostfile that are used, as DeepSpeed writes them." },

    { .key = "deepspeed_multinode_launcher", OPT_TEXT (deepspeed_multinode_launcher), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .words = WORDS ("pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"), .metavar = "WORD",
      .help = "how DeepSpeed starts the other machines",
      .doc = "What starts DeepSpeed on the other machines; standard: this command, on each. Where it is not given: "
             "pdsh." },

    { .key = "deepspeed_moe_layer_cls_names", OPT_TEXT (deepspeed_moe_layer_cls_names), .section = "deepspeed_config",
      .group = GROUP_DEEPSPEED, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", .spelling = SPELL_PLAIN, .paths = D, .metavar = "LIST",
      .help = "comma-separated mixture-of-experts layer classes",
      .doc = "The names of the classes of mixture-of-experts layers, with commas between them." },
