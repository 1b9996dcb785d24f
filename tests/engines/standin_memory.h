/* SPDX-License-Identifier: Apache-2.0 */
/* Two kinds of memory that programs and the library cannot touch: kDLExtDev and kDLVPI.  Each is mapped twice, without
 * any access at the addresses that tensors have, and readable and writable where only this table looks: whoever
 * dereferences the address of a tensor is killed by SIGSEGV, and whoever takes one kind for the other by SIGABRT.
 * Operations go to the host's table at the second address.  Each process has memory of its own, made when it is first
 * asked for. */
#ifndef TESTS_ENGINES_STANDIN_MEMORY_H
#define TESTS_ENGINES_STANDIN_MEMORY_H

#include "lib/memory/memory.h"

#include "tests/engines/standin_stream.h"
#include "tests/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STANDIN_BYTES = 1 << 28, STANDIN_ALIGNMENT = 64 };

static struct standin_stream standins[2];
static pthread_once_t standin_once = PTHREAD_ONCE_INIT;
static atomic_size_t standin_used, standin_live; /* bytes ever given out, and blocks that have not come back */
static atomic_ullong standin_operations;

static void
standin_make_one (struct standin_stream *standin)
{
    int fd = memfd_create ("standin", MFD_CLOEXEC);
    void *seen = mmap (NULL, STANDIN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *real = ftruncate (fd, STANDIN_BYTES) ? MAP_FAILED
                                               : mmap (NULL, STANDIN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (seen == MAP_FAILED || real == MAP_FAILED)
        abort ();
    close (fd);
    *standin = (struct standin_stream){ .seen = seen, .real = real, .bytes = STANDIN_BYTES };
}

static void
standin_make (void)
{
    standin_make_one (&standins[0]);
    standin_make_one (&standins[1]);
}

static struct standin_stream *
standin_of (DLDevice device)
{
    pthread_once (&standin_once, standin_make);
    return &standins[device.device_type == kDLVPI];
}

/* Where an address of the device really is.  Any other address is a host pointer that came here by mistake. */
static void *
at (DLDevice device, const void *seen)
{
    standin_operations++;
    return seen ? standin_at (standin_of (device), seen) : NULL;
}

static void *
standin_create (DLDevice device, size_t bytes, bool zeroed)
{
    const struct standin_stream *standin = standin_of (device);
    size_t room = (bytes + STANDIN_ALIGNMENT) / STANDIN_ALIGNMENT * STANDIN_ALIGNMENT;
    size_t from = atomic_fetch_add (&standin_used, room);
    if (bytes > STANDIN_BYTES || from > STANDIN_BYTES - room)
        return NULL;
    standin_live++;
    memset (standin->real + from, zeroed ? 0 : 0xff, bytes); /* float32: NaN */
    return standin->seen + from;
}

/* Never given out again; what it held is gone. */
static void
standin_destroy (DLDevice device, void *memory)
{
    if (memory)
        standin_live -= at (device, memory) != NULL;
}

static void
standin_copy (DLDevice device, void *to, const void *from, size_t bytes)
{
    memory_host.copy (device, at (device, to), at (device, from), bytes);
}

static void
standin_zero (DLDevice device, void *to, size_t bytes)
{
    memory_host.zero (device, at (device, to), bytes);
}

static void
standin_copy_unless (DLDevice device, void *to, const void *from, size_t bytes, const uint8_t *flag)
{
    memory_host.copy_unless (device, at (device, to), at (device, from), bytes, at (device, flag));
}

static enum accel_status
standin_read (DLDevice device, void *to, const void *from, size_t bytes, struct accel_error *err)
{
    return bytes ? memory_host.read (device, to, at (device, from), bytes, err) : ACCEL_OK; /* only asked for errors */
}

static void
standin_write (DLDevice device, void *to, const void *from, size_t bytes)
{
    memory_host.write (device, at (device, to), from, bytes);
}

/* The host's function takes tensors of the host. */
static DLTensor
really (const DLTensor *tensor)
{
    DLTensor real = *tensor;
    real.device = (DLDevice){ .device_type = kDLCPU };
    real.data = at (tensor->device, tensor->data);
    return real;
}

static void
standin_copy_tensor (const DLTensor *to, const DLTensor *from)
{
    DLTensor real_to = really (to), real_from = really (from);
    memory_host.copy_tensor (&real_to, &real_from);
}

static void *
standin_stream_of (DLDevice device)
{
    return standin_of (device);
}

static void
standin_scale (DLDevice device, void *values, enum accel_dtype dtype, size_t count, double factor)
{
    memory_host.scale (device, at (device, values), dtype, count, factor);
}

static void
standin_clamp (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float limit)
{
    memory_host.clamp (device, at (device, values), dtype, count, limit);
}

static void
standin_add (DLDevice device, float *target, const float *source, size_t count)
{
    memory_host.add (device, at (device, target), at (device, source), count);
}

static void
standin_unscale (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float factor, uint8_t *found)
{
    memory_host.unscale (device, at (device, values), dtype, count, factor, at (device, found));
}

static void
standin_norm (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float factor, double p,
              float *result)
{
    memory_host.norm (device, at (device, values), dtype, count, factor, p, at (device, result));
}

static size_t
standin_find_nonfinite (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float *value)
{
    return memory_host.find_nonfinite (device, at (device, values), dtype, count, value);
}

static void
standin_update (DLDevice device, const struct memory_update *update)
{
    struct memory_update real = *update;
    real.parameter = at (device, update->parameter);
    real.grad = at (device, update->grad);
    real.narrow = at (device, update->narrow);
    for (int i = 0; i < RULE_STATES; i++)
        real.state[i] = at (device, update->state[i]);
    memory_host.update (device, &real);
}

static void
standin_widen (DLDevice device, float *to, const void *from, enum accel_dtype dtype, size_t count, float factor)
{
    memory_host.widen (device, at (device, to), at (device, from), dtype, count, factor);
}

static void
standin_narrow (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count)
{
    memory_host.narrow (device, at (device, to), dtype, at (device, from), count);
}

static float
standin_narrow_scaled (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count)
{
    return memory_host.narrow_scaled (device, at (device, to), dtype, at (device, from), count);
}

static void
standin_convert (DLDevice device, void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype,
                 size_t count, float divisor)
{
    memory_host.convert (device, at (device, to), to_dtype, at (device, from), from_dtype, count, divisor);
}

static void
standin_multiply (DLDevice device, float *p, const float *values, const float *q, size_t n, size_t m, size_t rank)
{
    memory_host.multiply (device, at (device, p), at (device, values), at (device, q), n, m, rank);
}

static void
standin_multiply_transposed (DLDevice device, float *q, const float *values, const float *p, size_t n, size_t m,
                             size_t rank)
{
    memory_host.multiply_transposed (device, at (device, q), at (device, values), at (device, p), n, m, rank);
}

static void
standin_expand (DLDevice device, float *values, float *error, const float *p, const float *q, size_t n, size_t m,
                size_t rank)
{
    memory_host.expand (device, at (device, values), at (device, error), at (device, p), at (device, q), n, m, rank);
}

static void
standin_orthogonalise (DLDevice device, float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed)
{
    memory_host.orthogonalise (device, at (device, columns), rows, rank, j, seed);
}

static struct vocabulary_rows
rows_at (DLDevice device, const struct vocabulary_rows *rows)
{
    struct vocabulary_rows there = *rows;
    there.labels = at (device, rows->labels);
    there.logits = at (device, rows->logits);
    there.losses = at (device, rows->losses);
    there.sums = at (device, rows->sums);
    return there;
}

static void
standin_find_largest (DLDevice device, const struct vocabulary_rows *rows)
{
    const struct vocabulary_rows there = rows_at (device, rows);
    memory_host.vocabulary->find_largest (device, &there);
}

static void
standin_add_up (DLDevice device, const struct vocabulary_rows *rows)
{
    const struct vocabulary_rows there = rows_at (device, rows);
    memory_host.vocabulary->add_up (device, &there);
}

static void
standin_finish (DLDevice device, const struct vocabulary_rows *rows)
{
    const struct vocabulary_rows there = rows_at (device, rows);
    memory_host.vocabulary->finish (device, &there);
}

static struct vocabulary_tokens
tokens_at (DLDevice device, const struct vocabulary_tokens *tokens)
{
    struct vocabulary_tokens there = *tokens;
    there.tokens = at (device, tokens->tokens);
    there.table = at (device, tokens->table);
    there.values = at (device, tokens->values);
    return there;
}

static void
standin_look_up (DLDevice device, const struct vocabulary_tokens *tokens)
{
    const struct vocabulary_tokens there = tokens_at (device, tokens);
    memory_host.vocabulary->look_up (device, &there);
}

static void
standin_add_back (DLDevice device, const struct vocabulary_tokens *tokens)
{
    const struct vocabulary_tokens there = tokens_at (device, tokens);
    memory_host.vocabulary->add_back (device, &there);
}

static const struct memory_vocabulary vocabulary_standin
    = { .find_largest = standin_find_largest, .add_up = standin_add_up, .finish = standin_finish,
        .look_up = standin_look_up, .add_back = standin_add_back };

static bool
standin_owns (const void *address, DLDevice *device)
{
    const struct standin_stream *standin = standin_of ((DLDevice){ .device_type = kDLExtDev });
    *device = (DLDevice){ .device_type = kDLExtDev, .device_id = 1 };
    return (uintptr_t) address - (uintptr_t) standin->seen < standin->bytes;
}

static const struct memory memory_standin = {
    .owns = standin_owns,
    .create = standin_create,
    .destroy = standin_destroy,
    .copy = standin_copy,
    .zero = standin_zero,
    .read = standin_read,
    .write = standin_write,
    .copy_unless = standin_copy_unless,
    .copy_tensor = standin_copy_tensor,
    .stream = standin_stream_of,
    .scale = standin_scale,
    .clamp = standin_clamp,
    .add = standin_add,
    .unscale = standin_unscale,
    .norm = standin_norm,
    .find_nonfinite = standin_find_nonfinite,
    .update = standin_update,
    .widen = standin_widen,
    .narrow = standin_narrow,
    .narrow_scaled = standin_narrow_scaled,
    .convert = standin_convert,
    .multiply = standin_multiply,
    .multiply_transposed = standin_multiply_transposed,
    .expand = standin_expand,
    .orthogonalise = standin_orthogonalise,
    .vocabulary = &vocabulary_standin,
};

static const DLDevice standin_device = { .device_type = kDLExtDev, .device_id = 1 };
__attribute__ ((unused)) static const DLDevice second_device = { .device_type = kDLVPI, .device_id = 1 };

/** What messages call it. */
#define device_kind "ext"

#endif
