/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a configuration file, unchanged: values with their types, lists, mappings, and lines.  The two
 * readers make it, the writers make text of it as PyYAML and Python's json would. */
#ifndef CONFIG_TEXT_TREE_H
#define CONFIG_TEXT_TREE_H

#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/** Lists and mappings may be so deep inside each other: functions here call themselves. */
enum { NODE_DEEPEST = 32 };

enum node_kind {
    NODE_NULL,
    NODE_BOOL,
    NODE_INT,
    NODE_FLOAT,
    NODE_DATE, /* of YAML; of no use in a configuration, kept unchanged */
    NODE_TEXT,
    NODE_LIST,
    NODE_MAP,
};

/** All zero is a null. */
struct node {
    enum node_kind kind;
    int line;                /* of its key, or its own in a list; 0: unknown */
    char *key;               /* in a mapping */
    enum node_kind key_kind;
    char *text;              /* of scalars, as Python's str() writes it: True, 31, 1e-05; NULL for null */
    struct node *items;      /* of LIST and MAP, in the file's order; a key may be there twice */
    size_t count;
};

/** Append a null to a list or mapping; @p key is copied.  @return it, until the next one is appended; NULL without
 * memory */
struct node *node_add (struct node *parent, const char *key);

/** Make a scalar of a node.  @return 0, or -1 without memory, and then nothing has changed */
int node_set (struct node *node, enum node_kind kind, const char *text);

/** The last of that key, or NULL. */
struct node *node_find (const struct node *map, const char *key);

/** Take away all of that key. */
void node_remove (struct node *map, const char *key);

void node_remove_at (struct node *parent, size_t i);

/** Whether the two mean the same, whatever their keys and lines. */
bool node_equal (const struct node *a, const struct node *b);

static inline bool
node_is_scalar (const struct node *node)
{
    return node->kind != NODE_LIST && node->kind != NODE_MAP;
}

void node_release (struct node *node);

/** A file: its path and its content.  All zero is an empty one. */
struct filedoc {
    const char *path; /* for messages; not owned */
    struct node root; /* a mapping */
};

void filedoc_release (struct filedoc *doc);

/** Released when they go out of scope. @{ */
#define AUTO_NODE __attribute__ ((cleanup (node_release)))
#define AUTO_FILEDOC __attribute__ ((cleanup (filedoc_release)))
/** @} */

/** Bring all mappings in the order of their keys; of a key that occurs twice, the last counts. */
void node_sort (struct node *node);

/** Append a mapping as yaml.safe_dump() or json.dump (indent=2, sort_keys=True) writes it, after node_sort().
 * @return 0, or -1 without memory @{ */
int node_write_yaml (struct node *map, struct strbuf *out);
int node_write_json (struct node *map, struct strbuf *out);

/** The same as YAML in the mapping's own order, each value on one line however long it is: for files of people. */
int node_write_lines (const struct node *map, struct strbuf *out);
/** @} */

/** Fill the root of @p doc from @p text, which has @p length bytes and then a zero byte; messages begin with the path,
 *  and the line if known.  @return 0, or -1 with @p fail set @{ */
int yaml_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);
int json_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail);
/** @} */

#endif
