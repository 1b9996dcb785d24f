/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: from text to settings and back.  Two readers (yaml.c, json.c) make the same tree of values; one
 * function here gives these to the option table's rows. */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "config/options.h"
#include "config/tree.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** All zero is an empty one. */
struct filedoc {
    const char *path; /* for messages; not owned */
    struct node root; /* a mapping */
};

void filedoc_release (struct filedoc *doc);

/** Readers: fill the root of @p doc from @p text, which has @p length bytes and then a zero byte; messages begin with
 * the path, and the line if known. @{ */
int yaml_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);
int json_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);
/** @} */

enum { FILEDOC_LARGEST = 1 << 20 }; /* bytes of a file */

/** Read @p path, whose name says the format, into @p doc; or @p text, which is that file's. @{ */
int filedoc_read (struct filedoc *doc, const char *path, struct fail *fail);
int filedoc_read_text (struct filedoc *doc, const char *path, const char *text, size_t length, struct fail *fail);
/** @} */

/** Give the values to their settings; errors name the file and the line. */
int filedoc_apply (struct config *config, struct filedoc *doc, struct fail *fail);

/** Old keys under their new names, values in their usual form, and what Accelerate's `config update` fills in.
 * @p doc has gone through filedoc_apply().  @return 0, or -1 with @p fail */
int filedoc_update (struct filedoc *doc, struct fail *fail);

/** What the two parts of this (file.c, update.c) share: the row's own word for a value; the present name of a key under
 * which older questionnaires wrote it, or NULL; whether key @p node of @p root, and its value, are for files of this
 * kind, for SageMaker or for machines of one's own. @{ */
const char *file_choice (const struct option *row, const struct node *node);
const char *file_new_name (const char *section, const char *key);
int file_check_kind (const struct node *root, const struct node *node, struct fail *fail);
/** @} */

/** Whether a file for SageMaker, or one for machines of one's own, may have @p key at the top. */
bool file_has_key (bool is_for_sagemaker, const char *key);

/** Whether YAML 1.1 would read the bare word @p text as something else than a text. */
bool yaml_is_special (const char *text);

/** Append @p text as a YAML scalar that stays a text. */
void yaml_add_text (struct strbuf *out, const char *text);

/** Read @p path into @p config. */
int config_read_file (struct config *config, const char *path, struct fail *fail);

/** The settings as the text of a file, YAML or JSON, sorted by key; those without a value are left out. */
int config_write_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail);

/** What `config default` writes: the settings that were given, and what config update would fill in. */
int config_default_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail);

#endif
