/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: TPUs and AWS; options.c includes them. */

    { .key = "tpu_cluster", OPT_FLAG (tpu_cluster), .group = GROUP_TPU, .commands = COMMAND_LAUNCH,
      .help = "the TPU is a pod of several machines",
      .doc = "The TPU is a pod of several machines; start the program on each of them." },

    { .key = "no_tpu_cluster", OPT_FLAG (no_tpu_cluster), .group = GROUP_TPU, .commands = COMMAND_LAUNCH,
      .help = "the TPU is one machine",
      .doc = "The TPU is a single machine, even if the file says otherwise." },

    { .key = "tpu_use_cluster", OPT_FLAG (tpu_use_cluster), .group = GROUP_TPU,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .help = "the TPU is a pod",
      .doc = "The TPU is a pod of several machines, as with --tpu_cluster." },

    { .key = "tpu_use_sudo", OPT_FLAG (tpu_use_sudo), .group = GROUP_TPU, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE,
      .help = "run the command on the pod with sudo",
      .doc = "Run the command on the pod's machines with sudo." },

    { .key = "vm", OPT_LIST (vm), .group = GROUP_TPU, .commands = COMMAND_LAUNCH, .metavar = "NAME",
      .help = "virtual machine of the pod (repeatable)",
      .doc = "A virtual machine of the pod. Can be given several times." },

    { .key = "env", OPT_LIST (env), .group = GROUP_TPU, .commands = COMMAND_LAUNCH, .metavar = "NAME=VALUE",
      .help = "NAME=VALUE for the pod (repeatable)",
      .doc = "An environment variable for the pod's machines, NAME=VALUE. Can be given several times." },

    { .key = "main_training_function", OPT_TEXT (main_training_function), .group = GROUP_TPU,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "NAME",
      .help = "function that each TPU process runs",
      .doc = "The function of the program that each TPU process runs." },

    { .key = "downcast_bf16", OPT_FLAG (downcast_bf16), .group = GROUP_TPU, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE,
      .help = "TPU: convert float and double to bfloat16",
      .doc = "With bf16 on a TPU: convert double to float32 and float to bfloat16, instead of both to bfloat16." },

    { .key = "tpu_name", OPT_TEXT (tpu_name), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .properties = PROPERTY_FILE, .metavar = "NAME",
      .help = "TPU name",
      .doc = "The name of the TPU." },

    { .key = "tpu_zone", OPT_TEXT (tpu_zone), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .properties = PROPERTY_FILE, .metavar = "NAME",
      .help = "TPU zone",
      .doc = "The Google Cloud zone of the TPU." },

    { .key = "command_file", OPT_PATH (command_file), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .properties = PROPERTY_FILE, .metavar = "FILE",
      .help = "file of startup commands for the pod, one per line",
      .doc = "A file of commands to run on each of the pod's machines, one per line. Empty lines and lines that begin "
             "with # are left out. The file takes the place of single commands." },

    { .key = "commands", OPT_LIST (commands), .group = GROUP_TPU, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "LIST",
      .help = "startup commands for the pod",
      .doc = "Commands to run on the pod's machines when they start." },

    { .key = "tpu_vm", OPT_LIST (tpu_vm), .group = GROUP_TPU, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "LIST",
      .help = "virtual machines of the pod",
      .doc = "The virtual machines of the pod." },

    { .key = "tpu_env", OPT_LIST (tpu_env), .group = GROUP_TPU, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "LIST",
      .help = "variables for the pod",
      .doc = "Environment variables for the pod's machines, NAME=VALUE." },

    { .key = "command", OPT_LIST (command), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .properties = PROPERTY_WORDS, .metavar = "WORD...",
      .help = "command to run on the pod (repeatable)",
      .doc = "Commands to run on each of the pod's machines: every word up to the next option is one command, so quote "
             "commands with blanks. Can be given several times." },

    { .key = "use_alpha", OPT_FLAG (use_alpha), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .help = "run gcloud alpha instead of gcloud",
      .doc = "Run gcloud alpha instead of gcloud." },

    { .key = "install_accelerate", OPT_FLAG (install_accelerate), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .help = "first install Hugging Face Accelerate on the pod",
      .doc = "Before the commands, install Hugging Face Accelerate, the Python package, on each of the pod's machines "
             "with pip." },

    { .key = "accelerate_version", OPT_TEXT (accelerate_version), .dflt = "latest", .group = GROUP_TPU,
      .commands = COMMAND_TPU_CONFIG, .metavar = "VERSION",
      .help = "version to install: latest, dev or a number",
      .doc = "The version that --install_accelerate installs: the newest release (latest), the newest commit (dev), or "
             "a version number." },

    { .key = "debug", OPT_FLAG (print_command), .group = GROUP_TPU, .commands = COMMAND_TPU_CONFIG,
      .help = "print the gcloud command, but do not run it",
      .doc = "Print the gcloud command, but do not run it." },

    { .key = "aws_access_key_id", OPT_TEXT (aws_access_key_id), .group = GROUP_AWS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_SECRET, .metavar = "KEY",
      .help = "AWS access key, for SageMaker",
      .doc = "The AWS access key, for SageMaker." },

    { .key = "aws_secret_access_key", OPT_TEXT (aws_secret_access_key), .group = GROUP_AWS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_SECRET, .metavar = "KEY",
      .help = "AWS secret key, for SageMaker",
      .doc = "The AWS secret key, for SageMaker. Other users can see it in the process list, so prefer a profile." },
