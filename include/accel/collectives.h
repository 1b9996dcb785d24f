/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on more than tensors of equal sizes: on trees, on objects made of bytes, and on tensors of different
 * sizes.  Tensors may be where those of accel/comm.h may; objects and bytes are in host memory.
 *
 * All of them are collective, on the world of `acc`, and can fail like those of accel/comm.h.  This process's arguments
 * are checked before anything is sent. */
#ifndef ACCEL_COLLECTIVES_H
#define ACCEL_COLLECTIVES_H

#include <accel/comm.h>
#include <accel/tree.h>

ACCEL_BEGIN_DECLS

/** An object: any bytes, such as a string or data that a program has serialized. */
struct accel_object {
    const void *data; /**< may be NULL if size_bytes is 0 */
    size_t size_bytes;
};

/** Objects allocated by the library in one block; all zero is an empty list. */
struct accel_object_list {
    struct accel_object *items; /**< [count] */
    size_t count;
};

/** Free @p list and the data of its items, and make it empty.  Accepts NULL and empty lists. */
ACCEL_API void accel_object_list_release (struct accel_object_list *list);

/**
 * Gather the objects of all ranks, in rank order: gather_object of Hugging Face Accelerate, which joins lists.
 *
 * @param objects    [count]; their number and sizes may differ between ranks, and may be 0
 * @param[out] list  the objects of all ranks; must be zeroed or an earlier output, which is released
 */
#define accel_gather_object(...) accel_gather_object_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_gather_object_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                        const struct accel_object *objects, size_t count, struct accel_error *err);

/**
 * Copy the objects of rank @p from_process to all ranks: Accelerate's broadcast_object_list.
 *
 * @param objects    [count]; read on @p from_process only, may be NULL elsewhere
 * @param count      the same on all ranks; otherwise all get ACCEL_ERR_INVALID, and the communicator stays usable
 * @param[out] list  copies of them, also on @p from_process; as for accel_gather_object()
 */
#define accel_broadcast_object_list(...) accel_broadcast_object_list_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_broadcast_object_list_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                                const struct accel_object *objects, size_t count, int from_process,
                                struct accel_error *err);

/**
 * Send objects to one other rank, which need not know their number and sizes: torch's send_object_list and
 * recv_object_list.  Only these two processes are involved; otherwise like accel_comm_send() and accel_comm_recv().  A
 * receiver without enough memory gives up: it gets ACCEL_ERR_NOMEM, the sender ACCEL_ERR_PEER.
 *
 * @param objects    [count], which may be 0
 * @param[out] list  copies of them, as for accel_gather_object()  @{
 */
#define accel_send_object_list(...) accel_send_object_list_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_send_object_list_at (const char *file, int line, struct accel *acc, const struct accel_object *objects,
                           size_t count, int to_process, struct accel_error *err);

#define accel_recv_object_list(...) accel_recv_object_list_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_recv_object_list_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                           int from_process, struct accel_error *err);
/** @} */

/**
 * Send object r to rank r.  (There is no reduce-scatter of objects, because bytes cannot be reduced.)
 *
 * @param objects    [number of processes], one for each rank, including this one; sizes may differ and be 0
 * @param[out] list  one from each rank, in rank order; as for accel_gather_object()
 */
#define accel_all_to_all_object(...) accel_all_to_all_object_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_all_to_all_object_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                            const struct accel_object *objects, struct accel_error *err);

/**
 * Pad the tensors of all ranks to the length of the longest one in @p dim, so that they can be gathered.
 *
 * @param tensor     the same number of dimensions on all ranks
 * @param dim        counted from the end if negative; a tensor without it is copied unchanged, and nothing is sent
 * @param pad_index  the padding; must be a value of the tensor's type; rounded if that is a float
 * @param pad_first  pad before the data, not after it
 * @param[out] out   a contiguous copy; must be zeroed or an earlier output, which is released
 */
#define accel_pad_across_processes(...) accel_pad_across_processes_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_pad_across_processes_at (const char *file, int line, struct accel_tensor *out, struct accel *acc,
                               const DLTensor *tensor, int dim, double pad_index, bool pad_first,
                               struct accel_error *err);

/**
 * Reduce the tensors of all ranks, and give each rank its part: rank r gets the r-th of equal parts of the rows.
 *
 * @param tensor    the same shape and type on all ranks; its number of rows (dimension 0) must be a
 *                  multiple of the number of ranks
 * @param[out] out  contiguous; must be zeroed or an earlier output, whose memory is reused if it is large enough
 */
#define accel_reduce_scatter(...) accel_reduce_scatter_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_reduce_scatter_at (const char *file, int line, struct accel_tensor *out, struct accel *acc,
                         const DLTensor *tensor, enum accel_op op, struct accel_error *err);

/**
 * Send the r-th of equal parts of the rows to rank r; @p out contains the parts from all, in rank order.  Conditions as
 * above.
 */
#define accel_all_to_all(...) accel_all_to_all_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_all_to_all_at (const char *file, int line, struct accel_tensor *out, struct accel *acc, const DLTensor *tensor,
                     struct accel_error *err);

/**
 * Send a tensor to one other rank, which receives one with the same number of elements and the same type.  Only these
 * two processes are involved; otherwise like accel_comm_send() and accel_comm_recv().  @{
 */
#define accel_send(...) accel_send_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_send_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, int to_process,
               struct accel_error *err);

#define accel_recv(...) accel_recv_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_recv_at (const char *file, int line, struct accel *acc, DLTensor *tensor, int from_process,
               struct accel_error *err);
/** @} */

/* On trees: the same for each tensor, in the order of the tree, which must be the same on all ranks.  Except in send
 * and receive, a leaf of bytes is ACCEL_ERR_INVALID with its place, as in Accelerate. */

/** accel_gather() of every tensor.  @param[out] gathered  a tree of the same structure */
#define accel_tree_gather(...) accel_tree_gather_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_gather_at (const char *file, int line, struct accel_tree **gathered, struct accel *acc,
                      const struct accel_tree *tree, struct accel_error *err);

/** accel_gather_for_metrics() of every tensor: without what the last round repeats. */
#define accel_tree_gather_for_metrics(...) accel_tree_gather_for_metrics_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_gather_for_metrics_at (const char *file, int line, struct accel_tree **gathered, struct accel *acc,
                                  const struct accel_tree *tree, struct accel_error *err);

/**
 * accel_reduce() of a copy of every tensor.
 *
 * @param[out] reduced  a tree of the same structure; @p tree stays as it is
 * @param scale         1: nothing is multiplied
 */
#define accel_tree_reduce(...) accel_tree_reduce_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_reduce_at (const char *file, int line, struct accel_tree **reduced, struct accel *acc,
                      const struct accel_tree *tree, enum accel_op op, double scale, struct accel_error *err);

/** accel_broadcast() of every tensor, in place: other trees that share their memory change too. */
#define accel_tree_broadcast(...) accel_tree_broadcast_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_broadcast_at (const char *file, int line, struct accel *acc, struct accel_tree *tree, int from_process,
                         struct accel_error *err);

/** accel_pad_across_processes() of every tensor; those that are long enough share their memory with @p tree. */
#define accel_tree_pad_across_processes(...) accel_tree_pad_across_processes_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_pad_across_processes_at (const char *file, int line, struct accel_tree **padded, struct accel *acc,
                                    const struct accel_tree *tree, int dim, double pad_index, bool pad_first,
                                    struct accel_error *err);

/**
 * Send a tree to one other rank, which need not know its structure: that is sent first, together with leaves of bytes.
 * Only these two processes are involved; otherwise like accel_send_object_list() and accel_recv_object_list().
 *
 * @param[out] tree  a new tree with its own memory on the host  @{
 */
#define accel_tree_send(...) accel_tree_send_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_send_at (const char *file, int line, struct accel *acc, const struct accel_tree *tree, int to_process,
                    struct accel_error *err);

#define accel_tree_recv(...) accel_tree_recv_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_recv_at (const char *file, int line, struct accel_tree **tree, struct accel *acc, int from_process,
                    struct accel_error *err);
/** @} */

ACCEL_END_DECLS

#endif
