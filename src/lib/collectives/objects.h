/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of bytes for the library's own use; a call site says for which public call. */
#ifndef LIB_COLLECTIVES_OBJECTS_H
#define LIB_COLLECTIVES_OBJECTS_H

#include <accel/collectives.h>

#include "lib/comm/comm_private.h"

enum accel_status comm_gather_objects (struct accel_comm *comm, const struct comm_site *site,
                                       const struct accel_object *objects, size_t count,
                                       struct accel_object_list *list, struct accel_error *err);

/** Send objects to one other rank; nothing is sent where the arguments or memory are at fault. */
enum accel_status comm_send_objects (struct accel_comm *comm, const struct comm_site *site,
                                     const struct accel_object *objects, size_t count, int to,
                                     struct accel_error *err);

/**
 * Receive what comm_send_objects() sent.  A rank that cannot take what is on its way gives up.
 *
 * @param sent  the public call that must have sent it
 */
enum accel_status comm_recv_objects (struct accel_comm *comm, const struct comm_site *site, int from,
                                     enum jobseg_call sent, struct accel_object_list *list, struct accel_error *err);

#endif
