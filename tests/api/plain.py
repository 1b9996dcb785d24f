# SPDX-License-Identifier: Apache-2.0
"""A binding by ctypes: plain functions, and a collective with its place.  Argument: libaccel.so"""
import ctypes
import sys


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("sys_errno", ctypes.c_int), ("text", ctypes.c_char * 488)]


accel = ctypes.CDLL(sys.argv[1])
err = Error()


def must(status):
    if status:
        sys.exit(f"status {status}: {err.text.decode()}")


job = ctypes.c_void_p()
must(accel.accel_open(ctypes.byref(job), None, ctypes.byref(err)))
number = ctypes.c_double(accel.accel_process_index(job) + 1)
must(accel.accel_reduce_number_at(__file__.encode(), 1, job, ctypes.byref(number), 0, ctypes.byref(err)))
must(accel.accel_outlier_watch(job, None, ctypes.byref(err)))
dataset = ctypes.c_void_p()
failed = accel.accel_dataset_open_csv(ctypes.byref(dataset), b"/nowhere", None, ctypes.byref(err))
print(f"rank {accel.accel_process_index(job)}: sum {number.value:g}, {err.text.decode() if failed else 'no error'}", flush=True)
accel.accel_close(job)
