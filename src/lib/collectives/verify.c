/* SPDX-License-Identifier: Apache-2.0 */
/* Debug mode; see verify.h.  What is passed is written as Accelerate shows it: a tensor as a list of sizes, lists and
 * dicts as Python prints them; then once more with element types, which Accelerate does not look at. */
#include <config.h>

#include "lib/collectives/verify.h"

#include "lib/base/error.h"
#include "lib/collectives/objects.h"
#include "lib/collectives/tensors.h"
#include "lib/state/state_object.h"
#include "util/cleanup.h"
#include "util/strbuf.h"

#include <accel/utility.h>

#include <stdlib.h>
#include <string.h>

enum { SHAPES, TYPED, TEXTS };

static void
write_tensor (const DLTensor *tensor, bool typed, struct strbuf *text)
{
    if (typed)
        strbuf_printf (text, "%s ", accel_dtype_name (accel_dtype_from_dl (tensor->dtype)));
    strbuf_add_char (text, '[');
    for (int i = 0; i < tensor->ndim; i++)
        strbuf_printf (text, "%s%lld", i ? ", " : "", (long long) tensor->shape[i]);
    strbuf_add_char (text, ']');
}

static void
write_tree (const struct accel_tree *tree, bool typed, struct strbuf *text)
{
    bool dict = accel_tree_kind (tree) == ACCEL_TREE_DICT;
    if (accel_tree_kind (tree) == ACCEL_TREE_TENSOR) {
        write_tensor (accel_tree_tensor (tree), typed, text);
        return;
    }
    strbuf_add_char (text, dict ? '{' : '[');
    for (size_t i = 0; i < accel_tree_length (tree); i++) {
        strbuf_add (text, i ? ", " : "");
        if (dict)
            strbuf_printf (text, "'%s': ", accel_tree_key (tree, i));
        write_tree (accel_tree_item (tree, i), typed, text);
    }
    strbuf_add_char (text, dict ? '}' : ']');
}

static bool
same (const struct accel_object *a, const struct accel_object *b)
{
    return a->size_bytes == b->size_bytes && (!a->size_bytes || !memcmp (a->data, b->data, a->size_bytes));
}

/* The rows of the table: of all ranks, or if there is no room for them, of those that are not as rank 0. */
static void
write_table (const struct accel_object *items, int size, int which, bool all, const char *separator,
             struct strbuf *text)
{
    for (int r = 0; r < size; r++) {
        const struct accel_object *item = &items[r * TEXTS + which];
        if (all || !r || !same (item, &items[which]))
            strbuf_printf (text, "%s  - Process %d: %.*s", separator, r, (int) item->size_bytes,
                           (const char *) item->data);
    }
}

/* For people, by the main process: all rows, each on a line of its own. */
static void
log_table (const struct accel *acc, const struct comm_site *site, const struct accel_object *items, int which)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_printf (&text, "%s at %s:%d: all processes must pass the same %s.\nInput shapes:",
                   jobseg_call_name (site->call), site->file, site->line,
                   which == SHAPES ? "shapes" : "element types");
    write_table (items, acc->identity.world_size, which, true, "\n", &text);
    if (!text.failed)
        accel_logger_log (acc, ACCEL_LOG_ERROR, "%s", text.text);
}

static enum accel_status
compare (const struct accel *acc, const struct comm_site *site, const struct accel_object *items,
         struct accel_error *err)
{
    int size = acc->identity.world_size;
    AUTO_STRBUF struct strbuf table = { 0 };
    int differ[TEXTS] = { 0 };
    for (int r = 1; r < size; r++)
        for (int which = 0; which < TEXTS; which++)
            differ[which] += !same (&items[r * TEXTS + which], &items[which]);
    if (!differ[SHAPES] && !differ[TYPED])
        return ACCEL_OK;
    int which = differ[SHAPES] ? SHAPES : TYPED;
    log_table (acc, site, items, which);
    write_table (items, size, which, true, "", &table);
    /* The text before the table takes about so much. */
    if (table.length > ACCEL_ERROR_TEXT_SIZE - 200) {
        strbuf_truncate (&table, 0);
        write_table (items, size, which, false, "", &table);
    }
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "%s at %.64s:%d: %s differ between processes, but must be the same on all.  Input shapes:%s",
                       jobseg_call_name (site->call), site->file, site->line,
                       which == SHAPES ? "shapes" : "element types", table.failed ? " ?" : table.text);
}

/* What this process passes: @tensor, or the leaves of @tree. */
static enum accel_status
verify (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, const struct accel_tree *tree,
        struct accel_error *err)
{
    AUTO_STRBUF struct strbuf shapes = { 0 };
    AUTO_STRBUF struct strbuf typed = { 0 };
    struct strbuf *const texts[TEXTS] = { &shapes, &typed };
    struct accel_object_list list = { 0 };
    struct accel_object objects[TEXTS];
    if (!acc || !acc->debug || acc->identity.world_size == 1)
        return ACCEL_OK;
    for (int which = 0; which < TEXTS; which++) {
        if (tree)
            write_tree (tree, which == TYPED, texts[which]);
        else
            write_tensor (tensor, which == TYPED, texts[which]);
        if (texts[which]->failed)
            return comm_no_memory (site, err);
        objects[which] = (struct accel_object){ .data = texts[which]->text, .size_bytes = texts[which]->length };
    }
    enum accel_status status = comm_gather_objects (acc->world, site, objects, TEXTS, &list, err);
    if (!status)
        status = compare (acc, site, list.items, err);
    accel_object_list_release (&list);
    return status;
}

enum accel_status
comm_verify_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, struct accel_error *err)
{
    enum accel_dtype dtype;
    enum accel_status status = comm_check_tensor (acc, site, tensor, &dtype, err);
    return status ? status : verify (acc, site, tensor, NULL, err);
}

enum accel_status
comm_verify_tree (struct accel *acc, const struct comm_site *site, const struct accel_tree *tree,
                  struct accel_error *err)
{
    return verify (acc, site, NULL, tree, err);
}

enum accel_status
comm_agree (struct accel_comm *comm, const struct comm_site *site, enum accel_status status, const char *what,
            struct accel_error *err)
{
    enum { STATUSES = 256 };
    int64_t mine = status ? (int64_t) accel_comm_rank (comm) * STATUSES + (int64_t) status : 0, worst = 0;
    if (accel_comm_size (comm) == 1)
        return status;
    enum accel_status sent
        = comm_all_reduce (comm, site, &mine, &worst, 1, ACCEL_INT64, ACCEL_MAX, status ? NULL : err);
    if (status || sent) /* the rank's own failure says more */
        return status ? status : sent;
    if (!worst)
        return ACCEL_OK;
    enum accel_status theirs = (enum accel_status) (worst % STATUSES);
    return accel_fail (err, theirs, "%s of rank %d: %s", what, (int) (worst / STATUSES), accel_status_string (theirs));
}

enum accel_status
comm_find_difference (struct accel_comm *comm, const struct comm_site *site, const int64_t *mine, size_t count,
                      size_t *index, int *rank, struct accel_error *err)
{
    size_t size = (size_t) accel_comm_size (comm);
    AUTO_FREE int64_t *all = calloc (size * count + 1, sizeof *all);
    enum accel_status status = ACCEL_OK;
    if (!all)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to compare %zu numbers of %zu ranks", count,
                             size);
    status = comm_agree (comm, site, status, "numbers cannot be compared with those", err);
    if (!status)
        status = comm_all_gather (comm, site, mine, all, count, ACCEL_INT64, err);
    *index = count;
    for (size_t i = 0; !status && i < count && *index == count; i++)
        for (size_t other = size; other-- > 1;)
            if (all[other * count + i] != all[i]) {
                *index = i;
                *rank = (int) other;
            }
    return status;
}

enum accel_status
comm_share_texts (struct accel_comm *comm, const struct comm_site *site, const char *mine, char *first, char *other,
                  size_t size, int rank, struct accel_error *err)
{
    memcpy (first, mine, size);
    memcpy (other, mine, size);
    enum accel_status status = comm_broadcast (comm, site, first, size, ACCEL_UINT8, 0, err);
    return status ? status : comm_broadcast (comm, site, other, size, ACCEL_UINT8, rank, err);
}
