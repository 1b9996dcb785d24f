/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a URL that decide where a request goes. */
#ifndef HTTP_URL_H
#define HTTP_URL_H

#include <stdbool.h>
#include <stddef.h>

/** Points into the URL; `port` perhaps at the scheme's usual port. */
struct url {
    const char *scheme, *host, *port, *path;
    size_t scheme_length, host_length, port_length;
};

/** @return false if @p url is not an http or https URL with a host. */
bool url_split (const char *url, struct url *parts);

#endif
