/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of the program have the size that they had when it was compiled.  This is the one place that knows how
 * shorter and longer ones are treated.  The macros in the public headers pass the sizes (accel/base.h, rule 7). */
#ifndef LIB_BASE_SIZED_H
#define LIB_BASE_SIZED_H

#include <accel/base.h>

/**
 * Get a struct of the program in the size that this library knows.
 *
 *   struct accel_idx_options room;
 *   options = SIZED (options, options_size, room, &status, err);
 *   if (status)
 *       return status;
 *
 * Use it in the public function itself: messages name the function that contains it.
 *
 * @param given   may be NULL
 * @param room    an uninitialized struct of that type, which must live as long as the result is used
 * @param status  ACCEL_OK; or ACCEL_ERR_UNSUPPORTED: the struct is larger, and sets what this library does not know
 * @return @p given if it has all fields; else @p room, where fields that @p given lacks are 0.  NULL on failure, and if
 *         @p given is NULL
 */
#define SIZED(given, size, room, status, err) \
    sized_read (__func__, #given, (given), (size), SIZED_SAME (room, *(given)), sizeof (room), (status), (err))

/**
 * The same for an array of the program, whose elements are @p size bytes apart.
 *
 * @param room  a pointer, declared AUTO_FREE: memory for the elements if they do not have our size, otherwise NULL
 */
#define SIZED_ARRAY(given, size, count, room, status, err)                                                      \
    ((room) = sized_array (__func__, #given, (given), (size), sizeof *(given) + 0 * sizeof ((room) == (given)), \
                           (count), (status), (err)),                                                           \
     (room) ? (room) : (given))

/** @return the address of @p room; a warning if it has another type than @p given. */
#define SIZED_SAME(room, given) (0 * sizeof (&(room) == &(given)) + &(room))

/**
 * What SIZED() calls.
 *
 * @param function  the public function, for messages; without its _sized or _at
 * @param what      the name of @p given; of "options->groups" the last part
 */
const void *sized_read (const char *function, const char *what, const void *given, size_t size, void *room,
                        size_t known, enum accel_status *status, struct accel_error *err);

/** What SIZED_ARRAY() calls.  @return NULL if @p size is @p known, and on failure */
void *sized_array (const char *function, const char *what, const void *given, size_t size, size_t known, size_t count,
                   enum accel_status *status, struct accel_error *err);

/**
 * Fill in a struct of the program with as much of @p from as it has room for; fields that this library does not know
 * become 0.
 *
 * @param into  [size]
 */
void sized_write (void *into, size_t size, const void *from, size_t known);

#endif
