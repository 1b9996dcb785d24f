/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between two launchers that share a key, authenticated and encrypted frame by frame.
 *
 * Each side sends a greeting: a fixed text and 32 random bytes.  HMAC-SHA256 of the key over a text for the direction
 * and both random parts gives one key per direction, so that nothing can be replayed or sent back.  From then on every
 * frame is a message of libsodium's secretstream (XChaCha20-Poly1305): a changed, repeated, left out or foreign one is
 * noticed.  The key itself never travels. */
#ifndef HOSTS_SEAL_H
#define HOSTS_SEAL_H

#include "util/strbuf.h"

#include <sodium.h>
#include <stdbool.h>

enum {
    SEAL_KEY_LEAST = 16,  /* bytes of a key */
    SEAL_KEY_MOST = 4096,
    SEAL_NONCE_BYTES = 32,
    SEAL_GREETING_BYTES = 16 + SEAL_NONCE_BYTES,
    SEAL_FIRST_BYTES = 4096, /* of the first message, which may be from anybody; later ones are frames */
};

struct seal_key {
    unsigned char bytes[SEAL_KEY_MOST];
    size_t length; /* 0: none */
};

/** One side of a connection. */
struct seal {
    bool is_main; /* the side that listens */
    bool has_greeted, has_begun, has_opened; /* the other side: sent its greeting, its stream's header, a message */
    unsigned char nonce[SEAL_NONCE_BYTES];
    unsigned char pull_key[crypto_secretstream_xchacha20poly1305_KEYBYTES];
    crypto_secretstream_xchacha20poly1305_state push, pull;
};

/** What seal_next() found. */
enum seal_result {
    SEAL_MORE = 0,    /* nothing whole yet */
    SEAL_FRAME = 1,   /* a frame */
    SEAL_FOREIGN = -1, /* the other side is not a launcher of this command, or one whose greeting differs */
    SEAL_WRONG = -2,  /* another key, or somebody has changed the bytes */
};

/** Begin a connection.  The side that connects greets at once, the other once it has been greeted. */
void seal_init (struct seal *seal, bool is_main, struct strbuf *out);

/** Append @p frame, sealed, to @p out; after the other side's greeting only. */
void seal_put (struct seal *seal, const char *frame, size_t length, struct strbuf *out);

/**
 * Take what the other side has sent.
 *
 * @param[out] out    where to write an answer to a greeting
 * @param[out] frame  the bytes of one frame, of SEAL_FRAME
 * @param[out] used   how many of @p bytes were taken, whatever the result
 */
enum seal_result seal_next (struct seal *seal, const struct seal_key *key, const char *bytes, size_t length,
                            struct strbuf *out, struct strbuf *frame, size_t *used);

/** Whether seal_put() may be called. */
static inline bool
seal_is_open (const struct seal *seal)
{
    return seal->has_greeted;
}

#endif
