/* SPDX-License-Identifier: Apache-2.0 */
/* The life of objects; see object.h. */
#include <config.h>

#include "lib/base/object.h"

#include <errno.h>
#include <stdlib.h>

void
object_let_go (struct object *object)
{
    if (atomic_fetch_sub_explicit (&object->holds, 1, memory_order_acq_rel) == 1)
        free (object);
}

static void
finish (struct object *object)
{
    int saved = errno;
    object->kind->end (object);
    object->magic = 0;
    object->owner = NULL;
    object_let_go (object);
    errno = saved;
}

void
object_destroy (struct object *object)
{
    if (!object || atomic_exchange_explicit (&object->gone, true, memory_order_relaxed))
        return;
    if (!object->pins)
        finish (object);
}

void
object_unpin (struct object *object)
{
    if (object && !--object->pins && object_is_gone (object))
        finish (object);
}
