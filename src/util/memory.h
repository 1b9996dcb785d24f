/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for arrays that arithmetic runs over. */
#ifndef UTIL_MEMORY_H
#define UTIL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** Where every such array begins at a multiple of: a cache line, and the widest vectors. */
enum { MEMORY_ALIGNMENT = 64 };

/** Bytes of a huge page; huge pages begin at multiples of this. */
enum { MEMORY_HUGE_PAGE = 2 << 20 };

/**
 * Memory of at least one byte.  From 2 MiB on it asks for huge pages, as far as they are filled: going through many
 * arrays at once, or through one at random places, is up to a third faster with them.
 *
 * @return what free() takes; NULL: there is none
 */
void *memory_create (size_t bytes);

/** The same, with all bytes 0. */
void *memory_create_zeroed (size_t bytes);

/** Memory of zeros that takes room page by page, as it is written: in small pages.  From 2 MiB on it begins where a
 *  huge page may.  free() accepts it. */
void *memory_create_sparse (size_t bytes);

/** Give back the pages that are wholly in @p memory, whose bytes become 0.  @{ */
void memory_discard_pages (void *memory, size_t bytes);
/** Let them be small from now on, so that few bytes beside those that are needed take room. */
void memory_use_small_pages (void *memory, size_t bytes);
/** Let those that are wholly in @p memory be large, which is filled and given back as a whole. */
void memory_use_huge_pages (void *memory, size_t bytes);
/** @} */

/** Before all of @p memory is written: get those of its pages that will be small, many at a time, because a fault for
 *  each one takes half as long again.  What has been written stays. */
void memory_populate_small_pages (void *memory, size_t bytes);

/** The same for all of its pages, also before they are read and then written: what is only read has one page of zeros
 *  for all, and each write to it makes all processors forget a page. */
void memory_populate (void *memory, size_t bytes);

/** Let all bytes become 0, and give back the pages that are wholly in @p memory.
 *  @param is_ours  it is of memory_create_sparse(); the program's own stays in the files that it may be a map of */
void memory_forget (void *memory, size_t bytes, bool is_ours);

/** What is in @p memory is not needed any more: large parts of it need no room until they are written again. */
void memory_discard (void *memory, size_t bytes);

/** memcpy() that writes only pages that differ: others of @p to may be read-only. */
void memory_change (void *to, const void *from, size_t bytes);

/**
 * memcpy(), without the trap that the processors' string instructions have, which the C library copies with from some
 * 2 KiB on: if @p to lies less than 32 bytes after @p from modulo a page, each store seems to hit what is read
 * next, and a copy takes 15 times as long (Zen 3).  That is so from the beginning of a page to a large block of
 * malloc(), which begins 16 bytes after one.
 */
void memory_copy (void *to, const void *from, size_t bytes);

/**
 * pread(), without that trap, which is in the kernel's copies, too: a file in memory, or in the page cache, begins
 * where a page does.  There, fewer bytes than asked for come at a time.
 *
 * @return how many, or -1 with errno
 */
ssize_t memory_read (int fd, void *to, size_t bytes, off_t from);

#endif
