/* SPDX-License-Identifier: Apache-2.0 */
/* In place of pack.c in a build without libarchive (--with-archive=no): nothing can be packed. */
#include <config.h>

#include "sagemaker/pack.h"

int
pack_write (int fd, const struct source *source, int stop_fd, struct fail *fail)
{
    (void) fd, (void) source, (void) stop_fd;
    return fail_set (fail, FAIL_GENERAL, "this build cannot pack source code for SageMaker: it was configured without "
                     "libarchive (--with-archive)");
}
