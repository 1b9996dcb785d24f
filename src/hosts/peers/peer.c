/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between launchers; see state.h. */
#include <config.h>

#include "hosts/peers/state.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

static void
find_name (struct peer *peer, int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getpeername (fd, (struct sockaddr *) &address, &length)
        || getnameinfo ((struct sockaddr *) &address, length, peer->name, sizeof peer->name, NULL, 0, NI_NUMERICHOST))
        snprintf (peer->name, sizeof peer->name, "?");
}

struct peer *
peer_add (struct peers *peers, int fd, bool is_connecting)
{
    struct peer *peer = calloc (1, sizeof *peer);
    struct epoll_event event = { .events = is_connecting ? EPOLLOUT : EPOLLIN, .data.ptr = peer };
    int on = 1;
    if (!peer || epoll_ctl (peers->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free (peer);
        close (fd);
        return NULL;
    }
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pipe_init (&peer->pipe, fd, fd);
    channel_init (&peer->channel, peers->machine == 0, &peer->pipe.to_write);
    peer->until_ms = clock_ms () + PEERS_GREETING_MS;
    peer->is_connecting = is_connecting;
    peer->is_write_watched = is_connecting;
    if (!is_connecting)
        find_name (peer, fd);
    peer->next = peers->first;
    peers->first = peer;
    return peer;
}

/* Only a launcher with our key gets beyond the first two cases. */
static int
refuse (struct peers *peers, struct peer *peer, enum channel_result result)
{
    peer->is_dead = true;
    if (result == CHANNEL_FOREIGN)
        peers_set_why (peers, 2, "%s: not a launcher of this version of accelerate", peer->name);
    else if (peer->channel.has_opened)
        peers_set_why (peers, PEERS_WHY_LASTS, "%s: the data was altered on the way", peer->name);
    else
        peers_set_why (peers, PEERS_WHY_LASTS, "%s has another job key; copy the file of the main machine, or name one "
                       "with --job_key_file on all machines", peer->name);
    return -1;
}

int
peer_next (struct peers *peers, struct peer *peer, struct wire_frame *frame)
{
    struct pipe_end *pipe = &peer->pipe;
    size_t used, length = pipe->input.length - pipe->taken;
    if (!length || peer->is_dead)
        return 0;
    enum channel_result result = channel_next (&peer->channel, peers->key, pipe->input.text + pipe->taken, length,
                                               &pipe->to_write, &peer->frame, &used);
    pipe->taken += used;
    if (result == CHANNEL_MORE)
        return 0;
    if (result != CHANNEL_FRAME)
        return refuse (peers, peer, result);
    if (wire_next (peer->frame.text, peer->frame.length, frame, &used) != 1 || used != peer->frame.length)
        return refuse (peers, peer, CHANNEL_WRONG);
    return 1;
}

void
peer_put (struct peer *peer, const struct strbuf *frame)
{
    if (frame->failed)
        peer->is_dead = true;
    else if (channel_is_open (&peer->channel) && !peer->is_dead)
        channel_put (&peer->channel, frame->text, frame->length, &peer->pipe.to_write);
}

void
peer_put_number (struct peer *peer, enum wire_type type, int64_t number)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    wire_put_frame (&frame, type, number);
    peer_put (peer, &frame);
}

/* Clocks of machines differ: what travels is how long ago it was. */
void
peer_put_failure (struct peer *peer, enum wire_type type, const struct peers_machine *machine)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, type);
    wire_put_number (&frame, machine->failed_ns ? clock_ns () - machine->failed_ns : -1);
    wire_put_number (&frame, machine->end);
    wire_put_number (&frame, machine->status);
    wire_put_text (&frame, machine->text);
    wire_put_text (&frame, machine->json);
    wire_end (&frame, begin);
    peer_put (peer, &frame);
}

void
peer_flush (struct peers *peers, struct peer *peer)
{
    if (peer->is_dead || peer->is_connecting)
        return;
    if (peer->pipe.to_write.failed || !pipe_flush (&peer->pipe)) {
        peer->pipe.to_write.length = peer->pipe.written = 0; /* what the other side has said is still read */
        return;
    }
    bool wants = pipe_has_output (&peer->pipe);
    if (!wants && peer->is_leaving)
        peer->is_dead = true;
    if (wants == peer->is_write_watched)
        return;
    struct epoll_event event = { .events = EPOLLIN | (wants ? EPOLLOUT : 0), .data.ptr = peer };
    epoll_ctl (peers->epoll, EPOLL_CTL_MOD, peer->pipe.in, &event);
    peer->is_write_watched = wants;
}

bool
peers_is_flushed (const struct peers *peers)
{
    for (const struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead && pipe_has_output (&peer->pipe))
            return false;
    return true;
}

void
peer_release (struct peer *peer)
{
    pipe_close (&peer->pipe);
    strbuf_release (&peer->frame);
    sodium_memzero (&peer->channel, sizeof peer->channel);
    free (peer);
}

void
peers_remove_dead (struct peers *peers)
{
    for (struct peer **at = &peers->first; *at;) {
        struct peer *peer = *at;
        if (!peer->is_dead) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        peer_release (peer);
    }
}
