/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by kind of device: what the library does with tensor data, one table of functions for each kind.
 *
 * comm, collectives and train know where data is, and never what is there: they allocate, copy and compute through the
 * table of its device.  tests/lint/memory.sh looks for code of theirs that does not.  What is not tensor data (objects,
 * strings, encoded trees, lists of marks) is in host memory by nature, as are data sets and files.
 *
 * Pointers are addresses on the device unless they are called host.  On a device with streams, operations are queued
 * on the stream that accel_set_stream() has set, in order, and return at once; read() and what returns a value wait for
 * the result.
 * Operations of the host's table are complete when they return. */
#ifndef LIB_MEMORY_MEMORY_H
#define LIB_MEMORY_MEMORY_H

#include "lib/kernels/rules.h"
#include "lib/kernels/vocabulary.h"

#include <accel/tensor.h>

/** One step of an optimizer over a stretch of one parameter. */
struct memory_update {
    enum rule rule;
    const struct rule_numbers *numbers; /* host */
    float *parameter;              /* [count]: the master, if there is one */
    const void *grad;              /* [count] */
    enum accel_dtype grad_dtype;   /* float32, or 16 bits */
    float factor;                  /* of 16-bit gradients, before all else */
    float *state[RULE_STATES];     /* each [count] */
    void *narrow;                  /* [count], gets the parameter in 16 bits; NULL: nothing does */
    enum accel_dtype narrow_dtype;
    size_t count;
};

struct memory_lists;
struct memory_live;

/** Batches that a copy stream can have on their way. */
enum { MEMORY_COPY_STREAM_SLOTS = 2 };

/** Copies between the host and a device beside its other work. */
struct memory_copy_stream;

/** What can be done with copy streams.  All functions are there; one stream is used by one thread at a time. */
struct memory_copy_streams {
    /** Memory of the host from which copies run by themselves.  @return NULL: there is none; memory_check() may say
     *  why.  unpin() accepts NULL. @{ */
    void *(*pin) (DLDevice device, size_t bytes);
    void (*unpin) (DLDevice device, void *memory);
    /** @} */

    /** @return NULL as above.  close() waits for copies, and accepts NULL. @{ */
    struct memory_copy_stream *(*open) (DLDevice device);
    void (*close) (struct memory_copy_stream *copy_stream);
    /** @} */

    /** Copies from now on begin after what has been queued on the device by now. */
    void (*begin) (struct memory_copy_stream *copy_stream);
    /** @param host_from  keep it as it is until wait(), also if it is not pinned */
    void (*copy) (struct memory_copy_stream *copy_stream, void *to, const void *host_from, size_t bytes);
    /** The other way.  @param host_to  leave it alone until wait() */
    void (*fetch) (struct memory_copy_stream *copy_stream, void *host_to, const void *from, size_t bytes);
    /** What has been copied since begin() is batch @p slot, < MEMORY_COPY_STREAM_SLOTS. */
    void (*end) (struct memory_copy_stream *copy_stream, unsigned slot);

    /** What is queued on the device from now on comes after the latest batch @p slot; the host waits for it. @{ */
    void (*follow) (struct memory_copy_stream *copy_stream, unsigned slot);
    void (*wait) (struct memory_copy_stream *copy_stream, unsigned slot);
    /** @} */
};

/** Products by a library of the device's maker: faster, but the order of their sums is that library's. */
struct memory_products {
    /** Load the library, unless it is there.  @return what prevents it, which is not an error of the device */
    enum accel_status (*open) (DLDevice device, struct accel_error *err);
    /** After open().  As the functions of struct memory.  @return false: not done @{ */
    bool (*multiply) (DLDevice device, float *p, const float *values, const float *q, size_t n, size_t m, size_t rank);
    bool (*multiply_transposed) (DLDevice device, float *q, const float *values, const float *p, size_t n, size_t m,
                                 size_t rank);
    /** @} */
};

/** What is computed with a vocabulary that is divided, as kernels/vocabulary.h says. */
struct memory_vocabulary {
    void (*find_largest) (DLDevice device, const struct vocabulary_rows *rows);
    void (*add_up) (DLDevice device, const struct vocabulary_rows *rows);
    void (*finish) (DLDevice device, const struct vocabulary_rows *rows);
    void (*look_up) (DLDevice device, const struct vocabulary_tokens *tokens);
    void (*add_back) (DLDevice device, const struct vocabulary_tokens *tokens);
};

/** What can be done with data in one kind of memory.  Any thread may call the functions, all of which exist unless a
 *  comment says what NULL means. */
struct memory {
    bool host;    /* the processor can read and write it */
    bool threads; /* an update is faster if several threads have a stretch each */

    /** Memory aligned to MEMORY_ALIGNMENT, of at least one byte.  @return NULL: there is none */
    void *(*create) (DLDevice device, size_t bytes, bool zeroed);
    /** The same, zeroed, but its pages take room only when they are written: util/memory.h.  NULL: there is none */
    void *(*create_sparse) (DLDevice device, size_t bytes);
    /** Accepts NULL. */
    void (*destroy) (DLDevice device, void *memory);

    /** @{ Bytes: within the device, to 0, and from and to host memory.  @return what went wrong on the device so far */
    void (*copy) (DLDevice device, void *to, const void *from, size_t bytes);
    void (*zero) (DLDevice device, void *to, size_t bytes);
    enum accel_status (*read) (DLDevice device, void *host_to, const void *from, size_t bytes, struct accel_error *err);
    void (*write) (DLDevice device, void *to, const void *host_from, size_t bytes);
    /** @} */

    /** Copy bytes within the device, or zeros if @p from is NULL, unless the byte at @p flag is not 0.
     *  @param flag  on the device: the host does not know it */
    void (*copy_unless) (DLDevice device, void *to, const void *from, size_t bytes, const uint8_t *flag);

    /** Copy bytes from memory of @p other, another device of this kind: after what has been queued there, and before
     *  what is queued there from now on.  NULL: there is no such way */
    enum accel_status (*copy_from) (DLDevice device, void *to, DLDevice other, const void *from, size_t bytes,
                                    struct accel_error *err);

    /** Copy elements between tensors of one shape and type on one device; strides may differ. */
    void (*copy_tensor) (const DLTensor *to, const DLTensor *from);

    /** Where operations on @p device are queued, as engines get it; if each thread has a stream, this thread's, which
     *  is now ordered with what libaccel queues on others.  NULL: nowhere, they are done when they return */
    void *(*stream) (DLDevice device);
    /** Queue on @p stream from now on, after what has been queued.  NULL: there are no streams */
    enum accel_status (*set_stream) (DLDevice device, void *stream, struct accel_error *err);
    /** What is queued on @p after from now on comes after what has been queued on @p before, two streams of @p device.
     *  Equal: only see whether it can be used now.  NULL: there are no streams */
    enum accel_status (*order) (DLDevice device, void *before, void *after, struct accel_error *err);
    /** A stream of @p device for work beside the program's, which only order() orders with others; the device keeps it.
     *  And whether this thread's operations are queued there from now on, if it has been made: no allocations, and no
     *  copies from or to the host, which would wait.  Made by one thread.  NULL, both: there is none @{ */
    enum accel_status (*side_stream) (DLDevice device, void **stream, struct accel_error *err);
    void (*use_side_stream) (DLDevice device, bool uses);
    /** @} */
    const struct memory_copy_streams *copy_streams; /* NULL: there are none */
    /** Whether @p address is in memory of this kind.  NULL: it cannot be asked
     *  @param[out] device  which one has it */
    bool (*owns) (const void *address, DLDevice *device);

    /* What training computes.  kernels/floats.h and kernels/matrix.h say what each does. */
    void (*scale) (DLDevice device, void *values, enum accel_dtype dtype, size_t count, double factor);
    void (*clamp) (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float limit);
    void (*add) (DLDevice device, float *target, const float *source, size_t count);
    /** Multiply float32 values by @p factor; look at all.  @param found  one byte on the device: becomes 1 if a value
     *  is infinite or NaN, and stays as it is otherwise */
    void (*unscale) (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float factor,
                     uint8_t *found);
    /** @param result  on the device */
    void (*norm) (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float factor, double p,
                  float *result);
    /** @param value  host */
    size_t (*find_nonfinite) (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float *value);
    void (*update) (DLDevice device, const struct memory_update *update);

    /** float32 from other floats, times @p factor; and back, rounded. */
    void (*widen) (DLDevice device, float *to, const void *from, enum accel_dtype dtype, size_t count, float factor);
    void (*narrow) (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count);
    float (*narrow_scaled) (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count);
    void (*convert) (DLDevice device, void *to, enum accel_dtype to_dtype, const void *from,
                     enum accel_dtype from_dtype, size_t count, float divisor);

    void (*multiply) (DLDevice device, float *p, const float *values, const float *q, size_t n, size_t m, size_t rank);
    void (*multiply_transposed) (DLDevice device, float *q, const float *values, const float *p, size_t n, size_t m,
                                 size_t rank);
    void (*expand) (DLDevice device, float *values, float *error, const float *p, const float *q, size_t n, size_t m,
                    size_t rank);
    /** @param seed  host */
    void (*orthogonalise) (DLDevice device, float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed);

    /** What it does with many arrays at once (lists.h).  NULL: nothing */
    const struct memory_lists *lists;

    /** What it does about numbers that the host does not know (lists.h); not without lists.  NULL: nothing */
    const struct memory_live *live;

    const struct memory_products *products; /* NULL: there are none */

    const struct memory_vocabulary *vocabulary;
};

/** The host's: kDLCPU, and what is pinned for CUDA and ROCm. */
extern const struct memory memory_host;

enum { MEMORY_KINDS = 32 }; /* numbers of DLDeviceType */

/** By DLDeviceType; any thread may load the code for GPUs. */
extern const struct memory *memory_tables[MEMORY_KINDS];

/** @return the table of @p type, < MEMORY_KINDS, if there is one by now; nothing is loaded for it */
static inline const struct memory *
memory_table (int type)
{
    return __atomic_load_n (&memory_tables[type], __ATOMIC_ACQUIRE);
}

/** @return the table of @p device, whose code for GPUs is loaded when it is first asked for; NULL: there is none */
const struct memory *memory_of (DLDevice device);

/** How many kinds of memory there are that the processor cannot read. */
extern int memory_device_kinds;

/** @return where @p address is, as sites name it: all 0 in host memory; nothing is loaded to find that out */
DLDevice memory_locate (const void *address);

/** From now on @p memory is the table of @p type; NULL: there is none.  Before a job is opened, on the main thread. */
void memory_register (DLDeviceType type, const struct memory *memory);

/** @return the error of an earlier operation on @p device */
enum accel_status memory_check (DLDevice device, struct accel_error *err);

/** After create() returned NULL.  @return what is wrong with @p device; else ACCEL_ERR_NOMEM, with this text */
enum accel_status memory_fail (DLDevice device, struct accel_error *err, const char *format, ...) ACCEL_PRINTF (3, 4);

/** Whether data on both devices has the same table, and one can be copied to the other within it. */
static inline bool
memory_is_same (DLDevice a, DLDevice b)
{
    const struct memory *memory = memory_of (a);
    return memory == memory_of (b) && (!memory || memory->host || a.device_id == b.device_id);
}

/** The address of element @p index, of @p element_bytes each. */
static inline void *
memory_at (const void *data, size_t index, size_t element_bytes)
{
    return (char *) (uintptr_t) data + index * element_bytes;
}

/** The address of the first element of a tensor on any device; NULL for one without data. */
static inline void *
memory_data (const DLTensor *tensor)
{
    return tensor->data ? memory_at (tensor->data, tensor->byte_offset, 1) : NULL;
}

/** A contiguous tensor that owns memory on @p device, which has a table; what is in it is not set. */
enum accel_status memory_allocate (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, const int64_t *shape,
                                   DLDevice device, struct accel_error *err);

/** @{ What gets the next bytes of a tensor, and what gives those from byte @p at on; both in host memory. */
typedef enum accel_status memory_take (void *user, const void *bytes, size_t length, struct accel_error *err);
typedef enum accel_status memory_give (void *user, size_t at, void *bytes, size_t length, struct accel_error *err);
/** @} */

/** Pass the bytes of a contiguous @p tensor, whose device has a table, to @p take: in order, at most @p most
 *  at once. */
enum accel_status memory_read_pieces (const DLTensor *tensor, size_t most, memory_take *take, void *user,
                                      struct accel_error *err);

/** Fill a contiguous @p tensor, whose device has a table, with what @p give gives: in order, one or several pieces. */
enum accel_status memory_write_pieces (const DLTensor *tensor, memory_give *give, void *user, struct accel_error *err);

/** A contiguous copy of @p tensor, whose device has a table, on the same device. */
enum accel_status memory_clone (struct accel_tensor *copy, const DLTensor *tensor, struct accel_error *err);

/** The same on device @p to; both devices have a table. */
enum accel_status memory_send (struct accel_tensor *sent, const DLTensor *tensor, DLDevice to,
                               struct accel_error *err);

#endif
