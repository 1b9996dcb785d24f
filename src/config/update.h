/* SPDX-License-Identifier: Apache-2.0 */
/* Files as `config update` and `config default` write them. */
#ifndef CONFIG_UPDATE_H
#define CONFIG_UPDATE_H

#include "config/text/tree.h"
#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** Old keys under their new names, values in their usual form, and what Accelerate's `config update` fills in.
 * @p doc has gone through filedoc_apply().  @return 0, or -1 with @p fail */
int filedoc_update (struct filedoc *doc, struct fail *fail);

/** What `config default` writes: the settings that were given, and what config update would fill in. */
int config_default_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail);

#endif
