/* SPDX-License-Identifier: Apache-2.0 */
/* What configuration files say that the option table does not: words in other spellings, keys under older names, and
 * which keys are for SageMaker and which for machines of one's own. */
#ifndef CONFIG_FILE_KEYS_H
#define CONFIG_FILE_KEYS_H

#include "config/table/options.h"
#include "config/text/tree.h"
#include "util/fail.h"

/** The row's own word for a value. */
const char *file_choice (const struct option *row, const struct node *node);

/** Whether @p word is a backend of torch.compile that older releases of PyTorch had. */
bool file_is_old_backend (const struct option *row, const char *word);

/** The present name of a key under which older questionnaires wrote it, or NULL. */
const char *file_new_name (const char *section, const char *key);

/** The row of a key in its section (NULL: at the top), under its present name or an old one, or NULL. */
const struct option *file_find_row (const char *section, const char *key);

/** Old name @p i and its section, or NULL after the last one. */
const char *file_old_name (size_t i, const char **section);

/** Key @p i of DeepSpeed's own file that has no effect in deepspeed_config, or NULL after the last one. */
const char *file_deepspeed_key (size_t i);

/** Whether the file's compute_environment is SageMaker. */
bool file_is_for_sagemaker (const struct node *root);

/** Whether a file for SageMaker, or one for machines of one's own, may have @p key at the top. */
bool file_has_key (bool is_for_sagemaker, const char *key);

/** Refuse key @p node of @p root, or its value, if it is for files of the other kind.  @return 0, or -1 with @p fail */
int file_check_kind (const struct node *root, const struct node *node, struct fail *fail);

#endif
