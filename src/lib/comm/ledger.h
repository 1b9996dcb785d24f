/* SPDX-License-Identifier: Apache-2.0 */
/* This rank's ledger in the job segment: what it called last, and signs of life.  A few nanoseconds per call. */
#ifndef LIB_COMM_LEDGER_H
#define LIB_COMM_LEDGER_H

#include "lib/comm/comm_private.h"
#include "lib/engines/engine.h"

/** All zero is a ledger that records nothing: a process alone, without a launcher. */
struct ledger {
    struct jobseg_slot *slot;
    uint64_t sequence;
    uint32_t generation;
    const char *files[JOBSEG_FILES]; /* literals, by address */
    unsigned latest;                 /* index of the file named last */
};

/** What a call does, for its record. */
struct ledger_entry {
    uint64_t comm;   /* see struct jobseg_record */
    uint32_t number; /* 0: no other rank takes part */
    enum engine_kind kind;
    size_t count;
    enum accel_dtype dtype;
    enum accel_op op;
    int root; /* -1: none */
    uint32_t form;
};

/** Continue the ledger in @p slot: peers may still read what an earlier program of this rank called. */
void ledger_open (struct ledger *ledger, struct jobseg_slot *slot);

/** The index of @p file in the slot's table, which is made on first use; JOBSEG_FILES where the table is full. */
unsigned ledger_file (struct ledger *ledger, const char *file);

/** Keep what a record's hash was made of, for messages. */
void ledger_note_form (struct jobseg_form *kept, const struct comm_form *form);

/** Note that a call begins.  @return its record, for ledger_end(); NULL where nothing is recorded */
__attribute__ ((always_inline)) static inline struct jobseg_record *
ledger_begin (struct ledger *ledger, const struct comm_site *site, const struct ledger_entry *entry)
{
    struct jobseg_slot *slot = ledger->slot;
    if (!slot)
        return NULL;
    unsigned file = ledger->files[ledger->latest] == site->file ? ledger->latest : ledger_file (ledger, site->file);
    uint64_t sequence = ++ledger->sequence;
    struct jobseg_record *record = &slot->ledger[(sequence - 1) % JOBSEG_LEDGER];
    *record = (struct jobseg_record){
        .sequence = sequence,
        .generation = ledger->generation,
        .comm = entry->comm,
        .number = entry->number,
        .kind = (uint8_t) entry->kind,
        .count = entry->count,
        .line = (uint32_t) site->line,
        .file = (uint16_t) file,
        .call = (uint8_t) site->call,
        .dtype = (uint8_t) entry->dtype,
        .op = (uint8_t) entry->op,
        .root = (int16_t) entry->root,
        .form = entry->form,
    };
    if (site->form)
        ledger_note_form (&slot->forms[(sequence - 1) % JOBSEG_LEDGER], site->form);
    atomic_store_explicit (&slot->ledger_count, sequence, memory_order_release);
    jobseg_beat (slot);
    return record;
}

/** Note that the call is over. */
static inline void
ledger_end (struct jobseg_record *record)
{
    if (record)
        record->done = 1;
}

#endif
