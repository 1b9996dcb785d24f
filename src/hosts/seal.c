/* SPDX-License-Identifier: Apache-2.0 */
/* Greetings, keys of the directions, sealed frames; see seal.h. */
#include <config.h>

#include "hosts/seal.h"

#include "hosts/wire.h"

#include <stdint.h>
#include <string.h>

enum {
    LENGTH_BYTES = 4,
    HEADER_BYTES = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    TAG_BYTES = crypto_secretstream_xchacha20poly1305_ABYTES,
};

/* The last byte is the version of what follows; a launcher of another one is a stranger. */
static const unsigned char magic[SEAL_GREETING_BYTES - SEAL_NONCE_BYTES] = "accelerate-crew\001";

static void
greet (struct seal *seal, struct strbuf *out)
{
    strbuf_add_bytes (out, magic, sizeof magic);
    strbuf_add_bytes (out, seal->nonce, sizeof seal->nonce);
}

void
seal_init (struct seal *seal, bool is_main, struct strbuf *out)
{
    *seal = (struct seal){ .is_main = is_main };
    randombytes_buf (seal->nonce, sizeof seal->nonce);
    if (!is_main)
        greet (seal, out);
}

/* @from_main  the direction */
static void
derive (const struct seal *seal, const struct seal_key *key, const unsigned char *other, bool from_main,
        unsigned char *result)
{
    static const unsigned char directions[2][8] = { "to main", "of main" };
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init (&state, key->bytes, key->length);
    crypto_auth_hmacsha256_update (&state, magic, sizeof magic);
    crypto_auth_hmacsha256_update (&state, directions[from_main], sizeof directions[from_main]);
    crypto_auth_hmacsha256_update (&state, seal->is_main ? seal->nonce : other, SEAL_NONCE_BYTES);
    crypto_auth_hmacsha256_update (&state, seal->is_main ? other : seal->nonce, SEAL_NONCE_BYTES);
    crypto_auth_hmacsha256_final (&state, result);
    sodium_memzero (&state, sizeof state);
}

/* Our stream begins with its header, which the other side needs. */
static enum seal_result
take_greeting (struct seal *seal, const struct seal_key *key, const char *bytes, size_t length, struct strbuf *out,
               size_t *used)
{
    unsigned char own[crypto_secretstream_xchacha20poly1305_KEYBYTES], header[HEADER_BYTES];
    size_t known = length < sizeof magic ? length : sizeof magic;
    if (memcmp (bytes, magic, known) != 0)
        return SEAL_FOREIGN;
    if (length < SEAL_GREETING_BYTES)
        return SEAL_MORE;
    const unsigned char *other = (const unsigned char *) bytes + sizeof magic;
    if (seal->is_main)
        greet (seal, out);
    derive (seal, key, other, seal->is_main, own);
    derive (seal, key, other, !seal->is_main, seal->pull_key);
    crypto_secretstream_xchacha20poly1305_init_push (&seal->push, header, own);
    sodium_memzero (own, sizeof own);
    strbuf_add_bytes (out, header, sizeof header);
    seal->has_greeted = true;
    *used = SEAL_GREETING_BYTES;
    return SEAL_FRAME;
}

static enum seal_result
take_header (struct seal *seal, const char *bytes, size_t length, size_t *used)
{
    if (length < HEADER_BYTES)
        return SEAL_MORE;
    crypto_secretstream_xchacha20poly1305_init_pull (&seal->pull, (const unsigned char *) bytes, seal->pull_key);
    sodium_memzero (seal->pull_key, sizeof seal->pull_key);
    seal->has_begun = true;
    *used = HEADER_BYTES;
    return SEAL_FRAME;
}

static size_t
get_length (const char *bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        length |= (size_t) (unsigned char) bytes[i] << (8 * i);
    return length;
}

static enum seal_result
take_message (struct seal *seal, const char *bytes, size_t length, struct strbuf *frame, size_t *used)
{
    unsigned char tag;
    if (length < LENGTH_BYTES)
        return SEAL_MORE;
    size_t sealed = get_length (bytes);
    if (sealed < TAG_BYTES || sealed > (seal->has_opened ? WIRE_FRAME_BYTES + 1024 : SEAL_FIRST_BYTES))
        return SEAL_WRONG;
    if (length - LENGTH_BYTES < sealed)
        return SEAL_MORE;
    strbuf_truncate (frame, 0);
    strbuf_add_bytes (frame, bytes + LENGTH_BYTES, sealed); /* for its room; then opened in place of the copy */
    if (frame->failed
        || crypto_secretstream_xchacha20poly1305_pull (&seal->pull, (unsigned char *) frame->text, NULL, &tag,
                                                      (const unsigned char *) bytes + LENGTH_BYTES, sealed, NULL, 0))
        return SEAL_WRONG;
    strbuf_truncate (frame, sealed - TAG_BYTES);
    seal->has_opened = true;
    *used = LENGTH_BYTES + sealed;
    return SEAL_FRAME;
}

enum seal_result
seal_next (struct seal *seal, const struct seal_key *key, const char *bytes, size_t length, struct strbuf *out,
           struct strbuf *frame, size_t *used)
{
    size_t part = 0;
    enum seal_result result = SEAL_FRAME;
    *used = 0;
    if (!seal->has_greeted) {
        result = take_greeting (seal, key, bytes, length, out, &part);
        *used += part;
    }
    if (result == SEAL_FRAME && !seal->has_begun) {
        result = take_header (seal, bytes + *used, length - *used, &part);
        *used += result == SEAL_FRAME ? part : 0;
    }
    if (result == SEAL_FRAME) {
        result = take_message (seal, bytes + *used, length - *used, frame, &part);
        *used += result == SEAL_FRAME ? part : 0;
    }
    return result;
}

void
seal_put (struct seal *seal, const char *frame, size_t length, struct strbuf *out)
{
    unsigned char head[LENGTH_BYTES];
    size_t sealed = length + TAG_BYTES, begin = out->length;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        head[i] = (unsigned char) (sealed >> (8 * i));
    strbuf_add_bytes (out, head, sizeof head);
    strbuf_add_bytes (out, frame, length);
    strbuf_add_bytes (out, head, sizeof head); /* room for the tag */
    for (size_t room = sizeof head; room < TAG_BYTES; room++)
        strbuf_add_char (out, 0);
    if (!out->failed)
        crypto_secretstream_xchacha20poly1305_push (&seal->push, (unsigned char *) out->text + begin + LENGTH_BYTES,
                                                    NULL, (const unsigned char *) frame, length, NULL, 0,
                                                    crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}
