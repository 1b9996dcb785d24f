/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a .tar.gz by libarchive, which is loaded when it is needed. The same files give the same bytes: no times, no
 * owners, names in order. */
#ifndef SAGEMAKER_PACK_H
#define SAGEMAKER_PACK_H

#include "sagemaker/source.h"

/**
 * Write the files of @p source into @p fd, which is empty.
 *
 * @param stop_fd  end when this becomes readable, with status 130; -1: never
 */
int pack_write (int fd, const struct source *source, int stop_fd, struct fail *fail);

#endif
