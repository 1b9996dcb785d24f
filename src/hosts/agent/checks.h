/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent does for `accelerate test --hosts`: tell its build and clock, and measure the way to other hosts. */
#ifndef HOSTS_AGENT_CHECKS_H
#define HOSTS_AGENT_CHECKS_H

#include "hosts/net/benchmark.h"
#include "hosts/net/wire.h"

/** The first number of a frame WIRE_CHECK, and of its answer WIRE_CHECKED. */
enum check_what {
    CHECK_CLOCK = 1, /* the head's CLOCK_REALTIME, ns; the answer has the agent's, too */
    CHECK_FACTS,     /* build; why the engine for several hosts cannot be used, NULL: it can; port, token, key and
                        addresses of a benchmark */
    CHECK_MEASURE,   /* number of the other host, its port, token, key and addresses, limit in ms; the answer: that
                        number, struct net_benchmark_result, and the load in thousandths of a processor */
};

/** Answer @p frame.  @param interface  --interface, or NULL  @return 0, or -1 with @p fail set */
int check_agent_take (struct net_benchmark *benchmark, struct wire_frame *frame, const char *interface,
                      struct strbuf *out, struct fail *fail);

/** CLOCK_REALTIME, ns. */
int64_t check_clock_ns (void);

#endif
