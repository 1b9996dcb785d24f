/* SPDX-License-Identifier: Apache-2.0 */
/* Where a program called, and what: every message about a public call begins with it. */
#ifndef LIB_BASE_SITE_H
#define LIB_BASE_SITE_H

#include <accel/tensor.h>

#include "lib/base/tensor.h"
#include "util/jobseg.h"

struct accel_work;

/** What ranks compare beside count, element type, operation and root: the shape of a tensor, and one more argument. */
struct comm_form {
    const DLTensor *tensor; /* whose sizes; NULL: none */
    enum comm_argument { COMM_NO_ARGUMENT, COMM_SCALE, COMM_DIM } argument;
    double value; /* of the argument */
};

/** Where a program called, and what. */
struct comm_site {
    const char *file; /* a literal: only the address is kept */
    int line;
    enum jobseg_call call;
    const struct comm_form *form; /* NULL: nothing else has to agree */
    struct accel_work **work;     /* where a call that does not block leaves its work; NULL: it blocks */
    DLDevice device;              /* where its buffers are; all 0: in host memory of any kind */
    void *stream;                 /* there; NULL: the device's */
    const char *const *names;     /* [2] of comm_place(): what the function calls its buffers; NULL: send and recv */
};

/** In a function that ends in _at: where and what it was called.  Valid until that function returns. */
#define SITE(public_call) (&(struct comm_site){ .file = file, .line = line, .call = JOBSEG_CALL_##public_call })

/** @return whether the buffers of the call are in the host's memory. */
static inline bool
comm_is_for_host (const struct comm_site *site)
{
    return __builtin_expect (!site->device.device_type, true);
}

/** @return @p device for a site. */
static inline DLDevice
comm_site_device (DLDevice device)
{
    return tensor_device_is_host (device) ? (DLDevice){ 0 } : device;
}

/** @return 32 bits that differ if forms do; 0 for NULL. */
uint32_t comm_form_hash (const struct comm_form *form);

/** @return @p site with @p form, which has to live as long, for buffers on the device of its tensor. */
static inline struct comm_site
comm_site_of (const struct comm_site *site, const struct comm_form *form)
{
    return (struct comm_site){ .file = site->file, .line = site->line, .call = site->call, .form = form,
                               .device = form->tensor ? comm_site_device (form->tensor->device) : (DLDevice){ 0 } };
}

/** @return @p site for buffers on @p device. */
static inline struct comm_site
comm_site_on (const struct comm_site *site, DLDevice device)
{
    return (struct comm_site){ .file = site->file, .line = site->line, .call = site->call,
                               .device = comm_site_device (device) };
}

/** Fail with the call and where it is before the rest of the text. */
enum accel_status comm_fail (const struct comm_site *site, enum accel_status status, struct accel_error *err,
                             const char *format, ...) ACCEL_PRINTF (4, 5);

/** ACCEL_ERR_INVALID with the same before @p what. */
enum accel_status comm_refuse (const struct comm_site *site, const char *what, struct accel_error *err);

/** ACCEL_ERR_NOMEM. */
enum accel_status comm_no_memory (const struct comm_site *site, struct accel_error *err);

/** Put the call and where it is before the text of @p err.  @return @p status */
enum accel_status comm_fail_in (const struct comm_site *site, enum accel_status status, struct accel_error *err);

#endif
