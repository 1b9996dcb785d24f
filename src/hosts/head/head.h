/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a launch on several hosts: it starts an agent on each, tells it which ranks to start, merges their
 * output, watches the connections, and reports the first failure. */
#ifndef HOSTS_HEAD_HEAD_H
#define HOSTS_HEAD_HEAD_H

#include "hosts/list/hosts.h"

/** Run the job of @p config on @p hosts.  @return the exit status, or -1 with @p fail set */
int head_run (struct hosts *hosts, struct config *config, struct fail *fail);

#endif
