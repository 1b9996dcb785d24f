/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ranks and sizes from the environment; see identity.h.
 *
 * Strict, because the price of a wrong guess is N programs that each believe to be alone and overwrite each other's
 * files: whatever is malformed or contradictory is an error that names the variables. */
#include <config.h>

#include "lib/base/identity.h"

#include "lib/base/error.h"
#include "util/envnames.h"
#include "util/parse.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROCESSES = 1 << 24 };

/* One value and the variable it came from; `name` is NULL if no variable has it. */
struct found {
    const char *name;
    int value;
};

/* In Accelerate's order.  The names after the first are those of MPI launchers. */
static const char *const rank_names[]
    = { ENV_RANK, "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", NULL };
static const char *const size_names[]
    = { ENV_WORLD_SIZE, "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", NULL };
static const char *const local_rank_names[]
    = { ENV_LOCAL_RANK, "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", NULL };
static const char *const local_size_names[]
    = { ENV_LOCAL_WORLD_SIZE, "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", NULL };

/* -1 means "not set": scripts for torch pass LOCAL_RANK=-1 for a program that is not distributed. */
static enum accel_status
read_variable (const char *name, int min, struct found *found, struct accel_error *err)
{
    const char *text = getenv (name);
    if (!text || !strcmp (text, "-1"))
        return ACCEL_OK;
    int64_t number;
    if (parse_int64 (text, min, MAX_PROCESSES, &number) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not an integer from %d to %d", name,
                           text, min, MAX_PROCESSES);
    *found = (struct found){ .name = name, .value = (int) number };
    return ACCEL_OK;
}

static enum accel_status
read_first (const char *const *names, int min, struct found *found, struct accel_error *err)
{
    *found = (struct found){ 0 };
    for (; *names && !found->name; names++) {
        enum accel_status status = read_variable (*names, min, found, err);
        if (status)
            return status;
    }
    return ACCEL_OK;
}

/* Slurm's "2(x3),1": tasks of each node in a row.  @return the tasks of node @node, 0 if the text does not say. */
static int
slurm_tasks_of_node (const char *text, int node)
{
    while (text && *text) {
        char *end;
        long tasks = strtol (text, &end, 10), repeat = 1;
        if (end == text || tasks < 1 || tasks > MAX_PROCESSES)
            return 0;
        if (end[0] == '(' && end[1] == 'x') {
            repeat = strtol (end + 2, &end, 10);
            if (repeat < 1 || *end++ != ')')
                return 0;
        }
        if (node < repeat)
            return (int) tasks;
        node -= (int) repeat;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

struct variables {
    struct found rank, size, local_rank, local_size;
};

/* Only a step has SLURM_STEP_NUM_TASKS: a batch script or a shell in an allocation has SLURM_PROCID=0 too, but is
 * alone. */
static enum accel_status
read_slurm_world (struct variables *found, bool *is_step, struct accel_error *err)
{
    struct found size = { 0 };
    enum accel_status status = read_variable ("SLURM_STEP_NUM_TASKS", 1, &size, err);
    *is_step = size.name;
    if (status || !size.name)
        return status;
    if (!found->size.name)
        found->size = size;
    return found->rank.name ? ACCEL_OK : read_variable ("SLURM_PROCID", 0, &found->rank, err);
}

static enum accel_status
read_slurm_local (struct variables *found, struct accel_error *err)
{
    struct found node = { 0 };
    enum accel_status status = ACCEL_OK;
    if (!found->local_rank.name)
        status = read_variable ("SLURM_LOCALID", 0, &found->local_rank, err);
    if (!status && !found->local_size.name)
        status = read_variable ("SLURM_NODEID", 0, &node, err);
    if (status || !node.name)
        return status;
    int tasks = slurm_tasks_of_node (getenv ("SLURM_STEP_TASKS_PER_NODE"), node.value);
    if (tasks)
        found->local_size = (struct found){ .name = "SLURM_STEP_TASKS_PER_NODE", .value = tasks };
    return ACCEL_OK;
}

/* Rank and size, from the variables of torch (skip 0) or of MPI launchers only (skip 1). */
static enum accel_status
read_world (int skip, struct variables *found, bool *is_step, struct accel_error *err)
{
    *found = (struct variables){ 0 };
    *is_step = false;
    enum accel_status status = read_first (rank_names + skip, 0, &found->rank, err);
    if (!status)
        status = read_first (size_names + skip, 1, &found->size, err);
    /* A whole set of torch's names means that the user launched inside the step; its tasks are not ours. */
    if (!status && !(found->rank.name && found->size.name))
        status = read_slurm_world (found, is_step, err);
    return status;
}

static enum accel_status
read_all (struct variables *found, struct accel_error *err)
{
    bool is_step;
    enum accel_status status = read_world (0, found, &is_step, err);
    if (!status)
        status = read_first (local_rank_names, 0, &found->local_rank, err);
    if (!status)
        status = read_first (local_size_names, 1, &found->local_size, err);
    return !status && is_step ? read_slurm_local (found, err) : status;
}

/* mpirun starting a program in a shell that had RANK and WORLD_SIZE exported would otherwise make N times rank 0. */
static enum accel_status
compare_with_mpi (const struct variables *found, struct accel_error *err)
{
    struct variables mpi;
    bool is_step;
    enum accel_status status = read_world (1, &mpi, &is_step, err);
    if (status || !mpi.size.name || mpi.size.name == found->size.name)
        return status;
    if (found->size.value == 1 && mpi.size.value > 1)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: %s=1 but %s=%d: unset the one that does not belong to this job",
                           found->size.name, mpi.size.name, mpi.size.value);
    if (found->size.value > 1 && found->size.value == mpi.size.value && mpi.rank.name
        && mpi.rank.value != found->rank.value)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: %s=%d but %s=%d in a job of %d: unset the one that belongs to another job",
                           found->rank.name, found->rank.value, mpi.rank.name, mpi.rank.value, found->size.value);
    return ACCEL_OK;
}

static enum accel_status
resolve_world (const struct variables *found, struct identity *identity, struct accel_error *err)
{
    if (!found->size.name && found->rank.name && found->rank.value > 0)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s=%d is set, but %s is not", found->rank.name,
                           found->rank.value, ENV_WORLD_SIZE);
    identity->world_size = found->size.name ? found->size.value : 1;
    if (identity->world_size > 1 && !found->rank.name)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: %s=%d is set, but %s is not: start the program with a launcher, or unset %s",
                           found->size.name, found->size.value, ENV_RANK, found->size.name);
    identity->rank = found->rank.name ? found->rank.value : 0;
    if (identity->rank >= identity->world_size)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s=%d must be less than %s=%d", found->rank.name,
                           identity->rank, found->size.name ? found->size.name : ENV_WORLD_SIZE,
                           identity->world_size);
    return ACCEL_OK;
}

/* Without any local value the job counts as a job on one host, which the missing ranks of another would disprove. */
static enum accel_status
resolve_local (const struct variables *found, struct identity *identity, struct accel_error *err)
{
    const struct found *rank = &found->local_rank, *size = &found->local_size;
    bool one_host = size->name ? size->value == identity->world_size : !rank->name || rank->value == identity->rank;
    if (!size->name && !one_host)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s=%d is set, but %s is not", rank->name, rank->value,
                           ENV_LOCAL_WORLD_SIZE);
    identity->local_world_size = size->name ? size->value : identity->world_size;
    if (!rank->name && !one_host && identity->local_world_size > 1)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s=%d is set, but %s is not", size->name, size->value,
                           ENV_LOCAL_RANK);
    identity->local_rank = rank->name ? rank->value : one_host ? identity->rank : 0;
    if (identity->local_world_size > identity->world_size)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s=%d is greater than the world size %d", size->name,
                           size->value, identity->world_size);
    if (identity->local_rank >= identity->local_world_size)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: local rank %d%s%s%s must be less than local world size %d%s%s%s",
                           identity->local_rank, rank->name ? " (" : "", rank->name ? rank->name : "",
                           rank->name ? ")" : "", identity->local_world_size, size->name ? " (" : "",
                           size->name ? size->name : "", size->name ? ")" : "");
    if (identity->local_rank > identity->rank)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: local rank %d is greater than rank %d",
                           identity->local_rank, identity->rank);
    return ACCEL_OK;
}

static enum accel_status
compare_with_segment (const struct identity *identity, const struct jobseg *segment, struct accel_error *err)
{
    const struct jobseg_header *header = segment->header;
    if (header->world_size != (uint32_t) identity->world_size)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: the launcher's job (%s) has %u processes, but the variables say %d: unset %s "
                           "if another launcher started this program",
                           ENV_JOB_SEGMENT, header->world_size, identity->world_size, ENV_JOB_SEGMENT);
    if (header->local_world_size != (uint32_t) identity->local_world_size
        || header->first_rank + (uint32_t) identity->local_rank != (uint32_t) identity->rank)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "environment: rank %d as local rank %d of %d contradicts the launcher's job (%s), whose "
                           "ranks on this host are %u to %u",
                           identity->rank, identity->local_rank, identity->local_world_size, ENV_JOB_SEGMENT,
                           header->first_rank, header->first_rank + header->local_world_size - 1);
    return ACCEL_OK;
}

enum accel_status
identity_discover (struct identity *identity, const struct jobseg *segment, struct accel_error *err)
{
    struct variables found;
    *identity = (struct identity){ .world_size = 1, .local_world_size = 1 };
    enum accel_status status = read_all (&found, err);
    if (!status)
        status = resolve_world (&found, identity, err);
    if (!status)
        status = resolve_local (&found, identity, err);
    if (status)
        return status;
    return segment->header ? compare_with_segment (identity, segment, err) : compare_with_mpi (&found, err);
}
