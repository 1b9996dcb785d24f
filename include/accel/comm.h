/* SPDX-License-Identifier: Apache-2.0 */
/* Communication: collectives on plain buffers (accel_comm_...), and on tensors under the names of Hugging Face
 * Accelerate.
 *
 * Buffers and tensors are in host memory, or on a device for which the job has an engine, such as the GPU of this rank
 * with engine nccl.  The address of a buffer says where it is: `send` and `recv` have to be in the same memory, and all
 * ranks have to pass memory of the same kind.  Outputs are where the input is.
 *
 * The engines "self" and "shm" reduce in rank order, and 16-bit floats in float32, so results depend only on the
 * inputs and the world size: they have the same bits on every run and on every rank. */
#ifndef ACCEL_COMM_H
#define ACCEL_COMM_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** Reductions: enum name, name in messages. */
#define ACCEL_OP_MAP(X) \
    X (SUM, "sum")      \
    X (AVG, "avg")      \
    X (MIN, "min")      \
    X (MAX, "max")      \
    X (PROD, "prod")

/** Booleans: SUM and MAX are "or", PROD and MIN are "and".  AVG is for floats and refused for other types. */
enum accel_op {
#define X(name, text) ACCEL_##name,
    ACCEL_OP_MAP (X)
#undef X
    ACCEL_OP_COUNT
};

/** A group of processes that communicate; accel_open() creates the world, which lives as long as `acc`. */
struct accel_comm;

/** @return the communicator of all processes; owned by @p acc. */
ACCEL_API struct accel_comm *accel_world (struct accel *acc);

/** @return this process's rank in @p comm. */
ACCEL_API int accel_comm_rank (const struct accel_comm *comm);

/** @return the number of processes in @p comm. */
ACCEL_API int accel_comm_size (const struct accel_comm *comm);

/** @return the name of the engine that moves the data, such as "self" or "shm"; valid until the process ends. */
ACCEL_API const char *accel_comm_engine (const struct accel_comm *comm);

/**
 * Order collectives on @p comm whose buffers are on this rank's GPU with a CUDA stream of its own: they come after what
 * the program has queued on it before, and what it queues there after a blocking call, or after accel_work_wait(),
 * comes after the collective.  So work on the device's stream (accel_set_stream()) need not wait for communication.
 *
 * This is for the accel_comm_... functions.  Those on tensors, trees and models stay on the device's stream, as do
 * groups that are split from @p comm, which have none of their own at first.  Each rank chooses for itself.
 *
 * The stream stays the program's; it must exist until the collectives on it are over, or until it is replaced.  Work in
 * flight keeps the one with which it was started.  Not for use during another call on @p comm.
 *
 * @param stream  of accel_device(), such as a cudaStream_t; 1: cudaStreamLegacy; NULL: the device's stream again
 * @retval ACCEL_ERR_INVALID      a number that is not one stream: cudaStreamPerThread, or DLPack's -1
 * @retval ACCEL_ERR_UNSUPPORTED  this job computes on the host
 * @retval ACCEL_ERR_SYSTEM       a stream of another GPU, or one that is being captured; the former one stays
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_comm_set_stream (struct accel_comm *comm, void *stream,
                                                                   struct accel_error *err);

/**
 * Change the longest wait for peers of calls on @p comm, from the next one on; a call that is waiting may get it, too.
 * Groups that are made of it later have it; those that exist keep theirs.  Each process chooses for itself.
 *
 * @param timeout_ms  at first that of accel_open(); not 0
 * @retval ACCEL_ERR_INVALID      it is 0, or @p comm is of a job that has been closed
 * @retval ACCEL_ERR_UNSUPPORTED  an engine of @p comm, which is a module, cannot change it
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_comm_set_timeout (struct accel_comm *comm, uint32_t timeout_ms,
                                                                    struct accel_error *err);

/**
 * Allocate memory that every process of the job on this host has mapped: collectives on it need no copy.  Not
 * collective; sizes and order may differ between processes.  Aligned to 64 bytes, zeroed.
 *
 * @param[out] memory  the new memory; free it with accel_free() before accel_close()
 * @retval ACCEL_ERR_NOMEM  the host is out of memory, or this process's share of the mapping is used up
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_alloc (struct accel *acc, size_t size_bytes, void **memory, struct accel_error *err);

/** Free memory from accel_alloc().  Accepts NULL. */
ACCEL_API void accel_free (struct accel *acc, void *memory);

/* Collectives on buffers.  `send` and `recv` may be equal (in place) but must not overlap otherwise; a count of 0 is
 * allowed and still synchronizes.  All of them can fail with
 *   ACCEL_ERR_PEER     a peer died, left, or made another call; `text` names the rank, and file and line of both sides
 *   ACCEL_ERR_TIMEOUT  a peer did not arrive within the timeout; `text` names it and what it did last
 *   ACCEL_ERR_INVALID  this process's arguments are wrong; nothing was sent
 * After the first two, the communicator is broken: each later call fails at once with the same text. */

/** Wait for all processes.  Collective. */
#define accel_comm_barrier(...) accel_comm_barrier_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_barrier_at (const char *file, int line, struct accel_comm *comm, struct accel_error *err);

/**
 * Reduce element by element over all ranks; every rank gets the result.  Collective.
 *
 * @param send   [count], read only
 * @param recv   [count]
 * @param count  equal on all ranks
 */
#define accel_comm_all_reduce(...) accel_comm_all_reduce_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_all_reduce_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                          size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err);

/**
 * Gather @p count elements from each rank.  Collective.
 *
 * @param send  [count]; may be `recv + rank * count` (in place)
 * @param recv  [size, count], row r from rank r
 */
#define accel_comm_all_gather(...) accel_comm_all_gather_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_all_gather_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                          size_t count, enum accel_dtype dtype, struct accel_error *err);

/**
 * Copy rank @p root's buffer to all ranks.  Collective.
 *
 * @param buffer  [count], read on root, written elsewhere
 */
#define accel_comm_broadcast(...) accel_comm_broadcast_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_broadcast_at (const char *file, int line, struct accel_comm *comm, void *buffer, size_t count,
                         enum accel_dtype dtype, int root, struct accel_error *err);

/**
 * Reduce, and give each rank its row of the result.  Collective.
 *
 * @param send   [size, count], read only
 * @param recv   [count]: row `rank` of the reduction; may be `send + rank * count` (in place)
 * @param count  elements of one row
 */
#define accel_comm_reduce_scatter(...) accel_comm_reduce_scatter_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_reduce_scatter_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                              size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err);

/**
 * Exchange rows: row r of @p recv is row `rank` of rank r's @p send.  Collective.
 *
 * @param send   [size, count], read only; not @p recv
 * @param recv   [size, count]
 * @param count  elements of one row
 */
#define accel_comm_all_to_all(...) accel_comm_all_to_all_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_all_to_all_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                          size_t count, enum accel_dtype dtype, struct accel_error *err);

/**
 * Send to rank @p to, which must receive the same number of elements of the same type; messages between two ranks keep
 * their order.  Returns when the receiver has all of them, whatever their number: if ranks all send before they
 * receive, they wait for each other, which is detected and is ACCEL_ERR_PEER.  Not collective: only the two ranks are
 * involved.
 *
 * @param send  [count], read only
 * @param to    another rank
 */
#define accel_comm_send(...) accel_comm_send_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_send_at (const char *file, int line, struct accel_comm *comm, const void *send, size_t count,
                    enum accel_dtype dtype, int to, struct accel_error *err);

/** Receive the data that rank @p from sends.  @param recv  [count].  @param from  another rank.  Not collective. */
#define accel_comm_recv(...) accel_comm_recv_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_recv_at (const char *file, int line, struct accel_comm *comm, void *recv, size_t count,
                    enum accel_dtype dtype, int from, struct accel_error *err);

/* Under Accelerate's names, on the world of `acc`. */

/** Wait for all processes.  Collective. */
#define accel_wait_for_everyone(...) accel_wait_for_everyone_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_wait_for_everyone_at (const char *file, int line, struct accel *acc, struct accel_error *err);

/**
 * Concatenate the tensors of all ranks along dimension 0, in rank order; 0-d tensors become one row each.  Collective.
 *
 * @param tensor    the same shape and dtype on all ranks; strides may differ
 * @param[out] out  [P * d0, d1, ...]; must be zeroed or an earlier output, whose memory is reused if it fits; release
 *                  it with accel_tensor_release()
 */
#define accel_gather(...) accel_gather_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_gather_at (const char *file, int line, struct accel_tensor *out, struct accel *acc, const DLTensor *tensor,
                 struct accel_error *err);

/**
 * accel_gather() without the samples that were repeated to make the last round of the active prepared loader even: in
 * the last batch of an epoch, only the first `remainder` rows are kept.  Collective.
 */
#define accel_gather_for_metrics(...) accel_gather_for_metrics_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_gather_for_metrics_at (const char *file, int line, struct accel_tensor *out, struct accel *acc,
                             const DLTensor *tensor, struct accel_error *err);

/**
 * Reduce @p tensor over all ranks, in place, and multiply the result by @p scale.  Collective.
 *
 * @param tensor  the same shape and dtype on all ranks; strides may differ, none may be 0
 * @param scale   the same on all ranks; 1: nothing is multiplied; others for floats only.  (Accelerate's takes effect
 *                on TPUs only.)
 */
#define accel_reduce(...) accel_reduce_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_reduce_at (const char *file, int line, struct accel *acc, DLTensor *tensor, enum accel_op op, double scale,
                 struct accel_error *err);

/**
 * Reduce one number over all ranks, such as a loss or a count.  Whole numbers up to 2^53 are exact.  Collective.
 *
 * For a float in place: accel_comm_all_reduce (accel_world (acc), &x, &x, 1, ACCEL_FLOAT32, ACCEL_AVG, &err).
 *
 * @param[in,out] number  this rank's; then the result, the same on all ranks
 */
#define accel_reduce_number(...) accel_reduce_number_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_reduce_number_at (const char *file, int line, struct accel *acc, double *number, enum accel_op op,
                        struct accel_error *err);

/** Copy rank @p from_process's tensor to all ranks, in place.  Collective.  Conditions as for accel_reduce(). */
#define accel_broadcast(...) accel_broadcast_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_broadcast_at (const char *file, int line, struct accel *acc, DLTensor *tensor, int from_process,
                    struct accel_error *err);

/**
 * Run @p task on rank 0 first, then on all others at the same time.  Collective.
 *
 * Unlike in Accelerate, no process waits for ever if the task ends the main process: the others get ACCEL_ERR_PEER.
 */
#define accel_main_process_first(...) accel_main_process_first_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_main_process_first_at (const char *file, int line, struct accel *acc, accel_task task, void *user,
                             struct accel_error *err);

/** The same with local rank 0 of each host first; waits for all hosts, as in Accelerate.  Collective. */
#define accel_local_main_process_first(...) accel_local_main_process_first_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_main_process_first_at (const char *file, int line, struct accel *acc, accel_task task, void *user,
                                   struct accel_error *err);

/**
 * Check whether any process has called accel_set_trigger() since the last check that returned true; if so, the flag is
 * lowered on every process.  Collective.
 *
 * @param[out] fired  the answer, the same on all ranks
 */
#define accel_check_trigger(...) accel_check_trigger_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_check_trigger_at (const char *file, int line, struct accel *acc, bool *fired, struct accel_error *err);

ACCEL_END_DECLS

#endif
