/* SPDX-License-Identifier: Apache-2.0 */
/* The table of facts, and what it says of this installation; see machine.h. */
#include <config.h>

#include "cli/env/machine.h"

#include "launch/machine/executable.h"
#include "util/cleanup.h"
#include "util/engine_files.h"
#include "util/procfs.h"

#include <limits.h>

static void
fact_version (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    strlist_add (values, PACKAGE_VERSION " (in C)");
}

static void
fact_location (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    char self[PATH_MAX];
    procfs_own_path (self, sizeof self);
    strlist_add (values, *self ? self : "unknown");
}

/* Those that are built in, then modules, which are not loaded to be listed. */
static void
fact_engines (struct strlist *values)
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
fact_build (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    strlist_printf (values, "compiler: %s %s", BUILD_COMPILER, __VERSION__);
    strlist_add (values, "line editing: " READLINE_STATE);
    strlist_add (values, "sanitizer: " BUILD_SANITIZER);
    strlist_add (values, "coverage: " BUILD_COVERAGE);
    fact_engines (values);
}

static void
fact_python (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    AUTO_FREE char *python = NULL;
    values->failed = values->failed || python_find (&python, NULL, NULL);
    strlist_add (values, python ? python : "not on PATH");
}

/* In Accelerate's order and, if it has the fact, under its name. */
const struct machine_fact machine_facts[] = {
    { "`Accelerate` version", "version", false, fact_version },
    { "Platform", "platform", false, fact_platform },
    { "`accelerate` location", "location", false, fact_location },
    { "Build", "build", true, fact_build },
    { "Python", "python", false, fact_python },
    { "CPU", "cpu", false, fact_cpu },
    { "CPUs", "cpus", false, fact_cpu_count },
    { "System RAM", "memory", false, fact_memory },
    { "Control group limits", "cgroup", true, fact_limits },
    { "GPUs", "gpus", true, fact_gpus },
    { "GPU links", "gpu_links", true, fact_gpu_links },
    { "GPU processes", "gpu_processes", true, fact_gpu_processes },
    { "GPU driver", "gpu_driver", false, fact_driver },
    { "CUDA runtime", "cuda_runtime", false, fact_cuda },
    { "NCCL", "nccl", false, fact_nccl },
    { "MPI", "mpi", true, fact_mpi },
};

const size_t machine_fact_count = sizeof machine_facts / sizeof *machine_facts;

void
machine_probe (struct machine *machine)
{
    *machine = (struct machine){ 0 };
    topology_probe (&machine->topology, true);
    machine->gpu_count = nvml_list (machine->gpus, MACHINE_MOST_GPUS, &machine->gpu_fail);
}
