/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes: communicators of some of a communicator's ranks, on which all of accel_comm_... works. */
#ifndef ACCEL_GROUP_H
#define ACCEL_GROUP_H

#include <accel/comm.h>

ACCEL_BEGIN_DECLS

enum { ACCEL_MESH_NAME_SIZE = 32 /**< bytes of a dimension's name, with the 0 */ };

/**
 * Split @p comm: processes of one colour make a group.  Collective over @p comm.
 *
 * The shared memory of a group is given back by accel_close() only, so make groups once.  A failure in a group breaks
 * this process's membership as one in the world does.  Ranks in messages are those of the world.
 *
 * @param colour      negative: in no group
 * @param key         ranks in the group are in its order, and in that of @p comm where it is equal
 * @param[out] group  for accel_comm_destroy(); calls on it fail with ACCEL_ERR_INVALID after accel_close(), or once
 *                    @p comm has been destroyed.  NULL for a negative colour
 */
#define accel_comm_split(...) accel_comm_split_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_comm_split_at (const char *file, int line, struct accel_comm *comm, int colour, int key,
                     struct accel_comm **group, struct accel_error *err);

/** Free a group of accel_comm_split(); waits for nobody.  Accepts NULL, and leaves the world alone. */
ACCEL_API void accel_comm_destroy (struct accel_comm *comm);

/** All processes in a grid of named dimensions, such as "dp" and "tp". */
struct accel_mesh;

/**
 * Lay all processes out as a grid, row by row: neighbours along the last dimension have neighbouring ranks.
 * Collective.
 *
 * @param names  [ndim], distinct
 * @param sizes  [ndim], whose product is the number of processes
 */
#define accel_mesh_create(...) accel_mesh_create_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_mesh_create_at (const char *file, int line, struct accel *acc, const char *const *names, const int *sizes,
                      int ndim, struct accel_mesh **mesh, struct accel_error *err);

/**
 * The group of those processes that differ from this one in dimension @p name only; a rank in it is the coordinate.
 *
 * @return owned by @p mesh; NULL where there is no such dimension
 */
ACCEL_API struct accel_comm *accel_mesh_comm (const struct accel_mesh *mesh, const char *name);

/** Free @p mesh and its groups.  Accepts NULL. */
ACCEL_API void accel_mesh_destroy (struct accel_mesh *mesh);

ACCEL_END_DECLS

#endif
