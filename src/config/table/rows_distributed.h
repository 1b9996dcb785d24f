/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: several machines, the rendezvous of torchrun, mpirun; options.c includes them. */

    { .key = "same_network", OPT_FLAG (same_network), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_FILE,
      .help = "all machines are on one local network",
      .doc = "Whether all machines of the job are on one local network. Ranks meet at main_process_ip in either "
             "case." },

    { .key = "tee", OPT_TEXT (tee), .dflt = "0", .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .letter = 't', .metavar = "SPEC",
      .help = "copy ranks' output to files: 0 to 3, or RANK:N pairs",
      .doc = "Copy output of the ranks to files: 0 none, 1 standard output, 2 standard error, 3 both. RANK:NUMBER "
             "pairs, separated by commas, select single local ranks. Each line on the terminal then begins with a "
             "prefix such as [default0]: that names the role and the local rank. Without --log_dir, the files are in a "
             "new directory accelerate_XXXXXX in TMPDIR or /tmp. See FILES." },

    { .key = "log_dir", OPT_PATH (log_dir), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .metavar = "FOLDER",
      .help = "directory for the ranks' output",
      .doc = "The directory for the ranks' output (see --tee) and for the error files that torch's @record writes. It "
             "is created if it does not exist. With /dev/null, lines get prefixes, but no files are written." },

    { .key = "role", OPT_TEXT (role), .dflt = "default", .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .metavar = "NAME",
      .help = "name for ROLE_NAME and line prefixes",
      .doc = "The name of the job's processes: the value of ROLE_NAME, and the line prefix with --tee." },

    { .key = "rdzv_backend", OPT_TEXT (rdzv_backend), .dflt = "static", .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "WORD",
      .help = "torchrun's rendezvous backend; has no effect here",
      .doc = "The rendezvous backend of Hugging Face Accelerate. It has no effect here: ranks always meet at "
             "main_process_ip and main_process_port." },

    { .key = "rdzv_conf", OPT_TEXT (rdzv_conf), .group = GROUP_DISTRIBUTED, .commands = COMMAND_LAUNCH,
      .metavar = "LIST",
      .help = "comma-separated KEY=VALUE rendezvous settings",
      .doc = "Settings of the rendezvous backend: KEY=VALUE pairs, separated by commas. Only their syntax is "
             "checked." },

    { .key = "max_restarts", OPT_INT (max_restarts, 0, 1000000), .dflt = "0", .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH, .metavar = "N",
      .help = "maximum number of restarts",
      .doc = "How many times all ranks are restarted after one has failed, or has been asked to stop (see STOPPING). "
             "With --hosts, those of all hosts, without a host that is lost; if they are processes of Open MPI, the "
             "mpirun of the next start already waits while they run (see accelerate-hosts(7))." },

    { .key = "monitor_interval", OPT_NUMBER (monitor_interval), .dflt = "0.1", .group = GROUP_DISTRIBUTED,
      .commands = COMMAND_LAUNCH, .decimals = true, .metavar = "SECONDS",
      .help = "seconds between checks; has no effect here",
      .doc = "Seconds between checks of the ranks in Hugging Face Accelerate. It has no effect here: the end of a rank "
             "is noticed immediately." },

    { .key = "mpirun_hostfile", OPT_PATH (mpirun_hostfile), .section = "mpirun_config", .group = GROUP_MPIRUN,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE, .metavar = "FILE",
      .help = "start ranks with mpirun on the hosts in this file",
      .doc = "Start the ranks with mpirun, or mpiexec, on the hosts listed in this file. Only for training on CPUs." },
