/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that a job has prepared. */
#ifndef LIB_STATE_PREPARED_H
#define LIB_STATE_PREPARED_H

#include "lib/base/object.h"
#include "lib/state/part.h"

extern const struct part_kind part_prepared;

/** The prepared objects of the kind of this name: the latest, and the one before @p object; NULL: there is none.  @{ */
struct object *prepared_first (const struct accel *acc, const char *kind);
struct object *prepared_next (const struct object *object, const char *kind);
/** @} */

/** Any prepared object: the latest, whose `next` is the one before it; NULL: there is none. */
struct object *prepared_latest (const struct accel *acc);

/** Take @p object, which goes away or is released, from its owner's list, if it has an owner. */
void prepared_remove (struct object *object);

/** End what is running in prepared objects. */
void prepared_stop (struct accel *acc);

#endif
