/* SPDX-License-Identifier: Apache-2.0 */
/* Plain functions in place of macros that pass sizes: each calls its macro, with the sizes of this library. */
#include <config.h>

#include <accel/plain.h>

#define X(name, parameters, arguments) \
    enum accel_status(name) parameters \
    {                                  \
        return name arguments;         \
    }
ACCEL_PLAIN_MAP (X)
#undef X
