/* SPDX-License-Identifier: Apache-2.0 */
/* A large file that appears under its path complete or not at all: written beside it, synced and renamed.  Small ones
 * are written with io_write_file(). */
#ifndef FILES_ATOMIC_FILE_H
#define FILES_ATOMIC_FILE_H

#include <accel/base.h>

/** All zero but `fd` -1: no file. */
struct atomic_file {
    int fd;
    char *path;   /* where it will appear */
    char *beside; /* where it is; NULL once it is finished */
};

#define ATOMIC_FILE_NONE { .fd = -1 }

/**
 * Create a file of @p size bytes, all 0, beside @p path: "DIR/.NAME.PID-N.atomic".  If @p path is a symbolic link,
 * what it leads to will be replaced; a file that exists passes on its mode.  Unfinished files of this path that killed
 * processes left are removed.  A disk without enough space fails here.
 *
 * @param in_place  create @p path itself, removing a former file: the caller renames it, or its directory, later
 */
enum accel_status atomic_file_create (struct atomic_file *atomic, const char *path, bool in_place, uint64_t size,
                                      struct accel_error *err);

/** Write at @p offset; any number of threads. */
enum accel_status atomic_file_write (const struct atomic_file *atomic, uint64_t offset, const void *bytes,
                                     size_t length, struct accel_error *err);

/** Sync the file, and give it its path.  The new name is on disk if the directory is synced, too. */
enum accel_status atomic_file_finish (struct atomic_file *atomic, struct accel_error *err);

/** Remove the file, unless it is finished.  Preserves errno. */
void atomic_file_close (struct atomic_file *atomic);

#endif
