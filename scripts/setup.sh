#!/bin/sh
# Everything a fresh clone needs: Java, uv (in .tools), the locked packages (in .venv), the jars of Spark's table
# formats (in the user's cache). A second call finds it all there. It downloads no Python: it uses the one you have,
# or the one you name (PYTHON=/path/to/python3.12 make setup).
set -eu
cd "$(dirname "$0")/.."

UV_VERSION=0.13.7

log() { printf '  %s\n' "$*"; }
fail() { printf 'make setup: %s\n' "$*" >&2; exit 1; }
root_on_debian() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    log "apt-get install $*"
    apt-get update -qq >/dev/null 2>&1 || true # a stale list may still hold the package
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

java_is_new_enough() {
    # "17.0.15" is 17, "1.8.0_402" is 1: both compare as they should.
    major=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/^.* version "\([0-9]*\).*$/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

need_java() {
    java_is_new_enough && return
    if [ -n "${JAVA_HOME:-}" ]; then
        fail "JAVA_HOME is $JAVA_HOME, which holds no Java 17 or newer; point it at one, or unset it."
    fi
    if root_on_debian && apt_install openjdk-17-jre-headless && java_is_new_enough; then return; fi
    case "$(uname -s)" in
        Darwin) fail "Spark needs Java 17 or newer, and there is none; install it with: brew install openjdk@17" ;;
        *) fail "Spark needs Java 17 or newer, and there is none; install it with: sudo apt-get install -y openjdk-17-jre-headless" ;;
    esac
}

usable() { # pyenv leaves names on the PATH that only fail: run it to know
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

need_python() {
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.10; do
        if usable "$candidate"; then
            python=$("$candidate" -c 'import sys; print(sys.executable)')
            return
        fi
        [ "$candidate" = "${PYTHON:-}" ] && fail "PYTHON=$PYTHON is no Python 3.10 to 3.13."
    done
    fail "no Python 3.10 to 3.13 is on the PATH; install one (Debian: sudo apt-get install -y python3 python3-venv)."
}

need_uv() {
    [ -x .tools/bin/uv ] && [ "$(.tools/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" = "$UV_VERSION" ] && return
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        if ! { root_on_debian && apt_install python3-venv && "$python" -c 'import ensurepip' >/dev/null 2>&1; }; then
            fail "$python has no venv module; install it with: sudo apt-get install -y python3-venv"
        fi
    fi
    log "uv $UV_VERSION into .tools"
    rm -rf .tools # a half-made one from an interrupted set-up
    "$python" -m venv .tools
    .tools/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
}

need_java
need_python
need_uv

log "packages from uv.lock into .venv, for $("$python" --version)"
unset VIRTUAL_ENV # another project's environment must not be filled by accident
UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_PROJECT_ENVIRONMENT=.venv .tools/bin/uv sync --quiet --frozen --all-extras --python "$python"

log "jars of Delta, checked against their sha256"
.venv/bin/python -m twice.engine.session.jars >/dev/null

log "class-data archive, for a quick start of Spark"
.venv/bin/python -m twice.engine.train_archive >/dev/null
