/* SPDX-License-Identifier: Apache-2.0 */
/* The process at the other end of a local socket, as the kernel knows it: the other side cannot forge it. */
#ifndef UTIL_PEER_H
#define UTIL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

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

/** The address of an abstract socket: it has a name instead of a file, so nothing is left behind.
 *  @return its length; 0: the name is too long */
socklen_t peer_address (struct sockaddr_un *address, const char *name);

/** Send one message, and descriptor @p fd with it; -1: none.  @param flags  as of sendmsg()  @return as sendmsg() */
ssize_t peer_send (int to, const void *bytes, size_t length, int fd, int flags);

/** Receive one without waiting.  @param[out] fd  what came with it, close-on-exec; -1: nothing
 *  @return as recvmsg(); -1 if it was longer, too */
ssize_t peer_receive (int from, void *bytes, size_t size, int *fd);

#endif
