/* SPDX-License-Identifier: Apache-2.0 */
/* Under which address, and at which port, the hosts of a job reach the one on which rank 0 runs. */
#ifndef HOSTS_NET_ADDRESS_H
#define HOSTS_NET_ADDRESS_H

#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum { ADDRESS_TOKEN_BYTES = 33 }; /* 32 hexadecimal digits and the terminating 0 */

/** Listen at @p port on all addresses of this host.  @return a descriptor that does not block, or -1 with errno */
int address_listen (int port);

/** @return the port of a socket; 0: it has none */
int address_port (int fd);

/** Listens on all addresses of this host, and tells who connects a random token: so no host takes another program, or
 * itself, for this host. */
struct listener {
    int fd; /* -1: none */
    char token[ADDRESS_TOKEN_BYTES];
};

#define LISTENER_NONE { .fd = -1 }

/** Draw a random token, without listening.  @return 0, or -1 with @p fail set */
int listener_draw_token (struct listener *listener, struct fail *fail);

/** @param port  0: any free one */
int listener_open (struct listener *listener, int port, struct fail *fail);

/** Serve those who wait, a limited number per call. */
void listener_answer (struct listener *listener);
void listener_close (struct listener *listener);

/** Append the addresses of this host: the one to which SSH has come first, then those of its network interfaces, IPv4
 * first; neither loopback nor link-local ones.  @param interface  only those of this one; NULL: of all */
void address_list (struct strlist *addresses, const char *interface);

/** Try all addresses at once.
 *  @param one_is_enough  once one has answered, the others are not waited for much longer
 *  @param[out] reached  [addresses->count], whether the listener with @p token is there */
void address_reach (const struct strlist *addresses, int port, const char *token, int64_t timeout_ms,
                    bool one_is_enough, bool *reached);

/** @p until  on clock_ms(), when to give up finding the address of a name
 *  @return a socket that is being connected, not blocking; -1: it cannot be */
int address_begin_connect (const char *address, int port, int64_t until);

#endif
