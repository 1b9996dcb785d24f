/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a port for a job: free_port OWNER
 *
 * No other test is given the same one while the process OWNER lives, which is the shell of a test: a child of this
 * program holds a socket with an abstract name, which vanishes with the child, however that ends.  The port can be
 * bound now.  The range lies below the one from which the kernel serves programs that ask for any port. */
#include <config.h>

#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST = 20000, COUNT = 9000 };

static bool
is_bindable (int port)
{
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port) };
    bool bound = fd >= 0 && !bind (fd, (struct sockaddr *) &address, sizeof address);
    close (fd);
    return bound;
}

/* @return a socket that claims @port, or -1 if it is in use */
static int
claim (int port)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int length = snprintf (address.sun_path + 1, sizeof address.sun_path - 1, "accel-test-port-%d", port);
    socklen_t size = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + (size_t) length);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !bind (fd, (struct sockaddr *) &address, size) && is_bindable (port))
        return fd;
    close (fd);
    return -1;
}

int
main (int argc, char **argv)
{
    pid_t owner = argc == 2 ? (pid_t) strtol (argv[1], NULL, 10) : 0;
    int watch = owner > 0 ? (int) syscall (SYS_pidfd_open, owner, 0) : -1;
    if (watch < 0) {
        perror ("free_port: the owner");
        return 99;
    }
    for (int i = 0; i < COUNT; i++) {
        int port = FIRST + (int) ((unsigned) owner * 7919U + (unsigned) i) % COUNT;
        if (claim (port) < 0)
            continue;
        pid_t child = fork ();
        if (child == 0) {
            for (int fd = 0; fd < 3; fd++)
                close (fd); /* whoever reads the number waits for the end of this output */
            poll (&(struct pollfd){ .fd = watch, .events = POLLIN }, 1, -1);
            _exit (0);
        }
        printf ("%d\n", port);
        return child > 0 ? 0 : 99;
    }
    fputs ("free_port: all are in use\n", stderr);
    return 99;
}
