/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of libaccel as calls of NCCL.  Data that is only moved goes as bytes. */
#include <config.h>

#include "engines/nccl/nccl_private.h"

/* Of a type that is reduced. */
static ncclDataType_t
type_of (enum accel_dtype dtype)
{
#define X(name, type) [ACCEL_##name] = type,
    static const ncclDataType_t types[ACCEL_DTYPE_COUNT] = { REDUCED_TYPES (X) };
#undef X
    return types[dtype];
}

/* Of booleans, which are 0 or 1, a sum is whether any is true, and a product whether all are. */
static ncclRedOp_t
reduction_of (enum accel_op op, enum accel_dtype dtype)
{
    bool is_bool = dtype == ACCEL_BOOL;
    switch (op) {
    case ACCEL_AVG: return ncclAvg;
    case ACCEL_MIN: return ncclMin;
    case ACCEL_MAX: return ncclMax;
    case ACCEL_PROD: return is_bool ? ncclMin : ncclProd;
    default: return is_bool ? ncclMax : ncclSum;
    }
}

/* Of a call between GroupStart and GroupEnd, which may be in progress since an earlier one. */
static ncclResult_t
in_group (ncclResult_t result)
{
    return result == ncclInProgress ? ncclSuccess : result;
}

/* Between GroupStart and GroupEnd: without it, ranks that send to each other would wait for ever. */
static ncclResult_t
exchange_all (const struct communicator *comm, const struct accel_engine_call *call)
{
    size_t row = call->count * call->element_bytes;
    ncclResult_t result = nccl.GroupStart ();
    if (result)
        return result;
    for (int i = 1; !result && i < comm->size; i++) {
        int to = (comm->rank + i) % comm->size, from = (comm->rank + comm->size - i) % comm->size;
        result = in_group (nccl.Send ((const char *) call->send + (size_t) to * row, row, ncclUint8, to,
                                      comm->nccl_comm, comm->stream));
        if (!result)
            result = in_group (nccl.Recv ((char *) call->recv + (size_t) from * row, row, ncclUint8, from,
                                          comm->nccl_comm, comm->stream));
    }
    ncclResult_t end = nccl.GroupEnd ();
    return result ? result : end;
}

static ncclResult_t
all_to_all (const struct communicator *comm, const struct accel_engine_call *call)
{
    size_t row = call->count * call->element_bytes, own = (size_t) comm->rank * row;
    if (cudaMemcpyAsync ((char *) call->recv + own, (const char *) call->send + own, row, cudaMemcpyDeviceToDevice,
                         comm->stream))
        return ncclUnhandledCudaError;
    return exchange_all (comm, call);
}

/* A barrier has no buffers, so there is nothing to do on the GPU: it is not among the engine's kinds. */
static ncclResult_t
call_nccl (const struct communicator *comm, const struct accel_engine_call *call, const char **name)
{
    size_t bytes = call->count * call->element_bytes;
    ncclDataType_t type = type_of (call->dtype);
    ncclRedOp_t op = reduction_of (call->op, call->dtype);
    switch (call->kind) {
    case ACCEL_ENGINE_ALL_REDUCE:
        *name = "ncclAllReduce";
        return nccl.AllReduce (call->send, call->recv, call->count, type, op, comm->nccl_comm, comm->stream);
    case ACCEL_ENGINE_REDUCE_SCATTER:
        *name = "ncclReduceScatter";
        return nccl.ReduceScatter (call->send, call->recv, call->count, type, op, comm->nccl_comm, comm->stream);
    case ACCEL_ENGINE_ALL_GATHER:
        *name = "ncclAllGather";
        return nccl.AllGather (call->send, call->recv, bytes, ncclUint8, comm->nccl_comm, comm->stream);
    case ACCEL_ENGINE_BROADCAST:
        *name = "ncclBroadcast";
        return nccl.Broadcast (call->recv, call->recv, bytes, ncclUint8, call->root, comm->nccl_comm, comm->stream);
    case ACCEL_ENGINE_SEND:
        *name = "ncclSend";
        return nccl.Send (call->send, bytes, ncclUint8, call->root, comm->nccl_comm, comm->stream);
    case ACCEL_ENGINE_RECV:
        *name = "ncclRecv";
        return nccl.Recv (call->recv, bytes, ncclUint8, call->root, comm->nccl_comm, comm->stream);
    default: *name = "ncclGroupEnd"; return all_to_all (comm, call);
    }
}

static ncclResult_t
post_one (const struct operation *operation, const char **name)
{
    const struct communicator *comm = operation->comm;
    *name = "ncclCommSplit";
    if (operation->call)
        return operation->call->count ? call_nccl (comm, operation->call, name) : ncclSuccess;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return nccl.CommSplit (comm->nccl_comm, operation->color, operation->key, operation->child
                           ? &operation->child->nccl_comm : &engine.none, &config);
}

/* Of a group, all is queued by its end, as one.  No call in it has an order with another. */
ncclResult_t
operation_post (const struct operation *operation, const char **name)
{
    if (!operation->joins)
        return post_one (operation, name);
    *name = "ncclGroupStart";
    ncclResult_t result = nccl.GroupStart ();
    if (result)
        return result;
    for (const struct operation *next = operation; next && !result; operation = next) {
        result = in_group (post_one (operation, name));
        next = operation->joins ? operation->next : NULL;
    }
    ncclResult_t end = nccl.GroupEnd ();
    if (!result)
        *name = "ncclGroupEnd";
    return result ? result : end;
}
