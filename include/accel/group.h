/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes: communicators for a subset of ranks, which all accel_comm_... functions accept. */
#ifndef ACCEL_GROUP_H
#define ACCEL_GROUP_H

#include <accel/comm.h>

ACCEL_BEGIN_DECLS

enum { ACCEL_MESH_NAME_SIZE = 32 /**< bytes of a dimension's name, with the 0 */ };

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

/** Free a group made by accel_comm_split(), without waiting.  Accepts NULL; does nothing to the world. */
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
