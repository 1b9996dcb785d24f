# SPDX-License-Identifier: Apache-2.0
# ACCEL_NCCL, after ACCEL_CUDA: engine nccl, a module.  It is compiled with NCCL's header and linked with the CUDA
# runtime; NCCL itself is loaded when a job is opened.
AC_DEFUN([ACCEL_NCCL], [
    AC_ARG_WITH([nccl],
        [AS_HELP_STRING([--with-nccl=auto|yes|no|DIR], [build engine nccl, a module, with DIR/include/nccl.h
            @<:@auto: if CUDA and nccl.h are found@:>@])],
        [], [with_nccl=auto])
    NCCL_CPPFLAGS= NCCL_LIBS= nccl_found=no nccl_state="no (--with-nccl=no)"
    AS_CASE([$with_nccl], [auto|yes|/*], [ACCEL_NCCL_TRY], [no], [],
        [AC_MSG_ERROR([invalid --with-nccl=$with_nccl: expected auto, yes, no or an absolute path])])
    AS_IF([test "x$with_nccl" != xauto && test "x$with_nccl" != xno && test "x$nccl_found" != xyes],
        [AC_MSG_ERROR([--with-nccl=$with_nccl, but $nccl_state: install libnccl-dev, or give --with-nccl=DIR])])
    AC_SUBST([NCCL_CPPFLAGS])
    AC_SUBST([NCCL_LIBS])
    AM_CONDITIONAL([WITH_NCCL], [test "x$nccl_found" = xyes])
])
AC_DEFUN([ACCEL_NCCL_TRY], [
    AS_IF([test "x$CUDA_HOME" = x || test "x$cuda_found" != xyes], [nccl_state="no (needs CUDA)"], [
        AS_CASE([$with_nccl], [/*], [NCCL_CPPFLAGS="-isystem $with_nccl/include"])
        NCCL_CPPFLAGS="$NCCL_CPPFLAGS -isystem $CUDA_HOME/include"
        NCCL_LIBS="-L$CUDA_HOME/lib64 -lcudart"
        dnl where the CUDA runtime is, unless the linker looks there anyway
        AS_CASE([$CUDA_HOME], [/usr|/], [], [NCCL_LIBS="$NCCL_LIBS -Wl,--enable-new-dtags,-rpath,$CUDA_HOME/lib64"])
        AC_MSG_CHECKING([whether programs with NCCL can be built])
        accel_saved_cppflags=$CPPFLAGS accel_saved_libs=$LIBS
        CPPFLAGS="$CPPFLAGS $NCCL_CPPFLAGS" LIBS="$NCCL_LIBS $LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>
            #if NCCL_VERSION_CODE < 21900
            #error nccl.h is too old
            #endif]],
            [[int count; return cudaGetDeviceCount (&count) + (int) sizeof (ncclConfig_t);]])],
            [nccl_found=yes; nccl_state="yes, a module"],
            [nccl_found=no; nccl_state="no (nccl.h of NCCL 2.19 or newer not found)"])
        CPPFLAGS=$accel_saved_cppflags LIBS=$accel_saved_libs
        AC_MSG_RESULT([$nccl_found])
    ])
])
