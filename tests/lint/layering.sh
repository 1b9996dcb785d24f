#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Dependencies run one way: cli -> launch -> config -> util, cli -> lib -> util; and a few things have one place only.
. "${srcdir:-.}/tests/testlib.sh"

# includes FOLDER FORBIDDEN...: no file of src/FOLDER includes "FORBIDDEN/...".
includes () {
    folder=$1
    shift
    for forbidden in "$@"; do
        test_expect_success "src/$folder does not include $forbidden/" \
            "! grep -rnE '^#[[:space:]]*include[[:space:]]+\"(src/)?$forbidden/' '$srcdir/src/$folder'"
    done
}

includes util lib config launch cli
includes lib config launch cli
includes config lib launch cli
includes launch lib cli
includes selftest util lib config launch cli

test_expect_success 'util, config and launch do not include the public headers' \
    "! grep -rnE '^#[[:space:]]*include[[:space:]]+<accel/' '$srcdir/src/util' '$srcdir/src/config' '$srcdir/src/launch'"
test_expect_success 'public headers include only each other, DLPack and the C standard' \
    "! grep -rnE '^#[[:space:]]*include' '$srcdir/include' --include='*.h' | grep -vE '<(accel/[a-z]+|dlpack/dlpack|stdbool|stddef|stdint)\.h>'"
test_expect_success 'public C++ headers include them and the C++ standard' \
    "! grep -rnE '^#[[:space:]]*include' '$srcdir/include' --include='*.hpp' | grep -vE '<(accel/accel\.h|accel/hpp/[a-z]+\.hpp|[a-z_]+)>'"
test_expect_success 'includes are written from src/ (no "../", no bare "file.h")' \
    "! grep -rnE '^#[[:space:]]*include[[:space:]]+\"(\.\.|[^/\"]+\")' '$srcdir/src' --include='*.[ch]'"
test_expect_success 'every source file includes <config.h> first' \
    "! grep -rLZ --include='*.c' '^#include <config.h>' '$srcdir/src' | grep -z . &&
     ! awk 'FNR == 1 { seen = 0 } /^#[ ]*include/ && !seen { seen = 1; if (\$0 != \"#include <config.h>\") print FILENAME \": \" \$0 }' \
         \$(find '$srcdir/src' -name '*.c') | grep ."
test_expect_success '#if HAVE_... only in backends, device and the prompt' \
    "! grep -rnE '^#[[:space:]]*(if|ifdef|ifndef|elif).*HAVE_' '$srcdir/src' --include='*.[ch]' |
         grep -vE '/src/(lib/(backends|device)/|cli/prompt\.c|util/compat\.h)'"
test_expect_success 'nobody sets variables of the environment but the launcher, for its children' \
    "! grep -rnwE 'setenv|putenv|unsetenv|clearenv' '$srcdir/src' --include='*.[ch]'"
test_expect_success 'no shell is given a string' \
    "! grep -rnwE 'system|popen|wordexp' '$srcdir/src' --include='*.c' | grep -E '(system|popen|wordexp) ?\('"
test_done
