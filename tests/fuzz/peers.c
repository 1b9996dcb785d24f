/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of what comes in through the sockets of launchers: from strangers, from launchers that share the key, and from
 * processes of MPI on this host.  The first byte chooses. */
#include <config.h>

#include "hosts/mpi/mpi.h"
#include "hosts/peers/state.h"
#include "hosts/root_cause.h"
#include "tests/fuzz/target.h"

enum { MACHINES = 3, RANKS = 6 };

static void
set_key (struct channel_key *key)
{
    *key = (struct channel_key){ .length = CHANNEL_KEY_LEAST };
    memset (key->bytes, 'k', key->length);
}

/* Without the key no peer gets as far as a frame. */
static void
take_bytes (int machine, const char *bytes, size_t length)
{
    struct channel_key key;
    struct peers peers = { .machine = machine, .key = &key };
    struct peer peer = { .name = "stranger" };
    struct wire_frame frame;
    size_t half = length / 2;
    set_key (&key);
    channel_init (&peer.channel, machine == 0, &peer.pipe.to_write);
    strbuf_add_bytes (&peer.pipe.input, bytes, half);
    if (peer_next (&peers, &peer, &frame) > 0)
        abort ();
    strbuf_add_bytes (&peer.pipe.input, bytes + half, length - half);
    if (peer_next (&peers, &peer, &frame) > 0 || peer.pipe.taken > length || peer.channel.has_opened)
        abort ();
    strbuf_release (&peer.pipe.to_write);
    strbuf_release (&peer.pipe.input);
    strbuf_release (&peer.frame);
}

struct side {
    struct channel channel;
    struct strbuf sent, frame;
};

static enum channel_result
take (struct side *to, struct side *from, const struct channel_key *key)
{
    size_t used;
    enum channel_result result = channel_next (&to->channel, key, from->sent.text, from->sent.length, &to->sent,
                                               &to->frame, &used);
    if (used > from->sent.length)
        abort ();
    memmove (from->sent.text, from->sent.text + used, from->sent.length - used);
    strbuf_truncate (&from->sent, from->sent.length - used);
    return result;
}

/* With the key, what arrives is what was sent, or it is refused: one byte may differ by the first of the data. */
static void
take_sealed (const char *bytes, size_t length)
{
    struct side sides[2] = { { .sent = { 0 } } };
    struct channel_key key;
    if (length < 3 || length > CHANNEL_FIRST_BYTES / 2)
        return;
    set_key (&key);
    for (int i = 0; i < 2; i++)
        channel_init (&sides[i].channel, i == 0, &sides[i].sent);
    if (take (&sides[0], &sides[1], &key) != CHANNEL_MORE || take (&sides[1], &sides[0], &key) != CHANNEL_MORE)
        abort ();
    channel_put (&sides[1].channel, bytes + 2, length - 2, &sides[1].sent);
    size_t place = (unsigned char) bytes[1] % sides[1].sent.length;
    sides[1].sent.text[place] ^= bytes[0];
    enum channel_result result = take (&sides[0], &sides[1], &key);
    bool is_same = sides[0].frame.length == length - 2 && !memcmp (sides[0].frame.text, bytes + 2, length - 2);
    if (bytes[0] ? result == CHANNEL_FRAME : result != CHANNEL_FRAME || !is_same)
        abort ();
    for (int i = 0; i < 2; i++) {
        strbuf_release (&sides[i].sent);
        strbuf_release (&sides[i].frame);
    }
}

/* Frames of a launcher that has the key, and may be of any kind. */
static void
take_frames (int machine, const char *bytes, size_t length)
{
    static const struct settings settings = { .grace = 1, .max_restarts = 1, .main_process_ip = (char *) "host1" };
    struct plan plan = { .host = (char *) "host1", .program = (char *) "program", .world_size = RANKS };
    struct peers_machine all[MACHINES] = { { .state = MACHINE_JOINED, .host = strdup ("host1"), .ranks = 2 } };
    struct failure failures[MACHINES];
    struct peers peers = { .machine = machine, .machines = MACHINES, .port = 29500, .all = all, .own = all,
                           .failures = failures, .settings = &settings, .plan = &plan };
    struct peer peer = { .name = "launcher" };
    struct wire_frame frame;
    size_t used;
    while (!peer.is_dead && wire_next (bytes, length, &frame, &used) == 1) {
        if (machine)
            participant_take (&peers, &peer, &frame);
        else
            coordinator_take (&peers, &peer, &frame);
        bytes += used;
        length -= used;
    }
    if (machine)
        participant_decide (&peers);
    else
        coordinator_decide (&peers, true);
    for (int i = 0; i < (machine ? 1 : MACHINES); i++) {
        peers_reset_machine (&all[i]);
        free (all[i].host);
    }
    peers_release_outcome (&peers.outcome);
    peers_release_outcome (&peers.last);
    strbuf_release (&peers.to_say);
    strbuf_release (&peer.pipe.to_write);
    free (peers.main_host);
}

static void
take_mpi_proxy (const char *bytes, size_t length)
{
    struct mpi_proxy proxy = { .fd = -1, .passed_fd = -1 };
    int64_t parent;
    bool is_one = mpi_proxy_read (&proxy, &parent, bytes, length);
    for (size_t i = 0; is_one && i < proxy.variables.count; i++)
        if (!proxy.variables.items[i])
            abort ();
    strlist_release (&proxy.variables);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static bool is_ready;
    if (!is_ready && sodium_init () < 0)
        abort ();
    is_ready = true;
    if (!size)
        return 0;
    const char *bytes = (const char *) data + 1;
    switch (*data) {
    case 'l': take_bytes (0, bytes, size - 1); break;
    case 'c': take_bytes (1, bytes, size - 1); break;
    case 's': take_sealed (bytes, size - 1); break;
    case 'm': take_frames (0, bytes, size - 1); break;
    case 'o': take_frames (1, bytes, size - 1); break;
    default: take_mpi_proxy (bytes, size - 1);
    }
    return 0;
}
