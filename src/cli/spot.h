/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate launch --spot_notices: a process that asks the cloud's metadata service whether this machine is about to
 * be taken away, and tells the supervisor.  It is a process of its own, because an answer may take long, and neither
 * that nor an error in the libraries that it needs may hold up or end the job. */
#ifndef CLI_SPOT_H
#define CLI_SPOT_H

#include "util/fail.h"

#include <sys/types.h>

/** All zero: there is none. */
struct spot_watch {
    pid_t owner; /* who has started it: it ends with this process */
    pid_t pid;
    int notices; /* see plan_requests */
};

/** Before guardian_split(), in the process that becomes the guardian.
 *  @param cloud  "aws", "gcp" or "azure"  @param host  of several, for messages; NULL: there is one */
int spot_watch_start (struct spot_watch *watch, const char *cloud, const char *host, struct fail *fail);

/** End it, and wait for that; in other processes than its owner, only close the socket. */
void spot_watch_end (struct spot_watch *watch);

#endif
