/* SPDX-License-Identifier: Apache-2.0 */
/* Models from memory that a program has laid out itself: one array with a table of what lies where, or an array of
 * structs.  The model makes the tensors, which are views: nothing is copied. */
#ifndef ACCEL_LAYOUT_H
#define ACCEL_LAYOUT_H

#include <accel/base.h>
#include <accel/tensor.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** The offset of a row, other than the first, that begins where the array does. */
#define ACCEL_OFFSET_ZERO SIZE_MAX

/** One parameter in an array of all: a row of the table. */
struct accel_array_row {
    const char *name; /**< unique in its model; copied */
    int ndim;
    int64_t shape[ACCEL_MAX_DIMS];
    size_t offset; /**< elements from the beginning of the array; 0: right after the row before */
    bool frozen;   /**< not trained: has no gradient */
};

/** An array of all parameters, and one of their gradients at the same offsets. */
struct accel_array {
    void *data;   /**< [count], the program's, which outlives the model; NULL: the model allocates it, zeroed */
    void *grad;   /**< [count], the program's likewise; NULL: accel_prepare() finds memory for each gradient */
    size_t count; /**< elements of either; 0: as many as the rows need */
    enum accel_dtype dtype;      /**< of all parameters; 0 is float32 */
    enum accel_dtype grad_dtype; /**< of all gradients; 0 is float32 */
};

/**
 * Make a model of one array and a table of names, shapes and offsets.  Parameters and gradients are views of the
 * arrays: accel_model_parameter() and accel_model_get_parameter() hand them out.
 *
 * Averaging copies nothing where `grad` is memory of accel_alloc(), and where it is NULL.  Other memory is averaged in
 * place as far as rows are neighbours.
 *
 * @param array  copied
 * @param rows   [row_count]; copied
 * @retval ACCEL_ERR_INVALID      a bad shape, rows that overlap or end outside the array, an array that is not
 *                                aligned to its elements, or what accel_model_create() refuses
 * @retval ACCEL_ERR_UNSUPPORTED  a type that is not trained
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_from_array (struct accel_model **model, const struct accel_array *array,
                        const struct accel_array_row *rows, size_t row_count, struct accel_error *err);

/** No such field: for offsets in struct accel_struct_layout. */
#define ACCEL_NO_FIELD SIZE_MAX

/**
 * Where a program's own struct has what describes a parameter.  Offsets are in bytes, from offsetof(); each must be
 * given, if only as ACCEL_NO_FIELD where that is allowed.
 */
struct accel_struct_layout {
    size_t stride_bytes; /**< from one struct to the next: sizeof */
    size_t name;         /**< of a `const char *`, or of an array of char if name_inline */
    bool name_inline;
    size_t data;      /**< of a pointer to the parameter's elements */
    size_t grad;      /**< of a pointer to the gradient's; ACCEL_NO_FIELD: no parameter is trained */
    size_t shape;     /**< of the first size, with the others after it */
    size_t dim_bytes; /**< of one size, an integer: 4 or 8; 0: 8 */
    size_t ndim;      /**< of the number of dimensions, an int; ACCEL_NO_FIELD: `dims` for all */
    int dims;         /**< dimensions of all, where ndim is ACCEL_NO_FIELD; 1 with an element count as the shape, say */
    enum accel_dtype dtype;      /**< of all parameters; 0 is float32 */
    enum accel_dtype grad_dtype; /**< of all gradients; 0 is float32 */
};

/**
 * Make a model of an array of structs, one for each parameter.  They are read now and may go away; what their pointers
 * point at must outlive the model.  A NULL pointer to data or a gradient means what it does in struct accel_parameter:
 * the library finds the memory.
 *
 * @param structs  [count], layout->stride_bytes apart
 * @param layout   copied
 * @retval ACCEL_ERR_INVALID  a layout that is not one, a bad shape, or what accel_model_create() refuses
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_from_structs (struct accel_model **model, const void *structs, size_t count,
                          const struct accel_struct_layout *layout, struct accel_error *err);

/** @return the parameter of that name, as accel_model_parameter(); NULL where there is none.  torch's get_parameter. */
ACCEL_API const struct accel_parameter *
accel_model_get_parameter (const struct accel_model *model, const char *name);

ACCEL_END_DECLS

#endif
