/* SPDX-License-Identifier: Apache-2.0 */
/* Greetings, keys of the directions, sealed frames; see channel.h. */
#include <config.h>

#include "hosts/net/channel.h"

#include "hosts/net/wire.h"

#include <string.h>

enum {
    LENGTH_BYTES = 4,
    HEADER_BYTES = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    TAG_BYTES = crypto_secretstream_xchacha20poly1305_ABYTES,
};

/* The last byte is the version of what follows; a launcher with a different one is a stranger. */
static const unsigned char magic[CHANNEL_GREETING_BYTES - CHANNEL_NONCE_BYTES] = "accelerate-peer\001";

static void
greet (struct channel *channel, struct strbuf *out)
{
    strbuf_add_bytes (out, magic, sizeof magic);
    strbuf_add_bytes (out, channel->nonce, sizeof channel->nonce);
}

void
channel_init (struct channel *channel, bool is_main, struct strbuf *out)
{
    *channel = (struct channel){ .is_main = is_main };
    randombytes_buf (channel->nonce, sizeof channel->nonce);
    if (!is_main)
        greet (channel, out);
}

/* @from_main  the direction */
static void
derive (const struct channel *channel, const struct channel_key *key, const unsigned char *other, bool from_main,
        unsigned char *result)
{
    static const unsigned char directions[2][8] = { "to main", "of main" };
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init (&state, key->bytes, key->length);
    crypto_auth_hmacsha256_update (&state, magic, sizeof magic);
    crypto_auth_hmacsha256_update (&state, directions[from_main], sizeof directions[from_main]);
    crypto_auth_hmacsha256_update (&state, channel->is_main ? channel->nonce : other, CHANNEL_NONCE_BYTES);
    crypto_auth_hmacsha256_update (&state, channel->is_main ? other : channel->nonce, CHANNEL_NONCE_BYTES);
    crypto_auth_hmacsha256_final (&state, result);
    sodium_memzero (&state, sizeof state);
}

/* Our stream begins with its header, which the other side needs. */
static enum channel_result
take_greeting (struct channel *channel, const struct channel_key *key, const char *bytes, size_t length,
               struct strbuf *out, size_t *used)
{
    unsigned char own[crypto_secretstream_xchacha20poly1305_KEYBYTES], header[HEADER_BYTES];
    size_t known = length < sizeof magic ? length : sizeof magic;
    if (memcmp (bytes, magic, known) != 0)
        return CHANNEL_FOREIGN;
    if (length < CHANNEL_GREETING_BYTES)
        return CHANNEL_MORE;
    const unsigned char *other = (const unsigned char *) bytes + sizeof magic;
    if (channel->is_main)
        greet (channel, out);
    derive (channel, key, other, channel->is_main, own);
    derive (channel, key, other, !channel->is_main, channel->pull_key);
    crypto_secretstream_xchacha20poly1305_init_push (&channel->push, header, own);
    sodium_memzero (own, sizeof own);
    strbuf_add_bytes (out, header, sizeof header);
    channel->has_greeted = true;
    *used = CHANNEL_GREETING_BYTES;
    return CHANNEL_FRAME;
}

static enum channel_result
take_header (struct channel *channel, const char *bytes, size_t length, size_t *used)
{
    if (length < HEADER_BYTES)
        return CHANNEL_MORE;
    crypto_secretstream_xchacha20poly1305_init_pull (&channel->pull, (const unsigned char *) bytes, channel->pull_key);
    sodium_memzero (channel->pull_key, sizeof channel->pull_key);
    channel->has_begun = true;
    *used = HEADER_BYTES;
    return CHANNEL_FRAME;
}

static enum channel_result
take_message (struct channel *channel, const char *bytes, size_t length, struct strbuf *frame, size_t *used)
{
    unsigned char tag;
    if (length < LENGTH_BYTES)
        return CHANNEL_MORE;
    size_t sealed = (size_t) wire_get_little (bytes, LENGTH_BYTES);
    if (sealed < TAG_BYTES || sealed > (channel->has_opened ? WIRE_FRAME_BYTES + 1024 : CHANNEL_FIRST_BYTES))
        return CHANNEL_WRONG;
    if (length - LENGTH_BYTES < sealed)
        return CHANNEL_MORE;
    strbuf_truncate (frame, 0);
    strbuf_add_bytes (frame, bytes + LENGTH_BYTES, sealed); /* for its room; then opened in place of the copy */
    if (frame->failed
        || crypto_secretstream_xchacha20poly1305_pull (&channel->pull, (unsigned char *) frame->text, NULL, &tag,
                                                      (const unsigned char *) bytes + LENGTH_BYTES, sealed, NULL, 0))
        return CHANNEL_WRONG;
    strbuf_truncate (frame, sealed - TAG_BYTES);
    channel->has_opened = true;
    *used = LENGTH_BYTES + sealed;
    return CHANNEL_FRAME;
}

enum channel_result
channel_next (struct channel *channel, const struct channel_key *key, const char *bytes, size_t length,
              struct strbuf *out, struct strbuf *frame, size_t *used)
{
    size_t part = 0;
    enum channel_result result = CHANNEL_FRAME;
    *used = 0;
    if (!channel->has_greeted) {
        result = take_greeting (channel, key, bytes, length, out, &part);
        *used += part;
    }
    if (result == CHANNEL_FRAME && !channel->has_begun) {
        result = take_header (channel, bytes + *used, length - *used, &part);
        *used += result == CHANNEL_FRAME ? part : 0;
    }
    if (result == CHANNEL_FRAME) {
        result = take_message (channel, bytes + *used, length - *used, frame, &part);
        *used += result == CHANNEL_FRAME ? part : 0;
    }
    return result;
}

void
channel_put (struct channel *channel, const char *frame, size_t length, struct strbuf *out)
{
    unsigned char head[LENGTH_BYTES];
    size_t sealed = length + TAG_BYTES, begin = out->length;
    wire_put_little (head, sizeof head, sealed);
    strbuf_add_bytes (out, head, sizeof head);
    strbuf_add_bytes (out, frame, length);
    strbuf_add_bytes (out, head, sizeof head); /* room for the tag */
    for (size_t room = sizeof head; room < TAG_BYTES; room++)
        strbuf_add_char (out, 0);
    if (!out->failed)
        crypto_secretstream_xchacha20poly1305_push (&channel->push, (unsigned char *) out->text + begin + LENGTH_BYTES,
                                                    NULL, (const unsigned char *) frame, length, NULL, 0,
                                                    crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}
