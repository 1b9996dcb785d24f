/* SPDX-License-Identifier: Apache-2.0 */
/* Settings to the content of a configuration file. */
#ifndef CONFIG_WRITE_H
#define CONFIG_WRITE_H

#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** The settings as the content of a file, sorted by key; those without a value are left out.
 *  @param[out] root  all zero before; for node_release()  @return 0, or -1 without memory */
int config_write_tree (const struct config *config, struct node *root);

/** The same as the text of a file, YAML or JSON. */
int config_write_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail);

#endif
