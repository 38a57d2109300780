#!/bin/bash
# Installs what building (always), testing (--test), benchmarking (--bench) and `make torture` (--torture) need on Debian 12, as root or
# through sudo.
# Does nothing, and calls no package tool that needs rights, when everything is there. No service is installed or started: servers
# used as targets, and 32-bit programs, are unpacked into build/apps, build/torture and build/i386 without touching the system.
# gcc-multilib is never installed: it conflicts with every cross compiler; gcc-12-multilib does the same job.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(gcc g++ gcc-12 make gcc-12-multilib g++-12-multilib libc6-dev-i386 linux-libc-dev libzydis-dev libdw-dev libelf-dev libiberty-dev
    liblzma-dev zlib1g-dev libncurses-dev)
test_packages=(sqlite3 bash perl python3 gzip openssl musl-tools gdb binutils strace busybox-static xz-utils libc6-i386 lib32stdc++6
    util-linux procps systemtap-sdt-dev dwz libjemalloc2 liblzf1 libatomic1 libpcre2-8-0 zlib1g babeltrace2
    tmux valgrind golang-go libdevel-nytprof-perl)
bench_packages=(bpftrace uftrace linux-perf lttng-tools liblttng-ust-dev valgrind)
app_packages=(nginx redis-tools)
torture_packages=(postgresql-15 memcached mariadb-server-core mariadb-client-core ruby php8.2-cli erlang-base sbcl)
i386_packages=(sqlite3 bash perl-base python3.11-minimal libpython3.11-stdlib gzip openssl xz-utils zstd busybox-static musl musl-dev
    libstdc++6)

want_test=no want_torture=no
for option in "$@"; do
    case $option in
    --test)
        want_test=yes
        packages+=("${test_packages[@]}")
        command -v javac >/dev/null || packages+=(openjdk-17-jdk-headless) # tests bring Java as source
        command -v node >/dev/null || packages+=(nodejs)
        ;;
    --bench) packages+=("${bench_packages[@]}") ;;
    --torture) want_torture=yes ;;
    *) echo "install-deps: unknown option $option; usage: tool/install-deps.sh [--test] [--bench] [--torture]" >&2; exit 2 ;;
    esac
done

fail() {
    echo "install-deps: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "missing packages and no right to install them: run as root, or install sudo, or install by hand: ${missing[*]}"
    fi
}

quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# Libraries may be unpacked as well as installed; a package is missing unless dpkg says it is fully installed.
missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || fail "no apt-get here; install by hand: ${missing[*]}"
    echo "install-deps: installing ${missing[*]}"
    quietly as_root apt-get update -q || fail "apt-get update failed"
    quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" ||
        fail "apt-get could not install: ${missing[*]}"
fi
[ $want_test = yes ] || [ $want_torture = yes ] || exit 0

# unpack FOLDER ARCHITECTURE EXCLUDED-PATTERN PACKAGE...: the packages and all they need, without EXCLUDED-PATTERN, unpacked into FOLDER.
# apt works on a private, empty state there, so neither rights nor a foreign architecture on the system are needed.
unpack() {
    local folder=$1 architecture=$2 excluded=$3 state deb options
    shift 3
    [ "$(cat "$folder/.packages" 2>/dev/null || true)" != "$*" ] || return 0
    command -v apt-get >/dev/null || fail "no apt-get here to fetch $architecture programs: $*"
    echo "install-deps: unpacking into $folder: $*"
    rm -rf "$folder"
    mkdir -p "$folder"
    state=$(mktemp -d)
    mkdir -p "$state/lists/partial" "$state/archives/partial"
    : >"$state/status"
    options=(-q -o "Acquire::Retries=3" -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture" -o "Dir::State=$state"
        -o "Dir::State::status=$state/status" -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state"
        -o "Dir::Cache::archives=$state/archives" -o "Debug::NoLocking=1" -o "APT::Sandbox::User=")
    # An index that can not be fetched or verified is left out by apt; what then can not be found fails below.
    quietly apt-get "${options[@]}" update 2>/dev/null || echo "install-deps: some $architecture package lists are unavailable; going on without"
    quietly apt-get "${options[@]}" install -y --no-install-recommends --download-only "$@" || fail "could not fetch for $architecture: $*"
    for deb in "$state"/archives/*.deb; do
        [[ ${deb##*/} =~ $excluded ]] || dpkg-deb -x "$deb" "$folder"
    done
    rm -rf "$state"
    echo "$*" >"$folder/.packages"
}

# The C library and loader of the system run these programs, so theirs are left out.
unpack build/i386 i386 '^(libc6_|libc-bin_|debconf_|dpkg_|gcc-|cpp|binutils|libbinutils|lib[a-z]*san|libgcc-12-dev|libgprofng)' "${i386_packages[@]}"
unpack build/apps "$(dpkg --print-architecture)" '^(lib|debconf|dpkg|perl|iproute|nginx-common|adduser|passwd|tar|login)' "${app_packages[@]}"
[ $want_torture = yes ] || exit 0
# These bring their own libraries, but for those that every system has.
unpack build/torture "$(dpkg --print-architecture)" '^(libc6_|libc-bin_|libgcc-s1|gcc-|debconf|dpkg|adduser|passwd|tar_|login|systemd|dbus|init-|perl|libperl|galera)' \
    "${torture_packages[@]}"
