/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that are tried before they are used; see address.h. */
#include <config.h>

#include "hosts/net/address.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

enum {
    ANSWERS_AT_ONCE = 64,
    LATER_SHARE = 2, LATER_MS = 20, /* for addresses that answer later than the first */
    TRIES = 4, TRY_MS = 300,        /* connections to an address, and the time between them */
};

int
listener_draw_token (struct listener *listener, struct fail *fail)
{
    unsigned char bytes[(ADDRESS_TOKEN_BYTES - 1) / 2];
    if (getrandom (bytes, sizeof bytes, 0) != sizeof bytes)
        return fail_set (fail, FAIL_GENERAL, "cannot get random numbers: %s", strerror (errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf (listener->token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* A socket of IPv6 serves IPv4 as well, unless the kernel does without IPv6. */
int
address_listen (int port)
{
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons ((uint16_t) port) };
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port) };
    int off = 0, on = 1, fd = socket (AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_v6 = fd >= 0;
    if (!is_v6)
        fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (is_v6)
        setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int failed = is_v6 ? bind (fd, (struct sockaddr *) &in6, sizeof in6)
                       : bind (fd, (struct sockaddr *) &in, sizeof in);
    if (fd >= 0 && !failed && !listen (fd, SOMAXCONN))
        return fd;
    int error = errno;
    if (fd >= 0)
        close (fd);
    errno = error;
    return -1;
}

int
address_port (int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname (fd, (struct sockaddr *) &address, &length))
        return 0;
    return ntohs (address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &address)->sin6_port
                                                : ((struct sockaddr_in *) &address)->sin_port);
}

int
listener_open (struct listener *listener, int port, struct fail *fail)
{
    if (listener_draw_token (listener, fail))
        return -1;
    listener->fd = address_listen (port);
    return listener->fd >= 0 ? 0
           : fail_set (fail, FAIL_GENERAL, "cannot listen on port %d: %s; choose another with --main_process_port",
                       port, strerror (errno));
}

void
listener_answer (struct listener *listener)
{
    for (int i = 0, fd; i < ANSWERS_AT_ONCE && (fd = accept4 (listener->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++) {
        ssize_t unused = send (fd, listener->token, ADDRESS_TOKEN_BYTES - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void) unused; /* who does not get it has not reached us */
        close (fd);
    }
}

void
listener_close (struct listener *listener)
{
    if (listener->fd >= 0)
        close (listener->fd);
    listener->fd = -1;
}

static void
add_once (struct strlist *addresses, const char *address)
{
    for (size_t i = 0; i < addresses->count; i++)
        if (!strcmp (addresses->items[i], address))
            return;
    strlist_add (addresses, address);
}

/* The variable holds the client's address and port, then ours. */
static void
add_address_of_ssh (struct strlist *addresses)
{
    char address[INET6_ADDRSTRLEN + 1] = "";
    const char *text = getenv ("SSH_CONNECTION");
    struct in_addr v4;
    struct in6_addr v6;
    if (text && sscanf (text, "%*s %*s %46s", address) == 1
        && (inet_pton (AF_INET, address, &v4) == 1
            || (inet_pton (AF_INET6, address, &v6) == 1 && !IN6_IS_ADDR_LINKLOCAL (&v6) && !IN6_IS_ADDR_LOOPBACK (&v6)))
        && strncmp (address, "127.", 4) != 0)
        add_once (addresses, address);
}

static void
add_family (struct strlist *addresses, const struct ifaddrs *all, int family, const char *interface)
{
    char text[INET6_ADDRSTRLEN];
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP)
            || (at->ifa_flags & IFF_LOOPBACK) || (interface && strcmp (at->ifa_name, interface)))
            continue;
        const struct sockaddr_in *v4 = (const void *) at->ifa_addr;
        const struct sockaddr_in6 *v6 = (const void *) at->ifa_addr;
        const void *address = family == AF_INET ? (const void *) &v4->sin_addr : (const void *) &v6->sin6_addr;
        bool is_useful = family == AF_INET || !IN6_IS_ADDR_LINKLOCAL (&v6->sin6_addr);
        if (is_useful && inet_ntop (family, address, text, sizeof text))
            add_once (addresses, text);
    }
}

void
address_list (struct strlist *addresses, const char *interface)
{
    struct ifaddrs *all;
    if (!interface)
        add_address_of_ssh (addresses);
    if (getifaddrs (&all))
        return;
    add_family (addresses, all, AF_INET, interface);
    add_family (addresses, all, AF_INET6, interface);
    freeifaddrs (all);
}

/* What the system's resolver may still write to after we have given up. */
struct lookup {
    struct gaicb request, *list[1];
    struct addrinfo hints;
    char service[8];
    char name[];
};

/* A resolver has no deadline of its own that suits us, and some cannot be cancelled. */
static struct addrinfo *
resolve (struct lookup *lookup, int64_t until)
{
    int64_t left;
    lookup->request = (struct gaicb){ .ar_name = lookup->name, .ar_service = lookup->service,
                                      .ar_request = &lookup->hints };
    lookup->list[0] = &lookup->request;
    if (getaddrinfo_a (GAI_NOWAIT, lookup->list, 1, NULL)) {
        free (lookup);
        return NULL;
    }
    while (gai_error (&lookup->request) == EAI_INPROGRESS && (left = until - clock_ms ()) > 0) {
        struct timespec limit = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
        gai_suspend ((const struct gaicb *const *) lookup->list, 1, &limit);
    }
    if (gai_error (&lookup->request) == EAI_INPROGRESS && gai_cancel (&lookup->request) == EAI_NOTCANCELED)
        return NULL; /* and the memory stays */
    struct addrinfo *found = gai_error (&lookup->request) ? NULL : lookup->request.ar_result;
    free (lookup);
    return found;
}

static struct addrinfo *
find_address (const char *address, int port, int64_t until)
{
    struct addrinfo *found;
    struct lookup *lookup = calloc (1, sizeof *lookup + strlen (address) + 1);
    if (!lookup)
        return NULL;
    strcpy (lookup->name, address);
    snprintf (lookup->service, sizeof lookup->service, "%d", port);
    lookup->hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
    if (!getaddrinfo (address, lookup->service, &lookup->hints, &found)) {
        free (lookup);
        return found;
    }
    lookup->hints.ai_flags = AI_NUMERICSERV;
    return resolve (lookup, until);
}

int
address_begin_connect (const char *address, int port, int64_t until)
{
    struct addrinfo *found = find_address (address, port, until);
    if (!found)
        return -1;
    int fd = socket (found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect (fd, found->ai_addr, found->ai_addrlen) && errno != EINPROGRESS) {
        close (fd);
        fd = -1;
    }
    freeaddrinfo (found);
    return fd;
}

/* Something has come, or nothing ever will.  The token is so short that it comes in one piece. */
static bool
has_token (int fd, const char *token)
{
    char got[ADDRESS_TOKEN_BYTES];
    ssize_t length = recv (fd, got, sizeof got, MSG_DONTWAIT);
    return length == ADDRESS_TOKEN_BYTES - 1 && !memcmp (got, token, (size_t) length);
}

/* Connections to each address, one after the other: the kernel repeats a lost packet of an attempt only after a second,
 * and then after twice as long. */
struct attempts {
    const struct strlist *addresses;
    int port;
    struct pollfd *fds; /* [addresses->count * TRIES] */
    bool *is_decided;   /* [addresses->count] */
    size_t open, tries;
    int64_t next_ms; /* when to try again */
};

static void
try_again (struct attempts *attempts, int64_t until)
{
    for (size_t i = 0; i < attempts->addresses->count; i++) {
        struct pollfd *fd = &attempts->fds[i * TRIES + attempts->tries];
        if (!attempts->is_decided[i])
            *fd = (struct pollfd){ .fd = address_begin_connect (attempts->addresses->items[i], attempts->port, until),
                                   .events = POLLIN };
        attempts->open += fd->fd >= 0;
    }
    attempts->next_ms = ++attempts->tries < TRIES ? clock_ms () + TRY_MS : INT64_MAX;
}

/* What one attempt has found holds for the others to the same address. */
static void
decide (struct attempts *attempts, size_t i)
{
    attempts->is_decided[i] = true;
    for (struct pollfd *fd = &attempts->fds[i * TRIES], *end = fd + TRIES; fd < end; fd++)
        if (fd->fd >= 0) {
            close (fd->fd);
            fd->fd = -1;
            attempts->open--;
        }
}

void
address_reach (const struct strlist *addresses, int port, const char *token, int64_t timeout_ms, bool one_is_enough,
               bool *reached)
{
    int64_t begin = clock_ms (), until = begin + timeout_ms, now;
    size_t places = addresses->count * TRIES;
    AUTO_FREE struct pollfd *fds = calloc (places + 1, sizeof *fds);
    AUTO_FREE bool *is_decided = calloc (addresses->count + 1, sizeof *is_decided);
    struct attempts attempts = { .addresses = addresses, .port = port, .fds = fds, .is_decided = is_decided };
    memset (reached, 0, addresses->count * sizeof *reached);
    if (!fds || !is_decided)
        return;
    for (size_t i = 0; i < places; i++)
        fds[i].fd = -1;
    try_again (&attempts, until);
    while (attempts.open && (now = clock_ms ()) < until) {
        if (now >= attempts.next_ms)
            try_again (&attempts, until);
        int64_t next = attempts.next_ms < until ? attempts.next_ms : until;
        if (poll (fds, places, next > now ? (int) (next - now) : 0) < 0 && errno != EINTR)
            break;
        for (size_t k = 0; k < places; k++) {
            if (fds[k].fd < 0 || !fds[k].revents)
                continue;
            reached[k / TRIES] = has_token (fds[k].fd, token);
            int64_t enough = clock_ms () + LATER_SHARE * (clock_ms () - begin) + LATER_MS;
            if (one_is_enough && reached[k / TRIES] && enough < until)
                until = enough;
            decide (&attempts, k / TRIES);
        }
    }
    for (size_t i = 0; i < addresses->count; i++)
        decide (&attempts, i);
}
