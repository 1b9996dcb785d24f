/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels as C functions.  Each queues work on @p stream and returns at once; pointers are addresses on the device,
 * and counts may be 0.  What a launch complains of is in cudaGetLastError().  Elements are computed as
 * lib/kernels/..._element.h say, and results are those of lib/kernels/floats.h and matrix.h. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "lib/kernels/rules.h"
#include "lib/kernels/vocabulary.h"

#include <accel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @return whether kernels were compiled for GPUs of this compute capability */
bool cuda_has_kernels (int major, int minor);

/** Bytes that kernels need as scratch memory: one piece for each stream, aligned to 16 bytes. */
enum { CUDA_SCRATCH = 32 << 10 };

/** As struct memory_update. */
struct cuda_update {
    enum rule rule;
    struct rule_numbers numbers;
    float *parameter;
    const void *grad;
    enum accel_dtype grad_dtype;
    float factor;
    float *state[RULE_STATES];
    void *narrow; /* may be NULL */
    enum accel_dtype narrow_dtype;
    size_t count;
};
void cuda_update (const struct cuda_update *update, void *stream);

/** @{ Many arrays in one launch; lib/memory/lists.h says what each function does.  data and narrow of no two items
 *  overlap. */
struct cuda_item {
    void *data;
    size_t count;
    const void *grad;
    float *state[RULE_STATES];
    void *narrow;
    enum accel_dtype dtype, grad_dtype, narrow_dtype;
    unsigned first, blocks, index; /* blocks of those before it, and its own; which item it is */
};
struct cuda_table {
    const struct cuda_item *items, *host; /* [count] in both memories */
    double *sums;                         /* [blocks] on the device */
    unsigned count, blocks;
};
/** @return how many blocks an item of @p count elements has */
unsigned cuda_item_blocks (size_t count);
void cuda_list_zero (const struct cuda_table *table, void *stream);
/** @param place  where the factor is; NULL: it is @p factor.  The same below */
void cuda_list_unscale (const struct cuda_table *table, float factor, const float *place, uint8_t *found,
                        void *stream);
/** @return false: not this norm */
bool cuda_list_norm (const struct cuda_table *table, float factor, const float *place, double p, float *results,
                     void *stream);
void cuda_list_scale (const struct cuda_table *table, float factor, const float *place, bool only_float32,
                      void *stream);
void cuda_list_clamp (const struct cuda_table *table, float limit, float half_divisor, const float *place,
                      void *stream);
/** What the host knows of a step, or what is on the device instead. */
struct cuda_list_step {
    const struct rule_numbers *numbers; /* host; NULL: */
    const struct rule_numbers *live;    /* on the device; NULL: `numbers` */
    float factor;
    const float *place;
    const uint32_t *skip; /* on the device: not 0, to do nothing; NULL: do it */
};
/** Items from @p first on, @p count > 0 of them. */
void cuda_list_update (const struct cuda_table *table, unsigned first, unsigned count, enum rule rule,
                       const struct cuda_list_step *step, void *stream);
void cuda_list_narrow (const struct cuda_table *table, void *stream);
void cuda_list_narrow_scaled (const struct cuda_table *table, float *scales, void *stream);
/** @param norms  [count]  @param p  2 or infinity  @param pending  multiplied by the factor; may be NULL */
void cuda_clip_factor (const float *norms, size_t count, double p, float most, float *factor, float *pending,
                       void *stream);
/** @} */

/** @{ As struct memory_live in lib/memory/lists.h says. */
struct scaler_values;
struct scaler_factors;
void cuda_begin_step (struct rule_steps *steps, struct rule_group *groups, size_t count, const uint8_t *found,
                      void *stream);
void cuda_note_scale (const struct scaler_values *scaler, float *scale, float *inverse, void *stream);
void cuda_note_found (struct scaler_values *scaler, const uint8_t *found, bool last,
                      const struct scaler_factors *factors, void *stream);
/** @} */

/** @p bytes, zeros if @p from is NULL, unless *@p flag is not 0. */
void cuda_copy_unless (void *to, const void *from, size_t bytes, const uint8_t *flag, void *stream);

void cuda_scale (void *values, enum accel_dtype dtype, size_t count, double factor, void *stream);
void cuda_clamp (void *values, enum accel_dtype dtype, size_t count, float limit, void *stream);
void cuda_add (float *target, const float *source, size_t count, void *stream);
/** @param found  a byte in memory that is allocated in multiples of 4 bytes */
void cuda_unscale (void *values, enum accel_dtype dtype, size_t count, float factor, uint8_t *found, void *stream);
/** The order of the sum depends on @p count only, but is another than the processor's. */
void cuda_norm (const void *values, enum accel_dtype dtype, size_t count, float factor, double p, float *result,
                void *scratch, void *stream);

struct cuda_place {
    unsigned long long index; /* all bits set: all values are finite */
    float value;
    float unused;
};
void cuda_find_nonfinite (const void *values, enum accel_dtype dtype, size_t count, struct cuda_place *place,
                          void *stream);

/** float32 from any other float, times @p factor. */
void cuda_widen (float *to, const void *from, enum accel_dtype dtype, size_t count, float factor, void *stream);
/** @param factor  of values before they are rounded; 1: none.  @param saturate  too large ones become the largest */
void cuda_narrow (void *to, enum accel_dtype dtype, const float *from, size_t count, float factor, bool saturate,
                  void *stream);
/** @p bits becomes the bits of the largest magnitude, NaN above infinity; it must be 0 before. */
void cuda_largest (const float *values, size_t count, unsigned *bits, void *stream);
/** @return what floats_narrow_scaled() returns, from those bits */
float cuda_scale_of (unsigned largest_bits, enum accel_dtype dtype);
/** @p to may be @p from if the types are equal. */
void cuda_convert (void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype, size_t count,
                   float divisor, void *stream);

/** Elements of one shape between strides; sizes of 1, 2, 4 and 8 bytes. */
struct cuda_layout {
    int ndim;
    int64_t shape[ACCEL_MAX_DIMS], to[ACCEL_MAX_DIMS], from[ACCEL_MAX_DIMS]; /* strides in elements */
};
void cuda_copy_layout (void *to, const void *from, const struct cuda_layout *layout, size_t element_bytes,
                       void *stream);

void cuda_multiply (float *p, const float *values, const float *q, size_t n, size_t m, size_t rank, void *stream);
void cuda_multiply_transposed (float *q, const float *values, const float *p, size_t n, size_t m, size_t rank,
                               void *stream);
/** @param error  may be NULL */
void cuda_expand (float *values, float *error, const float *p, const float *q, size_t n, size_t m, size_t rank,
                  void *stream);
/** @param seed  host; may be NULL */
void cuda_orthogonalise (float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed, void *scratch,
                         void *stream);

/** As lib/kernels/vocabulary.h says; pointers in @p rows are on the device. @{ */
void cuda_vocabulary_find_largest (const struct vocabulary_rows *rows, void *stream);
void cuda_vocabulary_add_up (const struct vocabulary_rows *rows, void *stream);
void cuda_vocabulary_finish (const struct vocabulary_rows *rows, void *stream);
void cuda_vocabulary_look_up (const struct vocabulary_tokens *tokens, void *stream);
void cuda_vocabulary_add_back (const struct vocabulary_tokens *tokens, void *stream);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
