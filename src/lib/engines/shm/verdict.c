/* SPDX-License-Identifier: Apache-2.0 */
/* What to say when ranks do not call the same thing.  All ranks compare in the same order, so they say the same. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"

#include <stdio.h>

/* The end of a long path, as in the ledger. */
static const char *
tail (const char *file)
{
    size_t length = strlen (file);
    return length < JOBSEG_FILE_NAME ? file : file + length - (JOBSEG_FILE_NAME - 1);
}

void
shm_describe_site (const struct comm_site *site, char *text, size_t size)
{
    snprintf (text, size, "%s at %s:%d", jobseg_call_name (site->call), tail (site->file), site->line);
}

void
shm_describe_place (struct shm *shm, int rank, uint32_t sequence, char *text, size_t size)
{
    const struct jobseg_slot *slot = shm_slot (shm, rank);
    const struct jobseg_record *record = &slot->ledger[(sequence - 1) % JOBSEG_LEDGER];
    if ((uint32_t) record->sequence == sequence)
        snprintf (text, size, "%.*s:%u", JOBSEG_FILE_NAME, jobseg_file (slot, record), record->line);
    else
        snprintf (text, size, "?");
}

/* "accel_gather (float32 x 64)" */
static void
describe_post (const struct shm_post *post, char *text, size_t size)
{
    const char *name = jobseg_call_name (post->call);
    if (post->kind == ACCEL_ENGINE_BARRIER)
        snprintf (text, size, "%s", name);
    else
        snprintf (text, size, "%s (%s x %llu)", name, accel_dtype_name (post->dtype),
                  (unsigned long long) post->count);
}

static const char *
op_name (unsigned op)
{
    static const char *const names[] = {
#define X(name, text) text,
        ACCEL_OP_MAP (X)
#undef X
    };
    return op < ACCEL_OP_COUNT ? names[op] : "?";
}

/* "[2, 3]" */
static void
write_shape (const struct shm_post *post, char *text, size_t size)
{
    size_t length = 0;
    for (int i = 0; i < post->ndim && length < size; i++)
        length += (size_t) snprintf (text + length, size - length, "%s%lld", i ? ", " : "[",
                                     (long long) post->shape[i]);
    if (length < size)
        snprintf (text + length, size - length, "%s", length ? "]" : "[]");
}

static bool
same_shape (const struct shm_post *a, const struct shm_post *b)
{
    return a->ndim == b->ndim && !memcmp (a->shape, b->shape, a->ndim * sizeof *a->shape);
}

/* @return what differs in the form of two calls. */
static const char *
write_forms (const struct shm_post *a, char *text_a, const struct shm_post *b, char *text_b, size_t size)
{
    if (!same_shape (a, b)) {
        write_shape (a, text_a, size);
        write_shape (b, text_b, size);
        return "shapes";
    }
    /* So many digits that numbers which differ are not written alike. */
    snprintf (text_a, size, "%.17g", a->value);
    snprintf (text_b, size, "%.17g", b->value);
    return a->argument == COMM_SCALE ? "scales" : a->argument == COMM_DIM ? "dimensions" : "arguments";
}

static enum accel_status
say_difference (struct shm *shm, int rank_a, const struct shm_post *a, int rank_b, const struct shm_post *b,
                struct accel_error *err)
{
    char place_a[JOBSEG_FILE_NAME + 16], place_b[JOBSEG_FILE_NAME + 16], text_a[192], text_b[192];
    const char *what = NULL;
    shm_describe_place (shm, rank_a, a->sequence, place_a, sizeof place_a);
    shm_describe_place (shm, rank_b, b->sequence, place_b, sizeof place_b);
    if (a->call != b->call || a->kind != b->kind) {
        describe_post (a, text_a, sizeof text_a);
        describe_post (b, text_b, sizeof text_b);
        return accel_fail (err, ACCEL_ERR_PEER, "rank %d is waiting in %s at %s while rank %d is in %s at %s",
                           shm_name (shm, rank_b), text_b, place_b, shm_name (shm, rank_a), text_a, place_a);
    }
    if (a->dtype != b->dtype) {
        what = "element types";
        snprintf (text_a, sizeof text_a, "%s", accel_dtype_name (a->dtype));
        snprintf (text_b, sizeof text_b, "%s", accel_dtype_name (b->dtype));
    } else if (a->count != b->count) {
        what = "counts";
        snprintf (text_a, sizeof text_a, "%llu", (unsigned long long) a->count);
        snprintf (text_b, sizeof text_b, "%llu", (unsigned long long) b->count);
    } else if (a->op != b->op) {
        what = "operations";
        snprintf (text_a, sizeof text_a, "%s", op_name (a->op));
        snprintf (text_b, sizeof text_b, "%s", op_name (b->op));
    } else if (a->root != b->root) {
        what = "roots";
        snprintf (text_a, sizeof text_a, "%d", a->root);
        snprintf (text_b, sizeof text_b, "%d", b->root);
    } else
        what = write_forms (a, text_a, b, text_b, sizeof text_a);
    return accel_fail (err, ACCEL_ERR_PEER, "%s differ in %s: %s on rank %d at %s, %s on rank %d at %s", what,
                       jobseg_call_name (a->call), text_a, shm_name (shm, rank_a), place_a, text_b,
                       shm_name (shm, rank_b), place_b);
}

static bool
agree (const struct shm_post *a, const struct shm_post *b)
{
    return a->count == b->count && !memcmp (&a->kind, &b->kind, 12);
}

enum accel_status
shm_compare (struct shm *shm, struct accel_error *err)
{
    int first = -1;
    _Static_assert (offsetof (struct shm_post, form) - offsetof (struct shm_post, kind) == 8, "compared as 12 bytes");
    for (int rank = 0; rank < shm->size; rank++) {
        const struct shm_post *post = shm_post_of (shm, rank);
        if (atomic_load_explicit (&post->step, memory_order_acquire) != shm->step)
            continue;
        if (first < 0)
            first = rank;
        else if (!agree (shm_post_of (shm, first), post))
            return say_difference (shm, first, shm_post_of (shm, first), rank, post, err);
    }
    return ACCEL_OK;
}
