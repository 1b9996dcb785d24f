/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses without their passwords; see credentials.h. */
#include <config.h>

#include "util/credentials.h"

#include <string.h>

void
text_hide_credentials (const char *text, struct strbuf *out)
{
    for (const char *mark; (mark = strstr (text, "://"));) {
        const char *host = mark + 3;
        /* Up to the last '@' before a slash or the address's end; '#' and '?' may be a password's. */
        size_t length = strcspn (host, "/ \t\n\"'");
        const char *at = memrchr (host, '@', length);
        strbuf_add_bytes (out, text, (size_t) (host - text));
        if (at)
            strbuf_add (out, "***");
        text = at ? at : host;
    }
    strbuf_add (out, text);
}
