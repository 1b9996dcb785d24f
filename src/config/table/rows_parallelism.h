/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: several kinds of parallelism together; options.c includes them. */
#define PARALLELISM_ROW .section = "parallelism_config", .group = GROUP_PARALLELISM, .commands = COMMAND_LAUNCH, \
    .properties = PROPERTY_FILE, .paths = T | D

    { .key = "parallelism_config_dp_replicate_size", OPT_INT (parallelism_config_dp_replicate_size, 1, 1000000),
      .dflt = "1", PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_DP_REPLICATE_SIZE", .when = when_parallelism_config,
      .metavar = "N",
      .help = "number of model replicas",
      .doc = "The number of model replicas." },

    { .key = "parallelism_config_dp_shard_size", OPT_INT (parallelism_config_dp_shard_size, 1, 1000000), .dflt = "1",
      PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_DP_SHARD_SIZE", .when = when_parallelism_config, .metavar = "N",
      .help = "processes per sharded replica",
      .doc = "The number of processes that each replica is sharded across." },

    { .key = "parallelism_config_tp_size", OPT_INT (parallelism_config_tp_size, 1, 1000000), .dflt = "1",
      PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_TP_SIZE", .when = when_parallelism_config, .metavar = "N",
      .help = "tensor parallelism size",
      .doc = "Tensor parallelism: the number of processes that each layer is split across." },

    { .key = "parallelism_config_cp_size", OPT_INT (parallelism_config_cp_size, 1, 1000000), .dflt = "1",
      PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_CP_SIZE", .when = when_parallelism_config, .metavar = "N",
      .help = "context parallelism size",
      .doc = "Context parallelism: the number of processes that the context is split across." },

    { .key = "parallelism_config_cp_backend", OPT_TEXT (parallelism_config_cp_backend), .dflt = "torch",
      .choices = WORDS ("torch"), PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_CP_BACKEND",
      .when = when_parallelism_config, .metavar = "WORD",
      .help = "context parallelism backend",
      .doc = "The context parallelism backend." },

    { .key = "parallelism_config_cp_comm_strategy", OPT_TEXT (parallelism_config_cp_comm_strategy), .dflt = "allgather",
      PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_CP_COMM_STRATEGY", .when = when_context_parallel,
      .words = WORDS ("allgather", "alltoall"), .metavar = "WORD",
      .help = "how context parts are exchanged",
      .doc = "How context parallelism exchanges the parts of the context." },

    { .key = "parallelism_config_sp_size", OPT_INT (parallelism_config_sp_size, 1, 1000000), .dflt = "1",
      PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_SP_SIZE", .when = when_parallelism_config, .metavar = "N",
      .help = "sequence parallelism size",
      .doc = "Sequence parallelism: the number of processes that sequences are split across." },

    { .key = "parallelism_config_sp_backend", OPT_TEXT (parallelism_config_sp_backend), .dflt = "deepspeed",
      .choices = WORDS ("deepspeed"), PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_SP_BACKEND",
      .when = when_parallelism_config, .metavar = "WORD",
      .help = "sequence parallelism backend",
      .doc = "The sequence parallelism backend." },

    { .key = "parallelism_config_sp_seq_length", OPT_TEXT (parallelism_config_sp_seq_length), PARALLELISM_ROW,
      .env = "PARALLELISM_CONFIG_SP_SEQ_LENGTH", .when = when_sequence_parallel, .metavar = "N",
      .help = "sequence length",
      .doc = "The sequence length, if it is fixed." },

    { .key = "parallelism_config_sp_seq_length_is_variable",
      OPT_PYTHON_BOOL (parallelism_config_sp_seq_length_is_variable), .dflt = "True", PARALLELISM_ROW,
      .env = "PARALLELISM_CONFIG_SP_SEQ_LENGTH_IS_VARIABLE", .when = when_sequence_parallel, .metavar = "true|false",
      .help = "sequence length varies",
      .doc = "Whether the sequence length varies from batch to batch." },

    { .key = "parallelism_config_sp_attn_implementation", OPT_TEXT (parallelism_config_sp_attn_implementation),
      .dflt = "sdpa", PARALLELISM_ROW, .env = "PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION",
      .when = when_sequence_parallel, .words = WORDS ("sdpa", "flash_attention_2", "flash_attention_3"),
      .metavar = "WORD",
      .help = "attention implementation",
      .doc = "The attention implementation." },
