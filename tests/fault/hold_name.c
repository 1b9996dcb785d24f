/* SPDX-License-Identifier: Apache-2.0 */
/* Takes abstract names of Unix sockets and keeps them, as a user might who wants to be in the way.
 *
 *   hold_name NAME stream|seqpacket listen|full|bind [FIRST LAST FREE]
 *
 * It says "ready" once it has the name, and never answers: with `full` it accepts no connection, with `bind` it
 * does not even listen.  With three numbers it takes NAME followed by each number from FIRST to LAST but FREE.  It ends
 * when its standard input does. */
#include <config.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int
hold (const char *name, const char *type_name, const char *how)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy (address.sun_path + 1, name, strlen (name));
    socklen_t length = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + strlen (name));
    int type = strcmp (type_name, "stream") ? SOCK_SEQPACKET : SOCK_STREAM;
    int fd = socket (AF_UNIX, type, 0);
    if (bind (fd, (struct sockaddr *) &address, length)) {
        perror (name);
        return 1;
    }
    if (strcmp (how, "bind"))
        listen (fd, strcmp (how, "full") ? 4096 : 0);
    if (!strcmp (how, "full"))
        connect (socket (AF_UNIX, type, 0), (struct sockaddr *) &address, length);
    return 0;
}

int
main (int argc, char **argv)
{
    char byte, name[104];
    struct rlimit limit;
    if ((argc != 4 && argc != 7) || strlen (argv[1]) > 90)
        return 99;
    getrlimit (RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit (RLIMIT_NOFILE, &limit);
    int first = argc == 7 ? atoi (argv[4]) : 0, last = argc == 7 ? atoi (argv[5]) : 0;
    for (int i = first; i <= last; i++) {
        if (argc == 7)
            snprintf (name, sizeof name, "%s%d", argv[1], i);
        else
            snprintf (name, sizeof name, "%s", argv[1]);
        if ((argc != 7 || i != atoi (argv[6])) && hold (name, argv[2], argv[3]))
            return 1;
    }
    puts ("ready");
    fflush (stdout);
    while (read (0, &byte, 1) > 0)
        ;
    return 0;
}
