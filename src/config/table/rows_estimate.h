/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: estimate-memory; options.c includes them. */

    { .key = "library_name", OPT_TEXT (library_name), .choices = WORDS ("timm", "transformers"),
      .group = GROUP_GENERAL, .commands = COMMAND_ESTIMATE_MEMORY, .metavar = "WORD",
      .help = "library of the model, if the hub does not know it",
      .doc = "The library that the model belongs to, if that is not stored on the hub." },

    { .key = "dtypes", OPT_LIST (dtypes), .words = WORDS ("float32", "float16", "int8", "int4"),
      .group = GROUP_GENERAL, .commands = COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_WORDS, .metavar = "WORD...",
      .help = "types to estimate for, all if not given",
      .doc = "The types to estimate for: one or more of float32, float16, int8 and int4, all if not given. The words "
             "end at the next option, so MODEL must come before them." },

    { .key = "trust_remote_code", OPT_FLAG (trust_remote_code), .group = GROUP_GENERAL,
      .commands = COMMAND_ESTIMATE_MEMORY,
      .help = "accept models with code of their own",
      .doc = "Accept a model that comes with code of its own. The code is neither run nor fetched: the tensors of its "
             "files are counted." },

    { .key = "context_length", OPT_INT (context_length, 1, 1000000000), .group = GROUP_GENERAL,
      .commands = COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_EXTENSION, .metavar = "TOKENS",
      .help = "also estimate inference with so many tokens",
      .doc = "Also estimate inference with this many tokens: the weights, and the keys and values of the context." },

    { .key = "batch_size", OPT_INT (batch_size, 1, 1000000), .dflt = "1", .group = GROUP_GENERAL,
      .commands = COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_EXTENSION, .metavar = "N",
      .help = "sequences at a time, for --context_length",
      .doc = "The number of sequences at a time, for --context_length." },

    { .key = "training", OPT_FLAG (training), .group = GROUP_GENERAL, .commands = COMMAND_ESTIMATE_MEMORY,
      .properties = PROPERTY_EXTENSION,
      .help = "also estimate training with each optimizer",
      .doc = "Also estimate training with each optimizer and precision: weights, gradients and the states of the "
             "optimizer, of each process. Activations are not included. --zero_stage and --num_processes divide "
             "them, and imply this option unless --sharding is given." },

    { .key = "sharding", OPT_FLAG (sharding), .group = GROUP_GENERAL, .commands = COMMAND_ESTIMATE_MEMORY,
      .properties = PROPERTY_EXTENSION,
      .help = "also estimate training by native programs, per ZeRO stage",
      .doc = "Also estimate training by native programs, with AdamW and --mixed_precision, in each stage of ZeRO as "
             "accel_sharding(3) divides the model: by 1, 2, 4 and so on processes, and by --num_processes." },

    { .key = "float32_gradients", OPT_FLAG (float32_gradients), .group = GROUP_GENERAL,
      .commands = COMMAND_ESTIMATE_MEMORY, .properties = PROPERTY_EXTENSION,
      .help = "with --sharding, 16-bit parameters have float32 gradients",
      .doc = "With --sharding, 16-bit parameters have float32 gradients, as in examples/gpt, and not 16-bit ones. The "
             "program decides by the types of the tensors that it passes to accel_model_create()." },
