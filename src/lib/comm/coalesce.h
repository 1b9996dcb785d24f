/* SPDX-License-Identifier: Apache-2.0 */
/* Several calls of the library that belong together: the tensors of one public call, or messages with many ranks.  If
 * the engine starts calls itself, all of them are in flight at once, and the engine may run them as one.  Otherwise
 * they block, one after the other.
 *
 *   struct comm_coalesced coalesced;
 *   comm_coalesce_begin (&coalesced, comm);
 *   for (...; !status && ...)
 *       status = comm_broadcast (comm, comm_coalesce_site (&coalesced, site), ...);
 *   status = comm_coalesce_end (&coalesced, status, err);
 *
 * All ranks make the same calls in the same order; of messages, those between two ranks match one by one, as if they
 * blocked.  Buffers are the calls' until the end. */
#ifndef LIB_COMM_COALESCE_H
#define LIB_COMM_COALESCE_H

#include "lib/comm/comm_private.h"

enum { COMM_COALESCE_MAX = 64 }; /* so many at once */

struct comm_coalesced {
    struct accel_comm *comm; /* NULL: the calls block */
    bool open;               /* some may have started */
    struct comm_site site;
    struct accel_work *works[COMM_COALESCE_MAX];
    int count;
    enum accel_status status; /* of those that have ended */
    struct accel_error why;
};

void comm_coalesce_begin (struct comm_coalesced *coalesced, struct accel_comm *comm);

/** The site for the next call: @p site, or one that lets it start.  It is good until the next one is asked for. */
const struct comm_site *comm_coalesce_site (struct comm_coalesced *coalesced, const struct comm_site *site);

/** Wait for all.  @param status  of the last call; @p err then has the cause.  @return the first failure */
enum accel_status comm_coalesce_end (struct comm_coalesced *coalesced, enum accel_status status,
                                     struct accel_error *err);

#endif
