/* SPDX-License-Identifier: Apache-2.0 */
/* Many arrays that are treated alike: a device does so at once, however many there are, if its table has functions for
 * it; what it needs of a list stays with it, so that the same list costs nothing the next time.  Otherwise, each array
 * is treated by itself. */
#ifndef LIB_MEMORY_LISTS_H
#define LIB_MEMORY_LISTS_H

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

/** A step over the items of group @p group. */
struct memory_rule {
    enum rule rule;
    const struct rule_numbers *numbers; /* host */
};

/** What devices do with lists.  Each returns false if it cannot, and nothing has been done then. */
struct memory_lists {
    void (*release) (DLDevice device, void *kept);
    bool (*zero) (DLDevice device, struct memory_list *list);
    bool (*unscale) (DLDevice device, struct memory_list *list, float factor, uint8_t *found);
    bool (*norm) (DLDevice device, struct memory_list *list, float factor, double p, float *results);
    bool (*scale) (DLDevice device, struct memory_list *list, float factor, const float *place, bool only_float32);
    bool (*clamp) (DLDevice device, struct memory_list *list, float limit, float half_limit);
    bool (*update) (DLDevice device, struct memory_list *list, const struct memory_rule *rules, float factor);
    bool (*narrow) (DLDevice device, struct memory_list *list);
    bool (*narrow_scaled) (DLDevice device, struct memory_list *list, float *scales);
    void (*clip_factor) (DLDevice device, const float *norms, size_t count, double p, float most, float *factor);
};

/** Room for @p room items.  @return false: no memory */
bool memory_list_create (struct memory_list *list, size_t room);
void memory_list_destroy (struct memory_list *list, const struct memory *memory, DLDevice device);

/** Free what the device has of it: the next operation begins anew. */
void memory_list_forget (struct memory_list *list, const struct memory *memory, DLDevice device);

/** @{ The functions of struct memory that have these names, for each item. */
void memory_list_zero (struct memory_list *list, const struct memory *memory, DLDevice device);
void memory_list_unscale (struct memory_list *list, const struct memory *memory, DLDevice device, float factor,
                          uint8_t *found);
/** @param results  [count] on the device */
void memory_list_norm (struct memory_list *list, const struct memory *memory, DLDevice device, float factor, double p,
                       float *results);
/** @param only_float32  others stay as they are */
void memory_list_scale (struct memory_list *list, const struct memory *memory, DLDevice device, float factor,
                        bool only_float32);
/** @param half_limit  of 16-bit floats */
void memory_list_clamp (struct memory_list *list, const struct memory *memory, DLDevice device, float limit,
                        float half_limit);
/** From data to narrow. */
void memory_list_narrow (struct memory_list *list, const struct memory *memory, DLDevice device);
/** @} */

/**
 * Scale by what makes the norm of all norms at most @p most: torch's clip_grad_norm_, without the host.
 *
 * @param norms  [count + 1] on the device: has results of memory_list_norm(); the last becomes the factor
 * @param p      2 or infinity
 * @return false: the device cannot
 */
bool memory_list_clip (struct memory_list *list, const struct memory *memory, DLDevice device, float *norms, double p,
                       float most, bool only_float32);

#endif
