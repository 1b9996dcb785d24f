/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a given time for a stream.  spin.cu has the kernel; what a launch complains of is in cudaGetLastError(). */
#ifndef BENCH_GPU_SPIN_H
#define BENCH_GPU_SPIN_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
#endif
    void
    spin (cudaStream_t stream, int64_t ns);

#endif
