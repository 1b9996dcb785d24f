/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of other launchers; see external_launcher.h. */
#include <config.h>

#include "launch/plan/external_launcher.h"

#include "config/conditions.h"
#include "config/mode.h"
#include "util/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
external_launcher_is_wanted (enum option_path path, const struct settings *settings)
{
    switch (path) {
    case PATH_MPIRUN:
    case PATH_TPU:
    case PATH_TPU_POD: return true;
    case PATH_DEEPSPEED: return mode_is_deepspeed_launcher (settings);
    default: return false;
    }
}

/* Open MPI spells its options in its own way; Intel MPI and MVAPICH agree. */
static int
add_mpirun (struct strlist *argv, const struct settings *settings, const struct topology *topology,
            const struct program *program, struct fail *fail)
{
    int64_t machines = settings->num_machines, per_machine = settings->num_processes / machines;
    if (!*topology->mpi_program)
        return fail_set (fail, FAIL_GENERAL, "--mpirun_hostfile needs mpirun or mpiexec, but neither is in PATH");
    strlist_add (argv, topology->mpi_program);
    strlist_add (argv, topology->mpi_is_open ? "--hostfile" : "-f");
    strlist_add (argv, settings->mpirun_hostfile);
    strlist_add (argv, topology->mpi_is_open ? "--npernode" : "-ppn");
    strlist_printf (argv, "%lld", (long long) (per_machine > 0 ? per_machine : 1));
    if (settings->num_processes > 0) {
        strlist_add (argv, "-n");
        strlist_printf (argv, "%lld", (long long) settings->num_processes);
    }
    if (topology->mpi_is_open) {
        strlist_add (argv, "--bind-to");
        strlist_add (argv, settings->mpirun_bind_to);
    }
    for (size_t i = 0; i < program->argv.count; i++)
        strlist_add (argv, program->argv.items[i]);
    return 0;
}

static void
add_pair (struct strlist *argv, const char *option, const char *value)
{
    if (!value)
        return;
    strlist_add (argv, option);
    strlist_add (argv, value);
}

static void
add_number (struct strlist *argv, const char *option, int64_t value)
{
    strlist_add (argv, option);
    strlist_printf (argv, "%lld", (long long) value);
}

static int
add_deepspeed (struct strlist *argv, const struct config *config, const struct topology *topology)
{
    const struct settings *settings = &config->settings;
    const char *launcher
        = settings->deepspeed_multinode_launcher ? settings->deepspeed_multinode_launcher : "pdsh";
    strlist_add (argv, *topology->deepspeed_program ? topology->deepspeed_program : "deepspeed");
    add_pair (argv, "--hostfile", settings->deepspeed_hostfile);
    if (!strcmp (launcher, "nossh")) {
        add_number (argv, "--node_rank", settings->machine_rank);
        strlist_add (argv, "--no_ssh");
    } else {
        strlist_add (argv, "--no_local_rank");
        add_pair (argv, "--launcher", launcher);
    }
    if (settings->deepspeed_exclusion_filter)
        add_pair (argv, "--exclude", settings->deepspeed_exclusion_filter);
    else if (settings->deepspeed_inclusion_filter)
        add_pair (argv, "--include", settings->deepspeed_inclusion_filter);
    else {
        add_number (argv, "--num_gpus", settings->num_processes / settings->num_machines);
    }
    add_pair (argv, "--master_addr", settings->main_process_ip);
    add_number (argv, "--master_port", settings->main_process_port ? settings->main_process_port : 29500);
    if (settings->module || settings->no_python)
        strlist_add (argv, settings->module ? "--module" : "--no_python");
    strlist_add (argv, config->program);
    return 0;
}

/* torch_xla starts the processes of a TPU from within one: import the program, then spawn its function.  The program's
 * name and arguments come as arguments, never as a part of this text. */
static const char tpu_starter[]
    = "import importlib, os, sys\n"
      "import torch_xla.distributed.xla_multiprocessing as xmp\n"
      "module, function, processes, script = sys.argv[1:5]\n"
      "sys.argv = sys.argv[4:]\n"
      "if module == '0':\n"
      "    sys.path.append(os.path.dirname(os.path.abspath(script)))\n"
      "    script = os.path.splitext(os.path.basename(script))[0]\n"
      "target = getattr(importlib.import_module(script), function)\n"
      "xmp.spawn(lambda index: target(), args=(), nprocs=int(processes) or None)\n";

static int
add_tpu (struct strlist *argv, const struct config *config, const struct program *program, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    size_t length = strlen (config->program);
    if (!program->python || (!settings->module && (length < 4 || strcmp (config->program + length - 3, ".py"))))
        return fail_set (fail, FAIL_USAGE, "torch_xla imports the program of a TPU: give a file NAME.py, or --module "
                         "NAME");
    strlist_add (argv, program->argv.items[0]);
    strlist_add (argv, "-c");
    strlist_add (argv, tpu_starter);
    strlist_add (argv, settings->module ? "1" : "0");
    strlist_add (argv, settings->main_training_function ? settings->main_training_function : "main");
    strlist_printf (argv, "%lld", (long long) settings->num_processes);
    strlist_add (argv, config->program);
    return 0;
}

static int
add_pod (struct strlist *argv, const struct config *config, const struct program *program, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    if (!settings->tpu_name)
        return fail_set (fail, FAIL_USAGE, "a TPU pod needs tpu_name in the configuration file");
    strlist_add (argv, program->argv.items[0]);
    strlist_add (argv, "-m");
    strlist_add (argv, "torch_xla.distributed.xla_dist");
    add_pair (argv, "--tpu", settings->tpu_name);
    for (size_t i = 0; i < settings->vm.count + settings->tpu_vm.count; i++)
        add_pair (argv, "--vm", i < settings->vm.count ? settings->vm.items[i]
                                                       : settings->tpu_vm.items[i - settings->vm.count]);
    for (size_t i = 0; i < settings->env.count + settings->tpu_env.count; i++)
        add_pair (argv, "--env", i < settings->env.count ? settings->env.items[i]
                                                         : settings->tpu_env.items[i - settings->env.count]);
    if (settings->debug)
        add_pair (argv, "--env", "ACCELERATE_DEBUG_MODE=true");
    if (when_bf16 (settings) || when_downcast_bf16 (settings))
        add_pair (argv, "--env", when_bf16 (settings) ? "XLA_USE_BF16=1" : "XLA_DOWNCAST_BF16=1");
    add_pair (argv, "--env", "ACCELERATE_IN_TPU_POD=1");
    strlist_add (argv, "--restart-tpuvm-pod-server");
    strlist_add (argv, "--");
    if (settings->tpu_use_sudo)
        strlist_add (argv, "sudo");
    static const char *const fixed[]
        = { "accelerate-launch", "--tpu", "--no_tpu_cluster", "--num_machines", "1", "--mixed_precision", "no",
            "--dynamo_backend", "no", "--num_processes", NULL };
    strlist_add_all (argv, fixed);
    strlist_printf (argv, "%lld", (long long) settings->num_processes);
    add_pair (argv, "--main_training_function",
              settings->main_training_function ? settings->main_training_function : "main");
    strlist_add (argv, config->program);
    return 0;
}

int
external_launcher_add_argv (struct strlist *argv, enum option_path path, const struct config *config,
                            const struct topology *topology, const struct program *program, struct fail *fail)
{
    switch (path) {
    case PATH_MPIRUN: return add_mpirun (argv, &config->settings, topology, program, fail);
    case PATH_DEEPSPEED: return add_deepspeed (argv, config, topology);
    case PATH_TPU: return add_tpu (argv, config, program, fail);
    default: return add_pod (argv, config, program, fail);
    }
}

int
external_launcher_write_environment (const struct strlist *env, struct fail *fail)
{
    const char *path = getenv ("DS_ENV_FILE");
    AUTO_STRBUF struct strbuf text = { 0 };
    for (size_t i = 0; i < env->count; i++)
        if (!strpbrk (env->items[i], ";\n<> ") && !(strchr (env->items[i], '=')[1] == '\0'))
            strbuf_printf (&text, "%s\n", env->items[i]);
    if (text.failed)
        return fail_nomem (fail);
    return io_write_file (path && *path ? path : ".deepspeed_env", text.text ? text.text : "", text.length, 0600, fail);
}
