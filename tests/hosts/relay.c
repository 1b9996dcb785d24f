/* SPDX-License-Identifier: Apache-2.0 */
/* A slow, lossy cable between two network links, for kernels without netem: hands the frames of each to the other.
 *
 *   relay DELAY_MS LOSS_PERCENT LINK LINK
 *
 * Each frame is lost with that probability or comes so much later, in either direction.  It prints "ready" and runs
 * until it is killed.  Packet sockets with PACKET_VNET_HDR pass on what a network card would still have to do, such as
 * checksums, so that frames stay right. */
#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIDES = 2, FRAME_BYTES = 70000, SOCKET_BYTES = 8 << 20 };

struct frame {
    struct frame *next;
    int64_t due_us;
    size_t length;
    char bytes[];
};

struct side {
    int fd;
    struct frame *first, **last; /* on their way from here to the other side */
};

static void
die (const char *what)
{
    fprintf (stderr, "relay: %s: %s\n", what, strerror (errno));
    exit (1);
}

static int64_t
now_us (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void
open_side (struct side *side, const char *link)
{
    struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons (ETH_P_ALL),
                                   .sll_ifindex = (int) if_nametoindex (link) };
    int on = 1, bytes = SOCKET_BYTES;
    side->last = &side->first;
    side->fd = socket (AF_PACKET, SOCK_RAW, htons (ETH_P_ALL));
    if (!address.sll_ifindex || side->fd < 0 || setsockopt (side->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on)
        || setsockopt (side->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on)
        || setsockopt (side->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes)
        || bind (side->fd, (struct sockaddr *) &address, sizeof address))
        die (link);
}

static void
take (struct side *side, int64_t delay_us, double loss)
{
    static char bytes[FRAME_BYTES];
    ssize_t length = recv (side->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (length <= 0 || drand48 () < loss)
        return;
    struct frame *frame = malloc (sizeof *frame + (size_t) length);
    if (!frame)
        die ("memory");
    *frame = (struct frame){ .due_us = now_us () + delay_us, .length = (size_t) length };
    memcpy (frame->bytes, bytes, (size_t) length);
    *side->last = frame;
    side->last = &frame->next;
}

/* A frame that the other link does not take, because it is down or full, is lost. */
static void
hand_over (struct side *from, const struct side *to)
{
    while (from->first && from->first->due_us <= now_us ()) {
        struct frame *frame = from->first;
        ssize_t unused = send (to->fd, frame->bytes, frame->length, MSG_DONTWAIT);
        (void) unused;
        from->first = frame->next;
        if (!from->first)
            from->last = &from->first;
        free (frame);
    }
}

static int
find_timeout (const struct side *sides)
{
    int64_t until = INT64_MAX, now = now_us ();
    for (int i = 0; i < SIDES; i++)
        if (sides[i].first && sides[i].first->due_us < until)
            until = sides[i].first->due_us;
    return until == INT64_MAX ? -1 : until <= now ? 0 : (int) ((until - now) / 1000 + 1);
}

int
main (int argc, char **argv)
{
    struct side sides[SIDES] = { { 0 } };
    struct pollfd fds[SIDES];
    if (argc != 5) {
        fputs ("usage: relay DELAY_MS LOSS_PERCENT LINK LINK\n", stderr);
        return 2;
    }
    int64_t delay_us = (int64_t) (atof (argv[1]) * 1000);
    double loss = atof (argv[2]) / 100;
    srand48 (getpid ());
    for (int i = 0; i < SIDES; i++)
        open_side (&sides[i], argv[3 + i]);
    puts ("ready");
    fflush (stdout);
    for (;;) {
        for (int i = 0; i < SIDES; i++)
            fds[i] = (struct pollfd){ .fd = sides[i].fd, .events = POLLIN };
        if (poll (fds, SIDES, find_timeout (sides)) < 0 && errno != EINTR)
            die ("poll");
        for (int i = 0; i < SIDES; i++) {
            if (fds[i].revents)
                take (&sides[i], delay_us, loss);
            hand_over (&sides[i], &sides[1 - i]);
        }
    }
}
