/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives for the library's own use: the public ones with the call site, and the public call's name, as a struct.
 * Everything public ends here, so that each call is checked, noted in the ledger and dispatched in one place. */
#ifndef LIB_COMM_PRIVATE_H
#define LIB_COMM_PRIVATE_H

#include <accel/comm.h>

#include "lib/base/site.h"
#include "lib/memory/memory.h"

/** Whether @p op and @p scale are defined for @p dtype. */
enum accel_status comm_check_reduction (const struct comm_site *site, enum accel_dtype dtype, enum accel_op op,
                                        double scale, struct accel_error *err);

enum accel_status comm_barrier (struct accel_comm *comm, const struct comm_site *site, struct accel_error *err);

enum accel_status comm_all_reduce (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv,
                                   size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err);

/** Start the library's own average of @p data, in place, also while @p comm is reserved.
 *  @param[out] work  for accel_work_wait(); NULL on failure */
enum accel_status comm_start_all_reduce (struct accel_comm *comm, const struct comm_site *site, void *data,
                                         size_t count, enum accel_dtype dtype, enum accel_op op,
                                         struct accel_work **work, struct accel_error *err);

enum accel_status comm_all_gather (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv,
                                   size_t count, enum accel_dtype dtype, struct accel_error *err);

enum accel_status comm_broadcast (struct accel_comm *comm, const struct comm_site *site, void *buffer, size_t count,
                                  enum accel_dtype dtype, int root, struct accel_error *err);

enum accel_status comm_reduce_scatter (struct accel_comm *comm, const struct comm_site *site, const void *send,
                                       void *recv, size_t count, enum accel_dtype dtype, enum accel_op op,
                                       struct accel_error *err);

enum accel_status comm_all_to_all (struct accel_comm *comm, const struct comm_site *site, const void *send, void *recv,
                                   size_t count, enum accel_dtype dtype, struct accel_error *err);

enum accel_status comm_send (struct accel_comm *comm, const struct comm_site *site, const void *send, size_t count,
                             enum accel_dtype dtype, int to, struct accel_error *err);

enum accel_status comm_recv (struct accel_comm *comm, const struct comm_site *site, void *recv, size_t count,
                             enum accel_dtype dtype, int from, struct accel_error *err);

__attribute__ ((cold)) enum accel_status comm_place_on_device (struct comm_site *site,
                                                               const struct accel_comm *comm, const void *send,
                                                               const void *recv, struct accel_error *err);

/** Where libaccel has no code for devices: refuse buffers that are on one. */
enum accel_status comm_place_on_host (const struct comm_site *site, const void *send, const void *recv,
                                      struct accel_error *err);

/**
 * Note in @p site where the program's buffers are, and the stream of @p comm there.  Those that are NULL are anywhere.
 *
 * @retval ACCEL_ERR_INVALID      they are in memory of two kinds, or of two devices
 * @retval ACCEL_ERR_UNSUPPORTED  they are on a GPU, but the job computes on CPUs
 */
static inline enum accel_status
comm_place (struct comm_site *site, const struct accel_comm *comm, const void *send, const void *recv,
            struct accel_error *why)
{
    bool none = !__atomic_load_n (&memory_device_kinds, __ATOMIC_ACQUIRE);
    return __builtin_expect (none, true) ? comm_place_on_host (site, send, recv, why)
                                         : comm_place_on_device (site, comm, send, recv, why);
}

/** The name of the engine that moves data in host memory; static. */
const char *comm_engine_name (const struct accel_comm *comm);

/** Memory on @p device, zeroed, that makes collectives fast: accel_alloc().  @{ */
enum accel_status comm_alloc (struct accel_comm *comm, DLDevice device, void **memory, size_t bytes,
                              struct accel_error *err);
void comm_free (struct accel_comm *comm, DLDevice device, void *memory);
/** @} */

/**
 * Note a call in the ledger that is not a collective, but may take long: ranks that wait for this one see it.
 *
 * @param count  what the call is about, such as a number of a batch
 * @return for comm_note_end(); 0 if nothing is recorded
 */
uint64_t comm_note_begin (struct accel_comm *comm, const struct comm_site *site, size_t count);
void comm_note_end (struct accel_comm *comm, uint64_t sequence);

/** Tell the launcher that a call has failed on all ranks because of one.
 *
 * @param failure  enum jobseg_failure
 * @param left     how many collectives this call will still make
 * @param text     with the call and its place */
void comm_note_failure (struct accel_comm *comm, unsigned failure, unsigned left, const char *text);

/**
 * While a communicator is reserved, collectives of the program over it are errors; those over its groups, and work in
 * flight, continue.  For a backward pass, whose gradients may be averaged meanwhile.
 */
void comm_reserve (struct accel_comm *comm, bool reserved);

/** Refuse @p site in a child of fork(), whose parent is the member of @p comm.  One of a single process serves both. */
enum accel_status comm_check_process (const struct accel_comm *comm, const struct comm_site *site,
                                      struct accel_error *err);

/** @return why nothing can be called on @p comm: it has ended, or what it is a group of.  NULL: neither has */
const char *comm_why_gone (const struct accel_comm *comm);

/** Tell the peers that this rank cannot continue; a rank that waits for it gets ACCEL_ERR_PEER with @p reason. */
void comm_give_up (struct accel_comm *comm, const char *reason);

/**
 * @p owner has failed, but may try again.  Until comm_clear_failure(), the next collective of this rank, or its end,
 * gives up with @p reason: peers wait for as long as it tries, and never take part in a step that lacks something.  The
 * first failure counts.
 */
void comm_defer_failure (struct accel_comm *comm, const void *owner, const char *reason);

/** @p owner has recovered from its failure, if it had one. */
void comm_clear_failure (struct accel_comm *comm, const void *owner);

/** @p owner goes away: give up if its failure is deferred. */
void comm_raise_failure (struct accel_comm *comm, const void *owner);

#endif
