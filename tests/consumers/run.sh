#!/bin/bash
# Builds hello.cpp as a user would, against the built tree, installed into a fresh folder, or with the sources as a
# subproject, and compares what it prints.
# usage: run.sh KIND BUILD_DIR MESON CXX [MESON OPTION]...
#   KIND: meson | cmake | pkgconfig | subproject-release | subproject-debug
set -euo pipefail
kind=$1 build=$2 meson=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CXX=$cxx

install_tree() {
  $meson install -C "$build" --no-rebuild --quiet --destdir "$work/root"
  local pc
  pc=$(find "$work/root" -name tapestry.pc)
  PKG_CONFIG_PATH=$(dirname "$pc")
  libdir=$(dirname "$PKG_CONFIG_PATH")
  prefix=$(dirname "$(dirname "$(find "$work/root" -path '*/include/tapestry' -type d)")")
  export PKG_CONFIG_PATH
}

check() { # check PROGRAM: it runs with the installed shared library and prints hello.txt
  (cd "$work" && LD_LIBRARY_PATH=$libdir "$1") | diff "$here/hello.txt" - || { echo "$1 printed something else"; exit 1; }
  echo "ok: $kind: ${1##*/}"
}

check_static() { # check_static PROGRAM: as check, and without the shared library
  if ldd "$1" | grep tapestry; then
    echo "$1 links the shared library"
    exit 1
  fi
  check "$1"
}

case $kind in
meson)
  install_tree
  $meson setup "$work/build" "$here/meson"
  $meson compile -C "$work/build"
  check "$work/build/hello"
  ;;
cmake)
  command -v cmake > /dev/null || { echo 'skipped: there is no cmake'; exit 77; }
  install_tree
  cmake -S "$here/cmake" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix"
  cmake --build "$work/build"
  check "$work/build/hello"
  check_static "$work/build/hello_static"
  ;;
pkgconfig)
  install_tree
  make -C "$work" -f "$here/pkgconfig/Makefile" VPATH="$here/pkgconfig" hello hello_static
  check "$work/hello"
  check_static "$work/hello_static"
  ;;
subproject-*)
  mkdir "$work/project"
  cp -r "$here/meson" "$here/hello.cpp" "$work/project"
  mkdir "$work/project/meson/subprojects"
  ln -s "$(cd "$here/../.." && pwd)" "$work/project/meson/subprojects/tapestry"
  set_up() { # set_up OPTION...
    $meson setup "$work/build" "$work/project/meson" --buildtype="${kind#subproject-}" --force-fallback-for=tapestry \
      -Dtapestry:cuda=disabled "$@"
  }
  ;;&
subproject-release)
  # The library would be what the own build has compiled, so only the program is compiled.
  set_up "${@:5}"
  "$here/same_commands.py" "$build" "$work/build"
  ninja -C "$work/build" hello.p/.._hello.cpp.o
  $cxx "$work/build/hello.p/.._hello.cpp.o" -L"$build/src" -ltapestry -o "$work/hello"
  libdir=$build/src
  check "$work/hello"
  ;;
subproject-debug)
  # Compiles the library as a part of the consumer's project, with the consumer's build type and not our own, for one
  # level of processors.
  level=v2
  ! grep -q avx2 /proc/cpuinfo || level=v3
  ! command -v ccache > /dev/null || export CXX="ccache $cxx"
  # What a debugger reads would take an eighth of the time.
  CXXFLAGS=-g0 set_up -Dtapestry:cpu_levels=$level
  # The consumer's program and what it needs, a plugin included: not the other plugins and programs.
  $meson compile -C "$work/build" hello tapestry_onnx tapestry_tensorflow
  libdir=$work/build/subprojects/tapestry/src
  check "$work/build/hello"
  if [ $level = v3 ]; then
    ! TAPESTRY_CPU_LEVEL=v2 LD_LIBRARY_PATH=$libdir "$work/build/hello" > "$work/refused" 2>&1
    grep "built for processors of x86-64's v3" "$work/refused"
  fi
  ;;
esac
