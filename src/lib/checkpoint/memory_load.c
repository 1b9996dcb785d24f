/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a state in memory, and reading it; see memory_tier.h. */
#include <config.h>

#include "lib/checkpoint/memory_tier.h"

#include <accel/collectives.h>
#include <accel/utility.h>

#include "files/checksum.h"
#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/files.h"
#include "lib/collectives/objects.h"
#include "lib/state/state_object.h"
#include "lib/state/state_runs.h"
#include "util/cleanup.h"
#include "util/threads.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 8 << 20, CHECK_PIECE = 256 << 10 };

/* ---- which state ---- */

static void
list_entries (const struct memtier_header *header, size_t begin, size_t end, struct strbuf *out)
{
    for (size_t i = begin; i < end; i++) {
        const struct memtier_entry *entry = &header->entries[i];
        const struct memory_share share
            = { .restarts = entry->restarts, .sequence = atomic_load (&entry->sequence), .step = entry->step,
                .index_at = entry->index_at, .index_bytes = entry->index_bytes,
                .index_checksum = entry->index_checksum, .common_bytes = entry->common_bytes,
                .common_checksum = entry->common_checksum, .checksum = entry->checksum, .rank = entry->rank,
                .processes = entry->processes, .begin = memtier_place (i),
                .has_common = atomic_load (&entry->has_common) };
        if (share.sequence)
            strbuf_add_bytes (out, &share, sizeof share);
    }
}

/* Each host's first rank says what its host has: of its own ranks, and copies.  A share of no processes says which
 * states do not count any more. */
static enum accel_status
list_host (const struct memtier *memtier, struct strbuf *out, struct accel_error *err)
{
    const struct memtier_header *header = memtier->header;
    if (!header)
        return ACCEL_OK;
    const struct memory_share forgotten = { .sequence = atomic_load (&header->forgotten) };
    strbuf_add_bytes (out, &forgotten, sizeof forgotten);
    list_entries (header, 0, header->entry_count, out);
    list_entries (header, MEMTIER_OWN, MEMTIER_OWN + header->copy_count, out);
    return out->failed ? accel_fail_nomem (err) : ACCEL_OK;
}

/* Whether @a and @b belong to one state. */
static bool
is_beside (const struct memory_share *a, const struct memory_share *b)
{
    return a->restarts == b->restarts && a->sequence == b->sequence && a->step == b->step
           && a->processes == b->processes;
}

/* @param[out] owner  the rank that has listed it; may be NULL */
static const struct memory_share *
find_share (const struct accel_object_list *all, const struct memory_share *like, uint32_t rank, int *owner)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct memory_share *shares = all->items[i].data;
        for (size_t j = 0; j < all->items[i].size_bytes / sizeof *shares; j++)
            if (shares[j].processes && shares[j].rank == rank && is_beside (&shares[j], like)) {
                if (owner)
                    *owner = (int) i;
                return &shares[j];
            }
    }
    return NULL;
}

/* Whether @share has what rank 0 has saved for all, as @first says. */
static bool
is_common (const struct memory_share *share, const struct memory_share *first)
{
    return share->processes && share->has_common && is_beside (share, first)
           && share->common_bytes == first->common_bytes && share->common_checksum == first->common_checksum;
}

/* @param[out] owner  the rank that has listed it; may be NULL */
static const struct memory_share *
find_common (const struct accel_object_list *all, const struct memory_share *first, int *owner)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct memory_share *shares = all->items[i].data;
        for (size_t j = 0; j < all->items[i].size_bytes / sizeof *shares; j++)
            if (is_common (&shares[j], first)) {
                if (owner)
                    *owner = (int) i;
                return &shares[j];
            }
    }
    return NULL;
}

static bool
is_complete (const struct accel_object_list *all, const struct memory_share *first)
{
    for (uint32_t rank = 1; rank < first->processes; rank++)
        if (!find_share (all, first, rank, NULL))
            return false;
    if (first->common_bytes && !find_common (all, first, NULL))
        return false;
    return first->processes > 0 && first->processes <= MEMTIER_LOADED;
}

static bool
is_newer (const struct memory_share *a, const struct memory_share *b)
{
    return !b || a->restarts > b->restarts || (a->restarts == b->restarts && a->sequence > b->sequence);
}

/* @return the newest state that no host counts any more, by memtier_number() */
static uint64_t
find_forgotten (const struct accel_object_list *all)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct memory_share *shares = all->items[i].data;
        bool has_list = all->items[i].size_bytes >= sizeof *shares;
        newest = has_list && shares->sequence > newest ? shares->sequence : newest;
    }
    return newest;
}

/* All ranks know the same and choose the same.  @return its share of rank 0; NULL: there is none */
static const struct memory_share *
choose (const struct accel_object_list *all)
{
    const struct memory_share *best = NULL;
    uint64_t forgotten = find_forgotten (all);
    for (size_t i = 0; i < all->count; i++) {
        const struct memory_share *shares = all->items[i].data;
        for (size_t j = 0; j < all->items[i].size_bytes / sizeof *shares; j++)
            if (shares[j].processes && shares[j].rank == 0
                && memtier_number (shares[j].restarts, shares[j].sequence) > forgotten && is_newer (&shares[j], best)
                && is_complete (all, &shares[j]))
                best = &shares[j];
    }
    return best;
}

/* ---- whether it is whole ---- */

/* In pieces for which a processor's cache has room.  @return whether the bytes from @at to @end are as written */
static bool
is_undamaged (const struct memory_tier *memory, uint64_t at, uint64_t end, uint64_t expected, char *piece)
{
    struct checksum sum;
    checksum_begin (&sum);
    for (size_t some; at < end; at += some) {
        some = end - at < CHECK_PIECE ? (size_t) (end - at) : CHECK_PIECE;
        if (atomic_load_explicit (&memory->check.stops, memory_order_relaxed)
            || memtier_read (&memory->memtier, piece, some, at))
            return false;
        checksum_add (&sum, piece, some);
    }
    return checksum_end (&sum) == expected;
}

/* Apart from what all ranks have in common. */
static bool
is_share_undamaged (const struct memory_tier *memory, uint64_t begin, const struct memtier_entry *entry, char *piece)
{
    const uint64_t index = begin + entry->index_at;
    return is_undamaged (memory, begin + entry->common_bytes, index, entry->checksum, piece)
           && is_undamaged (memory, index, index + entry->index_bytes, entry->index_checksum, piece);
}

static bool
is_common_undamaged (const struct memory_tier *memory, uint64_t begin, const struct memtier_entry *entry, char *piece)
{
    return is_undamaged (memory, begin, begin + entry->common_bytes, entry->common_checksum, piece);
}

static void *
run_check (void *argument)
{
    struct memory_tier *memory = argument;
    const struct memtier_entry *entry = memory->check.entry;
    const uint64_t begin = memtier_place ((size_t) (entry - memory->memtier.header->entries));
    const uint64_t number = memtier_number_of (entry);
    AUTO_FREE char *piece = malloc (CHECK_PIECE);
    if (piece && number && is_share_undamaged (memory, begin, entry, piece)
        && (!atomic_load (&entry->has_common) || is_common_undamaged (memory, begin, entry, piece)))
        memory->check.number = number;
    return NULL;
}

void
memory_tier_begin_check (const struct accel *acc)
{
    struct memory_tier *memory = memory_tier_of (acc);
    if (!memory_state_is_possible (acc))
        return;
    const struct memtier_header *header = memory->memtier.header;
    for (size_t i = 0, first = (size_t) acc->identity.local_rank * MEMTIER_BUFFERS; i < MEMTIER_BUFFERS; i++) {
        const struct memtier_entry *entry = &header->entries[first + i], *best = memory->check.entry;
        if (first + i < header->entry_count && (!best || memtier_number_of (entry) > memtier_number_of (best)))
            memory->check.entry = entry;
    }
    memory->check.is_running = memory->check.entry && !thread_start (&memory->check.thread, run_check, memory);
}

/* Drop what is damaged of a share.  @return whether something was */
static bool
check_share (struct memory_tier *memory, const struct accel *acc, const struct memory_share *share,
             const struct memory_share *first, char *piece)
{
    const uint64_t begin = share->begin;
    struct memtier_entry *entry = &memory->memtier.header->entries[begin / memtier_place (0) - 1];
    memory_tier_end_check (memory);
    if (entry == memory->check.entry && memory->check.number == memtier_number_of (entry))
        return false;
    bool is_whole = is_share_undamaged (memory, begin, entry, piece);
    bool has_common = !is_common (share, first) || is_common_undamaged (memory, begin, entry, piece);
    if (is_whole && has_common)
        return false;
    if (!is_whole)
        atomic_store (&entry->sequence, 0);
    if (!has_common)
        atomic_store (&entry->has_common, 0);
    accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE,
                      "accel_load_state: what memory has of rank %u after step %llu is damaged%s, and not used",
                      share->rank, (unsigned long long) share->step,
                      begin < memtier_place (MEMTIER_OWN) ? "" : " in the copy");
    return true;
}

/* The ranks of a host divide its shares of this state among them.  What is damaged is dropped, copies like originals,
 * so that another host's is used, or another state.  @param[out] dropped  how many */
static enum accel_status
check_shares (struct memory_tier *memory, const struct accel *acc, const struct memory_share *first, int64_t *dropped,
              struct accel_error *err)
{
    AUTO_STRBUF struct strbuf here = { 0 };
    AUTO_FREE char *piece = malloc (CHECK_PIECE);
    const struct identity *identity = &acc->identity;
    enum accel_status status = piece ? list_host (&memory->memtier, &here, err) : accel_fail_nomem (err);
    const struct memory_share *shares = (const void *) here.text;
    size_t turn = 0;
    for (size_t i = 0; !status && i < here.length / sizeof *shares; i++)
        if (shares[i].processes && is_beside (&shares[i], first)
            && (int) (turn++ % (size_t) identity->local_world_size) == identity->local_rank)
            *dropped += check_share (memory, acc, &shares[i], first, piece);
    return status;
}

/* What each host's first rank lists.  Collective. */
static enum accel_status
list_all (const struct memtier *memtier, struct accel *acc, const struct comm_site *site, struct accel_object_list *all,
          struct accel_error *err)
{
    AUTO_STRBUF struct strbuf here = { 0 };
    enum accel_status status = acc->identity.local_rank ? ACCEL_OK : list_host (memtier, &here, err);
    status = checkpoint_agree (acc, site, status, err);
    const struct accel_object mine = { here.text, here.length };
    return status ? status : comm_gather_objects (accel_world (acc), site, &mine, 1, all, err);
}

/* The newest state that is complete and undamaged.  Collective.
 * @param[out] first  its share of rank 0, in @all; NULL: there is none */
static enum accel_status
find_undamaged (struct memory_tier *memory, struct accel *acc, const struct comm_site *site,
                struct accel_object_list *all, const struct memory_share **first, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int64_t dropped = 1, own; !status && dropped;) {
        own = dropped = 0;
        accel_object_list_release (all);
        status = list_all (&memory->memtier, acc, site, all, err);
        *first = status ? NULL : choose (all);
        if (!*first)
            return status;
        status = checkpoint_agree (acc, site, check_shares (memory, acc, *first, &own, err), err);
        if (!status)
            status = comm_all_reduce (accel_world (acc), site, &own, &dropped, 1, ACCEL_INT64, ACCEL_MAX, err);
    }
    return status;
}

/* ---- what other hosts have ---- */

static enum accel_status
get_piece (const struct memory_state *state, void *bytes, size_t length, uint64_t at, struct accel_error *err)
{
    return memtier_read (state->memtier, bytes, length, at)
               ? accel_fail_errno (err, "cannot read memory for checkpoints") : ACCEL_OK;
}

/* What hosts lack: bytes that rank @owner has at @from, and one rank of each such host gets at @to, in the memory that
 * all its ranks can read. */
struct passage {
    int owner;
    bool is_needed; /* here */
    uint64_t from, to, bytes;
};

static enum accel_status
pass_on (const struct memory_state *state, struct accel *acc, const struct comm_site *site,
         const struct passage *passage, struct accel_error *err)
{
    bool is_owner = acc->identity.rank == passage->owner, keeps = passage->is_needed && acc->identity.local_rank == 0;
    AUTO_FREE char *piece = malloc (PIECE);
    enum accel_status status = checkpoint_agree (acc, site, piece ? ACCEL_OK : accel_fail_nomem (err), err), own_status;
    own_status = status;
    for (uint64_t at = 0; !status && at < passage->bytes; at += PIECE) {
        size_t some = passage->bytes - at < PIECE ? (size_t) (passage->bytes - at) : PIECE;
        if (is_owner && !own_status)
            own_status = get_piece (state, piece, some, passage->from + at, err);
        struct accel_error cause;
        status = comm_broadcast (accel_world (acc), site, piece, some, ACCEL_UINT8, passage->owner, &cause);
        if (status)
            *err = cause;
        else if (keeps && !own_status)
            own_status = memtier_write (state->memtier, piece, some, passage->to + at)
                             ? accel_fail_errno (err, "cannot write to memory for checkpoints") : ACCEL_OK;
    }
    return status ? status : checkpoint_agree (acc, site, own_status, err);
}

/* A share, without what all ranks have in common.  @param own  this host's; NULL: it lacks it */
static enum accel_status
pass_share (struct memory_state *state, struct accel *acc, const struct comm_site *site, uint32_t rank, int owner,
            const struct memory_share *own, struct accel_error *err)
{
    struct memory_share *share = &state->shares[rank];
    const uint64_t from = share->begin, before = share->common_bytes;
    share->begin = own ? own->begin : memtier_place (MEMTIER_ENTRIES + rank);
    const struct passage passage
        = { .owner = owner, .is_needed = !own, .from = from + before, .to = share->begin + before,
            .bytes = share->index_at + share->index_bytes - before };
    return pass_on (state, acc, site, &passage, err);
}

/* What all ranks have in common, to hosts that have something else. */
static enum accel_status
pass_common (struct memory_state *state, struct accel *acc, const struct comm_site *site,
             const struct accel_object_list *all, const struct memory_share *first, const struct memory_share *own,
             struct accel_error *err)
{
    int owner = 0;
    const struct memory_share *other = find_common (all, first, &owner);
    state->common = own ? own->begin : memtier_place (MEMTIER_ENTRIES);
    if (!own && accel_is_local_main_process (acc))
        accel_logger_log (acc, ACCEL_LOG_INFO | ACCEL_LOG_EVERYWHERE, "accel_load_state: this host gets models and "
                          "optimizers, %llu MiB, from rank %d", (unsigned long long) first->common_bytes >> 20, owner);
    const struct passage passage = { .owner = owner, .is_needed = !own, .from = other->begin, .to = state->common,
                                     .bytes = first->common_bytes };
    return pass_on (state, acc, site, &passage, err);
}

static enum accel_status
get_shares (struct memory_state *state, struct accel *acc, const struct comm_site *site,
            const struct accel_object_list *all, const struct memory_share *first, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf here = { 0 };
    enum accel_status status = list_host (state->memtier, &here, err);
    struct accel_object host = { here.text, here.length };
    const struct accel_object_list own = { &host, 1 };
    const struct memory_share *common = find_common (&own, first, NULL);
    int64_t lacks[2] = { 0, first->common_bytes && !common }, all_lack[2] = { 0, 0 };
    for (uint32_t rank = 0; rank < first->processes; rank++)
        lacks[0] += !find_share (&own, first, rank, NULL);
    status = checkpoint_agree (acc, site, status, err);
    if (!status)
        status = comm_all_reduce (accel_world (acc), site, lacks, all_lack, 2, ACCEL_INT64, ACCEL_MAX, err);
    for (uint32_t rank = 0; !status && rank < first->processes; rank++) {
        int owner = 0;
        const struct memory_share *mine = find_share (&own, first, rank, NULL);
        state->shares[rank] = *find_share (all, first, rank, &owner);
        if (all_lack[0])
            status = pass_share (state, acc, site, rank, owner, mine, err);
        else
            state->shares[rank].begin = mine->begin; /* which differs from the owner's if one of them is a copy */
    }
    if (!status && all_lack[1])
        status = pass_common (state, acc, site, all, first, common, err);
    else if (!status && common)
        state->common = common->begin;
    state->has_copies = acc->identity.local_rank == 0 && (all_lack[0] || all_lack[1]);
    return status;
}

static enum accel_status
read_indexes (struct memory_state *state, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (uint32_t i = 0; !status && i < state->processes; i++) {
        const struct memory_share *share = &state->shares[i];
        state->indexes[i] = malloc ((size_t) share->index_bytes + 1);
        if (!state->indexes[i])
            return accel_fail_nomem (err);
        status = get_piece (state, state->indexes[i], (size_t) share->index_bytes,
                            share->begin + share->index_at, err);
        if (!status && checksum_bytes (state->indexes[i], (size_t) share->index_bytes) != share->index_checksum)
            status = accel_fail (err, ACCEL_ERR_FORMAT, "the state of rank %u in memory is damaged", share->rank);
    }
    return status;
}

/* Whether all ranks have memory: a host that was started otherwise, or lacks access to it, must not keep the others
 * from loading what is on the disk.  Collective. */
static enum accel_status
ask_all (bool *all_have, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    int64_t has = memory_state_is_possible (acc), least = 0;
    enum accel_status status = comm_all_reduce (accel_world (acc), site, &has, &least, 1, ACCEL_INT64, ACCEL_MIN, err);
    if (!status && !has)
        accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE,
                          "accel_load_state: checkpoints in memory are not used: this rank has none, but rank 0 has");
    *all_have = least;
    return status;
}

enum accel_status
memory_state_find (struct memory_state *state, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct accel_object_list all = { 0 };
    const struct memory_share *first = NULL;
    *state = (struct memory_state){ .memtier = &memory_tier_of (acc)->memtier };
    bool all_have;
    enum accel_status status = ask_all (&all_have, acc, site, err);
    if (status || !all_have)
        return status;
    status = find_undamaged (memory_tier_of (acc), acc, site, &all, &first, err);
    if (!status && first) {
        state->processes = first->processes;
        state->shares = calloc (first->processes, sizeof *state->shares);
        state->indexes = calloc (first->processes, sizeof *state->indexes);
        status = state->shares && state->indexes ? ACCEL_OK : accel_fail_nomem (err);
        status = checkpoint_agree (acc, site, status, err);
        if (!status)
            status = get_shares (state, acc, site, &all, first, err);
        if (!status)
            status = checkpoint_agree (acc, site, read_indexes (state, err), err);
    }
    accel_object_list_release (&all);
    return status;
}

void
memory_state_release (struct memory_state *state)
{
    for (uint32_t i = 0; i < state->processes; i++) {
        if (state->indexes)
            free (state->indexes[i]);
        if (state->has_copies && state->shares[i].begin == memtier_place (MEMTIER_ENTRIES + i))
            memtier_clear (state->memtier, state->shares[i].begin,
                           state->shares[i].index_at + state->shares[i].index_bytes);
    }
    if (state->has_copies && state->common == memtier_place (MEMTIER_ENTRIES))
        memtier_clear (state->memtier, state->common, state->shares->common_bytes);
    free (state->indexes);
    free (state->shares);
    *state = (struct memory_state){ 0 };
}

/* ---- what it has ---- */

/* Its checksum was right, so all of it is as it was written. */
struct cursor {
    const char *at;
    uint64_t bytes; /* of the tensors so far */
};

static uint64_t
take_number (struct cursor *cursor)
{
    uint64_t number;
    memcpy (&number, cursor->at, sizeof number);
    cursor->at += sizeof number;
    return number;
}

static const char *
take_bytes (struct cursor *cursor, size_t length)
{
    const char *bytes = cursor->at;
    cursor->at += length;
    return bytes;
}

struct item {
    const char *name, *values;
    size_t name_length, value_length;
    bool is_there;
    uint64_t tensors;
};

static struct item
take_item (struct cursor *cursor)
{
    struct item item;
    item.name_length = (size_t) take_number (cursor);
    item.name = take_bytes (cursor, item.name_length);
    item.value_length = (size_t) take_number (cursor);
    item.values = take_bytes (cursor, item.value_length);
    item.is_there = take_number (cursor) != 0;
    item.tensors = take_number (cursor);
    return item;
}

/* The next tensor of an item: into @dict if it is not NULL, its elements into @sum if that is not NULL. */
static enum accel_status
take_tensor (const struct memory_state *state, struct cursor *cursor, const struct memory_share *share,
             struct accel_state_dict *dict, struct checksum *sum, struct accel_error *err)
{
    size_t length = (size_t) take_number (cursor);
    const char *text = take_bytes (cursor, length);
    enum safetensors_dtype dtype = (enum safetensors_dtype) take_number (cursor);
    uint64_t at = take_number (cursor), bytes = take_number (cursor),
             from = take_number (cursor), ndim = take_number (cursor);
    at += share->rank == 0 && at < share->common_bytes ? state->common : share->begin;
    const char *extents = take_bytes (cursor, (size_t) ndim * sizeof (uint64_t));
    cursor->bytes += bytes;
    if (!dict && !sum)
        return ACCEL_OK;
    AUTO_FREE char *name = strndup (text, length);
    AUTO_FREE uint64_t *shape = calloc ((size_t) ndim + 1, sizeof *shape);
    AUTO_FREE char *elements = sum ? malloc ((size_t) bytes + 1) : NULL;
    if (!name || !shape || (sum && !elements))
        return accel_fail_nomem (err);
    memcpy (shape, extents, (size_t) ndim * sizeof *shape);
    if (dict)
        return state_dict_add_run (dict, name, dtype, (size_t) ndim, shape, from, bytes, at, err);
    enum accel_status status = get_piece (state, elements, (size_t) bytes, at, err);
    if (!status)
        checksum_add (sum, elements, (size_t) bytes);
    return status;
}

/* As a file, with a checksum of all its elements. */
static enum accel_status
list_item (const struct memory_state *state, struct cursor *cursor, const struct memory_share *share,
           bool with_checksums, struct manifest *manifest, struct accel_error *err)
{
    AUTO_FREE char *name = NULL;
    struct checksum sum;
    enum accel_status status = ACCEL_OK;
    struct item item = take_item (cursor);
    uint64_t before = cursor->bytes;
    checksum_begin (&sum);
    checksum_add (&sum, item.values, item.value_length);
    for (uint64_t i = 0; !status && i < item.tensors; i++)
        status = take_tensor (state, cursor, share, NULL, with_checksums ? &sum : NULL, err);
    if (status || !item.is_there)
        return status;
    if (asprintf (&name, "%.*s%s", (int) item.name_length, item.name,
                  item.tensors ? CHECKPOINT_TENSORS : CHECKPOINT_VALUES)
        < 0)
        return name = NULL, accel_fail_nomem (err);
    uint64_t bytes = item.value_length + cursor->bytes - before;
    return manifest_add_file (manifest, name, bytes, checksum_end (&sum)) ? ACCEL_OK : accel_fail_nomem (err);
}

/* What ranks have in common matters only if there are more of them now (name_of in load_state.c): random numbers, which
 * are few bytes.  Rank 0 has the models, too. */
enum accel_status
memory_state_list (const struct memory_state *state, int size, struct manifest *manifest, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    manifest->processes = state->processes;
    for (uint32_t rank = 0; rank < state->processes; rank++) {
        struct cursor cursor = { .at = state->indexes[rank] };
        for (uint64_t left = take_number (&cursor); !status && left; left--)
            status = list_item (state, &cursor, &state->shares[rank], (uint32_t) size > state->processes, manifest,
                                err);
    }
    return status;
}

/* What a rank has of an item; the values are the same on all ranks that have it. */
static enum accel_status
take_share (const struct memory_state *state, const struct item *item, struct cursor *cursor,
            const struct memory_share *share, struct accel_state_dict *dict, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (item->value_length && !dict->value_count)
        status = state_dict_parse (dict, item->values, item->value_length, err);
    for (uint64_t i = 0; !status && i < item->tensors; i++)
        status = take_tensor (state, cursor, share, dict, NULL, err);
    return status;
}

static enum accel_status
seal (const struct memory_state *state, struct accel_state_dict *dict, struct accel_error *err)
{
    struct source source = { .fd = fcntl (state->memtier->fd, F_DUPFD_CLOEXEC, 0), .path = strdup ("memory"),
                             .size = memtier_place (MEMTIER_ENTRIES + MEMTIER_LOADED) };
    enum accel_status status = source.fd < 0   ? accel_fail_errno (err, "cannot open memory for checkpoints")
                               : source.path ? ACCEL_OK
                                             : accel_fail_nomem (err);
    if (!status)
        status = state_dict_seal_runs (dict, &source, err);
    source_close (&source);
    return status;
}

/* Of a model that is divided, and its optimizers, each rank has a share. */
enum accel_status
memory_state_read (const struct memory_state *state, const char *name, struct accel_state_dict *dict, bool *found,
                   struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *found = false;
    for (uint32_t rank = 0; rank < state->processes; rank++) {
        struct cursor cursor = { .at = state->indexes[rank] };
        for (uint64_t left = take_number (&cursor); !status && left; left--) {
            struct item item = take_item (&cursor);
            bool is_it = item.is_there && strlen (name) == item.name_length
                         && !memcmp (name, item.name, item.name_length);
            *found = *found || is_it;
            if (is_it)
                status = take_share (state, &item, &cursor, &state->shares[rank], dict, err);
            for (uint64_t i = 0; !is_it && i < item.tensors; i++)
                (void) take_tensor (state, &cursor, &state->shares[rank], NULL, NULL, err);
        }
    }
    return status || !*found ? status : seal (state, dict, err);
}
