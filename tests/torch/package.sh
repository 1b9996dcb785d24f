#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The package accel_torch is installed without Python, where the command beside it finds it; and it becomes a wheel.
. "${srcdir:-.}/tests/testlib.sh"

unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES
make=$(sed -n 's/^MAKE = //p' "$builddir/Makefile")
: "${make:=make}"
# With nothing but what make itself needs.
test_expect_success 'make install-python' '
    $make -C "$builddir" -s install-python DESTDIR="$scratch/staged" datadir=/share libdir=/lib PYTHON=false &&
        diff -r -x _installed.py -x __pycache__ "$srcdir/python/accel_torch/accel_torch" staged/share/accelerate/python/accel_torch &&
        grep "^LIBRARY = \"/lib/libaccel.so.0\"$" staged/share/accelerate/python/accel_torch/_installed.py &&
        grep "^accel = accel_torch:_autoload$" staged/share/accelerate/python/accel_torch-*.dist-info/entry_points.txt
'
test_expect_success 'the command that is installed beside it adds it to PYTHONPATH, only for accel' '
    mkdir staged/bin && cp "$accelerate" staged/bin && PYTHONPATH= && export PYTHONPATH &&
        for backend in accel gloo; do
            staged/bin/accelerate launch --cpu --cpu_backend $backend --dry_run /bin/true >$backend || return 1
        done && grep "PYTHONPATH=.*/staged/bin/\.\./share/accelerate/python" accel && ! grep "share/accelerate/python" gloo
'
test_expect_success 'make install includes it' '
    $make -C "$builddir" -n install-data-hook >made && grep "entry_points.txt" made
'
test_expect_success 'without it, launch prints one note' '
    mkdir bare && cp "$accelerate" bare && bare/accelerate launch --cpu --num_processes 2 --cpu_backend accel --no_python \
        /bin/true 2>err && test "$(grep -c "^accelerate: note: the Python package accel_torch is not installed" err)" = 1
'
test_expect_success 'make uninstall-python leaves nothing' '
    $make -C "$builddir" -s uninstall-python DESTDIR="$scratch/staged" datadir=/share && test -z "$(find staged/share -name "*accel*")"
'
# Setuptools before 70.1 also needs the package wheel, and its versions before 61 do not read pyproject.toml.
makes_wheels='
import setuptools, pip
major, minor = map (int, setuptools.__version__.split (".")[:2])
if (major, minor) < (70, 1):
    import wheel
    assert major >= 61
'
if ! python3 -c "$makes_wheels" 2>error; then
    test_skip 'make wheel' 'there is no python3 with pip and a setuptools that makes wheels'
else
    test_expect_success 'make wheel' '
        $make -C "$builddir" -s wheel wheel="$scratch/wheel" && python3 -m zipfile -l wheel/accel_torch-*-py3-none-any.whl >files && grep "accel_torch/_plug.py" files &&
            grep "dist-info/entry_points.txt" files
    '
fi
test_done
