/* SPDX-License-Identifier: Apache-2.0 */
/* Names and addresses of hosts; see host.h.  What getaddrinfo(3) would take must pass: inet_aton's short forms (127.1),
 * a zone at an IPv6 address, underscores and bytes of other alphabets in names, one dot at the end.
 *
 * Brackets around an IPv6 address pass, too, although getaddrinfo does not take them: torchrun, which Hugging Face
 * Accelerate starts, removes them (torch/distributed/elastic/rendezvous/utils.py), and so do we. */
#include <config.h>

#include "config/host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST_NAME = 253, LONGEST_LABEL = 63 };

static bool
has_brackets_around (const char *text)
{
    return *text == '[' && text[strlen (text) - 1] == ']';
}

void
host_add_bare (struct strbuf *out, const char *text)
{
    bool has_brackets = has_brackets_around (text);
    strbuf_add_bytes (out, text + has_brackets, strlen (text) - 2 * has_brackets);
}

static bool
is_ipv6 (const char *text)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr unused;
    bool has_brackets = has_brackets_around (text);
    text += has_brackets;
    size_t length = strcspn (text, has_brackets ? "%]" : "%"); /* fe80::1%eth0 */
    if (text[length] == '%' && !text[length + 1])
        return false;
    if (length >= sizeof address)
        return false;
    memcpy (address, text, length);
    address[length] = '\0';
    return inet_pton (AF_INET6, address, &unused) == 1;
}

static bool
is_label (const char *text, size_t length)
{
    if (!length || length > LONGEST_LABEL || text[0] == '-' || text[length - 1] == '-')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum ((unsigned char) text[i]) && text[i] != '-' && text[i] != '_' && !(text[i] & 0x80))
            return false;
    return true;
}

static bool
is_name (const char *text)
{
    size_t whole = strlen (text);
    if (!whole || whole > LONGEST_NAME + (text[whole - 1] == '.'))
        return false;
    while (*text) {
        size_t length = strcspn (text, ".");
        if (!is_label (text, length))
            return false;
        text += length + (text[length] == '.');
    }
    return true;
}

const char *
host_complaint (const char *text)
{
    struct in_addr unused;
    if (strchr (text, ':'))
        return is_ipv6 (text)                           ? NULL
               : strchr (text, ':') == strrchr (text, ':') ? "not a host name (a port goes into main_process_port)"
                                                           : "not an IPv6 address";
    if (strspn (text, "0123456789.") == strlen (text) && *text)
        return inet_aton (text, &unused) ? NULL : "not an IPv4 address";
    return is_name (text) ? NULL : "not a host name";
}
