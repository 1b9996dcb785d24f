/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's driver tells in /proc. */
#ifndef LAUNCH_MACHINE_TOPOLOGY_NVIDIA_H
#define LAUNCH_MACHINE_TOPOLOGY_NVIDIA_H

#include <stdbool.h>

/** Whether there are several GPUs, cards of the RTX 40 series among them, with a driver before 550.40.07: NCCL hangs
 *  there unless it is told to leave P2P and InfiniBand alone.
 *  @param root  what the paths begin with: "" but in tests */
bool topology_lacks_p2p (const char *root);

#endif
