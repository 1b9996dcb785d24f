/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate env` says about this installation and the machine.  Facts come from /proc, /sys and, through child
 * processes with a deadline, from vendors' libraries; no program is started. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "launch/topology.h"
#include "util/fail.h"
#include "util/nvml.h"
#include "util/strbuf.h"

enum { MACHINE_MOST_GPUS = 64 };

/** What several facts are taken from. */
struct machine {
    struct topology topology;
    struct gpu gpus[MACHINE_MOST_GPUS];
    int gpu_count;         /* by NVML; -1: it does not say */
    struct fail gpu_fail;  /* then, why not */
};

/** One fact; a row of machine_facts. */
struct machine_fact {
    const char *name; /* as text */
    const char *key;  /* in JSON */
    bool is_list;     /* any number of values; else one */
    void (*tell) (const struct machine *machine, struct strlist *values);
};

extern const struct machine_fact machine_facts[];
extern const size_t machine_fact_count;

/** Ask once what several facts need. */
void machine_probe (struct machine *machine);

/** Functions of the table's rows. @{ */
void tell_platform (const struct machine *machine, struct strlist *values);
void tell_cpu (const struct machine *machine, struct strlist *values);
void tell_cpu_count (const struct machine *machine, struct strlist *values);
void tell_memory (const struct machine *machine, struct strlist *values);
void tell_limits (const struct machine *machine, struct strlist *values);
void tell_gpus (const struct machine *machine, struct strlist *values);
void tell_driver (const struct machine *machine, struct strlist *values);
void tell_cuda (const struct machine *machine, struct strlist *values);
void tell_nccl (const struct machine *machine, struct strlist *values);
void tell_mpi (const struct machine *machine, struct strlist *values);
/** @} */

#endif
