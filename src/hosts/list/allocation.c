/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of schedulers; see hostlist.h. */
#include <config.h>

#include "hosts/list/hostlist.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/jobseg.h"
#include "util/parse.h"

#include <ctype.h>
#include <string.h>

enum {
    NODE_FILE_BYTES = 4 * 1024 * 1024,
    FIRST_SPECIAL_STEP = 0x7ffffff0, /* Slurm's numbers of the steps that a batch script or an interactive shell is */
};

/* What launchers set for each process that they start. */
static const char *const marks_of_ranks[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK" };

/* mpirun may use srun for daemons of its own, so its variables come first. */
static const struct {
    const char *rank, *count, *starter;
} starters[] = {
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun" },
    { "PMI_RANK", "PMI_SIZE", "mpiexec" },
    { "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "srun" },
};

/* A batch script and an interactive shell are steps, too, but srun did not start them. */
static bool
is_step (allocation_lookup *lookup)
{
    int64_t step;
    const char *text = lookup ("SLURM_STEP_ID");
    return text && !(parse_int64 (text, 0, INT64_MAX, &step) == PARSE_OK && step >= FIRST_SPECIAL_STEP);
}

static bool
is_rank (allocation_lookup *lookup)
{
    for (size_t i = 0; i < sizeof marks_of_ranks / sizeof *marks_of_ranks; i++)
        if (lookup (marks_of_ranks[i]))
            return true;
    return is_step (lookup);
}

int64_t
allocation_tasks (const char **starter, allocation_lookup *lookup)
{
    bool has_step = is_step (lookup);
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const char *text = lookup (starters[i].rank) ? lookup (starters[i].count) : NULL;
        int64_t count;
        if (!text || (!has_step && !strcmp (starters[i].starter, "srun"))
            || parse_int64 (text, 1, INT32_MAX, &count) != PARSE_OK)
            continue;
        *starter = starters[i].starter;
        return count;
    }
    return 1;
}

/* The number at the beginning of *text, which moves after it.  @return 0 if there is none that can be right */
static int
take_number (const char **text)
{
    int number = 0;
    while (isdigit ((unsigned char) **text) && number <= JOBSEG_MAX_LOCAL)
        number = 10 * number + (*(*text)++ - '0');
    return number <= JOBSEG_MAX_LOCAL ? number : 0;
}

/* The next of "2(x3),1": how many tasks a node has.  @return false if the text is something else */
static bool
next_tasks (const char **text, int *repeat, int *tasks)
{
    if (*repeat > 0) {
        (*repeat)--;
        return true;
    }
    int times = 1;
    *tasks = take_number (text);
    if (!strncmp (*text, "(x", 2)) {
        *text += 2;
        times = take_number (text);
        *text += **text == ')';
    }
    *text += **text == ',';
    *repeat = times - 1;
    return *tasks && times;
}

/* One task on each node is what Slurm says if the user asked for no more: then each host decides how many it runs. */
static void
set_tasks (struct hostlist *list, const char *text)
{
    int repeat = 0, tasks = 0, most = 0;
    for (size_t i = 0; text && i < list->count; i++) {
        if (!next_tasks (&text, &repeat, &tasks))
            return;
        list->hosts[i].ranks = tasks; /* not used before hostlist_divide() */
        most = tasks > most ? tasks : most;
    }
    for (size_t i = 0; most > 1 && i < list->count; i++) {
        list->hosts[i].slots = list->hosts[i].ranks;
        list->hosts[i].times = 0;
    }
}

static int
read_slurm (struct hostlist *list, const char *value, allocation_lookup *lookup, struct fail *fail)
{
    if (hostlist_add_text (list, value, fail))
        return -1;
    set_tasks (list, lookup ("SLURM_TASKS_PER_NODE"));
    return 0;
}

static int
read_node_file (struct hostlist *list, const char *value, allocation_lookup *lookup, struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    (void) lookup;
    if (io_read_file (value, NODE_FILE_BYTES, &text, NULL, fail))
        return -1;
    return hostlist_add_file (list, value, text, fail);
}

/* "a 4 b 2" */
static int
read_counts (struct hostlist *list, const char *value, allocation_lookup *lookup, struct fail *fail)
{
    (void) lookup;
    while (*(value += strspn (value, " "))) {
        size_t length = strcspn (value, " ");
        const char *number = value + length + strspn (value + length, " ");
        int slots = take_number (&number);
        if (slots < 1 || (*number && *number != ' '))
            return fail_set (fail, FAIL_USAGE, "expected pairs of a host and a number");
        if (hostlist_add (list, value, length, slots, fail))
            return -1;
        value = number;
    }
    return 0;
}

/* "a a b" */
static int
read_names (struct hostlist *list, const char *value, allocation_lookup *lookup, struct fail *fail)
{
    (void) lookup;
    while (*(value += strspn (value, " "))) {
        size_t length = strcspn (value, " ");
        if (hostlist_add (list, value, length, 0, fail))
            return -1;
        value += length;
    }
    return 0;
}

static const struct {
    const char *variable;
    int (*read) (struct hostlist *list, const char *value, allocation_lookup *lookup, struct fail *fail);
    const char *source;
} schedulers[] = {
    { "SLURM_STEP_NODELIST", read_slurm, "the Slurm step (SLURM_STEP_NODELIST)" }, /* of those that it has started */
    { "SLURM_JOB_NODELIST", read_slurm, "the Slurm allocation (SLURM_JOB_NODELIST)" },
    { "PBS_NODEFILE", read_node_file, "the PBS allocation (PBS_NODEFILE)" },
    { "LSB_MCPU_HOSTS", read_counts, "the LSF allocation (LSB_MCPU_HOSTS)" },
    { "LSB_HOSTS", read_names, "the LSF allocation (LSB_HOSTS)" },
};

static int
find_from (size_t first, struct hostlist *list, const char **source, allocation_lookup *lookup, struct fail *fail)
{
    *source = NULL;
    for (size_t i = first; i < sizeof schedulers / sizeof *schedulers; i++) {
        const char *value = lookup (schedulers[i].variable);
        if (!value || !*value)
            continue;
        if (schedulers[i].read (list, value, lookup, fail)) {
            hostlist_release (list);
            return fail_prefix (fail, "%s", schedulers[i].variable);
        }
        hostlist_finish (list);
        *source = schedulers[i].source;
        return 0;
    }
    return 0;
}

int
allocation_find (struct hostlist *list, const char **source, allocation_lookup *lookup, struct fail *fail)
{
    *source = NULL;
    return is_rank (lookup) ? 0 : find_from (1, list, source, lookup, fail);
}

int
allocation_find_ours (struct hostlist *list, const char **source, allocation_lookup *lookup, struct fail *fail)
{
    return find_from (0, list, source, lookup, fail);
}
