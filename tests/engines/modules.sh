#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engines from modules: where they are found, and which are refused, with the reason.
. "${srcdir:-.}/tests/testlib.sh"
opens=$builddir/tests/engines/opens
fake=$builddir/tests/engines/.libs/accel_engine_fake.so
umask 022
if [ ! -f "$fake" ]; then
    skip_rest 'no shared libraries in this build'
fi
mkdir here first && cp "$fake" here/accel_engine_fake.so

# opened COMMAND...: open with engine fake from the folder here.
opened () { ACCEL_ENGINE=fake ACCEL_ENGINE_PATH=$scratch/here timeout $patience "$@" >out 2>error; }
# refused WORDS: the error is one line about no engine, with the words.
refused () {
    test_exit 1 opened "${2:-$opens}" && test "$(wc -l <error)" = 1 && { grep -F -- "$1" error || { cat error; return 1; }; }
}

test_expect_success 'a module is found by name in ACCEL_ENGINE_PATH' \
    'opened "$opens" && grep -x "engine fake" out && grep -x "sum is 3" out'
test_expect_success 'what it does not support is refused before anything is sent, and harms nothing' '
    grep "^int32: accel_comm_all_reduce at .*opens.c:[0-9]*: engine fake cannot reduce int32$" out &&
    grep "^broadcast: accel_comm_broadcast at .*: engine fake does not support broadcast$" out && grep -x "barrier: ok" out'
test_expect_success 'without a name, the built-in engines come first' '
    ACCEL_ENGINE_PATH=$scratch/here timeout $patience "$opens" >out && grep -x "engine self" out'
test_expect_success 'after them, each module is tried' '
    test_exit 1 env ACCEL_ENGINE_PATH="$scratch/here" RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
        timeout $patience "$opens" 2>error && grep "self connects one process.*; shm connects .*; fake is for one process" error'
test_expect_success 'the first folder that has the name counts; others need not exist' '
    printf "not a library" >first/accel_engine_fake.so &&
    test_exit 1 env ACCEL_ENGINE=fake ACCEL_ENGINE_PATH="/nowhere::$scratch/first:$scratch/here" timeout $patience "$opens" 2>error &&
    grep -F "fake cannot be loaded: $scratch/first/accel_engine_fake.so: " error'
test_expect_success 'an unknown engine: the message has all names, and the near one' '
    test_exit 1 env ACCEL_ENGINE=fakee ACCEL_ENGINE_PATH="$scratch/here" timeout $patience "$opens" 2>error &&
    grep "unknown engine .fakee. (did you mean .fake.?): there are self, shm and fake; modules are found in ACCEL_ENGINE_PATH and in /" error'

while IFS='|' read -r how words; do
    test_expect_success "refused: $how" "FAKE_ENGINE=$how refused \"(\$scratch/here/accel_engine_fake.so): $words\""
done <<'EOT'
other-abi|was built for version 2 of the engine interface, not 1
too-short|has a table of
other-name|says that it is engine 'other'
no-name|says that it is engine ''
no-open|lacks open
half|lacks one of alloc and free
half-group|lacks one of coalesce_begin and coalesce_end
start-no-test|lacks test
start-no-wait|lacks wait
start-no-awaits|lacks awaits
start-no-give_up|lacks give_up
EOT
test_expect_success 'a longer table is accepted, and unknown members are ignored' \
    'FAKE_ENGINE=longer opened "$opens" && grep -x "engine fake" out'
for how in first blocking; do
    test_expect_success "a table without what was added later ($how) is accepted, and nothing is read past its end" '
        FAKE_ENGINE=$how opened "$opens" && grep -x "engine fake" out && grep -x "sum is 3" out && grep -x "started: ok" out'
done
test_expect_success 'an engine that starts calls itself; for a process alone, nothing is started' '
    FAKE_ENGINE=start opened "$opens" && grep -x "engine fake, with awaits(), with start()" out && grep -x "started: ok" out'
test_expect_success 'a kind that the engine does not know is unsupported' '
    opened "$opens" && grep -x "kind 40: engine fake: unknown kind 40" out && for engine in self shm; do
        ACCEL_ENGINE=$engine timeout $patience "$accelerate" launch --quiet --cpu --num_processes 1 "$opens" >out &&
        grep -x "kind 40: engine $engine: unknown kind of collective 40" out || return 1; done'

# with CHANGE UNDO: refused while CHANGE holds.
while IFS='|' read -r what change undo words; do
    test_expect_success "refused: $what" "
        $change && { refused '$words'; echo \$? >status; } && $undo && test \"\$(cat status)\" = 0 && opened \"\$opens\""
done <<'EOT'
a module that others may write to|chmod 646 here/accel_engine_fake.so|chmod 644 here/accel_engine_fake.so|fake is not loaded: others may write to
a module that its group may write to|chmod 664 here/accel_engine_fake.so|chmod 644 here/accel_engine_fake.so|use chmod go-w
a folder that others may write to|chmod 757 here|chmod 755 here|fake is not loaded: others may write to
a folder that its group may write to|chmod 775 here|chmod 755 here|/here: use chmod go-w
a folder above that others may write to|chmod 707 .|chmod 700 .|fake is not loaded: others may write to
a folder instead of a file|mv here/accel_engine_fake.so f && mkdir here/accel_engine_fake.so|rmdir here/accel_engine_fake.so && mv f here/accel_engine_fake.so|accel_engine_fake.so is not a plain file
a named pipe|mv here/accel_engine_fake.so f && mkfifo here/accel_engine_fake.so|rm here/accel_engine_fake.so && mv f here/accel_engine_fake.so|accel_engine_fake.so is not a plain file
a link to nothing|mv here/accel_engine_fake.so f && ln -s /nowhere here/accel_engine_fake.so|rm here/accel_engine_fake.so && mv f here/accel_engine_fake.so|accel_engine_fake.so: No such file or directory
EOT
test_expect_success 'a sticky folder above is as good as any: other users cannot replace what is in it' \
    'chmod 1777 . && opened "$opens" && chmod 700 .'
test_expect_success 'a symbolic link counts as its target' '
    mkdir open && cp "$fake" open/module.so && mv here/accel_engine_fake.so f && ln -s ../open/module.so here/accel_engine_fake.so &&
    opened "$opens" && chmod 777 open && refused "others may write to $scratch/open" && rm here/accel_engine_fake.so && mv f here/accel_engine_fake.so'
test_expect_success 'a link in a folder that others may write to is refused' '
    mv here/accel_engine_fake.so f && mkdir closed && mv f closed/module.so && ln -s ../closed/module.so here/accel_engine_fake.so &&
    chmod 777 here && refused "others may write to $scratch/here" && chmod 755 here && opened "$opens" &&
    rm here/accel_engine_fake.so && mv closed/module.so here/accel_engine_fake.so'
test_expect_success 'a relative folder is refused' '
    test_exit 1 env ACCEL_ENGINE=fake ACCEL_ENGINE_PATH=here timeout $patience "$opens" 2>error &&
    grep "fake is not loaded: .here. in ACCEL_ENGINE_PATH is not an absolute path" error'
if [ "$(id -u)" = 0 ]; then
    test_expect_success 'refused: a module of another user' '
        chown 12345 here/accel_engine_fake.so && refused "belongs to user 12345, but must belong to root or to you" &&
        chown 0 here/accel_engine_fake.so && chown 12345 here && refused "/here belongs to user 12345" && chown 0 here'
else
    test_skip 'refused: a module of another user' 'needs root'
fi
test_expect_success 'names that are not names of engines are not found' '
    mkdir odd && for name in "" UPPER a-b a.b 123456789012345678901234567890123; do
        cp "$fake" "odd/accel_engine_$name.so" || return 1; done && cp "$fake" odd/accel_engine_self.so && cp "$fake" odd/fake.so &&
    for name in UPPER a-b ../here/accel_engine_fake fake; do
        test_exit 1 env ACCEL_ENGINE="$name" ACCEL_ENGINE_PATH="$scratch/odd" timeout $patience "$opens" 2>error &&
        grep "unknown engine .*: there are self and shm; " error || return 1; done'
printf 'int missing_function (void) { return 1; }\n' >missing.c
printf 'int missing_function (void); int uses (void); int uses (void) { return missing_function (); }\n' >uses.c
mkdir needs empty
test_expect_success 'refused: a module whose library is missing, by the name of the library' '
    $CC -shared -fPIC -o libmissing_for_test.so missing.c &&
    $CC -shared -fPIC -Wl,--no-as-needed -o needs/accel_engine_fake.so uses.c -L. -lmissing_for_test &&
    test_exit 1 env ACCEL_ENGINE=fake ACCEL_ENGINE_PATH="$scratch/needs" timeout $patience "$opens" 2>error &&
    grep "fake cannot be loaded: libmissing_for_test.so: cannot open shared object file" error'
test_expect_success 'refused: a module that lacks a symbol, by the name of the symbol' '
    $CC -shared -fPIC -o empty/accel_engine_fake.so uses.c &&
    test_exit 1 env ACCEL_ENGINE=fake ACCEL_ENGINE_PATH="$scratch/empty" timeout $patience "$opens" 2>error &&
    grep "fake cannot be loaded: .*undefined symbol: missing_function" error'
test_expect_success 'refused: a library that is not an engine' '
    $CC -shared -fPIC -o empty/accel_engine_fake.so missing.c &&
    test_exit 1 env ACCEL_ENGINE=fake ACCEL_ENGINE_PATH="$scratch/empty" timeout $patience "$opens" 2>error &&
    grep -F "fake ($scratch/empty/accel_engine_fake.so): does not define accel_engine" error'

test_expect_success 'accelerate env lists the engines' '
    ACCEL_ENGINE_PATH=$scratch/here "$accelerate" env >out &&
    grep -Fx "	- engines: self, shm, fake ($scratch/here/accel_engine_fake.so)" out &&
    chmod 666 here/accel_engine_fake.so && ACCEL_ENGINE_PATH=$scratch/here "$accelerate" env >out && chmod 644 here/accel_engine_fake.so &&
    grep -Fx "	- engines: self, shm, fake (not loaded: others may write to $scratch/here/accel_engine_fake.so: use chmod go-w)" out'
# The one list of engines that are built in.
names=$(sed -n 's/^ *X (\([a-z0-9_]*\)).*/\1/p' "$srcdir/src/util/engine_files.h")
test_expect_success 'accelerate env, messages and the manual have the engines of the list, and no others' '
    test -n "$names" && list=$(echo $names | sed "s/ /, /g") && "$accelerate" env >out && grep -Fx "	- engines: $list" out &&
    test_exit 1 env ACCEL_ENGINE=nope timeout $patience "$opens" 2>error &&
    grep -F ": there are $(echo "$list" | sed "s/, \([a-z0-9_]*\)$/ and \1/"); " error &&
    test "$(sed -n "s/^\.It Dq \([a-z0-9_]*\)$/\1/p" "$srcdir/man/accel_engine.3.in")" = "$names"'
test_done
