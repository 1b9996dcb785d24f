/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing optimizers and schedulers over the ranks: each says what it is and lists its numbers by name. */
#ifndef LIB_TRAIN_COMPARE_H
#define LIB_TRAIN_COMPARE_H

#include "lib/base/object.h"
#include "lib/comm/comm_private.h"

/** A number, and in the message whose: "lr of group 'decay'". */
struct noted_number {
    const char *name; /* a literal */
    const char *kind; /* "group", a literal; NULL: the object's own */
    const char *owner; /* its name; borrowed */
    double value;
    bool is_text; /* `value` is a hash of a text, and not to be shown */
};

/** How many of something there are: what has to agree before numbers can be compared one by one. */
struct noted_size {
    const char *name; /* a literal */
    size_t count;
};

enum { NOTED_SIZES = 2 };

/** The numbers of one object, in an order that depends on what it is, and on its sizes. */
struct noted_numbers {
    const char *what; /* "AdamW"; a literal */
    struct noted_size sizes[NOTED_SIZES];
    struct noted_number *numbers; /* [count], malloc()ed */
    size_t count;
    bool failed; /* no memory */
};

/** Add one number.  @{ */
void numbers_add (struct noted_numbers *numbers, const char *name, const char *kind, const char *owner, double value);
void numbers_add_text (struct noted_numbers *numbers, const char *name, const char *kind, const char *owner,
                       const char *text);
/** @} */

/** Note what has to agree over the ranks, in an order that depends on what @p object is and on its sizes. */
typedef void note_numbers (const struct object *object, struct noted_numbers *numbers);

/**
 * Compare the numbers of @p object, which @p note notes, with those of the other ranks.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  on all ranks: they differ; `text` names two ranks and what both have
 */
enum accel_status compare_numbers (const struct comm_site *site, struct accel *acc, const struct object *object,
                                   note_numbers *note, struct accel_error *err);

#endif
