/* SPDX-License-Identifier: Apache-2.0 */
/* Reading another rank's ledger while that rank writes it.
 *
 * A record is written before the count that includes it, and the oldest of the ring is overwritten next.  So a record
 * can be trusted if, after it was copied, the count shows that its place is not the next one.  Other threads of this
 * process write this rank's own ledger under a lock, which readers take, too. */
#include <config.h>

#include "lib/comm/watch/watch_object.h"

#include "lib/comm/lock.h"

#include <stdio.h>

static bool
is_collective (const struct jobseg_record *record)
{
    return record->number && record->kind != ACCEL_ENGINE_SEND && record->kind != ACCEL_ENGINE_RECV;
}

static void
copy_record (const struct jobseg_slot *slot, size_t at, struct jobseg_record *record, struct watch_entry *entry)
{
    *record = slot->ledger[at];
    if (entry) {
        entry->record = *record;
        entry->form = slot->forms[at];
        snprintf (entry->location, sizeof entry->location, "%.*s:%u", JOBSEG_FILE_NAME, jobseg_file (slot, record),
                  record->line);
    }
}

/* @entry may be NULL: then only the record is copied. */
static bool
copy (const struct watch *watch, const struct jobseg_slot *slot, uint64_t sequence, struct jobseg_record *record,
      struct watch_entry *entry)
{
    bool own = slot == watch->source->own;
    if (own)
        work_lock ();
    copy_record (slot, (sequence - 1) % JOBSEG_LEDGER, record, entry);
    if (own)
        work_unlock ();
    jobseg_fence_reads ();
    return record->sequence == sequence && atomic_load (&slot->ledger_count) < sequence + JOBSEG_LEDGER - 1;
}

static uint64_t
oldest_of (uint64_t count)
{
    return count < JOBSEG_LEDGER ? 1 : count - JOBSEG_LEDGER + 2;
}

static bool
is_same_call (const struct watch *watch, const struct accel_engine_call *call, const struct jobseg_record *record)
{
    bool sends = call->kind == ACCEL_ENGINE_SEND, pair = sends || call->kind == ACCEL_ENGINE_RECV;
    if (!record->number || record->comm != watch->comm || record->generation != watch->generation)
        return false;
    if (!pair)
        return is_collective (record);
    return record->kind == (sends ? ACCEL_ENGINE_RECV : ACCEL_ENGINE_SEND) && record->root == watch->rank;
}

/* Whether a record was made by a program of the rank that came before this communicator. */
static bool
is_older (const struct watch *watch, const struct jobseg_record *record)
{
    return watch->generation - record->generation - 1 < UINT32_MAX / 2;
}

/* Numbers get smaller on the way back, so the first that is not larger decides. */
enum watch_where
watch_find (const struct watch *watch, const struct accel_engine_call *call, int rank, struct watch_entry *entry,
            bool *has_entry)
{
    const struct jobseg_slot *slot = watch_slot (watch, rank);
    uint64_t count = atomic_load (&slot->ledger_count);
    struct jobseg_record record;
    bool later = false;
    *has_entry = false;
    for (uint64_t sequence = count; sequence && sequence >= oldest_of (count); sequence--) {
        if (!copy (watch, slot, sequence, &record, NULL))
            return later ? WATCH_PAST : WATCH_UNKNOWN;
        if (is_older (watch, &record))
            return later ? WATCH_PAST : WATCH_BEFORE;
        if (!is_same_call (watch, call, &record) || record.number > call->number) {
            later = later || is_same_call (watch, call, &record);
            continue;
        }
        if (record.number < call->number)
            return later ? WATCH_PAST : WATCH_BEFORE;
        *has_entry = copy (watch, slot, sequence, &record, entry);
        return !*has_entry || record.done ? WATCH_PAST : WATCH_IN;
    }
    return later ? WATCH_PAST : count < JOBSEG_LEDGER ? WATCH_BEFORE : WATCH_UNKNOWN;
}

bool
watch_find_latest (const struct watch *watch, int rank, bool sends, struct jobseg_record *record)
{
    const struct jobseg_slot *slot = watch_slot (watch, rank);
    uint64_t count = atomic_load (&slot->ledger_count);
    for (uint64_t sequence = count; sequence && sequence >= oldest_of (count); sequence--)
        if (!copy (watch, slot, sequence, record, NULL))
            return false;
        else if (record->comm == watch->comm && record->generation == watch->generation
                 && (sends ? record->number && record->kind == ACCEL_ENGINE_SEND : is_collective (record)))
            return true;
    return false;
}
