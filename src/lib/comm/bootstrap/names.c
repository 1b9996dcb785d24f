/* SPDX-License-Identifier: Apache-2.0 */
/* The abstract names at which ranks find local rank 0 under another launcher.
 *
 * The primary name follows from what identifies the job, so every rank can work it out; and so can another user, who
 * may have taken it.  Then rank 0 takes a fallback, which ends in random digits.  No user can take that in advance, and
 * the other ranks find it in the kernel's list of all names. */
#include <config.h>

#include "lib/comm/bootstrap/bootstrap_object.h"

#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/hash.h"
#include "util/parse.h"
#include "util/peer.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FALLBACK_DIGITS = 16 };

/* What tells one job from another on this host; those that a launcher does not set are empty. */
static const char *const identifying[] = {
    ENV_MASTER_ADDR, ENV_MASTER_PORT, ENV_JOB_ID, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMI_PORT", "MV2_COMM_WORLD_ID", "SLURM_JOB_ID", "SLURM_STEP_ID",
};

/* The end of the text separates it from the next part. */
static uint64_t
hash_text (uint64_t hash, const char *text)
{
    return hash_bytes (hash, text, strlen (text) + 1);
}

/* Hydra gives a job no number, but each rank a socket whose other end is held by one process on this host.
 * @return its pid, 0 if there is none */
static int
find_pmi_server (void)
{
    const char *text = getenv ("PMI_FD");
    int64_t fd;
    struct peer peer;
    return text && parse_int64 (text, 0, INT_MAX, &fd) == PARSE_OK && peer_of ((int) fd, &peer) ? (int) peer.pid : 0;
}

void
bootstrap_primary_address (const struct engine_job *job, struct bootstrap_address *address)
{
    uint64_t hash = HASH_START;
    char text[64];
    for (size_t i = 0; i < sizeof identifying / sizeof *identifying; i++) {
        const char *part = getenv (identifying[i]);
        hash = hash_text (hash, part ? part : "");
    }
    snprintf (text, sizeof text, "%d/%d/%d", job->base.world_size, job->base.local_world_size,
              find_pmi_server ());
    hash = hash_text (hash, text);
    snprintf (text, sizeof text, "accel-%u-%016llx", (unsigned) geteuid (), (unsigned long long) hash);
    address->length = peer_address (&address->un, text);
}

bool
bootstrap_fallback_address (const struct bootstrap_address *primary, struct bootstrap_address *address)
{
    uint64_t number;
    char text[96];
    if (getrandom (&number, sizeof number, 0) != sizeof number)
        return false;
    snprintf (text, sizeof text, "%s-%016llx", bootstrap_address_text (primary), (unsigned long long) number);
    address->length = peer_address (&address->un, text);
    return true;
}

FILE *
bootstrap_open_addresses (void)
{
    return fopen ("/proc/self/net/unix", "re");
}

/* Names are the last field of a line: "... 12345 @accel-0-0123456789abcdef-0123456789abcdef". */
bool
bootstrap_next_fallback (FILE *list, const struct bootstrap_address *primary, struct bootstrap_address *address)
{
    char line[512], start[128];
    int length = snprintf (start, sizeof start, " @%s-", bootstrap_address_text (primary));
    while (fgets (line, sizeof line, list)) {
        const char *name = strstr (line, start);
        int digits = 0;
        if (!name)
            continue;
        while (isxdigit ((unsigned char) name[length + digits]))
            digits++;
        if (digits != FALLBACK_DIGITS || name[length + digits] != '\n')
            continue;
        line[strlen (line) - 1] = '\0';
        address->length = peer_address (&address->un, name + 2);
        return true;
    }
    return false;
}
