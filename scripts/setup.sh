# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by run-demo, run-tests and .ci/run from the top folder: packages and the build in build/.
#
#   want_packages build test     install the missing packages of these kinds (packages.txt), or list them
#   [targets=...] build_in FOLDER [CONFIGURE-ARGUMENT...]
#   timed WORDS COMMAND...       say what is done, and how many seconds it took
set -eu
install=yes
jobs=$(nproc 2>/dev/null || echo 2)

say () {
    printf '%s: %s\n' "${0##*/}" "$*"
}

die () {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# timed WORDS COMMAND...: on a line that ends with the seconds; the status is that of the command
timed () {
    printf '%s: %s ...' "${0##*/}" "$1"
    begin=$(date +%s) doing=$1 status=0
    shift
    "$@" || status=$?
    if [ "$status" = 0 ]; then echo " $(($(date +%s) - begin)) s"; else echo ' failed'; fi
    return "$status"
}

# The packages of the kinds given, one per line.
listed () {
    for kind in "$@"; do
        sed -n "s/^$kind //p" scripts/packages.txt
    done
}

is_installed () {
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
    'install ok installed') return 0 ;;
    esac
    # The same program under another name, such as pkgconf for pkg-config.
    [ "$1" = pkg-config ] && command -v pkg-config >/dev/null
}

want_packages () {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        # Not Debian: configure reports what is really missing.
        say "not a Debian system; if the build fails, install the equivalents of these Debian packages:" \
            "$(listed "$@" | tr '\n' ' ')"
        return 0
    fi
    missing=
    for package in $(listed "$@"); do
        is_installed "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$install" = no ]; then
        say "missing packages (not installed because of --no-install):$missing"
        return 0
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "cannot install packages without root; run as root, then repeat $0:" \
            "apt-get update && apt-get install --no-install-recommends$missing"
        as_root=sudo
    fi
    say "missing packages:$missing"
    timed "installing them from Debian's archive" install_packages $missing || {
        tail -n 20 setup.log >&2
        die "apt-get failed, see setup.log; to build with the installed packages: $0 --no-install"
    }
    rm -f setup.log
}

# A new machine has no package lists, an old one may have outdated ones: update, then install.
install_packages () {
    $as_root env DEBIAN_FRONTEND=noninteractive sh -ec '
        apt-get -q update
        apt-get -q -y --no-install-recommends install "$@"
    ' sh "$@" >setup.log 2>&1 </dev/null
}

# show_progress FILE: on a terminal, until killed, how many files FILE says have been compiled
show_progress () {
    [ -t 1 ] || return 0
    while sleep 0.5 && kill -0 $$ 2>/dev/null; do
        printf '\r%s: %s ... %d files compiled' "${0##*/}" "$doing" "$(grep -c '^  CC ' "$1" 2>/dev/null)"
    done
}

make_configure () {
    if [ ! -x configure ] || [ -n "$(find configure.ac Makefile.am m4 src tests man examples bench include completions \
        \( -name configure.ac -o -name 'Makefile.*' ! -name Makefile.in -o -name 'accel*.m4' \) -newer configure)" ]; then
        timed "generating configure" logged bootstrap.log ./bootstrap || {
            tail -n 20 bootstrap.log >&2
            die "./bootstrap failed"
        }
        rm -f bootstrap.log
    fi
}

# logged FILE COMMAND...
logged () {
    log=$1
    shift
    "$@" >"$log" 2>&1
}

# What configure can find, which changes where packages come or go: compilers, and versions of packages.
findings () {
    for tool in cc gcc clang c++ g++ mpicc mpirun nvcc pkg-config python3; do command -v $tool || :; done
    # shellcheck disable=SC2046 # words
    dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' $(sed -n 's/^[a-z]* //p' scripts/packages.txt) \
        2>/dev/null || :
}

# make_folder FOLDER: for a build.  configure and make take no path with a space or another sign of the shell: where the
# checkout has one, the build is in a folder of /var/tmp, beside a link to the checkout, and FOLDER is a link to it.
make_folder () {
    case $PWD in
    *[!-+./,:=@_0-9A-Za-z]*)
        [ ! -d "$1" ] || return 0
        elsewhere=$(mktemp -d /var/tmp/accel.XXXXXX) && mkdir "$elsewhere/build" && ln -s "$PWD" "$elsewhere/src" &&
            rm -f "$1" && ln -s "$elsewhere/build" "$1" || die "cannot make a folder for the build in /var/tmp"
        say "make cannot work in a folder called '$PWD': $1 is a link to $elsewhere/build"
        ;;
    *) mkdir -p "$1" ;;
    esac
}

# Debugging information of functions and lines takes a fifth less time to compile than that of variables.
configure_in () (
    top=$PWD
    cd -P "$1" || exit
    [ ! -L ../src ] || top=$(cd -P .. && pwd)/src # see make_folder
    shift
    if [ ! -f Makefile ]; then
        export CFLAGS="${CFLAGS--O2 -g1}" CXXFLAGS="${CXXFLAGS--O2 -g1}"
        logged configure.out "$top/configure" --silent "$@"
    else
        logged configure.out ./config.status --recheck && logged make.out ./config.status --silent
    fi
)

# The watcher is in the background, not make: ^C does not reach what a script puts there.
make_in () {
    : >"$1/make.out"
    show_progress "$1/make.out" &
    watcher=$! built=0
    logged "$1/make.out" make -C "$1" --no-print-directory -s -j "$jobs" ${targets:-all} || built=$?
    kill "$watcher" 2>/dev/null || :
    wait "$watcher" 2>/dev/null || :
    [ ! -t 1 ] || printf '\r\033[K%s: %s ...' "${0##*/}" "$doing"
    return "$built"
}

# Every step is skipped if nothing changed: a second run starts at once.
build_in () {
    folder=$1
    make_configure
    make_folder "$folder"
    # Once more, with the same arguments, where it would find something else than it did.
    findings >"$folder/findings.new"
    if [ ! -f "$folder/Makefile" ] || ! cmp -s "$folder/findings" "$folder/findings.new"; then
        timed "configuring $folder" configure_in "$@" || {
            tail -n 20 "$folder/configure.out" >&2
            die "configure failed, see $folder/config.log"
        }
        mv "$folder/findings.new" "$folder/findings"
    fi
    # make itself finds out in a fraction of a second that there is nothing to do.
    timed "compiling in $folder" make_in "$folder" || {
        tail -n 30 "$folder/make.out" >&2
        die "the build failed, see $folder/make.out"
    }
}

# passes_alone FOLDER [MAKE-ARGUMENT...]: run the tests that failed there once more, in $again, if they are no more than
# $CHECK_AGAIN.  A test that fails only beside five others is named, and does not cost a whole run.
passes_alone () {
    grep -q '^Testsuite summary' "$1/check.out" || return 1 # else not all have run
    again=$(awk '/^(FAIL|ERROR|XPASS): tests\/[^ ]+ / && !seen[$2]++ { printf " %s", $2 }' "$1/check.out")
    [ "${target:-check}" = check ] && [ -n "$again" ] && [ "$(echo "$again" | wc -w)" -le "${CHECK_AGAIN:-0}" ] || return 1
    folder=$1
    shift
    make -C "$folder" --no-print-directory check VERBOSE=1 "$@" TESTS="$again" >"$folder/again.out" 2>&1
}

# [target=distcheck] check_in FOLDER [MAKE-ARGUMENT...]: make check there, remember how many tests passed, failed and were
# skipped.  Most tests wait for others most of the time, so more of them run at once than there are processors.
passed=0 failed=0 skipped=0
check_in () {
    set +e
    (
        checked=$1
        shift
        make -C "$checked" --no-print-directory -j $((jobs + 4)) "${target:-check}" VERBOSE=1 "$@"
    ) >"$1/check.out" 2>&1
    status=$?
    set -e
    count () {
        awk -v what="$2:" '/^Testsuite summary/ { number = 0 }
                           $1 == "#" && $2 == what && NF == 3 { number = $3 }
                           END { print number + 0 }' "$1/check.out"
    }
    bad=$(($(count "$1" FAIL) + $(count "$1" XPASS) + $(count "$1" ERROR)))
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
    passed=$((passed + $(count "$1" PASS) + $(count "$1" XFAIL)))
    skipped=$((skipped + $(count "$1" SKIP)))
    if [ "$bad" != 0 ]; then
        awk '/^(FAIL|ERROR|XPASS)/ && !seen[$0]++' "$1/check.out" | head -n 40
        # Their output: TAP comments follow the line of their test.
        awk '/^#? ?(not )?ok / { failing = /not ok/ } failing && lines++ < 80' "$1"/tests/*/*.log "$1"/tests/*/*/*.log \
            "$1"/accel-*/_build/sub/tests/*/*.log "$1"/accel-*/_build/sub/tests/*/*/*.log 2>/dev/null | cut -c 1-300
        grep -q -E '^(FAIL|ERROR)' "$1/check.out" || tail -n 30 "$1/check.out"
        if passes_alone "$@"; then
            bad=0
            say "passed when run again, alone:$again"
        else
            say "$bad failed in $1; full log: $1/check.out"
        fi
    fi
    failed=$((failed + bad))
    [ "$bad" = 0 ]
}

# note_result STATUS NAME: count one thing that is not a test of make check.
note_result () {
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
        echo "PASS: $2"
    else
        failed=$((failed + 1))
        echo "FAIL: $2"
    fi
}

# print_skipped FOLDER: which tests were skipped there and why, with the number of their cases
print_skipped () {
    awk '/^SKIP: / && / # SKIP/ && !seen[$2, $3]++ {
             why = $0; sub(/.* # SKIP */, "", why)
             name = $0; sub(/^SKIP: [^ ]* [0-9]*( - )?/, "", name); sub(/ *# SKIP.*/, "", name)
             what = $2 ": " why
             if (!cases[what]++) order[++number] = what
             names[what] = name
         }
         END {
             if (number) print "skipped (number of cases, test, reason):"
             for (i = 1; i <= number; i++)
                 printf "%6d  %s%s\n", cases[order[i]], order[i], cases[order[i]] == 1 && names[order[i]] != "" ? " (" names[order[i]] ")" : ""
         }' "$1/check.out"
}

print_totals () {
    echo "$passed passed, $failed failed, $skipped skipped"
}
