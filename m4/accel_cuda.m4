# SPDX-License-Identifier: Apache-2.0
# ACCEL_CUDA: the compiler of the code for GPUs, and the C++ compiler that compiles it for the host, for tests.  Nothing
# that is installed is linked with CUDA.
AC_DEFUN([ACCEL_CUDA], [
    AC_ARG_VAR([CUDA_ARCHITECTURES], [GPUs to compile for, as nvcc counts them
        @<:@those of 80 86 89 90 100 120 that nvcc knows@:>@])
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [compile for NVIDIA GPUs with the CUDA toolkit in DIR
            @<:@auto: if nvcc is found@:>@])],
        [], [with_cuda=auto])
    CUDA_HOME= NVCC= cuda_found=no cuda_state="no (--with-cuda=no)"
    AS_CASE([$with_cuda], [auto|yes|/*], [ACCEL_CUDA_FIND], [no], [],
        [AC_MSG_ERROR([invalid --with-cuda=$with_cuda: expected auto, yes, no or an absolute path])])
    AS_IF([test "x$cuda_found" = xyes], [ACCEL_CUDA_TRY])
    AS_IF([test "x$with_cuda" != xauto && test "x$with_cuda" != xno && test "x$cuda_found" != xyes],
        [AC_MSG_ERROR([--with-cuda=$with_cuda, but $cuda_state: install the CUDA toolkit 12 or 13, or give --with-cuda=DIR])])
    AC_SUBST([CUDA_HOME])
    AC_SUBST([NVCC])
    AS_IF([test "x$cuda_found" = xyes && test "x$enable_shared" = xno],
        [cuda_found=no cuda_state="no (a module, but --disable-shared)"])
    AC_SUBST([CUDA_GENCODE])
    AM_CONDITIONAL([WITH_CUDA], [test "x$cuda_found" = xyes])

    AC_MSG_CHECKING([whether $CXX compiles C++17 and C together])
    AC_LANG_PUSH([C++])
    accel_saved_cxxflags=$CXXFLAGS
    CXXFLAGS="$CXXFLAGS -std=gnu++17 $SAN_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <tuple>
        #include <type_traits>]],
        [[if constexpr (std::is_pointer_v<int *>) return std::apply ([] (int a) { return a; }, std::tuple<int> (0));]])],
        [cxx17=yes], [cxx17=no])
    CXXFLAGS=$accel_saved_cxxflags
    AC_LANG_POP([C++])
    AC_MSG_RESULT([$cxx17])
    AM_CONDITIONAL([HAVE_CXX17], [test "x$cxx17" = xyes])
])
AC_DEFUN([ACCEL_CUDA_FIND], [
    AS_CASE([$with_cuda], [/*], [NVCC=$with_cuda/bin/nvcc],
        [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH$PATH_SEPARATOR/usr/local/cuda/bin])])
    AS_IF([test "x$NVCC" = x || test ! -x "$NVCC"], [cuda_state="no (nvcc not found)" NVCC=],
        [cuda_release=`"$NVCC" --version 2>/dev/null | sed -n 's/.*release \([[0-9]]*\)\..*/\1/p'`
         CUDA_HOME=`dirname "\`dirname "$NVCC"\`"`
         AS_CASE([$cuda_release],
             [12|13], [AS_IF([test -f "$CUDA_HOME/include/cuda_runtime_api.h"],
                 [cuda_found=yes cuda_state="yes, CUDA $cuda_release ($NVCC)"],
                 [cuda_state="no ($CUDA_HOME has no include/cuda_runtime_api.h)"])],
             [cuda_state="no ($NVCC is of release '$cuda_release', expected 12 or 13)"])])
])
dnl For which GPUs, and whether that works: an nvcc refuses GPUs newer than itself, and compilers of the host, too.
AC_DEFUN([ACCEL_CUDA_TRY], [
    AS_IF([test "x$CUDA_ARCHITECTURES" = x],
        [cuda_known=" `"$NVCC" --list-gpu-arch 2>/dev/null | tr '\n' ' '`"
         for accel_arch in 80 86 89 90 100 120; do
             AS_CASE([$cuda_known], [" " | *" compute_$accel_arch "*],
                 [CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:+$CUDA_ARCHITECTURES }$accel_arch"])
         done])
    CUDA_GENCODE=
    for accel_arch in $CUDA_ARCHITECTURES; do
        CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$accel_arch,code=sm_$accel_arch"
        cuda_latest=$accel_arch
    done
    dnl and what comes, from the PTX of the last
    CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$cuda_latest,code=compute_$cuda_latest"
    AC_MSG_CHECKING([whether $NVCC compiles for $CUDA_ARCHITECTURES])
    echo '__global__ void kernel (float *x) { *x = 1; }' >conftest.cu
    AS_IF(["$NVCC" -O2 -std=c++17 $CUDA_GENCODE -c conftest.cu -o conftest.$OBJEXT >&AS_MESSAGE_LOG_FD 2>&1],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         cuda_found=no cuda_state="no ($NVCC cannot compile a kernel: see config.log)" NVCC=])
    rm -f conftest.cu conftest.$OBJEXT
])
