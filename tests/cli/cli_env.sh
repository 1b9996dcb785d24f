#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate env: facts, the configuration with where it came from, as text and as JSON.
. "${srcdir:-.}/tests/testlib.sh"

test_expect_success 'text' '
    "$accelerate" env >out && grep "^- .Accelerate. version: " out && grep "^- Platform: Linux-" out &&
    grep "^- CPUs: [1-9][0-9]* usable" out && grep "^- System RAM: " out && grep "^- GPUs: " out'
test_expect_success 'no default file' 'grep -F "default config: $HOME/.cache/huggingface/accelerate/default_config.yaml" out && grep "Not found" out'
test_expect_success 'settings with their lines' '
    printf "debug: true\n\nnum_processes: 3\n" >c.yaml && "$accelerate" env --config_file c.yaml >out &&
    grep -F "config passed: c.yaml" out && grep -F "debug: true (c.yaml:1)" out &&
    grep -F "num_processes: 3 (c.yaml:3)" out && ! grep mixed_precision out'
test_expect_success '--config-file=FILE' '"$accelerate" env --config-file=c.yaml >two && cmp out two'
test_expect_success 'JSON' '"$accelerate" env --json --config_file c.yaml >out && grep "\"origin\": \"c.yaml:3\"" out && head -n 1 out | grep -x "{"'
test_expect_success 'a broken file: the facts come all the same, then the error with its line' '
    echo "num_proceses: 3" >broken.yaml && test_exit 1 "$accelerate" env --config_file broken.yaml >out 2>error &&
    grep Platform out && grep -F "accelerate: broken.yaml:1: unknown key '\''num_proceses'\'' (did you mean '\''num_processes'\''?)" error'
test_expect_success 'a missing file' '
    test_exit 1 "$accelerate" env --config_file none.yaml >out 2>error && grep "Not found" out &&
    grep -F "none.yaml: No such file or directory" error'
test_expect_success 'a folder' 'mkdir dir && test_exit 1 "$accelerate" env --config_file dir 2>error && grep "is a directory" error'
test_expect_success 'nothing of the environment is shown' '
    SECRET_TOKEN=hunter2 "$accelerate" env >out && ! grep hunter2 out'
test_expect_success 'no arguments' 'test_exit 2 "$accelerate" env extra 2>error && grep "unexpected argument" error'
# Root reads everything, so it becomes somebody else.
as_nobody () {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --clear-groups "$@"; else "$@"; fi
}
chmod 711 "$scratch" && touch c.yaml && chmod 0 c.yaml
if as_nobody test -x "$accelerate"; then
    test_expect_success 'an unreadable file' '
        test_exit 1 as_nobody "$accelerate" env --config_file c.yaml 2>error && grep "c.yaml: Permission denied" error'
    test_expect_success 'an unreadable file, for launch' '
        test_exit 1 as_nobody "$accelerate" launch --config_file c.yaml true 2>error && cat error &&
        grep "c.yaml: Permission denied" error'
else
    test_skip 'an unreadable file' 'the build folder is closed to others'
fi
test_done
