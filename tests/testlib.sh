# SPDX-License-Identifier: Apache-2.0
# Sourced by every shell test: a clean environment, a scratch folder, TAP output.
#
#   test_expect_success 'what must hold' 'commands joined by &&'
#   test_skip 'what' 'why'
#   test_done
#
# $accelerate is the built command, $srcdir and $builddir are absolute, the working folder is a fresh one, and HOME is in it.
set -u
LC_ALL=C
export LC_ALL
srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
builddir=$(cd "${builddir:-.}" && pwd)
accelerate=$builddir/accelerate

for name in $(env | sed -n 's/^\(\(ACCEL\|ACCELERATE\|FSDP\|MEGATRON_LM\|PARALLELISM_CONFIG\|OMPI\|PMI\|PMIX\|MV2\|SLURM\|TORCHELASTIC\|HF\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OMP_NUM_THREADS CUDA_VISIBLE_DEVICES XDG_CACHE_HOME

scratch=$(mktemp -d "${TMPDIR:-/tmp}/accel-test.XXXXXX") || exit 99
trap 'cd / && rm -rf "$scratch"' EXIT
HOME=$scratch/home
export HOME
mkdir "$HOME"
cd "$scratch" || exit 99

test_number=0
test_failures=0

# A function of its own, so that commands may say "return 1".
run_body () {
    eval "$1"
}

test_expect_success () {
    test_number=$((test_number + 1))
    if run_body "$2" >"$scratch/.output" 2>&1 </dev/null; then
        echo "ok $test_number - $1"
    else
        echo "not ok $test_number - $1"
        sed 's/^/# /' "$scratch/.output"
        test_failures=$((test_failures + 1))
    fi
}

# Root reads everything, so it becomes somebody else, who may enter the scratch folder.
as_nobody () {
    if [ "$(id -u)" = 0 ]; then
        chmod 711 "$scratch"
        setpriv --reuid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

# The thread sanitizer makes some programs twenty times as slow; what it looks for shows in fewer runs.
is_thread_sanitized () {
    grep -q '^SAN_CFLAGS = .*thread' "$builddir/Makefile"
}

# Sanitizers need /proc, and memory of their own.
is_sanitized () {
    grep -q '^SAN_CFLAGS = .*sanitize' "$builddir/Makefile"
}

# Under ThreadSanitizer the signal for files that are too large ends a process although it is blocked.
file_limit_test () {
    if is_thread_sanitized; then
        test_skip "$1" 'the thread sanitizer makes too large a file deadly'
    else
        test_expect_success "$@"
    fi
}

test_skip () {
    test_number=$((test_number + 1))
    echo "ok $test_number - $1 # SKIP $2"
}

# test_exit STATUS COMMAND...: the command must exit with exactly that status
test_exit () {
    wanted=$1
    shift
    "$@"
    got=$?
    [ "$got" = "$wanted" ] || { echo "exit status $got, wanted $wanted: $*"; return 1; }
}

test_done () {
    echo "1..$test_number"
    [ "$test_failures" = 0 ]
    exit
}
