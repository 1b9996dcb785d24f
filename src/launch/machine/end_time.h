/* SPDX-License-Identifier: Apache-2.0 */
/* When the scheduler takes this machine back. */
#ifndef LAUNCH_MACHINE_END_TIME_H
#define LAUNCH_MACHINE_END_TIME_H

#include <stdint.h>

/**
 * @param before_s  how many seconds before the end of this process's Slurm job
 * @return that time, of clock_ms(); 0: there is no such job, it has no end, or that time is over
 */
int64_t end_time_find (int64_t before_s);

#endif
