/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate env` says about this installation and the machine.  Facts come from /proc, /sys and, through child
 * processes with a deadline, from vendors' libraries; no program is started. */
#ifndef CLI_ENV_MACHINE_H
#define CLI_ENV_MACHINE_H

#include "cli/env/facts.h"

/** One fact; a row of machine_facts. */
struct machine_fact {
    const char *name; /* as text */
    const char *key;  /* in JSON */
    bool is_list;     /* any number of values; else one */
    void (*find) (const struct machine *machine, struct strlist *values);
};

extern const struct machine_fact machine_facts[];
extern const size_t machine_fact_count;

/** Ask once what several facts need. */
void machine_probe (struct machine *machine);

#endif
