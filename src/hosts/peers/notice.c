/* SPDX-License-Identifier: Apache-2.0 */
/* All launchers are told that their ranks are to save and stop; see state.h. */
#include <config.h>

#include "hosts/peers/state.h"

#include "util/cleanup.h"

#include <string.h>

static void
put_notice (const struct peers *peers, struct peer *peer)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_NOTICE);
    wire_put_text (&frame, peers->notice);
    wire_end (&frame, begin);
    peer_put (peer, &frame);
}

void
peers_put_notice (struct peers *peers, const struct peer *from)
{
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->machine && peer != from && !peer->is_dead)
            put_notice (peers, peer);
}

void
peers_set_notice (struct peers *peers, const char *why, const struct peer *from)
{
    if (peers->notice || !why)
        return;
    peers->notice = strdup (why);
    peers->hook.stop_reason = peers->notice;
    if (peers->notice && (!from || !peers->machine))
        peers_put_notice (peers, from);
}
