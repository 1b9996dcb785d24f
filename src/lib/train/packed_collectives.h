/* SPDX-License-Identifier: Apache-2.0 */
/* What processes send each other of a model whose states and masters are packed on their GPUs (packed.h). */
#ifndef LIB_TRAIN_PACKED_COLLECTIVES_H
#define LIB_TRAIN_PACKED_COLLECTIVES_H

#include "lib/train/optimizer/optimizer_object.h"

/** accel_prepare(): the parameters and masters of rank 0 become those of all; parts, of those that have the same
 *  (cut_comm()).  Collective. */
enum accel_status packed_broadcast (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                    struct accel_error *err);

/** After a step: get the parameters that others have changed, in few calls, before what the program queues next.
 *  Collective.  @return false: the engine cannot do that in the order of the device, and nothing has been done */
bool packed_gather (const struct accel_optimizer *optimizer, struct accel_comm *comm, const struct comm_site *site,
                    enum accel_status *status, struct accel_error *err);

/** The parameters that one call of packed_start() can gather. */
enum { PACKED_GATHERED_MOST = 64 };

/** Start to gather parameters; those that are packed get memory for all elements, unless they have it.
 *  @param[out] works  [count]: for packed_join(), each; also after a failure, NULL: it has not begun */
enum accel_status packed_start (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site,
                                const size_t *indices, size_t count, struct accel_work **works,
                                struct accel_error *err);

/** work_join() one that has begun; NULL: nothing is done.  Also after a failure of either, memory may be given back. */
enum accel_status packed_join (const struct accel_model *model, struct accel_work *work, struct accel_error *err);

/** Copy parameters that are packed to where they came from, whole.  Collective. */
enum accel_status packed_fetch_whole (struct accel_model *model, const struct comm_site *site,
                                      struct accel_error *err);

/** Before a save: @p tensor, which is divided as parameter @p index is, becomes a whole one in host memory on rank 0.
 *  Collective.  Then: all are as before.  @{ */
enum accel_status packed_collect (struct accel_model *model, size_t index, DLTensor *tensor,
                                  const struct comm_site *site, struct accel_error *err);
void packed_end_collect (struct accel_model *model);
/** @return the device on which that is, if it is packed */
DLDevice packed_collected_on (const struct accel_model *model, size_t index, const DLTensor *tensor);
/** @} */

#endif
