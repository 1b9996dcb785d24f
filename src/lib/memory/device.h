/* SPDX-License-Identifier: Apache-2.0 */
/* Code for GPUs is a module, accel_device_cuda.so in an engine folder, which is loaded when something is on a GPU or
 * may be put there.  Nothing of CUDA is linked into libaccel. */
#ifndef LIB_MEMORY_DEVICE_H
#define LIB_MEMORY_DEVICE_H

#include <accel/tensor.h>

struct memory;

/** What the module needs of libaccel. */
struct device_helpers {
    __attribute__ ((format (printf, 3, 4))) enum accel_status (*fail) (struct accel_error *err,
                                                                       enum accel_status status, const char *format,
                                                                       ...);
};

/** The module's one symbol, DEVICE_SYMBOL.  It is part of this release: any other is refused. */
struct device_module {
    const char *release;  /* PACKAGE_VERSION */
    uint32_t memory_size; /* of struct memory */
    const struct memory *memory;
    /** Choose a GPU for a process, of those that it sees.
     *  @param[out] device  set even where that one cannot be used; left alone if there is none
     *  @retval ACCEL_ERR_UNSUPPORTED  there is none
     *  @retval ACCEL_ERR_SYSTEM       there may be one, but it cannot be used */
    enum accel_status (*choose) (const struct device_helpers *helpers, int local_rank, int *device,
                                 struct accel_error *err);
};
#define DEVICE_SYMBOL "accel_device"

/** @return the table of functions for GPUs; NULL: there is none, and device_refusal() says why.  Searched once. */
const struct memory *device_memory (void);
const char *device_refusal (void);
/** @return the device that a process computes on: a GPU if there is one for it, unless @p cpu.
 *  @param[out] why  a module that is installed, or the GPU, cannot be used, which users should know; "": it can, or
 *                   there is none */
DLDevice device_choose (int local_rank, bool cpu, char why[ACCEL_ERROR_TEXT_SIZE]);

#endif
