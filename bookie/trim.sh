#!/bin/sh
# trim.sh [bash]: takes out of an image what its program never needs and an intruder would like: package
# managers, Python's installers, perl, bash (unless it is named), what fetches files, set-uid bits.
# `sh` and the tools of a shell stay: the entry point is a script, and `kubectl exec` and `cp` need them.
set -eu
tools='apt apt-* dpkg dpkg-* update-alternatives perl perl5* pip pip3* easy_install* curl wget nc nc.* ncat
    gcc* g++* cc c++ cpp cpp-* clang* tcc as ld ld.bfd ld.gold gdb make gmake rbash bashbug clear_console'
[ "${1:-}" = bash ] || tools="$tools bash"
set -f
for tool in $tools; do
    find /bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin -xdev -maxdepth 1 \
        -name "$tool" ! -type d -delete 2>/dev/null || true
done
rm -rf /usr/lib/apt /usr/share/python-wheels /etc/apt
find / -xdev -type d \( -path '/usr/lib/python3*/ensurepip' -o -path '/usr/local/lib/python3*/ensurepip' \
    -o -path '/usr/local/lib/python3*/site-packages/pip' -o -path '/usr/lib/python3/dist-packages/pip' \) \
    -prune -exec rm -rf {} +
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
