/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that the processes of a host share; see shared_parameters.h.  The first makes the file, and the others
 * open it through /proc, so it is gone when the last of them is. */
#include <config.h>

#include "lib/train/shared_parameters.h"

#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/comm_private.h"
#include "lib/state/state_object.h"
#include "util/cleanup.h"
#include "util/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

/* What the first process says of its file.  Its first cache line has the token: another host may have a file of the
 * same path. */
struct offer {
    uint64_t token, bytes;
    int32_t pid, fd; /* -1: there is none */
};

static size_t
bytes_of (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * tensor_element_bytes (tensor);
}

static size_t
room_of (const struct accel_model *model, size_t index)
{
    return (bytes_of (model->parameters[index].data) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* @return the first trained parameter in the memory of @index, which may be tied to it; the model's count: none */
static size_t
first_of (const struct accel_model *model, void *const *places, size_t index)
{
    size_t first = 0;
    while (first < model->count
           && (!model_is_trained (model, first) || places[first] != places[index]
               || bytes_of (model->parameters[first].data) != bytes_of (model->parameters[index].data)))
        first++;
    return first;
}

bool
shared_overlaps (const struct accel_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *a = model->parameters[i].data;
        for (size_t j = 0; j < model->count; j++) {
            const DLTensor *b = model->parameters[j].data;
            const char *begin = a->data, *other = b->data;
            bool is_same = begin == other && bytes_of (a) == bytes_of (b);
            if (model_is_trained (model, j) && !is_same && begin < other + bytes_of (b) && other < begin + bytes_of (a))
                return true;
        }
    }
    return false;
}

/* Reserved, because memory that is missing when it is touched is a signal. */
static int
make_file (size_t bytes)
{
    int fd = memfd_create ("accel-parameters", MFD_CLOEXEC), result = fd < 0;
    while (!result && (result = fallocate (fd, 0, 0, (off_t) bytes)) && errno == EINTR)
        result = 0;
    if (fd >= 0 && result) {
        close (fd);
        fd = -1;
    }
    return fd;
}

static void *
map (int fd, size_t bytes)
{
    struct stat info;
    if (fd < 0 || fstat (fd, &info) || (uint64_t) info.st_size != bytes)
        return NULL;
    void *memory = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* All processes of the job share, or none does: each column of the grid, and each group, has a communicator of its own,
 * and what the others do next depends on the answer.
 * @param[out] memory  NULL: the processes cannot share */
static enum accel_status
map_together (struct accel *acc, struct accel_comm *comm, const struct comm_site *site, bool may, size_t bytes,
              void **memory, struct accel_error *err)
{
    int rank = accel_comm_rank (comm);
    char path[64];
    struct offer offer = { .pid = (int32_t) getpid (), .bytes = bytes, .fd = -1 };
    AUTO_CLOSE int fd = rank ? -1 : make_file (bytes);
    uint64_t *mine = map (fd, bytes);
    if (mine && getrandom (&offer.token, sizeof offer.token, 0) == sizeof offer.token) {
        *mine = offer.token;
        offer.fd = fd;
    }
    *memory = NULL;
    enum accel_status status = comm_broadcast (comm, site, &offer, sizeof offer, ACCEL_UINT8, 0, err);
    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int) offer.pid, (int) offer.fd);
    if (!status && rank && offer.fd >= 0) {
        fd = open (path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        mine = map (fd, bytes);
    }
    int64_t good = may && mine && offer.fd >= 0 && *mine == offer.token, all = 0;
    if (!status)
        status = comm_all_reduce (accel_world (acc), site, &good, &all, 1, ACCEL_INT64, ACCEL_MIN, err);
    if (mine && (status || !all))
        munmap (mine, bytes);
    else
        *memory = mine;
    if (!status && !all)
        accel_logger_log (acc, ACCEL_LOG_INFO, "parameters are not shared: %s",
                          !may           ? "some overlap"
                          : offer.fd < 0 ? "there is not enough memory"
                          : good         ? "other processes cannot"
                                         : "the processes have no memory in common");
    return status;
}

/* The values of all that are moved go to the shared memory, or back to the program's. */
static void
copy_all (const struct accel_model *model, bool back)
{
    char *at = (char *) model->shared.memory + MEMORY_ALIGNMENT;
    for (size_t i = 0; i < model->count; i++) {
        if (first_of (model, model->shared.places, i) != i)
            continue;
        void *own = model->shared.places[i];
        model->memory->copy (model->device, back ? own : at, back ? at : own, bytes_of (model->parameters[i].data));
        at += room_of (model, i);
    }
}

/* The program's memory needs no room from now on. */
static void
move_all (struct accel_model *model)
{
    char *at = (char *) model->shared.memory + MEMORY_ALIGNMENT;
    for (size_t i = 0; i < model->count; i++) {
        if (first_of (model, model->shared.places, i) != i)
            continue;
        memory_discard_pages (model->shared.places[i], bytes_of (model->parameters[i].data));
        model->parameters[i].data->data = at;
        at += room_of (model, i);
    }
    for (size_t i = 0; i < model->count; i++) { /* what is tied stays tied, also if it is not trained */
        size_t first = first_of (model, model->shared.places, i);
        if (first < model->count)
            model->parameters[i].data->data = model->parameters[first].data->data;
    }
}

static void
release (struct shared_parameters *shared)
{
    if (shared->memory)
        munmap (shared->memory, shared->bytes);
    free (shared->places);
    *shared = (struct shared_parameters){ 0 };
}

/* @return the bytes of all that is to be moved; `places` are made */
static size_t
note_places (struct accel_model *model)
{
    struct shared_parameters *shared = &model->shared;
    size_t bytes = MEMORY_ALIGNMENT;
    shared->places = calloc (model->count, sizeof *shared->places);
    for (size_t i = 0; shared->places && i < model->count; i++)
        shared->places[i] = model->parameters[i].data->data;
    for (size_t i = 0; shared->places && i < model->count; i++)
        if (first_of (model, shared->places, i) == i)
            bytes += room_of (model, i);
    shared->bytes = bytes;
    return shared->places ? bytes : 0;
}

enum accel_status
shared_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct shared_parameters *shared = &model->shared;
    struct accel_comm *comm = sharding_comm (model, acc);
    size_t bytes = note_places (model);
    if (!bytes) {
        comm_give_up (accel_world (acc), "cannot allocate memory for the parameters of a model");
        return accel_fail_nomem (err);
    }
    enum accel_status status = map_together (acc, comm, site, !shared_overlaps (model), bytes, &shared->memory, err);
    if (status || !shared->memory) {
        release (shared);
        return status;
    }
    if (!model->sharding.rank)
        copy_all (model, false);
    status = comm_barrier (comm, site, err);
    if (status)
        release (shared);
    else
        move_all (model);
    return status;
}

enum accel_status
shared_begin_alone (struct accel_model *model, struct accel_error *err)
{
    struct shared_parameters *shared = &model->shared;
    size_t bytes = note_places (model);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = bytes ? mmap (NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        release (shared);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the parameters of a model (%zu bytes)",
                           bytes);
    }
    memory_use_small_pages (memory, bytes);
    shared->memory = memory;
    shared->is_alone = true;
    copy_all (model, false);
    move_all (model);
    return ACCEL_OK;
}

void
shared_end (struct accel_model *model)
{
    struct shared_parameters *shared = &model->shared;
    if (!shared->memory)
        return;
    copy_all (model, true);
    for (size_t i = 0; i < model->count; i++)
        model->parameters[i].data->data = shared->places[i];
    release (shared);
}
