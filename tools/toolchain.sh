# Sourced by ./check and ./demo: finds a Rust toolchain that is new enough, and servers to test with, or installs them.
#
#   need_rust            cargo and a linker
#   need_rust checking   the same with rustfmt and clippy
#   need_servers         a Redis or Valkey server, and what the module needs to be built
#   has_valkey           whether the second server can be run, if one is named
#
# What is on the machine is used as it is if it is new enough. Otherwise, on Debian and Ubuntu: the C linker from
# apt, and the toolchain from rustup, itself from apt where it is packaged and from rustup.rs elsewhere. The least
# version is `rust-version` in Cargo.toml; to check, that which lints and format are written for, CHECKED_WITH. No linker is set: since Rust 1.90 the default is the bundled lld, and
# another choice here would make ./check and plain `cargo` build everything anew for each other.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# What rustfmt and clippy, which change with every version, are to be of: this one or a later one. It is what is installed, too.
CHECKED_WITH=1.95

# rust_version [checking]: the least version.
rust_version() {
    if [ "${1:-}" = checking ]; then echo "$CHECKED_WITH"; else sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; fi
}

# Whether the version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

cargo_version() { cargo --version 2>/dev/null | cut -d ' ' -f 2; }

has_rust() {
    local found
    found=$(cargo_version)
    [ -n "$found" ] && at_least "$found" "$(rust_version "${1:-}")" || return 1
    [ "${1:-}" != checking ] || { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1
}

apt_install() {
    local sudo=()
    command -v apt-get >/dev/null || die "please install $* by hand: there is no apt-get here"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "please run as root: apt-get install $*"
        sudo=(sudo)
    fi
    say "installing $*"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" \
        </dev/null >&2 && return
    "${sudo[@]}" apt-get update -q </dev/null >&2 || return 1
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" \
        </dev/null >&2
}

install_rustup() {
    if command -v apt-get >/dev/null && apt_install rustup && command -v rustup >/dev/null; then
        return
    fi
    command -v curl >/dev/null || apt_install curl ca-certificates || die "cannot install curl"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs </dev/null \
        | sh -s -- -y --profile minimal --default-toolchain none --no-modify-path >&2 || true
    command -v rustup >/dev/null || die "cannot install rustup; install Rust $CHECKED_WITH or newer by hand" \
        "(https://rustup.rs), then run this again"
}

need_rust() {
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    export PATH
    command -v cc >/dev/null || apt_install gcc libc6-dev || die "cannot install a C linker (cc)"
    has_rust "${1:-}" && return
    local wanted found
    wanted=$CHECKED_WITH
    found=$(cargo_version)
    [ -z "$found" ] || say "cargo $found is too old or incomplete; Rust $wanted, with rustfmt and clippy, is installed"
    command -v rustup >/dev/null || install_rustup
    RUSTUP_TOOLCHAIN=$wanted
    export RUSTUP_TOOLCHAIN
    rustup toolchain install "$wanted" --profile minimal --component rustfmt --component clippy </dev/null >&2 \
        || die "rustup cannot install Rust $wanted; install it or a newer one by hand, then run this again"
    # A cargo of the distribution may stand before rustup's in the path.
    has_rust "${1:-}" || PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    has_rust "${1:-}" || PATH="$(dirname "$(rustup which cargo)"):$PATH"
    has_rust "${1:-}" || die "cargo is $(cargo_version) still; $wanted is needed. Is another cargo first in PATH?"
}

# Whether there is a server: the one in CLARET_SERVER, else redis-server in the PATH.
has_server() { command -v "${CLARET_SERVER:-redis-server}" >/dev/null; }

# Whether the second server can be run, if one is named in CLARET_VALKEY.
has_valkey() {
    [ -z "${CLARET_VALKEY:-}" ] || command -v "$CLARET_VALKEY" >/dev/null \
        || die "CLARET_VALKEY names $CLARET_VALKEY, which cannot be run"
}

# Whether the module's build finds libclang, which reads the server's header: as `libclang.so` or `libclang-14.so`, its
# version behind it or not. libclang-cpp is another library, and llvm-config comes without either.
has_libclang() {
    local folder folders=(/usr/lib /usr/lib64 /usr/lib/*-linux-gnu /usr/lib/llvm-*/lib /usr/local/lib)
    # Where LIBCLANG_PATH names the file itself, that one.
    [ -z "${LIBCLANG_PATH:-}" ] || folders=("$LIBCLANG_PATH" "${LIBCLANG_PATH%/*}")
    for folder in "${folders[@]}"; do
        if compgen -G "$folder/libclang.so*" >/dev/null || compgen -G "$folder/libclang-[0-9]*.so*" >/dev/null; then
            return
        fi
    done
    return 1
}

# Debian and Ubuntu start a redis-server as a service when it is installed, where they start services at all. Nothing
# here uses that one or minds it: tests start their own, on ports of their own.
need_servers() {
    local missing=()
    if ! has_server; then
        [ -z "${CLARET_SERVER:-}" ] || die "CLARET_SERVER names $CLARET_SERVER, which cannot be run"
        missing+=(redis-server)
    fi
    has_libclang || missing+=(libclang-dev)
    [ "${#missing[@]}" = 0 ] || apt_install "${missing[@]}" || die "cannot install ${missing[*]}"
    has_server || die "there is no redis-server still; install one, or name one in CLARET_SERVER"
}
