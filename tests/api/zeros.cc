/* SPDX-License-Identifier: Apache-2.0 */
/* Call each exported function with zeros: none may crash or hang.  "exports.h" has a line EXPORT (name) for each.
 *
 * Each call has a process of its own.  It may end the process: accel_check() does so by contract, and says why. */
#include <accel/accel.h>

#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

namespace {

enum { SECONDS = 60 };

template <class Result, class... Arguments>
void
call (Result (*function) (Arguments...))
{
    (void) function (Arguments{}...);
}

template <class Result, class... Arguments>
void
call (Result (*function) (Arguments..., ...))
{
    (void) function (Arguments{}...);
}

const struct {
    const char *name;
    void (*call) ();
} functions[] = {
#define EXPORT(name) { #name, [] { call (name); } },
#include "exports.h"
};

/* @return whether the process ended by itself */
bool
survives (void (*function) ())
{
    int status = 0;
    std::fflush (nullptr);
    pid_t child = fork ();
    if (!child) {
        alarm (SECONDS);
        function ();
        _exit (0);
    }
    return child > 0 && waitpid (child, &status, 0) == child && WIFEXITED (status);
}

}

int
main ()
{
    int failed = 0;
    for (const auto &one : functions)
        if (!survives (one.call)) {
            std::printf ("%s crashes\n", one.name);
            failed++;
        }
    std::printf ("%zu functions, %d crash\n", sizeof functions / sizeof *functions, failed);
    return failed != 0;
}
