/* SPDX-License-Identifier: Apache-2.0 */
/* Whether parameters that are being written are finite: nothing can be trained from others. */
#ifndef LIB_CHECKPOINT_NONFINITE_H
#define LIB_CHECKPOINT_NONFINITE_H

#include "files/manifest.h"
#include "lib/state/state_dict.h"

struct nonfinite {
    const struct state_tensor *tensor; /* that is being written */
    size_t at;                         /* the element that comes next */
    char text[160];                    /* the first trained tensor that is not finite; empty: none so far */
};

/** From element @p at on, @p tensor comes. */
void nonfinite_begin (struct nonfinite *nonfinite, const struct state_tensor *tensor, size_t at);

/** Whole elements, while they are in the cache. */
void nonfinite_look (struct nonfinite *nonfinite, const void *bytes, size_t length);

/** Put it into @p manifest, unless that has one.  @return whether there was memory. */
bool nonfinite_note (const struct nonfinite *nonfinite, struct manifest *manifest);

#endif
