/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as numbers and texts in a frame; see samples.h.  Of a ledger, the latest record of each communicator is enough
 * to find out who waits for whom. */
#include <config.h>

#include "hosts/samples.h"

#include "util/clock.h"

#include <stdio.h>
#include <string.h>

enum { RECORDS = 4 }; /* communicators of a rank, at most */

/* ---- the agent ---- */

static bool
has_comm (const struct jobseg_record *records, int count, uint64_t comm)
{
    for (int i = 0; i < count; i++)
        if (records[i].comm == comm && !sample_is_message (&records[i]))
            return true;
    return false;
}

/* The newest one, whatever it is, and then the newest collective of each communicator.  @return how many */
static int
find_records (const struct jobseg_slot *slot, struct jobseg_record records[RECORDS])
{
    int found = 0;
    uint64_t count = atomic_load (&slot->ledger_count);
    uint32_t generation = atomic_load (&slot->generation);
    for (uint64_t i = count; i > 0 && count - i < JOBSEG_LEDGER && found < RECORDS; i--) {
        struct jobseg_record record = slot->ledger[(i - 1) % JOBSEG_LEDGER];
        bool is_wanted = record.number && !sample_is_message (&record) && !has_comm (records, found, record.comm);
        if (record.generation == generation && record.sequence == i && (i == count || is_wanted))
            records[found++] = record;
    }
    return found;
}

static void
put_records (struct strbuf *out, const struct jobseg_slot *slot)
{
    struct jobseg_record records[RECORDS];
    int count = find_records (slot, records);
    wire_put_number (out, count);
    for (int i = 0; i < count; i++) {
        const struct jobseg_record *record = &records[i];
        wire_put_number (out, (int64_t) record->sequence);
        wire_put_number (out, (int64_t) record->comm);
        wire_put_number (out, record->number);
        wire_put_number (out, record->root);
        wire_put_number (out, record->call);
        wire_put_number (out, record->done);
    }
}

static void
put_values (struct strbuf *out, const struct sample_rank *rank)
{
    wire_put_number (out, rank->value_count);
    for (uint32_t i = 0; i < rank->value_count; i++) {
        int64_t bits;
        memcpy (&bits, &rank->values[i].value, sizeof bits);
        wire_put_text (out, rank->values[i].name);
        wire_put_number (out, bits);
    }
}

static void
put_rank (struct strbuf *out, const struct jobseg_slot *slot, const struct sample_rank *rank, struct jobseg_gpu gpu)
{
    char saved_path[sizeof slot->saved_path];
    bool is_gone = rank->has_ended && !atomic_load (&slot->exited);
    snprintf (saved_path, sizeof saved_path, "%.*s", (int) sizeof saved_path - 1, slot->saved_path);
    wire_put_number (out, rank->state);
    wire_put_number (out, rank->pid);
    wire_put_number (out, is_gone ? 'Z' : rank->process_state);
    wire_put_number (out, rank->has_ended && !is_gone);
    wire_put_number (out, rank->wait_status);
    wire_put_number (out, (int64_t) rank->step);
    wire_put_number (out, (int64_t) rank->step_ns);
    wire_put_number (out, (int64_t) rank->first_step);
    wire_put_number (out, (int64_t) rank->first_ns);
    wire_put_number (out, (int64_t) rank->waited_ns);
    wire_put_number (out, (int64_t) rank->cpu_ns);
    wire_put_number (out, (int64_t) rank->memory);
    wire_put_number (out, gpu.number);
    wire_put_number (out, gpu.use);
    wire_put_number (out, gpu.temperature);
    wire_put_number (out, (int64_t) gpu.memory_used);
    wire_put_number (out, atomic_load (&slot->respects));
    wire_put_number (out, atomic_load (&slot->saves));
    wire_put_number (out, (int64_t) atomic_load (&slot->saved_step));
    wire_put_number (out, (int64_t) atomic_load (&slot->memory_step));
    wire_put_text (out, saved_path);
    wire_put_text (out, rank->doing);
    put_values (out, rank);
    put_records (out, slot);
}

void
samples_put (struct strbuf *out, const struct watch_job *job, const struct watched_gpus *gpus)
{
    struct sample sample = { 0 };
    bool is_taken = job && !sample_take (&sample, job, NULL);
    size_t begin = wire_begin (out, WIRE_SAMPLED);
    wire_put_number (out, is_taken ? sample.count : 0);
    for (int i = 0; is_taken && i < sample.count; i++) {
        wire_put_number (out, sample.ranks[i].rank);
        put_rank (out, jobseg_slot (&job->segment, i), &sample.ranks[i], watched_gpu_of (gpus, &sample.ranks[i]));
    }
    wire_end (out, begin);
    sample_release (&sample);
}

/* ---- the head ---- */

static void
take_text (struct wire_frame *frame, char *text, size_t size)
{
    const char *said = wire_text (frame);
    snprintf (text, size, "%s", said ? said : "");
}

/* Where the rank's own ledger has them; the others there are older. */
static void
take_records (struct wire_frame *frame, struct jobseg_slot *slot)
{
    struct jobseg_record records[JOBSEG_LEDGER] = { 0 };
    int64_t count = wire_number (frame);
    uint64_t latest = 0;
    for (int64_t i = 0; i < count && i < RECORDS && !frame->failed; i++) {
        struct jobseg_record record = { .sequence = (uint64_t) wire_number (frame) };
        record.comm = (uint64_t) wire_number (frame);
        record.number = (uint32_t) wire_number (frame);
        record.root = (int16_t) wire_number (frame);
        record.call = (uint8_t) wire_number (frame);
        record.done = (uint8_t) wire_number (frame);
        latest = i ? latest : record.sequence;
        records[(record.sequence - 1) % JOBSEG_LEDGER] = record;
    }
    memcpy (slot->ledger, records, sizeof records);
    atomic_store (&slot->ledger_count, latest);
}

static void
take_values (struct wire_frame *frame, struct jobseg_progress *progress)
{
    int64_t count = wire_number (frame);
    progress->value_count = count > 0 && count <= JOBSEG_VALUES ? (uint32_t) count : 0;
    for (int64_t i = 0; i < count && !frame->failed; i++) {
        char name[JOBSEG_VALUE_NAME];
        take_text (frame, name, sizeof name);
        int64_t bits = wire_number (frame);
        if (i >= JOBSEG_VALUES)
            continue;
        memcpy (progress->values[i].name, name, sizeof name);
        memcpy (&progress->values[i].value, &bits, sizeof bits);
    }
}

static uint64_t
take_time (struct wire_frame *frame, int64_t offset_ns)
{
    int64_t theirs = wire_number (frame);
    return theirs ? (uint64_t) (theirs - offset_ns) : 0;
}

static void
take_rank (struct wire_frame *frame, struct jobseg_slot *slot, int64_t offset_ns)
{
    struct jobseg_progress *progress = &slot->progress;
    struct jobseg_told *told = &slot->told;
    atomic_fetch_add (&told->version, 1);
    atomic_fetch_add (&progress->version, 1);
    atomic_store (&slot->state, (uint32_t) wire_number (frame));
    atomic_store (&slot->pid, (int32_t) wire_number (frame));
    told->process_state = (uint8_t) wire_number (frame);
    uint32_t exited = (uint32_t) wire_number (frame);
    atomic_store (&slot->wait_status, (int32_t) wire_number (frame));
    atomic_store (&slot->exited, exited);
    atomic_store (&progress->step, (uint64_t) wire_number (frame));
    atomic_store (&progress->step_ns, take_time (frame, offset_ns));
    atomic_store (&progress->first_step, (uint64_t) wire_number (frame));
    atomic_store (&progress->first_ns, take_time (frame, offset_ns));
    atomic_store (&progress->waited_ns, (uint64_t) wire_number (frame));
    told->cpu_ns = (uint64_t) wire_number (frame);
    told->memory = (uint64_t) wire_number (frame);
    told->gpu.number = (int32_t) wire_number (frame);
    told->gpu.use = (int32_t) wire_number (frame);
    told->gpu.temperature = (int32_t) wire_number (frame);
    told->gpu.memory_used = (uint64_t) wire_number (frame);
    atomic_store (&slot->respects, (uint32_t) wire_number (frame));
    uint32_t saves = (uint32_t) wire_number (frame);
    atomic_store (&slot->saved_step, (uint64_t) wire_number (frame));
    atomic_store (&slot->memory_step, (uint64_t) wire_number (frame));
    take_text (frame, slot->saved_path, sizeof slot->saved_path);
    atomic_store (&slot->saves, saves);
    take_text (frame, told->doing, sizeof told->doing);
    take_values (frame, progress);
    take_records (frame, slot);
    atomic_store (&told->ns, (uint64_t) clock_ns ());
    atomic_fetch_add (&told->count, 1);
    atomic_fetch_add (&progress->version, 1);
    atomic_fetch_add (&told->version, 1);
}

void
samples_take (struct wire_frame *frame, const struct samples_place *place)
{
    for (int64_t count = wire_number (frame); count > 0 && !frame->failed; count--) {
        int64_t rank = wire_number (frame);
        if (rank < place->first_rank || rank >= place->first_rank + place->ranks)
            return;
        take_rank (frame, jobseg_slot (place->segment, (int) rank), place->offset_ns);
    }
}
