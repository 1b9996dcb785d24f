/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: Megatron-LM; options.c includes them. */
#define MEGATRON_ROW .section = "megatron_lm_config", .group = GROUP_MEGATRON, .commands = COMMAND_LAUNCH, \
    .properties = PROPERTY_FILE, .paths = T, .when = when_megatron_lm

    { .key = "megatron_lm_tp_degree", OPT_INT (megatron_lm_tp_degree, 1, 1000000), .dflt = "1", MEGATRON_ROW,
      .env = "MEGATRON_LM_TP_DEGREE", .metavar = "N",
      .help = "tensor parallelism degree",
      .doc = "Tensor parallelism: the number of processes that each layer is split across." },

    { .key = "megatron_lm_use_custom_fsdp", OPT_PYTHON_BOOL (megatron_lm_use_custom_fsdp), .dflt = "False",
      MEGATRON_ROW, .env = "MEGATRON_LM_USE_CUSTOM_FSDP", .metavar = "true|false",
      .help = "use Megatron's own FSDP",
      .doc = "Use Megatron's own fully sharded data parallelism." },

    { .key = "megatron_lm_no_load_optim", OPT_PYTHON_BOOL (megatron_lm_no_load_optim), .dflt = "False", MEGATRON_ROW,
      .env = "MEGATRON_LM_NO_LOAD_OPTIM", .metavar = "true|false",
      .help = "do not load the optimizer state",
      .doc = "Do not load the optimizer state from checkpoints." },

    { .key = "megatron_lm_eod_mask_loss", OPT_PYTHON_BOOL (megatron_lm_eod_mask_loss), .dflt = "False", MEGATRON_ROW,
      .env = "MEGATRON_LM_EOD_MASK_LOSS", .metavar = "true|false",
      .help = "mask the loss of end-of-document tokens",
      .doc = "Exclude end-of-document tokens from the loss." },

    { .key = "megatron_lm_overlap_cpu_optimizer_d2h_h2d", OPT_PYTHON_BOOL (megatron_lm_overlap_cpu_optimizer_d2h_h2d),
      .dflt = "False", MEGATRON_ROW, .env = "MEGATRON_LM_OVERLAP_CPU_OPTIMIZER_D2H_H2D", .metavar = "true|false",
      .help = "overlap copies with the optimizer on the CPU",
      .doc = "Overlap copies to and from the host with the optimizer step on the CPU." },

    { .key = "megatron_lm_no_save_optim", OPT_PYTHON_BOOL (megatron_lm_no_save_optim), .dflt = "False", MEGATRON_ROW,
      .env = "MEGATRON_LM_NO_SAVE_OPTIM", .metavar = "true|false",
      .help = "do not save the optimizer state",
      .doc = "Do not save the optimizer state in checkpoints." },

    { .key = "megatron_lm_optimizer_cpu_offload", OPT_PYTHON_BOOL (megatron_lm_optimizer_cpu_offload), .dflt = "False",
      MEGATRON_ROW, .env = "MEGATRON_LM_OPTIMIZER_CPU_OFFLOAD", .metavar = "true|false",
      .help = "run the optimizer on the CPU",
      .doc = "Keep the optimizer state in host memory and run the optimizer on the CPU." },

    { .key = "megatron_lm_use_precision_aware_optimizer", OPT_PYTHON_BOOL (megatron_lm_use_precision_aware_optimizer),
      .dflt = "False", MEGATRON_ROW, .env = "MEGATRON_LM_USE_PRECISION_AWARE_OPTIMIZER", .metavar = "true|false",
      .help = "optimizer state in several precisions",
      .doc = "Use the optimizer that can keep its state in lower precision." },

    { .key = "megatron_lm_decoder_last_pipeline_num_layers",
      OPT_INT (megatron_lm_decoder_last_pipeline_num_layers, 0, 1000000), MEGATRON_ROW,
      .env = "MEGATRON_LM_DECODER_LAST_PIPELINE_NUM_LAYERS", .metavar = "N",
      .help = "layers in the last pipeline stage",
      .doc = "The number of decoder layers in the last pipeline stage." },

    { .key = "megatron_lm_pp_degree", OPT_INT (megatron_lm_pp_degree, 1, 1000000), .dflt = "1", MEGATRON_ROW,
      .env = "MEGATRON_LM_PP_DEGREE", .metavar = "N",
      .help = "pipeline parallelism degree",
      .doc = "Pipeline parallelism: the number of pipeline stages." },

    { .key = "megatron_lm_num_micro_batches", OPT_INT (megatron_lm_num_micro_batches, 1, 1000000), MEGATRON_ROW,
      .env = "MEGATRON_LM_NUM_MICRO_BATCHES", .metavar = "N",
      .help = "micro-batches per batch",
      .doc = "The number of micro-batches that each batch is split into for the pipeline." },

    { .key = "megatron_lm_sequence_parallelism", OPT_TRUTH (megatron_lm_sequence_parallelism), MEGATRON_ROW,
      .env = "MEGATRON_LM_SEQUENCE_PARALLELISM", .metavar = "true|false",
      .help = "sequence parallelism",
      .doc = "With tensor parallelism: also split along the sequence." },

    { .key = "megatron_lm_recompute_activations", OPT_TRUTH (megatron_lm_recompute_activations), MEGATRON_ROW,
      .env = "MEGATRON_LM_RECOMPUTE_ACTIVATIONS", .metavar = "true|false",
      .help = "recompute activations selectively",
      .doc = "Recompute the activations of attention in the backward pass." },

    { .key = "megatron_lm_use_distributed_optimizer", OPT_TRUTH (megatron_lm_use_distributed_optimizer), MEGATRON_ROW,
      .env = "MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER", .metavar = "true|false",
      .help = "shard the optimizer state",
      .doc = "Shard the optimizer state across data-parallel processes." },

    { .key = "megatron_lm_gradient_clipping", OPT_NUMBER (megatron_lm_gradient_clipping), .dflt = "1.0", MEGATRON_ROW,
      .env = "MEGATRON_LM_GRADIENT_CLIPPING", .decimals = true, .metavar = "X",
      .help = "maximum gradient norm (0: no clipping)",
      .doc = "The maximum gradient norm; larger gradients are scaled down to it. 0 means no clipping." },

    { .key = "megatron_lm_recompute_granularity", OPT_TEXT (megatron_lm_recompute_granularity), MEGATRON_ROW,
      .env = "MEGATRON_LM_RECOMPUTE_GRANULARITY", .words = WORDS ("full", "selective"), .metavar = "WORD",
      .help = "what to recompute",
      .doc = "What to recompute in the backward pass." },

    { .key = "megatron_lm_recompute_method", OPT_TEXT (megatron_lm_recompute_method), MEGATRON_ROW,
      .env = "MEGATRON_LM_RECOMPUTE_METHOD", .words = WORDS ("uniform", "block"), .metavar = "WORD",
      .help = "how to choose layers to recompute",
      .doc = "How to choose the layers to recompute." },

    { .key = "megatron_lm_recompute_num_layers", OPT_INT (megatron_lm_recompute_num_layers, 0, 1000000), MEGATRON_ROW,
      .env = "MEGATRON_LM_RECOMPUTE_NUM_LAYERS", .metavar = "N",
      .help = "number of layers to recompute",
      .doc = "The number of layers to recompute." },

    { .key = "megatron_lm_attention_backend", OPT_TRUTH (megatron_lm_attention_backend), MEGATRON_ROW,
      .env = "MEGATRON_LM_ATTENTION_BACKEND", .metavar = "true|false",
      .help = "enable the attention backend",
      .doc = "Enable Megatron-LM's attention backend. Hugging Face Accelerate reads a truth value here, not the name "
             "of a backend." },

    { .key = "megatron_lm_expert_model_parallel_size", OPT_INT (megatron_lm_expert_model_parallel_size, 1, 1000000),
      MEGATRON_ROW, .env = "MEGATRON_LM_EXPERT_MODEL_PARALLEL_SIZE", .metavar = "N",
      .help = "expert parallelism size",
      .doc = "Expert parallelism: the number of processes that the experts are distributed across." },

    { .key = "megatron_lm_context_parallel_size", OPT_INT (megatron_lm_context_parallel_size, 1, 1000000), MEGATRON_ROW,
      .env = "MEGATRON_LM_CONTEXT_PARALLEL_SIZE", .metavar = "N",
      .help = "context parallelism size",
      .doc = "Context parallelism: the number of processes that the context is split across." },

    { .key = "megatron_lm_attention_dropout", OPT_NUMBER (megatron_lm_attention_dropout), MEGATRON_ROW,
      .env = "MEGATRON_LM_ATTENTION_DROPOUT", .decimals = true, .metavar = "X",
      .help = "attention dropout",
      .doc = "The dropout probability in attention." },

    { .key = "megatron_lm_hidden_dropout", OPT_NUMBER (megatron_lm_hidden_dropout), MEGATRON_ROW,
      .env = "MEGATRON_LM_HIDDEN_DROPOUT", .decimals = true, .metavar = "X",
      .help = "hidden-layer dropout",
      .doc = "The dropout probability in hidden layers." },

    { .key = "megatron_lm_attention_softmax_in_fp32", OPT_TRUTH (megatron_lm_attention_softmax_in_fp32), MEGATRON_ROW,
      .env = "MEGATRON_LM_ATTENTION_SOFTMAX_IN_FP32", .metavar = "true|false",
      .help = "attention softmax in float32",
      .doc = "Compute the softmax of attention in float32." },

    { .key = "megatron_lm_expert_tensor_parallel_size", OPT_INT (megatron_lm_expert_tensor_parallel_size, 1, 1000000),
      MEGATRON_ROW, .env = "MEGATRON_LM_EXPERT_TENSOR_PARALLEL_SIZE", .metavar = "N",
      .help = "tensor parallelism size of experts",
      .doc = "The number of processes that each expert is split across." },

    { .key = "megatron_lm_calculate_per_token_loss", OPT_TRUTH (megatron_lm_calculate_per_token_loss), MEGATRON_ROW,
      .env = "MEGATRON_LM_CALCULATE_PER_TOKEN_LOSS", .metavar = "true|false",
      .help = "average the loss over tokens, not samples",
      .doc = "Divide the loss by the number of tokens instead of the number of samples." },

    { .key = "megatron_lm_use_rotary_position_embeddings", OPT_TRUTH (megatron_lm_use_rotary_position_embeddings),
      MEGATRON_ROW, .env = "MEGATRON_LM_USE_ROTARY_POSITION_EMBEDDINGS", .metavar = "true|false",
      .help = "rotary position embeddings",
      .doc = "Use rotary position embeddings." },
