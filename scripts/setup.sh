# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by run-demo, run-tests and .ci/run from the top folder: packages and the build in build/.
#
#   want_packages build test     install the missing packages of these kinds (packages.txt), or list them
#   [targets=...] build_in FOLDER [CONFIGURE-ARGUMENT...]
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
        command -v sudo >/dev/null || die "cannot install packages without root; run as root: apt-get install$missing"
        as_root=sudo
    fi
    say "installing from Debian's archive:$missing"
    # A new machine has no package lists, an old one may have outdated ones: update, then install.
    $as_root env DEBIAN_FRONTEND=noninteractive sh -ec '
        apt-get -q update
        apt-get -q -y --no-install-recommends install "$@"
    ' sh $missing >setup.log 2>&1 </dev/null || {
        tail -n 20 setup.log >&2
        die "apt-get failed, see setup.log; to build with the installed packages: $0 --no-install"
    }
    rm -f setup.log
}

# show_progress FILE: on a terminal, until killed, how many files FILE says have been compiled
show_progress () {
    [ -t 1 ] || return 0
    while sleep 0.5 && kill -0 $$ 2>/dev/null; do
        printf '\r%s: %d files compiled ' "${0##*/}" "$(grep -c '^  CC ' "$1" 2>/dev/null)"
    done
}

make_configure () {
    if [ ! -x configure ] || [ -n "$(find configure.ac Makefile.am m4 src tests man examples bench include completions \
        \( -name configure.ac -o -name 'Makefile.*' ! -name Makefile.in -o -name 'accel*.m4' \) -newer configure)" ]; then
        say "generating configure"
        ./bootstrap >bootstrap.log 2>&1 || { tail -n 20 bootstrap.log >&2; die "./bootstrap failed"; }
        rm -f bootstrap.log
    fi
}

# Every step is skipped if nothing changed: a second run starts at once.
build_in () {
    folder=$1
    shift
    make_configure
    mkdir -p "$folder"
    if [ ! -f "$folder/Makefile" ]; then
        say "configuring $folder"
        top=$PWD
        (cd "$folder" && "$top/configure" --silent "$@" >configure.out 2>&1) || {
            tail -n 20 "$folder/configure.out" >&2
            die "configure failed, see $folder/config.log"
        }
    fi
    # make itself finds out in a fraction of a second that there is nothing to do.
    [ -x "$folder/accelerate" ] || say "building in $folder"
    # The watcher is in the background, not make: ^C does not reach what a script puts there.
    : >"$folder/make.out"
    show_progress "$folder/make.out" &
    watcher=$! built=yes
    make -C "$folder" --no-print-directory -s -j "$jobs" ${targets:-all} >"$folder/make.out" 2>&1 || built=no
    kill "$watcher" 2>/dev/null || :
    wait "$watcher" 2>/dev/null || :
    [ ! -t 1 ] || printf '\r\033[K'
    [ "$built" = yes ] || {
        tail -n 30 "$folder/make.out" >&2
        die "the build failed, see $folder/make.out"
    }
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
    failed=$((failed + bad))
    if [ "$bad" != 0 ]; then
        awk '/^(FAIL|ERROR|XPASS)/ && !seen[$0]++' "$1/check.out" | head -n 40
        # Their output: TAP comments follow the line of their test.
        awk '/^#? ?(not )?ok / { failing = /not ok/ } failing && lines++ < 80' "$1"/tests/*/*.log \
            "$1"/accel-*/_build/sub/tests/*/*.log 2>/dev/null | cut -c 1-300
        grep -q -E '^(FAIL|ERROR)' "$1/check.out" || tail -n 30 "$1/check.out"
        say "$bad failed in $1; full log: $1/check.out"
    fi
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

print_totals () {
    echo "$passed passed, $failed failed, $skipped skipped"
}
