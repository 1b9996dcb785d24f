/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a checkpoint: its files, their sizes and checksums; see accel-checkpoint(5).  It is written last, so
 * a folder that has one is complete. */
#ifndef FILES_MANIFEST_H
#define FILES_MANIFEST_H

#include "files/source.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

#define MANIFEST_NAME "manifest.json"

enum { MANIFEST_VERSION = 1 };

struct manifest_tensor {
    char *name;
    uint64_t checksum; /* XXH3-64 of its bytes in the file */
};

struct manifest_file {
    char *name;        /* relative to the folder; has no "..", and no component is empty */
    uint64_t bytes;
    bool has_tensors;  /* a safetensors file */
    uint64_t checksum; /* of the whole file; of a safetensors file, of everything before the first tensor */
    struct manifest_tensor *tensors; /* [count] */
    size_t count;
};

/** All zero is an empty manifest. */
struct manifest {
    char *library;      /* the version that wrote it; may be NULL */
    uint64_t processes; /* that saved */
    uint64_t saved_ns;  /* CLOCK_REALTIME */
    char *mixed_precision; /* of the job that saved; may be NULL */
    char *nonfinite;    /* a parameter that is infinite or NaN, in words; NULL: there is none */
    struct manifest_file *files; /* [count] */
    size_t count;
};

/** Add a file that has a checksum of its own.  @param name  copied  @return the file; NULL: no memory. */
struct manifest_file *manifest_add_file (struct manifest *manifest, const char *name, uint64_t bytes,
                                         uint64_t checksum);

/** Add a tensor to a file.  @return whether there was memory. */
bool manifest_add_tensor (struct manifest_file *file, const char *name, uint64_t checksum);

/** Move all files of @p from to the end of @p to, and what is not finite, unless @p to has that.  @return whether
 *  there was memory. */
bool manifest_take_files (struct manifest *to, struct manifest *from);

/** @return the file of this name; NULL: there is none. */
const struct manifest_file *manifest_find_file (const struct manifest *manifest, const char *name);

/** Write the text of a manifest; `failed` of @p out says whether there was memory. */
void manifest_write (const struct manifest *manifest, struct strbuf *out);

/**
 * Read the text of a manifest.  Messages say "byte N" of it.
 *
 * @param[out] manifest  for manifest_release(), also after a failure
 * @retval ACCEL_ERR_FORMAT       not a manifest, damaged, or with file names that lead out of the folder
 * @retval ACCEL_ERR_UNSUPPORTED  of a newer format
 */
enum accel_status manifest_parse (struct manifest *manifest, const char *text, size_t length, struct accel_error *err);

/** Read the manifest of folder @p path. */
enum accel_status manifest_read (struct manifest *manifest, const char *path, struct accel_error *err);

/** Add the files of another manifest, given as text as for manifest_parse(), to the end of @p to. */
enum accel_status manifest_take_text (struct manifest *to, const char *text, size_t length, struct accel_error *err);

void manifest_release (struct manifest *manifest);

/**
 * Open a file of a checkpoint for reading: a regular file in @p folder, to which no symbolic link leads.
 *
 * @param name  as in struct manifest_file
 */
enum accel_status manifest_open_file (struct source *source, const char *folder, const char *name,
                                      struct accel_error *err);

/** Check that all files are there and have their sizes. */
enum accel_status manifest_check_sizes (const struct manifest *manifest, const char *folder, struct accel_error *err);

/** Read all of @p file and compare its checksums. */
enum accel_status manifest_check_file (const struct manifest_file *file, const char *folder, struct accel_error *err);

#endif
