# shellcheck shell=bash disable=SC2034
# Sourced by the tools. Installs what is missing and puts up a build folder. Works on a bare Debian 12, as root or
# through sudo; elsewhere it says what is missing.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

say() { printf '==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# What the build needs, as "probe|package": a command, a pkg-config module, a header, a library or a file; then Debian's
# package.
build_needs='
command g++|g++
command make|make
command meson|meson
command ninja|ninja-build
command pkg-config|pkg-config
command cmake|cmake
module openblas|libopenblas-dev
module zlib|zlib1g-dev
module nlohmann_json|nlohmann-json3-dev
module xtensor|libxtensor-dev
header xtensor-blas/xlinalg.hpp|libxtensor-blas-dev
header protozero/pbf_reader.hpp|libprotozero-dev
header doctest/doctest.h|doctest-dev
module benchmark|libbenchmark-dev
module ompi-c|libopenmpi-dev
module cpp-httplib|libcpp-httplib-dev
header rapidjson/document.h|rapidjson-dev
module grpc++|libgrpc++-dev
'
[ "$(uname -m)" != x86_64 ] || build_needs+=$'module xbyak|libxbyak-dev\n'
# Without it meson on Debian would install into lib64, where neither the loader nor CMake look.
[ ! -e /etc/debian_version ] || build_needs+=$'command dpkg-architecture|dpkg-dev\n'

present() { # present KIND NAME
  case $1 in
  command) command -v "$2" > /dev/null ;;
  module) command -v pkg-config > /dev/null && pkg-config --exists "$2" ;;
  header) [ -e "/usr/include/$2" ] || [ -e "/usr/local/include/$2" ] ;;
  file) [ -e "$2" ] ;;
  library) compgen -G "/usr/lib/*/$2" > /dev/null ;;
  esac
}

missing_packages() { # missing_packages NEEDS: prints the packages whose probes fail
  local kind rest
  while read -r kind rest; do
    [ -z "$kind" ] || present "$kind" "${rest%|*}" || echo "${rest#*|}"
  done <<< "$1"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_missing() { # install_missing NEEDS
  local packages
  packages=$(missing_packages "$1" | sort -u | paste -sd ' ')
  [ -n "$packages" ] || return 0
  command -v apt-get > /dev/null ||
    fail "missing: $packages (Debian's names; there is no apt-get here. Install their like, or let meson setup" \
      "download the libraries by the wraps in subprojects/)"
  [ "$(id -u)" = 0 ] || command -v sudo > /dev/null ||
    fail "missing: $packages (run this as root, or install sudo, or: apt-get install $packages)"
  say "Installing $packages"
  as_root apt-get update -qq
  # shellcheck disable=SC2086  # the list is meant to be split
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages < /dev/null
  packages=$(missing_packages "$1" | sort -u | paste -sd ' ')
  [ -z "$packages" ] || fail "still missing after the installation: $packages"
}

# Where the tools build with g++: what one has compiled the others do not compile again.
gcc_build=$root/build/gcc

configure() { # configure BUILD_DIR [MESON OPTION]...
  local build=$1
  shift
  # Without a warning by the compilers of Debian 12; others have warnings of their own.
  case $("${CXX:-g++}" -dumpversion) in
  12 | 12.* | 14.*) set -- -Dwerror=true "$@" ;;
  esac
  if [ ! -e "$build/build.ninja" ]; then
    say "Configuring $build"
    rm -rf "$build"
    meson setup "$build" "$root" "$@"
  fi
}

compile() { # compile BUILD_DIR [TARGET]...
  say "Building in $1"
  "$root/tools/progress.py" -C "$@"
}
