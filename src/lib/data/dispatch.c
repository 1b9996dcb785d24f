/* SPDX-License-Identifier: Apache-2.0 */
/* One process reads for all: Accelerate's DataLoaderDispatcher (accelerate, data_loader.py).  Rank 0 puts the batches
 * of a round together, says how many rows there are and whether more follow, and sends them; each process takes its
 * share of the rows.  A failure to read travels the same way, so that no rank waits for what will not come. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/coalesce.h"
#include "lib/data/loader_object.h"

#include <stdlib.h>
#include <string.h>

/* The header of a round: status, last, rows, in a first round what kind of source the order has, then of each field the
 * number of dimensions and the shape. */
enum { HEADER_STATUS, HEADER_LAST, HEADER_ROWS, HEADER_SOURCE, HEADER_FIELDS, HEADER_FIELD_WORDS = 1 + ACCEL_MAX_DIMS };

/* In HEADER_SOURCE beside the kind of source: the generator continues from epoch to epoch. */
enum { SOURCE_GOES_ON = 4 };

/* One process reads and sends, all take their rows. */
struct dispatcher {
    struct accel_batch rounds[2]; /* rank 0 reads one ahead; others use the first */
    size_t rows[2];
    size_t current;        /* which one the batch that was given out is in */
    size_t filling_parts;  /* rank 0: batches, and rows, of the round that is being put together; */
    size_t filling_rows;   /* if reading fails, the next attempt continues from here */
    bool read_over;        /* rank 0: nothing comes after the round read last */
    bool not_begun;        /* rank 0: the pass could not begin; the next round is to try again */
    struct accel_error failure; /* rank 0: why the pass could not begin or cannot continue; sent instead of a round */
    struct accel_batch first; /* the first rows of the epoch, to fill the last round up with */
    struct accel_batch view;  /* this process's rows of a round */
    int64_t *header;
    size_t capacity;       /* rows of a round */
};

static size_t
header_count (const struct accel_loader *loader)
{
    return HEADER_FIELDS + loader->field_count * HEADER_FIELD_WORDS;
}

static void
forget_memory (struct accel_tensor *tensor)
{
    free (tensor->dl.data);
    tensor->dl.data = NULL;
    tensor->owned_bytes = 0;
}

/* Rank 0 reads all, as if it were alone. */
static void
deal (struct accel_loader *loader, size_t size)
{
    struct share *share = &loader->share;
    share->shard = (struct shard){ .batch_size = size, .processes = 1 };
    share->round = loader->options.split_batches == ACCEL_YES ? size : size * share->processes;
    share->row_capacity = size;
    share->reads = share->process == 0;
    loader->drawing.base_seed = NULL;
}

static enum accel_status
make_rounds (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    size_t processes = loader->share.processes;
    enum accel_status status = ACCEL_OK;
    dispatcher->capacity = loader->share.round;
    /* The last round is filled up to a multiple of the number of processes. */
    size_t rows = dispatcher->capacity + processes;
    for (int i = 0; i < (loader->share.reads ? 2 : 1) && !status; i++)
        status = batch_init (&dispatcher->rounds[i], loader->fields, loader->field_count, rows,
                             &(struct batch_home){ .acc = acc, .device = { .device_type = kDLCPU } }, err);
    if (!status && loader->share.reads)
        status = batch_init (&dispatcher->first, loader->fields, loader->field_count, processes, NULL, err);
    if (!status)
        status = batch_init (&dispatcher->view, loader->fields, loader->field_count, 0, NULL, err);
    for (size_t i = 0; i < loader->field_count && !status; i++) /* the view has no memory of its own */
        forget_memory (&dispatcher->view.fields[i]);
    return status;
}

static enum accel_status
init (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    enum accel_status status = loader->share.reads ? loader->data->init (loader, NULL, err) : ACCEL_OK;
    if (status)
        return status;
    loader->dispatcher = calloc (1, sizeof *loader->dispatcher);
    if (loader->dispatcher)
        loader->dispatcher->header = calloc (header_count (loader), sizeof *loader->dispatcher->header);
    if (!loader->dispatcher || !loader->dispatcher->header)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a dispatcher");
    return make_rounds (loader, loader->options.collate ? NULL : acc, err);
}

/* The view's fields lie in a round. */
static void
release (struct accel_loader *loader)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    if (loader->data->release)
        loader->data->release (loader);
    loader->position.draws_on = false;
    if (!dispatcher)
        return;
    for (size_t i = 0; dispatcher->view.fields && i < loader->field_count; i++)
        dispatcher->view.fields[i].dl.data = NULL;
    batch_release (&dispatcher->view);
    batch_release (&dispatcher->rounds[0]);
    batch_release (&dispatcher->rounds[1]);
    batch_release (&dispatcher->first);
    free (dispatcher->header);
    free (dispatcher);
    loader->dispatcher = NULL;
}

static size_t
row_bytes (const struct accel_batch *batch, size_t field)
{
    const struct accel_tensor *tensor = &batch->fields[field];
    size_t bytes = accel_dtype_bytes (batch->descriptions[field].dtype);
    for (int i = 1; i < tensor->dl.ndim; i++)
        bytes *= (size_t) tensor->shape[i];
    return bytes;
}

/* Give every field of @p round the shape of @p part's, with room for @p rows rows. */
static enum accel_status
take_shapes (struct accel_loader *loader, struct accel_batch *round, const struct accel_batch *part, size_t rows,
             struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < loader->field_count && !status; i++) {
        void *memory;
        int64_t shape[ACCEL_MAX_DIMS];
        memcpy (shape, part->fields[i].shape, sizeof shape);
        shape[0] = (int64_t) rows;
        if (!part->fields[i].dl.ndim)
            return accel_fail (err, ACCEL_ERR_INVALID, "field '%s' has no rows to dispatch",
                               loader->fields[i].name);
        status = accel_batch_resize (round, loader->fields[i].name, part->fields[i].dl.ndim, shape, &memory, err);
    }
    return status;
}

/* Add the rows of @p part to those that are there. */
static enum accel_status
append (struct accel_loader *loader, struct accel_batch *round, size_t *rows, const struct accel_batch *part,
        size_t count, struct accel_error *err)
{
    for (size_t i = 0; i < loader->field_count; i++) {
        const struct accel_tensor *have = &round->fields[i], *add = &part->fields[i];
        size_t bytes = row_bytes (round, i);
        if (have->dl.ndim != add->dl.ndim
            || memcmp (have->shape + 1, add->shape + 1, (size_t) (have->dl.ndim - 1) * sizeof *have->shape))
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "batches of one round have rows of different shapes in field '%s'; dispatch_batches "
                               "requires equal shapes", loader->fields[i].name);
        memcpy ((char *) have->dl.data + *rows * bytes, add->dl.data, count * bytes);
    }
    memcpy (round->indices + *rows, part->listed, count * sizeof *round->indices);
    *rows += count;
    return ACCEL_OK;
}

/* Rank 0: put round @p which together.  Without rows there is none.  What was not read can be asked for again; a batch
 * that does not fit the others stays so. */
static enum accel_status
assemble (struct accel_loader *loader, int which, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    struct accel_batch *round = &dispatcher->rounds[which];
    size_t parts = loader->options.split_batches == ACCEL_YES ? 1 : loader->share.processes;
    enum accel_status status = ACCEL_OK;
    for (; dispatcher->filling_parts < parts && !dispatcher->read_over; dispatcher->filling_parts++) {
        struct handed handed = { 0 };
        status = loader->data->next (loader, NULL, &handed, err);
        if (status)
            return status;
        const struct accel_batch *part = handed.batch;
        dispatcher->read_over = handed.is_last || !part;
        if (!part)
            break;
        if (loader->options.collate && !dispatcher->filling_parts)
            status = take_shapes (loader, round, part, dispatcher->capacity + loader->share.processes, err);
        if (!status)
            status = append (loader, round, &dispatcher->filling_rows, part, part->size, err);
        if (status) {
            dispatcher->failure = *err;
            return status;
        }
    }
    bool dropped = loader->options.drop_last && dispatcher->filling_rows < dispatcher->capacity;
    dispatcher->rows[which] = dropped ? 0 : dispatcher->filling_rows;
    dispatcher->filling_parts = dispatcher->filling_rows = 0;
    return ACCEL_OK;
}

static enum accel_status
read_first (struct accel_loader *loader, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    size_t start = loader->position.start, rows = dispatcher->rows[0], wanted = loader->share.processes, none = 0;
    enum accel_status status = ACCEL_OK;
    dispatcher->first.size = 0;
    if (loader->options.drop_last || wanted == 1 || !rows) /* nothing is filled up */
        return ACCEL_OK;
    if (wanted > start + rows)
        wanted = start + rows;
    if (start)
        return loader->data->read_first (loader, &dispatcher->first, wanted, err);
    /* They are the first of the first round. */
    if (loader->options.collate)
        status = take_shapes (loader, &dispatcher->first, &dispatcher->rounds[0], wanted, err);
    if (!status)
        status = append (loader, &dispatcher->first, &none, &dispatcher->rounds[0], wanted, err);
    dispatcher->first.size = wanted;
    return status;
}

static enum accel_status
begin_reading (struct accel_loader *loader, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    enum accel_status status = loader->data->begin (loader, err);
    if (status)
        return status;
    dispatcher->read_over = false;
    dispatcher->filling_parts = dispatcher->filling_rows = 0;
    dispatcher->rows[0] = dispatcher->rows[1] = 0;
    status = assemble (loader, 0, err);
    if (!status)
        status = read_first (loader, err);
    if (status) /* the next attempt begins anew */
        reader_stop (loader->reader, loader->reader->broken ? 0 : pass_timeout (loader));
    return status;
}

/* Nothing is sent: what failed is reported with the first round. */
static enum accel_status
begin (struct accel_loader *loader, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    bool tells = loader->share.processes > 1;
    dispatcher->failure = (struct accel_error){ 0 };
    dispatcher->not_begun = false;
    dispatcher->current = 1; /* so that the first round to be given out is 0 */
    if (!loader->share.reads) {
        drawing_draw_base_seed (loader); /* so do Accelerate's processes that only receive */
        return ACCEL_OK;
    }
    enum accel_status status = drawing_try (loader, begin_reading, tells ? &dispatcher->failure : err);
    dispatcher->not_begun = tells && status;
    return tells ? ACCEL_OK : status;
}

/* Rows that the last round lacks come from the front of the epoch, again and again, so that all get equally many. */
static enum accel_status
fill_up (struct accel_loader *loader, struct accel_batch *round, size_t rows, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    enum accel_status status = ACCEL_OK;
    while (rows % loader->share.processes && !status) {
        size_t wanted = loader->share.processes - rows % loader->share.processes;
        size_t count = dispatcher->first.size < wanted ? dispatcher->first.size : wanted;
        status = append (loader, round, &rows, &dispatcher->first, count, err);
    }
    return status;
}

/* Rank 0: what the header says of round @p which. */
static enum accel_status
describe (struct accel_loader *loader, int which, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    int64_t *header = dispatcher->header;
    struct accel_batch *round = &dispatcher->rounds[which];
    enum accel_status status = ACCEL_OK;
    memset (header, 0, header_count (loader) * sizeof *header);
    if (dispatcher->failure.code) {
        *err = dispatcher->failure;
        status = err->code;
    } else if (dispatcher->not_begun) { /* once more */
        status = drawing_try (loader, begin_reading, err);
        dispatcher->not_begun = status;
    }
    if (dispatcher->not_begun) /* all ranks hear of each attempt */
        dispatcher->failure = (struct accel_error){ 0 };
    if (!status && dispatcher->rows[which])
        status = assemble (loader, !which, err); /* whether more follows, only reading tells */
    bool is_last = !dispatcher->rows[!which];
    if (!status && is_last && dispatcher->rows[which])
        status = fill_up (loader, round, dispatcher->rows[which], err);
    header[HEADER_STATUS] = (int64_t) status;
    header[HEADER_LAST] = is_last;
    header[HEADER_ROWS] = (int64_t) dispatcher->rows[which];
    if (!loader->pass.next)
        header[HEADER_SOURCE] = loader->position.epoch_source | (drawing_generator (loader) ? SOURCE_GOES_ON : 0);
    for (size_t i = 0; i < loader->field_count; i++) {
        int64_t *field = header + HEADER_FIELDS + i * HEADER_FIELD_WORDS;
        field[0] = round->fields[i].dl.ndim;
        memcpy (field + 1, round->fields[i].shape, ACCEL_MAX_DIMS * sizeof *field);
    }
    return status;
}

/* Rank 0's reason, on every rank. */
static enum accel_status
share_failure (struct accel_loader *loader, const struct comm_site *site, enum accel_status status,
               struct accel_error *mine, struct accel_error *err)
{
    struct accel_comm *comm = accel_world (loader->object.owner);
    char text[ACCEL_ERROR_TEXT_SIZE] = "";
    if (loader->share.process == 0)
        memcpy (text, mine->text, sizeof text);
    enum accel_status sent = comm_broadcast (comm, site, text, sizeof text, ACCEL_UINT8, 0, err);
    text[sizeof text - 1] = '\0';
    return sent ? sent : accel_fail (err, status, "%s%s", loader->share.process ? "rank 0: " : "", text);
}

/* What rank 0's order is drawn from, so that the state of a loader is the same on all ranks: a generator's state as it
 * was when the epoch began, and as it is after the draw, from which the other ranks' generators continue. */
static enum accel_status
share_source (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err)
{
    uint8_t states[2][ACCEL_GENERATOR_STATE_BYTES] = { 0 };
    struct accel_generator *own = drawing_generator (loader);
    int64_t source = loader->dispatcher->header[HEADER_SOURCE];
    loader->position.epoch_source = (enum epoch_source) (source & ~SOURCE_GOES_ON);
    loader->position.draws_on = source & SOURCE_GOES_ON;
    loader->position.restored = false;
    if (!source)
        return ACCEL_OK;
    memcpy (states[0], loader->position.epoch_state, sizeof states[0]);
    if (own)
        accel_generator_get_state (own, states[1]);
    enum accel_status status = comm_broadcast (accel_world (loader->object.owner), site, states, sizeof states,
                                               ACCEL_UINT8, 0, err);
    memcpy (loader->position.epoch_state, states[0], sizeof states[0]);
    memcpy (loader->position.next_state, states[1], sizeof states[1]);
    return status || !own || !loader->share.process ? status
                                              : accel_generator_set_state (own, states[1], sizeof states[1], err);
}

/* Others than rank 0: make the round what the header says. */
static enum accel_status
accept_shapes (struct accel_loader *loader, struct accel_batch *round, size_t rows, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < loader->field_count && !status; i++) {
        const int64_t *field = loader->dispatcher->header + HEADER_FIELDS + i * HEADER_FIELD_WORDS;
        int64_t shape[ACCEL_MAX_DIMS];
        void *memory;
        memcpy (shape, field + 1, sizeof shape);
        shape[0] = (int64_t) rows;
        status = accel_batch_resize (round, loader->fields[i].name, (int) field[0], shape, &memory, err);
    }
    return status;
}

static enum accel_status
send_rows (struct accel_loader *loader, const struct comm_site *site, struct accel_batch *round, size_t rows,
           struct accel_error *err)
{
    struct accel_comm *comm = accel_world (loader->object.owner);
    struct comm_coalesced coalesced;
    enum accel_status status = ACCEL_OK;
    if (rows > round->capacity)
        status = accel_fail (err, ACCEL_ERR_INVALID,
                             "rank 0 sends %zu rows, but this loader has room for %zu: the ranks' loaders differ", rows,
                             round->capacity);
    else if (loader->share.process && loader->options.collate)
        status = accept_shapes (loader, round, rows, err);
    if (status)
        comm_give_up (comm, err->text); /* who sends does not know */
    comm_coalesce_begin (&coalesced, comm);
    for (size_t i = 0; i < loader->field_count && !status; i++)
        status = comm_broadcast (comm, comm_coalesce_site (&coalesced, site), round->fields[i].dl.data,
                                 rows * row_bytes (round, i), ACCEL_UINT8, 0, err);
    if (!status)
        status = comm_broadcast (comm, comm_coalesce_site (&coalesced, site), round->indices, rows, ACCEL_INT64, 0,
                                 err);
    return comm_coalesce_end (&coalesced, status, err);
}

/* This process's rows of the round, where they lie. */
static void
aim_view (struct accel_loader *loader, struct accel_batch *round, size_t begin, size_t count)
{
    struct accel_batch *view = &loader->dispatcher->view;
    for (size_t i = 0; i < loader->field_count; i++) {
        struct accel_tensor *tensor = &view->fields[i];
        tensor->dl.ndim = round->fields[i].dl.ndim;
        memcpy (tensor->shape, round->fields[i].shape, sizeof tensor->shape);
        tensor->shape[0] = (int64_t) count;
        tensor->dl.data = (char *) round->fields[i].dl.data + begin * row_bytes (round, i);
    }
    view->size = count;
    view->listed = round->indices + begin;
}

static enum accel_status
next (struct accel_loader *loader, const struct comm_site *site, struct handed *handed, struct accel_error *err)
{
    struct dispatcher *dispatcher = loader->dispatcher;
    size_t processes = loader->share.processes;
    int which = loader->share.reads ? !dispatcher->current : 0;
    struct accel_batch *round = &dispatcher->rounds[which];
    struct accel_error mine = { 0 };
    enum accel_status status = ACCEL_OK, failed = ACCEL_OK;
    if (loader->share.reads)
        failed = describe (loader, which, &mine);
    if (processes > 1)
        status = comm_broadcast (accel_world (loader->object.owner), site, dispatcher->header, header_count (loader),
                                 ACCEL_INT64, 0, err);
    if (status)
        return status;
    failed = (enum accel_status) dispatcher->header[HEADER_STATUS];
    if (failed && processes == 1 && err)
        *err = mine;
    if (failed)
        return processes == 1 ? failed : share_failure (loader, site, failed, &mine, err);
    if (processes > 1 && !loader->pass.next)
        status = share_source (loader, site, err);
    if (status)
        return status;
    size_t rows = (size_t) dispatcher->header[HEADER_ROWS], each = (rows + processes - 1) / processes;
    handed->is_last = dispatcher->header[HEADER_LAST];
    handed->remainder = rows;
    if (rows && processes > 1)
        status = send_rows (loader, site, round, each * processes, err);
    if (status || !rows)
        return status;
    dispatcher->current = (size_t) which;
    aim_view (loader, round, each * loader->share.process, each);
    handed->batch = &dispatcher->view;
    return ACCEL_OK;
}

static size_t
count_batches (const struct accel_loader *loader)
{
    return share_count_rounds (loader, loader->data->samples (loader));
}

static size_t
find_remainder (const struct accel_loader *loader)
{
    return loader->position.remainder;
}

static size_t
find_end (const struct accel_loader *loader)
{
    return loader->share.reads ? loader->data->end (loader) : SIZE_MAX;
}

/* The last round may be incomplete, as rank 0 has announced. */
static size_t
find_position (const struct accel_loader *loader)
{
    size_t position = loader->position.start + loader->pass.next * loader->share.round, end = find_end (loader);
    if (loader->pass.at_end)
        position -= loader->share.round - loader->position.remainder;
    return position < end ? position : end;
}

const struct loader_source loader_dispatch = {
    .deal = deal,
    .init = init,
    .release = release,
    .begin = begin,
    .next = next,
    .length = count_batches,
    .remainder = find_remainder,
    .position = find_position,
    .end = find_end,
};
