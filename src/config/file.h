/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: from text to settings and back.  Two readers (yaml.c, json.c) make the same list of entries; one
 * function here gives these to the option table's rows. */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "config/options.h"
#include "util/fail.h"
#include "util/strbuf.h"

enum entry_kind {
    ENTRY_NULL,
    ENTRY_PLAIN, /* a bare word: may be a truth value or a number */
    ENTRY_TEXT,  /* a quoted text, never anything else */
    ENTRY_LIST,
    ENTRY_MAP, /* only empty ones, others come as their entries; or one inside a section, which nothing here has */
};

struct entry {
    char *section; /* NULL: top level */
    char *key;
    char *value; /* of PLAIN and TEXT; of PLAIN as Python writes what YAML makes of it */
    struct strlist items; /* of LIST, likewise */
    enum entry_kind kind;
    bool is_truth; /* of PLAIN: a truth value */
    bool is_empty; /* of LIST and MAP */
    bool is_nested; /* of LIST: with lists or mappings in it */
    int line;      /* 0: unknown */
};

/** All zero is an empty one. */
struct filedoc {
    const char *path; /* for messages; not owned */
    struct entry *entries;
    size_t count;
    size_t capacity;
};

/** Append an entry; texts are copied.  @return it, or NULL without memory */
struct entry *filedoc_add (struct filedoc *doc, const char *section, const char *key, const char *value,
                           enum entry_kind kind, int line);
void filedoc_release (struct filedoc *doc);

/** Readers: append the entries of @p text to @p doc; messages begin with the path, and the line if known. @{ */
int yaml_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);
int json_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);
/** @} */

/** Whether YAML 1.1 would read the bare word @p text as something else than a text. */
bool yaml_is_special (const char *text);

/** Append @p text as a YAML scalar that stays a text. */
void yaml_add_text (struct strbuf *out, const char *text);

/** Read @p path into @p config. */
int config_read_file (struct config *config, const char *path, struct fail *fail);

/** The settings as the text of a file, YAML or JSON, sorted by key; those without a value are left out. */
int config_write_text (const struct config *config, bool as_json, struct strbuf *out, struct fail *fail);

#endif
