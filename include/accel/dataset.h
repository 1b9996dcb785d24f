/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: samples by index, samples one after the other, and data sets that are there already. */
#ifndef ACCEL_DATASET_H
#define ACCEL_DATASET_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** One part of a sample, such as its image or its label. */
struct accel_field {
    const char *name;
    enum accel_dtype dtype;
    int ndim;                      /**< 0 for a single number */
    int64_t shape[ACCEL_MAX_DIMS]; /**< of one sample, without the batch dimension; ndim < ACCEL_MAX_DIMS */
};

/**
 * A data set with random access.  The struct, its fields and `user` are read as long as a loader over it lives.
 *
 * `read` puts sample @p index into @p into: one address per field, for one sample each, contiguous.  `read_many`, which
 * may be NULL (then `read` is called for each), puts sample indices[i] into row i: one address per field, for @p count
 * samples each, contiguous.  Both may be called from other threads, at once for other memory.  On failure they return
 * a status and fill `err`; what they have written then is not looked at.
 */
struct accel_dataset {
    size_t size; /**< samples */
    const struct accel_field *fields;
    size_t field_count;
    enum accel_status (*read) (void *user, size_t index, void *const *into, struct accel_error *err);
    void *user;
    enum accel_status (*read_many) (void *user, const int64_t *indices, size_t count, void *const *into,
                                    struct accel_error *err);
};

/**
 * A data set that is read in its own order, one sample after the other.
 *
 * `start`, which may be NULL, goes back to the beginning, for the order of @p epoch; it is called before the first
 * `next` of each epoch.  `next` puts one sample into @p into, as a data set's `read` does, or sets *end to true (it is
 * false before the call) and writes nothing.
 *
 * `skip`, which may be NULL (then samples are read and dropped), goes past the next @p count samples without reading
 * them, for a pass that begins in the middle; it is called at most once after a `start`.  After the last sample `next`
 * says end.
 *
 * A failure of any of them ends the attempt.  The next one calls `start` with the same epoch, and then goes past what
 * was given out already, by `skip` or by reading; without `start` there is no other attempt in that epoch.
 *
 * None of them is called by two threads at once.
 */
struct accel_stream {
    const struct accel_field *fields;
    size_t field_count;
    size_t size; /**< samples of one epoch; 0: not known */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    enum accel_status (*next) (void *user, void *const *into, bool *end, struct accel_error *err);
    void *user;
    enum accel_status (*skip) (void *user, uint64_t count, struct accel_error *err);
};

/**
 * Close a data set that one of the functions below opened; not for those that a program made itself.  Accepts NULL,
 * preserves errno.  No loader may use it any more.
 *
 * All of them may be read by any number of threads at once.  They keep no pointer to what they were given but where it
 * says so: names and options may go away.
 */
ACCEL_API void accel_dataset_close (struct accel_dataset *dataset);

/**
 * Arrays in memory: sample i of field f is row i of arrays[f].  Nothing is copied before a sample is read: the arrays
 * must live as long as the data set, and a change of them is seen.
 *
 * @param arrays  [field_count], each contiguous [size, ...shape of the field]
 * @param size    samples; 0 is allowed, arrays[f] may then be NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_from_arrays (struct accel_dataset **dataset, const struct accel_field *fields, const void *const *arrays,
                           size_t field_count, size_t size, struct accel_error *err);

/** How a token file stores its tokens, in little-endian order. */
enum accel_token_format {
    ACCEL_TOKENS_UINT16, /**< as nanoGPT writes them */
    ACCEL_TOKENS_UINT32,
    ACCEL_TOKENS_INT32,
    ACCEL_TOKENS_INT64,
    ACCEL_TOKENS_LLMC, /**< llm.c's files: a header of 256 int32 says which of the first two, and how many */
};

/** A file of tokens, cut into sequences; 0 is each field's default, but `sequence_length` must be given. */
struct accel_tokens_options {
    enum accel_token_format format;
    size_t sequence_length; /**< tokens of one sample */
    size_t stride;          /**< tokens from the beginning of one sample to that of the next; 0: sequence_length */
    uint64_t header_bytes;  /**< bytes before the first token; 0 with ACCEL_TOKENS_LLMC, which knows */
    bool labels;            /**< a second field "labels": for each token the one after it */
    bool int64;             /**< the fields are int64 (as torch wants them); false: int32 */
    bool mapped;            /**< map the file; false: read it with pread().  See below */
};

/**
 * A file of tokens with fields "input_ids" and, where wanted, "labels", each [sequence_length].  Sample i begins at
 * token i * stride; samples that the file does not hold completely (with the token after it, for labels) are left out.
 *
 * Either way samples come from the page cache and the file may be larger than memory.  pread() is the default: a file
 * that somebody shortens, or a disk that fails, is an error of that read.  A mapping is quicker by a system call or two
 * for each sample; a file that was shortened is an error there too, unless it happens within the very read, which kills
 * the process with SIGBUS, as a failing disk does.
 *
 * @retval ACCEL_ERR_INVALID  a size that is none; reading a token that int32 does not hold is ACCEL_ERR_FORMAT
 * @retval ACCEL_ERR_FORMAT   not whole tokens after the header, or no header of llm.c
 * @retval ACCEL_ERR_SYSTEM   the file cannot be opened, read or mapped
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_tokens (struct accel_dataset **dataset, const char *path, const struct accel_tokens_options *options,
                           struct accel_error *err);

/** Whether the first row of a CSV file names the columns. */
enum accel_csv_header {
    ACCEL_CSV_HEADER_AUTO, /**< it does if no cell of it is a number */
    ACCEL_CSV_HEADER_NO,
    ACCEL_CSV_HEADER_YES,
};

/** Which columns of a CSV file a field consists of: as many side by side as its shape has elements. */
struct accel_csv_field {
    struct accel_field field; /**< any dtype but the 16-bit floats */
    size_t column;            /**< the first column, counted from 1; 0: see `header` */
    const char *header;       /**< the name of the first column in the header; NULL: the column after the last field */
    double scale;             /**< for floats: multiply by this; 0: as it is, ACCEL_ZERO: by 0 */
    double min, max;          /**< what a cell may hold, before scaling; both 0: anything that the dtype holds; both
                                   ACCEL_ZERO: 0 only */
};

/** How to read a CSV file; 0 is each field's default. */
struct accel_csv_options {
    enum accel_csv_header header;
    char separator; /**< between cells; 0: ',' */

    /** The fields; columns that belong to none may hold any text.  NULL: `dtype` and `label_column` say it. */
    const struct accel_csv_field *fields;
    size_t field_count;

    /** Without `fields`: all columns but the label are "features" of this type (0: float32). */
    enum accel_dtype dtype;
    /** Without `fields`: the column of the int64 "label", counted from 1, or from the end with -1; 0: there is none. */
    int label_column;
};

/**
 * A file of numbers in rows and columns, which is read whole, into memory, when it is opened.
 *
 * Cells may be in double quotes and have blanks around them; lines end in LF or CRLF; empty lines count for nothing.
 * Numbers are decimal, in the C locale; floats may be nan or inf.  A row that is longer or shorter than the first, an
 * empty cell or one that its dtype does not hold is an error, with FILE:LINE:COLUMN (of the text, from 1).
 *
 * @param options  NULL: all columns are "features", float32
 * @retval ACCEL_ERR_INVALID  fields or columns that do not fit the file
 * @retval ACCEL_ERR_FORMAT   what the text should not be
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_csv (struct accel_dataset **dataset, const char *path, const struct accel_csv_options *options,
                        struct accel_error *err);

/** How to read IDX files; 0 is each field's default. */
struct accel_idx_options {
    const char *image_name; /**< name of the first field; NULL: "image" */
    const char *label_name; /**< NULL: "label" */
    bool scale;             /**< bytes of images (uint8) become float32 from 0 to 1 */
};

/**
 * IDX files, in which MNIST and its likes come: the first dimension counts samples.  Fields have the type of the file:
 * uint8, int8, int32, float32 or float64 (int16 becomes int32).
 *
 * @param labels   a second file with as many samples; NULL: there is none
 * @param options  may be NULL
 * @retval ACCEL_ERR_FORMAT  no IDX file, one that is compressed, cut off or too long, or numbers of samples that differ
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_idx (struct accel_dataset **dataset, const char *images, const char *labels,
                        const struct accel_idx_options *options, struct accel_error *err);

/**
 * Tensors of a safetensors file whose first dimension counts samples; fields are named as they are.
 *
 * @param names  [count] tensors to read, in the order of the fields.  NULL with 0: all, in the order of the file
 * @retval ACCEL_ERR_INVALID      no such tensor, or sizes of the first dimension that differ
 * @retval ACCEL_ERR_FORMAT       no valid safetensors file
 * @retval ACCEL_ERR_UNSUPPORTED  an element type that enum accel_dtype does not have
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_safetensors (struct accel_dataset **dataset, const char *path, const char *const *names,
                                size_t count, struct accel_error *err);

ACCEL_END_DECLS

#endif
