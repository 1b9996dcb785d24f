/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of the head, which rank 0 reads on the first host. */
#ifndef HOSTS_HEAD_INPUT_H
#define HOSTS_HEAD_INPUT_H

#include "hosts/head/link.h"

/** Of the head. */
struct input {
    int fd;           /* -1: rank 0 gets none */
    bool is_terminal;
    bool has_ended;
    bool is_end_sent; /* to the ranks that run now */
    int64_t sent;     /* bytes, to these ranks */
};

/** @param is_wanted  otherwise rank 0 reads /dev/null */
void input_init (struct input *input, bool is_wanted);

/** What to wait for so that input_pass_on() has something to do; -1: nothing.  @param link  to the first host */
int input_fd (const struct input *input, const struct link *link);

/** Send what has come to @p link. */
void input_pass_on (struct input *input, struct link *link);

/** Ranks are started again: they get what has not been sent yet. */
void input_restart (struct input *input, struct link *link);

#endif
