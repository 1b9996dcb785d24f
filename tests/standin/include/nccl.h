/* SPDX-License-Identifier: Apache-2.0 */
/* For machines without NCCL: the part of its interface that src/engines/nccl uses, which the stand-in has.  Where
 * NVIDIA's header is, both are compiled with it, too, which shows whether it agrees. */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include <cuda_runtime_api.h>
#include <limits.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 19
#define NCCL_PATCH 3
#define NCCL_VERSION(X, Y, Z) ((X) *10000 + (Y) *100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION (NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_CONFIG_UNDEF_INT INT_MIN

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 } ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
#ifdef __CUDA_BF16_TYPES_EXIST__ /* as in NVIDIA's of this version */
    ncclBfloat16 = 9,
#endif
    ncclNumTypes
} ncclDataType_t;

typedef struct ncclConfig {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char *netName;
    int splitShare;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                                    \
    {                                                                                                              \
        sizeof (ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN \
    }

ncclResult_t ncclGetVersion (int *version);
ncclResult_t ncclGetUniqueId (ncclUniqueId *id);
const char *ncclGetErrorString (ncclResult_t result);
const char *ncclGetLastError (ncclComm_t comm);
ncclResult_t ncclCommInitRankConfig (ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommSplit (ncclComm_t comm, int colour, int key, ncclComm_t *child, ncclConfig_t *config);
ncclResult_t ncclCommFinalize (ncclComm_t comm);
ncclResult_t ncclCommDestroy (ncclComm_t comm);
ncclResult_t ncclCommAbort (ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclCommRegister (const ncclComm_t comm, void *buffer, size_t bytes, void **handle);
ncclResult_t ncclCommDeregister (const ncclComm_t comm, void *handle);
ncclResult_t ncclMemAlloc (void **memory, size_t bytes);
ncclResult_t ncclMemFree (void *memory);
ncclResult_t ncclGroupStart (void);
ncclResult_t ncclGroupEnd (void);
ncclResult_t ncclAllReduce (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast (const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t ncclReduceScatter (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t ncclRecv (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

#endif
