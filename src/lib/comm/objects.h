/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of bytes for the library's own use; a call site says for which public call. */
#ifndef LIB_COMM_OBJECTS_H
#define LIB_COMM_OBJECTS_H

#include <accel/collectives.h>

#include "lib/comm/comm_private.h"

enum accel_status comm_gather_objects (struct accel_comm *comm, const struct comm_site *site,
                                       const struct accel_object *objects, size_t count,
                                       struct accel_object_list *list, struct accel_error *err);

#endif
