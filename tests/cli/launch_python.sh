#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which file a program's name means, and which Python runs it.
. "${srcdir:-.}/tests/testlib.sh"

# Pythons that print which they are.  A folder is an environment because of the files next to its bin.
for prefix in system other venv copied conda; do
    mkdir -p $prefix/bin && printf '#!/bin/sh\necho %s "$@"\n' $prefix >$prefix/bin/python3 && chmod +x $prefix/bin/python3
done
touch venv/pyvenv.cfg copied/pyvenv.cfg && mkdir conda/conda-meta
ln -s "$accelerate" venv/bin/accelerate && cp "$accelerate" copied/bin/accelerate && ln -s "$accelerate" conda/bin/accelerate-launch
ln -s "$accelerate" system/bin/accelerate && ln -s ../venv/bin/accelerate other/accelerate
mkdir -p bare/bin && sed s/system/bare/ system/bin/python3 >bare/bin/python && chmod +x bare/bin/python
mkdir old && printf '#!/bin/sh\necho old "$@"\n' >old/python && chmod +x old/python
path=$scratch/system/bin:/usr/bin:/bin
echo "print ('a script')" >train.py

# python_is WHO WORDS VARIABLES... COMMAND: that Python runs the script, and --dry_run says that and WORDS
python_is () {
    who=$1 words=$2
    shift 2
    env PATH="$path" "$@" train.py a >out 2>error && cat out error && grep -x "$who train.py a" out || return 1
    env PATH="$path" "$@" --dry_run train.py a >out && grep "^  Python is .*/$who/*[a-z]*/python.*: .*$words" out || { cat out; return 1; }
    env PATH="$path" "$@" --dry_run --json train.py a >out && grep "\"Python is .*$words" out && [ ! -s error ]
}
# Name of the case | the Python | words of the note | how it is called, with variables before.
while IFS='|' read -r name who words call; do
    test_expect_success "$name" "python_is $who '$words' $call"
done <<'END'
python3 in PATH|system|first python3 in PATH|system/bin/accelerate launch
called by path inside a virtual environment|venv|environment where accelerate is installed, .*venv/bin/accelerate|venv/bin/accelerate launch
the same, absolute, another one active|venv|environment where accelerate is installed|VIRTUAL_ENV=$PWD/copied $PWD/venv/bin/accelerate launch
copied there|copied|environment where accelerate is installed|copied/bin/accelerate launch
found there through PATH|venv|environment where accelerate is installed|PATH=$scratch/system/bin:$scratch/other/none:$scratch/venv/bin:/usr/bin:/bin sh -c 'rm system/bin/accelerate; accelerate "$@"; status=$?; ln -s "$0" system/bin/accelerate; exit $status' "$accelerate" launch
a link to a link inside it|venv|environment where accelerate is installed, other/../venv/bin/accelerate|other/accelerate launch
inside a conda environment, by another name|conda|environment where accelerate is installed|conda/bin/accelerate-launch
VIRTUAL_ENV|venv|VIRTUAL_ENV|VIRTUAL_ENV=$PWD/venv system/bin/accelerate launch
VIRTUAL_ENV without a Python|system|first python3|VIRTUAL_ENV=$PWD/none system/bin/accelerate launch
VIRTUAL_ENV that is empty|system|first python3|VIRTUAL_ENV= system/bin/accelerate launch
VIRTUAL_ENV whose Python has no other name|bare|VIRTUAL_ENV|VIRTUAL_ENV=$PWD/bare system/bin/accelerate launch
CONDA_PREFIX|conda|CONDA_PREFIX|CONDA_PREFIX=$PWD/conda system/bin/accelerate launch
both, neither in PATH|venv|VIRTUAL_ENV|CONDA_PREFIX=$PWD/conda VIRTUAL_ENV=$PWD/venv system/bin/accelerate launch
both, conda first in PATH|conda|CONDA_PREFIX|PATH=$PWD/conda/bin:$PWD/venv/bin:$path CONDA_PREFIX=$PWD/conda/ VIRTUAL_ENV=$PWD/venv system/bin/accelerate launch
both, a folder below that of conda first in PATH|venv|VIRTUAL_ENV|PATH=$PWD/conda/bin/more:$PWD/conda/binary:$PWD/venv/bin:$path CONDA_PREFIX=$PWD/conda VIRTUAL_ENV=$PWD/venv system/bin/accelerate launch
both, venv first in PATH|venv|VIRTUAL_ENV|PATH=$PWD/venv/bin:$PWD/conda/bin:$path CONDA_PREFIX=$PWD/conda VIRTUAL_ENV=$PWD/venv system/bin/accelerate launch
only python|old|first python in PATH|PATH=$PWD/old /usr/bin/env "$accelerate" launch
END
test_expect_success 'accelerate env names the same Python' '
    VIRTUAL_ENV=$PWD/venv "$accelerate" env >out &&
    grep -Fx -- "- Python: $PWD/venv/bin/python3" out'
test_expect_success 'no Python at all' '
    PATH=/none test_exit 127 "$accelerate" launch train.py 2>error && grep "neither python3 nor python is in PATH" error'

if ! command -v python3 >/dev/null; then
    skip_rest 'no python3'
fi
# One write() for each line: two ranks write to one file, and print() writes each argument alone where Python has -u.
what='import sys; sys.stdout.write (" ".join (["python"] + sys.argv) + "\n")'
printf "%s\n" "$what" >train && mkdir folder && cp train folder/__main__.py && mkdir empty &&
    python3 -m zipapp folder -o app.pyz && python3 -m zipapp folder -o app -p "/usr/bin/env python3" &&
    python3 -c 'import py_compile; py_compile.compile ("train", "compiled")' &&
    mkdir only_compiled && cp compiled only_compiled/__main__.pyc || exit 99
for program in train ./train folder ./folder only_compiled app.pyz ./app.pyz ./app compiled; do
    test_expect_success "$program, as the original runs it" '
        "$accelerate" launch $program a "b c" >out && cat out && grep -x "python $program a b c" out'
done
test_expect_success 'several ranks of a script without .py, whose lines come at once' '
    "$accelerate" launch --cpu --num_processes 2 --dry_run train >plan && grep "/python3* -u train$" plan &&
    "$accelerate" launch --cpu --num_processes 2 train >out && [ "$(grep -cx "python train" out)" = 2 ]'

# A name of its own that is in PATH too, one that is only here, one that is only in PATH.
mkdir tools && for name in both away; do printf '#!/bin/sh\necho in PATH\n' >tools/$name && chmod +x tools/$name; done
printf '#!/bin/sh\necho here\n' >both && chmod +x both && cp both only && echo "print ('a script here')" >true
PATH=$PATH:$scratch/tools
while IFS='|' read -r arguments status said; do
    test_expect_success "launch $arguments: $said" '
        test_exit $status "$accelerate" launch $arguments >out 2>&1 && grep -F "$said" out'
done <<'END'
both|0|here
only|0|here
away|0|in PATH
true|0|a script here
--no_python both|0|in PATH
--no_python away|0|in PATH
--no_python ./both|0|here
--no_python only|127|only: no such program in PATH; to run the one in the current folder, use ./only
--no_python nothing|127|nothing: no such program in PATH
nothing|127|nothing: no such program in the current folder or in PATH
--no_python folder|127|folder: no such program in PATH
--no_python ./folder|126|./folder: is a directory
empty|126|empty: is a directory without __main__.py
--no_python ./train|126|./train: cannot be executed: neither an ELF program nor a script with a #! line
END
test_expect_success '--no_python true is the one in PATH' '"$accelerate" launch --no_python true >out && [ ! -s out ]'
test_expect_success 'and an empty entry of PATH is the current folder' '
    PATH=:$PATH && "$accelerate" launch --no_python only >out && [ "$(cat out)" = here ]'
test_expect_success 'a TPU imports its program: a file NAME.py, or a module' '
    test_exit 2 "$accelerate" launch --tpu --num_processes 1 train 2>error && grep "NAME.py" error'
test_expect_success 'a notebook is refused, and how to run it is said' '
    printf "{\"cells\": []}" >book.ipynb &&
    test_exit 126 "$accelerate" launch --cpu --num_processes 2 book.ipynb 2>err && test "$(wc -l <err)" = 1 &&
    grep "book.ipynb: is a notebook.*jupyter nbconvert --to script.*notebook_launcher" err &&
    printf "#!/bin/sh\nexit 7\n" >book.ipynb && chmod +x book.ipynb &&
    test_exit 7 "$accelerate" launch --cpu --num_processes 1 --no_python ./book.ipynb'
test_done
