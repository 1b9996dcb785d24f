/* SPDX-License-Identifier: Apache-2.0 */
/* The slow parts of the ledger: starting it, naming a source file for the first time, and writing where several threads
 * do. */
#include <config.h>

#include "lib/comm/ledger.h"

#include "lib/comm/lock.h"

#include <string.h>

void
ledger_open (struct ledger *ledger, struct jobseg_slot *slot)
{
    *ledger = (struct ledger){ .slot = slot };
    if (!slot)
        return;
    ledger->sequence = atomic_load (&slot->ledger_count);
    ledger->generation = atomic_load (&slot->generation);
    /* Names stay while there is room, for peers may still tell where this rank was before it opened again. */
    if (atomic_load (&slot->file_count) > JOBSEG_FILES / 2)
        atomic_store (&slot->file_count, 0);
    jobseg_beat (slot);
}

/* The name is written before the count, so a thread that sees the index sees the name.  Equal literals at several
 * addresses (one per translation unit) share an entry. */
unsigned
ledger_file (struct ledger *ledger, const char *file)
{
    struct jobseg_slot *slot = ledger->slot;
    unsigned count = atomic_load (&slot->file_count);
    size_t length = strlen (file);
    const char *tail = length < JOBSEG_FILE_NAME ? file : file + length - (JOBSEG_FILE_NAME - 1);
    unsigned i = 0;
    while (i < count && ledger->files[i] != file && strcmp (slot->files[i], tail))
        i++;
    if (i == JOBSEG_FILES)
        return i;
    if (i == count) {
        strcpy (slot->files[i], tail);
        atomic_store (&slot->file_count, count + 1);
    }
    ledger->files[i] = file;
    ledger->latest = i;
    return i;
}

void
ledger_share (struct ledger *ledger)
{
    atomic_store_explicit (&ledger->shared, true, memory_order_relaxed);
}

uint64_t
ledger_begin_shared (struct ledger *ledger, const struct comm_site *site, struct ledger_entry entry)
{
    work_lock ();
    ledger_write (ledger, site, entry);
    uint64_t sequence = ledger->sequence;
    work_unlock ();
    return sequence;
}

void
ledger_end_shared (struct ledger *ledger, uint64_t sequence)
{
    work_lock ();
    ledger_close (ledger_record (ledger, sequence), sequence);
    work_unlock ();
}

void
ledger_note_form (struct jobseg_form *kept, const struct comm_form *form)
{
    _Static_assert ((int) JOBSEG_MAX_DIMS == (int) ACCEL_MAX_DIMS, "a ledger has room for every shape");
    kept->ndim = form->tensor ? (uint8_t) form->tensor->ndim : 0;
    for (int i = 0; i < kept->ndim; i++)
        kept->shape[i] = form->tensor->shape[i];
    kept->argument = (uint8_t) form->argument;
    kept->value = form->value;
}
