/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: merge-weights and inspect; options.c includes them. */

    { .key = "unsafe_serialization", OPT_FLAG (unsafe_serialization), .group = GROUP_GENERAL,
      .commands = COMMAND_MERGE_WEIGHTS,
      .help = "refused: pickled files are not written",
      .doc = "Refused, with an explanation: Accelerate writes a pickled pytorch_model.bin with this option, a format "
             "that can execute code when it is loaded." },

    { .key = "remove_checkpoint_dir", OPT_FLAG (remove_checkpoint_dir), .group = GROUP_GENERAL,
      .commands = COMMAND_MERGE_WEIGHTS,
      .help = "remove the checkpoint folder afterwards",
      .doc = "Remove the checkpoint folder with all that is in it, after the merged file is complete and synced to "
             "disk. Refused if the output would be in that folder." },

    { .key = "diff", OPT_FLAG (diff), .group = GROUP_GENERAL, .commands = COMMAND_INSPECT,
      .help = "compare two checkpoints",
      .doc = "Compare two checkpoints, tensor by tensor: which tensors are in one only, which have another shape or "
             "type, and how many elements differ, by how much at most. The exit status is 1 if there is a "
             "difference." },

    { .key = "norms", OPT_FLAG (norms), .group = GROUP_GENERAL, .commands = COMMAND_INSPECT,
      .help = "also norm, minimum and maximum of each tensor",
      .doc = "Also read the elements, and show the Euclidean norm, the minimum and the maximum of each tensor, and "
             "how many elements are infinite or not a number." },

    { .key = "verify", OPT_FLAG (verify), .group = GROUP_GENERAL, .commands = COMMAND_INSPECT,
      .help = "compare all bytes with the checksums",
      .doc = "Read everything and compare it with the checksums: those of manifest.json, or of a distributed "
             "checkpoint those of its archives. The exit status is 1 if the files are damaged." },

    { .key = "follow_links", OPT_FLAG (follow_links), .group = GROUP_GENERAL,
      .commands = COMMAND_MERGE_WEIGHTS | COMMAND_INSPECT | COMMAND_ESTIMATE_MEMORY,
      .properties = PROPERTY_EXTENSION,
      .help = "accept shards that are symbolic links",
      .doc = "Accept files of a sharded set that are symbolic links, which can lead out of the folder. Hugging Face's "
             "cache consists of such links." },
