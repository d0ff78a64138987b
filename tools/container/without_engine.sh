#!/usr/bin/env bash
# The steps of the Dockerfile without a container engine: a fresh virtual environment, a user without
# rights, the same command. It ends when the server has answered its health check.
#
#     bash tools/container/without_engine.sh [RUN] [FOLDER]
#
# Without RUN, or with base, the included base is served. It is copied, since voices are saved in it.
# Run it as root to change to an unprivileged user.
set -euo pipefail
run=${1:-base}
[ "$run" = base ] && run=$(dirname "$0")/../../myxtts/weights/base
run=$(realpath "$run")
folder=$(realpath -m "${2:-$(mktemp -d)}")
cd "$(dirname "$0")/../.."
mkdir -p "$folder/source"
chmod 755 "$folder"
cp -r pyproject.toml constraints.txt README.package.md LICENSE NOTICE.md MANIFEST.in myxtts "$folder/source"
test -x "$folder/venv/bin/python" || "${PYTHON:-python3}" -m venv "$folder/venv"
install=("$folder/venv/bin/python" -m pip install --quiet)
"${install[@]}" --require-hashes --requirement requirements/build.txt
"${install[@]}" --require-hashes --no-build-isolation --requirement requirements/serve.txt
"${install[@]}" --no-build-isolation --constraint constraints.txt "$folder/source[${EXTRAS:-serve}]"
rm -rf "$folder/run-folder"
cp -r "$run" "$folder/run-folder"

export MYXTTS_TOKEN=${MYXTTS_TOKEN:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
port=${PORT:-5002}
unprivileged=()
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$folder/run-folder"
    unprivileged=(setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs)
fi
cd /
HOME=$folder/run-folder "${unprivileged[@]}" "$folder/venv/bin/myxtts" serve --host 0.0.0.0 --port "$port" "$folder/run-folder" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server || true' EXIT
for _ in $(seq 120); do
    sleep 1
    if "$folder/venv/bin/python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/healthz', timeout=4)" 2>/dev/null; then
        echo "healthy, as the user $(ps -o user= -p $server)"
        exit 0
    fi
    kill -0 $server
done
echo "no answer after two minutes" >&2
exit 1
