/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are not finite; see nonfinite.h. */
#include <config.h>

#include "lib/checkpoint/nonfinite.h"

#include "lib/kernels/floats.h"

#include <stdio.h>
#include <string.h>

void
nonfinite_begin (struct nonfinite *nonfinite, const struct state_tensor *tensor, size_t at)
{
    nonfinite->tensor = tensor;
    nonfinite->at = at;
}

void
nonfinite_look (struct nonfinite *nonfinite, const void *bytes, size_t length)
{
    const struct state_tensor *tensor = nonfinite->tensor;
    size_t count = length / tensor_element_bytes (&tensor->view.dl);
    float value = 0;
    if (!tensor->is_trained || *nonfinite->text)
        return;
    size_t element = floats_find_nonfinite (bytes, accel_dtype_from_dl (tensor->view.dl.dtype), count, &value);
    if (element != SIZE_MAX)
        snprintf (nonfinite->text, sizeof nonfinite->text, "'%.100s' is %s at element %zu", tensor->name,
                  nonfinite_name (value), nonfinite->at + element);
    nonfinite->at += count;
}

bool
nonfinite_note (const struct nonfinite *nonfinite, struct manifest *manifest)
{
    if (*nonfinite->text && !manifest->nonfinite)
        manifest->nonfinite = strdup (nonfinite->text);
    return !*nonfinite->text || manifest->nonfinite;
}
