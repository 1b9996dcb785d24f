/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that meets at MASTER_PORT, as torch's do, but binds late and without SO_REUSEADDR.
 *
 *   late_bind FOLDER
 *   late_bind -u COMMAND...   raise the loopback interface of a new network namespace, then be COMMAND
 *
 * Rank 0 writes MASTER_PORT into FOLDER/port.JOB, waits until there is a file FOLDER/go, and listens.  The others try
 * to connect from the start.  Both ends say which job they belong to (ACCEL_JOB_ID).  Exit status: 0 only where
 * exactly the ranks of one job have met; 4 met a stranger, 5 the port is in use, 99 anything else. */
#include <config.h>

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ID_BYTES = 16, LIMIT_S = 900 };

static const char *job;
static int port;

static int
end (int status, const char *what)
{
    fprintf (stderr, "rank %s of job %s at port %d: %s\n", getenv ("RANK"), job, port, what);
    return status;
}

static void
pause_ms (int ms)
{
    nanosleep (&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

static int
open_socket (struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons ((uint16_t) port),
                                     .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    return socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Tell the other side our job and hear its own.  @return whether it is the same */
static int
is_ours (int fd)
{
    char other[ID_BYTES];
    return send (fd, job, ID_BYTES, MSG_NOSIGNAL) == ID_BYTES
           && recv (fd, other, sizeof other, MSG_WAITALL) == ID_BYTES && !memcmp (job, other, ID_BYTES);
}

static int
lead (const char *folder, int others)
{
    char path[4096];
    struct sockaddr_in address;
    int fd = open_socket (&address);
    snprintf (path, sizeof path, "%s/port.%s", folder, job);
    FILE *file = fopen (path, "w");
    if (!file || fprintf (file, "%d\n", port) < 0 || fclose (file))
        return end (99, path);
    snprintf (path, sizeof path, "%s/go", folder);
    while (access (path, F_OK))
        pause_ms (5);
    address.sin_addr.s_addr = htonl (INADDR_ANY);
    if (bind (fd, (struct sockaddr *) &address, sizeof address) || listen (fd, 128))
        return end (5, strerror (errno));
    for (int i = 0; i < others; i++) {
        int client = accept (fd, NULL, NULL);
        if (client < 0 || !is_ours (client))
            return end (4, "a stranger has come");
        close (client); /* first, so that the port keeps connections that have ended */
    }
    return 0;
}

static int
follow (void)
{
    struct sockaddr_in address;
    char byte;
    for (;;) {
        int fd = open_socket (&address);
        if (connect (fd, (struct sockaddr *) &address, sizeof address)) {
            close (fd);
            pause_ms (5);
            continue;
        }
        if (!is_ours (fd))
            return end (4, "this is not rank 0 of my job");
        recv (fd, &byte, 1, 0);
        return 0;
    }
}

static int
raise_loopback (void)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    return ioctl (socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), SIOCSIFFLAGS, &request);
}

int
main (int argc, char **argv)
{
    if (argc > 2 && !strcmp (argv[1], "-u") && !raise_loopback ()) {
        execvp (argv[2], argv + 2);
        return 99;
    }
    const char *rank = getenv ("RANK"), *size = getenv ("WORLD_SIZE"), *text = getenv ("MASTER_PORT");
    job = getenv ("ACCEL_JOB_ID");
    if (argc != 2 || !rank || !size || !text || !job || strlen (job) != ID_BYTES)
        return 99;
    port = atoi (text);
    alarm (LIMIT_S);
    return atoi (rank) ? follow () : lead (argv[1], atoi (size) - 1);
}
