/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: several machines, the rendezvous of torchrun, mpirun; options.c includes them. */

    { .key = "same_network", OPT_FLAG (same_network), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE,
      .help = "all machines are on one local network",
      .doc = "All machines of the job are on one local network. Ranks meet at main_process_ip in either case." },

    { .key = "tee", OPT_TEXT (tee), .dflt = "0", .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .letter = 't', .metavar = "SPEC",
      .help = "copy ranks' output to files: 0 to 3, or RANK:N pairs",
      .doc = "Which output of which ranks goes to files as well as to the terminal, where each line then begins with "
             "the role and the local rank, as [default0]: does: 0 none, 1 standard output, 2 standard error, 3 both; "
             "or RANK:NUMBER for some local ranks, with commas between them. Without --log_dir the files are in a new "
             "folder accelerate_XXXXXX of TMPDIR, or /tmp. See FILES." },

    { .key = "log_dir", OPT_PATH (log_dir), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .metavar = "FOLDER",
      .help = "directory for the ranks' output",
      .doc = "The folder for files of the ranks' output, see --tee, and for the error files that torch's @record "
             "writes. Made where it is missing. With /dev/null there are names before lines and no files." },

    { .key = "role", OPT_TEXT (role), .dflt = "default", .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .metavar = "NAME",
      .help = "name for ROLE_NAME and line prefixes",
      .doc = "The name of the job's processes: the variable ROLE_NAME, and the prefix of lines with --tee." },

    { .key = "rdzv_backend", OPT_TEXT (rdzv_backend), .dflt = "static", .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "WORD",
      .help = "torchrun's rendezvous backend; has no effect here",
      .doc = "The rendezvous backend of the original. Here ranks always meet at main_process_ip and "
             "main_process_port, whatever it says." },

    { .key = "rdzv_conf", OPT_TEXT (rdzv_conf), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .metavar = "LIST",
      .help = "comma-separated KEY=VALUE rendezvous settings",
      .doc = "Settings of the rendezvous backend, KEY=VALUE with commas between them. Checked for their form only." },

    { .key = "max_restarts", OPT_INT (max_restarts, 0, 1000000), .dflt = "0", .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH, .metavar = "N",
      .help = "maximum number of restarts",
      .doc = "How often all ranks of the machine are started again after one has failed." },

    { .key = "monitor_interval", OPT_NUMBER (monitor_interval), .dflt = "0.1", .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH, .decimals = true, .metavar = "SECONDS",
      .help = "seconds between checks; has no effect here",
      .doc = "Seconds between two looks at the ranks in the original. Here nobody has to look: the end of a rank is "
             "noticed when it happens." },

    { .key = "mpirun_hostfile", OPT_PATH (mpirun_hostfile), .section = "mpirun_config", .group = GROUP_MPIRUN,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "FILE",
      .help = "start ranks with mpirun on the hosts in this file",
      .doc = "Start the ranks with mpirun, or mpiexec, on the hosts that this file lists. For training on CPUs." },
