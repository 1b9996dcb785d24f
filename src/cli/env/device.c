/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the libraries that programs on several processes use: CUDA's runtime, NCCL, MPI.  Each library is
 * opened by name in a child process with a deadline, so that a broken one is a line of the report and no hang.
 *
 * `mpirun --version` is not run: it starts a program that may be a site's wrapper and contact its batch system, while
 * MPI_Get_library_version() may be called before MPI_Init() and says the same. */
#include <config.h>

#include "cli/env/facts.h"

#include "launch/machine/executable.h"
#include "util/cleanup.h"
#include "util/engine_files.h"
#include "util/io.h"
#include "util/probe.h"

#include <jansson.h>
#include <string.h>

/* A library that tells its version as a number by one function. */
struct library {
    const char *names[6]; /* newest first */
    const char *function;
};

static int
ask_number (void *answer, const void *user, struct fail *fail)
{
    const struct library *library = user;
    int (*version) (int *) = NULL;
    const struct probe_symbol symbols[] = { { library->function, &version }, { NULL, NULL } };
    if (probe_open_library (library->names, symbols, fail))
        return -1;
    int result = version (answer);
    return result ? fail_set (fail, FAIL_GENERAL, "%s() failed with %d", library->function, result) : 0;
}

static int
probe_number (const struct library *library, const char *name, int *number, struct fail *fail)
{
    struct probe probe = {
        .name = name, .deadline_ms = PROBE_DEADLINE_MS, .size = sizeof *number, .ask = ask_number, .user = library,
    };
    return probe_run (&probe, number, fail);
}

/* CUDA's folder says what it is in a file: "cuda": { "version": "12.4.0" }. */
static bool
tell_cuda_of_folder (const char *folder, struct strlist *values)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/version.json", folder);
    json_t *root = path.text ? json_load_file (path.text, 0, NULL) : NULL;
    const char *version = json_string_value (json_object_get (json_object_get (root, "cuda"), "version"));
    if (version)
        strlist_printf (values, "%s (%s)", version, path.text);
    json_decref (root);
    return version;
}

void
fact_cuda (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    static const struct library cuda = {
        { "libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0" }, "cudaRuntimeGetVersion",
    };
    int version;
    struct fail fail = { 0 };
    if (!probe_number (&cuda, "libcudart.so", &version, &fail)) {
        strlist_printf (values, "%d.%d", version / 1000, version % 1000 / 10);
        return;
    }
    const char *home = getenv ("CUDA_HOME"), *path = getenv ("CUDA_PATH");
    const char *const folders[] = { home, path, "/usr/local/cuda" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders && fail.status == FAIL_NOT_FOUND; i++)
        if (folders[i] && tell_cuda_of_folder (folders[i], values))
            return;
    strlist_add (values, fail.status == FAIL_NOT_FOUND ? "not found" : fail.text);
}

/* 2.8.4 is 2804, 2.9.0 is 20900. */
void
fact_nccl (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    static const struct library nccl = { { "libnccl.so.2" }, "ncclGetVersion" };
    int version;
    struct fail fail = { 0 };
    if (probe_number (&nccl, "libnccl.so.2", &version, &fail))
        strlist_add (values, fail.status == FAIL_NOT_FOUND ? "not found" : fail.text);
    else {
        int major = version < 10000 ? 1000 : 10000;
        strlist_printf (values, "%d.%d.%d", version / major, version % major / 100, version % 100);
    }
}

enum { MPI_TEXT_SIZE = 8192 }; /* Open MPI's is 256, MPICH's MPI_MAX_LIBRARY_VERSION_STRING 8192 */

static int
ask_mpi (void *answer, const void *user, struct fail *fail)
{
    static const char *const names[] = { "libmpi.so", "libmpi.so.40", "libmpi.so.12", "libmpich.so.12", NULL };
    int (*version) (char *, int *) = NULL;
    const struct probe_symbol symbols[] = { { "MPI_Get_library_version", &version }, { NULL, NULL } };
    int length = 0;
    (void) user;
    if (probe_open_library (names, symbols, fail))
        return -1;
    return version (answer, &length) ? fail_set (fail, FAIL_GENERAL, "MPI_Get_library_version() failed") : 0;
}

static int
ask_engine (void *answer, const void *user, struct fail *fail)
{
    const char *const names[] = { user, NULL };
    int (*report) (char *, size_t) = NULL;
    const struct probe_symbol symbols[] = { { "accel_engine_report", &report }, { NULL, NULL } };
    return probe_open_library (names, symbols, fail) ? -1 : report (answer, MPI_TEXT_SIZE);
}

enum { MPI_DEADLINE_MS = 10000 }; /* to start MPI takes seconds on a busy machine, or one with several networks */

/* Which MPI the module brings, which may be another than the one in PATH.  If there is no module, nothing. */
static void
tell_engine_mpi (char *text, struct strlist *values)
{
    AUTO_ENGINE_FILES struct engine_files files = { 0 };
    struct fail fail = { 0 };
    engine_files_find (&files);
    values->failed = values->failed || files.failed;
    for (size_t i = 0; i < files.count && !files.failed; i++) {
        struct probe probe = { .name = "accel_engine_mpi.so", .deadline_ms = MPI_DEADLINE_MS, .size = MPI_TEXT_SIZE,
                               .ask = ask_engine, .user = files.items[i].path };
        if (strcmp (files.items[i].name, "mpi") != 0 || files.items[i].refusal)
            continue;
        strlist_printf (values, "engine mpi: %s", probe_run (&probe, text, &fail) ? fail.text : text);
    }
}

void
fact_mpi (const struct machine *machine, struct strlist *values)
{
    (void) machine;
    static const char *const programs[] = { "mpirun", "orterun", "mpiexec" };
    struct probe probe = {
        .name = "libmpi.so", .deadline_ms = PROBE_DEADLINE_MS, .size = MPI_TEXT_SIZE, .ask = ask_mpi,
    };
    AUTO_FREE char *text = calloc (1, MPI_TEXT_SIZE + 1), *program = NULL;
    struct fail fail = { 0 };
    if (!text)
        return;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && !program; i++)
        values->failed = values->failed || executable_find (programs[i], &program, NULL);
    if (program)
        strlist_add (values, program);
    if (!probe_run (&probe, text, &fail))
        strlist_printf (values, "%.*s", (int) strcspn (text, "\n"), text);
    else if (fail.status != FAIL_NOT_FOUND)
        strlist_add (values, fail.text);
    tell_engine_mpi (text, values);
}
