/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of what comes in through the sockets of launchers: from strangers, from launchers that share the key, and from
 * processes of MPI on this host.  The first byte chooses. */
#include <config.h>

#include "hosts/blame.h"
#include "hosts/crew_state.h"
#include "hosts/standin.h"
#include "tests/fuzz/target.h"

enum { MACHINES = 3, RANKS = 6 };

static void
set_key (struct seal_key *key)
{
    *key = (struct seal_key){ .length = SEAL_KEY_LEAST };
    memset (key->bytes, 'k', key->length);
}

/* Without the key nobody gets as far as a frame. */
static void
take_bytes (int machine, const char *bytes, size_t length)
{
    struct seal_key key;
    struct crew crew = { .machine = machine, .key = &key };
    struct crew_peer peer = { .name = "stranger" };
    struct wire_frame frame;
    size_t half = length / 2;
    set_key (&key);
    seal_init (&peer.seal, machine == 0, &peer.pipe.to_write);
    strbuf_add_bytes (&peer.pipe.input, bytes, half);
    if (crew_peer_next (&crew, &peer, &frame) > 0)
        abort ();
    strbuf_add_bytes (&peer.pipe.input, bytes + half, length - half);
    if (crew_peer_next (&crew, &peer, &frame) > 0 || peer.pipe.taken > length || peer.seal.has_opened)
        abort ();
    strbuf_release (&peer.pipe.to_write);
    strbuf_release (&peer.pipe.input);
    strbuf_release (&peer.frame);
}

struct side {
    struct seal seal;
    struct strbuf sent, frame;
};

static enum seal_result
take (struct side *to, struct side *from, const struct seal_key *key)
{
    size_t used;
    enum seal_result result = seal_next (&to->seal, key, from->sent.text, from->sent.length, &to->sent, &to->frame,
                                         &used);
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
    struct seal_key key;
    if (length < 3 || length > SEAL_FIRST_BYTES / 2)
        return;
    set_key (&key);
    for (int i = 0; i < 2; i++)
        seal_init (&sides[i].seal, i == 0, &sides[i].sent);
    if (take (&sides[0], &sides[1], &key) != SEAL_MORE || take (&sides[1], &sides[0], &key) != SEAL_MORE)
        abort ();
    seal_put (&sides[1].seal, bytes + 2, length - 2, &sides[1].sent);
    size_t place = (unsigned char) bytes[1] % sides[1].sent.length;
    sides[1].sent.text[place] ^= bytes[0];
    enum seal_result result = take (&sides[0], &sides[1], &key);
    bool is_same = sides[0].frame.length == length - 2 && !memcmp (sides[0].frame.text, bytes + 2, length - 2);
    if (bytes[0] ? result == SEAL_FRAME : result != SEAL_FRAME || !is_same)
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
    struct crew_machine all[MACHINES] = { { .state = MACHINE_JOINED, .host = strdup ("host1"), .ranks = 2 } };
    struct blame blames[MACHINES];
    struct crew crew = { .machine = machine, .machines = MACHINES, .port = 29500, .all = all, .own = all,
                         .blames = blames, .settings = &settings, .plan = &plan };
    struct crew_peer peer = { .name = "launcher" };
    struct wire_frame frame;
    size_t used;
    while (!peer.is_dead && wire_next (bytes, length, &frame, &used) == 1) {
        if (machine)
            crew_member_take (&crew, &peer, &frame);
        else
            crew_main_take (&crew, &peer, &frame);
        bytes += used;
        length -= used;
    }
    if (machine)
        crew_member_think (&crew);
    else
        crew_main_think (&crew, true);
    for (int i = 0; i < (machine ? 1 : MACHINES); i++) {
        crew_reset_machine (&all[i]);
        free (all[i].host);
    }
    crew_release_verdict (&crew.verdict);
    strbuf_release (&crew.to_say);
    strbuf_release (&peer.pipe.to_write);
    free (crew.main_host);
}

static void
take_standin (const char *bytes, size_t length)
{
    struct standin standin = { .fd = -1, .passed_fd = -1 };
    int64_t parent;
    bool is_one = standin_read (&standin, &parent, bytes, length);
    for (size_t i = 0; is_one && i < standin.variables.count; i++)
        if (!standin.variables.items[i])
            abort ();
    strlist_release (&standin.variables);
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
    default: take_standin (bytes, size - 1);
    }
    return 0;
}
