/* SPDX-License-Identifier: Apache-2.0 */
/* Filling struct accel_error.  The code is in src/files, which the command links without the library. */
#ifndef LIB_BASE_ERROR_H
#define LIB_BASE_ERROR_H

#include "files/error.h"

#endif
