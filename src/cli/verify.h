/* SPDX-License-Identifier: Apache-2.0 */
/* Before `accelerate config` writes a file: would launch take it, and does every flag mean something in it? */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "config/options.h"

/**
 * @param flags  whose flags must have an effect
 * @param file   what will be written
 * @return 0, or -1 with @p fail saying what launch, or `config lint`, would say of the file
 */
int verify_file (const struct config *flags, const struct config *file, struct fail *fail);

#endif
