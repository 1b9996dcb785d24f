/* SPDX-License-Identifier: Apache-2.0 */
/* Processes compare what they pass: tensors in debug mode (ACCELERATE_DEBUG_MODE), before anything else is sent; models
 * and loaders when they are prepared. */
#ifndef LIB_COLLECTIVES_VERIFY_H
#define LIB_COLLECTIVES_VERIFY_H

#include <accel/tree.h>

#include "lib/comm/comm_private.h"

/**
 * Check @p tensor (comm_check_tensor); then, in debug mode, compare it with those of the other ranks.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  on all ranks: shapes or element types differ; `text` has a table of them
 */
enum accel_status comm_verify_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor,
                                      struct accel_error *err);

/** The comparison for a tree, whose leaves are tensors and checked. */
enum accel_status comm_verify_tree (struct accel *acc, const struct comm_site *site, const struct accel_tree *tree,
                                    struct accel_error *err);

/** Before something collective: if @p status of one rank is an error, such as a want of memory, all ranks have one.  A
 * rank's own error stays; that of others is "@p what of rank N: ...".  Collective. */
enum accel_status comm_agree (struct accel_comm *comm, const struct comm_site *site, enum accel_status status,
                              const char *what, struct accel_error *err);

/**
 * Find the first of @p count numbers in which a rank differs from rank 0.  Collective.
 *
 * @param[out] index  the same on all ranks; @p count: there is none
 * @param[out] rank   the lowest that differs there
 */
enum accel_status comm_find_difference (struct accel_comm *comm, const struct comm_site *site, const int64_t *mine,
                                        size_t count, size_t *index, int *rank, struct accel_error *err);

/** Let all ranks know what rank 0 says (@p first), and what rank @p rank does.  Collective.  All texts are [size]. */
enum accel_status comm_share_texts (struct accel_comm *comm, const struct comm_site *site, const char *mine,
                                    char *first, char *other, size_t size, int rank, struct accel_error *err);

#endif
