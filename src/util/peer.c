/* SPDX-License-Identifier: Apache-2.0 */
/* Names the owner of a local socket; see peer.h. */
#include <config.h>

#include "util/peer.h"

#include "util/cleanup.h"
#include "util/printable.h"
#include "util/procfs.h"

#include <stdio.h>
#include <sys/socket.h>

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
