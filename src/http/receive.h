/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes and headers of an answer, as libcurl calls them; `data` is the transfer. */
#ifndef HTTP_RECEIVE_H
#define HTTP_RECEIVE_H

#include <stddef.h>

size_t receive_body (char *bytes, size_t size, size_t count, void *data);
size_t receive_header (char *bytes, size_t size, size_t count, void *data);

#endif
