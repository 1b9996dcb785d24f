/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read with a ceiling, written beside, synced and renamed. */
#ifndef UTIL_IO_H
#define UTIL_IO_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/**
 * Read a file whole, without waiting: a pipe without data is an error.
 *
 * @param limit        largest size accepted, bytes
 * @param[out] text    the bytes and a terminating 0; the caller frees them
 * @param[out] length  may be NULL
 */
int io_read_file (const char *path, size_t limit, char **text, size_t *length, struct fail *fail);

/** The same for what a person has named: a pipe or terminal is read to its end, however long its writer takes, and a
 *  named pipe waits for its writer. */
int io_read_input (const char *path, size_t limit, char **text, size_t *length, struct fail *fail);

/** Write @p path so that it appears complete or not at all: a file beside it, fsync, rename, fsync of the directory.
 * What a link leads to is written, even if it does not exist yet; a file that exists keeps its mode, another gets
 * @p mode less the umask, as with open(); devices are refused. */
int io_write_file (const char *path, const void *bytes, size_t length, mode_t mode, struct fail *fail);

/** Say now whether io_write_file() could write @p path, as far as that can be known; what is there stays as it is. */
int io_check_writable (const char *path, struct fail *fail);

/** Where io_write_file() would write, and with which mode, for callers that remove the file in between. */
struct io_target {
    char *path;  /* no link */
    mode_t mode;
    bool exists; /* did, when the target was found: `mode` is its own */
};

/** @param mode  as for io_write_file()  @param[out] target  for io_target_release() */
int io_target_find (struct io_target *target, const char *path, mode_t mode, struct fail *fail);
int io_target_write (const struct io_target *target, const void *bytes, size_t length, struct fail *fail);
void io_target_release (struct io_target *target);

/** Create the directories of @p path up to the last '/', as mkdir -p.  Their names survive a power failure.
 *  @return 0, or -1 with errno */
int io_make_parents (const char *path, struct fail *fail);

/** write() all of it, through EINTR and short writes.  @return 0, or -1 with errno. */
int io_write_all (int fd, const void *bytes, size_t length);

/** Sync the directory that @p path is in, so that its name, or its absence, survives a power failure.
 * @return 0, or -1 with errno */
int io_sync_directory_of (const char *path);

/** Make the new file @p fd @p size bytes long.  A disk without space for it, and the limit of a process for the size of
 * its files, fail here instead of later.  Nothing is allocated: that made writing slower.
 * @return 0, or -1 with errno */
int io_reserve (int fd, off_t size);

/** Open the pipe or terminal behind @p fd again, so that write() there never waits: O_NONBLOCK on @p fd itself would be
 * for all who share it.
 * @return a descriptor of the caller's, close-on-exec; -1 if it is neither, or may not be opened */
int io_open_without_waiting (int fd);

/** Whether no process reads standard stream @p fd (0 to 2), or writes to it: the caller has closed it.  In its place
 * may be what only goes the other way, so that no other file gets its number. */
bool io_is_closed (int fd);

#endif
