/* SPDX-License-Identifier: Apache-2.0 */
/* Many arrays that are treated alike: a device does so at once, however many there are, if its table has functions for
 * it; what it needs of a list stays with it, so that the same list costs nothing the next time.  Otherwise, each array
 * is treated by itself. */
#ifndef LIB_MEMORY_LISTS_H
#define LIB_MEMORY_LISTS_H

#include "lib/kernels/scaler_element.h"
#include "lib/memory/memory.h"

/** An array.  Fields that an operation does not use are 0. */
struct memory_item {
    void *data; /* [count]: what is changed or looked at */
    size_t count;
    const void *grad;            /* [count]: of a step */
    float *state[RULE_STATES];   /* each [count]: the same */
    void *narrow;                /* [count]: data in a smaller type; may be NULL */
    enum accel_dtype dtype, grad_dtype, narrow_dtype;
    unsigned group; /* of a step: which rule; those of one group are neighbours */
};

struct memory_list {
    struct memory_item *items; /* [room] */
    size_t count, room;
    void *kept; /* the device's; NULL: nothing yet */
};

/** A number that the host knows, or one on the device, which it does not. */
struct memory_factor {
    float value;
    const float *place; /* on the device; NULL: `value` */
};

/** A step over the items of group @p group. */
struct memory_rule {
    enum rule rule;
    const struct rule_numbers *numbers; /* host; or, if a struct rule_steps is given, on the device */
};

/** What devices do with lists.  Each returns false if it cannot, and nothing has been done then. */
struct memory_lists {
    void (*release) (DLDevice device, void *kept);
    bool (*zero) (DLDevice device, struct memory_list *list);
    bool (*unscale) (DLDevice device, struct memory_list *list, struct memory_factor factor, uint8_t *found);
    bool (*norm) (DLDevice device, struct memory_list *list, struct memory_factor factor, double p, float *results);
    bool (*scale) (DLDevice device, struct memory_list *list, struct memory_factor factor, bool only_float32);
    bool (*clamp) (DLDevice device, struct memory_list *list, float limit, struct memory_factor half_divisor);
    /** @param steps  on the device: whether it is skipped; NULL: it is not */
    bool (*update) (DLDevice device, struct memory_list *list, const struct memory_rule *rules,
                    struct memory_factor factor, const struct rule_steps *steps);
    bool (*narrow) (DLDevice device, struct memory_list *list);
    bool (*narrow_scaled) (DLDevice device, struct memory_list *list, float *scales);
    /** @param pending  on the device: is multiplied by the factor, too; may be NULL */
    void (*clip_factor) (DLDevice device, const float *norms, size_t count, double p, float most, float *factor,
                         float *pending);
};

/** What a device does about numbers that the host does not know.  All pointers are on the device. */
struct memory_live {
    /** Begin a step, or skip it.
     *  @param groups  [count]  @param found  a byte that says which; NULL: it is not skipped */
    void (*begin_step) (DLDevice device, struct rule_steps *steps, struct rule_group *groups, size_t count,
                        const uint8_t *found);
    /** A loss is multiplied by the present scale: note that, and its inverse. */
    void (*note_scale) (DLDevice device, const struct scaler_values *scaler, float *scale, float *inverse);
    /** A step by gradients was taken, or was skipped if @p found is not 0.  @param last  update the scaler */
    void (*note_found) (DLDevice device, struct scaler_values *scaler, const uint8_t *found, bool last,
                        const struct scaler_factors *host_factors);
    /** From now on, what this thread queues on @p device may become part of a CUDA graph, or may no longer.
     *  @return whether the stream is being captured */
    bool (*permit_capture) (DLDevice device, bool permits);
};

/** Room for @p room items.  @return false: no memory */
bool memory_list_create (struct memory_list *list, size_t room);
void memory_list_destroy (struct memory_list *list, const struct memory *memory, DLDevice device);

/** Free what the device has of it: the next operation begins anew. */
void memory_list_forget (struct memory_list *list, const struct memory *memory, DLDevice device);

/** @{ The functions of struct memory that have these names, for each item. */
void memory_list_zero (struct memory_list *list, const struct memory *memory, DLDevice device);
void memory_list_unscale (struct memory_list *list, const struct memory *memory, DLDevice device,
                          struct memory_factor factor, uint8_t *found);
/** @param results  [count] on the device */
void memory_list_norm (struct memory_list *list, const struct memory *memory, DLDevice device,
                       struct memory_factor factor, double p, float *results);
/** @param only_float32  others stay as they are */
void memory_list_scale (struct memory_list *list, const struct memory *memory, DLDevice device, float factor,
                        bool only_float32);
/** @param half_divisor  of the limit of 16-bit floats */
void memory_list_clamp (struct memory_list *list, const struct memory *memory, DLDevice device, float limit,
                        struct memory_factor half_divisor);
/** From data to narrow. */
void memory_list_narrow (struct memory_list *list, const struct memory *memory, DLDevice device);
/** @} */

/**
 * Scale by what makes the norm of all norms at most @p most: torch's clip_grad_norm_, without the host.
 *
 * @param norms  [count + 1] on the device: has results of memory_list_norm(); the last becomes the factor
 * @param p      2 or infinity
 * @param pending  on the device: what 16-bit gradients are still to be multiplied by, instead of which this is scaled;
 *                 NULL: they are scaled like the others
 * @return false: the device cannot
 */
bool memory_list_clip (struct memory_list *list, const struct memory *memory, DLDevice device, float *norms, double p,
                       float most, float *pending);

/** @return what is at @p factor.place, for which the host waits, or the value; 1 after an error of the device. */
float memory_read_factor (const struct memory *memory, DLDevice device, struct memory_factor factor);

#endif
