/* SPDX-License-Identifier: Apache-2.0 */
/* This rank's ledger in the job segment: what it called last, and signs of life.  A few nanoseconds per call. */
#ifndef LIB_COMM_LEDGER_H
#define LIB_COMM_LEDGER_H

#include "lib/comm/comm_private.h"
#include "lib/engines/engine.h"

#include <stdatomic.h>

/** All zero is a ledger that records nothing: a process alone, without a launcher. */
struct ledger {
    struct jobseg_slot *slot;
    atomic_bool shared; /* by several threads: see ledger_share() */
    uint64_t sequence;
    uint32_t generation;
    const char *files[JOBSEG_FILES]; /* literals, by address */
    unsigned latest;                 /* index of the file named last */
};

/** What a call does, for its record.  As narrow as there: of wider members the compiler reads two of a call at once,
 *  which waits until the processor has written both. */
struct ledger_entry {
    uint64_t comm;   /* see struct jobseg_record */
    size_t count;
    uint32_t number; /* 0: no other rank takes part */
    uint32_t form;
    int16_t root;    /* -1: none */
    uint8_t kind;
    uint8_t dtype;
    uint8_t op;
};

/** Continue the ledger in @p slot: peers may still read what an earlier program of this rank called. */
void ledger_open (struct ledger *ledger, struct jobseg_slot *slot);

/** The index of @p file in the slot's table, which is made on first use; JOBSEG_FILES if the table is full. */
unsigned ledger_file (struct ledger *ledger, const char *file);

/** From now on several threads write in it: each write takes work_lock(), which the caller has. */
void ledger_share (struct ledger *ledger);

/** ledger_begin() and ledger_end() if it is shared.  @{ */
__attribute__ ((cold)) uint64_t ledger_begin_shared (struct ledger *ledger, const struct comm_site *site,
                                                     struct ledger_entry entry);
__attribute__ ((cold)) void ledger_end_shared (struct ledger *ledger, uint64_t sequence);
/** @} */

static inline bool
ledger_is_shared (const struct ledger *ledger)
{
    return atomic_load_explicit (&ledger->shared, memory_order_relaxed);
}

/** Keep what a record's hash was made of, for messages. */
void ledger_note_form (struct jobseg_form *kept, const struct comm_form *form);

__attribute__ ((always_inline)) static inline struct jobseg_record *
ledger_write (struct ledger *ledger, const struct comm_site *site, struct ledger_entry entry)
{
    struct jobseg_slot *slot = ledger->slot;
    unsigned file = ledger->files[ledger->latest] == site->file ? ledger->latest : ledger_file (ledger, site->file);
    uint64_t sequence = ++ledger->sequence;
    struct jobseg_record *record = &slot->ledger[(sequence - 1) % JOBSEG_LEDGER];
    *record = (struct jobseg_record){
        .sequence = sequence,
        .generation = ledger->generation,
        .comm = entry.comm,
        .number = entry.number,
        .kind = entry.kind,
        .count = entry.count,
        .line = (uint32_t) site->line,
        .file = (uint16_t) file,
        .call = (uint8_t) site->call,
        .dtype = entry.dtype,
        .op = entry.op,
        .root = entry.root,
        .form = entry.form,
        .device = (uint8_t) site->device.device_type,
    };
    if (site->form)
        ledger_note_form (&slot->forms[(sequence - 1) % JOBSEG_LEDGER], site->form);
    atomic_store_explicit (&slot->ledger_count, sequence, memory_order_release);
    atomic_store_explicit (&slot->begun_ns, jobseg_beat (slot), memory_order_relaxed);
    return record;
}

/** A later call may have taken the place of its record. */
static inline void
ledger_close (struct jobseg_record *record, uint64_t sequence)
{
    if (record->sequence == sequence)
        record->done = 1;
}

static inline struct jobseg_record *
ledger_record (const struct ledger *ledger, uint64_t sequence)
{
    return &ledger->slot->ledger[(sequence - 1) % JOBSEG_LEDGER];
}

/** Note that a call begins.  @p entry is passed by value, so it stays in registers.
 *  @return its sequence number, for ledger_end(); 0 if nothing is recorded */
__attribute__ ((always_inline)) static inline uint64_t
ledger_begin (struct ledger *ledger, const struct comm_site *site, struct ledger_entry entry)
{
    if (!ledger->slot)
        return 0;
    if (ledger_is_shared (ledger))
        return ledger_begin_shared (ledger, site, entry);
    ledger_write (ledger, site, entry);
    return ledger->sequence;
}

/** Note that the call is over. */
static inline void
ledger_end (struct ledger *ledger, uint64_t sequence)
{
    if (!sequence)
        return;
    if (ledger_is_shared (ledger))
        ledger_end_shared (ledger, sequence);
    else
        ledger_close (ledger_record (ledger, sequence), sequence);
}

#endif
