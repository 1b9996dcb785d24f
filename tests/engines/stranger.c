/* SPDX-License-Identifier: Apache-2.0 */
/* Connect to every abstract socket whose name begins with PREFIX, as anybody can who reads /proc/net/unix; send data
 * that no rank expects, print a line, and hold on until stdin ends.
 *
 *   stranger PREFIX */
#include <config.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int
connect_to (const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = strlen (name) < sizeof address.sun_path - 1 ? strlen (name) : sizeof address.sun_path - 1;
    static const char noise[200] = "noise";
    int fd = socket (AF_UNIX, SOCK_STREAM, 0);
    memcpy (address.sun_path + 1, name, length);
    if (fd < 0
        || connect (fd, (const struct sockaddr *) &address,
                    (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + length)))
        return 0;
    return send (fd, noise, sizeof noise, MSG_NOSIGNAL) == (ssize_t) sizeof noise;
}

int
main (int argc, char **argv)
{
    char line[512], byte;
    int connected = 0;
    while (argc > 1 && !connected) {
        FILE *sockets = fopen ("/proc/net/unix", "re");
        while (sockets && fgets (line, sizeof line, sockets)) {
            char *at = strchr (line, '@');
            line[strcspn (line, "\n")] = '\0';
            if (at && !strncmp (at + 1, argv[1], strlen (argv[1])))
                connected += connect_to (at + 1);
        }
        if (sockets)
            fclose (sockets);
        usleep (10000);
    }
    printf ("connected to %d\n", connected);
    fflush (stdout);
    return read (STDIN_FILENO, &byte, 1) > 0;
}
