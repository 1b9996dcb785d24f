/* SPDX-License-Identifier: Apache-2.0 */
/* A regular file that is read at places, by any number of threads at once. */
#ifndef FILES_SOURCE_H
#define FILES_SOURCE_H

#include <accel/base.h>
#include <stdint.h>
#include <time.h>

/** SOURCE_CLOSED is an empty one, which source_close() accepts. */
struct source {
    int fd;
    char *path;
    uint64_t size; /* bytes, when it was opened */
    struct timespec modified; /* then */
    const unsigned char *map;
};

#define SOURCE_CLOSED { .fd = -1 }

enum accel_status source_open (struct source *source, const char *path, struct accel_error *err);

/**
 * Open a file of a directory.
 *
 * @param folder        a descriptor of the directory
 * @param name          without '/'
 * @param shown         its path, for messages; copied
 * @param follow_links  else a symbolic link fails with errno ELOOP
 */
enum accel_status source_open_in (struct source *source, int folder, const char *name, const char *shown,
                                  bool follow_links, struct accel_error *err);

/** Read through a mapping from now on, see accel_tokens_options.mapped. */
enum accel_status source_map (struct source *source, struct accel_error *err);

/** Read @p length bytes from @p offset on; that there are fewer than when the file was opened is an error. */
enum accel_status source_read (const struct source *source, uint64_t offset, void *into, size_t length,
                               struct accel_error *err);

/** Fail if the file no longer has @p size bytes, or was modified at another time than @p modified. */
enum accel_status source_check_unchanged (const struct source *source, uint64_t size, struct timespec modified,
                                          struct accel_error *err);

/** Fail if the file begins as gzip's do, whose contents @p wanted are. */
enum accel_status source_refuse_gzip (const struct source *source, const char *wanted, struct accel_error *err);

/** Preserves errno. */
void source_close (struct source *source);

/** @return whether @p bytes begin as a file of gzip does. */
bool is_gzip (const void *bytes, size_t length);

/** The observer of how much a thread reads from files and writes to them.  The code that moves bytes does not know who
 * shows progress, and pays one test for it. */
struct traffic_observer {
    /** @p bytes more have been read or written. */
    void (*moved) (struct traffic_observer *observer, uint64_t bytes);
    /** A file has been written, and is about to be synced, which may take as long. */
    void (*syncing) (struct traffic_observer *observer);
};

/** From now on, tell @p observer (NULL: none) what this thread does.  @return the observer before */
struct traffic_observer *traffic_observe (struct traffic_observer *observer);

/** For the code that reads and writes.  @{ */
void traffic_moved (uint64_t bytes);
void traffic_syncing (void);
/** @} */

#endif
