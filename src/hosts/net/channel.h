/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between two launchers that share a key, authenticated and encrypted frame by frame.
 *
 * Each side sends a greeting: a fixed text and 32 random bytes.  HMAC-SHA256 of the key over a text for the direction
 * and both random parts gives one key per direction, so that nothing can be replayed or sent back.  From then on every
 * frame is a message of libsodium's secretstream (XChaCha20-Poly1305): a changed, repeated, left out or foreign one is
 * noticed.  The key itself never travels. */
#ifndef HOSTS_NET_CHANNEL_H
#define HOSTS_NET_CHANNEL_H

#include "util/strbuf.h"

#include <sodium.h>
#include <stdbool.h>

enum {
    CHANNEL_KEY_LEAST = 16, /* bytes of a key */
    CHANNEL_KEY_MOST = 4096,
    CHANNEL_NONCE_BYTES = 32,
    CHANNEL_GREETING_BYTES = 16 + CHANNEL_NONCE_BYTES,
    CHANNEL_FIRST_BYTES = 4096, /* of the first message, which may be from a stranger; later ones are frames */
};

struct channel_key {
    unsigned char bytes[CHANNEL_KEY_MOST];
    size_t length; /* 0: none */
};

/** One side of a connection. */
struct channel {
    bool is_main; /* the side that listens */
    bool has_greeted, has_begun, has_opened; /* the other side: sent its greeting, its stream's header, a message */
    unsigned char nonce[CHANNEL_NONCE_BYTES];
    unsigned char pull_key[crypto_secretstream_xchacha20poly1305_KEYBYTES];
    crypto_secretstream_xchacha20poly1305_state push, pull;
};

/** What channel_next() found. */
enum channel_result {
    CHANNEL_MORE = 0, /* nothing whole yet */
    CHANNEL_FRAME = 1, /* a frame */
    CHANNEL_FOREIGN = -1, /* the other side is not a launcher of this command, or one whose greeting differs */
    CHANNEL_WRONG = -2, /* another key, or the bytes were changed */
};

/** Begin a connection.  The side that connects greets at once, the other once it has been greeted. */
void channel_init (struct channel *channel, bool is_main, struct strbuf *out);

/** Append @p frame, sealed, to @p out; after the other side's greeting only. */
void channel_put (struct channel *channel, const char *frame, size_t length, struct strbuf *out);

/**
 * Take what the other side has sent.
 *
 * @param[out] out    where to write an answer to a greeting
 * @param[out] frame  the bytes of one frame, of CHANNEL_FRAME
 * @param[out] used   how many of @p bytes were used, whatever the result
 */
enum channel_result channel_next (struct channel *channel, const struct channel_key *key, const char *bytes,
                                  size_t length, struct strbuf *out, struct strbuf *frame, size_t *used);

/** Whether channel_put() may be called. */
static inline bool
channel_is_open (const struct channel *channel)
{
    return channel->has_greeted;
}

#endif
