/* SPDX-License-Identifier: Apache-2.0 */
/* All of libaccel.  */
#ifndef ACCEL_ACCEL_H
#define ACCEL_ACCEL_H

#include <accel/base.h>

#endif
