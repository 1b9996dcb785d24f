/* SPDX-License-Identifier: Apache-2.0 */
/* The process at the other end of a local socket, as the kernel knows it: the other side cannot forge it. */
#ifndef UTIL_PEER_H
#define UTIL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer {
    pid_t pid; /* 0: in a pid namespace that we cannot see */
    uid_t uid; /* effective */
};

/** Of a connected socket: at the connecting end, the process that called listen(), else the one that called connect().
 *  @return false if the kernel does not say */
bool peer_of (int fd, struct peer *peer);

/**
 * "user 1000, pid 4711 (accelerate launch train.py)".
 *
 * The command comes from /proc and was chosen by the other side, so it is cut after some 100 bytes, passwords in
 * addresses are hidden, and whatever is not printable ASCII becomes '?'.
 *
 * @param user  the user's name, or NULL for the number
 */
void peer_describe (const struct peer *peer, const char *user, char *text, size_t size);

#endif
