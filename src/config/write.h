/* SPDX-License-Identifier: Apache-2.0 */
/* Settings to the text of a configuration file. */
#ifndef CONFIG_WRITE_H
#define CONFIG_WRITE_H

#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** The settings as the text of a file, YAML or JSON, sorted by key; those without a value are left out. */
int config_write_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail);

#endif
