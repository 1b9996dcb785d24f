/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging a model's gradients: bucket by bucket, as they become ready, through the hook that was asked for. */
#ifndef LIB_TRAIN_REDUCER_OBJECT_H
#define LIB_TRAIN_REDUCER_OBJECT_H

#include "lib/comm/work.h"
#include "lib/train/model_object.h"

#include <pthread.h>

struct power_sgd;

/* What `lock` guards is touched by the thread of the communicator's work, and by those that call accel_grad_ready(). */
struct reducer {
    struct accel_comm *comm;
    int size;     /* processes */
    bool overlap; /* reduce while the backward pass runs */
    pthread_mutex_t lock;
    bool lock_made;
    struct accel_work **started; /* [span_count + 1]: works in flight on the device, and of the marks; NULL: none is */
    struct accel_work work; /* which reduces what is complete */
    bool overlapped;  /* it was started in this pass */
    bool busy;        /* it is queued or running, and will see what becomes complete */
    bool stop;        /* it should end after the bucket that it is at */
    bool open;        /* between the beginning and the end of the program's backward pass */
    bool reduces;     /* what it produces is averaged */
    bool checks;      /* gradients that are not finite are errors */
    bool is_ordered;  /* buckets are started by accel_grad_ready(), behind what the program has queued by then */
    size_t reported;  /* gradients, in this pass */
    size_t next;      /* the bucket whose turn it is */
    unsigned char *ready; /* [count]: reported in this pass */
    unsigned char *used;  /* [count]: or in one since gradients were last averaged */
    unsigned char *mask;  /* [count]: used by any process; NULL without find_unused_parameters */
    uint8_t *marks;       /* the same on the device, and then [count] ones; NULL in host memory */
    bool has_marks;       /* what others have used in earlier passes of the step is there, and not in `used` */
    void *aside;          /* on the device: what gradients hold that this process has not used, during an average */
    bool announced;   /* to accel_join_end(); by whoever reduces, without the lock: not beside what has one */
    const struct comm_site *site;
    struct comm_site there;   /* the same for buffers on the model's device */
    struct accel_error error; /* the first; its code is ACCEL_OK if there is none */
    void **halves; /* [span_count]: compressed gradients; on the host, the first is that of all */
    struct power_sgd *power_sgd; /* or NULL */
};

/** Make what averages the gradients of @p model, whose spans are there. */
enum accel_status reducer_create (struct accel_model *model, struct accel *acc, struct accel_error *err);

/** Accepts a model without. */
void reducer_destroy (struct accel_model *model);

/**
 * A backward pass: its beginning and its end.
 *
 * @param reduces  gradients are averaged at the end, or earlier
 * @param failed   the program's pass did: nothing more is sent
 * @return what was wrong with the reports or the reductions; this process has told its peers then
 * @{
 */
void reducer_begin (struct accel_model *model, const struct comm_site *site, bool reduces);
enum accel_status reducer_end (struct accel_model *model, bool failed, struct accel_error *err);
/** @} */

/**
 * Whether the gradient of parameter @p index, or of any, is infinite or NaN.
 *
 * @retval ACCEL_ERR_INVALID  it is; `text` names the first such parameter, its element and this rank
 * @{
 */
enum accel_status reducer_check_gradient (const struct accel_model *model, size_t index, struct accel_error *err);
enum accel_status reducer_check_gradients (const struct accel_model *model, struct accel_error *err);
/** @} */

/** Take part in the others' average with gradients of zero, which they are afterwards too.  Collective. */
enum accel_status reducer_shadow (struct accel_model *model, const struct comm_site *site, struct accel_error *err);

/** Copy the untrained parameters of rank @p root to all.  Collective. */
enum accel_status model_broadcast_buffers (struct accel_model *model, struct accel_comm *comm,
                                           const struct comm_site *site, int root, struct accel_error *err);

/** The hooks: float16 and bfloat16.  @p data [count] is one stretch of bucket @p s.  @{ */
enum accel_status hook_make (struct accel_model *model, struct accel *acc, struct accel_error *err);
void hook_free (struct accel_model *model);
enum accel_status hook_reduce (struct accel_model *model, size_t s, void *data, size_t count, struct accel_error *err);
/** @} */

/** The same for the chunks of a gradient that is divided (stretches.h): @p data [size, chunk], of which this process's
 *  becomes the average, and the others' become anything. */
enum accel_status hook_scatter (struct accel_model *model, size_t s, void *data, size_t chunk, struct accel_error *err);

/** On a device, in the order of its stream: start bucket @p s, and what is done when the stream has its sum.  @{ */
enum accel_status hook_start (struct accel_model *model, size_t s, struct accel_error *err);
void hook_finish (struct accel_model *model, size_t s);
/** @} */

/**
 * PowerSGD: whether this pass compresses, what it draws before the first bucket, and one bucket's reduction; passes are
 * counted at the last bucket.
 *
 * @param mask  [count] which gradients take part; NULL: all
 * @{
 */
enum accel_status power_sgd_make (struct accel_model *model, struct accel *acc, struct accel_error *err);
void power_sgd_free (struct accel_model *model);
bool power_sgd_is_due (const struct accel_model *model);
void power_sgd_begin (struct accel_model *model);
void power_sgd_count (struct accel_model *model);
enum accel_status power_sgd_reduce (struct accel_model *model, size_t s, const unsigned char *mask,
                                    struct accel_error *err);
/** @} */

/**
 * The same on a device, on a stream beside the program's.  Nothing is done in a pass that does not compress.
 *
 * power_sgd_follow(): what is done there from now on comes after what the program's stream has by now.
 * power_sgd_join(): the other way round.
 * @{
 */
bool power_sgd_can_be_ordered (const struct accel_model *model);
enum accel_status power_sgd_follow (const struct accel_model *model, struct accel_error *err);
enum accel_status power_sgd_start (struct accel_model *model, size_t s, struct accel_error *err);
enum accel_status power_sgd_join (const struct accel_model *model, struct accel_error *err);

/** What is remembered of gradient @p index: array 0, 1 and so on.  @return NULL: there are no more */
void *power_sgd_memory (const struct accel_model *model, size_t index, unsigned array, size_t *bytes);

/** Copy it there.  @param to  allocated before power_sgd_follow() */
void power_sgd_copy (const struct accel_model *model, void *to, const void *from, size_t bytes);
/** @} */

#endif
