/* SPDX-License-Identifier: Apache-2.0 */
/* What the loaders of all ranks have to agree on before their data can be divided. */
#ifndef LIB_DATA_COMPARE_H
#define LIB_DATA_COMPARE_H

#include "lib/comm/comm_private.h"

#include <accel/loader.h>

/**
 * Compare @p loader with those that the other ranks of @p comm prepare in the same call.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  they differ; on every rank, and the text says in what, on which two ranks, and how
 */
enum accel_status loader_compare (const struct accel_loader *loader, struct accel_comm *comm,
                                  const struct comm_site *site, struct accel_error *err);

#endif
