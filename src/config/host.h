/* SPDX-License-Identifier: Apache-2.0 */
/* Names and addresses of hosts, by their form alone: nothing here asks a name server. */
#ifndef CONFIG_HOST_H
#define CONFIG_HOST_H

#include "util/strbuf.h"

/** Append @p text, which host_complaint() accepts, as getaddrinfo(3) takes it: an IPv6 address without brackets. */
void host_add_bare (struct strbuf *out, const char *text);

/** What is wrong with the form of @p text as a host name, an IPv4 or an IPv6 address; NULL: nothing. */
const char *host_complaint (const char *text);

#endif
