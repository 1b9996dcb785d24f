/* SPDX-License-Identifier: Apache-2.0 */
/* Before `accelerate config` writes a file: would launch take it, and does every flag mean something in it? */
#ifndef CLI_CONFIG_VERIFY_H
#define CLI_CONFIG_VERIFY_H

#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

/**
 * @param flags  whose flags must have an effect
 * @param file   what will be written
 * @return 0, or -1 with @p fail saying what launch, or `config lint`, would say of the file
 */
int verify_file (const struct config *flags, const struct config *file, struct fail *fail);

/** The same for the text that will be saved. */
int verify_text (const struct config *flags, const struct strbuf *text, bool is_json, struct fail *fail);

/** Refuse flags whose keys no file for the environment of @p file may have. */
int verify_kind (const struct config *flags, const struct settings *file, struct fail *fail);

#endif
