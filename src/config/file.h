/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files to settings.  Two readers (text/tree.h) make the same tree of values; one function here gives
 * these to the option table's rows. */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "config/text/tree.h"
#include "config/values.h"
#include "util/fail.h"

enum { FILEDOC_LARGEST = 1 << 20 }; /* bytes of a file */

/** Read @p path, whose name says the format, into @p doc; or @p text, which is that file's. @{ */
int filedoc_read (struct filedoc *doc, const char *path, struct fail *fail);
int filedoc_read_text (struct filedoc *doc, const char *path, const char *text, size_t length, struct fail *fail);
/** @} */

/** Give the values to their settings; errors name the file and the line. */
int filedoc_apply (struct config *config, struct filedoc *doc, struct fail *fail);

/** Read @p path into @p config. */
int config_read_file (struct config *config, const char *path, struct fail *fail);

#endif
