/* SPDX-License-Identifier: Apache-2.0 */
/* What a job on several machines has come to. */
#ifndef HOSTS_PEERS_OUTCOME_H
#define HOSTS_PEERS_OUTCOME_H

#include "hosts/net/wire.h"

#include <stdbool.h>

/** `text`, `json` and `status` are those of the machine that is to blame. */
struct job_outcome {
    bool is_known;   /* otherwise this machine's part is all that is known */
    bool is_ours;    /* this machine is to blame */
    enum wire_end end;
    int machine, status;
    char *text, *also, *json; /* may be NULL; also: lines about others that may have been first */
};

#endif
