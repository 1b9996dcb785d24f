/* SPDX-License-Identifier: Apache-2.0 */
/* A state dict from the inside: values as JSON has them, and tensors: borrowed ones to be saved, or those of a file. */
#ifndef LIB_STATE_STATE_DICT_H
#define LIB_STATE_STATE_DICT_H

#include <accel/statedict.h>

#include "files/safetensors.h"
#include "lib/base/tensor.h"
#include "util/strbuf.h"

enum state_kind { STATE_NUMBER, STATE_BOOL, STATE_TEXT };

struct state_value {
    char *name;
    char *text; /* a number's digits, "true" or "false", or the text itself */
    enum state_kind kind;
};

struct state_tensor {
    char *name;
    struct tensor_view view; /* whose memory is the owner's, or */
    void *owned;             /* ours; may be NULL */
    bool is_trained;         /* a parameter or its master: training is over if it is not finite */
    bool is_stretch;         /* only some elements, of a larger tensor: `view` has one dimension */
    size_t from;             /* then: the first of them, row-major */
    int ndim;                /* of the larger tensor */
    int64_t shape[ACCEL_MAX_DIMS];
};

struct state_runs;

struct accel_state_dict {
    struct state_value *values; /* [value_count] */
    size_t value_count;
    struct state_tensor *tensors; /* [tensor_count]; of one that is saved */
    size_t tensor_count, tensor_room;
    struct accel_error failure; /* the first of the setters' */
    bool failed;
    bool in_shares; /* each rank saves what it has: of what is divided among ranks, stretches */
    /* Of one that is loaded. */
    struct state_runs *runs; /* where the elements of its tensors are, in pieces (state_runs.h); NULL: in `source` */
    struct source source;
    struct safetensors header;
    uint64_t data; /* where tensors begin in the file; 0: there is none, or `begin` counts from the file's beginning */
};

/** An empty one, to be saved. */
void state_dict_init (struct accel_state_dict *state);

/** Write its values as JSON; nothing is written if there are none. */
void state_dict_write (const struct accel_state_dict *state, struct strbuf *out);

/**
 * Fill an empty one with the values of a JSON text.
 *
 * @retval ACCEL_ERR_FORMAT  not an object of numbers, texts and truth values, or a duplicate name
 */
enum accel_status state_dict_parse (struct accel_state_dict *state, const char *text, size_t length,
                                    struct accel_error *err);

/** Let it read tensors from @p source, which it takes, also on failure. */
enum accel_status state_dict_open (struct accel_state_dict *state, struct source *source, struct accel_error *err);

/**
 * Check that there is a stored tensor that can be read into @p like.
 *
 * @retval ACCEL_ERR_FORMAT  there is none, or its shape or type is another one
 */
enum accel_status state_dict_check (const struct accel_state_dict *state, const char *name, const DLTensor *like,
                                    struct accel_error *err);

/**
 * Make one that is loaded by hand, from a file that is not a safetensors file: set values, add tensors, and seal it.
 * @{ */
/** @param begin  of the elements in the file, which are row-major; bytes */
enum accel_status state_dict_add_stored (struct accel_state_dict *state, const char *name,
                                         enum safetensors_dtype dtype, size_t ndim, const uint64_t *shape,
                                         uint64_t begin, struct accel_error *err);
/** @param source  its file, which it takes, also on failure */
enum accel_status state_dict_seal (struct accel_state_dict *state, struct source *source, struct accel_error *err);
/** @} */

/**
 * Read elements @p from to @p end - 1 of a stored tensor to their places in @p into, which has its shape and type.
 */
enum accel_status state_dict_read_stretch (const struct accel_state_dict *state, const char *name,
                                           const DLTensor *into, size_t from, size_t end, struct accel_error *err);

/** Add elements @p from to @p end - 1 of @p tensor, for a state dict that is saved `in_shares`.  The same name may be
 *  there once for each stretch. */
void state_dict_add_stretch (struct accel_state_dict *state, const char *name, const DLTensor *tensor, size_t from,
                             size_t end);

/** accel_state_dict_set_tensor() for one of many, whose name is known to be unique. */
void state_dict_add_tensor (struct accel_state_dict *state, const char *name, const DLTensor *tensor);

/**
 * Natural numbers up to UINT64_MAX, and truth values: programs have accel_state_dict_set_int64() and _get_int64().
 * @{ */
void state_dict_add_uint64 (struct accel_state_dict *state, const char *name, uint64_t value);
void state_dict_add_bool (struct accel_state_dict *state, const char *name, bool value);
enum accel_status state_dict_read_uint64 (const struct accel_state_dict *state, const char *name, uint64_t *number,
                                          struct accel_error *err);
enum accel_status state_dict_read_bool (const struct accel_state_dict *state, const char *name, bool *truth,
                                        struct accel_error *err);
/** @} */

/** What has been added last is a trained parameter or its master. */
void state_dict_mark_trained (struct accel_state_dict *state);

/** The same as the functions above and accel_state_dict_..., with printf()'s arguments for the name.  @{ */
void state_dict_set_tensor (struct accel_state_dict *state, const DLTensor *tensor, const char *format, ...)
    ACCEL_PRINTF (3, 4);
void state_dict_set_stretch (struct accel_state_dict *state, const DLTensor *tensor, size_t from, size_t end,
                             const char *format, ...) ACCEL_PRINTF (5, 6);
void state_dict_set_double (struct accel_state_dict *state, double value, const char *format, ...)
    ACCEL_PRINTF (3, 4);
void state_dict_set_uint64 (struct accel_state_dict *state, uint64_t value, const char *format, ...)
    ACCEL_PRINTF (3, 4);
void state_dict_set_bool (struct accel_state_dict *state, bool value, const char *format, ...) ACCEL_PRINTF (3, 4);
enum accel_status state_dict_get_tensor (const struct accel_state_dict *state, DLTensor *into, struct accel_error *err,
                                         const char *format, ...) ACCEL_PRINTF (4, 5);
enum accel_status state_dict_get_stretch (const struct accel_state_dict *state, const DLTensor *into, size_t from,
                                          size_t end, struct accel_error *err, const char *format, ...)
    ACCEL_PRINTF (6, 7);
enum accel_status state_dict_get_double (const struct accel_state_dict *state, double *value, struct accel_error *err,
                                         const char *format, ...) ACCEL_PRINTF (4, 5);
enum accel_status state_dict_get_uint64 (const struct accel_state_dict *state, uint64_t *value,
                                         struct accel_error *err, const char *format, ...) ACCEL_PRINTF (4, 5);
enum accel_status state_dict_get_bool (const struct accel_state_dict *state, bool *value, struct accel_error *err,
                                       const char *format, ...) ACCEL_PRINTF (4, 5);
/** @} */

/** Free it, and close its file. */
void state_dict_release (struct accel_state_dict *state);

#endif
