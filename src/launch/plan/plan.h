/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: which processes with which arguments and environment.  Making it has no side effect, so that --dry_run
 * prints exactly what a launch would do, and tests compare text. */
#ifndef LAUNCH_PLAN_PLAN_H
#define LAUNCH_PLAN_PLAN_H

#include "config/values.h"
#include "launch/machine/topology.h"
#include "launch/plan/program.h"
#include "util/fail.h"
#include "util/memtier.h"
#include "util/strbuf.h"

#include <stdint.h>

enum { PLAN_USUAL_PORT = 29500 };

/** One process to start. */
struct plan_process {
    int rank;
    int local_rank;
    struct strlist argv;
    struct strlist env; /* NAME=VALUE, to be set over the launcher's own environment, sorted by name; the names are the
                         * same in every process of a plan */
    char *cpus; /* that it may run on, as in plan.cpus; NULL: all of those */
    char nodes[64]; /* the NUMA nodes of these CPUs, "0"; "" if unknown, and without --report_bindings */
    char device[32]; /* what it computes on, in PyTorch's words: "cpu", "cuda:1" */
    int passed_fd; /* a descriptor that it inherits; 0: none.  Set after plan_make() */
    bool is_hidden; /* its output is not shown */
    unsigned tee; /* what of its output bears its name and goes into files; bits of config/tee.h */
};

/** Which lines bear the number of their rank. */
enum plan_label {
    PLAN_LABEL_AUTO, /* those of several ranks on a terminal */
    PLAN_LABEL_YES,
    PLAN_LABEL_NO,
};

/** Where files of the ranks' output go.  In the names, X means what is chosen at the start. */
struct plan_logs {
    char *base; /* the folder that holds the run's one */
    char *run;  /* NULL: no files */
    bool is_temporary; /* `base` was not given */
};

/** What a packet of plan_requests.notices says, by its first byte; text follows, as long as fits. */
enum {
    PLAN_NOTICE_STOP = 's',    /* save and stop; why, as in "ended WHY" */
    PLAN_NOTICE_WARNING = 'w', /* a line for the user */
    PLAN_NOTICE_BYTES = 1024,
};

/** Who asks the ranks to save or to stop, besides signals.  Times are those of clock_ms(); 0: never. */
struct plan_requests {
    int64_t stop_ms;   /* when to save and stop */
    int64_t ending_ms; /* the same, but only for ranks that respect it; others go on to their end */
    const char *checkpoint_file; /* whose appearance asks for a checkpoint; NULL: none */
    int notices; /* a socket of packets from a process that watches for the end of this machine; 0: none */
};

enum { PLAN_JOB_ID_BYTES = 17 };

/** All zero is an empty plan. */
struct plan {
    char *host;
    char cpus[TOPOLOGY_CPU_LIST]; /* that the processes may run on, "0-3,8" */
    char *program; /* as the user named it */
    enum option_path path;
    bool is_external; /* another launcher starts the ranks: the one process here is that launcher */
    int world_size;
    int local_world_size;
    int first_rank;
    int64_t grace_s;
    int64_t stall_s; /* after which ranks that make no progress are reported; 0: never */
    bool gpus_are_missing; /* processes run on GPUs, and this machine has none */
    bool is_merged; /* the output goes where that of ranks on other hosts goes, too; set after plan_make() */
    bool reports_bindings; /* also prints nodes and threads of ranks */
    enum plan_label label;
    bool has_no_input; /* no rank reads our standard input */
    int64_t restarts; /* so far */
    char job_id[PLAN_JOB_ID_BYTES]; /* the same for all starts and hosts; set after plan_make() */
    const struct memtier *memtier; /* of all starts; NULL: the ranks have none.  Set after plan_make() */
    bool says_memory; /* how much of it the first checkpoints take; set after plan_make() */
    char *role;
    struct plan_logs logs;
    struct plan_requests requests; /* set after plan_make() */
    struct strlist notes; /* what was assumed, for the user; one line each */
    struct strlist choices; /* the same, if nothing follows for the user: for --dry_run */
    char *python_note; /* which Python and why, for --dry_run; NULL: none */
    struct plan_process *processes;
    int process_count; /* == local_world_size */
};

/** How many processes the job has, on all machines. */
int64_t plan_world_size (const struct settings *settings, int gpus);

/** Who else depends on the port at which rank 0 listens. */
enum plan_port_scope {
    PLAN_PORT_NONE,    /* there is none, or rank 0 is on another machine */
    PLAN_PORT_LOCAL,   /* none in advance: all ranks are here and learn it from us */
    PLAN_PORT_SHARED,  /* rank 0 is here, and launches on other machines have been given the same number */
    PLAN_PORT_EXTERNAL, /* another launcher decides where rank 0 is */
};

enum plan_port_scope plan_port_scope (const struct settings *settings, int gpus);

/** Decide what to start.  Pure.  @param[out] plan  release it with plan_release() */
int plan_make (struct plan *plan, const struct config *config, const struct topology *topology,
               const struct program *program, struct fail *fail);

/** Before the ranks are started again: tell them that it is the @p count-th time.  @return 0 or -1 without memory */
int plan_set_restarts (struct plan *plan, int64_t count, struct fail *fail);

/** Set a variable of the environment of all processes.  @return 0 or -1 without memory */
int plan_set_variable (struct plan *plan, const char *name, const char *value, struct fail *fail);

/** Set it for one process; every process has to get a variable of this name. */
int plan_set_variable_of (struct plan_process *process, const char *name, const char *value, struct fail *fail);

/** The path of file @p name of a process in this attempt; to be freed.  @return NULL without memory */
char *plan_log_path (const struct plan *plan, const struct plan_process *process, const char *name);

/** Accepts a half-made plan. */
void plan_release (struct plan *plan);

/** Print where rank @p process runs: "on box, device cpu, CPUs 0-3, NUMA node 0, 4 threads". */
void plan_print_binding (const struct plan *plan, const struct plan_process *process, struct strbuf *out);

/** Print @p plan as text, or as JSON; the same bytes on every run. */
void plan_print_text (const struct plan *plan, struct strbuf *out);
int plan_print_json (const struct plan *plan, struct strbuf *out, struct fail *fail);

#endif
