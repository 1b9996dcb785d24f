/* SPDX-License-Identifier: Apache-2.0 */
/* Does what torch's rendezvous does, with its variables: rank 0 listens at MASTER_PORT, the others connect to
 * MASTER_ADDR and send their rank; rank 0 answers with the sum.  Then, with an argument, each rank writes its process's
 * number to the file ARGUMENT.RANK and waits: rank 0 for ever, the others until their connection breaks. */
#include <config.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int
number (const char *name)
{
    const char *text = getenv (name);
    if (!text) {
        fprintf (stderr, "%s is not set\n", name);
        exit (3);
    }
    return atoi (text);
}

static int
die (const char *what)
{
    fprintf (stderr, "rank %s: %s: %s\n", getenv ("RANK"), what, strerror (errno));
    exit (4);
}

static void
transfer (int fd, int *value, int is_sent)
{
    ssize_t done = is_sent ? write (fd, value, sizeof *value) : read (fd, value, sizeof *value);
    if (done != sizeof *value)
        die ("transfer");
}

/* Sanitizers would catch the signals that a test sends. */
static void
die_of_signals (void)
{
    static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGABRT };
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal (deadly[i], SIG_DFL);
}

static int
serve (int size, int *fds)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) number ("MASTER_PORT")) };
    int on = 1, sum = 0, fd = socket (AF_INET, SOCK_STREAM, 0);
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind (fd, (struct sockaddr *) &address, sizeof address) || listen (fd, size))
        die ("listen");
    for (int i = 1, value; i < size; i++) {
        fds[i] = accept (fd, NULL, NULL);
        transfer (fds[i], &value, 0);
        sum += value;
    }
    for (int i = 1; i < size; i++)
        transfer (fds[i], &sum, 1);
    return sum;
}

static int
join (int rank, int *fd)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int sum = rank;
    if (getaddrinfo (getenv ("MASTER_ADDR"), getenv ("MASTER_PORT"), &hints, &found))
        die ("MASTER_ADDR");
    for (;;) {
        *fd = socket (found->ai_family, SOCK_STREAM, 0);
        if (!connect (*fd, found->ai_addr, found->ai_addrlen))
            break;
        if (errno != ECONNREFUSED)
            die ("connect");
        close (*fd);
        usleep (10000);
    }
    freeaddrinfo (found);
    transfer (*fd, &sum, 1);
    transfer (*fd, &sum, 0);
    return sum;
}

static void
say_up (const char *prefix, int rank)
{
    char name[256];
    snprintf (name, sizeof name, "%s.%d", prefix, rank);
    FILE *file = fopen (name, "w");
    if (!file || fprintf (file, "%d\n", (int) getpid ()) < 0 || fclose (file))
        die (name);
}

int
main (int argc, char **argv)
{
    int rank = number ("RANK"), size = number ("WORLD_SIZE"), fds[64] = { 0 }, byte;
    char host[64] = "";
    gethostname (host, sizeof host - 1);
    die_of_signals ();
    int sum = rank ? join (rank, &fds[1]) : serve (size, fds);
    printf ("rank %d of %d, local %d of %d, on %s, machine %d of %d: sum %d\n", rank, size, number ("LOCAL_RANK"),
            number ("LOCAL_WORLD_SIZE"), host, number ("GROUP_RANK"), number ("GROUP_WORLD_SIZE"), sum);
    fflush (stdout);
    if (argc < 2)
        return 0;
    say_up (argv[1], rank);
    if (rank) {
        transfer (fds[1], &byte, 0); /* a victim: fails when rank 0 is gone */
        return 5;
    }
    for (;;)
        pause ();
}
