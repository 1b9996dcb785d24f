/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: 8-bit floats; options.c includes them. */
#define FP8_ROW .section = "fp8_config", .group = GROUP_FP8, .commands = COMMAND_LAUNCH, \
    .properties = PROPERTY_FILE, .paths = S | M | T | D | SM, .when = when_fp8

    { .key = "fp8_backend", OPT_TEXT (fp8_backend), .choices = WORDS ("ao", "te", "msamp"), FP8_ROW,
      .env = "ACCELERATE_FP8_BACKEND", .spelling = SPELL_UPPER, .metavar = "WORD",
      .help = "FP8 library",
      .doc = "The library that computes in FP8: torchao (ao), TransformerEngine (te) or MS-AMP (msamp)." },

    { .key = "fp8_use_autocast_during_eval", OPT_FLAG (fp8_use_autocast_during_eval), FP8_ROW,
      .env = "ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL",
      .help = "te: use FP8 in evaluation too",
      .doc = "TransformerEngine: use FP8 in evaluation too." },

    { .key = "fp8_margin", OPT_INT (fp8_margin, 0, 1000000), .dflt = "0", FP8_ROW, .env = "ACCELERATE_FP8_MARGIN",
      .metavar = "N",
      .help = "te: margin of the scaling factor",
      .doc = "TransformerEngine: the margin of the scaling factor." },

    { .key = "fp8_interval", OPT_INT (fp8_interval, 1, 1000000), .dflt = "1", FP8_ROW, .env = "ACCELERATE_FP8_INTERVAL",
      .metavar = "N",
      .help = "te: steps between scaling factor updates",
      .doc = "TransformerEngine: the number of steps between updates of the scaling factor." },

    { .key = "fp8_format", OPT_TEXT (fp8_format), .dflt = "HYBRID", .choices = WORDS ("HYBRID", "E4M3", "E5M2"),
      FP8_ROW, .env = "ACCELERATE_FP8_FORMAT", .metavar = "WORD",
      .help = "te: number format",
      .doc = "TransformerEngine: the number format. HYBRID uses E4M3 in the forward pass and E5M2 in the backward "
             "pass." },

    { .key = "fp8_amax_history_len", OPT_INT (fp8_amax_history_len, 1, 100000000), .dflt = "1024", FP8_ROW,
      .env = "ACCELERATE_FP8_AMAX_HISTORY_LEN", .metavar = "N",
      .help = "te: length of the amax history, in steps",
      .doc = "TransformerEngine: the number of steps in the history from which the scaling factor is computed." },

    { .key = "fp8_amax_compute_algo", OPT_TEXT (fp8_amax_compute_algo), .dflt = "most_recent",
      .choices = WORDS ("max", "most_recent"), FP8_ROW, .env = "ACCELERATE_FP8_AMAX_COMPUTE_ALGO", .metavar = "WORD",
      .help = "te: how to compute amax from its history",
      .doc = "TransformerEngine: whether amax is the maximum of the history or its most recent value." },

    { .key = "fp8_override_linear_precision", OPT_TRIPLE (fp8_override_linear_precision), .dflt = "False,False,False",
      FP8_ROW, .env = "ACCELERATE_FP8_OVERRIDE_FPROP,ACCELERATE_FP8_OVERRIDE_DGRAD,ACCELERATE_FP8_OVERRIDE_WGRAD",
      .metavar = "A,B,C",
      .help = "te: fprop, dgrad, wgrad in higher precision",
      .doc = "TransformerEngine: whether to compute the forward pass (fprop), data gradients (dgrad) and weight "
             "gradients (wgrad) in higher precision: three truth values, separated by commas." },

    { .key = "fp8_opt_level", OPT_TEXT (fp8_opt_level), .dflt = "O2", .choices = WORDS ("O1", "O2"), FP8_ROW,
      .env = "ACCELERATE_FP8_OPT_LEVEL", .metavar = "WORD",
      .help = "msamp: optimization level",
      .doc = "MS-AMP: the optimization level. O1 uses FP8 for weight gradients, O2 also for the optimizer state." },

    { .key = "fp8_enable_fsdp_float8_all_gather", OPT_SWITCH (fp8_enable_fsdp_float8_all_gather), .dflt = "true",
      FP8_ROW, .env = "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER", .metavar = "true|false",
      .help = "ao: gather FSDP2 parameters in FP8",
      .doc = "torchao: gather parameters in FP8 with FSDP2." },

    { .key = "fp8_pad_inner_dim", OPT_SWITCH (fp8_pad_inner_dim), .dflt = "true", FP8_ROW,
      .env = "ACCELERATE_FP8_PAD_INNER_DIM", .metavar = "true|false",
      .help = "ao: pad matrices to multiples of 16",
      .doc = "torchao: pad the inner dimensions of matrices to multiples of 16." },

    { .key = "fp8_use_mxfp8_block_scaling", OPT_PYTHON_BOOL (fp8_use_mxfp8_block_scaling), .section = "fp8_config",
      .group = GROUP_FP8, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .env = "ACCELERATE_FP8_USE_MXFP8_BLOCK_SCALING", .paths = S | M | T | D | SM, .when = when_fp8,
      .metavar = "true|false",
      .help = "te: block scaling (MXFP8)",
      .doc = "TransformerEngine: use block scaling (MXFP8)." },
