#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README's lines that train a GPT do what they say.  Each is run as it is there, in a folder like build/, but the model is
# a small one, and it is killed after its first checkpoint, not after seconds.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
if is_thread_sanitized; then
    skip_rest 'takes too long with the thread sanitizer'
fi

sed -n '/^## Train a GPT/,/^## Who/p' "$srcdir/README.md" | sed -n '/^```sh/,/^```$/p' | sed '1d;$d' >lines
mkdir -p tree/build/examples/gpt bin
ln -s "$accelerate" tree/build/accelerate
ln -s "$builddir/src" tree/build/src
cat >tree/build/examples/gpt/gpt <<END
#!/bin/sh
# By the word libaccel.so, the launcher knows that ranks on several hosts need MPI.
exec "$builddir/examples/gpt/gpt" --data "$srcdir/examples/data/shakespeare.txt" --n_embd 16 --n_layer 1 --n_head 1 \\
    --n_positions 16 --length 16 --sample 12 "\$@" \$slowly
END
cat >bin/make <<'END'
#!/bin/sh
echo "$@" >made
END
cat >bin/timeout <<'END'
#!/bin/sh
# Evaluations change nothing that is trained, but make steps slow: it is killed before its end on any machine.
slowly='--evaluate_every 1 --evaluation_batches 64'
export slowly
shift 3
"$@" &
until [ -e gpt/checkpoints/checkpoint_0 ] || ! kill -0 $!; do sleep 0.02; done
kill -KILL $!
wait $!
END
chmod +x bin/* tree/build/examples/gpt/gpt

# run WORD: the only line that has it
run () {
    grep -e "$1" lines >line && [ "$(wc -l <line)" = 1 ] && cat line >>were_run &&
        (cd "$scratch/tree/${folder-build}" && PATH=$scratch/bin:$PATH sh -c "$(cat "$scratch/line")")
}
test_expect_success 'the library and the example are built' 'folder=. run "^make" && test -s tree/made'
test_expect_success 'it trains, and is killed' '
    test_exit 137 run "^timeout" >log && cat log && grep "2 process(es)" log && test -d tree/build/gpt/checkpoints/checkpoint_0'
test_expect_success 'it continues on another number of processes, and saves its model' '
    run "num_processes 4" >log && cat log && grep "4 process(es)" log && ! grep "^step  *1 of" log && grep "^step  *1000 of 1000 " log &&
    test -s tree/build/model/model.safetensors && test -s tree/build/model/config.json'
test_expect_success 'the page has its losses' 'run " report " && grep "aria-label=\"loss over steps" tree/build/gpt.html'
if python3 -c 'import transformers, torch' 2>/dev/null; then
    test_expect_success 'transformers opens its model' 'run "^python3" >out && cat out && grep "GPT2LMHeadModel" out'
else
    test_skip 'transformers opens its model' 'needs Python packages transformers and torch'
    grep "^python3" lines >>were_run
fi

mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version || [ ! -f "$builddir/src/engines/mpi/.libs/accel_engine_mpi.so" ]; then
    skip_rest 'engine mpi is not built, or there is no mpirun of Open MPI'
fi
begin_lab 2 || exit
allow_leaks_of_mpi || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base
test_expect_success 'it continues on two hosts' '
    grep -e "--hosts" lines >line && [ "$(wc -l <line)" = 1 ] && cat line >>were_run &&
    on host1 timeout -k 10 $patience sh -c "cd $scratch/tree/build && $(cat line)" >log && cat log &&
    grep "2 process(es)" log && ! grep "^step  *1000 of" log && grep "^step  *1200 of 1200 " log'
test_expect_success 'no line was left out' 'sort were_run >sorted && test -s sorted && sort lines | diff - sorted'
test_done
