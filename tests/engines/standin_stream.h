/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in's engine gets as the stream of a call: where the memory of this process's device really is. */
#ifndef TESTS_ENGINES_STANDIN_STREAM_H
#define TESTS_ENGINES_STANDIN_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct standin_stream {
    char *seen; /* the addresses that tensors have */
    char *real;
    size_t bytes;
};

static inline void *
standin_at (const struct standin_stream *stream, const void *seen)
{
    size_t from = (size_t) ((uintptr_t) seen - (uintptr_t) stream->seen);
    if (from > stream->bytes)
        abort ();
    return stream->real + from;
}

#endif
