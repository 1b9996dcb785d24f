/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: which processes with which arguments, environment, cores and devices.  Making it has no side effect, so that
 * --dry_run prints exactly what a launch would do, and tests compare text. */
#ifndef LAUNCH_PLAN_H
#define LAUNCH_PLAN_H

#include "config/options.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <stdint.h>

/** What the machine has; filled by topology.c, by hand in tests. */
struct topology {
    char host[256];
    int cpus;           /* logical CPUs this process may use */
    int physical_cores; /* of those; >= 1 */
    int gpus;           /* NVIDIA devices present, before CUDA_VISIBLE_DEVICES */
    int free_port;      /* a free TCP port for MASTER_PORT where the usual one is taken; 0: the usual one is free */
    const char *omp_num_threads; /* the caller's OMP_NUM_THREADS, or NULL */
};

/** A resolved program: how to start it. */
struct program {
    struct strlist argv; /* interpreter if any, program, without its arguments */
};

/** One process to start. */
struct plan_process {
    int rank;
    int local_rank;
    struct strlist argv;
    struct strlist env; /* NAME=VALUE, to be set over the launcher's own environment, sorted by name */
};

struct plan {
    char *host;
    int world_size;
    int local_world_size;
    int first_rank;
    int64_t grace_s;
    struct strlist notes; /* what was assumed, for the user; one line each */
    struct plan_process *processes;
    int process_count;
};

/** Decide what to start.  Pure.  @param[out] plan  release it with plan_release() */
int plan_make (struct plan *plan, const struct config *config, const struct topology *topology,
               const struct program *program, struct fail *fail);

void plan_release (struct plan *plan);

/** Print @p plan as text, or as JSON; the same bytes on every run. */
void plan_print_text (const struct plan *plan, struct strbuf *out);
int plan_print_json (const struct plan *plan, struct strbuf *out, struct fail *fail);

#endif
