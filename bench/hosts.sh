#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Several hosts, which are namespaces of this machine: how long a job takes to start, and how fast its all-reduces are.
#
#   hosts.sh start ACCELERATE [ROUNDS] [HOSTS...]
#   hosts.sh reduce BENCH_COLLECTIVES MPI_ALLREDUCE [veth|memory] [ROUNDS] [ENGINE...]
#   hosts.sh small BENCH_COLLECTIVES MPI_ALLREDUCE [veth|memory] [ROUNDS] [ITERATIONS]
#   hosts.sh restart ACCELERATE BENCH_MEMORY [MIB] [ROUNDS] [STEPS]
#   hosts.sh overlap BENCH_OVERLAP [veth|memory] [device|free|shared] [ROUNDS]
#
# start: from the command to the first line of rank 0, one rank on each host, started from a host without ranks.
# Beside it mpirun, and an ssh to each host: one after the other, and all at once.  The hosts share the processors of
# this machine, so what all of them do at once takes longer than on hosts of their own.
# reduce: libaccel's engines beside MPI_Allreduce, 2 hosts of 2 ranks, in place, both started by mpirun; SIZES in the
# environment: of so many bytes.  "veth":
# between two namespaces, by TCP; "memory": all ranks are on this machine and only believe to be on two hosts, so that
# MPI's shared memory is the network.
# small: the same for broadcasts, all-gathers and barriers, beside MPI_Bcast, MPI_Allgather and MPI_Barrier.
# restart: from SIGKILL of a rank to the end of the next step, from checkpoints in memory, 2 hosts of one rank; parameters of
# MIB (0.1), killed after STEPS (200).  A line of each round.
# overlap: how much of an all-reduce's time a computation hides on such hosts, with engine mpi.
# All competitors run in turns, ROUNDS times each; the figures are medians.  Needs root.
here=$(cd "$(dirname "$0")" && pwd)
usage () {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}
hosts () {
    sh "$here/../tests/hosts/hosts" "$@"
}
absolute () {
    echo "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
}
# hwloc, which mpirun asks for processors, would wait for any server that listens where an X display might.
export HWLOC_COMPONENTS=-gl
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# until_first_line NAME COMMAND...: "NAME MS", and the command has ended; nothing if it has said nothing
until_first_line () {
    name=$1
    shift
    began=$(date +%s%N)
    timeout -k 5 120 "$@" 2>>"$work/errors" </dev/null | {
        ! read -r line || echo "$name $((($(date +%s%N) - began) / 1000)) $line"
        cat >/dev/null
    }
}
# time_start COUNT: one round of all competitors, on the host without ranks
time_start () {
    names=$(seq -s , -f host%.0f "$1")
    # shellcheck disable=SC2016 # the ranks expand it
    first='[ "${OMPI_COMM_WORLD_RANK-${RANK-0}}" != 0 ] || echo first'
    until_first_line accelerate "$accelerate" launch --cpu --hosts "$names" sh -c "$first"
    ! command -v mpirun >/dev/null ||
        until_first_line mpirun mpirun --mca orte_tmpdir_base "$work" --host "$names" -np "$1" sh -c "$first"
    for host in $(echo "$names" | tr , ' '); do
        until_first_line alone ssh "$host" echo first
    done
    for host in $(echo "$names" | tr , ' '); do
        until_first_line together ssh "$host" echo first &
    done
    wait
}

# The slowest of each kind in each round; an empty line ends a round.
table_of_starts () {
    awk '
        function median (name,   count, i, j, x, v) {
            for (i = 0; i < rounds; i++) {
                if (!((name, i) in most)) return -1
                x = most[name, i]
                for (j = i - 1; j >= 0 && v[j] > x; j--) v[j + 1] = v[j]
                v[j + 1] = x
            }
            return rounds % 2 ? v[(rounds - 1) / 2] : (v[rounds / 2 - 1] + v[rounds / 2]) / 2
        }
        function ms (us) { return us < 0 ? "-" : sprintf("%.0f", us / 1000) }
        NF == 0 { rounds++; next }
        $2 > most[$1, rounds + 0] { most[$1, rounds + 0] = $2 }
        END {
            a = median("accelerate"); m = median("mpirun"); s = median("alone"); t = median("together")
            printf "%6d %11s %9s %13s %15s %9.2f %12.2f\n", hosts, ms(a), ms(m), ms(s), ms(t), a / s, a / t
        }' hosts="$1" "$work/starts"
}

bench_start () {
    accelerate=$(absolute "$1") && [ -x "$accelerate" ] || usage
    rounds=${2:-5}
    [ $# -ge 2 ] && shift 2 || shift
    [ $# -gt 0 ] || set -- 1 4 16
    most=0
    for count; do [ "$count" -le $most ] || most=$count; done
    hosts up $((most + 1)) || exit
    echo "from the command to the first line of rank 0, ms: medians of $rounds rounds, $processors processors"
    echo " hosts  accelerate    mpirun  slowest ssh  all ssh at once  to single  to all ssh"
    for count; do
        : >"$work/starts"
        for round in $(seq "$rounds"); do
            hosts exec "host$((most + 1))" sh "$here/hosts.sh" _start "$accelerate" "$count" "$work" >>"$work/starts"
            echo >>"$work/starts"
        done
        table_of_starts "$count"
    done
    [ ! -s "$work/errors" ] || { echo 'what the commands said:' && sort "$work/errors" | uniq -c | head -n 20; }
}

# ---- all-reduce ----

# As on hosts with 2 ranks each, which have processors of their own: PLACES says on which one each rank is.  Left alone, the
# scheduler puts three ranks on one of two processors now and then, for longer than a launch of this benchmark.
wrapper () {
    cat >"$work/pretend" <<'END'
#!/bin/sh
RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % 2)) LOCAL_WORLD_SIZE=2
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
place=$(echo "$PLACES" | cut -d , -f $((RANK + 1)))
[ -z "$place" ] || exec taskset -c "$place" "$@"
exec "$@"
END
    chmod +x "$work/pretend"
}
# ranks COMMAND...: 4 of them
ranks () {
    if [ "$network" = veth ]; then
        hosts exec host1 timeout -k 5 300 mpirun --mca orte_tmpdir_base "$work" -x ACCEL_ENGINE -x ACCEL_ENGINE_PATH \
            --host host1:2,host2:2 -np 4 "$@"
    else
        timeout -k 5 300 mpirun --mca orte_tmpdir_base "$work" -np 4 "$work/pretend" "$@"
    fi
}
table_of_reduces () {
    awk '
        {
            for (i = 3; i <= NF; i++) value[$1, $2, n[$1, $2]++] = $i
            if (!($2 in seen)) { seen[$2]; order[++sizes] = $2 }
        }
        function median (name, bytes,   count, i, j, x, v) {
            count = n[name, bytes]
            if (!count) return -1
            for (i = 0; i < count; i++) {
                x = value[name, bytes, i] + 0
                for (j = i - 1; j >= 0 && v[j] > x; j--) v[j + 1] = v[j]
                v[j + 1] = x
            }
            return count % 2 ? v[(count - 1) / 2] : (v[count / 2 - 1] + v[count / 2]) / 2
        }
        function us (x) { return x < 0 ? "-" : sprintf(x < 10 ? "%.2f" : x < 1000 ? "%.1f" : "%.0f", x) }
        function ratio (a, b) { return a < 0 || b <= 0 ? "-" : sprintf("%.2f", a / b) }
        END {
            printf "%10s %10s %11s %14s %9s %9s\n",
                   "bytes", "own us", "foreign us", "Open MPI us", "MPI/own", "MPI/for."
            for (s = 1; s <= sizes; s++) {
                b = order[s]
                o = median("own", b); f = median("foreign", b); m = median("mpi", b)
                printf "%10d %10s %11s %14s %9s %9s\n", b, us(o), us(f), us(m), ratio(m, o), ratio(m, f)
            }
        }' "$1"
}
# connect NETWORK BENCHMARK
connect () {
    network=$1
    : "${ACCEL_ENGINE_PATH:=$(absolute "$(dirname "$2")/../src/engines/mpi")/.libs}"
    export ACCEL_ENGINE_PATH
    if [ "$network" = veth ]; then hosts up 2 || exit; else wrapper; fi
}
bench_restart () {
    [ $# -ge 2 ] && accelerate=$(absolute "$1") && bench=$(absolute "$2") && [ -x "$accelerate" ] && [ -x "$bench" ] || usage
    connect veth "$(dirname "$accelerate")/bench/bench"
    for round in $(seq "${4:-5}"); do
        hosts exec host1 timeout -k 5 120 "$accelerate" launch --quiet --cpu --starter mpirun --hosts host1,host2 \
            --num_cpu_threads_per_process 1 --max_restarts 1 --memory_checkpoint_every 10 "$bench" "$work/killed" \
            "${3:-0.1}" "${5:-200}" 2>>"$work/errors" | grep SIGKILL || { cat "$work/errors"; exit 1; }
    done
}
bench_overlap () {
    bench=$(absolute "$1") && [ -x "$bench" ] || usage
    connect "${2:-veth}" "$bench"
    ACCEL_ENGINE=mpi
    export ACCEL_ENGINE
    echo "engine mpi: overlap, 2 hosts of 2 ranks, $network, $processors processors"
    ranks "$bench" "${3:-device}" "${4:-15}"
}
processors=$(getconf _NPROCESSORS_ONLN)
: "${PLACES=0,0,$((processors > 1)),$((processors > 1))}"
export PLACES
: "${SIZES:=4 64 1024 4096 8192 16384 32768 65536 262144 1048576 4194304 16777216 67108864}"
bench_reduce () {
    [ $# -ge 2 ] && bench=$(absolute "$1") && mpi=$(absolute "$2") && [ -x "$bench" ] && [ -x "$mpi" ] || usage
    connect "${3:-veth}" "$bench"
    rounds=${4:-3}
    [ $# -ge 4 ] && shift 4 || shift $#
    [ $# -gt 0 ] || set -- mpi
    for round in $(seq "$rounds"); do
        for engine; do
            ACCEL_ENGINE=$engine
            export ACCEL_ENGINE
            # shellcheck disable=SC2086 # several sizes
            ranks "$bench" in 60 $SIZES >>"$work/$engine" || exit
            # shellcheck disable=SC2086
            ranks "$mpi" in 60 $SIZES >>"$work/$engine" || exit
        done
    done
    for engine; do
        echo "engine $engine: all-reduce, float32 sum, in place, 2 hosts of 2 ranks, $network, $processors processors: \
medians of $rounds rounds in turns"
        table_of_reduces "$work/$engine"
        echo
    done
}
bench_small () {
    [ $# -ge 2 ] && bench=$(absolute "$1") && mpi=$(absolute "$2") && [ -x "$bench" ] && [ -x "$mpi" ] || usage
    connect "${3:-veth}" "$bench"
    ACCEL_ENGINE=mpi
    export ACCEL_ENGINE
    for round in $(seq "${4:-3}"); do
        ranks "$bench" small "${5:-10}" >>"$work/small" && ranks "$mpi" small "${5:-10}" >>"$work/small" || exit
    done
    echo "engine mpi: 2 hosts of 2 ranks, $network, $processors processors: medians of ${4:-3} rounds in turns"
    awk '
        {
            for (i = 3; i <= NF; i++) value[$1, $2, n[$1, $2]++] = $i
            if (!($2 in seen)) { seen[$2]; order[++sizes] = $2 }
        }
        function median (name, what,   count, i, j, x, v) {
            count = n[name, what]
            for (i = 0; i < count; i++) {
                x = value[name, what, i] + 0
                for (j = i - 1; j >= 0 && v[j] > x; j--) v[j + 1] = v[j]
                v[j + 1] = x
            }
            return count % 2 ? v[(count - 1) / 2] : (v[count / 2 - 1] + v[count / 2]) / 2
        }
        END {
            printf "%12s %8s %11s %14s %9s\n", "call", "bytes", "engine us", "Open MPI us", "MPI/eng."
            for (s = 1; s <= sizes; s++) {
                kind = bytes = order[s]
                sub(/-[0-9]+$/, "", kind); sub(/.*-/, "", bytes)
                o = median("own", order[s]); m = median("mpi", order[s])
                printf "%12s %8s %11.1f %14.1f %9.2f\n", kind, bytes, o, m, m / o
            }
        }' "$work/small"
}

case ${1-} in
_start) # on a host, by bench_start
    accelerate=$2 work=$4
    time_start "$3"
    exit
    ;;
start | reduce | small | restart | overlap) [ $# -gt 1 ] || usage ;;
*) usage ;;
esac
work=$(mktemp -d) || exit 1
HOSTS_DIR=$work/lab HOSTS_OWNER=$$
export HOSTS_DIR HOSTS_OWNER
trap 'hosts down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

what=$1
shift
"bench_$what" "$@"
