/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing the model in a directory so that each moment has a whole one; weights.h describes the files. */
#ifndef FILES_WEIGHTS_SAVE_H
#define FILES_WEIGHTS_SAVE_H

#include "util/strbuf.h"

#include <accel/base.h>

/** A directory that a model is being saved in. */
struct weights_save {
    char *path;
    int folder; /* locked; -1: none */
};

#define WEIGHTS_SAVE_NONE { .folder = -1 }

/**
 * Make the directory, and lock it: two saves at once would mix their files.  A former save that was killed is finished
 * if it was complete, and removed if it was not.
 *
 * @retval ACCEL_ERR_INVALID  it is not a directory, or another process is saving there
 */
enum accel_status weights_save_begin (struct weights_save *save, const char *path, struct accel_error *err);

/** @return the path to write file @p name of the new set to; the caller frees it.  NULL: out of memory */
char *weights_save_path (const char *path, const char *name);

/**
 * All files have been written to their weights_save_path() and synced.  Make them the model of the directory, and
 * remove the former one.
 *
 * @param index  the text of the index; NULL: the model is one file, WEIGHTS_NAME
 */
enum accel_status weights_save_commit (struct weights_save *save, const struct strbuf *index, struct accel_error *err);

/** Unlock; without a commit the files of the new set are removed.  Preserves errno. */
void weights_save_end (struct weights_save *save);

#endif
