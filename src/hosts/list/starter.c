/* SPDX-License-Identifier: Apache-2.0 */
/* SSH, srun and mpirun: which of them, and how they are called; see starter.h. */
#include <config.h>

#include "hosts/list/starter.h"

#include "config/conditions.h"
#include "launch/machine/executable.h"
#include "launch/machine/topology.h"
#include "util/cleanup.h"
#include "util/envnames.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

extern char **environ;

static bool
has_program (const char *name)
{
    AUTO_FREE char *found = NULL;
    return !executable_find (name, &found, NULL) && found;
}

/* ---- which ---- */

/* srun starts nothing outside its allocation. */
static bool
are_all_allocated (const struct hostlist *list)
{
    struct hostlist allocated = { 0 };
    struct fail unused = { 0 };
    const char *nodes = getenv ("SLURM_JOB_NODELIST");
    bool are_all = nodes && !hostlist_add_text (&allocated, nodes, &unused);
    for (size_t i = 0; are_all && i < list->count; i++)
        are_all = hostlist_find (&allocated, list->hosts[i].name);
    hostlist_release (&allocated);
    return are_all;
}

static int
choose_agents (struct starter *starter, const char *word, const struct hostlist *list, struct fail *fail)
{
    bool is_in_slurm = getenv ("SLURM_JOB_ID") != NULL;
    if (!strcmp (word, "srun") && !is_in_slurm)
        return fail_set (fail, FAIL_USAGE, "--starter srun needs an allocation of Slurm (salloc or sbatch), but this "
                         "process is not in one");
    if (!strcmp (word, "srun") && !has_program ("srun"))
        return fail_set (fail, FAIL_USAGE, "--starter srun needs srun, but it is not in PATH");
    if (!strcmp (word, "srun")
        || (!strcmp (word, "auto") && is_in_slurm && are_all_allocated (list) && has_program ("srun")))
        starter->agents = STARTER_SRUN;
    return 0;
}

static bool
contains (const char *bytes, size_t length, const char *text)
{
    return memmem (bytes, length, text, strlen (text)) != NULL;
}

/* Whether the file names libaccel or a library of MPI among the libraries that it needs, or contains libaccel.  A
 * script that loads one of them names it, too. */
static bool
uses_mpi (const char *path)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat stat;
    if (fd < 0 || fstat (fd, &stat) || !S_ISREG (stat.st_mode) || !stat.st_size)
        return false;
    size_t length = (size_t) stat.st_size;
    char *bytes = mmap (NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return false;
    bool found = contains (bytes, length, "libaccel.so") || contains (bytes, length, "libmpi")
                 || contains (bytes, length, ENV_JOB_SEGMENT);
    munmap (bytes, length);
    return found;
}

static bool
program_uses_mpi (const struct config *config)
{
    AUTO_FREE char *found = NULL;
    if (when_accel_on_cpu (&config->settings))
        return true;
    if (!config->program || config->settings.module)
        return false;
    if (uses_mpi (config->program))
        return true;
    return !strchr (config->program, '/') && !executable_find (config->program, &found, NULL) && found
           && uses_mpi (found);
}

/* @asked  the option that needs it; NULL: it is used if it is there */
static int
find_mpirun (struct starter *starter, const char *asked, struct fail *fail)
{
    AUTO_FREE struct topology *topology = calloc (1, sizeof *topology);
    if (!topology)
        return fail_nomem (fail);
    if (topology_probe_mpi (topology, fail))
        return -1;
    if (!*topology->mpi_program)
        return asked ? fail_set (fail, FAIL_USAGE, "%s needs mpirun or mpiexec, but neither is in PATH", asked) : 0;
    starter->mpi = topology->mpi_is_open ? STARTER_MPI_OPEN : STARTER_MPI_HYDRA;
    starter->mpirun = strdup (topology->mpi_program);
    return starter->mpirun ? 0 : fail_nomem (fail);
}

/* What starts agents, or MPI proxies, must be able to connect. */
static int
check_ports (const struct starter *starter, const struct hostlist *list, struct fail *fail)
{
    bool is_srun = starter->agents == STARTER_SRUN || starter->mpi == STARTER_MPI_SRUN;
    for (size_t i = 0; (is_srun || starter->mpi) && i < list->count; i++)
        if (hostlist_has_port (list->hosts[i].name))
            return fail_set (fail, FAIL_USAGE, "host %s: %s cannot be given a port; name the host in ~/.ssh/config "
                             "with its port%s", list->hosts[i].name, is_srun ? "srun" : starter_mpi_name (starter),
                             is_srun ? ", and use --starter ssh" : ", or start the ranks without MPI (--mpi no)");
    return 0;
}

/* Ranks on one host need no MPI, unless the user asks for it. */
static int
choose (struct starter *starter, const struct config *config, const struct hostlist *list, struct fail *fail)
{
    const char *word = config->settings.starter, *mpi = config->settings.mpi;
    bool is_mpirun = !strcmp (word, "mpirun");
    *starter = (struct starter){ 0 };
    if (choose_agents (starter, word, list, fail))
        return -1;
    const char *asked = is_mpirun ? "--starter mpirun" : !strcmp (mpi, "yes") ? "--mpi yes" : NULL;
    if (is_mpirun && !strcmp (mpi, "no"))
        return fail_set (fail, FAIL_USAGE, "--starter mpirun cannot be combined with --mpi no");
    if (!strcmp (mpi, "no") || (!asked && (list->count < 2 || !program_uses_mpi (config))))
        return 0;
    if (starter->agents != STARTER_SRUN)
        return find_mpirun (starter, asked, fail);
    starter->mpi = STARTER_MPI_SRUN;
    return 0;
}

int
starter_choose (struct starter *starter, const struct config *config, const struct hostlist *list, struct fail *fail)
{
    return choose (starter, config, list, fail) ? -1 : check_ports (starter, list, fail);
}

void
starter_release (struct starter *starter)
{
    free (starter->mpirun);
    *starter = (struct starter){ 0 };
}

/* ---- how ---- */

/* Variables of the user, or of sbatch, that would change the number of tasks, where they run, or what becomes of their
 * input and output. */
void
starter_clean_environment (void)
{
    static const char *const names[] = {
        "SLURM_LABELIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_NTASKS_PER_NODE",
        "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_GPU", "SLURM_CPUS_PER_TASK",
        "SRUN_CPUS_PER_TASK", "SLURM_DISTRIBUTION", "SLURM_HOSTFILE", "SLURM_EXCLUSIVE", "SLURM_EXACT",
        "SLURM_KILL_BAD_EXIT", "SLURM_TIMELIMIT", "SLURM_WAIT", "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_MULTI_PROG",
        "SLURM_SPREAD_JOB", "SLURM_WORKING_DIR", "SLURM_NO_KILL",
    };
    char **kept = environ;
    for (char **item = environ; *item; item++) {
        bool is_clean = true;
        for (size_t i = 0; is_clean && i < sizeof names / sizeof *names; i++)
            is_clean = strncmp (*item, names[i], strlen (names[i])) != 0 || (*item)[strlen (names[i])] != '=';
        if (is_clean)
            *kept++ = *item;
    }
    *kept = NULL;
}

/* srun passes on what it reads; --unbuffered, or it would keep what does not end in a newline. */
static void
add_srun_agent (const char *host, const char *program, struct strlist *argv)
{
    static const char *const srun[] = { "srun", "--quiet", "--nodes=1", "--ntasks=1", "--overlap", "--mpi=none",
                                        "--unbuffered", "--job-name=accelerate", NULL };
    strlist_add_all (argv, srun);
    strlist_printf (argv, "--nodelist=%s", host);
    strlist_add (argv, program);
    strlist_add (argv, "--agent");
}

/* All that the user's own configuration says stays, except for what would disturb a connection without a terminal. */
static void
add_ssh_agent (const char *host, const char *program, bool batch, struct strlist *argv)
{
    static const char *const ssh[] = { "ssh", "-T", "-x", "-o", "ClearAllForwardings=yes", NULL };
    static const char *const silent[] = { "-o", "BatchMode=yes", NULL };
    strlist_add_all (argv, ssh);
    if (batch)
        strlist_add_all (argv, silent);
    strlist_add (argv, "--");
    strlist_add (argv, host);
    strlist_printf (argv, "%s --agent", program); /* the shell there reads it: fixed text and a checked path */
}

void
starter_add_agent (const struct starter *starter, const char *host, const char *program, bool batch,
                   struct strlist *argv)
{
    if (starter->agents == STARTER_SRUN)
        add_srun_agent (host, program, argv);
    else
        add_ssh_agent (host, program, batch, argv);
}

static void
add_mpi_proxy (const char *program, const char *name, int64_t attempt, struct strlist *argv)
{
    strlist_add (argv, program);
    strlist_add (argv, "--mpi-proxy");
    strlist_add (argv, name);
    strlist_printf (argv, "%lld", (long long) attempt);
}

/* The names of the hosts with commas, each as often as it has ranks. */
static void
add_name_of_each_rank (const char *option, const struct hostlist *list, struct strlist *argv)
{
    AUTO_STRBUF struct strbuf hosts = { 0 };
    for (size_t i = 0; i < list->count; i++)
        for (int j = 0; j < list->hosts[i].ranks; j++)
            strbuf_printf (&hosts, "%s%s", hosts.length ? "," : "", list->hosts[i].name);
    strlist_printf (argv, "%s%s", option, hosts.text ? hosts.text : "");
    argv->failed = argv->failed || hosts.failed;
}

/* seq: ranks count through the names in their order, not from mpirun's own host on.  With a part of the command line
 * for each host, mpirun 5.0.7 crashes. */
static void
add_open_mpi (const struct starter *starter, const struct hostlist *list, struct strlist *argv)
{
    static const char *const words[] = { "--bind-to", "none", "--map-by", "seq", "-n", NULL };
    strlist_add (argv, starter->mpirun);
    strlist_add_all (argv, words);
    strlist_printf (argv, "%d", hostlist_world_size (list));
    strlist_add (argv, "--host");
    add_name_of_each_rank ("", list, argv);
}

/* -pmi-port: a rank finds its server by variables alone, not by a descriptor that it has inherited. */
static void
add_hydra (const struct starter *starter, const struct hostlist *list, struct strlist *argv)
{
    static const char *const words[] = { "-pmi-port", "-bind-to", "none", "-hosts", NULL };
    AUTO_STRBUF struct strbuf hosts = { 0 };
    strlist_add (argv, starter->mpirun);
    strlist_add_all (argv, words);
    for (size_t i = 0; i < list->count; i++)
        strbuf_printf (&hosts, "%s%s:%d", i ? "," : "", list->hosts[i].name, list->hosts[i].ranks);
    strlist_add (argv, hosts.text ? hosts.text : "");
    argv->failed = argv->failed || hosts.failed;
    strlist_add (argv, "-n");
    strlist_printf (argv, "%d", hostlist_world_size (list));
}

/* SLURM_MPI_TYPE is srun's own variable for --mpi. */
static void
add_srun (const struct hostlist *list, struct strlist *argv)
{
    static const char *const srun[] = { "srun", "--quiet", "--overlap", "--overcommit", "--distribution=arbitrary",
                                        "--kill-on-bad-exit=0", "--job-name=accelerate", NULL };
    const char *type = getenv ("SLURM_MPI_TYPE");
    strlist_add_all (argv, srun);
    strlist_printf (argv, "--mpi=%s", type && *type ? type : "pmix");
    strlist_printf (argv, "--nodes=%zu", list->count);
    strlist_printf (argv, "--ntasks=%d", hostlist_world_size (list));
    add_name_of_each_rank ("--nodelist=", list, argv);
}

void
starter_add_mpi_proxies (const struct starter *starter, const struct hostlist *list, const char *program,
                         const char *name, int64_t attempt, struct strlist *argv)
{
    if (starter->mpi == STARTER_MPI_OPEN)
        add_open_mpi (starter, list, argv);
    else if (starter->mpi == STARTER_MPI_SRUN)
        add_srun (list, argv);
    else
        add_hydra (starter, list, argv);
    add_mpi_proxy (program, name, attempt, argv);
}

const char *
starter_mpi_name (const struct starter *starter)
{
    return starter->mpi == STARTER_MPI_SRUN ? "srun" : starter->mpirun ? starter->mpirun : "mpirun";
}
