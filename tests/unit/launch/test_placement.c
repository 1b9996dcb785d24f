/* SPDX-License-Identifier: Apache-2.0 */
/* --bind on machines that are not this one: which CPUs and how many threads each rank gets, and what files of /sys say
 * about cores and NUMA nodes. */
#include <config.h>

#include "config/load.h"
#include "launch/plan/placement.h"
#include "launch/plan/plan.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <limits.h>
#include <string.h>

enum { PLACES_MOST = 256 };

/* A machine whose CPUs are numbered as Linux usually does: the second threads of all cores come last. */
struct machine {
    int nodes, cores_of_node, threads;
    const char *allowed; /* "0-3,8" */
    int quota;
};

/* Fills @places, which the topology does not own here. */
static struct topology
make_topology (const struct machine *machine, struct topology_place *places)
{
    struct topology topology = { .host = "box", .quota = machine->quota, .places = places };
    int cores = machine->nodes * machine->cores_of_node;
    cpu_set_t allowed;
    CPU_ZERO (&allowed);
    cpu_list_mark (machine->allowed, &allowed, sizeof allowed);
    for (int core = 0; core < cores; core++) {
        bool is_usable = false;
        for (int thread = 0; thread < machine->threads; thread++) {
            int cpu = core + thread * cores;
            if (!CPU_ISSET ((size_t) cpu, &allowed))
                continue;
            is_usable = true;
            places[topology.place_count++]
                = (struct topology_place){ .cpu = cpu, .core = core, .node = core / machine->cores_of_node };
        }
        topology.physical_cores += is_usable;
    }
    topology.cpus = topology.place_count;
    snprintf (topology.cpu_list, sizeof topology.cpu_list, "%s", machine->allowed);
    return topology;
}

static const struct {
    const char *what;
    struct machine machine;
    bool whole_node;
    int ranks;
    const char *wanted; /* "CPUs*threads" of each rank, or the reason */
} cases[] = {
    { "a core each", { 1, 2, 1, "0-1", 0 }, false, 2, "0*1 1*1" },
    { "two sockets, two threads per core", { 2, 4, 2, "0-15", 0 }, false, 4,
      "0-1,8-9*2 2-3,10-11*2 4-5,12-13*2 6-7,14-15*2" },
    { "one rank per socket", { 2, 4, 2, "0-15", 0 }, false, 2, "0-3,8-11*4 4-7,12-15*4" },
    { "three ranks on two sockets: none has cores of both", { 2, 8, 1, "0-15", 0 }, false, 3, "0-7*8 8-11*4 12-15*4" },
    { "five cores for two ranks: all are used", { 1, 5, 1, "0-4", 0 }, false, 2, "0-1*2 2-4*3" },
    { "as many ranks as cores on uneven sockets", { 2, 4, 1, "0-3,7", 0 }, false, 5, "0*1 1*1 2*1 3*1 7*1" },
    { "a cpuset within one socket", { 2, 4, 2, "1-3,9-11", 0 }, false, 3, "1,9*1 2,10*1 3,11*1" },
    { "a cpuset with one thread of some cores", { 1, 4, 2, "0-2,4-5", 0 }, false, 3, "0,4*1 1,5*1 2*1" },
    { "a cpuset that leaves a socket one core", { 2, 4, 1, "0-3,4", 0 }, false, 2, "0-1*2 2-3*2" },
    { "a container with cpu.max: all cores, but fewer threads", { 1, 16, 1, "0-15", 4 }, false, 2,
      "0-7*2 8-15*2" },
    { "a quota of less than a CPU each", { 1, 16, 1, "0-15", 1 }, false, 4, "0-3*1 4-7*1 8-11*1 12-15*1" },
    { "a quota of more than there is", { 1, 4, 1, "0-3", 64 }, false, 2, "0-1*2 2-3*2" },
    { "one rank has all of its socket", { 2, 4, 1, "0-7", 0 }, false, 1, "4-7*4" },
    { "fewer cores than ranks", { 1, 2, 2, "0-3", 0 }, false, 3, "there are fewer cores than ranks" },
    { "no core is known", { 1, 1, 1, "", 0 }, false, 1, "the CPUs that the launcher may use are not known" },
    { "whole sockets", { 2, 4, 2, "0-15", 0 }, true, 4, "0-3,8-11*2 0-3,8-11*2 4-7,12-15*2 4-7,12-15*2" },
    { "whole sockets, an odd number of ranks", { 2, 4, 1, "0-7", 0 }, true, 3, "0-3*4 4-7*2 4-7*2" },
    { "four nodes", { 4, 2, 1, "0-7", 0 }, true, 4, "0-1*2 2-3*2 4-5*2 6-7*2" },
    { "whole sockets of one socket", { 1, 8, 1, "0-7", 0 }, true, 2, "all cores are in one NUMA node" },
};

static void
test_choice (void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology_place places[PLACES_MOST];
        struct topology topology = make_topology (&cases[i].machine, places);
        AUTO_STRBUF struct strbuf got = { 0 };
        const char *why = NULL;
        for (int rank = 0; rank < cases[i].ranks && !why; rank++) {
            struct placement placement;
            why = placement_choose (&topology, cases[i].whole_node, rank, cases[i].ranks, &placement);
            if (!why)
                strbuf_printf (&got, "%s%s*%d", rank ? " " : "", placement.cpus, placement.threads);
        }
        is_text (why ? why : got.text, cases[i].wanted, cases[i].what);
    }
    struct topology_place places[PLACES_MOST];
    struct topology topology = make_topology (&cases[1].machine, places);
    struct placement placement;
    char nodes[64];
    snprintf (topology.cpu_list, sizeof topology.cpu_list, "0,2,...");
    is_text (placement_choose (&topology, false, 0, 2, &placement), "the CPUs that the launcher may use are not known",
             "a list that is cut");
    placement_nodes (&topology, "3,12", nodes, sizeof nodes);
    is_text (nodes, "0-1", "CPUs of two nodes");
}

/* ---- plans ---- */

static int
make_plan (struct plan *plan, const char *flags, const struct topology *topology, struct fail *fail)
{
    char text[256], *words[32], *rest = NULL;
    int count = 0;
    struct config config;
    struct program program = { 0 };
    strlist_add (&program.argv, "/bin/prog");
    snprintf (text, sizeof text, "%s prog", flags);
    for (char *word = strtok_r (text, " ", &rest); word; word = strtok_r (NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    int result = config_load_launch (&config, count, words, fail);
    if (result == 0)
        result = plan_make (plan, &config, topology, &program, fail);
    config_release (&config);
    program_release (&program);
    return result;
}

/* Of each rank "CPUs threads; ", then the notes; or the refusal. */
static const struct {
    const char *flags, *wanted;
    const char *omp;
    int mpi_local_size;
} plans[] = {
    { "--cpu --num_processes 2", "- 4; - 4; ", NULL, 0 },
    { "--cpu --num_processes 2 --bind none", "- 4; - 4; ", NULL, 0 },
    { "--cpu --num_processes 3 --bind core", "0-3,8-11 4; 4-5,12-13 2; 6-7,14-15 2; ", NULL, 0 },
    { "--cpu --num_processes 3 --bind numa", "0-3,8-11 4; 4-7,12-15 2; 4-7,12-15 2; ", NULL, 0 },
    { "--num_processes 2 --bind core", "0-3,8-11 4; 4-7,12-15 4; no GPU found: the 2 processes run on CPUs, as with "
      "--cpu", NULL, 0 },
    { "--cpu --num_processes 2 --bind core", "0-3,8-11 3; 4-7,12-15 3; ", "3", 0 },
    { "--cpu --num_processes 2 --bind core --num_cpu_threads_per_process 5", "0-3,8-11 5; 4-7,12-15 5; ", NULL, 0 },
    { "--cpu --num_processes 9 --bind core", "- 1; - 1; - 1; - 1; - 1; - 1; - 1; - 1; - 1; --bind core has no effect: "
      "there are fewer cores than ranks", NULL, 0 },
    { "--cpu --num_processes 2 --bind core", "- 2; - 2; --bind core has no effect: ranks that other launchers start "
      "share this machine", NULL, 4 },
    { "--cpu --num_processes 1 --bind gpu",
      "- 8; rank 0 is not bound to the CPUs near its GPU: it uses none", NULL, 0 },
    { "--cpu --num_processes 2 --enable_cpu_affinity --bind core", "0-3,8-11 4; 4-7,12-15 4; --enable_cpu_affinity has "
      "no effect unless bind is auto or gpu", NULL, 0 },
    { "--cpu --num_processes 2 --bind cores", "--bind: 'cores' is not one of auto, none, core, numa, gpu (did you mean "
      "'core'?)", NULL, 0 },
    { "--cpu --num_processes 2 --only_rank 2", "--only_rank 2 does not exist: the last rank is 1", NULL, 0 },
};

static void
test_plans (void)
{
    static const struct machine machine = { 2, 4, 2, "0-15", 0 };
    struct topology_place places[PLACES_MOST];
    struct topology topology = make_topology (&machine, places);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct plan plan = { 0 };
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf got = { 0 };
        topology.mpi_local_size = plans[i].mpi_local_size;
        topology.omp_num_threads = plans[i].omp;
        if (make_plan (&plan, plans[i].flags, &topology, &fail))
            strbuf_add (&got, fail.text);
        for (int rank = 0; rank < plan.process_count; rank++)
            strbuf_printf (&got, "%s %s; ", plan.processes[rank].cpus ? plan.processes[rank].cpus : "-",
                           strlist_variable (&plan.processes[rank].env, "OMP_NUM_THREADS"));
        for (size_t j = 0; j < plan.notes.count; j++)
            strbuf_add (&got, plan.notes.items[j]);
        is_text (got.text, plans[i].wanted, plans[i].flags);
        plan_release (&plan);
    }
}

static void
test_report (void)
{
    static const struct machine machine = { 2, 4, 2, "0-15", 0 };
    struct topology_place places[PLACES_MOST];
    struct topology topology = make_topology (&machine, places);
    struct plan plan = { 0 };
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf got = { 0 };
    if (!ok (!make_plan (&plan, "--cpu --num_processes 2 --bind core --report_bindings", &topology, &fail), "a plan"))
        return;
    plan_print_binding (&plan, &plan.processes[1], &got);
    is_text (got.text, "on box, device cpu, CPUs 4-7,12-15, NUMA node 1, 4 threads", "a rank's binding");
    strbuf_truncate (&got, 0);
    plan_print_text (&plan, &got);
    ok (strstr (got.text, "  0  on box, device cpu, CPUs 0-3,8-11, NUMA node 0, 4 threads\n"), "in the dry run, too");
    plan_release (&plan);
    strbuf_truncate (&got, 0);
    if (!ok (!make_plan (&plan, "--cpu --num_processes 2 --report_bindings", &topology, &fail), "a plan"))
        return;
    plan_print_binding (&plan, &plan.processes[1], &got);
    is_text (got.text, "on box, device cpu, CPUs 0-15, NUMA nodes 0-1, 4 threads", "one that is not bound");
    plan_release (&plan);
}

/* ---- files of /sys ---- */

static void
put (const char *path, const char *text)
{
    char whole[PATH_MAX];
    struct fail fail = { 0 };
    snprintf (whole, sizeof whole, "%s/sys/devices/system/%s", scratch_folder (), path);
    ok (!io_make_parents (whole, &fail) && !io_write_file (whole, text, strlen (text), 0600, &fail), "file %s %s", path,
        fail.text);
}

static void
probe (const char *allowed, const char *wanted, const char *what)
{
    struct topology topology = { 0 };
    AUTO_STRBUF struct strbuf got = { 0 };
    snprintf (topology.cpu_list, sizeof topology.cpu_list, "%s", allowed);
    ok (!topology_probe_places (scratch_folder (), &topology), "probed");
    for (int i = 0; i < topology.place_count; i++)
        strbuf_printf (&got, "%s%d:%d:%d", i ? " " : "", topology.places[i].cpu, topology.places[i].core,
                       topology.places[i].node);
    is_text (got.text, wanted, what);
    topology_release (&topology);
    ok (!topology.places && !topology.place_count, "released");
}

static void
test_files (void)
{
    probe ("0-2", "0:0:0 1:1:0 2:2:0", "without files each CPU is a core, and there is one node");
    put ("cpu/cpu0/topology/thread_siblings_list", "0,4\n");
    put ("cpu/cpu1/topology/thread_siblings_list", "1,5\n");
    put ("cpu/cpu2/topology/thread_siblings_list", "2,6\n");
    put ("cpu/cpu5/topology/thread_siblings_list", "1,5\n");
    put ("node/online", "0,2\n");
    put ("node/node0/cpulist", "1,3,5,7\n");
    put ("node/node2/cpulist", "0,2,4,6\n");
    probe ("0-2,4-6", "1:1:0 5:1:0 0:0:2 4:0:2 2:2:2 6:2:2", "threads of cores, ordered by node");
    probe ("2,5", "5:1:0 2:2:2", "one thread of a core whose first one belongs to others");
    probe ("", NULL, "no list");
}

int
main (void)
{
    unsetenv ("OMP_NUM_THREADS");
    test_choice ();
    test_plans ();
    test_report ();
    test_files ();
    return done_testing ();
}
