/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that do not block: start one, compute, and wait for it.
 *
 *   accel_comm_all_reduce_start (&work, comm, grad, grad, count, ACCEL_FLOAT32, ACCEL_AVG, &err);
 *   ... compute something else ...
 *   accel_work_wait (work, &err);
 *
 * Buffers are in host memory, or on a device, as in accel/comm.h.  Any number may be in flight; wait for them in any
 * order.  The results have the same bits as those of blocking calls.
 *
 * On one communicator, all ranks must start the same collectives in the same order, which is also the order in which
 * they run; blocking calls count too: one that is made while work is in flight runs after it.  Ranks that start a
 * collective match those that make the blocking call of it.  Different communicators do not wait for each other in host
 * memory; on a GPU, all their collectives have one order (accel_device(3)): there, a start first waits until what was
 * started before on any communicator of the process has been launched, which behind calls in host memory takes as long
 * as other ranks take to come to those.
 *
 * From the start until accel_work_wait() returns, the program must not write `send`, and must not read or write `recv`.
 *
 * On a GPU with engine nccl, the host waits neither for the GPU nor, once NCCL has connected the ranks in their first
 * collective, for other ranks.  A collective comes after what the program has queued on its stream before
 * (accel_set_stream()).  accel_work_wait() returns when NCCL has queued the collective, which it does in a thread of
 * its own, in microseconds; what is queued on the stream from then on comes after the collective.  Blocking calls are
 * ordered in the same way.  What fails later is the error of the next call on the communicator;
 * accel_work_synchronize() waits on the host.
 *
 * Errors are those of blocking calls, with the file and line of the start.  Wrong arguments fail in the start; peers
 * that died or called something else, and timeouts, in accel_work_wait().  After those, the communicator is broken:
 * other work in flight fails with the same text, as do later starts.
 *
 * With the engine "shm", the first start on a communicator makes a thread, which runs the work and sleeps without any;
 * it takes part of a processor.  Programs that start nothing have no such thread.  On a communicator of one process,
 * the start itself does the work.
 *
 * accel_close() and accel_comm_destroy() finish work in flight, which takes at most the timeout, and free what was not
 * waited for.  In a child of fork(), the parent's work cannot be waited for: the parent completes it.
 *
 * Starts between accel_group_begin() and accel_group_end() run as one.
 *
 * There is no start for messages between two ranks: work runs in order, so ranks that send to each other before they
 * receive would wait for each other. */
#ifndef ACCEL_WORK_H
#define ACCEL_WORK_H

#include <accel/comm.h>

ACCEL_BEGIN_DECLS

/** A collective that was started. */
struct accel_work;

/** accel_comm_barrier(), started: over when all processes have started it.  Collective. */
#define accel_comm_barrier_start(...) accel_comm_barrier_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_barrier_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                             struct accel_error *err);

/**
 * accel_comm_all_reduce(), started.  Collective.
 *
 * @param[out] work  for accel_work_wait(), which frees it; NULL on failure
 * @retval ACCEL_ERR_INVALID  this process's arguments are wrong; nothing was sent
 * @retval ACCEL_ERR_NOMEM, ACCEL_ERR_SYSTEM  no memory, or no thread; nothing was sent, and the call may be repeated
 * @retval ACCEL_ERR_PEER, ACCEL_ERR_TIMEOUT  the communicator is broken; `text` says since when
 */
#define accel_comm_all_reduce_start(...) accel_comm_all_reduce_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_all_reduce_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                const void *send, void *recv, size_t count, enum accel_dtype dtype, enum accel_op op,
                                struct accel_error *err);

/** accel_comm_all_gather(), started.  Collective. */
#define accel_comm_all_gather_start(...) accel_comm_all_gather_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_all_gather_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                const void *send, void *recv, size_t count, enum accel_dtype dtype,
                                struct accel_error *err);

/** accel_comm_broadcast(), started.  Collective. */
#define accel_comm_broadcast_start(...) accel_comm_broadcast_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_broadcast_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                               void *buffer, size_t count, enum accel_dtype dtype, int root, struct accel_error *err);

/** accel_comm_reduce_scatter(), started.  Collective. */
#define accel_comm_reduce_scatter_start(...) accel_comm_reduce_scatter_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_reduce_scatter_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                    const void *send, void *recv, size_t count, enum accel_dtype dtype,
                                    enum accel_op op, struct accel_error *err);

/** accel_comm_all_to_all(), started.  Collective. */
#define accel_comm_all_to_all_start(...) accel_comm_all_to_all_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_all_to_all_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                const void *send, void *recv, size_t count, enum accel_dtype dtype,
                                struct accel_error *err);

/**
 * Open a group on @p comm: what is started on it from now on begins at accel_group_end(), and an engine that can runs
 * it as one.  With engine nccl, all of it is one launch of NCCL's, as between ncclGroupStart() and ncclGroupEnd().
 *
 * Until then, collectives may be started on @p comm, and nothing else: blocking calls on it (also those of the library,
 * such as accel_gather() or accel_backward() on the world), waiting for work of the group, and a second group are
 * ACCEL_ERR_INVALID.  Other communicators, and work that was started before, may be used as always.  A buffer that one
 * collective of a group writes must not be one that another reads or writes, because they have no order among
 * themselves.  All ranks must open and end groups around the same starts.
 *
 * Not collective: it sends nothing.  One thread makes the calls from here to accel_group_end().  accel_close() and
 * accel_comm_destroy() end a group that is open.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_group_begin (struct accel_comm *comm, struct accel_error *err);

/**
 * End the group, so that what was started in it begins: on a GPU, after what has been queued on its stream by now.
 * Does not wait for other ranks, except as a start does.  What goes wrong is the outcome of each work.
 *
 * @retval ACCEL_ERR_INVALID  no group is open on @p comm
 * @retval ACCEL_ERR_SYSTEM, ACCEL_ERR_NOMEM  an earlier error of the GPU, or its stream is being captured into a CUDA
 *                            graph: the group is still open, and the call may be repeated
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_group_end (struct accel_comm *comm, struct accel_error *err);

/**
 * Wait until @p work is over, on a GPU on its stream, and free it, whatever the outcome.  Any thread, but only once.
 *
 * @retval ACCEL_ERR_PEER, ACCEL_ERR_TIMEOUT  as for a blocking call; the buffers are undefined
 * @retval ACCEL_ERR_INVALID  not a work that the program may wait for; nothing was freed
 * @retval ACCEL_ERR_SYSTEM, ACCEL_ERR_NOMEM  an earlier error of the GPU, or its stream is being captured into a CUDA
 *                            graph: nothing was freed, and the call may be repeated
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_work_wait (struct accel_work *work, struct accel_error *err);

/** The same on the host, also on a GPU: the results are there.  Instead of accel_work_wait(). */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_work_synchronize (struct accel_work *work, struct accel_error *err);

/**
 * Whether @p work is over: accel_work_synchronize() would return at once; does not wait.  Any thread.
 *
 * @param[out] done  whether the work is over, successfully or not: it still has to be waited for
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_work_test (struct accel_work *work, bool *done,
                                                             struct accel_error *err);

ACCEL_END_DECLS

#endif
