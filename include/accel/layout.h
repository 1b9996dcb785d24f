/* SPDX-License-Identifier: Apache-2.0 */
/* Models of memory that a program lays out itself: one array and a table of its parameters, or an array of structs.
 * The model creates the tensors, which are views: nothing is copied.
 *
 * If accel_prepare() places the model on a GPU (train.h), the views are of memory there, and the array, or the pointers
 * in the structs, must not be used until the model goes back: take all addresses from accel_model_parameter() or
 * accel_model_get_parameter() after accel_prepare().  Rows without gaps are adjacent there, too; distances over a gap
 * change.  Programs that compute on the processor set `cpu`, or `device_placement` to ACCEL_NO, in accel_options. */
#ifndef ACCEL_LAYOUT_H
#define ACCEL_LAYOUT_H

#include <accel/base.h>
#include <accel/tensor.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** The offset of a row that starts at the beginning of the array but is not the first row. */
#define ACCEL_OFFSET_ZERO SIZE_MAX

/** One parameter in an array of all parameters: a row of the table. */
struct accel_array_row {
    const char *name; /**< unique in the model; copied */
    int ndim;
    int64_t shape[ACCEL_MAX_DIMS];
    size_t offset; /**< elements from the beginning of the array; 0: directly after the previous row */
    bool frozen;   /**< not trained; has no gradient */
};

/** An array of all parameters, and an array of their gradients at the same offsets. */
struct accel_array {
    void *data;   /**< [count], owned by the program, outlives the model; NULL: the model allocates zeros */
    void *grad;   /**< [count], likewise; NULL: accel_prepare() allocates memory for each gradient */
    size_t count; /**< elements in each array; 0: as many as the rows need */
    enum accel_dtype dtype;      /**< of all parameters; 0 is float32 */
    enum accel_dtype grad_dtype; /**< of all gradients; 0 is float32 */
};

/**
 * Make a model of one array and a table of names, shapes and offsets.  Parameters and gradients are views of the
 * arrays: accel_model_parameter() and accel_model_get_parameter() return them.
 *
 * Averaging copies nothing if `grad` is NULL or was allocated with accel_alloc().  In other memory, adjacent rows are
 * averaged in place.  Pass `grad` if the program clears or reads all gradients as one array on the processor, for
 * example with memset().
 *
 * @param array  copied
 * @param rows   [row_count]; copied
 * @retval ACCEL_ERR_INVALID      an invalid shape, rows that overlap or end outside the array, an array that is not
 *                                aligned to its elements, or an error of accel_model_create()
 * @retval ACCEL_ERR_UNSUPPORTED  parameters of this type cannot be trained
 */
#define accel_model_from_array(...)                                                                          \
    accel_model_from_array_sized (sizeof (struct accel_array), sizeof (struct accel_array_row), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_from_array_sized (size_t array_size, size_t row_size, struct accel_model **model,
                              const struct accel_array *array, const struct accel_array_row *rows, size_t row_count,
                              struct accel_error *err);

/** In struct accel_struct_layout: the struct has no such field. */
#define ACCEL_NO_FIELD SIZE_MAX

/**
 * Where the fields that describe a parameter are in a program's own struct.  Offsets are in bytes, from offsetof().
 * Set all of them; use ACCEL_NO_FIELD for a field that does not exist, if that is allowed.
 */
struct accel_struct_layout {
    size_t stride_bytes; /**< from one struct to the next: sizeof */
    size_t name;         /**< of a `const char *`, or of an array of char if name_inline is set */
    bool name_inline;
    size_t data;      /**< of a pointer to the parameter's elements */
    size_t grad;      /**< of a pointer to the gradient's elements; ACCEL_NO_FIELD: no parameter is trained */
    size_t shape;     /**< of the first size; the other sizes follow it */
    size_t dim_bytes; /**< bytes of one size, an integer: 4 or 8; 0: 8 */
    size_t ndim;      /**< of the number of dimensions, an int; ACCEL_NO_FIELD: all parameters have `dims` */
    int dims;         /**< number of dimensions if ndim is ACCEL_NO_FIELD; 1 if `shape` is an element count */
    enum accel_dtype dtype;      /**< of all parameters; 0 is float32 */
    enum accel_dtype grad_dtype; /**< of all gradients; 0 is float32 */
};

/**
 * Make a model of an array of structs, one for each parameter.  The structs are read now and not needed afterwards; the
 * memory that they point to must outlive the model.  A NULL pointer to data or a gradient has the same meaning as in
 * struct accel_parameter: the library allocates the memory.
 *
 * @param structs  [count], layout->stride_bytes apart
 * @param layout   copied
 * @retval ACCEL_ERR_INVALID  an invalid layout or shape, or an error of accel_model_create()
 */
#define accel_model_from_structs(...) accel_model_from_structs_sized (sizeof (struct accel_struct_layout), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_from_structs_sized (size_t layout_size, struct accel_model **model, const void *structs, size_t count,
                                const struct accel_struct_layout *layout, struct accel_error *err);

/** @return the parameter of that name, as accel_model_parameter(); NULL if there is none.  torch's get_parameter. */
ACCEL_API const struct accel_parameter *
accel_model_get_parameter (const struct accel_model *model, const char *name);

ACCEL_END_DECLS

#endif
