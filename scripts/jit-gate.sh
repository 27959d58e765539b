#!/usr/bin/env bash
# Holds the plans against a server that compiles statements (LLVM), which the embedded one cannot. Takes one as Debian
# installs it (apt-get install postgresql), in a temporary folder and on a socket port of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
provider=$(ls -v /usr/lib/postgresql/*/lib/llvmjit.so 2>/dev/null | tail -1 || true)
if [ -z "$provider" ]; then
  echo 'NOT RUN: no PostgreSQL with LLVM is installed, so that nothing of ours is compiled has not been tested' >&2
  exit 0
fi
bin=$(dirname "$(dirname "$provider")")/bin
folder=$(mktemp -d)
port=$(npx node -e 'const s = require("node:net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
# The server refuses to run as root.
as_user() { if [ "$(id -u)" = 0 ]; then su postgres -s /bin/sh -c "$*"; else sh -c "$*"; fi; }
stop() {
  as_user "$bin/pg_ctl -D $folder/data -m immediate stop" >/dev/null || true
  rm -rf "$folder"
}
trap stop EXIT
if [ "$(id -u)" = 0 ]; then chown postgres "$folder"; fi
as_user "$bin/initdb -D $folder/data -A trust -U postgres" >/dev/null
as_user "$bin/pg_ctl -D $folder/data -l $folder/log -w start -o '-p $port -k $folder -c fsync=off -c max_connections=100'" >/dev/null
DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres" npx vitest run test/integration/plans/planner-settings.test.ts -t compiles
