/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: hardware and training paradigms; options.c includes them. */

    { .key = "tpu", OPT_FLAG (tpu), .group = GROUP_HARDWARE, .commands = COMMAND_LAUNCH | COMMAND_CONFIG,
      .help = "train on TPUs",
      .doc = "Train on TPUs: torch_xla imports the program and starts its processes. A file with distributed_type: XLA "
             "sets this." },

    { .key = "enable_cpu_affinity", OPT_FLAG (enable_cpu_affinity), .group = GROUP_RESOURCE,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "ACCELERATE_CPU_AFFINITY",
      .spelling = SPELL_ONE_IF_ON, .paths = S | M | T | D, .when = when_bound_near_gpus,
      .help = "keep each process on the cores near its GPU",
      .doc = "Let each process run only on the CPUs near its GPU, as far as the launcher may use them. The dry run "
             "shows them. A --bind other than auto or gpu overrides this." },

    { .key = "use_deepspeed", OPT_FLAG (use_deepspeed), .group = GROUP_PARADIGM,
      .commands = COMMAND_LAUNCH | COMMAND_CONFIG, .env = "ACCELERATE_USE_DEEPSPEED",
      .spelling = SPELL_TRUE_IF_ON, .paths = D,
      .help = "train with DeepSpeed",
      .doc = "Train with DeepSpeed. A file with distributed_type: DEEPSPEED sets this." },

    { .key = "use_fsdp", OPT_FLAG (use_fsdp), .group = GROUP_PARADIGM,
      .commands = COMMAND_LAUNCH | COMMAND_CONFIG, .env = "ACCELERATE_USE_FSDP",
      .spelling = SPELL_TRUE_IF_ON, .paths = T,
      .help = "train with fully sharded data parallelism",
      .doc = "Train with PyTorch's fully sharded data parallelism. A file with distributed_type: FSDP sets this." },

    { .key = "use_megatron_lm", OPT_FLAG (use_megatron_lm), .group = GROUP_PARADIGM,
      .commands = COMMAND_LAUNCH | COMMAND_CONFIG, .env = "ACCELERATE_USE_MEGATRON_LM",
      .spelling = SPELL_TRUE_IF_ON, .paths = T,
      .help = "train with Megatron-LM",
      .doc = "Train with Megatron-LM. A file with distributed_type: MEGATRON_LM sets this." },

    { .key = "use_parallelism_config", OPT_FLAG (use_parallelism_config), .group = GROUP_PARADIGM,
      .commands = COMMAND_LAUNCH | COMMAND_CONFIG, .env = "ACCELERATE_USE_PARALLELISM_CONFIG",
      .spelling = SPELL_TRUE_IF_ON, .paths = T | D,
      .help = "combine several kinds of parallelism",
      .doc = "Combine several kinds of parallelism; see the --parallelism_config_... options. A file with a "
             "parallelism_config section sets this." },
