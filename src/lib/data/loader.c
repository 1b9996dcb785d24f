/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: making one, preparing it, and going through its batches. */
#include <config.h>

#include "lib/data/loader.h"

#include "lib/base/error.h"
#include "lib/data/compare.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "lib/state/state_private.h"

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
    if ((unsigned) options->dispatch_batches > ACCEL_DISPATCH_YES)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'dispatch_batches'");
    if (is_stream && (has_own_order (options) || options->collate))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "a stream has its own order and shape: it cannot be combined with shuffle, sampler, "
                           "generator or collate");
    if (options->sampler && (options->shuffle || options->random_sampler))
        return accel_fail (err, ACCEL_ERR_INVALID, "sampler cannot be combined with shuffle");
    const struct accel_batch_sampler *batches = options->batch_sampler;
    if (options->split_batches && options->without_split_batches)
        return accel_fail (err, ACCEL_ERR_INVALID, "split_batches cannot be combined with without_split_batches");
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
    if (!batches->batch_size && (options->split_batches || options->dispatch_batches == ACCEL_DISPATCH_YES))
        return accel_fail (err, ACCEL_ERR_INVALID, "batches of varying size can be neither split nor dispatched");
    return ACCEL_OK;
}

/* Where the order comes from: the program's sampler, or what `shuffle` says. */
static enum accel_status
make_sampler (struct accel_loader *loader, struct accel_error *err)
{
    const struct accel_loader_options *options = &loader->options;
    struct accel_random_options random = { .generator = options->generator };
    loader->sampler = options->sampler;
    if (options->sampler || options->batch_sampler)
        return ACCEL_OK;
    loader->owns_sampler = true;
    bool draws = (options->shuffle || options->random_sampler) && loader->samples;
    if (draws && options->random_sampler)
        return accel_sampler_random (&loader->sampler, loader->samples, &random, err);
    if (draws)
        return accel_sampler_seedable (&loader->sampler, loader->samples, options->seed, &random, err);
    return accel_sampler_sequential (&loader->sampler, loader->samples, err);
}

void
loader_shape_sampler (const struct accel_loader *loader)
{
    size_t parts = loader->options.split_batches ? loader->processes : 1;
    if (loader->sampler)
        sampler_set_shape (loader->sampler, loader->options.batch_size / parts, loader->processes);
}

/* The length of the order, which is known before it is. */
static size_t
order_length (const struct accel_loader *loader)
{
    const struct accel_batch_sampler *batches = loader->options.batch_sampler;
    if (!batches) {
        loader_shape_sampler (loader);
        return loader->stream ? loader->samples : accel_sampler_length (loader->sampler);
    }
    return batches->batch_size ? batches->batch_size * batches->length : batches->length;
}

bool
loader_is_even (const struct accel_loader *loader)
{
    return loader->join_even ? loader->join_even == ACCEL_JOIN_EVEN : !loader->options.uneven;
}

void
loader_set_join (struct accel_loader *loader, enum accel_join_even even)
{
    if (!loader->dispatching)
        loader->join_even = even;
}

/* What the loader says comes first, then what the job says. */
static void
choose_split (struct accel_loader *loader, const struct accel *acc)
{
    struct accel_loader_options *options = &loader->options;
    options->split_batches = loader->split_given || (accel_split_batches (acc) && !options->without_split_batches);
}

/* One process, until accel_prepare() says otherwise. */
static enum accel_status
set_up_share (struct accel_loader *loader, struct accel_error *err)
{
    struct accel_loader_options *options = &loader->options;
    const struct accel_batch_sampler *batches = options->batch_sampler;
    size_t size = batches ? batches->batch_size ? batches->batch_size : 1 : options->batch_size, all;
    size_t parts = loader->dispatching ? 1 : loader->processes;
    if (options->split_batches && batches && !batches->batch_size)
        return accel_fail (err, ACCEL_ERR_INVALID, "batches of varying size cannot be split; set without_split_batches "
                           "for this loader");
    if (options->split_batches && size % loader->processes)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "split_batches: batch_size %zu is not a multiple of the number of processes, %zu", size,
                           loader->processes);
    if (__builtin_mul_overflow (size, loader->processes, &all) || all > PTRDIFF_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu samples for each of %zu processes are too many: size overflows",
                           size, loader->processes);
    loader->row_capacity = batches && !batches->batch_size ? batches->most
                           : options->split_batches && !loader->dispatching ? size / loader->processes
                                                                            : size;
    loader->shard = (struct shard){
        .samples = order_length (loader),
        .batch_size = options->split_batches && !loader->dispatching ? size / loader->processes : size,
        .processes = parts,
        .process = loader->dispatching ? 0 : loader->process,
        .drop_last = options->drop_last || (batches && batches->drop_last),
        .even = loader_is_even (loader),
    };
    options->drop_last = loader->shard.drop_last;
    return ACCEL_OK;
}

/* The object is the first member. */
static void
end_loader (struct object *object)
{
    struct accel_loader *loader = (struct accel_loader *) (void *) object;
    if (object->owner)
        comm_abandon (accel_world (object->owner), loader);
    pass_end (loader);
    pass_release (loader);
    state_remove_prepared (&loader->object);
    if (loader->owns_sampler)
        accel_sampler_destroy (loader->sampler);
    else if (loader->sampler && loader->persistent)
        sampler_set_generator (loader->sampler, NULL);
    accel_generator_destroy (loader->persistent);
    if (loader->abandoned)
        object_hold (object); /* for ever: its order may be in use as well */
    else
        order_release (&loader->order);
}

static enum accel_status
make (struct accel_loader **loader, const struct accel_dataset *dataset, const struct accel_stream *stream,
      const struct accel_loader_options *options, struct accel_error *err)
{
    struct accel_loader *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a loader");
    made->object = (struct object) OBJECT_INIT (OBJECT_LOADER, end_loader);
    made->dataset = dataset;
    made->stream = stream;
    made->fields = dataset ? dataset->fields : stream->fields;
    made->field_count = dataset ? dataset->field_count : stream->field_count;
    made->samples = dataset ? dataset->size : stream->size;
    if (options)
        made->options = *options;
    made->split_given = made->options.split_batches;
    if (!made->options.batch_size && !made->options.batch_sampler)
        made->options.batch_size = 1;
    made->processes = 1;
    made->dispatching = made->options.dispatch_batches == ACCEL_DISPATCH_YES;
    enum accel_status status = dataset ? make_sampler (made, err) : ACCEL_OK;
    if (!status)
        status = set_up_share (made, err);
    if (!status) /* so that memory which is not there is missed now, and not in the middle of a training */
        status = pass_init (made, err);
    if (status)
        accel_loader_destroy (made);
    else
        *loader = made;
    return status;
}

static const struct accel_loader_options no_options;

enum accel_status
accel_loader_create (struct accel_loader **loader, const struct accel_dataset *dataset,
                     const struct accel_loader_options *options, struct accel_error *err)
{
    if (!loader)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: loader is NULL", __func__);
    *loader = NULL;
    if (!dataset || !(dataset->read || dataset->read_many || (options && options->collate)))
        return accel_fail (err, ACCEL_ERR_INVALID, "a loader needs a data set with a read function");
    if (dataset->size > PTRDIFF_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID, "a data set of %zu samples is too large for its indices",
                           dataset->size);
    enum accel_status status = batch_check_fields (dataset->fields, dataset->field_count, err);
    if (!status)
        status = check_options (options ? options : &no_options, false, err);
    return status ? status : make (loader, dataset, NULL, options, err);
}

enum accel_status
accel_loader_create_stream (struct accel_loader **loader, const struct accel_stream *stream,
                            const struct accel_loader_options *options, struct accel_error *err)
{
    if (!loader)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: loader is NULL", __func__);
    *loader = NULL;
    if (!stream || !stream->next)
        return accel_fail (err, ACCEL_ERR_INVALID, "a loader needs a stream with a next function");
    enum accel_status status = batch_check_fields (stream->fields, stream->field_count, err);
    if (!status)
        status = check_options (options ? options : &no_options, true, err);
    return status ? status : make (loader, NULL, stream, options, err);
}

void
accel_loader_destroy (struct accel_loader *loader)
{
    object_destroy (loader ? &loader->object : NULL);
}

/* A RandomSampler that several processes share draws from one generator, which is made now and agreed on at the
 * beginning of each epoch. */
static enum accel_status
make_persistent (struct accel_loader *loader, struct accel_error *err)
{
    if (loader->processes == 1 || loader->dispatching || !loader->sampler || !sampler_wants_generator (loader->sampler))
        return ACCEL_OK;
    uint64_t seed = (uint64_t) accel_generator_random (accel_default_generator ());
    enum accel_status status = accel_generator_create (&loader->persistent, seed, err);
    if (!status)
        sampler_set_generator (loader->sampler, loader->persistent);
    return status;
}

enum accel_status
loader_share (struct accel_loader *loader, struct accel *acc, size_t processes, size_t process,
              struct accel_error *err)
{
    enum accel_dispatch dispatch = loader->options.dispatch_batches;
    bool old_dispatching = loader->dispatching;
    choose_split (loader, acc);
    loader->processes = processes;
    loader->process = process;
    loader->dispatching = dispatch == ACCEL_DISPATCH_YES
                          || (dispatch == ACCEL_DISPATCH_AUTO && loader->stream && loader->processes > 1);
    enum accel_status status = set_up_share (loader, err);
    if (!status)
        status = make_persistent (loader, err);
    if (!status) {
        pass_release (loader);
        loader->object.owner = acc;
        status = pass_init (loader, err);
    }
    if (status) { /* as it was */
        loader->processes = 1;
        loader->process = 0;
        loader->dispatching = old_dispatching;
        loader->object.owner = NULL;
        choose_split (loader, NULL);
        (void) set_up_share (loader, NULL);
    }
    return status;
}

enum accel_status
loader_prepare (struct accel_loader *loader, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    choose_split (loader, acc);
    enum accel_status status = loader_compare (loader, accel_world (acc), site, err);
    if (!status && loader->running)
        status = accel_fail (err, ACCEL_ERR_INVALID, "cannot prepare a loader in the middle of an epoch");
    if (!status)
        return loader_share (loader, acc, (size_t) accel_num_processes (acc), (size_t) accel_process_index (acc), err);
    choose_split (loader, NULL);
    return status;
}

enum accel_status
loader_release (struct accel_loader *loader, struct accel_error *err)
{
    if (loader->object.owner)
        comm_abandon (accel_world (loader->object.owner), loader);
    pass_end (loader);
    enum accel_status status = loader_share (loader, NULL, 1, 0, err);
    if (loader->persistent && loader->sampler)
        sampler_set_generator (loader->sampler, NULL);
    accel_generator_destroy (loader->persistent);
    loader->persistent = NULL;
    return status;
}

/* A process that has no batch where its peers have one leaves them waiting.  It may ask again; where it does anything
 * else its peers are told why.  There is no point in asking a thread that hangs. */
static void
tell_peers (struct accel_loader *loader, const struct accel_error *cause)
{
    if (!loader->object.owner || loader->processes == 1 || loader->dispatching)
        return;
    if (cause->code == ACCEL_ERR_TIMEOUT)
        comm_give_up (accel_world (loader->object.owner), cause->text);
    else
        comm_unsettle (accel_world (loader->object.owner), loader, cause->text);
}

static void
settle (struct accel_loader *loader)
{
    if (loader->object.owner)
        comm_settle (accel_world (loader->object.owner), loader);
}

/* An epoch without batches counts too, unlike the original's: ranks that have none stay with those that have some. */
static bool
finish_pass (struct accel_loader *loader)
{
    loader->epoch++;
    pass_end (loader);
    return false;
}

static bool
next_batch (struct accel_loader *loader, const struct comm_site *site, const struct accel_batch **batch,
            struct accel_error *err)
{
    struct accel_batch *got = NULL;
    bool is_last = true;
    enum accel_status status = ACCEL_OK;
    if (!loader->reader && loader_reads (loader)) /* where accel_prepare() could not make one */
        status = pass_init (loader, err);
    if (!status && !loader->running) /* a loader that shared its sampler's generator may have taken it along */
        status = make_persistent (loader, err);
    if (!status && !loader->running)
        status = pass_begin (loader, site, err);
    if (!status && loader->at_end)
        return finish_pass (loader);
    if (!status && loader->dispatching)
        status = dispatch_next (loader, site, &got, &is_last, err);
    else if (!status)
        status = pass_read (loader, &got, &is_last, err);
    if (status)
        return false;
    if (!got)
        return finish_pass (loader);
    if (is_last && loader->stream && !loader->dispatching)
        loader->stream_remainder = loader->cursor.tail;
    loader->next++;
    loader->at_end = is_last;
    loader->given = *got;
    *batch = &loader->given;
    return true;
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
    if (loader->object.owner && loader->processes > 1 && !loader->dispatching)
        note = comm_note_begin (accel_world (loader->object.owner), &site, loader->next);
    struct object *job = object_of_job (loader->object.owner);
    object_pin (job); /* reading calls functions of the program */
    object_pin (&loader->object);
    bool more = next_batch (loader, &site, batch, err), loader_gone = object_is_gone (&loader->object);
    if (loader_gone || (job && object_is_gone (job))) {
        more = false;
        *batch = NULL;
        accel_fail (err, ACCEL_ERR_CALLBACK, "accel_loader_next: a function called while reading destroyed the %s",
                    loader_gone ? "loader" : "job");
    }
    comm_note_end (accel_world (loader->object.owner), note);
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
    if (!loader || !(loader->running || loader->agreed)) /* what the next pass is to begin behind stays */
        return;
    settle (loader);
    loader->epoch++;
    pass_end (loader);
}

void
accel_loader_set_epoch (struct accel_loader *loader, uint64_t epoch)
{
    if (!loader)
        return;
    /* What the next pass is to begin behind stays, but that a state's position is one of its own epoch. */
    settle (loader);
    if (loader->running || loader->agreed || (loader->resumed && epoch != loader->epoch))
        pass_end (loader);
    loader->epoch = epoch;
}

uint64_t
accel_loader_epoch (const struct accel_loader *loader)
{
    return loader ? loader->epoch : 0;
}

size_t
accel_loader_total_batch_size (const struct accel_loader *loader)
{
    if (!loader)
        return 0;
    size_t parts = loader->dispatching && loader->options.split_batches ? 1 : loader->processes;
    return loader->shard.batch_size * parts;
}

/* The length of a dispatched epoch, or a stream's: rounds of all processes. */
static size_t
count_rounds (const struct accel_loader *loader, size_t samples)
{
    size_t round = accel_loader_total_batch_size (loader);
    return samples / round + (samples % round && !loader->options.drop_last);
}

size_t
accel_loader_length (const struct accel_loader *loader)
{
    if (!loader)
        return 0;
    if (loader->stream && !loader->stream->size)
        return ACCEL_LENGTH_UNKNOWN;
    if (loader->stream || loader->dispatching)
        return count_rounds (loader, order_length (loader));
    struct shard whole = loader->shard;
    whole.start = 0;
    whole.even = loader_is_even (loader);
    return shard_length (&whole);
}

bool
loader_splits_batches (const struct accel_loader *loader)
{
    return loader->options.split_batches;
}

bool
accel_loader_end_of_dataloader (const struct accel_loader *loader)
{
    return loader && loader->at_end;
}

size_t
accel_loader_remainder (const struct accel_loader *loader)
{
    if (!loader)
        return 0;
    if (loader->stream || loader->dispatching)
        return loader->stream_remainder;
    if (loader->options.batch_sampler && !loader->options.batch_sampler->batch_size)
        return 0; /* whole batches are repeated, and nobody says of what size */
    return shard_remainder (&loader->shard);
}
