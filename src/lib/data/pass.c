/* SPDX-License-Identifier: Apache-2.0 */
/* One pass through the data: memory and threads, the beginning and the end. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/active.h"
#include "lib/data/device_batches.h"
#include "lib/data/loader_object.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"

enum { DEFAULT_PREFETCH = 2 };

uint32_t
pass_timeout (const struct accel_loader *loader)
{
    return loader->options.timeout_ms ? loader->options.timeout_ms : DEFAULT_TIMEOUT_MS;
}

/* A stream is read by one thread, as far ahead as all would.  Collate functions get ordinary memory, which threads can
 * make larger. */
enum accel_status
pass_make_reader (struct accel_loader *loader, struct accel *acc, struct accel_error *err)
{
    const struct accel_loader_options *options = &loader->options;
    size_t threads = options->reader == ACCEL_READER_CALLER ? 0 : options->workers;
    size_t ahead = options->prefetch ? options->prefetch : DEFAULT_PREFETCH;
    struct batch_home home = { .acc = options->collate ? NULL : acc, .device = { .device_type = kDLCPU } };
    if (acc && loader->device_batches) /* what is read is copied from there */
        home = (struct batch_home){ .pins = memory_of (acc->device), .device = acc->device };
    if (loader->data->is_serial && threads) {
        ahead *= threads;
        threads = 1;
    }
    return reader_create (&loader->reader, threads, ahead, loader->fields, loader->field_count,
                          loader->share.row_capacity, &home, err);
}

enum accel_status
pass_check_idle (const struct accel_loader *loader, struct accel_error *err)
{
    if (reader_is_orphan (loader->reader))
        return reader_fail_orphan (err);
    return loader->reader->broken ? accel_fail (err, ACCEL_ERR_TIMEOUT,
                                                "the data set is still reading a sample of the last pass")
                                  : ACCEL_OK;
}

void
pass_read (struct accel_loader *loader, size_t first, size_t length)
{
    struct reader_source source = {
        .fill = loader->data->fill,
        .user = loader,
        .serial = loader->data->is_serial,
        .length = length,
        .only_threads = loader->options.reader == ACCEL_READER_THREADS || loader->options.timeout_ms,
    };
    reader_start (loader->reader, &source, first);
}

enum accel_status
pass_init (struct accel_loader *loader, struct accel_error *err)
{
    if (loader->abandoned)
        return accel_fail (err, ACCEL_ERR_TIMEOUT, "the data set is still reading a sample of an earlier pass");
    struct accel *acc = loader->object.owner;
    loader->made = loader->source;
    enum accel_status status = device_batches_is_wanted (loader, acc) ? device_batches_init (loader, acc,
                                                                                             err) : ACCEL_OK;
    if (!status)
        status = loader->source->init (loader, acc, err);
    if (status)
        pass_release (loader);
    return status;
}

void
pass_release (struct accel_loader *loader)
{
    loader->pass.given = (struct accel_batch){ 0 };
    device_batches_release (loader);
    if (!reader_destroy (loader->reader, pass_timeout (loader)))
        loader->abandoned = true;
    loader->reader = NULL;
    if (loader->made && loader->made->release)
        loader->made->release (loader);
    loader->made = NULL;
}

enum accel_status
pass_begin (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err)
{
    struct pass *pass = &loader->pass;
    enum accel_status status = pass->agreed ? ACCEL_OK : drawing_agree (loader, site, err);
    pass->agreed = !status;
    loader->position.remainder = 0;
    if (!status)
        status = drawing_try (loader, loader->source->begin, err);
    if (status)
        return status;
    pass->running = true;
    if (loader->object.owner) {
        pass->outer = loader_active (loader->object.owner);
        loader_set_active (loader->object.owner, loader);
    }
    return ACCEL_OK;
}

/* Leave the chain of running loaders, wherever in it we are: loops can be left in any order. */
static void
leave (struct accel_loader *loader, struct accel *acc)
{
    struct accel_loader *inner = loader_active (acc);
    if (inner == loader)
        loader_set_active (acc, loader->pass.outer);
    while (inner && inner->pass.outer != loader)
        inner = inner->pass.outer;
    if (inner)
        inner->pass.outer = loader->pass.outer;
    loader->pass.outer = NULL;
}

void
pass_end (struct accel_loader *loader)
{
    struct pass *pass = &loader->pass;
    if (pass->running && loader->object.owner)
        leave (loader, loader->object.owner);
    device_batches_stop (loader);
    if (loader->reader)
        reader_stop (loader->reader, pass_timeout (loader));
    pass->running = pass->at_end = pass->agreed = false;
    pass->next = 0;
    loader->position.resumed = loader->position.base_seed_drawn = false;
    loader->position.start = 0;
    loader->position.order = 0;
}
