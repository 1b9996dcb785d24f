/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands, one row each: COMMAND (NAME, function, "name", members of struct command_info...).  NAME
 * gives the bit COMMAND_NAME of rows of the option table, and cmd_function is in src/cli/cmd_function.c.  Help, manual
 * and completion list the commands in this order.  After a change: `make regen`. */

    COMMAND (CHECKPOINT, checkpoint, "checkpoint", .arguments = "[JOB]",
             .summary = "ask a running job for a checkpoint",
             .text = "JOB is the beginning of a job's id, or the process id of its launcher; it may be left out if "
                     "there is only one job. Waits until all ranks have saved.")

    COMMAND (COMPLETION, completion, "completion", .arguments = "bash|zsh|fish", .words = "bash zsh fish",
             .summary = "print the completion script for a shell",
             .text = "bash: source <(accelerate completion bash), for example in ~/.bashrc; zsh: the same, after "
                     "compinit; fish: accelerate completion fish | source")

    COMMAND (CONFIG, config, "config",
             .arguments = "[default|update|show|schema|lint FILE...|get KEY|set KEY VALUE...]",
             .words = "default update show schema lint get set",
             .summary = "answer questions and write the configuration file",
             .text = "Every option answers a question, and implies what belongs to it: --num_processes 4 "
                     "means several processes, --zero_stage 3 means DeepSpeed. --OPTION=no answers no.\n\n"
                     "default       write a file for this machine without asking, unless there is one\n"
                     "update        rewrite the file: old keys renamed, missing keys added\n"
                     "show          print the settings in effect and where each comes from\n"
                     "schema        print a JSON schema of the file, for editors\n"
                     "lint FILE...  report errors and settings without effect; exit status 1 if any\n"
                     "get KEY       print the value of a key\n"
                     "set KEY VALUE change a key in the file; comments are kept")

    COMMAND (ENV, env, "env", .summary = "show details of this installation and this machine",
             .text = "Paste this into bug reports.")

    COMMAND (ESTIMATE_MEMORY, estimate_memory, "estimate-memory", .arguments = "MODEL", .words = "@files",
             .summary = "estimate the memory that a model needs",
             .text = "MODEL is the name of a model on the Hugging Face hub, or a local folder or file. Only "
                     "the headers of its safetensors or GGUF files are read.")

    COMMAND (INSPECT, inspect, "inspect", .arguments = "FILE|FOLDER | --diff A B", .words = "@files",
             .summary = "show the tensors of a checkpoint, or compare two",
             .text = "Reads safetensors files, sharded sets with an index, and distributed checkpoints "
                     "of PyTorch (FSDP), without PyTorch.")

    COMMAND (KILL, kill, "kill", .arguments = "JOB",
             .summary = "end a running job, or send it a signal",
             .text = "JOB is the beginning of an id that accelerate ps shows, or its launcher's process.")

    COMMAND (LAUNCH, launch, "launch", .arguments = "PROGRAM [arguments]",
             .summary = "start a program as several processes",
             .text = "Everything after PROGRAM is passed to it, options included.")

    COMMAND (MERGE_WEIGHTS, merge_weights, "merge-weights", .arguments = "CHECKPOINT_DIR OUTPUT_DIR",
             .words = "@files",
             .summary = "join a sharded checkpoint into one safetensors file",
             .text = "Reads a distributed checkpoint of PyTorch (FSDP, SHARDED_STATE_DICT) or a sharded set "
                     "of safetensors files, and writes OUTPUT_DIR/model.safetensors. Needs no PyTorch.")

    COMMAND (PS, ps, "ps", .summary = "list the running jobs of this user on this machine")
    COMMAND (REPORT, report, "report", .arguments = "RUN...", .words = "@files",
             .summary = "make a page of HTML of a run, or of several side by side",
             .text = "RUN is the folder of a run with metrics.jsonl of tracker jsonl, or such a file. A profile and "
                     "the failure report of its launch are taken from the folder, or named after it.")
    COMMAND (STACKS, stacks, "stacks", .arguments = "[JOB]", .summary = "show where the ranks of a running job are",
             .text = "JOB is the beginning of a job's id, or the launcher's process; it can be left out if only one "
                     "job is running. Equal stacks are shown once. The job continues.")

    COMMAND (TEST, test, "test", .summary = "test libaccel on this machine, or check several hosts",
             .text = "Runs every collective and a training loop on all processes, and compares the results "
                     "with those of one process. With --hosts: checks whether a job can run there, and how "
                     "fast the network is.")

    COMMAND (TO_FSDP2, to_fsdp2, "to-fsdp2", .summary = "convert a configuration file from FSDP 1 to FSDP 2")

    COMMAND (TOP, top, "top", .arguments = "[JOB]",
             .summary = "watch running jobs",
             .text = "Shows what each rank does, its pace, who waits for whom, and the values that the program has "
                     "logged. JOB is the beginning of an id that accelerate ps shows, or its launcher's process; "
                     "without it, all jobs of this user on this machine are shown. Press h for the keys.")

    COMMAND (TPU_CONFIG, tpu_config, "tpu-config", .summary = "run startup commands on all machines of a TPU pod",
             .text = "Before the first launch on a pod, with gcloud over ssh. The commands come from the options "
                     "or from the configuration file.")
