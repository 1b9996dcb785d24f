/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: fully sharded data parallelism; options.c includes them. */

    { .key = "fsdp_version", OPT_TEXT (fsdp_version), .dflt = "1", .choices = WORDS ("1", "2"),
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_VERSION", .spelling = SPELL_PLAIN, .paths = T, .when = when_fsdp, .metavar = "N",
      .help = "FSDP version",
      .doc = "The version of PyTorch's FSDP to use." },

    { .key = "fsdp_offload_params", OPT_TRUTH (fsdp_offload_params), .dflt = "false", .section = "fsdp_config",
      .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_OFFLOAD_PARAMS",
      .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp, .metavar = "true|false",
      .help = "keep parameters and gradients in host memory",
      .doc = "Keep parameters and gradients in the host's memory while they are not used." },

    { .key = "fsdp_min_num_params", OPT_INT (fsdp_min_num_params, 0, INT64_MAX), .dflt = "100000000",
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_MIN_NUM_PARAMS", .spelling = SPELL_PLAIN, .paths = T, .when = when_fsdp, .metavar = "N",
      .help = "smallest module to wrap, in parameters",
      .doc = "With SIZE_BASED_WRAP: a module of so many parameters is wrapped by itself." },

    { .key = "fsdp_sharding_strategy", OPT_TEXT (fsdp_sharding_strategy), .dflt = "FULL_SHARD",
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_SHARDING_STRATEGY", .spelling = SPELL_PLAIN, .paths = T, .when = when_fsdp,
      .words = WORDS ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"),
      .metavar = "WORD",
      .help = "FSDP 1: what to shard",
      .doc = "With version 1: what is spread over the processes." },

    { .key = "fsdp_reshard_after_forward", OPT_TRUTH (fsdp_reshard_after_forward), .dflt = "true",
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_RESHARD_AFTER_FORWARD", .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp,
      .words = WORDS ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"),
      .metavar = "true|false",
      .help = "FSDP 2: reshard parameters after the forward pass",
      .doc = "With version 2: whether parameters are spread over the processes again after the forward pass. With "
             "version 1 a sharding strategy, as old questionnaires wrote it here." },

    { .key = "fsdp_auto_wrap_policy", OPT_TEXT (fsdp_auto_wrap_policy), .section = "fsdp_config", .group = GROUP_FSDP,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_AUTO_WRAP_POLICY",
      .spelling = SPELL_PLAIN, .paths = T, .when = when_fsdp,
      .words = WORDS ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"), .metavar = "WORD",
      .help = "how to choose the modules to wrap",
      .doc = "How the modules are chosen that are wrapped by themselves." },

    { .key = "fsdp_transformer_layer_cls_to_wrap", OPT_TEXT (fsdp_transformer_layer_cls_to_wrap),
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_TRANSFORMER_CLS_TO_WRAP", .spelling = SPELL_PLAIN, .paths = T, .when = when_fsdp,
      .metavar = "LIST",
      .help = "comma-separated layer classes to wrap",
      .doc = "With TRANSFORMER_BASED_WRAP: the classes of layers to wrap, with commas between them. Upper and lower "
             "case count." },

    { .key = "fsdp_backward_prefetch", OPT_TEXT (fsdp_backward_prefetch), .section = "fsdp_config",
      .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_BACKWARD_PREFETCH",
      .spelling = SPELL_PLAIN, .paths = T, .when = when_fsdp,
      .words = WORDS ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"), .metavar = "WORD",
      .help = "FSDP 1: when to prefetch in the backward pass",
      .doc = "With version 1: when the next parameters are fetched in the backward pass." },

    { .key = "fsdp_state_dict_type", OPT_TEXT (fsdp_state_dict_type), .section = "fsdp_config", .group = GROUP_FSDP,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_STATE_DICT_TYPE", .spelling = SPELL_PLAIN,
      .paths = T, .when = when_fsdp, .words = WORDS ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"),
      .metavar = "WORD",
      .help = "checkpoint format",
      .doc = "How the state is written into checkpoints." },

    { .key = "fsdp_forward_prefetch", OPT_TRUTH (fsdp_forward_prefetch), .dflt = "false", .section = "fsdp_config",
      .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_FORWARD_PREFETCH",
      .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp, .metavar = "true|false",
      .help = "FSDP 1: prefetch in the forward pass",
      .doc = "With version 1: fetch the next parameters while the forward pass computes. Only for graphs that do not "
             "change." },

    { .key = "fsdp_use_orig_params", OPT_TRUTH (fsdp_use_orig_params), .dflt = "true", .section = "fsdp_config",
      .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_USE_ORIG_PARAMS",
      .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp, .metavar = "true|false",
      .help = "FSDP 1: frozen and trained parameters may share a unit",
      .doc = "With version 1: let frozen and trained parameters share a unit." },

    { .key = "fsdp_cpu_ram_efficient_loading", OPT_TRUTH (fsdp_cpu_ram_efficient_loading), .dflt = "true",
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_CPU_RAM_EFFICIENT_LOADING", .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp,
      .metavar = "true|false",
      .help = "load weights on the main process only",
      .doc = "Only the main process reads the weights, the others begin with empty ones. Needs "
             "fsdp_sync_module_states." },

    { .key = "fsdp_sync_module_states", OPT_TRUTH (fsdp_sync_module_states), .dflt = "true", .section = "fsdp_config",
      .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .env = "FSDP_SYNC_MODULE_STATES",
      .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp, .metavar = "true|false",
      .help = "FSDP 1: broadcast the weights of rank 0",
      .doc = "Send each unit's weights from rank 0 to all when it is wrapped." },

    { .key = "fsdp_activation_checkpointing", OPT_TRUTH (fsdp_activation_checkpointing), .dflt = "false",
      .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE,
      .env = "FSDP_ACTIVATION_CHECKPOINTING", .spelling = SPELL_LOWER, .paths = T, .when = when_fsdp,
      .metavar = "true|false",
      .help = "recompute activations instead of keeping them",
      .doc = "Compute activations again in the backward pass instead of keeping them." },

    { .key = "fsdp_activation_checkpointing_offload", OPT_TRUTH (fsdp_activation_checkpointing_offload),
      .dflt = "false", .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE, .env = "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", .spelling = SPELL_LOWER,
      .paths = T, .when = when_fsdp, .metavar = "true|false",
      .help = "keep checkpointed activations in host memory",
      .doc = "With activation checkpointing: keep in the host's memory what is not computed again." },

    { .key = "fsdp_ignored_modules", OPT_TEXT (fsdp_ignored_modules), .section = "fsdp_config", .group = GROUP_FSDP,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .env = "FSDP_IGNORED_MODULES", .spelling = SPELL_PLAIN,
      .paths = T, .when = when_fsdp, .metavar = "REGEX",
      .help = "modules that FSDP ignores",
      .doc = "A regular expression: modules whose names match are left alone." },
