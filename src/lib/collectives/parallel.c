/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of a job with tensor parallelism, and parts of tensors that are joined and cut; see accel/parallel.h. */
#include <config.h>

#include "lib/collectives/parallel.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/collectives/tensors.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"
#include "util/envnames.h"
#include "util/parse.h"

#include <stdlib.h>

/* ---- the grid ---- */

enum { MOST_PROCESSES = 1000000 }; /* of a dimension, as for the launcher: so their product does not overflow */

struct parallel {
    struct part part;
    int64_t tp_size, dp_size; /* dp_size 0: what is left */
    struct accel_mesh *mesh;  /* NULL: tp_size is 1 */
};

static struct parallel *
parallel_of (const struct accel *acc)
{
    return (struct parallel *) (void *) part_find (acc, &part_parallel);
}

static enum accel_status
read_size (const char *name, int64_t *size, struct accel_error *err)
{
    const char *text = getenv (name);
    *size = 1;
    if (text && parse_int64 (text, 1, MOST_PROCESSES, size) != PARSE_OK)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: %s='%.40s' is not a number of processes from 1 to %d",
                           name, text, MOST_PROCESSES);
    return ACCEL_OK;
}

/* What `accelerate launch` makes of a parallelism_config.  The program's own tp_size replaces that one, as each size
 * does in Accelerate. */
static enum accel_status
read_environment (struct parallel *parallel, struct accel_error *err)
{
    static const char *const others[] = { ENV_PARALLELISM_CP_SIZE, ENV_PARALLELISM_SP_SIZE };
    bool is_on = false;
    int64_t replicas, shards, other;
    const char *text = getenv (ENV_USE_PARALLELISM);
    if (!text || parse_bool (text, &is_on) != PARSE_OK || !is_on)
        return ACCEL_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        enum accel_status status = read_size (others[i], &other, err);
        if (!status && other > 1)
            status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "environment: %s is %d, but libaccel divides only data "
                                 "and tensors: set it to 1", others[i], (int) other);
        if (status)
            return status;
    }
    enum accel_status status = ACCEL_OK;
    if (!parallel->tp_size)
        status = read_size (ENV_PARALLELISM_TP_SIZE, &parallel->tp_size, err);
    if (!status)
        status = read_size (ENV_PARALLELISM_DP_REPLICATE_SIZE, &replicas, err);
    if (!status)
        status = read_size (ENV_PARALLELISM_DP_SHARD_SIZE, &shards, err);
    if (!status)
        parallel->dp_size = replicas * shards > 1 ? replicas * shards : 0;
    return status;
}

static enum accel_status
open_parallel (struct part *part, const struct accel_options *options, struct accel_error *err)
{
    struct parallel *parallel = (struct parallel *) (void *) part;
    const uint64_t own = options ? options->tp_size : 0;
    parallel->tp_size = own > INT32_MAX ? INT32_MAX : (int64_t) own;
    enum accel_status status = read_environment (parallel, err);
    if (!parallel->tp_size)
        parallel->tp_size = 1;
    return status;
}

static void
close_parallel (struct part *part)
{
    struct parallel *parallel = (struct parallel *) (void *) part;
    accel_mesh_destroy (parallel->mesh);
    parallel->mesh = NULL;
}

const struct part_kind part_parallel
    = { .size_bytes = sizeof (struct parallel), .open = open_parallel, .close = close_parallel };

enum accel_status
parallel_connect (struct accel *acc, struct accel_error *err)
{
    static const char *const names[] = { "dp", "tp" };
    struct parallel *parallel = parallel_of (acc);
    int size = accel_num_processes (acc), tp = (int) parallel->tp_size;
    if (size % tp)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_open: tp_size is %d, but does not divide the number of "
                           "processes, %d", tp, size);
    if (parallel->dp_size && parallel->dp_size * tp != size)
        return accel_fail (err, ACCEL_ERR_INVALID, "environment: the sizes of the parallelism_config and tp_size "
                           "%d make %lld processes, but the job has %d", tp, (long long) parallel->dp_size * tp, size);
    return tp == 1 ? ACCEL_OK
                   : accel_mesh_create (&parallel->mesh, acc, names, ((const int[]){ size / tp, tp }), 2, err);
}

const struct accel_mesh *
accel_device_mesh (const struct accel *acc)
{
    return acc ? parallel_of (acc)->mesh : NULL;
}

struct accel_comm *
parallel_data_comm (struct accel *acc)
{
    const struct accel_mesh *mesh = accel_device_mesh (acc);
    return mesh ? accel_mesh_comm (mesh, "dp") : accel_world (acc);
}

int
parallel_data_size (const struct accel *acc)
{
    return accel_num_processes (acc) / (int) parallel_of (acc)->tp_size;
}

int
parallel_data_rank (const struct accel *acc)
{
    return accel_process_index (acc) / (int) parallel_of (acc)->tp_size;
}

struct accel_comm *
parallel_tensor_comm (const struct accel *acc)
{
    return accel_mesh_comm (accel_device_mesh (acc), "tp");
}

/* ---- parts of tensors ---- */

/* The part of a process in the whole tensor, and the same as a tensor that has only it.  Both have two dimensions. */
struct cut {
    int64_t shape[2], strides[2];
    DLTensor part, place;
};

/* @function: of the program's call.  @rank: whose part */
static enum accel_status
make_cut (struct cut *cut, const char *function, const DLTensor *whole, const DLTensor *part, int dim, int size,
          int rank, struct accel_error *err)
{
    if (!whole || !part)
        return accel_fail_null (err, function, whole ? "from" : "to");
    bool fits = whole->ndim == part->ndim && dim >= 0 && dim < part->ndim && tensor_same_dtype (whole, part)
                && memory_is_same (whole->device, part->device) && memory_of (part->device)
                && tensor_is_contiguous (whole) && tensor_is_contiguous (part);
    for (int d = 0; fits && d < part->ndim; d++)
        fits = whole->shape[d] == part->shape[d] * (d == dim ? size : 1);
    if (!fits)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the tensors are not a whole and its part, one of %d, along "
                           "dimension %d, contiguous, on one device and of one type", function, size, dim);
    if (accel_tensor_count (part) && (!whole->data || !part->data))
        return accel_fail_null (err, function, "data");
    cut->shape[0] = cut->shape[1] = 1;
    for (int d = 0; d < part->ndim; d++)
        cut->shape[d >= dim] *= part->shape[d];
    cut->strides[0] = cut->shape[1] * size;
    cut->strides[1] = 1;
    cut->part = *part;
    cut->part.ndim = 2;
    cut->part.shape = cut->shape;
    cut->part.strides = NULL;
    cut->place = cut->part;
    cut->place.strides = cut->strides;
    cut->place.data = memory_at (memory_data (whole), (size_t) (cut->shape[1] * rank), tensor_element_bytes (whole));
    cut->place.byte_offset = 0;
    return ACCEL_OK;
}

enum accel_status
accel_parallel_gather_at (const char *file, int line, struct accel_comm *comm, const DLTensor *from, const DLTensor *to,
                          int dim, struct accel_error *err)
{
    const struct comm_site *site = SITE (PARALLEL_GATHER);
    int size = comm ? accel_comm_size (comm) : 1;
    struct cut cut;
    enum accel_status status = make_cut (&cut, "accel_parallel_gather", to, from, dim, size, 0, err);
    if (status)
        return status;
    const struct memory *memory = memory_of (from->device);
    struct comm_site there = comm_site_on (site, from->device);
    size_t count = accel_tensor_count (from), bytes = count * tensor_element_bytes (from);
    if (cut.shape[0] == 1 && comm) /* parts lie one after the other */
        return comm_all_gather (comm, &there, memory_data (from), memory_data (to), bytes, ACCEL_UINT8, err);
    void *all = comm ? memory->create (from->device, bytes * (size_t) size, false) : memory_data (from);
    if (comm && !all) {
        comm_give_up (comm, "cannot allocate memory to gather a tensor");
        return comm_no_memory (site, err);
    }
    if (comm)
        status = comm_all_gather (comm, &there, memory_data (from), all, bytes, ACCEL_UINT8, err);
    for (int rank = 0; rank < size && !status; rank++) {
        status = make_cut (&cut, "accel_parallel_gather", to, from, dim, size, rank, err);
        cut.part.data = memory_at (all, (size_t) rank, bytes);
        cut.part.byte_offset = 0;
        memory->copy_tensor (&cut.place, &cut.part);
    }
    if (comm)
        memory->destroy (from->device, all);
    return status ? status : memory_check (from->device, err);
}

enum accel_status
accel_parallel_scatter (const struct accel_comm *comm, const DLTensor *from, const DLTensor *to, int dim,
                        struct accel_error *err)
{
    struct cut cut;
    if (!from || !to)
        return accel_fail_null (err, __func__, from ? "to" : "from");
    enum accel_status status = make_cut (&cut, __func__, from, to, dim, comm ? accel_comm_size (comm) : 1,
                                         comm ? accel_comm_rank (comm) : 0, err);
    if (status)
        return status;
    memory_of (to->device)->copy_tensor (&cut.part, &cut.place);
    return memory_check (to->device, err);
}
