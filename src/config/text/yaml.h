/* SPDX-License-Identifier: Apache-2.0 */
/* Reading YAML into a tree; see yaml.c. */
#ifndef CONFIG_TEXT_YAML_H
#define CONFIG_TEXT_YAML_H

#include "config/text/tree.h"
#include "util/fail.h"

/** Fill the root of @p doc from @p text, which has @p length bytes and then a zero byte; messages begin with the path,
 * and the line if known.  @return 0, or -1 with @p fail set */
int yaml_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);

#endif
