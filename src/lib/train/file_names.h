/* SPDX-License-Identifier: Apache-2.0 */
/* What the parameters of a model are called in files, and how they lie there: accel_model_set_file_names(). */
#ifndef LIB_TRAIN_FILE_NAMES_H
#define LIB_TRAIN_FILE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct accel_model;
struct file_names;

/**
 * @param number            0: the name under which the parameter is saved; higher: others under which it may be found
 * @param[out] transposed   whether the file has the transpose of the parameter; unchanged after the last name
 * @return the name, owned by @p model, or NULL after the last
 */
const char *file_names_get (const struct accel_model *model, size_t parameter, size_t number, bool *transposed);

/** @return whether a file's tensor @p name is one that the model does not need. */
bool file_names_ignore (const struct accel_model *model, const char *name);

/** Accepts NULL. */
void file_names_destroy (struct file_names *names);

#endif
