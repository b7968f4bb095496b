#!/bin/sh
# A member of a cluster of MariaDB, whose first one begins with the files that mariadb-install-db has made; others get theirs from it, by rsync.
#   galera.sh ADDRESS [--wsrep-new-cluster]
set -e
if [ ! -d data ]; then
    if [ -n "$2" ]; then cp -r "$MARIADB/data" data; else mkdir data; fi
    chown -R nobody data
fi
PATH=$MARIADB/usr/bin:$PATH exec "$MARIADB/usr/sbin/mariadbd" --no-defaults --user=nobody --basedir="$MARIADB/usr" --lc-messages-dir="$MARIADB/usr/share/mysql" \
    --datadir="$PWD/data" --socket=/tmp/mariadb.sock --pid-file=/tmp/mariadb.pid --bind-address=0.0.0.0 --skip-grant-tables --skip-name-resolve \
    --innodb-buffer-pool-size=16M --innodb-log-file-size=4M --innodb-data-file-path=ibdata1:4M:autoextend --innodb-use-native-aio=0 \
    --innodb-flush-log-at-trx-commit=1 --innodb-snapshot-isolation=ON --innodb-autoinc-lock-mode=2 --binlog-format=ROW \
    --wsrep-on=ON --wsrep-provider="$MARIADB/usr/lib/galera/libgalera_smm.so" --wsrep-cluster-address=gcomm://10.0.0.1,10.0.0.2,10.0.0.3 \
    --wsrep-node-address="$1" --wsrep-sst-method=rsync $2
