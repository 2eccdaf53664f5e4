#!/bin/sh
# Builds a static, position-independent OpenBLAS with kernels for every processor of the family.
# usage: build.sh SOURCE WORK OUTPUT CMAKE NINJA
set -eu
source=$1 work=$2 output=$3 cmake=$4 ninja=$5

# NOFORTRAN and C_LAPACK: LAPACK comes from the C sources in the archive, so nobody needs a Fortran compiler.
# The policy line lets CMake 4 read files that were written for CMake 2.
"$cmake" -S "$source" -B "$work/build" -G Ninja -DCMAKE_MAKE_PROGRAM="$ninja" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
  -DCMAKE_INSTALL_PREFIX="$work/install" -DCMAKE_INSTALL_LIBDIR=lib \
  -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DBUILD_WITHOUT_LAPACKE=ON \
  -DNOFORTRAN=ON -DC_LAPACK=ON -DDYNAMIC_ARCH=ON -DUSE_OPENMP=OFF -DNUM_THREADS=64
"$cmake" --build "$work/build"
"$cmake" --install "$work/build"
cp "$work/install/lib/libopenblas.a" "$work"/install/include/openblas/cblas.h \
  "$work/install/include/openblas/openblas_config.h" "$output"
