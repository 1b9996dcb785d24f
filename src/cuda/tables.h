/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of many arrays in device memory, which kernels go through.  They are kept from step to step, and written anew
 * only if the list has changed. */
#ifndef CUDA_TABLES_H
#define CUDA_TABLES_H

#include "cuda/kernels.h"
#include "lib/memory/lists.h"

#include <cuda_runtime_api.h>

/** Make room on @p device for a table of @p list, unless it has one already.  That may wait for the GPU, and other
 *  threads can use it meanwhile. */
void tables_make_room (DLDevice device, struct memory_list *list);

/**
 * Have the table of @p list, after tables_make_room(), on the present device, where work that is queued on @p stream
 * finds it.
 *
 * @return NULL: there is none, because of @p error in @p call, or (cudaSuccess) because there was no room, or what is
 *         written overlaps, so that the order matters
 */
const struct cuda_table *tables_have (struct memory_list *list, cudaStream_t stream, cudaError_t *error,
                                      const char **call);

/** @param kept  of struct memory_list */
void tables_release (DLDevice device, void *kept);

#endif
