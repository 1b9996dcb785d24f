/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: samples by index, streams of samples, and ready-made data sets.  All of them are in host memory. */
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
 * A data set.  The struct, its fields and `user` must stay valid as long as a loader over it lives.  It has either
 * `read`, `read_many` or both, or `next`.  On failure, functions return a status and fill in `err`; anything that they
 * have written is ignored.
 *
 * With random access: `read` writes sample @p index to @p into: one address per field, each for one sample, contiguous.
 * `read_many`, which may be NULL (then `read` is called for each sample), writes sample indices[i] to row i: one
 * address per field, each for @p count samples, contiguous.  Other threads may call both, at the same time with
 * different memory.
 *
 * A stream, which is read in its own order, one sample after the other (torch's IterableDataset): `start`, which may be
 * NULL, goes back to the beginning, in the order of @p epoch; it is called before the first `next` of each epoch.
 * `next` writes one sample to @p into, like `read`, or sets *end to true (it is false before the call) and writes
 * nothing; it is not called again in that epoch, so a stream without `start` can go back to the beginning then.
 *
 * `skip`, which may be NULL (then samples are read and dropped), skips the next @p count samples without reading them,
 * for a pass that begins in the middle; it is called at most once after each `start`.  After the last sample, `next`
 * sets *end.
 *
 * If `start`, `next` or `skip` fails, the attempt ends.  The next attempt calls `start` with the same epoch and then
 * skips what was already delivered, with `skip` or by reading; without `start` there is no other attempt in that epoch.
 * None of the three is called by two threads at the same time.
 */
struct accel_dataset {
    size_t size; /**< samples; of a stream, samples per epoch, or 0: unknown */
    const struct accel_field *fields;
    size_t field_count;
    enum accel_status (*read) (void *user, size_t index, void *const *into, struct accel_error *err);
    void *user;
    enum accel_status (*read_many) (void *user, const int64_t *indices, size_t count, void *const *into,
                                    struct accel_error *err);
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    enum accel_status (*next) (void *user, void *const *into, bool *end, struct accel_error *err);
    enum accel_status (*skip) (void *user, uint64_t count, struct accel_error *err);
};

/**
 * Close a data set made by one of the functions below; not for those that a program made itself.  Accepts NULL,
 * preserves errno.  No loader may use it any more.
 *
 * Any number of threads may read these data sets at the same time.  Unless stated otherwise, they keep no pointers to
 * their arguments: names and options may be freed.
 */
ACCEL_API void accel_dataset_close (struct accel_dataset *dataset);

/**
 * Arrays in memory: sample i of field f is row i of arrays[f].  Nothing is copied before a sample is read: the arrays
 * must live as long as the data set, and changes to them are visible.
 *
 * @param arrays  [field_count], each contiguous [size, ...shape of the field]
 * @param size    samples; may be 0, and arrays[f] may then be NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_from_arrays (struct accel_dataset **dataset, const struct accel_field *fields, const void *const *arrays,
                           size_t field_count, size_t size, struct accel_error *err);

/**
 * The samples from @p first on of another data set, as one of their own: one part to train on, one to evaluate with.
 *
 * @param dataset  not a stream; the struct is copied, and what it points to must live as long as the subset
 * @param size     samples
 * @retval ACCEL_ERR_INVALID  a stream, or samples that @p dataset does not have
 */
#define accel_dataset_subset(...) accel_dataset_subset_sized (sizeof (struct accel_dataset), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_subset_sized (size_t dataset_size, struct accel_dataset **subset, const struct accel_dataset *dataset,
                            size_t first, size_t size, struct accel_error *err);

/** How a token file stores its tokens, in little-endian order. */
enum accel_token_format {
    ACCEL_TOKENS_UINT16, /**< as written by nanoGPT */
    ACCEL_TOKENS_UINT32,
    ACCEL_TOKENS_INT32,
    ACCEL_TOKENS_INT64,
    ACCEL_TOKENS_UINT8, /**< any file: its bytes */
    ACCEL_TOKENS_LLMC, /**< llm.c's files: a header of 256 int32 selects one of the first two, and gives the count */
};

/** Files of tokens, cut into sequences; 0 is each field's default, except `sequence_length`, which is required. */
struct accel_tokens_options {
    enum accel_token_format format; /**< 0: ACCEL_TOKENS_UINT16 */
    size_t sequence_length; /**< tokens per sample */
    size_t stride;          /**< tokens from the start of one sample to the start of the next; 0: sequence_length */
    uint64_t header_bytes;  /**< bytes before the first token; 0 with ACCEL_TOKENS_LLMC, whose length is known */
    bool labels;            /**< a second field "labels": the next token for each token */
    bool int64;             /**< the fields are int64 (as torch expects); false: int32 */
    bool mapped;            /**< map files; false: read them with pread().  See below */
    bool across_files;      /**< of several files: join their tokens, so samples may begin in one file and end in
                                 another; false: each sample is in one file, and what is left at its end is omitted */
    unsigned open_files;    /**< of several files: how many stay open; 0: 16 */
    uint64_t vocab_size;    /**< reading a token that is not smaller is an error; 0: any token is valid */
};

/**
 * Files of tokens as one data set, in the order of @p paths, with fields "input_ids" and, if requested, "labels", each
 * [sequence_length].  Sample i of a file begins at its token i * stride; samples that the file does not contain
 * completely (with the following token, for labels) are omitted, unless `across_files` lets them end in the next one.
 *
 * Samples come from the page cache and the files may be larger than memory.  pread() is the default: if a file is
 * truncated or the disk fails, that read is an error.  A mapping saves one or two system calls per sample; truncation
 * is an error there too, unless it happens during the read itself, in which case the process is killed by SIGBUS, as it
 * is if the disk fails.
 *
 * A single file stays open.  Of several, all must have tokens of the same size; they are measured now, and opened again
 * when a sample needs them: `open_files` stay open, plus one for each thread that is reading.  A file whose size or
 * time of modification changes is an error at its next read.  Loaders over several files can be prepared only if all
 * ranks have the same files: equal names (without folders) and sizes, in the same order.
 *
 * accel_sampler_create_llmc() goes through the files in the order of llm.c's trainer.
 *
 * @param paths  [count]; a path that is not that of a file may be a glob(7) pattern such as "fineweb_train_*.bin": all
 *               files that match it, sorted by path in byte order.  A file may occur more than once
 * @retval ACCEL_ERR_INVALID  no paths, or an invalid size; reading a token that int32 cannot hold, or not
 *                            below vocab_size, is ACCEL_ERR_FORMAT
 * @retval ACCEL_ERR_FORMAT   a partial token at the end, or not an llm.c header; of several files, one without tokens,
 *                            or with tokens of a different size, or no file with a complete sample
 * @retval ACCEL_ERR_SYSTEM   a file cannot be opened, read or mapped; no file matches a pattern, or its folder cannot
 *                            be read
 */
#define accel_dataset_open_tokens(...)                                                  \
    accel_dataset_open_tokens_sized (sizeof (struct accel_tokens_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_tokens_sized (size_t options_size, struct accel_dataset **dataset, const char *const *paths,
                                 size_t count, const struct accel_tokens_options *options, struct accel_error *err);

/** Whether the first row of a CSV file names the columns. */
enum accel_csv_header {
    ACCEL_CSV_HEADER_AUTO, /**< it does if none of its cells is a number */
    ACCEL_CSV_HEADER_NO,
    ACCEL_CSV_HEADER_YES,
};

/** The columns of a CSV file that form a field: as many adjacent columns as its shape has elements. */
struct accel_csv_field {
    struct accel_field field; /**< any dtype but the 16-bit floats */
    size_t column;            /**< the first column, counted from 1; 0: see `header` */
    const char *header;       /**< the name of the first column in the header; NULL: the column after the last field */
    double scale;             /**< for floats: factor; 0: unchanged, ACCEL_ZERO: by 0 */
    double min, max;          /**< limits of a cell before scaling; both 0: those of the dtype; both
                                   ACCEL_ZERO: 0 only */
};

/** How to read a CSV file; 0 is each field's default. */
struct accel_csv_options {
    enum accel_csv_header header; /**< 0: ACCEL_CSV_HEADER_AUTO */
    char separator; /**< between cells; 0: ',' */

    /** The fields; columns that belong to no field may contain any text.  NULL: `dtype` and `label_column` apply. */
    const struct accel_csv_field *fields;
    size_t field_count; /**< of `fields` */

    /** Without `fields`: all columns but the label are "features" of this type (0: float32). */
    enum accel_dtype dtype;
    /** Without `fields`: the column of the int64 "label", counted from 1, or from the end with -1; 0: no label. */
    int label_column;
};

/**
 * A file of numbers in rows and columns, which is read into memory completely when it is opened.
 *
 * Cells may be in double quotes and surrounded by blanks; lines end in LF or CRLF; empty lines are ignored.  Numbers
 * are decimal, in the C locale; floats may be nan or inf.  A row that is longer or shorter than the first, an empty
 * cell, or a cell that its dtype cannot hold is an error, with FILE:LINE:COLUMN (of the text, from 1).
 *
 * @param options  NULL: all columns are "features", float32
 * @retval ACCEL_ERR_INVALID  fields or columns that do not match the file
 * @retval ACCEL_ERR_FORMAT   malformed text
 */
#define accel_dataset_open_csv(...)                                                                                \
    accel_dataset_open_csv_sized (sizeof (struct accel_csv_options), sizeof (struct accel_csv_field), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_csv_sized (size_t options_size, size_t field_size, struct accel_dataset **dataset,
                              const char *path, const struct accel_csv_options *options, struct accel_error *err);

/** How to read IDX files; 0 is each field's default. */
struct accel_idx_options {
    const char *image_name; /**< name of the first field; NULL: "image" */
    const char *label_name; /**< NULL: "label" */
    bool scale;             /**< bytes of images (uint8) become float32 from 0 to 1 */
};

/**
 * IDX files, the format of MNIST and similar data sets: the first dimension counts samples.  Fields have the type of
 * the file: uint8, int8, int32, float32 or float64 (int16 becomes int32).
 *
 * @param labels   a second file with the same number of samples; NULL: none
 * @param options  may be NULL
 * @retval ACCEL_ERR_FORMAT  not an IDX file, or one that is compressed, truncated or too long, or numbers of samples
 *                           that differ
 */
#define accel_dataset_open_idx(...) accel_dataset_open_idx_sized (sizeof (struct accel_idx_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_idx_sized (size_t options_size, struct accel_dataset **dataset, const char *images,
                              const char *labels, const struct accel_idx_options *options, struct accel_error *err);

/**
 * Tensors of a safetensors file whose first dimension counts samples; fields have the names of the tensors.
 *
 * @param names  [count] tensors to read, in the order of the fields.  NULL with 0: all, in file order
 * @retval ACCEL_ERR_INVALID      no such tensor, or sizes of the first dimension that differ
 * @retval ACCEL_ERR_FORMAT       not a valid safetensors file
 * @retval ACCEL_ERR_UNSUPPORTED  an element type that enum accel_dtype lacks
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_dataset_open_safetensors (struct accel_dataset **dataset, const char *path, const char *const *names,
                                size_t count, struct accel_error *err);

ACCEL_END_DECLS

#endif
