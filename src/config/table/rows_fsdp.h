/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: fully sharded data parallelism; options.c includes them. */
#define FSDP_ROW .section = "fsdp_config", .group = GROUP_FSDP, .commands = COMMAND_LAUNCH, \
    .properties = PROPERTY_FILE, .paths = T, .when = when_fsdp

    { .key = "fsdp_version", OPT_TEXT (fsdp_version), .dflt = "1", .choices = WORDS ("1", "2"), FSDP_ROW,
      .env = "FSDP_VERSION", .metavar = "N",
      .help = "FSDP version",
      .doc = "The version of PyTorch's FSDP." },

    { .key = "fsdp_offload_params", OPT_TRUTH (fsdp_offload_params), .dflt = "false", FSDP_ROW,
      .env = "FSDP_OFFLOAD_PARAMS", .spelling = SPELL_LOWER, .metavar = "true|false",
      .help = "keep parameters and gradients in host memory",
      .doc = "Keep parameters and gradients in host memory while they are not in use." },

    { .key = "fsdp_min_num_params", OPT_INT (fsdp_min_num_params, 0, INT64_MAX), .dflt = "100000000", FSDP_ROW,
      .env = "FSDP_MIN_NUM_PARAMS", .metavar = "N",
      .help = "smallest module to wrap, in parameters",
      .doc = "With SIZE_BASED_WRAP: the number of parameters from which a module is wrapped." },

    { .key = "fsdp_sharding_strategy", OPT_TEXT (fsdp_sharding_strategy), .dflt = "FULL_SHARD", FSDP_ROW,
      .env = "FSDP_SHARDING_STRATEGY",
      .words = WORDS ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"),
      .metavar = "WORD",
      .help = "FSDP 1: what to shard",
      .doc = "With version 1: what is sharded across processes." },

    { .key = "fsdp_reshard_after_forward", OPT_TRUTH (fsdp_reshard_after_forward), .dflt = "true", FSDP_ROW,
      .env = "FSDP_RESHARD_AFTER_FORWARD", .spelling = SPELL_LOWER,
      .words = WORDS ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"),
      .metavar = "true|false",
      .help = "FSDP 2: reshard parameters after the forward pass",
      .doc = "With version 2: whether parameters are resharded after the forward pass. With version 1: a sharding "
             "strategy, as written by old questionnaires." },

    { .key = "fsdp_auto_wrap_policy", OPT_TEXT (fsdp_auto_wrap_policy), FSDP_ROW, .env = "FSDP_AUTO_WRAP_POLICY",
      .words = WORDS ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"), .metavar = "WORD",
      .help = "how to choose the modules to wrap",
      .doc = "How to choose the modules to wrap." },

    { .key = "fsdp_transformer_layer_cls_to_wrap", OPT_TEXT (fsdp_transformer_layer_cls_to_wrap), FSDP_ROW,
      .env = "FSDP_TRANSFORMER_CLS_TO_WRAP", .metavar = "LIST",
      .help = "comma-separated layer classes to wrap",
      .doc = "With TRANSFORMER_BASED_WRAP: the layer classes to wrap, separated by commas. Case-sensitive." },

    { .key = "fsdp_backward_prefetch", OPT_TEXT (fsdp_backward_prefetch), FSDP_ROW, .env = "FSDP_BACKWARD_PREFETCH",
      .words = WORDS ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"), .metavar = "WORD",
      .help = "FSDP 1: when to prefetch in the backward pass",
      .doc = "With version 1: when to prefetch the next parameters in the backward pass." },

    { .key = "fsdp_state_dict_type", OPT_TEXT (fsdp_state_dict_type), FSDP_ROW, .env = "FSDP_STATE_DICT_TYPE",
      .words = WORDS ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"), .metavar = "WORD",
      .help = "checkpoint format",
      .doc = "The format of the state in checkpoints." },

    { .key = "fsdp_forward_prefetch", OPT_TRUTH (fsdp_forward_prefetch), .dflt = "false", FSDP_ROW,
      .env = "FSDP_FORWARD_PREFETCH", .spelling = SPELL_LOWER, .metavar = "true|false",
      .help = "FSDP 1: prefetch in the forward pass",
      .doc = "With version 1: prefetch the next parameters during the forward pass. Only for models whose graph does "
             "not change." },

    { .key = "fsdp_use_orig_params", OPT_TRUTH (fsdp_use_orig_params), .dflt = "true", FSDP_ROW,
      .env = "FSDP_USE_ORIG_PARAMS", .spelling = SPELL_LOWER, .metavar = "true|false",
      .help = "FSDP 1: frozen and trained parameters may share a unit",
      .doc = "With version 1: allow frozen and trained parameters in the same unit." },

    { .key = "fsdp_cpu_ram_efficient_loading", OPT_TRUTH (fsdp_cpu_ram_efficient_loading), .dflt = "true", FSDP_ROW,
      .env = "FSDP_CPU_RAM_EFFICIENT_LOADING", .spelling = SPELL_LOWER, .metavar = "true|false",
      .help = "load weights on the main process only",
      .doc = "Load the weights on the main process only; the others start with empty weights. Requires "
             "fsdp_sync_module_states." },

    { .key = "fsdp_sync_module_states", OPT_TRUTH (fsdp_sync_module_states), .dflt = "true", FSDP_ROW,
      .env = "FSDP_SYNC_MODULE_STATES", .spelling = SPELL_LOWER, .metavar = "true|false",
      .help = "FSDP 1: broadcast the weights of rank 0",
      .doc = "Broadcast the weights of each unit from rank 0 when it is wrapped." },

    { .key = "fsdp_activation_checkpointing", OPT_TRUTH (fsdp_activation_checkpointing), .dflt = "false", FSDP_ROW,
      .env = "FSDP_ACTIVATION_CHECKPOINTING", .spelling = SPELL_LOWER, .metavar = "true|false",
      .help = "recompute activations instead of keeping them",
      .doc = "Recompute activations in the backward pass instead of keeping them." },

    { .key = "fsdp_activation_checkpointing_offload", OPT_TRUTH (fsdp_activation_checkpointing_offload),
      .dflt = "false", FSDP_ROW, .env = "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", .spelling = SPELL_LOWER,
      .metavar = "true|false",
      .help = "keep checkpointed activations in host memory",
      .doc = "With activation checkpointing: keep in host memory the activations that are not recomputed." },

    { .key = "fsdp_ignored_modules", OPT_TEXT (fsdp_ignored_modules), .section = "fsdp_config", .group = GROUP_FSDP,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .env = "FSDP_IGNORED_MODULES", .paths = T, .when = when_fsdp,
      .metavar = "REGEX",
      .help = "modules that FSDP ignores",
      .doc = "A regular expression. FSDP ignores modules whose names match it." },
