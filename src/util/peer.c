/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a local socket, and descriptors through one; see peer.h. */
#include <config.h>

#include "util/peer.h"

#include "util/cleanup.h"
#include "util/printable.h"
#include "util/procfs.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COMMAND_BYTES = 100 };

bool
peer_of (int fd, struct peer *peer)
{
    struct ucred who;
    socklen_t length = sizeof who;
    if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &who, &length))
        return false;
    *peer = (struct peer){ .pid = who.pid, .uid = who.uid };
    return true;
}

/* @return the command line with blanks between the words; empty if it cannot be read.  To be freed, may be NULL */
static char *
read_command (pid_t pid)
{
    char text[COMMAND_BYTES + 2];
    AUTO_STRBUF struct strbuf command = { 0 };
    ssize_t length = pid > 0 ? procfs_read (pid, "cmdline", text, sizeof text) : 0;
    bool is_cut = length > COMMAND_BYTES;
    if (is_cut)
        length = COMMAND_BYTES;
    while (length > 0 && !text[length - 1])
        length--;
    for (ssize_t i = 0; i < length; i++)
        text[i] = !text[i] ? ' ' : text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    text[length > 0 ? length : 0] = '\0';
    text_hide_credentials (text, &command);
    if (is_cut)
        strbuf_add (&command, "...");
    return strbuf_take (&command);
}

void
peer_describe (const struct peer *peer, const char *user, char *text, size_t size)
{
    char number[24];
    AUTO_FREE char *command = read_command (peer->pid);
    snprintf (number, sizeof number, "%u", (unsigned) peer->uid);
    if (peer->pid <= 0)
        snprintf (text, size, "user %s, in another container", user ? user : number);
    else if (!command || !*command)
        snprintf (text, size, "user %s, pid %d", user ? user : number, (int) peer->pid);
    else
        snprintf (text, size, "user %s, pid %d (%s)", user ? user : number, (int) peer->pid, command);
}

socklen_t
peer_address (struct sockaddr_un *address, const char *name)
{
    size_t length = strlen (name);
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (length > sizeof address->sun_path - 1)
        return 0;
    memcpy (address->sun_path + 1, name, length);
    return (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + length);
}

/* Room for one descriptor. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (sizeof (int))];
};

ssize_t
peer_send (int to, const void *bytes, size_t length, int fd, int flags)
{
    union control control = { 0 };
    struct iovec part = { .iov_base = (void *) (uintptr_t) bytes, .iov_len = length };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN (sizeof fd), .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS };
        memcpy (CMSG_DATA (&control.header), &fd, sizeof fd);
    }
    return sendmsg (to, &message, MSG_NOSIGNAL | flags);
}

/* @return the descriptor that came; -1, and they are closed, if there are several. */
static int
only_descriptor (const struct cmsghdr *header)
{
    int fds[2] = { -1, -1 };
    size_t count = (header->cmsg_len - CMSG_LEN (0)) / sizeof *fds;
    if (count > 2) /* there is no room for more */
        count = 2;
    memcpy (fds, CMSG_DATA (header), count * sizeof *fds);
    for (size_t i = 0; count > 1 && i < count; i++)
        close (fds[i]);
    return count == 1 ? fds[0] : -1;
}

ssize_t
peer_receive (int from, void *bytes, size_t size, int *fd)
{
    union control control = { 0 };
    struct iovec part = { .iov_base = bytes, .iov_len = size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control.bytes };
    *fd = -1;
    ssize_t length = recvmsg (from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const struct cmsghdr *header = length > 0 ? CMSG_FIRSTHDR (&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        *fd = only_descriptor (header);
    return message.msg_flags & MSG_TRUNC ? -1 : length;
}
