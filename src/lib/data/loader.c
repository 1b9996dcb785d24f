/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: making one, preparing it, and going through its batches. */
#include <config.h>

#include "lib/base/option.h"
#include "lib/data/loader.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/collectives/parallel.h"
#include "lib/comm/comm_object.h"
#include "lib/data/active.h"
#include "lib/data/device_batches.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "lib/state/prepared.h"
#include "util/clock.h"

#include <stdlib.h>

static bool
has_own_order (const struct accel_loader_options *options)
{
    return options->shuffle || options->random_sampler || options->sampler || options->generator
           || options->batch_sampler;
}

static enum accel_status
check_options (const struct accel_loader_options *options, bool is_stream, struct accel_error *err)
{
    if (options->batch_size > PTRDIFF_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID, "a batch of %zu samples is too large: size overflows",
                           options->batch_size);
    const struct {
        const char *name;
        enum accel_flag given;
    } flags[] = { { "split_batches", options->split_batches },
                  { "even_batches", options->even_batches },
                  { "dispatch_batches", options->dispatch_batches },
                  { "device_placement", options->device_placement } };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flag_check (flags[i].given, flags[i].name, err))
            return ACCEL_ERR_INVALID;
    if ((unsigned) options->reader > ACCEL_READER_CALLER)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'reader'");
    if (options->reader == ACCEL_READER_THREADS && !options->workers)
        return accel_fail (err, ACCEL_ERR_INVALID, "ACCEL_READER_THREADS needs threads: set workers");
    if (is_stream && (has_own_order (options) || options->collate))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a stream has its own order and shape: it cannot be combined with shuffle, sampler, "
                           "generator or collate");
    if (options->sampler && (options->shuffle || options->random_sampler))
        return accel_fail (err, ACCEL_ERR_INVALID, "sampler cannot be combined with shuffle");
    const struct accel_batch_sampler *batches = options->batch_sampler;
    if (!batches)
        return ACCEL_OK;
    if (options->shuffle || options->random_sampler || options->sampler || options->batch_size)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "batch_sampler cannot be combined with shuffle, sampler or batch_size");
    if (!batches->next || !(batches->batch_size || batches->most)
        || (batches->batch_size | batches->most) > PTRDIFF_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a batch sampler needs a next function and a batch_size or most");
    size_t indices;
    if (__builtin_mul_overflow (batches->length, batches->batch_size ? batches->batch_size : 1, &indices)
        || indices > PTRDIFF_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID, "a batch sampler with %zu batches is too large: size overflows",
                           batches->length);
    if (!batches->batch_size && (options->split_batches == ACCEL_YES || options->dispatch_batches == ACCEL_YES))
        return accel_fail (err, ACCEL_ERR_INVALID, "batches of varying size can be neither split nor dispatched");
    return ACCEL_OK;
}

/* Where the order comes from: the program's sampler, or what `shuffle` says. */
static enum accel_status
make_sampler (struct accel_loader *loader, struct accel_error *err)
{
    const struct accel_loader_options *options = &loader->options;
    struct accel_sampler **sampler = &loader->drawing.sampler;
    *sampler = options->sampler;
    if (options->sampler || options->batch_sampler)
        return ACCEL_OK;
    loader->drawing.owns_sampler = true;
    bool draws = (options->shuffle || options->random_sampler) && loader->samples;
    if (!draws)
        return accel_sampler_create (sampler, ACCEL_SAMPLER_SEQUENTIAL, loader->samples, NULL, err);
    const struct accel_sampler_options random = { .generator = options->generator,
                                                  .seed = options->random_sampler ? 0 : options->seed };
    return accel_sampler_create (sampler, options->random_sampler ? ACCEL_SAMPLER_RANDOM : ACCEL_SAMPLER_SEEDABLE,
                                 loader->samples, &random, err);
}

void
loader_set_join (struct accel_loader *loader, enum accel_flag even)
{
    loader->share.join_even = even;
}

/* The object is the first member. */
static void
end_loader (struct object *object)
{
    struct accel_loader *loader = (struct accel_loader *) (void *) object;
    if (object->owner)
        comm_raise_failure (accel_world (object->owner), loader);
    pass_end (loader);
    pass_release (loader);
    prepared_remove (&loader->object);
    drawing_drop_persistent (loader);
    if (loader->drawing.owns_sampler)
        accel_sampler_destroy (loader->drawing.sampler);
    if (loader->abandoned)
        object_hold (object); /* for ever: its order may be in use as well */
    else
        order_release (&loader->order);
}

static enum accel_status
prepare (struct object *object, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    return loader_prepare ((struct accel_loader *) (void *) object, acc, site, err);
}

static enum accel_status
release (struct object *object, struct accel_error *err)
{
    prepared_remove (object);
    enum accel_status status = loader_release ((struct accel_loader *) (void *) object, err);
    object->owner = NULL;
    return status;
}

static void
let_go (struct object *object)
{
    (void) loader_release ((struct accel_loader *) (void *) object, NULL);
}

static void
stop (struct object *object)
{
    accel_loader_end ((struct accel_loader *) (void *) object);
}

const char kind_of_loader[] = "loader";
static const struct object_kind kind_loader = {
    .name = kind_of_loader, .end = end_loader, .prepare = prepare, .release = release, .let_go = let_go, .stop = stop,
    .save = loader_save, .load = loader_load, .file = "sampler", .floor = OBJECT_LOADER,
};

static const struct loader_source *
choose_source (const struct accel_loader *loader, size_t processes)
{
    return share_is_dispatched (loader, processes) ? &loader_dispatch : loader->data;
}

/* Memory for a loader, with the program's options in it. */
static enum accel_status
begin (struct accel_loader **result, size_t options_size, size_t batches_size,
       const struct accel_loader_options *options, struct accel_error *err)
{
    static const char function[] = "accel_loader_create";
    struct accel_loader_options room;
    enum accel_status status;
    options = sized_read (function, "options", options, options_size, &room, sizeof room, &status, err);
    if (status)
        return status;
    struct accel_loader *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a loader");
    made->object = (struct object) OBJECT_INIT (&kind_loader);
    if (options) {
        made->options = *options;
        made->options.batch_sampler
            = sized_read (function, "batch_sampler", options->batch_sampler, batches_size, &made->room.batches,
                          sizeof made->room.batches, &status, err);
    }
    *result = made;
    return status;
}

static enum accel_status
finish (struct accel_loader *made, const struct accel_field *fields, size_t field_count, size_t samples,
        struct accel_error *err)
{
    enum accel_status status = batch_check_fields (fields, field_count, err);
    if (!status)
        status = check_options (&made->options, made->stream != NULL, err);
    if (status)
        return status;
    made->fields = fields;
    made->field_count = field_count;
    made->samples = samples;
    made->share.split_given = made->options.split_batches;
    if (!made->options.batch_size && !made->options.batch_sampler)
        made->options.batch_size = 1;
    made->data = made->dataset ? &loader_map : &loader_stream;
    made->source = choose_source (made, 1);
    status = made->dataset ? make_sampler (made, err) : ACCEL_OK;
    if (!status) /* one process, until accel_prepare() says otherwise */
        status = share_set (made, 1, 0, err);
    if (!status)
        made->traits = traits_compute (made);
    if (!status) /* so that memory which is not there is missed now, and not in the middle of a training */
        status = pass_init (made, err);
    return status;
}

static enum accel_status
make_loader (struct accel_loader *made, const struct accel_dataset *dataset, struct accel_error *err)
{
    bool reads = dataset && (dataset->read || dataset->read_many || made->options.collate);
    if (!reads && !(dataset && dataset->next))
        return accel_fail (err, ACCEL_ERR_INVALID, "a loader needs a data set with a read or next function");
    if (dataset->next && (dataset->read || dataset->read_many))
        return accel_fail (err, ACCEL_ERR_INVALID, "a data set has either a read or a next function");
    if (!dataset->next && dataset->size > PTRDIFF_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "a data set of %zu samples is too large for its indices",
                           dataset->size);
    if (dataset->next)
        made->stream = dataset;
    else
        made->dataset = dataset;
    return finish (made, dataset->fields, dataset->field_count, dataset->size, err);
}

enum accel_status
accel_loader_create_sized (size_t dataset_size, size_t options_size, size_t batches_size,
                           struct accel_loader **loader, const struct accel_dataset *dataset,
                           const struct accel_loader_options *options, struct accel_error *err)
{
    if (!loader)
        return accel_fail_null (err, "accel_loader_create", "loader");
    *loader = NULL;
    struct accel_loader *made = NULL;
    enum accel_status status = begin (&made, options_size, batches_size, options, err);
    if (!status)
        dataset = SIZED (dataset, dataset_size, made->room.dataset, &status, err);
    if (!status)
        status = make_loader (made, dataset, err);
    if (status)
        accel_loader_destroy (made);
    else
        *loader = made;
    return status;
}

void
accel_loader_destroy (struct accel_loader *loader)
{
    object_destroy (loader ? &loader->object : NULL);
}

enum accel_status
loader_share (struct accel_loader *loader, struct accel *acc, size_t processes, size_t process,
              struct accel_error *err)
{
    const struct loader_source *before = loader->source;
    share_choose_split (loader, acc);
    loader->source = choose_source (loader, processes);
    enum accel_status status = share_set (loader, processes, process, err);
    if (!status)
        status = drawing_make_persistent (loader, err);
    if (!status) {
        pass_release (loader);
        loader->traits = traits_compute (loader);
        loader->object.owner = acc;
        status = pass_init (loader, err);
    }
    if (status) { /* as it was */
        loader->source = before;
        loader->object.owner = NULL;
        share_choose_split (loader, NULL);
        (void) share_set (loader, 1, 0, NULL);
    }
    return status;
}

enum accel_status
loader_prepare (struct accel_loader *loader, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    share_choose_split (loader, acc);
    enum accel_status status = loader_compare (loader, accel_world (acc), site, err);
    if (!status && loader->pass.running)
        status = accel_fail (err, ACCEL_ERR_INVALID, "cannot prepare a loader in the middle of an epoch");
    if (!status && accel_device_mesh (acc) && share_is_dispatched (loader, (size_t) accel_num_processes (acc)))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "batches cannot be dispatched with tp_size above 1: set "
                             "dispatch_batches to ACCEL_NO");
    if (!status)
        return loader_share (loader, acc, (size_t) parallel_data_size (acc), (size_t) parallel_data_rank (acc), err);
    share_choose_split (loader, NULL);
    return status;
}

enum accel_status
loader_release (struct accel_loader *loader, struct accel_error *err)
{
    if (loader->object.owner)
        comm_raise_failure (accel_world (loader->object.owner), loader);
    pass_end (loader);
    enum accel_status status = loader_share (loader, NULL, 1, 0, err);
    drawing_drop_persistent (loader);
    loader->drawing.seeds = false;
    return status;
}

/* A process that has no batch where its peers have one leaves them waiting.  It may ask again; where it does anything
 * else its peers get the reason.  There is no point in asking a thread that hangs. */
static void
tell_peers (struct accel_loader *loader, const struct accel_error *cause)
{
    if (!loader->object.owner || !share_has_peers (loader))
        return;
    if (cause->code == ACCEL_ERR_TIMEOUT)
        comm_give_up (accel_world (loader->object.owner), cause->text);
    else
        comm_defer_failure (accel_world (loader->object.owner), loader, cause->text);
}

static void
settle (struct accel_loader *loader)
{
    if (loader->object.owner)
        comm_clear_failure (accel_world (loader->object.owner), loader);
}

/* An epoch without batches counts too, unlike Accelerate's: ranks that have none stay with those that have some. */
static bool
finish_pass (struct accel_loader *loader)
{
    loader->position.epoch++;
    pass_end (loader);
    return false;
}

static bool
next_batch (struct accel_loader *loader, const struct comm_site *site, const struct accel_batch **batch,
            struct accel_error *err)
{
    struct pass *pass = &loader->pass;
    struct handed handed = { .batch = NULL, .is_last = true };
    enum accel_status status = ACCEL_OK;
    if (!loader->made) /* if accel_prepare() could not */
        status = pass_init (loader, err);
    if (!status && !pass->running) /* a loader that shared its sampler's generator may have taken it along */
        status = drawing_make_persistent (loader, err);
    if (!status && !pass->running)
        status = pass_begin (loader, site, err);
    if (!status && pass->at_end)
        return finish_pass (loader);
    if (!status)
        status = loader->device_batches ? device_batches_next (loader, site, &handed, err)
                                 : loader->source->next (loader, site, &handed, err);
    if (status)
        return false;
    if (!handed.batch)
        return finish_pass (loader);
    if (handed.is_last)
        loader->position.remainder = handed.remainder;
    pass->next++;
    pass->at_end = handed.is_last;
    pass->given = *handed.batch;
    *batch = &pass->given;
    return true;
}

/* Getting a batch is a span of a profile, which a function called while reading may stop. */
static void
end_span (const struct comm_observer *before, struct accel *acc, int64_t begin_ns)
{
    struct comm_observer *observer = before ? accel_world (acc)->observer : NULL;
    if (observer && observer == before)
        observer->note_span (observer, jobseg_call_name (JOBSEG_CALL_LOADER_NEXT), begin_ns);
}

bool
accel_loader_next_at (const char *file, int line, struct accel_loader *loader, const struct accel_batch **batch,
                      struct accel_error *err)
{
    struct accel_error own;
    struct comm_site site = { file, line, JOBSEG_CALL_LOADER_NEXT };
    if (batch)
        *batch = NULL;
    if (!loader || !batch) {
        accel_fail (err, ACCEL_ERR_INVALID, "accel_loader_next: %s is NULL", loader ? "batch" : "loader");
        return false;
    }
    if (!err)
        err = &own;
    err->code = ACCEL_OK;
    uint64_t note = 0;
    if (loader->object.owner && comm_check_process (accel_world (loader->object.owner), &site, err))
        return false;
    if (loader->object.owner && share_has_peers (loader))
        note = comm_note_begin (accel_world (loader->object.owner), &site, loader->pass.next);
    struct object *job = object_of_job (loader->object.owner);
    object_pin (job); /* reading and saving call functions of the program */
    object_pin (&loader->object);
    struct accel *acc = loader->object.owner;
    const struct comm_observer *observer = acc ? accel_world (acc)->observer : NULL;
    int64_t begin_ns = observer ? clock_ns () : 0;
    if (job)
        loader_between (loader, loader->object.owner);
    bool more = next_batch (loader, &site, batch, err), loader_gone = object_is_gone (&loader->object);
    if (loader_gone || (job && object_is_gone (job))) {
        more = false;
        *batch = NULL;
        accel_fail (err, ACCEL_ERR_CALLBACK, "accel_loader_next: a function called while reading destroyed the %s",
                    loader_gone ? "loader" : "job");
    }
    comm_note_end (accel_world (loader->object.owner), note);
    end_span (observer, acc, begin_ns);
    if (!more && err->code)
        tell_peers (loader, err);
    else
        settle (loader);
    object_unpin (&loader->object);
    object_unpin (job);
    return more;
}

void
accel_loader_end (struct accel_loader *loader)
{
    if (!loader || !(loader->pass.running || loader->pass.agreed)) /* where the next pass begins stays */
        return;
    settle (loader);
    loader->position.epoch++;
    pass_end (loader);
}

void
accel_loader_set_epoch (struct accel_loader *loader, uint64_t epoch)
{
    if (!loader)
        return;
    /* Where the next pass begins stays, but a state's position belongs to its own epoch. */
    settle (loader);
    if (loader->pass.running || loader->pass.agreed || (loader->position.resumed && epoch != loader->position.epoch))
        pass_end (loader);
    loader->position.epoch = epoch;
}

uint64_t
accel_loader_epoch (const struct accel_loader *loader)
{
    return loader ? loader->position.epoch : 0;
}

size_t
accel_loader_total_batch_size (const struct accel_loader *loader)
{
    return loader ? loader->share.round : 0;
}

size_t
accel_loader_length (const struct accel_loader *loader)
{
    return loader ? loader->source->length (loader) : 0;
}

/* The list has the latest first. */
uint64_t
loader_number (const struct accel *acc, const struct accel_loader *loader)
{
    uint64_t number = 0;
    for (const struct object *object = acc && loader ? prepared_first (acc, kind_of_loader) : NULL; object;
         object = prepared_next (object, kind_of_loader))
        number = object == &loader->object ? 1 : number + (number > 0);
    return number;
}

struct accel_loader *
loader_at (const struct accel *acc, uint64_t number)
{
    for (struct object *object = acc && number ? prepared_first (acc, kind_of_loader) : NULL; object;
         object = prepared_next (object, kind_of_loader)) {
        struct accel_loader *loader = (struct accel_loader *) (void *) object;
        if (loader_number (acc, loader) == number)
            return loader;
    }
    return NULL;
}

bool
loader_splits_batches (const struct accel_loader *loader)
{
    return loader->options.split_batches == ACCEL_YES;
}

bool
accel_loader_end_of_dataloader (const struct accel_loader *loader)
{
    return loader && loader->pass.at_end;
}

size_t
accel_loader_remainder (const struct accel_loader *loader)
{
    return loader ? loader->source->remainder (loader) : 0;
}

enum accel_status
accel_skip_first_batches (struct accel_loader *loader, size_t batches, struct accel_error *err)
{
    size_t start;
    if (!loader)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: loader is NULL", __func__);
    if (loader->pass.running)
        return accel_fail (err, ACCEL_ERR_INVALID, "cannot skip batches in the middle of an epoch");
    if (__builtin_mul_overflow (batches, accel_loader_total_batch_size (loader), &start) || start > PTRDIFF_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "cannot skip %zu batches: too many", batches);
    loader->position.start = start;
    return ACCEL_OK;
}
