/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a configuration file; see tree.h. */
#include <config.h>

#include "config/text/tree.h"

#include "util/array.h"

#include <stdlib.h>
#include <string.h>

struct node *
node_add (struct node *parent, const char *key)
{
    char *copy = key ? strdup (key) : NULL;
    struct node *node = key && !copy ? NULL : array_room (&parent->items, parent->count, sizeof *node);
    if (!node) {
        free (copy);
        return NULL;
    }
    *node = (struct node){ .key = copy, .key_kind = NODE_TEXT };
    parent->count++;
    return node;
}

static void
release_items (struct node *node)
{
    for (size_t i = 0; i < node->count; i++)
        node_release (&node->items[i]);
    free (node->items);
    node->items = NULL;
    node->count = 0;
}

int
node_set (struct node *node, enum node_kind kind, const char *text)
{
    char *copy = text ? strdup (text) : NULL;
    if (text && !copy)
        return -1;
    free (node->text);
    release_items (node);
    node->text = copy;
    node->kind = kind;
    return 0;
}

struct node *
node_find (const struct node *map, const char *key)
{
    for (size_t i = map->count; i-- > 0;)
        if (!strcmp (map->items[i].key, key))
            return &map->items[i];
    return NULL;
}

void
node_remove_at (struct node *parent, size_t i)
{
    node_release (&parent->items[i]);
    parent->count--;
    memmove (&parent->items[i], &parent->items[i + 1], (parent->count - i) * sizeof *parent->items);
}

void
node_remove (struct node *map, const char *key)
{
    for (size_t i = map->count; i-- > 0;)
        if (!strcmp (map->items[i].key, key))
            node_remove_at (map, i);
}

bool
node_equal (const struct node *a, const struct node *b)
{
    if (a->kind != b->kind || a->count != b->count || !a->text != !b->text || (a->text && strcmp (a->text, b->text)))
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct node *other = a->kind == NODE_MAP ? node_find (b, a->items[i].key) : &b->items[i];
        if (!other || !node_equal (&a->items[i], other))
            return false;
    }
    return true;
}

void
node_release (struct node *node)
{
    release_items (node);
    free (node->key);
    free (node->text);
    *node = (struct node){ 0 };
}

void
filedoc_release (struct filedoc *doc)
{
    node_release (&doc->root);
    *doc = (struct filedoc){ 0 };
}
