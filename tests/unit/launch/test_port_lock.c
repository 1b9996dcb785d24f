/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of ports that others hold, half hold, or listen at. */
#include <config.h>

#include "launch/plan/plan.h"
#include "launch/job/port_lock.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* A holder who listens only after he has been asked some times. */
static int late, asked;

static void
fake_pause (void)
{
    if (++asked == 10)
        listen (late, 1);
}

/* The ports that the kernel hands out by itself. */
static int first_local, last_local;

static FILE *
fake_range (void)
{
    FILE *file = tmpfile ();
    if (file && fprintf (file, "%d %d", first_local, last_local) > 0)
        rewind (file);
    return file;
}

#define nanosleep(pause, rest) fake_pause ()
#define fopen(path, mode) fake_range ()
#include "launch/job/port_lock.c"

/* A program at a port of the kernel's choice.  @return its socket */
static int
open_listener (int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind (fd, (struct sockaddr *) &address, sizeof address) || listen (fd, 1)
        || getsockname (fd, (struct sockaddr *) &address, &length))
        ok (false, "a listener: %s", strerror (errno));
    *port = ntohs (address.sin_port);
    return fd;
}

static void
test_listener (void)
{
    struct port_lock port_lock = PORT_LOCK_NONE, other = PORT_LOCK_NONE;
    struct topology topology = { .host = "box" };
    struct config config = { 0 };
    int port, fd = open_listener (&port);
    ok (!take_if_free (&port_lock, port) && port_lock.fd < 0, "a port at which a process listens is not taken");
    ok (!port_lock_take (&other, port), "nor is it locked");
    port_lock_release (&other);
    ok (take_fixed (&port_lock, &topology, &config, port, NULL) == port && topology.port_taken && port_lock.fd >= 0,
        "one that has to be it is locked, and it is noted that a process listens");
    ok (port_lock_take (&other, port) && other.error == EADDRINUSE && other.fd < 0, "no other job can lock it");
    close (fd);
    ok (!take_if_free (&other, port), "nor take it, when no process listens any more");
    port_lock_release (&port_lock);
    ok (take_if_free (&port_lock, port), "until it is given back");
    topology = (struct topology){ .host = "box" };
    ok (take_if_possible (&other, &topology, port) == port && strstr (topology.port_note, "another job"),
        "another launcher's port that a job has: %s", topology.port_note);
    port_lock_release (&port_lock);
    ok (take_fixed (&port_lock, &topology, &config, port, NULL) == port && !topology.port_taken, "a port that is free");
    port_lock_release (&port_lock);
    topology = (struct topology){ .host = "box" };
    ok (take_if_possible (&port_lock, &topology, port) == port && !*topology.port_note && port_lock.fd >= 0,
        "another launcher's port that is free");
    port_lock_release (&port_lock);
}

/* A port that was bound, but at which no process listens, cannot be had either. */
static void
test_bound (void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    int on = 1, fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ok (!bind (fd, (struct sockaddr *) &address, sizeof address)
            && !getsockname (fd, (struct sockaddr *) &address, &length)
            && !is_free (ntohs (address.sin_port), false), "a port that is bound is not free");
    close (fd);
}

/* A program that listens on IPv6 only. */
static void
test_v6only (void)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6 };
    socklen_t length = sizeof address;
    int on = 1, fd = socket (AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on)
        || bind (fd, (struct sockaddr *) &address, sizeof address) || listen (fd, 1)
        || getsockname (fd, (struct sockaddr *) &address, &length))
        skip ("no IPv6 here");
    else
        ok (!is_free (ntohs (address.sin6_port), true), "a port at which a process listens on IPv6 only");
    if (fd >= 0)
        close (fd);
}

static void
test_holder (void)
{
    struct sockaddr_un address;
    char text[256];
    int port, fd = open_listener (&port);
    socklen_t length = name_of (port, &address);
    late = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok (!bind (late, (struct sockaddr *) &address, length), "a holder who does not listen yet");
    ok (port_lock_describe_holder (port, text, sizeof text) && asked >= 10 && strstr (text, "pid "),
        "he is asked again: %s", text);
    close (late);
    ok (!port_lock_describe_holder (port, text, sizeof text) && strstr (text, "does not answer"),
        "and when he has gone: %s", text);
    close (fd);
    late = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct port_lock port_lock = PORT_LOCK_NONE;
    struct topology topology = { .host = "box" };
    struct config config = { 0 };
    ok (!bind (late, (struct sockaddr *) &address, length)
            && take_fixed (&port_lock, &topology, &config, port, NULL) == port && port_lock.fd < 0
            && strstr (topology.port_note, "so it is not a launch"),
        "who never listens is not a launch: %s", topology.port_note);
    close (late);
}

/* With few others from which a launch can choose, below or above. */
static void
test_choice (int first, int last)
{
    struct port_lock port_lock = PORT_LOCK_NONE;
    bool good = true;
    first_local = first;
    last_local = last;
    for (int i = 0; i < 4; i++) {
        int port = take_any (&port_lock, NULL);
        good = good && port >= FIRST_PORT && port <= LAST_PORT && (port < first || port > last);
        port_lock_release (&port_lock);
    }
    ok (good, "a port that the kernel does not hand out is preferred: not of %d to %d", first, last);
}

int
main (void)
{
    test_listener ();
    test_bound ();
    test_v6only ();
    test_holder ();
    test_choice (FIRST_PORT + 400, 65535);
    test_choice (1024, LAST_PORT - 400);
    return done_testing ();
}
