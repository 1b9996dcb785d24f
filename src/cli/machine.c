/* SPDX-License-Identifier: Apache-2.0 */
/* The table of facts, and what it says of this installation; see machine.h. */
#include <config.h>

#include "cli/machine.h"

#include "launch/machine/executable.h"
#include "util/cleanup.h"
#include "util/engine_files.h"
#include "util/procfs.h"

#include <limits.h>

static void
tell_version (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    strlist_add (values, PACKAGE_VERSION " (in C)");
}

static void
tell_location (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    char self[PATH_MAX];
    procfs_own_path (self, sizeof self);
    strlist_add (values, *self ? self : "unknown");
}

/* Those that are built in, then modules, which are not loaded to be listed. */
static void
tell_engines (struct strlist *values)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    AUTO_ENGINE_FILES struct engine_files files = { 0 };
#define X(name) strbuf_add (&text, text.length ? ", " #name : "engines: " #name);
    ENGINE_BUILT_IN_MAP (X)
#undef X
    engine_files_find (&files);
    for (size_t i = 0; i < files.count && !files.failed; i++) {
        const struct engine_file *file = &files.items[i];
        strbuf_printf (&text, ", %s (%s%s)", file->name, file->refusal ? "not loaded: " : "",
                       file->refusal ? file->refusal : file->path);
    }
    if (text.failed || files.failed)
        values->failed = true;
    else
        strlist_add (values, text.text);
}

/* The rows of configure's closing table that say how this binary differs from another. */
static void
tell_build (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    strlist_printf (values, "compiler: %s %s", BUILD_COMPILER, __VERSION__);
    strlist_add (values, "line editing: " READLINE_STATE);
    strlist_add (values, "sanitizer: " BUILD_SANITIZER);
    strlist_add (values, "coverage: " BUILD_COVERAGE);
    tell_engines (values);
}

static void
tell_python (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    AUTO_FREE char *python = NULL;
    values->failed = values->failed || python_find (&python, NULL, NULL);
    strlist_add (values, python ? python : "not on PATH");
}

/* In Accelerate's order and, if it has the fact, under its name. */
const struct machine_fact machine_facts[] = {
    { "`Accelerate` version", "version", false, tell_version },
    { "Platform", "platform", false, tell_platform },
    { "`accelerate` location", "location", false, tell_location },
    { "Build", "build", true, tell_build },
    { "Python", "python", false, tell_python },
    { "CPU", "cpu", false, tell_cpu },
    { "CPUs", "cpus", false, tell_cpu_count },
    { "System RAM", "memory", false, tell_memory },
    { "Control group limits", "cgroup", true, tell_limits },
    { "GPUs", "gpus", true, tell_gpus },
    { "GPU links", "gpu_links", true, tell_gpu_links },
    { "GPU processes", "gpu_processes", true, tell_gpu_processes },
    { "GPU driver", "gpu_driver", false, tell_driver },
    { "CUDA runtime", "cuda_runtime", false, tell_cuda },
    { "NCCL", "nccl", false, tell_nccl },
    { "MPI", "mpi", true, tell_mpi },
};

const size_t machine_fact_count = sizeof machine_facts / sizeof *machine_facts;

void
machine_probe (struct machine *machine)
{
    *machine = (struct machine){ 0 };
    topology_probe (&machine->topology, true);
    machine->gpu_count = nvml_list (machine->gpus, MACHINE_MOST_GPUS, &machine->gpu_fail);
}
