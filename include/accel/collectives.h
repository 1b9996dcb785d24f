/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on more than one tensor of equal sizes: trees, objects of bytes, tensors whose sizes differ.
 *
 * All of them are collective, on the world of `acc`, and can fail as those of accel/comm.h do.  What is wrong with the
 * arguments of this process is found before anything is sent. */
#ifndef ACCEL_COLLECTIVES_H
#define ACCEL_COLLECTIVES_H

#include <accel/comm.h>
#include <accel/tree.h>

ACCEL_BEGIN_DECLS

/** An object: bytes of any kind, such as a string or what a program has serialised. */
struct accel_object {
    const void *data; /**< may be NULL where size_bytes is 0 */
    size_t size_bytes;
};

/** Objects that the library allocated, all at once; all zero is an empty list. */
struct accel_object_list {
    struct accel_object *items; /**< [count] */
    size_t count;
};

/** Free @p list and what its items point at, and empty it.  Accepts NULL and empty lists. */
ACCEL_API void accel_object_list_release (struct accel_object_list *list);

/**
 * Gather the objects of all ranks, those of rank 0 first: the original's gather_object, which joins lists.
 *
 * @param objects    [count]; how many, and how long they are, may differ between ranks, and may be 0
 * @param[out] list  the objects of all ranks; must be zeroed or an earlier output, which is released
 */
#define accel_gather_object(...) accel_gather_object_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_gather_object_at (const char *file, int line, struct accel *acc, const struct accel_object *objects,
                        size_t count, struct accel_object_list *list, struct accel_error *err);

/**
 * Copy the objects of rank @p from_process to all: the original's broadcast_object_list.
 *
 * @param objects    [count]; read on @p from_process only, elsewhere it may be NULL
 * @param count      the same on all ranks; where it is not, all get ACCEL_ERR_INVALID and nothing is broken
 * @param[out] list  copies of them, also on @p from_process; as of accel_gather_object()
 */
#define accel_broadcast_object_list(...) accel_broadcast_object_list_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_broadcast_object_list_at (const char *file, int line, struct accel *acc, const struct accel_object *objects,
                                size_t count, int from_process, struct accel_object_list *list,
                                struct accel_error *err);

/**
 * Send objects to one other rank, which need not know how many and how long they are: torch's send_object_list and
 * recv_object_list.  Of these two processes only; as accel_comm_send() and accel_comm_recv() otherwise.  A receiver
 * that has no memory for them gives up: it gets ACCEL_ERR_NOMEM, the sender ACCEL_ERR_PEER.
 *
 * @param objects    [count], which may be 0
 * @param[out] list  copies of them, as of accel_gather_object()  @{
 */
#define accel_send_object_list(...) accel_send_object_list_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_send_object_list_at (const char *file, int line, struct accel *acc, const struct accel_object *objects,
                           size_t count, int to_process, struct accel_error *err);

#define accel_recv_object_list(...) accel_recv_object_list_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_recv_object_list_at (const char *file, int line, struct accel *acc, int from_process,
                           struct accel_object_list *list, struct accel_error *err);
/** @} */

/**
 * Give object r to rank r.  (There is no reduce-scatter of objects: bytes cannot be reduced.)
 *
 * @param objects    [number of processes], one for each rank, also for this one; sizes may differ and be 0
 * @param[out] list  one from each rank, in their order; as of accel_gather_object()
 */
#define accel_all_to_all_object(...) accel_all_to_all_object_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_all_to_all_object_at (const char *file, int line, struct accel *acc, const struct accel_object *objects,
                            struct accel_object_list *list, struct accel_error *err);

/**
 * Make the tensors of all ranks equally long in @p dim, as long as the longest, so that they can be gathered.
 *
 * @param tensor     host memory; the same number of dimensions on all ranks
 * @param dim        counted from the end where negative; a tensor without it is copied as it is, and nothing is sent
 * @param pad_index  what to fill with; must be a value of the tensor's type; rounded where that is a float
 * @param pad_first  fill before the data, not after it
 * @param[out] out   a contiguous copy; must be zeroed or an earlier output, which is released
 */
#define accel_pad_across_processes(...) accel_pad_across_processes_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_pad_across_processes_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, int dim,
                               double pad_index, bool pad_first, struct accel_tensor *out, struct accel_error *err);

/**
 * Reduce the tensors of all ranks, and give each rank its part: the rows of rank r are the r-th of equal parts.
 *
 * @param tensor    host memory; the same shape and type on all ranks; its rows, the first dimension, are a multiple of
 *                  their number
 * @param[out] out  contiguous; must be zeroed or an earlier output, whose memory is kept where it is large enough
 */
#define accel_reduce_scatter(...) accel_reduce_scatter_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_reduce_scatter_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, enum accel_op op,
                         struct accel_tensor *out, struct accel_error *err);

/** Send the r-th of equal parts of the rows to rank r; @p out has the parts from all, in their order.  As above. */
#define accel_all_to_all(...) accel_all_to_all_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_all_to_all_at (const char *file, int line, struct accel *acc, const DLTensor *tensor, struct accel_tensor *out,
                     struct accel_error *err);

/**
 * Send a tensor to one other rank, which receives one of as many elements and the same type.  Of these two processes
 * only; as accel_comm_send() and accel_comm_recv() otherwise.  @{
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

/* On trees: the same for each tensor, in the order of the tree, which must be the same on all ranks.  A leaf of bytes
 * is ACCEL_ERR_INVALID with its place, as in the original, in all but send and receive. */

/** accel_gather() of every tensor.  @param[out] gathered  a tree of the same structure */
#define accel_tree_gather(...) accel_tree_gather_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_gather_at (const char *file, int line, struct accel *acc, struct accel_tree **gathered,
                      const struct accel_tree *tree, struct accel_error *err);

/** accel_gather_for_metrics() of every tensor: what the last round repeats is left out. */
#define accel_tree_gather_for_metrics(...) accel_tree_gather_for_metrics_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_gather_for_metrics_at (const char *file, int line, struct accel *acc, struct accel_tree **gathered,
                                  const struct accel_tree *tree, struct accel_error *err);

/**
 * accel_reduce_scaled() of a copy of every tensor.
 *
 * @param[out] reduced  a tree of the same structure; @p tree stays as it is
 * @param scale         1: nothing is multiplied
 */
#define accel_tree_reduce(...) accel_tree_reduce_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_reduce_at (const char *file, int line, struct accel *acc, struct accel_tree **reduced,
                      const struct accel_tree *tree, enum accel_op op, double scale, struct accel_error *err);

/** accel_broadcast() of every tensor, in place: also other trees that share their memory change. */
#define accel_tree_broadcast(...) accel_tree_broadcast_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_broadcast_at (const char *file, int line, struct accel *acc, struct accel_tree *tree, int from_process,
                         struct accel_error *err);

/** accel_reduce_scatter() of every tensor.  @param[out] scattered  a tree of the same structure */
#define accel_tree_reduce_scatter(...) accel_tree_reduce_scatter_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_reduce_scatter_at (const char *file, int line, struct accel *acc, struct accel_tree **scattered,
                              const struct accel_tree *tree, enum accel_op op, struct accel_error *err);

/** accel_all_to_all() of every tensor.  @param[out] exchanged  a tree of the same structure */
#define accel_tree_all_to_all(...) accel_tree_all_to_all_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_all_to_all_at (const char *file, int line, struct accel *acc, struct accel_tree **exchanged,
                          const struct accel_tree *tree, struct accel_error *err);

/** accel_pad_across_processes() of every tensor; those that are long enough share their memory with @p tree. */
#define accel_tree_pad_across_processes(...) accel_tree_pad_across_processes_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_pad_across_processes_at (const char *file, int line, struct accel *acc, struct accel_tree **padded,
                                    const struct accel_tree *tree, int dim, double pad_index, bool pad_first,
                                    struct accel_error *err);

/**
 * Send a tree to one other rank, which need not know its structure: that travels first, and leaves of bytes with it.
 * Of these two processes only; as accel_send_object_list() and accel_recv_object_list() otherwise.
 *
 * @param[out] tree  a new one with memory of its own, in the host's memory  @{
 */
#define accel_tree_send(...) accel_tree_send_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_send_at (const char *file, int line, struct accel *acc, const struct accel_tree *tree, int to_process,
                    struct accel_error *err);

#define accel_tree_recv(...) accel_tree_recv_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_tree_recv_at (const char *file, int line, struct accel *acc, struct accel_tree **tree, int from_process,
                    struct accel_error *err);
/** @} */

ACCEL_END_DECLS

#endif
