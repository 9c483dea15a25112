#!/bin/sh
# Installs wrkbench from the archives of a release, without root, and removes it again.
# `install.sh --help` says how.
#
# Everything is in functions: if the download of this script is cut off, nothing runs.
set -eu

# Where releases are published, as owner/name.
REPOSITORY=wrkbench/wrkbench

usage() {
    cat <<USAGE
Usage: install.sh [--version VERSION] [--prefix FOLDER] [--from FOLDER_OR_URL]
       install.sh --uninstall [--prefix FOLDER]

Downloads the static binary of wrkbench for this machine, checks its SHA-256 sum, and installs it
with its manual pages, shell completions and documents. Needs no root. Linux on x86_64 and aarch64.

  --version VERSION     release to install, like 0.1.0 [default: the latest]
  --prefix FOLDER       where to install [default: ~/.local]; the program is FOLDER/bin/wrkbench
  --from FOLDER_OR_URL  where SHA256SUMS and the archives are
                        [default: WRKBENCH_FROM, or https://github.com/$REPOSITORY]
  --uninstall           remove the files and folders that this script made below FOLDER
USAGE
}

say() { printf '%s\n' "install.sh: $*"; }

fail() {
    printf '%s\n' "install.sh: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# The name of this machine's architecture in the names of archives.
architecture() {
    system=$(uname -s)
    [ "$system" = Linux ] || fail "wrkbench needs Linux, this is $system"
    machine=$(uname -m)
    case $machine in
    x86_64 | amd64) echo x86_64 ;;
    aarch64 | arm64) echo aarch64 ;;
    *) fail "there is no binary for $machine: build it from source, as docs/install.md says" ;;
    esac
}

# The folder or URL of SHA256SUMS and the archives of a version; none means the latest.
release() {
    base=https://github.com/$REPOSITORY/releases
    if [ -n "$from" ]; then
        echo "${from%/}"
    elif [ -n "$version" ]; then
        echo "$base/download/v$version"
    else
        echo "$base/latest/download"
    fi
}

# Copies the file $1, a path or a URL, to $2. Fails if it did not arrive as a whole.
get() {
    case $1 in
    https://* | http://*) ;;
    *)
        cp "$1" "$2" 2>/dev/null
        return
        ;;
    esac
    if has curl; then
        # A redirection may change the host, but not from https to http.
        curl --proto-redir =https --fail --silent --location --connect-timeout 20 \
            --output "$2" "$1"
    else
        wget -q -T 20 -O "$2" "$1"
    fi
}

# The list of what was installed: a path below $prefix on each line. That of a folder ends with a
# slash.
list() { echo "$prefix/share/doc/wrkbench/installed.txt"; }

# Prints that list before the files of folder $1 are copied to $prefix. It has all that an earlier
# installation made, and of the folders only those that are not there yet.
to_be_listed() {
    {
        cat "$(list)" 2>/dev/null || true
        printf '%s\n' bin/wrkbench ${new_bin:+bin/}
        if [ -d "$1/share" ]; then
            cd "$1"
            find share -type f
            find share -type d | while IFS= read -r path; do
                [ -d "$prefix/$path" ] || printf '%s/\n' "$path"
            done
        fi
    } | LC_ALL=C sort -u
}

# Removes what the list names. A folder in which others have put something stays.
uninstall() {
    list=$(list)
    if [ ! -e "$list" ]; then
        [ ! -e "$prefix/bin/wrkbench" ] || fail "$list is missing, so" \
            "$prefix/bin/wrkbench was not installed by this script: remove it as it was installed"
        say "nothing is installed in $prefix"
        return
    fi
    journal=${XDG_STATE_HOME:-${HOME:-}/.local/state}/wrkbench/restore/journal
    [ "$(id -u)" -ne 0 ] || journal=/var/lib/wrkbench/restore/journal
    [ ! -e "$journal" ] || fail "$journal has changes of a sweep that are not restored:" \
        "run wrkbench restore first"
    # Whatever the list says, nothing else is removed.
    paths=$(grep -E '^(bin|share)/' "$list" | grep -Ev '(^|/)\.\.(/|$)' | LC_ALL=C sort -r)
    set -f
    IFS='
'
    for path in $paths; do
        case $path in
        */) ;;
        *) rm -f "$prefix/$path" 2>/dev/null || fail "$prefix/$path cannot be removed" ;;
        esac
    done
    rm -f "$list"
    # In this order a folder comes after those in it.
    for path in $paths; do
        case $path in
        */) rmdir "$prefix/$path" 2>/dev/null || true ;;
        esac
    done
    say "removed $prefix/bin/wrkbench and what was installed with it"
}

main() {
    version='' prefix='' from=${WRKBENCH_FROM:-} action=install
    while [ $# -gt 0 ]; do
        case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --uninstall)
            action=uninstall
            shift
            ;;
        --version | --prefix | --from)
            [ -n "${2:-}" ] || fail "$1 needs a value (--help lists all options)"
            case $1 in
            --version) version=${2#v} ;;
            --prefix) prefix=$2 ;;
            --from) from=$2 ;;
            esac
            shift 2
            ;;
        *) fail "$1: unknown option (--help lists all)" ;;
        esac
    done
    # It becomes part of an address.
    case $version in
    *[!0-9A-Za-z.+-]*) fail "--version $version: is not a version (expected like 0.1.0)" ;;
    esac
    if [ -z "$prefix" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set: choose a folder with --prefix"
        prefix=$HOME/.local
    fi
    "$action"
}

install() {
    has curl || has wget || fail "needs curl or wget; on Debian: apt-get install curl"
    for tool in tar gzip sha256sum; do
        has "$tool" || fail "needs $tool, which is not on PATH"
    done
    architecture=$(architecture)
    release=$(release)
    new_bin=''
    [ -d "$prefix/bin" ] || new_bin=yes
    # Before the download: it would be in vain.
    if ! mkdir -p "$prefix/bin" 2>/dev/null || [ ! -w "$prefix/bin" ]; then
        fail "$prefix/bin cannot be written: choose another folder with --prefix"
    fi

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM

    get "$release/SHA256SUMS" "$work/SHA256SUMS" ||
        fail "there is no ${version:-latest} release at $release (or it cannot be reached)"
    # A line is a sum, two blanks (or a blank and an asterisk), a file name.
    wanted="wrkbench-${version:-*}-$architecture-linux-musl.tar.gz"
    sum='' archive=''
    while read -r line_sum line_name; do
        line_name=${line_name#\*}
        # shellcheck disable=SC2254 # a pattern if there is no version
        case $line_name in
        */*) ;;
        $wanted) sum=$line_sum archive=$line_name ;;
        esac
    done <"$work/SHA256SUMS"
    [ -n "$archive" ] || fail "$release/SHA256SUMS does not name $wanted"

    say "downloading $release/$archive"
    get "$release/$archive" "$work/$archive" ||
        fail "$release/$archive could not be downloaded completely: nothing was installed"
    found=$(sha256sum "$work/$archive" | cut -d' ' -f1)
    [ "$found" = "$sum" ] || fail "$archive has the SHA-256 sum $found," \
        "SHA256SUMS says $sum: nothing was installed"
    tar -xzf "$work/$archive" -C "$work" || fail "$archive cannot be unpacked"
    unpacked=$work/${archive%.tar.gz}
    [ -f "$unpacked/bin/wrkbench" ] || fail "$archive contains no bin/wrkbench"

    installed=$(to_be_listed "$unpacked")
    # A running wrkbench keeps its file; others never see half a program.
    new=$prefix/bin/.wrkbench.$$
    trap 'rm -rf "$work" "$new"' EXIT
    cp "$unpacked/bin/wrkbench" "$new" || fail "$prefix/bin: the program cannot be written"
    chmod 755 "$new"
    about=$("$new" --version) || fail "the program does not run on this machine"
    mv -f "$new" "$prefix/bin/wrkbench"
    if mkdir -p "$prefix/share/doc/wrkbench" 2>/dev/null &&
        printf '%s\n' "$installed" 2>/dev/null >"$(list)"; then
        [ ! -d "$unpacked/share" ] || cp -R "$unpacked/share/." "$prefix/share/" 2>/dev/null ||
            say "$prefix/share cannot be written: some manual pages and documents are missing"
    else
        say "$prefix/share cannot be written: no manual pages and no completions, and" \
            "--uninstall cannot be used"
    fi

    say "installed $prefix/bin/wrkbench ($about)"
    case :${PATH:-}: in
    *":$prefix/bin:"*) ;;
    *) say "$prefix/bin is not on PATH: add it in the profile of your shell" ;;
    esac
}

main "$@"
