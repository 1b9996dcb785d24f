/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the network between two hosts is: one listens, the other connects and measures, over TCP as programs do. */
#ifndef HOSTS_METER_H
#define HOSTS_METER_H

#include "hosts/address.h"

#include <sys/types.h>

/** A process that answers whoever has its key.  It ends with its parent, or at meter_stop(). */
struct meter {
    pid_t pid; /* 0: none */
    int port;
    char token[ADDRESS_TOKEN_BYTES]; /* what it tells everybody: so nobody takes another program for it */
    char key[ADDRESS_TOKEN_BYTES];   /* what it wants to hear before it does anything */
};

/** Start one.  @return 0, or -1 with @p fail set */
int meter_start (struct meter *meter, struct fail *fail);
void meter_stop (struct meter *meter);

/** Why nothing is known of a way. */
enum meter_trouble {
    METER_FINE,
    METER_REFUSED,   /* the host, or a firewall, has answered that it admits no connection */
    METER_NO_ROUTE,
    METER_NO_ANSWER, /* nothing has come back from any address, or from a stranger */
    METER_STALLED,   /* it connects, but bytes do not come through */
};

struct meter_result {
    char address[64];      /* that was used; "": none was reached */
    int64_t round_trip_ns; /* of a byte there and back; the shortest of many, for which no process had to wait long */
    double to, from;       /* bytes per second, there and back */
    enum meter_trouble trouble;
    char why[256];         /* why it is not known; "": it is */
};

/** Measure the way to @p meter, of which only port, token and key are used, at the first of @p addresses that answers.
 * Blocks, but not longer than @p limit_ms and a little. */
void meter_measure (const struct meter *meter, const struct strlist *addresses, int64_t limit_ms,
                    struct meter_result *result);

#endif
