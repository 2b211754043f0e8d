#!/bin/sh
# slim.sh VENV [ROOT]: takes out of an installed environment what no image needs at run time, and
# compiles the rest, because the images run read-only and without root: Python could keep nothing.
# ROOT is what has to be cut off VENV for the path the environment will have.
set -eu
packages=$(echo "$1"/lib/python3.*/site-packages)
[ -d "$packages" ] || { echo "slim.sh: no site-packages in $1" >&2; exit 1; }
rm -rf "$1"/share/man
rm -f "$1"/.gitignore "$1"/bin/f2py "$1"/bin/numpy-config "$1"/bin/[Aa]ctivate*

# Test suites, headers, stubs. numpy.testing imports one file of numpy._core.tests.
for package in numpy pandas pyarrow grpc google; do
    [ -d "$packages/$package" ] || continue
    find "$packages/$package" -depth -type d \( -name tests -o -name include -o -name includes \) \
        ! -path '*/_core/tests' -exec rm -rf {} +
    find "$packages/$package" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' \
        -o -name '*.pxi' -o -name '*.h' -o -name '*.hpp' -o -name '*.a' \) -delete
done
[ ! -d "$packages/numpy/_core/tests" ] ||
    find "$packages/numpy/_core/tests" -mindepth 1 ! -name _natype.py -delete

# Debug information, where the build has a `strip` (12 of the 13 MB of uvloop's library).
if command -v strip >/dev/null; then
    find "$packages" -name '*.cpython-3*.so' -exec strip --strip-unneeded {} +
fi

# rich shows plain text here: of the 600 languages that could be coloured none is.
[ ! -d "$packages/pygments/lexers" ] ||
    find "$packages/pygments/lexers" -type f ! -name __init__.py ! -name _mapping.py -delete

# Kubernetes without its typed classes, 73 of 75 MB: manifests and answers are plain objects here.
# Three models are what its own informers are made of.
for part in client aio/client; do
    [ -d "$packages/kubernetes/$part" ] || continue
    find "$packages/kubernetes/$part/api" "$packages/kubernetes/$part/models" -type f \
        ! -name __init__.py ! -name v1_managed_fields_entry.py ! -name v1_object_meta.py \
        ! -name v1_owner_reference.py -delete
done
[ ! -d "$packages/kubernetes" ] || find "$packages/kubernetes" -name '*_test.py' -delete

# Arrow without remote procedures, stores of clouds and second copies of its libraries: Spark uses
# its columns only. The library of query plans stays, all others are linked with it.
for part in flight s3fs gcsfs azurefs hdfs pyarrow_cpp_tests; do
    rm -f "$packages"/pyarrow/_"$part".*.so "$packages"/pyarrow/libarrow_python_"$part".so*
done
rm -f "$packages"/pyarrow/libarrow_flight.so* "$packages"/pyarrow/libarrow_s3.so*
rm -f "$packages"/pyarrow/libarrow_python*.so "$packages"/pyarrow/libarrow_python*.so.*.*.*

# Spark without Hive, machine learning, graphs, shells and Connect. icu4j and orc-* look as idle
# and are not: without ORC, tables fail with a misleading DATA_SOURCE_ALREADY_EXISTS.
jars=$packages/pyspark/jars
if [ -d "$jars" ]; then
    rm -rf "$jars"/connect-repl "$packages"/pyspark/examples "$packages"/pyspark/data
    for jar in 'rocksdbjni-*' 'spark-connect_*' 'spark-graphx_*' 'spark-hive*' 'spark-mllib*' \
        'spark-pipelines_*' 'spark-repl_*' 'scala-compiler-*' 'jline-*' 'hive-[!s]*' 'hive-se*' \
        'hive-shims*' 'datanucleus-*' 'derby*' 'javax.jdo-*' 'jdo-api-*' 'libthrift-*' 'libfb303-*' \
        'breeze*' 'spire*' 'cats-kernel_*' 'algebra_*' 'blas-*' 'lapack-*' 'arpack*' 'JTransforms-*' \
        'JLargeArrays-*' 'pmml-*' 'netty-tcnative-*-osx-*' 'netty-tcnative-*-windows-*'; do
        # shellcheck disable=SC2086  # a pattern
        rm -f "$jars"/$jar.jar
    done
fi

python3 -m compileall -q --invalidation-mode unchecked-hash ${2:+-s "$2" -p /} "$packages" || {
    echo "slim.sh: $packages holds Python that does not compile" >&2; exit 1; }

# What was taken out must not be missed.
[ ! -d "$packages/numpy" ] || PYTHONPATH=$packages python3 -c 'import grpc, numpy.testing, rich.live'
[ ! -d "$packages/kubernetes" ] || PYTHONPATH=$packages python3 -c '
import kubernetes.aio.client, kubernetes.aio.config, kubernetes.aio.dynamic, kubernetes.dynamic
from kubernetes.client import ApiClient'
[ ! -d "$packages/pyspark" ] ||
    PYTHONPATH=$packages python3 -c 'import pandas, pyarrow.compute, pyarrow.fs, pyspark.sql.functions'
