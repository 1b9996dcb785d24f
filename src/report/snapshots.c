/* SPDX-License-Identifier: Apache-2.0 */
/* A few of many; see snapshots.h.  Whenever a key has too many, every second one is removed, and of those that follow
 * only every second one is kept: which ones stay does not depend on how many will come. */
#include <config.h>

#include "report/snapshots.h"

#include "util/array.h"

#include <stdlib.h>
#include <string.h>

static void
release (struct snapshot *snapshot)
{
    free (snapshot->histogram);
    free (snapshot->png);
}

static size_t
bytes_of (const struct snapshot *snapshot)
{
    return snapshot->png ? strlen (snapshot->png) : 0;
}

static void
remove_last (struct snapshot_list *list, struct snapshots *of)
{
    struct snapshot *last = &of->items[--of->count];
    list->bytes -= bytes_of (last);
    release (last);
}

static void
keep_every_second (struct snapshot_list *list, struct snapshots *of)
{
    size_t kept = 0;
    of->stride *= 2;
    for (size_t i = 0; i < of->count; i++)
        if (of->items[i].number % of->stride == 0)
            of->items[kept++] = of->items[i];
        else {
            list->bytes -= bytes_of (&of->items[i]);
            release (&of->items[i]);
        }
    of->count = kept;
}

static struct snapshots *
find (const struct snapshot_list *list, const char *key)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp (list->keys[i].key, key))
            return &list->keys[i];
    return NULL;
}

const struct snapshots *
snapshots_find (const struct snapshot_list *list, const char *key)
{
    return find (list, key);
}

/* @return NULL: no memory */
static struct snapshots *
add_key (struct snapshot_list *list, const char *key, size_t kept)
{
    struct snapshots *made = array_room (&list->keys, list->count, sizeof *made);
    struct snapshot *items = made ? calloc (kept, sizeof *items) : NULL;
    char *copy = items ? strdup (key) : NULL;
    if (!copy) {
        free (items);
        return NULL;
    }
    *made = (struct snapshots){ .key = copy, .items = items, .stride = 1 };
    list->count++;
    return made;
}

bool
snapshots_add (struct snapshot_list *list, const char *key, size_t kept, struct snapshot snapshot)
{
    struct snapshots *of = find (list, key);
    if (!of && list->count < SNAPSHOT_KEYS && !(of = add_key (list, key, kept))) {
        release (&snapshot);
        return false;
    }
    while (of && of->count && of->items[of->count - 1].step >= snapshot.step) {
        of->seen = of->items[of->count - 1].number;
        remove_last (list, of);
    }
    if (of && of->count && of->items[of->count - 1].number % of->stride != 0)
        remove_last (list, of);
    while (of && of->count == kept)
        keep_every_second (list, of);
    if (!of || list->bytes + bytes_of (&snapshot) > IMAGES_BYTES) {
        list->left++;
        release (&snapshot);
        return true;
    }
    snapshot.number = of->seen++;
    list->bytes += bytes_of (&snapshot);
    of->items[of->count++] = snapshot;
    return true;
}

void
snapshots_release (struct snapshot_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        while (list->keys[i].count)
            remove_last (list, &list->keys[i]);
        free (list->keys[i].items);
        free (list->keys[i].key);
    }
    free (list->keys);
    *list = (struct snapshot_list){ 0 };
}
