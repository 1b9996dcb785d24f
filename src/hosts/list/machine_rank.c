/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of auto; see hosts.h. */
#include <config.h>

#include "hosts/list/hosts.h"

#include "config/check.h"
#include "config/mode.h"
#include "hosts/net/address.h"
#include "util/cleanup.h"
#include "util/parse.h"

#include <string.h>

/* Those who start one process on each host.  mpirun in a Slurm allocation starts its own processes by srun, so Slurm's
 * variables there are not about ours. */
static const struct one_each {
    const char *rank, *size;
    const char *here; /* processes on this host */
    const char *one;  /* how to start one on each */
} starters[] = {
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun --map-by ppr:1:node" },
    { "SLURM_NODEID", "SLURM_STEP_NUM_NODES", NULL, "srun --ntasks-per-node 1" },
    { "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "mpiexec -ppn 1" },
};

struct assignment {
    int64_t machine, machines; /* -1, 0: not known */
    struct hostlist list;
    const char *source;
};

static bool
read_number (allocation_lookup *lookup, const char *name, int64_t *value)
{
    const char *text = name ? lookup (name) : NULL;
    return text && parse_int64 (text, 0, INT32_MAX, value) == PARSE_OK;
}

static int
refuse_several (const struct one_each *starter, struct fail *fail)
{
    return fail_set (fail, FAIL_USAGE, "machine_rank: auto needs one launcher on each machine, but several were "
                     "started on this one; use %s", starter->one);
}

/* @return 0, also if no variable tells; -1 with @fail */
static int
ask_starters (struct assignment *found, allocation_lookup *lookup, struct fail *fail)
{
    int64_t here, tasks, nodes;
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const struct one_each *starter = &starters[i];
        if (!read_number (lookup, starter->rank, &found->machine))
            continue;
        if (read_number (lookup, starter->here, &here) && here > 1)
            return refuse_several (starter, fail);
        if (!starter->here && read_number (lookup, "SLURM_STEP_NUM_TASKS", &tasks)
            && read_number (lookup, "SLURM_STEP_NUM_NODES", &nodes) && tasks > nodes)
            return refuse_several (starter, fail);
        if (!read_number (lookup, starter->size, &found->machines))
            found->machines = 0;
        return 0;
    }
    found->machine = -1;
    return 0;
}

static const char *
without_user (const char *name)
{
    const char *at = strchr (name, '@');
    return at ? at + 1 : name;
}

/* The same name, or one of them without its domain. */
static bool
is_same_name (const char *a, const char *b)
{
    size_t length = strcspn (a, ".");
    bool is_short = !a[length] || !b[strcspn (b, ".")];
    return !strcasecmp (a, b) || (is_short && length && length == strcspn (b, ".") && !strncasecmp (a, b, length));
}

static bool
is_this (const struct machine_rank_host *host, const char *name)
{
    for (size_t i = 0; i < host->addresses->count; i++)
        if (!strcmp (host->addresses->items[i], name))
            return true;
    return is_same_name (host->name, name);
}

static int
find_in_list (struct assignment *found, const struct machine_rank_host *host, struct fail *fail)
{
    for (size_t i = 0; i < found->list.count; i++)
        if (is_this (host, without_user (found->list.hosts[i].name))) {
            found->machine = (int64_t) i;
            return 0;
        }
    return fail_set (fail, FAIL_USAGE, "machine_rank: auto: this host, %s, is not in %s", host->name, found->source);
}

static int
find_machine (struct assignment *found, const struct machine_rank_host *host, bool is_given, allocation_lookup *lookup,
              struct fail *fail)
{
    if (!is_given && ask_starters (found, lookup, fail))
        return -1;
    if (found->machine >= 0)
        return 0;
    if (found->list.count)
        return find_in_list (found, host, fail);
    return fail_set (fail, FAIL_USAGE, "machine_rank: auto: nothing says which machine this is: there is no Slurm, "
                     "PBS or LSF job, no mpirun; name the hosts with --hosts or --hostfile, or give the number");
}

static int
set_main (struct config *config, const struct assignment *found, struct fail *fail)
{
    if (!found->list.count || (found->machines && found->machines != (int64_t) found->list.count))
        return fail_set (fail, FAIL_USAGE, "main_process_ip: auto: nothing names the hosts of the job: there is no "
                         "Slurm, PBS or LSF job; use --hosts or --hostfile, or name the main machine");
    return config_compute (config, "main_process_ip", without_user (found->list.hosts[0].name), "main_process_ip",
                           fail);
}

static int
settle (struct config *config, struct assignment *found, const struct machine_rank_host *host, bool is_given,
        allocation_lookup *lookup, struct fail *fail)
{
    bool needs_machine = config->settings.machine_rank == SETTING_AUTO;
    bool needs_main = !strcmp (config->settings.main_process_ip ? config->settings.main_process_ip : "", "auto");
    if (needs_machine && find_machine (found, host, is_given, lookup, fail))
        return -1;
    if (needs_main && set_main (config, found, fail))
        return -1;
    int64_t machines = found->machines ? found->machines : (int64_t) found->list.count;
    const char *because = needs_machine ? "machine_rank" : "main_process_ip";
    if (machines && config_origin (config, "num_machines").kind == ORIGIN_DEFAULT
        && config_compute_number (config, "num_machines", machines, because, fail))
        return -1;
    if (needs_machine && config_compute_number (config, "machine_rank", found->machine, because, fail))
        return -1;
    return config_check (config, fail);
}

/* The list of hosts: that of a flag, of the allocation, or of the configuration file. */
static int
find_list (struct assignment *found, const struct config *config, bool *is_given, allocation_lookup *lookup,
           struct fail *fail)
{
    const struct settings *settings = &config->settings;
    const char *key = settings->hosts ? "hosts" : "hostfile";
    bool is_flag = config_origin (config, key).kind != ORIGIN_FILE;
    bool has_list = settings->hosts ? strcmp (settings->hosts, "auto") != 0 : settings->hostfile != NULL;
    *is_given = has_list && is_flag;
    if (!*is_given && allocation_find_ours (&found->list, &found->source, lookup, fail))
        return -1;
    if (!has_list || found->list.count)
        return 0;
    *is_given = true;
    found->source = settings->hosts ? is_flag ? "--hosts" : "the hosts of the configuration file"
                                    : is_flag ? "--hostfile" : "the hostfile of the configuration file";
    return hosts_read_list (&found->list, settings, fail);
}

int
machine_rank_find (struct config *config, const struct machine_rank_host *host, allocation_lookup *lookup,
                   struct fail *fail)
{
    struct assignment found = { .machine = -1 };
    bool is_given;
    if (!mode_needs_place (&config->settings))
        return 0;
    int failed = find_list (&found, config, &is_given, lookup, fail)
                 || settle (config, &found, host, is_given, lookup, fail);
    hostlist_release (&found.list);
    return failed ? -1 : 1;
}

int
machine_rank_find_here (struct config *config, struct fail *fail)
{
    char name[256] = "";
    AUTO_STRLIST struct strlist addresses = { 0 };
    const struct machine_rank_host host = { name, &addresses };
    gethostname (name, sizeof name - 1);
    address_list (&addresses, NULL);
    return machine_rank_find (config, &host, getenv, fail);
}
