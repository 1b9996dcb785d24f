/* SPDX-License-Identifier: Apache-2.0 */
/* Launches as the original makes them (launch.json) against our plans: path, command, environment, errors.  If we
 * differ on purpose, differences.tsv has the reason.
 *
 * ("ranks" is the simple path where we start several processes.)
 *
 * Each line of it is CASES<tab>WHAT<tab>REASON; both patterns are fnmatch()'s.  WHAT is PATH/VARIABLE, PATH/command,
 * "path", "fails" (we fail and the original does not) or "works" (the reverse). */
#include <config.h>

#include "config/load.h"
#include "launch/plan/plan.h"
#include "tests/golden/command/differences.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"

#include <ctype.h>
#include <fnmatch.h>
#include <ftw.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WORDS = 200 };

static const char *folder;

/* ---- one comparison ---- */

struct check {
    const char *name;
    const char *path; /* that both take, "ranks" where ours are several and the original's one; NULL: not known yet */
    struct strbuf wrong; /* what differs without a reason */
};

__attribute__ ((format (printf, 3, 4))) static void
differ (struct check *check, const char *what, const char *format, ...)
{
    char text[400], key[200];
    va_list args;
    snprintf (key, sizeof key, "%s%s%s", check->path ? check->path : "", check->path ? "/" : "", what);
    what = key;
    if (has_reason (check->name, what))
        return;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    for (char *at = text; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    strbuf_printf (&check->wrong, "%s  %s: %s", check->wrong.length ? "\n# " : "", what, text);
}

/* ---- the caller's world ---- */

/* "@DIR@" is our folder.  @return an owned text */
static char *
place (const char *text)
{
    struct strbuf out = { 0 };
    for (const char *mark; (mark = strstr (text, "@DIR@")); text = mark + 5) {
        strbuf_add_bytes (&out, text, (size_t) (mark - text));
        strbuf_add (&out, folder);
    }
    strbuf_add (&out, text);
    return strbuf_take (&out);
}

static void
set_world (json_t *row)
{
    const char *name;
    json_t *value;
    clearenv ();
    AUTO_FREE char *path = place ("@DIR@/bin:/usr/bin:/bin");
    AUTO_FREE char *home = place ("@DIR@/home");
    setenv ("PATH", path, 1);
    setenv ("HOME", home, 1);
    json_object_foreach (json_object_get (row, "env"), name, value)
    {
        AUTO_FREE char *text = place (json_string_value (value));
        setenv (name, text, 1);
    }
}

static void
put_file (const char *name, const char *text, size_t length, unsigned mode)
{
    struct fail fail = { 0 };
    io_make_parents (name, &fail);
    if (io_write_file (name, text, length, mode, &fail))
        diag ("%s", fail.text);
}

static int
remove_one (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info;
    (void) kind;
    return ftw->level ? remove (path) : 0;
}

static void
set_files (json_t *row)
{
    static const char python[] = "def main():\n    pass\n", shell[] = "#!/bin/sh\n";
    const char *name;
    json_t *text;
    size_t i;
    nftw (folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    put_file ("train.py", python, sizeof python - 1, 0644);
    put_file ("bin/python3", shell, sizeof shell - 1, 0755);
    /* The original does not look whether its program is there; ours does. */
    json_array_foreach (json_object_get (row, "args"), i, text)
        if (!fnmatch ("*.py", json_string_value (text), 0) && json_string_value (text)[0] != '/')
            put_file (json_string_value (text), python, sizeof python - 1, 0644);
        else if (!strcmp (json_string_value (text), "./x"))
            put_file ("x", shell, sizeof shell - 1, 0755);
    json_object_foreach (json_object_get (row, "files"), name, text)
        put_file (name, json_string_value (text), json_string_length (text), 0644);
}

static void
set_topology (struct topology *topology, json_t *machine)
{
    *topology = (struct topology){ .host = "host", .cpus = 1, .physical_cores = 1 };
    topology->gpus = (int) json_integer_value (json_object_get (machine, "gpus"));
    json_t *cores = json_object_get (machine, "cores");
    if (json_is_integer (cores))
        topology->physical_cores = topology->cpus = (int) json_integer_value (cores);
    topology->omp_num_threads = getenv ("OMP_NUM_THREADS");
    topology->python_path = getenv ("PYTHONPATH");
    topology->lacks_p2p = json_is_true (json_object_get (machine, "rtx40"));
    topology->nccl_p2p_is_chosen = getenv ("NCCL_P2P_DISABLE");
    topology->nccl_ib_is_chosen = getenv ("NCCL_IB_DISABLE");
    topology->nccl_async_error_handling = getenv ("TORCH_NCCL_ASYNC_ERROR_HANDLING");
    static const char *const sizes[] = { "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE" };
    for (size_t i = 0; i < 3 && !topology->mpi_local_size; i++) {
        int64_t number = 0;
        const char *text = getenv (sizes[i]);
        if (text && parse_int64 (text, 1, 100000, &number) == PARSE_OK)
            topology->mpi_local_size = (int) number;
    }
    snprintf (topology->folder, sizeof topology->folder, "%s", folder);
    snprintf (topology->deepspeed_program, sizeof topology->deepspeed_program, "deepspeed");
    const char *name;
    json_t *version;
    json_object_foreach (json_object_get (machine, "mpi"), name, version)
    {
        if (*topology->mpi_program && strcmp (name, "mpirun"))
            continue;
        snprintf (topology->mpi_program, sizeof topology->mpi_program, "%s", name);
        topology->mpi_is_open = strstr (json_string_value (version), "Open MPI");
    }
}

/* ---- comparing ---- */

static const char *
find_variable (const struct strlist *env, const char *name)
{
    size_t length = strlen (name);
    for (size_t i = 0; i < env->count; i++)
        if (!strncmp (env->items[i], name, length) && env->items[i][length] == '=')
            return env->items[i] + length + 1;
    return NULL;
}

static void
compare_variable (struct check *check, const struct strlist *env, const char *name, const char *wanted)
{
    AUTO_FREE char *right = place (wanted);
    const char *got = find_variable (env, name);
    /* The original's library wants it in upper case, which launch does not always write (Q9). */
    for (char *at = right; !strcmp (name, "ACCELERATE_FP8_BACKEND") && *at; at++)
        *at = (char) toupper ((unsigned char) *at);
    if (!got)
        differ (check, name, "missing, the original has '%s'", wanted);
    else if (strcmp (got, right))
        differ (check, name, "'%s', the original has '%s'", got, wanted);
}

static const char *
path_word (const struct plan *plan)
{
    switch (plan->path) {
    case PATH_MPIRUN: return "mpirun";
    case PATH_ELASTIC: return "multi_gpu";
    case PATH_DEEPSPEED: return plan->is_external ? "deepspeed_multinode" : "deepspeed";
    case PATH_TPU: return "tpu";
    case PATH_TPU_POD: return "tpu_pod";
    case PATH_SAGEMAKER: return "sagemaker";
    default: return "simple";
    }
}

/* The name of a program without what differs from machine to machine. */
static const char *
plain_word (const char *word)
{
    size_t length = strlen (folder);
    if (!strncmp (word, folder, length))
        word += length + 1;
    if (!strcmp (word, "bin/python3"))
        return "@PYTHON@";
    return strncmp (word, "./", 2) ? word : word + 2;
}

static void
compare_command (struct check *check, const struct plan_process *process, json_t *wanted)
{
    AUTO_STRBUF struct strbuf ours = { 0 };
    AUTO_STRBUF struct strbuf theirs = { 0 };
    /* Ours are several ranks, whose lines shall not come late, where the original starts one. */
    bool unbuffered
        = !strcmp (check->path, "ranks") && process->argv.count > 1 && !strcmp (process->argv.items[1], "-u");
    for (size_t i = 0; i < process->argv.count; i++)
        if (i != 1 || !unbuffered)
            strbuf_printf (&ours, "[%s]", plain_word (process->argv.items[i]));
    for (size_t i = 0; i < json_array_size (wanted); i++) {
        AUTO_FREE char *word = place (json_string_value (json_array_get (wanted, i)));
        if (i + 1 < json_array_size (wanted) && !strcmp (word, "--hostfile")
            && !strcmp (json_string_value (json_array_get (wanted, i + 1)), "None")) {
            i++; /* no text None is passed (Q13) */
            continue;
        }
        strbuf_printf (&theirs, "[%s]", plain_word (word));
    }
    if (strcmp (ours.text ? ours.text : "", theirs.text ? theirs.text : ""))
        differ (check, "command", "%s, the original %s", ours.text, theirs.text);
}

static void
compare_process (struct check *check, const struct plan_process *process, json_t *row, int local_rank)
{
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get (row, "set"), name, value)
        if (!json_object_get (json_object_get (row, "workers"), name))
            compare_variable (check, &process->env, name, json_string_value (value));
    json_object_foreach (json_object_get (row, "workers"), name, value)
    {
        json_t *one = json_is_array (value) ? json_array_get (value, (size_t) local_rank) : value;
        char number[32];
        snprintf (number, sizeof number, "%lld", (long long) json_integer_value (one));
        compare_variable (check, &process->env, name, json_is_integer (one) ? number : json_string_value (one));
    }
    /* What torchrun always sets, and the data do not repeat; an error file only where we make files. */
    static const char *const always[]
        = { "ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
            "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE" };
    bool elastic = json_object_get (row, "workers") != NULL;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (elastic && strcmp (always[i], "TORCHELASTIC_ERROR_FILE") && !find_variable (&process->env, always[i]))
            differ (check, always[i], "missing");
    for (size_t i = 0; i < process->env.count; i++) {
        char ours[128];
        bool known = false;
        snprintf (ours, sizeof ours, "%.*s", (int) strcspn (process->env.items[i], "="), process->env.items[i]);
        for (size_t j = 0; elastic && j < sizeof always / sizeof *always; j++)
            known = known || !strcmp (ours, always[j]);
        const char *callers = getenv (ours);
        known = known || (callers && !strcmp (callers, find_variable (&process->env, ours)));
        if (!known && !json_object_get (json_object_get (row, "set"), ours)
            && !json_object_get (json_object_get (row, "workers"), ours))
            differ (check, ours, "'%s', the original has none", process->env.items[i]);
    }
}

static void
compare_plan (struct check *check, const struct plan *plan, json_t *row)
{
    const char *path = json_string_value (json_object_get (row, "path"));
    if (strcmp (path, path_word (plan))) {
        differ (check, "path", "%s, the original %s", path_word (plan), path);
        return;
    }
    check->path = !strcmp (path, "simple") && plan->world_size > 1 ? "ranks" : path;
    json_t *ranks = json_object_get (json_object_get (row, "workers"), "RANK");
    if (ranks && (int) json_array_size (ranks) != plan->process_count)
        differ (check, "count", "%d ranks, the original %zu", plan->process_count, json_array_size (ranks));
    for (int i = 0; i < plan->process_count && (!ranks || i < (int) json_array_size (ranks)); i++) {
        if (json_object_get (row, "command"))
            compare_command (check, &plan->processes[i], json_object_get (row, "command"));
        compare_process (check, &plan->processes[i], row, i);
    }
}

static void
run_case (json_t *row)
{
    struct check check = { .name = json_string_value (json_object_get (row, "name")) };
    char *words[MOST_WORDS + 1];
    int count = 0;
    struct config config;
    struct topology topology;
    struct program program = { 0 };
    struct plan plan = { 0 };
    struct fail fail = { 0 };
    json_t *args = json_object_get (row, "args"), *error = json_object_get (row, "error");
    set_files (row);
    set_world (row);
    for (size_t i = 0; i < json_array_size (args); i++)
        words[count++] = place (json_string_value (json_array_get (args, i)));
    words[count] = NULL;
    set_topology (&topology, json_object_get (row, "machine"));
    bool failed = config_load_launch (&config, count, words, &fail) || program_resolve (&program, &config, &fail);
    config.settings.share_gpus = true; /* the original does not count GPUs (Q41) */
    failed = failed || plan_make (&plan, &config, &topology, &program, &fail);
    if (failed && !error)
        differ (&check, "fails", "%s", fail.text);
    else if (!failed && error && !json_object_get (json_object_get (row, "machine"), "child_exit"))
        differ (&check, "works", "the original says: %s: %s", json_string_value (json_object_get (error, "type")),
                json_string_value (json_object_get (error, "message")));
    else if (!failed && json_object_get (row, "path"))
        compare_plan (&check, &plan, row);
    ok (!check.wrong.length, "%s", check.name);
    if (check.wrong.length)
        diag ("%s", check.wrong.text);
    strbuf_release (&check.wrong);
    plan_release (&plan);
    program_release (&program);
    config_release (&config);
    while (count)
        free (words[--count]);
}

int
main (int argc, char **argv)
{
    folder = scratch_folder ();
    return compare_goldens ("launch.json", "differences.tsv", JSON_ALLOW_NUL, argc > 1 ? argv[1] : NULL, run_case);
}
