/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate test on several hosts. */
#ifndef CLI_TEST_HOSTS_H
#define CLI_TEST_HOSTS_H

#include "hosts/list/hosts.h"

/** Check the hosts and print what was found.  @param selftest  path of the self-test; NULL: it is not installed
 *  @return 0: a job can run there; 1: it cannot; -1 with @p fail set */
int test_hosts (struct hosts *hosts, struct config *config, const char *selftest, struct fail *fail);

#endif
