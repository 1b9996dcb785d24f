/* SPDX-License-Identifier: Apache-2.0 */
/* Memory whose contents are in a file on a disk: it has pages only while they are used.
 *
 * What is at an address stays there: the file is mapped where the memory was.  It has no name, so it is gone with the
 * process, and its room is reserved, so a full disk is an error here and not a signal later.  A disk that fails when a
 * page is read is SIGBUS. */
#ifndef UTIL_MEMORY_FILE_H
#define UTIL_MEMORY_FILE_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>

struct memory_range {
    void *memory;
    size_t bytes;
};

struct memory_file;

/**
 * Move the whole pages of some ranges, which do not overlap, to a new file in @p folder.  Ranges with less than 64 KiB
 * of whole pages stay where they are.
 *
 * @param[out] file  NULL: all of them do
 * @return 0; -1: nothing has moved
 */
int memory_file_create (struct memory_file **file, const char *folder, const struct memory_range *ranges, size_t count,
                        struct fail *fail);

/** The memory is as before, with its contents if @p keeps, else with zeros.  A range that cannot be read, or for which
 *  there is no memory, stays mapped with its contents.  Accepts NULL. */
void memory_file_end (struct memory_file *file, bool keeps);

/** Of what is in @p file of a range: start to write it, or write it and give its pages back.  Any thread may do so,
 *  also while others use the memory.  Accept NULL.  @{ */
void memory_file_write (struct memory_file *file, const void *memory, size_t bytes);
void memory_file_release (struct memory_file *file, const void *memory, size_t bytes);
/** @} */

/** @return the number of the first error that writing had, since which pages are not given back; 0: none.  Accepts
 *  NULL. */
int memory_file_error (const struct memory_file *file);

#endif
