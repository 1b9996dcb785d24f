/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of ports; see port_lock.h. */
#include <config.h>

#include "launch/job/port_lock.h"

#include "launch/plan/plan.h"
#include "util/cleanup.h"
#include "util/peer.h"
#include "util/probe.h"

#include <netinet/in.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* Where ports are chosen: below the range from which Linux takes ports for connections (from 32768) and that of
 * Kubernetes' services (from 30000), above those of most servers.  The usual port is for launches that ask for none. */
enum { FIRST_PORT = 20000, LAST_PORT = PLAN_USUAL_PORT - 1 };

enum { ASK_TRIES = 20, ASK_PAUSE_NS = 10000000 }; /* between bind() and listen() a holder cannot be asked */

enum { ANSWERS_AT_ONCE = 64 }; /* per call, so that ranks are not kept waiting */

static socklen_t
name_of (int port, struct sockaddr_un *address)
{
    char name[32];
    snprintf (name, sizeof name, "accelerate-port-%d", port);
    return peer_address (address, name);
}

int
port_lock_take (struct port_lock *port_lock, int port)
{
    struct sockaddr_un address;
    socklen_t length = name_of (port, &address);
    *port_lock = (struct port_lock){ .fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
    /* A connection carries no data: the kernel tells the other side whose socket this is. */
    if (port_lock->fd >= 0 && !bind (port_lock->fd, (struct sockaddr *) &address, length) && !listen (port_lock->fd,
                                                                                                      SOMAXCONN))
        return 0;
    port_lock->error = errno;
    port_lock_release (port_lock);
    return -1;
}

void
port_lock_answer (int fd)
{
    for (int i = 0, other; i < ANSWERS_AT_ONCE && (other = accept4 (fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++)
        close (other);
}

void
port_lock_release (struct port_lock *port_lock)
{
    if (port_lock->fd >= 0)
        close (port_lock->fd);
    port_lock->fd = -1;
}

static bool
can_bind (int family, const void *address, socklen_t length, bool reuse)
{
    AUTO_CLOSE int fd = socket (family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = reuse, off = 0;
    if (fd < 0)
        return true; /* the kernel does without this family, and so do programs */
    if (family == AF_INET6)
        setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return (!bind (fd, address, length) && !listen (fd, 1)) || errno != EADDRINUSE;
}

/* Whether a program could listen at @p port on all addresses.  With @p reuse as one could that sets SO_REUSEADDR, which
 * passes over connections that have ended a minute ago. */
static bool
is_free (int port, bool reuse)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port) };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons ((uint16_t) port) };
    return can_bind (AF_INET, &in, sizeof in, reuse) && can_bind (AF_INET6, &in6, sizeof in6, reuse);
}

/* The ports that the kernel hands out by itself. */
static void
read_local_range (int *first, int *last)
{
    AUTO_FILE FILE *file = fopen ("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!file || fscanf (file, "%d %d", first, last) != 2) {
        *first = 32768;
        *last = 60999;
    }
}

/* Lock first, then look: two launches that look at one port at once would each find the other there. */
static bool
take_if_free (struct port_lock *port_lock, int port)
{
    if (port_lock_take (port_lock, port) && port_lock->error == EADDRINUSE)
        return false;
    if (is_free (port, false))
        return true;
    port_lock_release (port_lock);
    return false;
}

/* Find a port on which no process listens and which no launch has locked, and lock it.  @return -1 with @fail */
static int
take_any (struct port_lock *port_lock, struct fail *fail)
{
    enum { COUNT = LAST_PORT - FIRST_PORT + 1 };
    int first, last;
    uint32_t start;
    read_local_range (&first, &last);
    /* From anywhere, and not from the first one on: programs may use the numbers after MASTER_PORT too. */
    if (getrandom (&start, sizeof start, 0) != sizeof start)
        return fail_set (fail, FAIL_GENERAL, "cannot get random numbers: %s", strerror (errno));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < COUNT; i++) {
            int port = FIRST_PORT + (int) ((start % COUNT + (unsigned) i) % COUNT);
            bool is_local = port >= first && port <= last;
            if (is_local == pass && take_if_free (port_lock, port))
                return port;
        }
    return fail_set (fail, FAIL_GENERAL, "no free port: %d to %d are all in use or locked; choose another with "
                     "--main_process_port", FIRST_PORT, LAST_PORT);
}

/* In a separate process: names may come from a server that does not answer. */
static int
ask_name (void *answer, const void *user, struct fail *fail)
{
    const struct passwd *entry = getpwuid (*(const uid_t *) user);
    (void) fail;
    if (entry)
        snprintf (answer, 64, "%s", entry->pw_name);
    return 0;
}

static void
describe_peer (const struct peer *peer, char *text, size_t size)
{
    char name[64] = "";
    struct probe probe = { .name = "getpwuid", .deadline_ms = PROBE_DEADLINE_MS, .size = sizeof name, .ask = ask_name,
                           .user = &peer->uid };
    bool is_known = !probe_run (&probe, name, NULL) && *name;
    peer_describe (peer, is_known ? name : NULL, text, size);
}

/* Launches listen, so what has the name and refuses connections is not one. */
bool
port_lock_describe_holder (int port, char *text, size_t size)
{
    struct sockaddr_un address;
    struct peer peer;
    socklen_t length = name_of (port, &address);
    bool is_refused = true;
    for (int i = 0; i < ASK_TRIES; i++) {
        AUTO_CLOSE int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bool is_connected = !connect (fd, (struct sockaddr *) &address, length);
        is_refused = is_refused && !is_connected && (errno == ECONNREFUSED || errno == EPROTOTYPE);
        if (is_connected && peer_of (fd, &peer)) {
            describe_peer (&peer, text, size);
            return true;
        }
        nanosleep (&(struct timespec){ .tv_nsec = ASK_PAUSE_NS }, NULL);
    }
    snprintf (text, size, "a process that does not answer on the socket @%s", address.sun_path + 1);
    return !is_refused;
}

static int
refuse (const struct config *config, int port, const char *holder, struct fail *fail)
{
    AUTO_STRBUF struct strbuf origin = { 0 };
    config_format_origin (config, option_find ("main_process_port"), &origin);
    return fail_set (fail, FAIL_GENERAL,
                     "main_process_port %d (%s) belongs to another job on this host: %s; choose another port%s", port,
                     origin.text ? origin.text : "", holder,
                     config->settings.num_machines > 1 ? " on all machines" : ", or 0 for any free port");
}

/* The usual port or any other: nothing depends on which. */
static int
take_default (struct port_lock *port_lock, struct fail *fail)
{
    return take_if_free (port_lock, PLAN_USUAL_PORT) ? PLAN_USUAL_PORT : take_any (port_lock, fail);
}

/* This port and no other: it was given, or other machines have been told. */
static int
take_fixed (struct port_lock *port_lock, struct topology *topology, const struct config *config, int port,
            struct fail *fail)
{
    char holder[256];
    if (port_lock_take (port_lock, port) && port_lock->error == EADDRINUSE) {
        if (port_lock_describe_holder (port, holder, sizeof holder))
            return refuse (config, port, holder, fail);
        if (port_lock_take (port_lock, port) && port_lock->error == EADDRINUSE) /* it has not just ended */
            snprintf (topology->port_note, sizeof topology->port_note,
                      "cannot lock port %d: its name belongs to %s, so it is not a launch; other jobs on this host "
                      "may choose the port too", port, holder);
    }
    topology->port_taken = !is_free (port, true);
    return port;
}

/* Another launcher starts the ranks, and rank 0 perhaps on another machine, where our locks mean nothing. */
static int
take_if_possible (struct port_lock *port_lock, struct topology *topology, int port)
{
    char holder[256];
    if (port_lock_take (port_lock, port) && port_lock->error == EADDRINUSE) {
        port_lock_describe_holder (port, holder, sizeof holder);
        snprintf (topology->port_note, sizeof topology->port_note,
                  "another job on this host uses main_process_port %d too: %s; choose another port if rank 0 of both "
                  "jobs runs on the same machine", port, holder);
    }
    return port;
}

int
port_lock_for_job (struct port_lock *port_lock, struct topology *topology, const struct config *config,
                   struct fail *fail)
{
    const struct settings *settings = &config->settings;
    bool is_given = config_origin (config, "main_process_port").kind != ORIGIN_DEFAULT;
    int wanted = is_given ? (int) settings->main_process_port : PLAN_USUAL_PORT, port;
    switch (plan_port_scope (settings, topology->gpus)) {
    case PLAN_PORT_LOCAL:
        port = !is_given ? take_default (port_lock, fail)
               : wanted  ? take_fixed (port_lock, topology, config, wanted, fail)
                         : take_any (port_lock, fail);
        break;
    case PLAN_PORT_SHARED: port = take_fixed (port_lock, topology, config, wanted, fail); break;
    case PLAN_PORT_EXTERNAL: port = take_if_possible (port_lock, topology, wanted); break;
    default: return 0;
    }
    if (port < 0)
        return -1;
    topology->free_port = port == wanted ? 0 : port;
    if (port_lock->fd < 0 && port_lock->error != EADDRINUSE) /* the job runs as it would under any other launcher */
        snprintf (topology->port_note, sizeof topology->port_note,
                  "cannot lock port %d (%s): other jobs on this host may choose it too", port,
                  strerror (port_lock->error));
    return 0;
}
