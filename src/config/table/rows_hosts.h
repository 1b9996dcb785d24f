/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: one launch on several hosts; options.c includes them. */
#define HOSTS_ROW .section = "mpirun_config", .group = GROUP_HOSTS, .commands = COMMAND_LAUNCH | COMMAND_TEST, \
    .properties = PROPERTY_FILE | PROPERTY_EXTENSION

    { .key = "hosts", OPT_TEXT (hosts), HOSTS_ROW, .metavar = "LIST",
      .help = "start the job on these hosts: a,b:4,node[01-16]:8",
      .doc = "Start the job on these hosts, from here: comma-separated names, each with the number of its processes "
             "after a colon. node[01-16] names 16 hosts; ssh://user@host:2222 also gives the user and the port of SSH. "
             "With auto, the hosts of the allocation of Slurm, PBS or LSF "
             "in which the command runs. Without --hosts and --hostfile, such an allocation is used if it has several "
             "hosts and neither num_machines nor machine_rank is set. See accelerate-hosts(7)." },

    { .key = "hostfile", OPT_PATH (hostfile), HOSTS_ROW, .metavar = "FILE",
      .help = "start the job on the hosts listed in this file",
      .doc = "Start the job on the hosts in this file, one per line, in the syntax of Open MPI (host slots=4) or MPICH "
             "(host:4). Text after # is a comment." },

    { .key = "starter", OPT_TEXT (starter), .dflt = "auto", .choices = WORDS ("auto", "ssh", "srun", "mpirun"),
      HOSTS_ROW, .metavar = "WORD",
      .help = "what starts the agents on the hosts",
      .doc = "What starts the agents on the hosts: ssh (OpenSSH, with your own configuration) or srun (a step of the "
             "Slurm allocation on each host). mpirun means ssh, and --mpi yes. auto means srun in an allocation of "
             "Slurm that has all the hosts, and otherwise ssh." },

    { .key = "mpi", OPT_TEXT (mpi), .dflt = "auto", .choices = WORDS ("auto", "yes", "no"), HOSTS_ROW,
      .metavar = "WORD",
      .help = "whether the ranks are processes of MPI",
      .doc = "Whether the ranks are processes of MPI, which libaccel needs on several hosts. The launcher then also "
             "starts mpirun (with srun as the starter: srun --mpi=pmix, or the SLURM_MPI_TYPE of the environment), "
             "which gives each rank the variables with which MPI_Init() finds the others. auto means yes if there are "
             "several hosts, and --cpu_backend is accel or the file of the program names libaccel or a library of "
             "MPI." },

    { .key = "interface", OPT_TEXT (interface), HOSTS_ROW, .metavar = "NAME",
      .help = "network interface of the first host for MASTER_ADDR",
      .doc = "The network interface of the first host whose address becomes MASTER_ADDR. By default, every address of "
             "that host is tried from all others, and the first one that they all reach is used. --main_process_ip "
             "gives the address itself." },

    { .key = "host_timeout", OPT_INT (host_timeout, 1, 86400), .dflt = "30", HOSTS_ROW, .metavar = "SECONDS",
      .help = "seconds without a sign of life that end the job",
      .doc = "After this number of seconds without a sign of life, a host counts as lost, and the job ends on all "
             "others. A host that has lost the launcher ends its own ranks. A connection may take as long, but at "
             "least 30 seconds. On one host, too, the job ends if the process that supervises the ranks is stopped "
             "(SIGSTOP) for so long." },

    { .key = "job_key_file", OPT_PATH (job_key_file), .section = "mpirun_config", .group = GROUP_HOSTS,
      .commands = COMMAND_LAUNCH, .properties = PROPERTY_FILE | PROPERTY_EXTENSION, .metavar = "FILE",
      .help = "secret that the launchers of a job share",
      .doc = "A file with the secret by which launchers that you start by hand, one on each machine, know each other: "
             "16 bytes or more, the same on all machines, not accessible to other users. The default is job_key beside "
             "the default configuration file; the main machine creates it. See accelerate-hosts(7)." },
