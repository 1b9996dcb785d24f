# SPDX-License-Identifier: Apache-2.0
# Sourced by every shell test: a clean environment, a scratch folder, TAP output.
#
#   test_expect_success 'what must hold' 'commands joined by &&'
#   test_skip 'what' 'why'
#   skip_rest 'why'
#   terminal_test 'what must hold on a pseudo-terminal' 'commands joined by &&'
#   test_exit STATUS COMMAND...     wait_for COMMAND...     timeout $patience COMMAND...
#   await FILE...                   gone PID...
#   port=$(free_port)               by_hand N PORT COMMAND...
#   nothing_left                   is_long                      draw COUNT [FIRST]
#   test_done
#
# tests/README.md has the rules.
#
# $accelerate is the built command, $srcdir and $builddir are absolute, the working folder is a fresh one, and HOME is in it.
set -u
# Signals that whoever started the tests ignores (nohup, a shell's background, Python) would be ignored by all that the
# tests start, for ever: begin again without that.
case $(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/$$/status 2>/dev/null) in
'' | 0000000000000000) ;;
*)
    if [ -z "${signals_reset-}" ] && env --default-signal true 2>/dev/null; then
        signals_reset=yes
        export signals_reset
        exec env --default-signal "$(readlink "/proc/$$/exe")" "$0" "$@"
    fi
    ;;
esac
unset signals_reset
LC_ALL=C
: "${CC:=cc}" "${CXX:=c++}"
export LC_ALL CC CXX
srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
builddir=$(cd "${builddir:-.}" && pwd)
accelerate=$builddir/accelerate

for name in $(env | sed -n 's/^\(\(ACCEL\|ACCELERATE\|FSDP\|MEGATRON_LM\|PARALLELISM_CONFIG\|OMPI\|PMI\|PMIX\|MV2\|SLURM\|TORCHELASTIC\|HF\|AWS\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OMP_NUM_THREADS CUDA_VISIBLE_DEVICES XDG_CACHE_HOME VIRTUAL_ENV CONDA_PREFIX NO_COLOR
# hwloc, which mpirun asks for processors, would wait for ever for a server that listens where an X display might
# (ports 6000 to 6009).
HWLOC_COMPONENTS=-gl
export HWLOC_COMPONENTS
# TEST_ENGINE=NAME, with TEST_ENGINE_PATH where it is a module, runs a test with another engine.
if [ -n "${TEST_ENGINE-}" ]; then
    ACCEL_ENGINE=$TEST_ENGINE ACCEL_ENGINE_PATH=${TEST_ENGINE_PATH-}
    export ACCEL_ENGINE ACCEL_ENGINE_PATH
fi

# Tests use its path as a word of commands, files and patterns, so not below a TMPDIR in which a word ends.
case ${TMPDIR-} in
/*[!-+./,:=@_0-9A-Za-z]* | '') scratch=/tmp ;;
*) scratch=$TMPDIR ;;
esac
scratch=$(mktemp -d "$scratch/accel-test.XXXXXX") || exit 99
trap 'cd / && rm -rf "$scratch"' EXIT
HOME=$scratch/home
export HOME
mkdir "$HOME"
cd "$scratch" || exit 99

# Seconds after which a command counts as hanging: nothing comes near them, not even beside 40 busy processes.  For a
# machine that is busier still, TEST_PATIENCE says how long.
patience=${TEST_PATIENCE:-900}

# TEST_ONLY=NUMBER runs one point of a script; the others count as skipped.
only_test=${TEST_ONLY-} skip_reason=
unset TEST_ONLY
test_number=0
test_failures=0

# In a subshell, so that a test changes nothing for the next one; commands may say "return 1".
run_body () (
    set -e
    eval "$1"
)

# A body is one chain of &&, or the status of what fails in its middle would be lost.  A status that no command has must
# come out at the chain's end; where the chain is broken, something runs after the break and its status comes out.
# `set -e` covers loops and groups; tests/lint/status.sh reads functions, in which `set -e` often does not count.
stop_here () {
    return 117
}
is_one_chain () {
    run_body "stop_here && $1"
    [ $? = 117 ]
}

# show_new_files: what a failed test has written, the beginning of each text
show_new_files () {
    find "$scratch" -maxdepth 1 -type f -newer "$scratch/.begin" -size -2000k ! -name '.*' | sort | while read -r name; do
        ! grep -qI . "$name" || { echo "--- ${name##*/}"; head -n 60 "$name"; }
    done
}

test_expect_success () {
    [ -z "$skip_reason" ] || { test_skip "$1" "$skip_reason" && return; }
    test_number=$((test_number + 1))
    if [ -n "$only_test" ] && [ "$only_test" != "$test_number" ]; then
        echo "ok $test_number - $1 # SKIP only $only_test is run"
        return
    fi
    : >"$scratch/.begin"
    if ! is_one_chain "$2" >"$scratch/.output" 2>&1 </dev/null; then
        echo 'the commands of this test are not one chain of &&' >>"$scratch/.output"
        test_status=1
    else
        # Not as a condition, in which `set -e` would not count.
        run_body "$2" >"$scratch/.output" 2>&1 </dev/null
        test_status=$?
    fi
    if [ "$test_status" = 0 ]; then
        echo "ok $test_number - $1"
    else
        echo "not ok $test_number - $1"
        { cat "$scratch/.output" && show_new_files || :; } | awk '{ print "# " $0 }' # a last line gets its end
        test_failures=$((test_failures + 1))
    fi
}

# Root reads everything, so it becomes another user, who may enter the scratch folder.
as_nobody () {
    if [ "$(id -u)" = 0 ]; then
        chmod 711 "$scratch"
        setpriv --reuid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

# Open MPI may run as root, and start more ranks than there are processors: up to version 4, and since 5.
allow_mpirun () {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe \
        PRTE_MCA_rmaps_default_mapping_policy
}

# The thread sanitizer makes some programs twenty times as slow; what it looks for shows in fewer runs.
is_thread_sanitized () {
    grep -q '^SAN_CFLAGS = .*thread' "$builddir/Makefile"
}

# Sanitizers need /proc, and memory of their own.
is_sanitized () {
    grep -q '^SAN_CFLAGS = .*sanitize' "$builddir/Makefile"
}

# draw COUNT [FIRST]: one of so many numbers, from FIRST (0) on, in $drawn; $seed is the one before
draw () {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1 + ${2-0}))
}

# More compilers, and what takes long and seldom fails.
is_long () {
    [ "${TEST_LONG-no}" = yes ]
}

# Under ThreadSanitizer the signal for files that are too large ends a process although it is blocked.
file_limit_test () {
    if is_thread_sanitized; then
        test_skip "$1" 'the thread sanitizer makes too large a file deadly'
    else
        test_expect_success "$@"
    fi
}

# What is tried on a pseudo-terminal, with tests/cli/on_terminal.py: in a chroot there may be none, whatever lies in /dev.
# Otherwise, $no_terminals is the reason.
has_terminals () {
    no_terminals='no python3'
    python3 -c '' 2>/dev/null || return
    no_terminals='no pseudo-terminals here'
    python3 -c 'import pty; pty.openpty ()' 2>/dev/null
}
terminal_test () {
    if has_terminals; then test_expect_success "$@"; else test_skip "$1" "$no_terminals"; fi
}

# wait_for COMMAND...: until the command succeeds, which is looked at every 20 ms
wait_for () {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt $((patience * 50)) ] || { echo "waited in vain for: $*" && return 1; }
        sleep 0.02
    done
}

# await FILE...: until all of them are there and hold something
await () {
    for file; do
        wait_for test -s "$file" || return 1
    done
}

# gone PID...: until all of them have ended; a zombie has
gone () {
    for pid; do
        wait_for has_exited "$pid" || return 1
    done
}
has_exited () {
    ! kill -0 "$1" 2>/dev/null || grep -q "^[0-9]* ([^)]*) Z" "/proc/$1/stat" 2>/dev/null
}

# has_libdw: whether functions and lines of stacks have names; needs_libdw: otherwise, skip the rest
has_libdw () {
    PATH=$PATH:/sbin ldconfig -p >"$scratch/.libraries" 2>/dev/null && grep -q 'libdw\.so\.1' "$scratch/.libraries"
}
needs_libdw () {
    has_libdw || skip_rest 'needs libdw.so.1 (libdw-dev)'
}

# patiently MS COMMAND...: with the program's own timeout; where the machine was too busy for it, once more with MS
patiently () {
    ms=$1 && shift
    "$@" || { echo "again, with a timeout of $ms ms" && export ACCEL_TIMEOUT_MS="$ms" && "$@"; }
}

# free_port: prints a MASTER_PORT that no other test gets until this script ends
free_port () {
    "$builddir/tests/free_port" $$
}

# by_hand N PORT COMMAND...: N ranks as another launcher would start them; the largest of their statuses
by_hand () {
    sh "$srcdir/tests/hand.sh" "$@"
}

# nothing_left: nothing of ours has come into /dev/shm since this script began
shm_before=$(echo /dev/shm/*accel*)
nothing_left () {
    for left in /dev/shm/*accel*; do
        [ ! -e "$left" ] || case " $shm_before " in
        *" $left "*) ;;
        *) echo "left behind: $left" && return 1 ;;
        esac
    done
}

test_skip () {
    test_number=$((test_number + 1))
    echo "ok $test_number - $1 # SKIP $2"
}

# skip_rest 'why': what follows counts as skipped, point by point.  The script continues to its end, so that its loops
# count, but finds no programs and does not exit.  TEST_SKIP='why' skips all points.
skip_rest () {
    [ -z "$skip_reason" ] || return 0
    skip_reason=$1 skip_path=$PATH patience=0
    trap skip_end EXIT
    # shellcheck disable=SC2123 # no programs
    PATH=/nowhere accelerate=/nowhere builddir=/nowhere CC=/nowhere CXX=/nowhere
    [ -z "${BASH_VERSION-}" ] || { shopt -s expand_aliases || :; }
    alias exit=:
    set +u
    exec 2>/dev/null
}
skip_end () {
    [ "$test_number" -gt 0 ] || test_skip "$0" "$skip_reason"
    echo "1..$test_number"
    PATH=$skip_path && cd / && rm -rf "$scratch"
    exit 0
}
[ -z "${TEST_SKIP-}" ] || skip_rest "$TEST_SKIP"

# test_exit STATUS COMMAND...: the command must exit with exactly that status
test_exit () {
    wanted=$1
    shift
    got=0
    "$@" || got=$?
    [ "$got" = "$wanted" ] || { echo "exit status $got, wanted $wanted: $*"; return 1; }
}

test_done () {
    [ -z "$skip_reason" ] || exit 0
    echo "1..$test_number"
    [ "$test_number" -gt 0 ] || echo 'Bail out! no test was run'
    [ "$test_failures" = 0 ] && [ "$test_number" -gt 0 ]
    exit
}
