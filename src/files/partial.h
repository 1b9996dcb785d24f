/* SPDX-License-Identifier: Apache-2.0 */
/* A large file that appears under its path complete or not at all: written beside it, synced and renamed.  Small ones
 * are written with io_write_file(). */
#ifndef FILES_PARTIAL_H
#define FILES_PARTIAL_H

#include <accel/base.h>

/** All zero but `fd` -1 is none. */
struct partial {
    int fd;
    char *path;   /* where it will appear */
    char *beside; /* where it is; NULL once it is finished */
};

#define PARTIAL_NONE { .fd = -1 }

/**
 * Create a file of @p size bytes, all 0, beside @p path: "DIR/.NAME.PID-N.partial".  If @p path is a symbolic link,
 * what it leads to will be replaced; a file that exists passes on its mode.  Unfinished files of this path that killed
 * processes left are removed.  A disk without enough space fails here.
 *
 * @param in_place  create @p path itself, removing a former file: the caller renames it, or its directory, later
 */
enum accel_status partial_create (struct partial *partial, const char *path, bool in_place, uint64_t size,
                                  struct accel_error *err);

/** Write at @p offset; any number of threads. */
enum accel_status partial_write (const struct partial *partial, uint64_t offset, const void *bytes, size_t length,
                                 struct accel_error *err);

/** Sync the file, and give it its path.  The new name is on disk if the directory is synced, too. */
enum accel_status partial_finish (struct partial *partial, struct accel_error *err);

/** Remove the file, unless it is finished.  Preserves errno. */
void partial_close (struct partial *partial);

#endif
