#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Dependencies run one way: cli -> hosts -> launch -> config -> util, cli -> report -> util, cli -> hub -> http -> util,
# cli -> sagemaker -> aws -> http -> util, sagemaker -> config -> util, cli -> files -> util, lib -> files -> util; and a few
# things have one place only.
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

includes util files lib config launch hosts http hub aws sagemaker report cli
includes files lib config launch hosts http hub aws sagemaker report cli
includes lib config launch hosts http hub aws sagemaker report cli
includes config files lib launch hosts http hub aws sagemaker report cli
includes launch files lib hosts http hub aws sagemaker report cli
includes hosts files lib http hub aws sagemaker report cli
includes http files lib config launch hosts hub aws sagemaker report cli
includes hub files lib config launch hosts aws sagemaker report cli
includes aws files lib config launch hosts hub sagemaker report cli
includes report files lib config launch hosts http hub aws sagemaker cli
includes sagemaker files lib launch hosts hub report cli
includes selftest util files lib config launch hosts http hub aws sagemaker report cli
includes cuda util files config launch hosts http hub aws sagemaker report cli
includes mlflow files config launch hosts hub aws sagemaker report cli
includes engines util files lib config launch hosts http hub aws sagemaker report cli

# rooms FOLDER LOWEST ... HIGHEST: a room of src/FOLDER includes only rooms before it; src/README.md says what is in them.
rooms () {
    folder=$1
    shift
    printf '%s\n' "$@" | LC_ALL=C sort >rooms
    test_expect_success "src/$folder has these rooms" "(cd '$srcdir/src/$folder' && ls -d */) | tr -d / | LC_ALL=C sort | diff rooms -"
    while test $# -gt 1; do
        room=$1
        shift
        for higher; do
            test_expect_success "src/$folder/$room does not include $folder/$higher/" \
                "! grep -rnE '^#[[:space:]]*include[[:space:]]+\"$folder/$higher/' '$srcdir/src/$folder/$room'"
        done
    done
}

rooms launch machine plan process output stacks job report watch
rooms hosts net list mpi agent head peers check
rooms lib/train reducer optimizer scheduler
rooms lib/data datasets

# ---- the floors of src/lib, which HACKING.md lists ----

sed -n '/^```floors$/,/^```$/ s/^\([0-9][0-9]*\)  *\([a-z]*\) .*/\1 \2/p' "$srcdir/HACKING.md" >floors

# pairs_of_includes FOLDER: "base/error.c base/error.h" for each include in the sources under FOLDER.
pairs_of_includes () {
    (cd "$1" && grep -rnoE '^#[[:space:]]*include[[:space:]]+"lib/[^"]*' --include='*.[ch]' .) |
        sed 's|^\./\([^:]*\):.*"lib/|\1 |'
}

# pairs_of_calls FOLDER: the same for symbols, from the objects under FOLDER whose sources are still there.
pairs_of_calls () {
    (cd "$1" && find . -name '*.o' -exec nm -A -P {} +) |
        awk -v sources="$(cd "$srcdir/src/lib" && find . -name '*.c')" '
            BEGIN { n = split (sources, list, "\n"); for (i = 1; i <= n; i++) exists[list[i]] = 1; n = 0 }
            { file = $1; sub (/\.libs\//, "", file); sub (/o:$/, "c", file) }
            !(file in exists) { next }
            { sub (/^\.\//, "", file) }
            $3 ~ /^[TDBRV]$/ { home[$2] = file }
            $3 ~ /^[Uw]$/ { user[++n] = file; symbol[n] = $2 }
            END { for (i = 1; i <= n; i++) if (symbol[i] in home) print user[i], home[symbol[i]] }'
}

# upward: of pairs "USER USED", those that leave their folder for one that is not on a lower floor, as "USER -> USED".
upward () {
    awk 'NR == FNR { floor[$2] = $1; next }
         { split ($1, user, "/"); split ($2, used, "/") }
         user[1] != used[1] && (!(used[1] in floor) || !(user[1] in floor) || floor[used[1]] >= floor[user[1]]) {
             print $1 " -> " $2
         }' floors - | LC_ALL=C sort -u
}

printf '%s\n' 'comm/a.c state/a.h' 'kernels/a.c tree/a.h' 'comm/a.c attic/a.h' 'comm/a.c base/a.h' 'comm/a.c comm/b.h' |
    upward >planted
test_expect_success 'planted: up, beside and to a folder without a floor' 'test "$(wc -l <planted)" -eq 3'
test_expect_success 'each folder of src/lib has a floor in HACKING.md, and each floor a folder' \
    '(cd "$srcdir/src/lib" && ls -d */*.c) | cut -d / -f 1 | sort -u >folders && cut -d " " -f 2 floors | sort | diff folders -'
pairs_of_includes "$srcdir/src/lib" | upward >upward_includes
test_expect_success 'src/lib includes only what is on lower floors' 'diff /dev/null upward_includes'
pairs_of_calls "$builddir/src/lib" >calls
if test "$(wc -l <calls)" -gt 1000; then
    upward <calls >upward_calls
    test_expect_success 'src/lib calls only what is on lower floors' 'diff /dev/null upward_calls'
else
    test_skip 'src/lib calls only what is on lower floors' 'needs the objects of a build, and nm'
fi

# The floors of src/config: HACKING.md names files without .c and .h, and folders with a slash at the end.
sed -n '/^```config$/,/^```$/p' "$srcdir/HACKING.md" | sed 's/^\([0-9]\)  */\1,/; s/   *.*$//; s/, */,/g' |
    awk -F , '/^[0-9],/ { for (i = 2; i <= NF; i++) print $1, $i }' >config_floors
above () {
    awk 'function place (name) {
             sub (/\.[ch]$/, "", name)
             if (!(name in floor)) sub (/\/.*/, "/", name)
             return name in floor ? floor[name] : "none"
         }
         NR == FNR { floor[$2] = $1; next }
         place ($1) == "none" || place ($2) == "none" || place ($2) > place ($1) { print $1 " -> " $2 }' config_floors -
}
printf '%s\n' 'tee.c table/options.h' 'attic.c tee.h' 'emit/man.c table/options.h' 'text/yaml.c text/tree.h' | above >planted
test_expect_success 'planted: up, and a file of src/config without a floor' 'test "$(wc -l <planted)" -eq 2'
(cd "$srcdir/src/config" && grep -rnoE '^#[[:space:]]*include[[:space:]]+"config/[^"]*' --include='*.[ch]' .) |
    sed 's|^\./\([^:]*\):.*"config/|\1 |' >pairs
test_expect_success 'src/config includes only what is on lower floors' \
    'test "$(wc -l <pairs)" -gt 50 && above <pairs >found && diff /dev/null found'
test_expect_success 'util, config and launch do not include the public headers' \
    "! grep -rnE '^#[[:space:]]*include[[:space:]]+<accel/' '$srcdir/src/util' '$srcdir/src/config' '$srcdir/src/launch'"
test_expect_success 'public headers include only each other, DLPack and the C standard' \
    "! grep -rnE '^#[[:space:]]*include' '$srcdir/include' --include='*.h' | grep -vE '<(accel/[a-z_]+|dlpack/dlpack|stdbool|stddef|stdint)\.h>'"
test_expect_success 'public C++ headers include them and the C++ standard' \
    "! grep -rnE '^#[[:space:]]*include' '$srcdir/include' --include='*.hpp' | grep -vE '<(accel/accel\.h|accel/hpp/[a-z]+\.hpp|[a-z_]+)>'"
test_expect_success 'includes are written from src/ (no "../", no bare "file.h")' \
    "! grep -rnE '^#[[:space:]]*include[[:space:]]+\"(\.\.|[^/\"]+\")' '$srcdir/src' --include='*.[ch]'"
test_expect_success 'every source file includes <config.h> first' \
    "! grep -rLZ --include='*.c' '^#include <config.h>' '$srcdir/src' | grep -z . &&
     ! awk 'FNR == 1 { seen = 0 } /^#[ ]*include/ && !seen { seen = 1; if (\$0 != \"#include <config.h>\") print FILENAME \": \" \$0 }' \
         \$(find '$srcdir/src' -name '*.c') | grep ."
test_expect_success '#if HAVE_... only in the prompt' \
    "! grep -rnE '^#[[:space:]]*(if|ifdef|ifndef|elif).*HAVE_' '$srcdir/src' --include='*.[ch]' |
         grep -v '/src/cli/prompt\.c:'"
test_expect_success 'only the launcher sets environment variables, for its children' \
    "! grep -rnwE 'setenv|putenv|unsetenv|clearenv' '$srcdir/src' --include='*.[ch]'"
test_expect_success 'no shell is given a string' \
    "! grep -rnwE 'system|popen|wordexp' '$srcdir/src' --include='*.c' | grep -E '(system|popen|wordexp) ?\('"
test_done
