/* SPDX-License-Identifier: Apache-2.0 */
/* Which engines exist: the one list of those that are built in, and the modules in the engine folders.  The library,
 * its messages and `accelerate env` take the names from here; tests compare the manual with it. */
#ifndef UTIL_ENGINE_FILES_H
#define UTIL_ENGINE_FILES_H

#include <stdbool.h>
#include <stddef.h>

/** Engines that are built in, in the order of preference: name. */
#define ENGINE_BUILT_IN_MAP(X) \
    X (self)                   \
    X (shm)

enum { ENGINE_NAME_MOST = 32 }; /* bytes of a name: lower-case letters, digits and '_' */

struct engine_file {
    char name[ENGINE_NAME_MOST + 1];
    char *path;    /* FOLDER/accel_engine_NAME.so, as it was found */
    char *refusal; /* why it must not be loaded; NULL: it may be */
};

struct engine_files {
    struct engine_file *items;
    size_t count;
    bool failed; /* out of memory */
};

/**
 * Find the modules in the folders of ACCEL_ENGINE_PATH, then in the package's own; the first of each name is used.
 * Folders that do not exist are skipped, and so are names of engines that are built in.  Nothing is opened.
 *
 * A module is refused unless it is a plain file, and it and all folders above it belong to root or to this user and can
 * be written by no other user; in a folder with the sticky bit, such as /tmp, others can at least not replace anything.
 *
 * @param[out] files  for engine_files_release()
 */
void engine_files_find (struct engine_files *files);
/** The same of code for devices: accel_device_NAME.so. */
void engine_files_find_devices (struct engine_files *files);
/** The same of trackers: accel_tracker_NAME.so. */
void engine_files_find_trackers (struct engine_files *files);
void engine_files_release (struct engine_files *files);
#define AUTO_ENGINE_FILES __attribute__ ((cleanup (engine_files_release)))

#endif
