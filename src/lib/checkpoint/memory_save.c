/* SPDX-License-Identifier: Apache-2.0 */
/* Saving to memory; see memory_tier.h.
 *
 * The copy that the memory tier gets is the only one: it takes no longer than the copy from which an asynchronous save
 * writes, so no thread has to write it.  Nor may a thread make it: as soon as the program has its batch, it may write
 * parameters, states and masters, and no call of the library comes before that. */
#include <config.h>

#include "lib/checkpoint/memory_tier.h"

#include <accel/utility.h>

#include "files/checksum.h"
#include "lib/base/error.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/checkpoint/collected.h"
#include "lib/data/active.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"
#include "lib/train/reducer/join_round.h"
#include "lib/train/sharding.h"
#include "lib/train/tensor_parallel.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/futex.h"
#include "util/parse.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 4 << 20,
    ALIGNMENT = 64,
    ROOM_STEP = 1 << 20 /* a few digits more in a loader's state are nothing to report */
};

/* ---- where it is ---- */

static struct memtier_entry *
entry_of (const struct memory_tier *memory, unsigned buffer)
{
    size_t index = (size_t) memory->part.acc->identity.local_rank * MEMTIER_BUFFERS + buffer;
    struct memtier_header *header = memory->memtier.header;
    return header && index < header->entry_count ? &header->entries[index] : NULL;
}

/* The buffer for the next save: neither the latest nor one that the hosts keep; of the others, the oldest of those that
 * have pages already. */
static struct memtier_entry *
choose_entry (const struct memory_tier *memory)
{
    const struct memtier_header *header = memory->memtier.header;
    struct memtier_entry *best = NULL;
    unsigned buffers = atomic_load (&header->buffers);
    uint64_t kept[2]; /* the newer one first: it becomes the older one of the next round */
    kept[1] = atomic_load (&header->kept[1]);
    kept[0] = atomic_load (&header->kept[0]);
    for (unsigned i = 0; i < buffers; i++) {
        struct memtier_entry *entry = entry_of (memory, i);
        uint64_t number = entry ? memtier_number_of (entry) : 0;
        bool is_kept = number == memory->latest;
        for (unsigned j = 0; j < 2 && buffers > MEMTIER_BUFFERS_ALONE; j++)
            is_kept = is_kept || number == kept[j];
        if (!entry || (number && is_kept))
            continue;
        bool is_better = !best || (entry->index_bytes && (!best->index_bytes || number < memtier_number_of (best)));
        best = is_better ? entry : best;
    }
    return best;
}

/* A program may have opened another job before: numbers are not used twice. */
static void
continue_sequence (struct memory_tier *memory)
{
    const struct memtier_header *header = memory->memtier.header;
    uint64_t forgotten = header ? atomic_load (&header->forgotten) : 0;
    if (header && forgotten > memtier_number (header->restarts, 0))
        memory->sequence = forgotten - memtier_number (header->restarts, 0);
    for (unsigned i = 0; i < MEMTIER_BUFFERS; i++) {
        const struct memtier_entry *entry = entry_of (memory, i);
        uint64_t sequence = entry && entry->restarts == header->restarts
                                ? atomic_load (&entry->sequence) : 0;
        memory->sequence = sequence > memory->sequence ? sequence : memory->sequence;
    }
}

/* @return the file; NULL: this job has none */
static struct memtier *
look_for (struct memory_tier *memory)
{
    const char *path = getenv (ENV_MEMORY), *id = getenv (ENV_JOB_ID);
    struct fail fail;
    if (!memory->is_looked_for && path && *path && id && memtier_attach (&memory->memtier, path, id, &fail))
        accel_logger_log (memory->part.acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE, "no checkpoints in memory: %s",
                          fail.text);
    if (!memory->is_looked_for)
        continue_sequence (memory);
    memory->is_looked_for = true;
    return memory->memtier.header ? &memory->memtier : NULL;
}

void
memory_tier_end_check (struct memory_tier *memory)
{
    if (memory->check.is_running)
        (void) pthread_join (memory->check.thread, NULL);
    memory->check.is_running = false;
}

/* Training goes on without what a restart could have found: buffers are written again. */
static void
begin_training (struct memory_tier *memory)
{
    memory->is_asked = true;
    atomic_store (&memory->check.stops, true);
    if (memory->check.is_running && memory->process == getpid ())
        memory_tier_end_check (memory);
}

void
memory_tier_forget (const struct accel *acc)
{
    struct memory_tier *memory = memory_tier_of (acc);
    begin_training (memory);
    const struct memtier *memtier = look_for (memory);
    if (!memtier)
        return;
    uint64_t number = memtier_number (memtier->header->restarts, memory->sequence);
    uint64_t before = atomic_load (&memtier->header->forgotten);
    while (before < number && !atomic_compare_exchange_weak (&memtier->header->forgotten, &before, number))
        ;
}

bool
memory_state_is_possible (const struct accel *acc)
{
    struct memory_tier *memory = memory_tier_of (acc);
    const struct memtier *memtier = memory->is_asked ? NULL : look_for (memory);
    return memtier && memtier->header->restarts > 0;
}

void
memory_state_keep (const struct memory_state *state, const struct accel *acc)
{
    struct memory_tier *memory = memory_tier_of (acc);
    struct memtier_header *header = memory->memtier.header;
    memory->is_asked = true;
    memory->latest = memtier_number (state->shares->restarts, state->shares->sequence);
    if (atomic_load (&header->buffers) == MEMTIER_BUFFERS_ALONE)
        return;
    atomic_store (&header->kept[0], memory->latest); /* on each host, until all have copies of something newer */
    atomic_store (&header->kept[1], 0);
}

/* ---- how much there is ---- */

/* What a buffer lacks of @bytes.  Its pages stay when the ranks are started again, so they are not asked for twice. */
static uint64_t
lack_of (const struct memory_tier *memory, unsigned buffer, uint64_t bytes)
{
    const struct memtier_entry *entry = entry_of (memory, buffer);
    uint64_t has = entry ? entry->index_at + entry->index_bytes : 0;
    has = has > memory->room ? has : memory->room;
    return bytes > has ? bytes - has : 0;
}

static uint64_t
lack_of_all (const struct memory_tier *memory, unsigned buffers, uint64_t bytes)
{
    uint64_t lack = 0;
    for (unsigned i = 0; i < buffers; i++)
        lack += lack_of (memory, i, bytes);
    return lack;
}

static uint64_t
in_steps (uint64_t bytes)
{
    return (bytes + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;
}

/* What this rank has in common with rank 0 is only for the speed of a restart.  @return whether there is room for it */
static bool
has_room_for_common (const struct memory_tier *memory, uint64_t bytes)
{
    const char *source;
    const unsigned buffers = atomic_load (&memory->memtier.header->buffers);
    if (bytes <= memory->room)
        return true;
    bytes = in_steps (bytes);
    uint64_t left = memtier_free_bytes (&memory->memtier, &source);
    if (bytes <= memtier_place (1) - memtier_place (0) && lack_of_all (memory, buffers, bytes) <= left)
        return true;
    accel_logger_log (memory->part.acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE, "checkpoints in memory: no models "
                      "and optimizers on this host, so a restart sends them: they take %u x %llu MiB, but %s has only "
                      "%llu MiB left", buffers, (unsigned long long) bytes >> 20, source,
                      (unsigned long long) left >> 20);
    return false;
}

static void
tell_room (const struct memory_tier *memory, unsigned buffers, uint64_t bytes, uint64_t common)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    bool is_alone = buffers == MEMTIER_BUFFERS_ALONE;
    strbuf_printf (&text, "checkpoints in memory take %s%u x %llu MiB", is_alone ? "" : "up to ", buffers,
                   (unsigned long long) bytes >> 20);
    if (!is_alone && common)
        strbuf_printf (&text, " here, up to %u x %llu MiB on each other host", buffers,
                       (unsigned long long) in_steps (common) >> 20);
    if (!is_alone)
        strbuf_printf (&text, "%s and %d x %llu MiB for copies on another host", common ? "," : " here,",
                       MEMTIER_COPY_BUFFERS, (unsigned long long) in_steps (bytes - common) >> 20);
    if (text.text)
        accel_logger_log (memory->part.acc, ACCEL_LOG_INFO, "%s", text.text);
}

/* Before pages are touched: a limit that they exceed would kill a process.  Without room for what other hosts copy,
 * states are kept here alone. */
static enum accel_status
check_room (struct memory_tier *memory, uint64_t bytes, uint64_t common, struct accel_error *err)
{
    const char *source;
    struct memtier_header *header = memory->memtier.header;
    if (bytes <= memory->room)
        return ACCEL_OK;
    bytes = in_steps (bytes);
    uint64_t left = memtier_free_bytes (&memory->memtier, &source);
    unsigned buffers = atomic_load (&header->buffers);
    bool fits_alone = bytes <= memtier_place (1) - memtier_place (0)
                      && lack_of_all (memory, MEMTIER_BUFFERS_ALONE, bytes) <= left;
    if (!fits_alone)
        return accel_fail (err, ACCEL_ERR_NOMEM, "they take %d x %llu MiB for this rank, but %s has only %llu MiB left",
                           MEMTIER_BUFFERS_ALONE, (unsigned long long) bytes >> 20, source,
                           (unsigned long long) left >> 20);
    if (buffers > MEMTIER_BUFFERS_ALONE && lack_of_all (memory, buffers, bytes) > left) {
        accel_logger_log (memory->part.acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE, "no copies of checkpoints in "
                          "memory on another host: with them, they take %u x %llu MiB for this rank, but %s has only "
                          "%llu MiB left", buffers, (unsigned long long) bytes >> 20, source,
                          (unsigned long long) left >> 20);
        atomic_store (&header->buffers, buffers = MEMTIER_BUFFERS_ALONE);
    }
    tell_room (memory, buffers, bytes, common);
    memory->room = bytes;
    return ACCEL_OK;
}

/* ---- writing ---- */

static enum accel_status
put (const struct memtier *memtier, const void *bytes, size_t length, uint64_t at, struct accel_error *err)
{
    return memtier_write (memtier, bytes, length, at) ? accel_fail_errno (err, "cannot write to memory for checkpoints")
                                                      : ACCEL_OK;
}

static size_t
bytes_of (const struct state_tensor *tensor)
{
    return accel_tensor_count (&tensor->view.dl) * tensor_element_bytes (&tensor->view.dl);
}

static size_t
padded (size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What was written last is still in the processor's cache when the checksum reads it. */
static enum accel_status
put_tensor (const struct memtier *memtier, const struct state_tensor *tensor, uint64_t at, struct checksum *sum,
            struct accel_error *err)
{
    static const char zeros[ALIGNMENT];
    const DLTensor *dl = &tensor->view.dl;
    const char *from = memory_data (dl);
    size_t bytes = bytes_of (tensor), rest = padded (bytes) - bytes;
    bool is_host = tensor_device_is_host (dl->device);
    AUTO_FREE char *piece = is_host ? NULL : malloc (bytes < PIECE ? bytes + 1 : PIECE);
    enum accel_status status = is_host || piece ? ACCEL_OK : accel_fail_nomem (err);
    for (size_t done = 0, some; !status && done < bytes; done += some) {
        some = bytes - done < PIECE ? bytes - done : PIECE;
        const char *next = is_host ? from + done : piece;
        if (!is_host)
            status = memory_of (dl->device)->read (dl->device, piece, from + done, some, err);
        if (!status)
            status = put (memtier, next, some, at + done, err);
        if (!status)
            checksum_add (sum, next, some);
    }
    checksum_add (sum, zeros, rest);
    return status || !rest ? status : put (memtier, zeros, rest, at + bytes, err);
}

static void
add_number (struct strbuf *index, uint64_t number)
{
    strbuf_add_bytes (index, &number, sizeof number);
}

static void
add_text (struct strbuf *index, const char *text, size_t length)
{
    add_number (index, length);
    strbuf_add_bytes (index, text, length);
}

/* Its name, type, place, bytes, the first of these in a larger tensor, and the shape of that. */
static void
add_tensor (struct strbuf *index, const struct state_tensor *tensor, uint64_t at)
{
    const DLTensor *dl = &tensor->view.dl;
    int ndim = tensor->is_stretch ? tensor->ndim : dl->ndim;
    const int64_t *shape = tensor->is_stretch ? tensor->shape : dl->shape;
    add_text (index, tensor->name, strlen (tensor->name));
    add_number (index, safetensors_from_dl (dl->dtype));
    add_number (index, at);
    add_number (index, bytes_of (tensor));
    add_number (index, tensor->from * tensor_element_bytes (dl));
    add_number (index, (uint64_t) ndim);
    for (int d = 0; d < ndim; d++)
        add_number (index, (uint64_t) shape[d]);
}

/* An item is its name, its values as JSON, and its tensors.
 * @return where the next tensor may begin */
static uint64_t
add_item (struct strbuf *index, const struct collected_item *item, uint64_t at)
{
    AUTO_STRBUF struct strbuf values = { 0 };
    state_dict_write (&item->state, &values);
    index->failed |= values.failed;
    add_text (index, item->name, strlen (item->name));
    add_text (index, values.text, values.length);
    add_number (index, item->needed || item->state.tensor_count || item->state.value_count);
    add_number (index, item->state.tensor_count);
    for (size_t i = 0; i < item->state.tensor_count; i++) {
        add_tensor (index, &item->state.tensors[i], at);
        at += padded (bytes_of (&item->state.tensors[i]));
    }
    return at;
}

/* Where parts of a buffer end, and their checksums. */
struct layout {
    bool is_main;     /* rank 0, in whose index the common part is */
    bool has_common;
    uint64_t common, end;
    struct checksum sums[2]; /* of the bytes before `common` and from there on */
};

static bool
is_left_out (const struct layout *layout, const struct collected_item *item)
{
    return item->is_common && !layout->has_common;
}

static bool
is_listed (const struct layout *layout, const struct collected_item *item)
{
    return !item->is_common || layout->is_main;
}

static uint64_t
bytes_of_item (const struct collected_item *item)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < item->state.tensor_count; i++)
        bytes += padded (bytes_of (&item->state.tensors[i]));
    return bytes;
}

static void
lay_out (struct layout *layout, const struct collected *collected, struct strbuf *index)
{
    uint64_t count = 0;
    strbuf_truncate (index, 0);
    layout->common = layout->end = 0;
    for (size_t i = 0; i < collected->count; i++)
        count += is_listed (layout, &collected->items[i]);
    add_number (index, count);
    for (size_t i = 0; i < collected->count; i++) {
        const struct collected_item *item = &collected->items[i];
        if (is_listed (layout, item))
            layout->end = add_item (index, item, layout->end);
        else if (!is_left_out (layout, item))
            layout->end += bytes_of_item (item);
        layout->common = item->is_common ? layout->end : layout->common;
    }
}

static enum accel_status
put_all (const struct memtier *memtier, const struct collected *collected, struct layout *layout,
         const struct strbuf *index, uint64_t begin, struct accel_error *err)
{
    uint64_t at = begin;
    enum accel_status status = ACCEL_OK;
    checksum_begin (&layout->sums[0]);
    checksum_begin (&layout->sums[1]);
    for (size_t i = 0; i < collected->count; i++) {
        const struct collected_item *item = &collected->items[i];
        const struct accel_state_dict *state = &item->state;
        for (size_t j = 0; !status && !is_left_out (layout, item) && j < state->tensor_count; j++) {
            status = put_tensor (memtier, &state->tensors[j], at, &layout->sums[!item->is_common], err);
            at += padded (bytes_of (&state->tensors[j]));
        }
    }
    return status ? status : put (memtier, index->text, index->length, at, err);
}

static void
publish (struct memory_tier *memory, struct memtier_entry *entry)
{
    const struct accel *acc = memory->part.acc;
    struct memtier_header *header = memory->memtier.header;
    entry->restarts = header->restarts;
    entry->step = optimizer_latest_step (acc);
    entry->rank = (uint32_t) acc->identity.rank;
    entry->processes = (uint32_t) acc->identity.world_size;
    atomic_store (&entry->sequence, ++memory->sequence);
    memory->latest = memtier_number_of (entry);
    atomic_fetch_add (&header->saves, 1);
    futex_wake (&header->saves);
    if (acc->segment.header)
        atomic_store_explicit (&jobseg_slot (&acc->segment, acc->identity.local_rank)->memory_step, entry->step + 1,
                               memory_order_relaxed);
}

static enum accel_status
fit (struct memory_tier *memory, const struct collected *collected, struct layout *layout, struct strbuf *index,
     struct accel_error *err)
{
    lay_out (layout, collected, index);
    if (!layout->is_main && layout->common && !index->failed
        && !has_room_for_common (memory, layout->end + index->length)) {
        memory->lacks_common = true;
        layout->has_common = false;
        lay_out (layout, collected, index);
    }
    if (index->failed)
        return accel_fail_nomem (err);
    return check_room (memory, layout->end + index->length, layout->common, err);
}

static enum accel_status
write_state (struct memory_tier *memory, const struct collected *collected, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf index = { 0 };
    struct layout layout = { .is_main = accel_is_main_process (memory->part.acc), .has_common = !memory->lacks_common };
    if (!entry_of (memory, 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "this host has more ranks than its launcher has started");
    enum accel_status status = fit (memory, collected, &layout, &index, err);
    if (status)
        return status;
    struct memtier_entry *entry = choose_entry (memory);
    atomic_store (&entry->sequence, 0); /* until it is complete */
    status = put_all (&memory->memtier, collected, &layout, &index,
                      memtier_place ((size_t) (entry - memory->memtier.header->entries)), err);
    if (status)
        return status;
    entry->index_at = layout.end;
    entry->index_bytes = index.length;
    entry->index_checksum = checksum_bytes (index.text, index.length);
    entry->common_bytes = layout.common;
    entry->common_checksum = checksum_end (&layout.sums[0]);
    entry->has_common = layout.common > 0;
    entry->checksum = checksum_end (&layout.sums[1]);
    publish (memory, entry);
    return ACCEL_OK;
}

/* A hook writes files to the folder of a checkpoint, of which there is none here. */
static enum accel_status
check_hooks (const struct checkpoint_part *part, struct accel_error *err)
{
    for (size_t i = 0; i < part->hook_count; i++)
        if (part->hooks[i].event == ACCEL_BEFORE_SAVE)
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "they have no folder for the hooks that run before a save");
    return ACCEL_OK;
}

/* The program's loop is between two steps: the loader that it is in is about to give the next batch. */
static void
save_between (const struct accel *acc)
{
    const struct checkpoint_part *part = checkpoint_of (acc);
    struct memory_tier *memory = memory_tier_of (acc);
    struct collected collected = { 0 };
    struct accel_error err = { 0 };
    uint64_t every = part->project.memory_checkpoint_every ? part->project.memory_checkpoint_every : memory->every;
    begin_training (memory);
    if (join_steps (acc)) /* ranks with more data than others make more steps */
        memory->steps = 0;
    else
        memory->steps++;
    if (!every || memory->is_off || memory->steps < every || memory->process != getpid () || !look_for (memory))
        return;
    if (sharding_has_averages (acc)) /* it would take the others to save them: after the next step */
        return;
    memory->steps = 0;
    enum collected_who who = sharding_first (acc) ? COLLECTED_SHARES : COLLECTED_HOSTS;
    enum accel_status status = check_hooks (part, &err);
    if (!status && cut_first (acc)) /* they would have to be collected, but nothing here is collective */
        status = accel_fail (&err, ACCEL_ERR_UNSUPPORTED, "each process has only parts of tensors (tp_size)");
    if (!status)
        status = collected_make (&collected, acc, true, who, &err);
    if (!status)
        status = write_state (memory, &collected, &err);
    collected_release (&collected);
    if (!status)
        return;
    memory_tier_forget (acc);
    memory->is_off = true;
    accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_EVERYWHERE, "no more checkpoints in memory: %s", err.text);
}

/* ---- opening and closing ---- */

static enum accel_status
open_tier (struct part *part, const struct accel_options *options, struct accel_error *err)
{
    struct memory_tier *memory = (struct memory_tier *) (void *) part;
    int64_t every = 0;
    const char *text = getenv (ENV_MEMORY_EVERY);
    (void) options;
    memory->memtier = (struct memtier) MEMTIER_NONE;
    if (text && *text && parse_int64 (text, 1, INT64_MAX, &every) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not a number of steps from 1 on",
                           ENV_MEMORY_EVERY, text);
    memory->every = (uint64_t) every;
    memory->process = getpid ();
    loader_set_between (part->acc, save_between);
    return ACCEL_OK;
}

static void
close_tier (struct part *part)
{
    struct memory_tier *memory = (struct memory_tier *) (void *) part;
    atomic_store (&memory->check.stops, true);
    if (memory->process == getpid ())
        memory_tier_end_check (memory);
    memtier_release (&memory->memtier);
}

const struct part_kind part_memory_tier = { .size_bytes = sizeof (struct memory_tier), .open = open_tier,
                                            .close = close_tier };
