#!/bin/sh
# Starts five servers on loopback, each with one process or thread on the first core and the same
# response: servers.sh start FOLDER, and servers.sh stop FOLDER. Debian's packages nginx, apache2,
# nodejs, caddy and curl, and the program in hyper/ (cargo build --release).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
action=${1:?usage: servers.sh start|stop FOLDER}
folder=${2:?usage: servers.sh start|stop FOLDER}

on_first_core() {
    taskset -c 0 "$@" >>"$folder/log" 2>&1 &
    echo $! >>"$folder/pids"
}

start() {
    mkdir -p "$folder/www"
    : >"$folder/pids"
    printf 'Hello, World!' >"$folder/www/index.html"
    cat >"$folder/nginx.conf" <<NGINX
daemon off; master_process off; pid $folder/nginx.pid; error_log $folder/log;
events { worker_connections 4096; }
http {
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
    client_body_temp_path $folder/a; proxy_temp_path $folder/b; fastcgi_temp_path $folder/c;
    uwsgi_temp_path $folder/d; scgi_temp_path $folder/e; default_type text/plain;
    server { listen 127.0.0.1:8101 backlog=4096; location / { return 200 "Hello, World!"; } }
}
NGINX
    cat >"$folder/apache.conf" <<APACHE
ServerRoot $folder
PidFile $folder/apache.pid
ErrorLog $folder/log
ServerName localhost
Listen 127.0.0.1:8102
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
StartServers 1
ServerLimit 1
ThreadsPerChild 64
ThreadLimit 64
MaxRequestWorkers 64
AsyncRequestWorkerFactor 16
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 3600
DocumentRoot $folder/www
DirectoryIndex index.html
APACHE
    cat >"$folder/server.js" <<'NODE'
const http = require('http');
const headers = { 'content-type': 'text/plain', 'content-length': 13 };
const server = http.createServer((request, response) => {
  response.writeHead(200, headers);
  response.end('Hello, World!');
});
server.keepAliveTimeout = 3600000;
server.listen(8103, '127.0.0.1');
NODE
    cat >"$folder/Caddyfile" <<'CADDY'
{
    admin off
    auto_https off
}
http://127.0.0.1:8104 {
    respond "Hello, World!"
}
CADDY
    # nginx and Apache give up root for users that may not exist, so they are told to keep it.
    if [ "$(id -u)" -eq 0 ]; then
        sed -i '1s/^/user root; /' "$folder/nginx.conf"
        printf 'User www-data\nGroup www-data\n' >>"$folder/apache.conf"
        chmod 755 "$folder" "$folder/www"
    fi
    on_first_core nginx -c "$folder/nginx.conf"
    on_first_core apache2 -f "$folder/apache.conf" -D FOREGROUND
    on_first_core node "$folder/server.js"
    on_first_core env GOMAXPROCS=1 HOME="$folder" \
        caddy run --config "$folder/Caddyfile" --adapter caddyfile
    on_first_core "$here/hyper/target/release/board-hyper" 8105
    for port in 8101 8102 8103 8104 8105; do
        curl --silent --fail --output /dev/null --retry 20 --retry-delay 1 --retry-connrefused \
            "http://127.0.0.1:$port/" || {
            echo "servers.sh: no server on port $port (see $folder/log)" >&2
            stop
            exit 1
        }
    done
}

stop() {
    [ -r "$folder/pids" ] || exit 0
    while read -r pid; do
        kill "$pid" 2>/dev/null || :
    done <"$folder/pids"
}

case $action in
start | stop) "$action" ;;
*) echo "servers.sh: unknown action $action (expected start or stop)" >&2; exit 1 ;;
esac
