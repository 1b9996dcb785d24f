/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that find one fact about the machine each, and what several of them start from. */
#ifndef CLI_ENV_FACTS_H
#define CLI_ENV_FACTS_H

#include "launch/machine/topology.h"
#include "util/fail.h"
#include "util/nvml.h"
#include "util/strbuf.h"

#include <jansson.h>

enum { MACHINE_MOST_GPUS = 64 };

/** What several facts come from. */
struct machine {
    struct topology topology;
    struct gpu gpus[MACHINE_MOST_GPUS];
    int gpu_count;         /* by NVML; -1: it does not say */
    struct fail gpu_fail;  /* then, why not */
};

/** Append what is known to @p values, nothing if nothing is.  Rows of machine_facts (machine.h). @{ */
void fact_platform (const struct machine *machine, struct strlist *values);
void fact_cpu (const struct machine *machine, struct strlist *values);
void fact_cpu_count (const struct machine *machine, struct strlist *values);
void fact_memory (const struct machine *machine, struct strlist *values);
void fact_limits (const struct machine *machine, struct strlist *values);
void fact_gpus (const struct machine *machine, struct strlist *values);
void fact_gpu_links (const struct machine *machine, struct strlist *values);
void fact_gpu_processes (const struct machine *machine, struct strlist *values);
void fact_driver (const struct machine *machine, struct strlist *values);
void fact_cuda (const struct machine *machine, struct strlist *values);
void fact_nccl (const struct machine *machine, struct strlist *values);
void fact_mpi (const struct machine *machine, struct strlist *values);
/** @} */

/** All that is known of each GPU, for programs: an array of objects, empty without NVML; a new reference, or NULL. */
json_t *machine_gpus_json (const struct machine *machine);

#endif
