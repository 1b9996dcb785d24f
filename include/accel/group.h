/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes: communicators for a subset of ranks, which all accel_comm_... functions accept. */
#ifndef ACCEL_GROUP_H
#define ACCEL_GROUP_H

#include <accel/comm.h>

ACCEL_BEGIN_DECLS

enum {
    ACCEL_MESH_NAME_SIZE = 32, /**< bytes of a dimension's name, with the 0 */
    ACCEL_GROUP_ID_BYTES = 64, /**< bytes of a group's id */
};

/**
 * Split @p comm: processes with the same colour form a group.  Collective over @p comm.
 *
 * With engine shm, the shared memory of a group is released only by accel_close(), so create groups once; see
 * accel_engine(3) for the others.  A failure in a group breaks this process's membership like a failure in the world.
 * Messages name ranks by their number in the world.
 *
 * @param colour      negative: in no group
 * @param key         orders the ranks of the group; equal keys keep the order of @p comm
 * @param[out] group  for accel_comm_destroy(); NULL for a negative colour.  Calls on it fail with ACCEL_ERR_INVALID
 *                    after accel_close(), or after @p comm has been destroyed
 */
#define accel_comm_split(...) accel_comm_split_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_split_at (const char *file, int line, struct accel_comm **group, struct accel_comm *comm, int colour,
                     int key, struct accel_error *err);

/**
 * Choose an id with which @p size processes of @p comm can make a group.  One of them calls this, and the program
 * brings the id to the others, by whatever means it has: a message, a file, the store of torch.distributed.  For
 * programs whose other processes do not take part, as accel_comm_split() demands.  Not collective, sends nothing.
 *
 * With engine shm, the id has memory for the group, which only accel_close() releases.
 *
 * @param[out] id  [ACCEL_GROUP_ID_BYTES] bytes, for one group
 * @retval ACCEL_ERR_UNSUPPORTED  an engine of this job makes groups with all ranks only, such as nccl
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_get_id (struct accel_comm *comm, int size, unsigned char *id, struct accel_error *err);

/**
 * Make the group of @p id.  Each of its members calls this, in any order and at any time: it does not wait.  The first
 * collective on the group does.
 *
 * Different threads may use groups made in this way at the same time; each group, and the making of groups, is for one
 * thread at a time.  Otherwise they are like those of accel_comm_split().
 *
 * @param[out] group  for accel_comm_destroy()
 * @param id          [ACCEL_GROUP_ID_BYTES] bytes, from accel_comm_get_id() on the same communicator in another process
 * @param ranks       [size], in @p comm: rank i of the group is ranks[i].  The same on all members
 * @param size        that for which the id was made
 * @retval ACCEL_ERR_INVALID  an id of another communicator or size, or this process is not one of @p ranks
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_from_id (struct accel_comm **group, struct accel_comm *comm, const unsigned char *id, const int *ranks,
                    int size, struct accel_error *err);

/**
 * Give up @p comm: calls and work in flight on it, on other threads too, end within a second with ACCEL_ERR_PEER, as
 * do those of its other processes, whose messages have the reason.  Like every failure, that of a group breaks this
 * process's membership of the world too.  Nothing is freed.  Any thread.  Does not wait.  Accepts NULL.
 *
 * @param reason  a clause for messages: "the user pressed q"; NULL: that this was called
 */
ACCEL_API void accel_comm_abort (struct accel_comm *comm, const char *reason);

/** Free a group made by accel_comm_split() or accel_comm_from_id().  Waits only for calls and work on it, also those of
 *  other threads, which accel_comm_abort() ends.  Accepts NULL; does nothing to the world. */
ACCEL_API void accel_comm_destroy (struct accel_comm *comm);

/** All processes, arranged as a grid with named dimensions such as "dp" and "tp". */
struct accel_mesh;

/**
 * Arrange all processes as a grid, row by row: neighbours along the last dimension have consecutive ranks.  Collective.
 *
 * @param names  [ndim], distinct
 * @param sizes  [ndim]; their product is the number of processes
 */
#define accel_mesh_create(...) accel_mesh_create_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_mesh_create_at (const char *file, int line, struct accel_mesh **mesh, struct accel *acc, const char *const *names,
                      const int *sizes, int ndim, struct accel_error *err);

/**
 * The group of processes that differ from this one in dimension @p name only; a rank in it is the coordinate.
 *
 * @return owned by @p mesh; NULL if there is no such dimension
 */
ACCEL_API struct accel_comm *accel_mesh_comm (const struct accel_mesh *mesh, const char *name);

/** Free @p mesh and its groups.  Accepts NULL. */
ACCEL_API void accel_mesh_destroy (struct accel_mesh *mesh);

ACCEL_END_DECLS

#endif
