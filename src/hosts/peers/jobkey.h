/* SPDX-License-Identifier: Apache-2.0 */
/* The secret that the launchers of a job share, if one is started by hand on each machine: the content of a file. */
#ifndef HOSTS_PEERS_JOBKEY_H
#define HOSTS_PEERS_JOBKEY_H

#include "hosts/net/channel.h"
#include "util/fail.h"

/**
 * Read the key from @p file, or from the user's own file (path_of_job_key()).
 *
 * A file that other users may read is refused: its key is not a secret.
 *
 * @param file    of --job_key_file; NULL: the user's own
 * @param create  make a new key if the user's own file does not exist
 */
int jobkey_read (struct channel_key *key, const char *file, bool create, struct fail *fail);

#endif
