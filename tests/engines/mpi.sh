#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engine mpi: the conformance tests under mpirun, on "several hosts" too, and how it fails.
. "${srcdir:-.}/tests/testlib.sh"
conformance=$builddir/tests/conformance/conformance
module=$builddir/src/engines/mpi/.libs/accel_engine_mpi.so
all="types sizes mixture tensors control arguments memory random objects trees messages groups work rounds"
mpirun=$(sed -n 's/^MPIRUN = //p' "$builddir/Makefile")

test_expect_success 'neither the library nor the command needs MPI' '
    for file in "$builddir"/.libs/libaccel.so "$accelerate" "$builddir"/.libs/accelerate; do
        [ ! -f "$file" ] || ! readelf -d "$file" 2>/dev/null | grep "NEEDED.*mpi" || return 1; done'
test_expect_success 'its sources include accel/engine.h, and nothing else of libaccel' '
    ! grep -h "^#include" "$srcdir"/src/engines/mpi/*.[ch] | grep -v -e "<[a-z/]*\.h>" -e "\"engines/mpi/" | grep . &&
    ! grep -h "^#include <accel/" "$srcdir"/src/engines/mpi/*.[ch] | grep -vx "#include <accel/engine.h>"'
if [ ! -f "$module" ]; then
    test_skip 'engine mpi' 'not built: no MPI, or no shared libraries (see the end of configure)'
    test_done
elif ! command -v "$mpirun" >/dev/null; then
    test_skip 'engine mpi' 'there is no mpirun'
    test_done
elif is_thread_sanitized; then
    test_skip 'engine mpi' 'MPI is not built with the thread sanitizer'
    test_done
fi
# MPI leaves memory behind.  Where that is looked for, its libraries stay, so that mpi.supp can name them.
leaks=
if is_sanitized; then
    echo "int dlclose (void *library) { (void) library; return 0; }" >keep.c && $CC -shared -fPIC -o keep.so keep.c || exit
    leaks="env LD_PRELOAD=$PWD/keep.so ASAN_OPTIONS=verify_asan_link_order=0:fast_unwind_on_malloc=0"
    leaks="$leaks LSAN_OPTIONS=suppressions=$srcdir/tests/engines/mpi.supp:print_suppressions=0"
    ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
    export ASAN_OPTIONS
fi
test_expect_success 'it needs nothing of libaccel' '! nm -D -u "$module" | grep " accel_"'

umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE_PATH=$scratch/engines
# More ranks than processors, for root too.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
OMPI_MCA_btl_vader_single_copy_mechanism=none
HWLOC_COMPONENTS=-gl # or mpirun waits for whatever has the port of an X server
export ACCEL_ENGINE_PATH OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe \
    OMPI_MCA_btl_vader_single_copy_mechanism HWLOC_COMPONENTS
# An mpirun that hangs may ignore SIGTERM.
limit=$((patience / 3))
limited () {
    timeout -k 10 $limit "$@"
}
if ! limited "$mpirun" -n 2 true >out 2>&1; then
    test_skip 'engine mpi' "$mpirun cannot start processes here: $(head -n 1 out)"
    test_done
fi

# under_mpirun N COMMAND...: with engine mpi
under_mpirun () {
    ranks=$1
    shift
    limited env ACCEL_ENGINE=mpi "$mpirun" -n "$ranks" "$@"
}
# conforms N SUITE...
conforms () {
    wanted="^mpi, $1 ranks: "
    processes=$1
    shift
    # shellcheck disable=SC2086 # words
    under_mpirun "$processes" $leaks "$conformance" "$@" >conformed && grep "$wanted" conformed && nothing_left
}

# As on hosts with EACH ranks: hosts EACH COMMAND...
cat >hosts <<'END'
#!/bin/sh
each=$1 RANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE}
shift
LOCAL_RANK=$((RANK % each)) LOCAL_WORLD_SIZE=$each
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
exec "$@"
END
# As on hosts with as many ranks as the first argument lists: layout "2 1 1" COMMAND...
cat >layout <<'END'
#!/bin/sh
sizes=$1 RANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE} LOCAL_RANK=$RANK
shift
for LOCAL_WORLD_SIZE in $sizes; do
    [ "$LOCAL_RANK" -ge "$LOCAL_WORLD_SIZE" ] || break
    LOCAL_RANK=$((LOCAL_RANK - LOCAL_WORLD_SIZE))
done
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
exec "$@"
END
# As on the host that the first argument names for each rank: placed "a b a b" COMMAND...
cat >placed <<'END'
#!/bin/sh
places=$1 RANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE}
LOCAL_RANK=0 LOCAL_WORLD_SIZE=0 rank=0
shift
here=$(echo "$places" | cut -d " " -f $((RANK + 1)))
for place in $places; do
    if [ "$place" = "$here" ]; then
        LOCAL_WORLD_SIZE=$((LOCAL_WORLD_SIZE + 1))
        [ $rank -ge "$RANK" ] || LOCAL_RANK=$((LOCAL_RANK + 1))
    fi
    rank=$((rank + 1))
done
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
exec "$@"
END
chmod +x hosts layout placed
port=$(free_port)

test_expect_success '1 process' 'conforms 1 $all'
test_expect_success '2 processes' 'conforms 2 $all'
test_expect_success '3 processes' 'conforms 3 mixture messages groups work rounds'
test_expect_success '4 processes' 'conforms 4 control groups'
# Open MPI copies messages below that limit; larger ones stay where they are until their receiver has come.
test_expect_success '3 processes, where MPI copies no message' 'OMPI_MCA_btl_vader_eager_limit=256 conforms 3 mixture'
if is_long; then
    # Beside 16 busy processes, a message between two of four ranks takes milliseconds.
    test_expect_success '4 processes, all sizes' 'limit=$patience && conforms 4 sizes mixture'
    test_expect_success '3 processes, everything' 'conforms 3 $all'
    test_expect_success '2 hosts of 2 ranks, everything' '
        under_mpirun 4 ./hosts 2 "$conformance" $all >out && grep "^mpi, 4 ranks: " out'
    test_expect_success '2 processes, more than caches hold' 'conforms 2 large'
    test_expect_success 'more elements than an int can count' '
        under_mpirun 2 "$builddir/tests/engines/mpi_program" large >out && grep -x "2181038077 elements" out'
fi
test_expect_success '2 hosts of 2 ranks' '
    under_mpirun 4 ./hosts 2 "$conformance" mixture messages work >out && grep "^mpi, 4 ranks: " out'

# ---- through the memory of each host ----

tiers=$builddir/tests/engines/tiers
# in_tiers RANKS LAYOUT SHARERS CALLS WHAT
in_tiers () {
    case $2 in
    *[a-z]*) by=./placed ;;
    *) by=./layout ;;
    esac
    under_mpirun "$1" $by "$2" "$tiers" "$5" >out && grep "^mpi, $1 ranks, $3 of which share memory: $4\$" out
}
test_expect_success 'large all-reduces on 2 hosts of 2 ranks have the bits of a reduction in the order of ranks' '
    in_tiers 4 "2 2" 4 "70 calls" calls'
test_expect_success 'and so have those in flight, on hosts of 2, 1 and 1 ranks' 'in_tiers 4 "2 1 1" 2 "33 calls" flights'
test_expect_success 'reduce-scatters, too, on hosts of 2, 1 and 2 ranks' 'in_tiers 5 "2 1 2" 4 "68 calls" scatter'
test_expect_success 'large broadcasts and all-gathers, on hosts of 1, 2 and 1 ranks' 'in_tiers 4 "1 2 1" 2 "66 calls" spread'
test_expect_success 'the same where ranks of other hosts are between those of a host' '
    in_tiers 4 "a b a b" 4 "66 calls" spread && in_tiers 5 "a b b a b" 5 "68 calls" scatter'
test_expect_success 'groups share memory as well, and give it back' 'in_tiers 4 "2 2" 4 "105 calls, groups do so, too" groups'
test_expect_success 'small sums of ranks that are many calls apart' '
    in_tiers 3 "2 1" 2 "16 calls" ahead && in_tiers 3 "a b a" 2 "16 calls" ahead'
if is_long; then
    while read -r ranks sharers layout; do
        test_expect_success "large calls on hosts of $layout ranks" '
            in_tiers $ranks "$layout" $sharers "70 calls" calls && in_tiers $ranks "$layout" $sharers "33 calls" flights &&
                in_tiers $ranks "$layout" $sharers "66 calls" spread && in_tiers $ranks "$layout" $sharers "68 calls" scatter &&
                in_tiers $ranks "$layout" $sharers "105 calls.*" groups'
    done <<'EOT'
3 2 1 2
4 3 1 3
4 3 3 1
4 2 1 2 1
6 4 1 1 2 2
7 7 4 3
4 4 a b a b
5 4 a b c b a
6 6 3 3
EOT
    test_expect_success 'the job is opened again' 'in_tiers 4 "2 2" 4 "99 calls" opens'
    test_expect_success 'ranks of two hosts in turns, everything' '
        under_mpirun 4 ./placed "a b a b" "$conformance" $all >out && grep "^mpi, 4 ranks: " out'
    test_expect_success 'hosts of 2, 1 and 1 ranks, everything' '
        under_mpirun 4 ./layout "2 1 1" "$conformance" $all >out && grep "^mpi, 4 ranks: " out'
    test_expect_success 'without shared memory, MPI does it all' '
        under_mpirun 4 ./layout "2 2" sh -c "ulimit -f 20000 && exec $tiers flights" >out &&
        grep "^mpi, 4 ranks, 0 of which share memory: 33 calls\$" out'
fi

# ---- who is chosen, and who is refused ----

test_expect_success 'on one host, mpirun starts ranks that share memory' '
    limited "$mpirun" -n 2 "$conformance" control >out && grep "^shm, 2 ranks: " out'
test_expect_success 'on several hosts, it is chosen' '
    limited "$mpirun" -n 2 ./hosts 1 "$conformance" control >out && grep "^mpi, 2 ranks: " out'
test_expect_success 'ranks that MPI did not start are refused, and the message says how to start them' '
    test_exit 1 env ACCEL_ENGINE=mpi timeout $patience "$accelerate" launch --quiet --cpu --num_processes 2 "$conformance" \
        control 2>error && grep "mpi cannot connect ranks that MPI did not start .*: start the program with .*mpirun -n 2 PROGRAM" error'
test_expect_success 'ranks each of which is alone for MPI are refused' '
    printf "#!/bin/sh\\nPMI_RANK=\$RANK OMPI_COMM_WORLD_RANK=\$RANK ACCEL_ENGINE=mpi\\nexport PMI_RANK OMPI_COMM_WORLD_RANK ACCEL_ENGINE\\nexec \"\$@\"\\n" >alone &&
    chmod +x alone && test_exit 1 by_hand 2 "$port" ./alone timeout $patience "$conformance" control 2>error &&
    grep "accel_open: engine mpi: MPI connects 1 process, but this job has 2: .* was not started by its own mpirun" error'
limited "$mpirun" --version >version 2>&1 || :
if grep -q "Open MPI" version; then
    test_expect_success 'ranks started through PMI-2, of which Open MPI knows nothing, are refused' '
        printf "#!/bin/sh\\nPMI_RANK=\$RANK ACCEL_ENGINE=mpi\\nexport PMI_RANK ACCEL_ENGINE\\nexec \"\$@\"\\n" >other &&
        chmod +x other && test_exit 1 by_hand 2 "$port" ./other timeout $patience "$conformance" control 2>error &&
        grep "started through PMI-1 or PMI-2 .*Open MPI, which needs PMIx" error'
fi
for how in init serialized; do
    test_expect_success "the program has called MPI_Init() itself, and trains: $how" '
        under_mpirun 2 "$builddir/tests/engines/mpi_program" $how >out && grep -x "mpi, 2 ranks" out'
done
test_expect_success 'the program has called MPI_Finalize()' '
    under_mpirun 2 "$builddir/tests/engines/mpi_program" finalized >out && test "$(grep -cx refused out)" = 2'
test_expect_success 'a kind that it does not know is unsupported' '
    under_mpirun 2 "$builddir/tests/engines/opens" >out && test "$(grep -cx "kind 40: engine mpi: unknown kind 40" out)" = 2 &&
    test "$(grep -cx "kind 40, started: engine mpi: unknown kind 40" out)" = 2'
# The command gives MPI a time that a busy machine may exceed.
mpi_answers () {
    limited "$accelerate" env >out || return 0
    ! grep "accel_engine_mpi.so did not answer" out
}
test_expect_success 'accelerate env says which MPI it is, and what its thread level costs' '
    wait_for mpi_answers && grep "engine mpi: .*, MPI_THREAD_[A-Z]*[:,] " out'

# Sanitizers keep freed memory, and reserve addresses.
is_sanitized || test_expect_success 'calls leave no memory behind' 'under_mpirun 2 "$builddir/tests/engines/mpi_program" many'
test_expect_success 'a message, and a sum, that MPI gets in parts' 'under_mpirun 2 "$builddir/tests/engines/mpi_program" message'
test_expect_success 'what was started moves on while a rank computes' '
    under_mpirun 3 ./layout "2 1" "$builddir/tests/engines/mpi_program" alone'
test_expect_success 'a rank that does not go on with a transfer is named' '
    under_mpirun 2 "$builddir/tests/engines/mpi_program" asleep'
# fails RANKS LAYOUT HOW...: mpirun may complain that one of them cannot leave MPI
fails () {
    ranks=$1 layout=$2
    shift 2
    under_mpirun "$ranks" ./layout "$layout" "$builddir/tests/engines/mpi_program" "$@" >out 2>&1 || :
    test "$(grep -cx "as expected" out)" = "$ranks"
}
test_expect_success 'a rank that is far ahead of another one of its host leaves nobody of other hosts behind' '
    for i in 1 $(is_long && seq 19); do
        fails 4 "2 2" ahead || return 1
    done'
test_expect_success 'accel_work_test() sees that the time is out' 'fails 2 "1 1" tests'
test_expect_success 'after a pause, a call takes no more messages than before' 'fails 4 "2 2" after'
test_expect_success 'children take memory while a thread of the engine moves a call on' 'fails 3 "2 1" forks'
test_expect_success 'after MPI_Finalize() of the program, no thread of the engine calls MPI' 'fails 2 2 ended'
test_expect_success 'after MPI_Init(), other threads can neither open the job nor wait for a call' 'fails 2 2 strays'
test_expect_success 'freed memory is given back in a way that MPI hears of' 'fails 3 "2 1" freed'
is_sanitized || test_expect_success 'with a limit on address space, half of it is left to the program' 'fails 3 "2 1" limited'
test_expect_success 'a rank that exits while MPI_Init() waits for others ends' '
    test_exit 3 under_mpirun 2 ./layout "1 1" "$builddir/tests/engines/mpi_program" absent >out 2>&1 &&
    ! grep WRONG out && grep "^timeout: .* waiting for ranks of other hosts (1) to call" out'
test_expect_success 'a call in which MPI fails does not end well: a broadcast' 'fails 2 2 broken broadcast'
test_expect_success 'and neither does a large sum on two hosts' 'fails 3 "2 1" broken sum'
test_expect_success 'who waits in a group hears that a rank gave up in another one' 'fails 3 "1 1 1" elsewhere'
# bounds RANKS LAYOUT HOW
bounds () {
    under_mpirun "$1" ./layout "$2" "$builddir/tests/engines/mpi_bounds" "$3" >out 2>&1 || :
    test "$(grep -cx "as expected" out)" = "$1"
}
test_expect_success 'and so does who waits in the same one' 'bounds 3 "1 1 1" early'
test_expect_success 'accel_alloc() may have more than fits into the memory of the host' 'bounds 3 "2 1" full'
test_expect_success 'a group of which a rank has no memory for large calls needs none' 'bounds 3 "2 1" crowded'
test_expect_success 'where one host cannot share memory, none does' 'bounds 4 "2 2" unshared'
test_expect_success 'the thread of the engine ends with the job' 'bounds 2 "1 1" threads'
test_expect_success 'beside MPI of the program, the engine has no thread' 'bounds 2 "1 1" serialized'
test_expect_success 'a program may wait for another rank in MPI itself, with a call in flight' 'bounds 3 "1 2" mixed'
test_expect_success 'a call is not over before MPI has sent all of it' 'bounds 3 "2 1" unsent'
# steps RANKS LAYOUT HOW: in states that only rare timing would bring about
steps () {
    under_mpirun "$1" ./layout "$2" "$builddir/tests/engines/mpi_steps" "$3" >out 2>&1 || :
    test "$(grep -cx "as expected" out)" = "$1"
}
# They take seconds, and a busy machine can bring their ranks into another order: MPI_STEPS=yes runs them.
if [ "${MPI_STEPS-}" = yes ]; then
    test_expect_success 'a rank does not wait for the one that reads for its host, but for messages of its own' '
        steps 4 "2 2" postman && steps 4 "2 2" others'
    test_expect_success 'nothing of other hosts is written over what a rank has not read' 'steps 4 "2 2" read'
    test_expect_success 'and nothing of its own host' 'steps 4 "3 1" seen'
    test_expect_success 'nor are results of a large sum that a rank has not taken' 'steps 4 "2 2" taken'
    test_expect_success 'large sums have the same order on all ranks' 'steps 3 "1 2" numbers'
    test_expect_success 'a call is not matched with what was sent after a message that is late' 'steps 3 "2 1" overtaken'
    test_expect_success 'what MPI still sends is not written over' 'OMPI_MCA_btl_vader_eager_limit=256 steps 3 "1 2" parcels'
    test_expect_success 'and makes the job the last one of the process' 'steps 2 "1 1" ghost'
    test_expect_success 'ranks in another order share no memory' 'steps 4 "1 3" permuted'
    test_expect_success 'ranks of different machines share no memory' 'steps 3 "2 1" machines'
    test_expect_success 'ranks that find another file share no memory' 'steps 3 "2 1" replaced'
    test_expect_success 'a libaccel without helpers for 16-bit floats needs none' '
        cp "$builddir/tests/engines/.libs/accel_engine_elder.so" engines &&
        limited env ACCEL_ENGINE=elder "$mpirun" -n 3 ./layout "2 1" "$builddir/tests/engines/mpi_steps" halves >out &&
        test "$(grep -cx "as expected" out)" = 3 && rm engines/accel_engine_elder.so'
    test_expect_success 'the module reports the level that MPI gives' '
        limited "$builddir/tests/engines/mpi_steps" report "$module" >out &&
        grep "MPI_THREAD_FUNNELED, but MPI_THREAD_SERIALIZED was asked for: only the thread" out'
fi
test_expect_success 'a timeout is that of one call' 'under_mpirun 2 "$builddir/tests/engines/mpi_program" waits'
# Scenarios of tests/fault/comm_faults.sh, rank 1 being the victim: how many are told, and of what.
while read -r scenario told what; do
    test_expect_success "hang: $what" '
        under_mpirun 3 "$builddir/tests/fault/comm_faults" $scenario 1 >out && ! grep WRONG out &&
        test "$(grep -c "^rank [0-9]*: as expected" out)" = $told'
done <<'EOT'
other-call 3 a rank calls something else
other-name 3 a rank calls another function of the same kind
other-count 3 a rank has another count
recv-count 3 a message of another length
EOT
# On other hosts, the words are fewer.
for scenario in other-call send-barrier recv-count; do
    test_expect_success "on several hosts, too, ranks hear of it: $scenario" '
        { under_mpirun 3 ./layout "2 1" "$builddir/tests/fault/comm_faults" $scenario 1 >out 2>&1 || :; } &&
        grep "ranks [012] and [012] do not call the same thing while rank" out'
done
# mpirun would end the others at once.
if grep -q "Open MPI" version; then
    test_expect_success 'ranks hear of one that ends on another host, although no rank there is in a call' '
        under_mpirun 4 --enable-recovery ./layout "2 2" "$builddir/tests/engines/mpi_program" hears >out 2>&1 &&
        test "$(grep -cx "as expected" out)" = 3'
    # recovers HOW: rank 1 ends
    recovers () {
        { under_mpirun 3 --enable-recovery ./layout "2 1" "$builddir/tests/engines/mpi_steps" "$1" >out 2>&1 || :; } &&
            test "$(grep -cx "as expected" out)" = 2
    }
    if [ "${MPI_STEPS-}" = yes ]; then
        test_expect_success 'a rank that ends while it carries a part of a large sum is named' 'recovers carries'
        test_expect_success 'and in a group' 'recovers grouped'
    fi
    for scenario in killed killed-large-shared; do
        is_long || [ $scenario = killed ] || continue
        # mpirun itself can fail when a rank is killed: "PMIX ERROR: BAD-PARAM".
        test_expect_success "all hosts hear of a rank that has ended: $scenario" '
            { under_mpirun 4 --enable-recovery ./layout "2 2" "$builddir/tests/fault/comm_faults" $scenario 1 >out 2>&1 ||
                grep "PMIX ERROR" out; } && ! grep WRONG out && grep "^rank 0: as expected after [0-9.]* ms: rank 1 ended (process [0-9]*); mean" out &&
            test "$(grep -cE "^rank [23]: as expected after [0-9.]* ms: (rank [023] gave up: )*rank 1 ended \(process" out)" = 2'
    done
fi

# ---- training ----

# digits FILE COMMAND...: the losses, which one rank of each host prints
digits () {
    file=$1
    shift
    "$@" "$builddir/examples/digits" --epochs 2 --seed 1 --batch_size 60 >said && grep "^epoch" said | sort -u >"$file" &&
        test "$(wc -l <"$file")" = 2
}
for n in 2 4; do
    test $n = 2 || is_long || continue
    test_expect_success "examples/digits: $n processes train as with shared memory, bit for bit" '
        digits shm timeout $patience "$accelerate" launch --quiet --cpu --num_processes $n &&
        digits mpi under_mpirun $n && diff shm mpi && digits several under_mpirun $n ./hosts 1 && diff shm several'
done
test_done
