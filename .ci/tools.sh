#!/usr/bin/env bash
# The programs of others that jaxobs is proven against, each at one pinned version, built from the Go module proxy.
#   .ci/tools.sh NAME…    builds what is missing and prints the path of each program
#   .ci/tools.sh --list   the names and versions
# Each is built in its own module, as its authors build it, so that the replace lines of its go.mod hold (`go install`
# refuses them). Nothing is written into the checkout: programs lie in $JAXOBS_TOOLS (default: ~/.cache/jaxobs/tools).
set -euo pipefail

# name, module, version, package in the module, and the module's sum where the checksum database does not have it.
# Newer dashboard-linters need github.com/grafana/grafana/apps/dashboard, which the Go module proxy does not serve.
PINS='
collector-builder  go.opentelemetry.io/collector/cmd/builder   v0.155.0  .
dashboard-linter   github.com/grafana/dashboard-linter         v0.0.0-20231114210226-c458893a5731  .  h1:DfFbnpd1251Pe5vR/J/CBXsCJJM6N0nt+odU/8EPwwQ=
helm               helm.sh/helm/v3                             v3.22.0   ./cmd/helm
jaeger             github.com/jaegertracing/jaeger             v1.76.0   ./cmd/all-in-one
kubeconform        github.com/yannh/kubeconform                v0.8.0    ./cmd/kubeconform
pint               github.com/cloudflare/pint                  v0.87.0   ./cmd/pint
prometheus         github.com/prometheus/prometheus            v0.316.0  ./cmd/prometheus
promtool           github.com/prometheus/prometheus            v0.316.0  ./cmd/promtool
'
here="$(cd "$(dirname "$0")" && pwd)"
tools="${JAXOBS_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/jaxobs/tools}"

pin() { awk -v name="$1" '$1 == name { print $2, $3, $4, $5 }' <<<"$PINS"; }

need_go() {
  command -v go >/dev/null || {
    echo "jaxobs: no Go found, and $1 is built with it: install Go 1.26 or newer from https://go.dev/dl/" >&2
    exit 3
  }
}

module_folder() { # module, version, sum where it has one here: where Go keeps its files
  local answer; answer="$(cd / && GOWORK=off GONOSUMDB="${3:+$1}" go mod download -json "$1@$2" || true)"
  local folder; folder="$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$answer")"
  [ -n "$folder" ] || { echo "jaxobs: $1@$2 could not be downloaded: $answer" >&2; exit 1; }
  [ -z "${3:-}" ] || grep -qF "\"Sum\": \"$3\"" <<<"$answer" || { echo "jaxobs: $1@$2 has another sum than $3" >&2; exit 1; }
  echo "$folder"
}

build() { # name: its path, after it was built
  local name="$1" module version package sum
  read -r module version package sum <<<"$(pin "$name")"
  [ -n "$module" ] || { echo "jaxobs: no tool is called $name: .ci/tools.sh --list" >&2; exit 2; }
  local program="$tools/$name-$version"
  local tags=
  [ "$name" != prometheus ] || tags=remove_all_sd # without the clouds' service discoveries it builds in half the time
  if [ ! -x "$program" ]; then
    need_go "$name"
    local source; source="$tools/source/${module//\//_}@$version"
    local downloaded; downloaded="$(module_folder "$module" "$version" "$sum")"
    mkdir -p "$source"
    cp -r "$downloaded/." "$source"
    chmod -R u+w "$source"
    (cd "$source" && GOWORK=off CGO_ENABLED=0 go build -mod=mod -trimpath -tags "$tags" -o "$program.draft" "$package" >&2)
    mv "$program.draft" "$program"
    rm -rf "$source"
  fi
  echo "$program"
}

# The OpenTelemetry Collector with the components that deploy/collector/config.yaml names, by its own builder.
collector() {
  local manifest="$here/collector.yaml"
  local sum; sum="$(sha256sum "$manifest" | cut -c1-12)"
  local program="$tools/collector-$sum"
  if [ ! -x "$program" ]; then
    need_go collector
    local builder; builder="$(build collector-builder)"
    local source="$tools/source/collector-$sum"
    mkdir -p "$source"
    sed "s|output_path: .*|output_path: $source|" "$manifest" >"$source.yaml"
    GOWORK=off "$builder" --config "$source.yaml" --skip-strict-versioning >&2
    mv "$source/collector" "$program"
    rm -rf "$source" "$source.yaml"
  fi
  echo "$program"
}

# Packages of the npm registry, as a folder's package-lock.json pins them: the path of their package.json.
npm_packages() { # name, folder in the checkout, what they are for
  local manifest="$here/../$2"
  local sum; sum="$(sha256sum "$manifest/package-lock.json" | cut -c1-12)"
  local folder="$tools/$1-$sum"
  if [ ! -d "$folder" ]; then
    { command -v node && command -v npm; } >/dev/null || {
      echo "jaxobs: no Node found, and $3 in it: apt install nodejs npm (18 or newer)" >&2
      exit 3
    }
    rm -rf "$folder.draft"
    mkdir -p "$folder.draft"
    cp "$manifest/package.json" "$manifest/package-lock.json" "$folder.draft"
    npm ci --prefix "$folder.draft" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    mv "$folder.draft" "$folder"
  fi
  echo "$folder/package.json"
}

# A folder of JSON schemas for kubeconform, so that it needs no network.
kubernetes_schemas() {
  local kubernetes=v1.34.1 operator=v0.85.0 jobset=v0.10.1
  local folder="$tools/kubernetes-schemas-$kubernetes-$operator-$jobset"
  if [ ! -d "$folder" ]; then
    need_go kubernetes-schemas
    local api; api="$(module_folder k8s.io/kubernetes "$kubernetes")"
    local crds; crds="$(module_folder github.com/prometheus-operator/prometheus-operator "$operator")"
    local jobsets; jobsets="$(module_folder sigs.k8s.io/jobset "$jobset")"
    rm -rf "$folder.draft"
    "$here/../.venv/bin/python" "$here/kubernetes_schemas.py" "$folder.draft" "$api/api/openapi-spec/swagger.json" \
      "$crds/jsonnet/prometheus-operator/podmonitors-crd.json" \
      "$crds/jsonnet/prometheus-operator/prometheusrules-crd.json" \
      "$jobsets/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
    mv "$folder.draft" "$folder"
  fi
  echo "$folder"
}

if [ "${1:-}" = --list ]; then
  awk 'NF { print $1, $3 }' <<<"$PINS"
  echo "collector $(sed -n 's/^ *version: //p' "$here/collector.yaml" | head -1)"
  echo "grafana-data $(sed -n 's/.*"@grafana\/data": "\(.*\)".*/\1/p' "$here/../tests/grafana/node/package.json")"
  sed -n 's/^ *"\(playwright-core\|axe-core\)": "\(.*\)".*/\1 \2/p' "$here/../tests/page/node/package.json"
  exit
fi
[ $# -gt 0 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$tools"
for name in "$@"; do
  case "$name" in
    collector) collector ;;
    grafana-data) npm_packages grafana-data tests/grafana/node "Grafana's code runs" ;;
    page-browser) npm_packages page-browser tests/page/node "what drives the browser runs" ;;
    kubernetes-schemas) kubernetes_schemas ;;
    *) build "$name" ;;
  esac
done
